"""Builders of `DeltaTable.create` and related methods: a table defined column by column, with delta-spark's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types
from typing_extensions import Self

from slackwater.errors import InvalidArgument, TableAlreadyExists, TableNotFound, UnsupportedFeature, WrongArgumentType
from slackwater.html.number_format import counted
from slackwater.log.table import Table
from slackwater.protocol.features.identity_columns import HIGH_WATER_MARK, IdentityColumn
from slackwater.protocol.features.managed_commits import kept_properties
from slackwater.protocol.features.write_expressions import checks
from slackwater.protocol.properties.properties import (
    HAS_DROPPED_OR_RENAMED,
    MATERIALIZED_ROW_COMMIT_VERSION,
    MATERIALIZED_ROW_ID,
    MAX_COLUMN_ID,
    REQUIRE_CHECKPOINT_PROTECTION,
    split_properties,
)
from slackwater.protocol.schema.column_paths import format_column_path
from slackwater.protocol.schema.schema import (
    COMMENT,
    CURRENT_DEFAULT,
    GENERATION_EXPRESSION,
    LONG,
    StructField,
    StructType,
    as_nullable,
    without_metadata,
)
from slackwater.protocol.schema_changes.merge_schema import without_internal_metadata
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.catalog.registration import register_table, unregister_table
from slackwater.spark.catalog.resolve import LakeName, lake_name_of, parts_of, path_in_parts
from slackwater.spark.catalog.session_catalog import entry_of
from slackwater.spark.session.argument_checks import parsed_type, text_argument, with_known_collations
from slackwater.spark.session.settings import SessionSettings
from slackwater.spark.session.types import from_spark_schema, to_spark_schema
from slackwater.spark.storage.stores import table_at
from slackwater.spark.write.operation_info import definition_parameters
from slackwater.spark.write.overwrite_scope import whole_table
from slackwater.spark.write.table_expressions import validate_constraint, validate_generation
from slackwater.spark.writer.save import newest_snapshot
from slackwater.storage.location import parse_location
from slackwater.storage.store import ObjectStore
from slackwater.transaction.clock import Clock
from slackwater.transaction.commit.factory import begin_table
from slackwater.transaction.definition import TableDefinition, define_table
from slackwater.transaction.rows.file_action_rows import as_removes
from slackwater.transaction.table.alteration import clustering_columns

T = TypeVar("T")

_OF_ONE_TABLE = frozenset(
    key.lower()
    for key in (
        HAS_DROPPED_OR_RENAMED,
        MATERIALIZED_ROW_COMMIT_VERSION,
        MATERIALIZED_ROW_ID,
        MAX_COLUMN_ID,
        REQUIRE_CHECKPOINT_PROTECTION,
    )
)


@dataclass
class IdentityGenerator:
    """The values of an identity column: `start`, `start + step`, …; `step` may be negative, and must not be 0.

    >>> key = slackwater.IdentityGenerator(start=10, step=5)
    >>> builder = slackwater.DeltaTable.create(spark).location(path)
    >>> table = builder.addColumn("key", "BIGINT", generatedAlwaysAs=key).addColumn("v", "STRING").execute()
    >>> spark.createDataFrame([("a",), ("b",)], "v STRING").write.format("delta").mode("append").save(path)
    >>> sorted((row.key >= 10, row.key % 5, row.v) for row in table.toDF().collect())
    [(True, 0, 'a'), (True, 0, 'b')]
    """

    start: int = 1
    step: int = 1


@dataclass(frozen=True)
class BuildMode:
    """Behaviour of `execute` for an existing and for a missing table."""

    operation: str
    if_exists: str
    if_missing: str = "create"


CREATE = BuildMode("CREATE TABLE", "error")
CREATE_IF_NOT_EXISTS = BuildMode("CREATE TABLE", "keep")
REPLACE = BuildMode("REPLACE TABLE", "replace", "error")
CREATE_OR_REPLACE = BuildMode("CREATE OR REPLACE TABLE", "replace")


class DeltaTableBuilder(Generic[T]):
    """A table to create or replace. Each call extends and returns the builder, `execute` does the work.

    >>> builder = slackwater.DeltaTable.createIfNotExists(spark).location(path).comment("all flights")
    >>> builder = builder.addColumn("day", "DATE").addColumn("carrier", "STRING", nullable=False).partitionedBy("day")
    >>> builder.property("delta.enableDeletionVectors", "true").execute().toDF().columns
    ['day', 'carrier']
    """

    def __init__(self, spark: SparkSession, mode: BuildMode, table: Callable[[SparkSession, Table], T]) -> None:
        self._spark = spark
        self._mode = mode
        self._table = table
        self._path: str | None = None
        self._name: tuple[str, ...] | None = None
        self._columns: list[StructField] = []
        self._partition_by: tuple[str, ...] = ()
        self._cluster_by: tuple[str, ...] | None = None
        self._properties: dict[str, str] = {}
        self._comment: str | None = None

    def __repr__(self) -> str:
        place = self._path if self._name is None else ".".join(self._name)
        of = counted(len(self._columns), "column")
        return f"<{type(self).__name__} {self._mode.operation} {place or 'of no place yet'}: {of}; execute() makes it>"

    def tableName(self, identifier: str) -> Self:
        """Set the table's name: `identifier` is ``delta.`/path` ``, or a name in the session's catalog or a lake.

        The lake must be attached to the session. Raises InvalidArgument for an invalid name.

        >>> builder = slackwater.DeltaTable.create(spark).tableName(f"delta.`{path}`").addColumn("id", "INT")
        >>> builder.execute().toDF().columns
        ['id']
        """
        parts = parts_of(text_argument("identifier", identifier))
        path = path_in_parts(parts)
        self._path, self._name = (self._path, parts) if path is None else (path, None)
        return self

    def location(self, location: str) -> Self:
        """Set the table's location to `location`, a directory or URL. Raises InvalidArgument unless it is a text.

        >>> slackwater.DeltaTable.create(spark).location(path).addColumn("id", "INT").execute().toDF().count()
        0
        """
        self._path = text_argument("location", location)
        return self

    def _in(self, name: tuple[str, ...], location: str | None) -> Self:
        """Set the parsed name and location, like `tableName` and `location`."""
        self._name, self._path = name, location
        return self

    @property
    def _schema(self) -> StructType:
        """The columns so far."""
        return StructType(tuple(self._columns))

    def _set_default(self, column: str, expression: str) -> None:
        """Set the default value of the added `column` to the SQL text `expression`.

        Also adds the table feature required for defaults.
        """
        at = next(at for at, each in enumerate(self._columns) if each.name == column)
        there = self._columns[at]
        self._columns[at] = replace(there, metadata={**there.metadata, CURRENT_DEFAULT: expression})
        self._properties.setdefault("delta.feature.allowColumnDefaults", "supported")

    def _like(self, other: Snapshot) -> None:
        """Copy columns, partitioning, clustering, description and properties of another table."""
        metadata = other.metadata
        self._columns = list(_as_of_nobody(other.schema))
        self._partition_by = tuple(metadata.partition_columns)
        clustered = clustering_columns(other)
        if clustered:
            self._cluster_by = tuple(format_column_path(path) for path in clustered)
        self._comment = metadata.description
        kept = kept_properties(metadata.configuration)
        found = {k: v for k, v in metadata.configuration.items() if k not in kept and k.lower() not in _OF_ONE_TABLE}
        if other.configuration.supports("allowColumnDefaults"):
            found["delta.feature.allowColumnDefaults"] = "supported"
        self._properties = found

    def comment(self, comment: str) -> Self:
        """Set the table's description to the text `comment`. Raises InvalidArgument unless it is a text.

        >>> builder = slackwater.DeltaTable.create(spark).location(path).addColumn("id", "INT").comment("all flights")
        >>> builder.execute().detail().first().description
        'all flights'
        """
        self._comment = text_argument("comment", comment)
        return self

    def addColumn(
        self,
        colName: str,
        dataType: str | spark_types.DataType,
        nullable: bool = True,
        generatedAlwaysAs: str | IdentityGenerator | None = None,
        generatedByDefaultAs: IdentityGenerator | None = None,
        comment: str | None = None,
    ) -> Self:
        """Add the column `colName`. `dataType` is a Spark type or its DDL text.

        `nullable` False: the column is NOT NULL. `comment`: its description, None for none. `generatedAlwaysAs`: a SQL
        expression over other columns, or an IdentityGenerator. `generatedByDefaultAs`: an IdentityGenerator, with
        explicit values allowed in rows. Raises InvalidArgument, also for both generators, and UnsupportedFeature for an
        identity column of a type other than BIGINT.

        >>> builder = slackwater.DeltaTable.create(spark).location(path).addColumn("at", "TIMESTAMP", nullable=False)
        >>> builder.addColumn("day", "DATE", generatedAlwaysAs="CAST(at AS DATE)").execute().toDF().columns
        ['at', 'day']
        """
        if not isinstance(nullable, bool):
            raise WrongArgumentType(f"nullable must be True or False, found {nullable!r}")
        spark_field = spark_types.StructField(text_argument("colName", colName), parsed_type(dataType), nullable)
        (column,) = from_spark_schema(with_known_collations(self._spark, spark_types.StructType([spark_field])))
        metadata: dict[str, Any] = dict(column.metadata)
        if comment is not None:
            metadata[COMMENT] = text_argument("comment", comment)
        metadata |= _generation(column, generatedAlwaysAs, generatedByDefaultAs)
        self._columns.append(replace(column, metadata=metadata))
        return self

    def addColumns(self, cols: spark_types.StructType | list[spark_types.StructField]) -> Self:
        """Add the fields `cols`, a StructType or a list of StructFields. Raises InvalidArgument for anything else.

        >>> rows = spark.createDataFrame([(1, "a")], "id INT, v STRING")
        >>> slackwater.DeltaTable.create(spark).location(path).addColumns(rows.schema).execute().toDF().columns
        ['id', 'v']
        """
        fields = list(cols.fields) if isinstance(cols, spark_types.StructType) else cols
        if not isinstance(fields, list) or not all(isinstance(f, spark_types.StructField) for f in fields):
            raise WrongArgumentType(f"cols must be a StructType or a list of StructFields, found {cols!r}")
        self._columns += from_spark_schema(with_known_collations(self._spark, spark_types.StructType(fields)))
        return self

    def partitionedBy(self, *cols: str | list[str] | tuple[str, ...]) -> Self:
        """Partition the table by the top-level columns `cols`, given one by one or in a list.

        Raises InvalidArgument for values that are not names.

        >>> builder = slackwater.DeltaTable.create(spark).location(path).addColumn("day", "DATE").addColumn("n", "INT")
        >>> builder.partitionedBy("day").execute().detail().first().partitionColumns
        ['day']
        """
        self._partition_by = _names("partitionedBy", cols)
        return self

    def clusterBy(self, *cols: str | list[str] | tuple[str, ...]) -> Self:
        """Cluster the table by the columns `cols`, given one by one or in a list. Dotted paths address nested columns.

        Raises InvalidArgument for values that are not names.

        >>> builder = slackwater.DeltaTable.create(spark).location(path).addColumn("day", "DATE").addColumn("n", "INT")
        >>> builder.clusterBy("day", "n").execute().detail().first().clusteringColumns
        ['day', 'n']
        """
        self._cluster_by = _names("clusterBy", cols)
        return self

    def property(self, key: str, value: str) -> Self:
        """Set the table property `key` to `value`, both texts. Raises InvalidArgument if one is not a text.

        >>> builder = slackwater.DeltaTable.create(spark).location(path).addColumn("id", "INT")
        >>> builder.property("delta.appendOnly", "true").execute().detail().first().properties
        {'delta.appendOnly': 'true'}
        """
        self._properties[text_argument("key", key)] = text_argument("value", value)
        return self

    def execute(self) -> T:
        """Create or replace the table. Also raises the errors of every commit.

        Raises:
            TableAlreadyExists: If there is a table, and it must not be replaced.
            TableNotFound: If there is no table to replace.
            InvalidArgument: If the definition is not valid.
            UnsupportedFeature: If the definition needs an unsupported feature.

        >>> table = slackwater.DeltaTable.create(spark).location(path).addColumn("id", "INT").execute()
        >>> [row.operation for row in table.history().collect()]
        ['CREATE TABLE']
        """
        if self._name is not None:
            return self._execute_named(self._name)
        if self._path is None:
            raise InvalidArgument(
                "the table has no location. Call location(path), or tableName(name)",
                error_class="DELTA_CREATE_TABLE_MISSING_TABLE_NAME_OR_LOCATION",
            )
        return self._executed(self._path)

    def _execute_named(self, name: tuple[str, ...]) -> T:
        """Create or replace a table with a name of the catalog or of a lake.

        The catalog's entry is created first, so that no other session takes the name. An error removes the entry.
        """
        in_lake = lake_name_of(self._spark, name, is_new=True)
        if in_lake is not None:
            return self._execute_in_lake(in_lake)
        entry = entry_of(self._spark, name)
        if entry is not None:
            if not entry.is_delta or entry.location is None:
                raise InvalidArgument(
                    f"{'.'.join(name)} is already in the catalog, but not as a Delta table. Choose another name"
                )
            return self._executed(entry.location)
        if self._mode.if_missing == "error":
            raise TableNotFound(
                f"Table {'.'.join(name)} cannot be found in the catalog, so it cannot be replaced. Create it first.",
                error_class="DELTA_CANNOT_REPLACE_MISSING_TABLE",
            )
        entry = register_table(self._spark, name, to_spark_schema(self._schema), self._path, self._comment)
        try:
            return self._executed(str(entry.location))
        except BaseException:
            unregister_table(self._spark, entry)
            raise

    def _execute_in_lake(self, name: LakeName) -> T:
        name.require_no_transaction()
        lake: Any = name.lake
        if name.is_there or self._mode.if_missing == "error":
            location = lake.location(name.name)
            require_place(name.name, location, self._path)
            return self._executed(location)
        created = lake.create_table(
            name.name,
            self._schema,
            self._partition_by,
            self._cluster_by or (),
            self._properties,
            self._comment,
            self._path,
        )
        return self._table(self._spark, created._table)

    def _executed(self, path: str) -> T:
        table = table_at(self._spark, path)
        existing = newest_snapshot(table)
        if existing is None and self._mode.if_missing == "error":
            raise TableNotFound(
                f"{table.root_url} cannot be found as a Delta table, so it cannot be replaced. Create it first.",
                error_class="DELTA_CANNOT_REPLACE_MISSING_TABLE",
            )
        if existing is not None and self._mode.if_exists == "error":
            what = f"{table.root_url} is a Delta table that" if self._name is None else f"Table {'.'.join(self._name)}"
            raise TableAlreadyExists(f"{what} already exists. Replace it, or choose another name or location.")
        if existing is None:
            require_empty(table.store)
        if existing is None or self._mode.if_exists == "replace":
            self._commit(table, existing)
        return self._table(self._spark, table)

    def _commit(self, table: Table, existing: Snapshot | None) -> None:
        schema = self._schema
        settings = SessionSettings.of(self._spark)
        properties = {**settings.properties_beside(self._properties), **self._properties}
        definition = TableDefinition.of(schema, self._partition_by, self._cluster_by, properties, self._comment)
        clock = Clock()
        now_ms = clock.now_ms()
        replaces, domains = (existing.configuration, existing.domain_metadata) if existing else (None, {})
        defined = define_table(definition, now_ms, clock.new_id, replaces, domains)
        self._validate_expressions(schema)
        transaction = begin_table(table, defined, existing)
        if existing is not None:
            rows = whole_table(existing)
            transaction.read_where(rows.predicate)
            transaction.remove(as_removes(rows.files, now_ms))
        described = definition_parameters(defined.configuration.metadata, self._cluster_by or ())
        transaction.commit(
            self._mode.operation, described, user_metadata=settings.user_metadata, user_name=settings.user_name
        )

    def _validate_expressions(self, schema: StructType) -> None:
        for column in schema:
            sql = column.metadata.get(GENERATION_EXPRESSION)
            if sql is not None:
                what = f"column {column.name}, generated as ({sql})"
                validate_generation(self._spark, schema, sql, column.type, what)
        for check in checks(split_properties(self._properties).constraints):
            validate_constraint(self._spark, schema, check.sql, f"CHECK constraint {check.name} ({check.sql})")


def created_if_missing(
    spark: SparkSession,
    name: str,
    schema: spark_types.StructType,
    partition_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    location: str | None = None,
) -> Table:
    """Return the table `name` of the session's catalog. Create an empty table for rows of `schema` if there is none.

    Raises as `DeltaTableBuilder.execute`.
    """
    builder = DeltaTableBuilder(spark, CREATE_IF_NOT_EXISTS, lambda _, table: table).tableName(name)
    columns = without_internal_metadata(as_nullable(from_spark_schema(schema)))
    builder.addColumns(to_spark_schema(columns)).partitionedBy(*partition_by)
    if cluster_by:
        builder.clusterBy(*cluster_by)
    if location is not None:
        builder.location(location)
    for key, value in (properties or {}).items():
        builder.property(key, value)
    return builder.execute()


def _as_of_nobody(schema: StructType) -> StructType:
    """Return the columns without a table's internal metadata: ids, names in files, identity high-water marks."""

    def is_own(key: str) -> bool:
        return key in (HIGH_WATER_MARK, "delta.typeChanges") or key.startswith("delta.columnMapping.")

    return without_metadata(schema, is_own)


