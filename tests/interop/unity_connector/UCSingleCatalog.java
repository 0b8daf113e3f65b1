package io.unitycatalog.spark;

import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.delta.catalog.DeltaCatalog;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A catalog under the name of Unity Catalog's connector, which no registry has. delta-spark asks for this name, and then
 * uses its own client of the Delta API for everything that concerns a managed table.
 */
public class UCSingleCatalog extends DeltaCatalog {
  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    super.initialize(name, options);
    setDelegateCatalog(new Nothing(name));
  }

  /** A catalog with every namespace and no table. */
  public static class Nothing implements TableCatalog, SupportsNamespaces {
    private final String name;

    public Nothing(String name) {
      this.name = name;
    }

    @Override
    public void initialize(String name, CaseInsensitiveStringMap options) {}

    @Override
    public String name() {
      return name;
    }

    @Override
    public Identifier[] listTables(String[] namespace) {
      return new Identifier[0];
    }

    @Override
    public Table loadTable(Identifier ident) throws NoSuchTableException {
      throw new NoSuchTableException(ident);
    }

    @Override
    public Table createTable(Identifier ident, StructType schema, Transform[] partitions, Map<String, String> properties) {
      throw new UnsupportedOperationException("createTable");
    }

    @Override
    public Table alterTable(Identifier ident, TableChange... changes) {
      throw new UnsupportedOperationException("alterTable");
    }

    @Override
    public boolean dropTable(Identifier ident) {
      return false;
    }

    @Override
    public void renameTable(Identifier from, Identifier to) {
      throw new UnsupportedOperationException("renameTable");
    }

    @Override
    public String[][] listNamespaces() {
      return new String[0][];
    }

    @Override
    public String[][] listNamespaces(String[] namespace) {
      return new String[0][];
    }

    @Override
    public Map<String, String> loadNamespaceMetadata(String[] namespace) {
      return Map.of();
    }

    @Override
    public void createNamespace(String[] namespace, Map<String, String> metadata) {}

    @Override
    public void alterNamespace(String[] namespace, NamespaceChange... changes) {}

    @Override
    public boolean dropNamespace(String[] namespace, boolean cascade) {
      return false;
    }
  }
}