def require_place(name: str, there: str, location: str | None) -> None:
    """Raise InvalidArgument for a replacement of the table `name`, located at `there`, at another `location`."""
    if location is not None and parse_location(location) != parse_location(there):
        raise InvalidArgument(
            f"{name} is at {there}, not at {location}. A replaced table stays at its location: leave the location out"
        )


def require_empty(store: ObjectStore) -> None:
    """Check that a new table's directory has no files, because a table's cleanup would delete other files."""
    for meta in store.list_from("", recursive=True):
        if not any(part.startswith(("_", ".")) for part in meta.path.split("/")):
            raise InvalidArgument(
                f"{store.root_url} is not empty and is not a Delta table: it contains {meta.path}. Create the table "
                "in an empty directory, or convert Parquet files with DeltaTable.convertToDelta",
                error_class="DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION",
            )


def _generation(
    column: StructField, always: str | IdentityGenerator | None, by_default: IdentityGenerator | None
) -> dict[str, Any]:
    if always is not None and by_default is not None:
        raise InvalidArgument(
            f"column {column.name}: generatedAlwaysAs and generatedByDefaultAs are both set. Set only one of them",
            error_class="DELTA_IDENTITY_COLUMNS_WITH_GENERATED_EXPRESSION",
        )
    if isinstance(always, str):
        return {GENERATION_EXPRESSION: always}
    generator = always if always is not None else by_default
    if generator is None:
        return {}
    if not isinstance(generator, IdentityGenerator):
        raise WrongArgumentType(f"column {column.name}: expected an IdentityGenerator, found {generator!r}")
    if generator.step == 0:
        raise InvalidArgument(
            f"column {column.name}: the step of an identity column must not be 0",
            error_class="DELTA_IDENTITY_COLUMNS_ILLEGAL_STEP",
        )
    if column.type != LONG:
        raise UnsupportedFeature(
            f"identity column {column.name} must be of type BIGINT, found {column.type}",
            error_class="DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE",
        )
    explicit = always is None
    identity = IdentityColumn(column.name, generator.start, generator.step, allow_explicit_insert=explicit)
    return dict(identity.metadata())


def _names(what: str, given: tuple[Any, ...]) -> tuple[str, ...]:
    names = given[0] if len(given) == 1 and isinstance(given[0], (list, tuple)) else given
    return tuple(text_argument(f"a column of {what}", name) for name in names)
