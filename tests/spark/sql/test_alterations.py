"""ALTER TABLE and COMMENT ON TABLE by SQL: what the methods of `DeltaTable` make of a table, in one commit each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

import slackwater
from slackwater.errors import (
    InvalidArgument,
    InvariantViolationException,
    SlackwaterError,
    TableAlreadyExists,
    UnsupportedFeature,
)

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("db")]

MAPPED = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
PLAIN = ""


@pytest.fixture
def pair(spark: SparkSession) -> Callable[[str], tuple[slackwater.DeltaTable, slackwater.DeltaTable]]:
    """Two tables of the same definition, `t` for SQL and `u` for the methods."""

    def made(more: str) -> tuple[slackwater.DeltaTable, slackwater.DeltaTable]:
        for name in ("t", "u"):
            spark.sql(f"CREATE TABLE {name} (id INT, s STRUCT<a: INT>, name STRING) USING delta {more}")
            spark.sql(f"INSERT INTO {name} VALUES (1, named_struct('a', 2), 'x')")
        return slackwater.DeltaTable.forName(spark, "t"), slackwater.DeltaTable.forName(spark, "u")

    return made


def _field(name: str, kind: str, comment: str | None = None) -> spark_types.StructField:
    metadata = {} if comment is None else {"comment": comment}
    return spark_types.StructField(name, spark_types.DataType.fromDDL(kind), True, metadata)


SAME: list[tuple[str, str, Callable[[slackwater.DeltaTable], object]]] = [
    (
        "ADD COLUMNS (x INT, y STRING COMMENT 'why')",
        PLAIN,
        lambda t: t.addColumns([_field("x", "INT"), _field("y", "STRING", "why")]),
    ),
    (
        "ADD COLUMN x MAP<INT, STRING> AFTER id",
        PLAIN,
        lambda t: t.addColumns([_field("x", "MAP<INT, STRING>")], after="id"),
    ),
    (
        "ADD COLUMN s.b DECIMAL(10, 2) FIRST",
        PLAIN,
        lambda t: t.addColumns([_field("b", "DECIMAL(10, 2)")], parent="s", first=True),
    ),
    ("DROP COLUMN name", MAPPED, lambda t: t.dropColumns("name")),
    ("DROP COLUMNS IF EXISTS (name, nope)", MAPPED, lambda t: t.dropColumns("name", "nope", ifExists=True)),
    ("RENAME COLUMN s.a TO `b c`", MAPPED, lambda t: t.renameColumn("s.a", "b c")),
    ("ALTER COLUMN id COMMENT 'the key'", PLAIN, lambda t: t.setColumnComment("id", "the key")),
    ("CHANGE name FIRST", PLAIN, lambda t: t.moveColumn("name", first=True)),
    ("ALTER COLUMN id AFTER name", PLAIN, lambda t: t.moveColumn("id", after="name")),
    ("ALTER COLUMN id SET NOT NULL", PLAIN, lambda t: t.setColumnNullable("id", False)),
    ("CHANGE COLUMN name name STRING COMMENT 'who'", PLAIN, lambda t: t.setColumnComment("name", "who")),
    (
        "REPLACE COLUMNS (name STRING, id INT COMMENT 'key', s STRUCT<a: INT>, z DATE)",
        PLAIN,
        lambda t: t.replaceColumns(
            [_field("name", "STRING"), _field("id", "INT", "key"), _field("s", "STRUCT<a: INT>"), _field("z", "DATE")]
        ),
    ),
    (
        "SET TBLPROPERTIES ('delta.appendOnly' = 'true', mine.own = 3)",
        PLAIN,
        lambda t: t.setProperties({"delta.appendOnly": "true", "mine.own": "3"}),
    ),
    (
        "ADD CONSTRAINT positive CHECK (id > 0 AND name IN ('x', 'y'))",
        PLAIN,
        lambda t: t.addConstraint("positive", "id > 0 AND name IN ('x', 'y')"),
    ),
    ("CLUSTER BY (id, s.a)", PLAIN, lambda t: t.clusterBy("id", "s.a")),
    (
        "SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
        PLAIN,
        lambda t: t.addFeatureSupport("allowColumnDefaults"),
    ),
]


@pytest.mark.parametrize(("action", "more", "method"), SAME, ids=[each[0] for each in SAME])
def test_a_statement_makes_what_the_method_makes(
    spark: SparkSession, pair: Any, action: str, more: str, method: Callable[[slackwater.DeltaTable], object]
) -> None:
    by_sql, by_method = pair(more)
    assert spark.sql(f"ALTER TABLE t {action}").collect() == []
    method(by_method)
    assert _told(by_sql) == _told(by_method)
    assert by_sql.history(1).collect()[0].version == 2


def _told(table: slackwater.DeltaTable) -> tuple[Any, ...]:
    found = table.detail().collect()[0].asDict()
    kept = {k: found[k] for k in ("clusteringColumns", "properties", "minWriterVersion", "tableFeatures", "numFiles")}
    snapshot = table._snapshot()
    columns = [(c.name, str(c.type), c.nullable, c.metadata.get("comment")) for c in snapshot.schema]
    return kept, columns, sorted(map(str, table.toDF().collect()))


def test_what_goes_again(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT NOT NULL, v INT DEFAULT 3) USING delta CLUSTER BY (id)")
    table = slackwater.DeltaTable.forName(spark, "t")
    spark.sql("ALTER TABLE t ADD CONSTRAINT c CHECK (id > 0)")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')")
    for action in (
        "DROP CONSTRAINT IF EXISTS nope",
        "DROP CONSTRAINT c",
        "UNSET TBLPROPERTIES IF EXISTS ('a', 'nope')",
        "ALTER COLUMN id DROP NOT NULL",
        "ALTER COLUMN v DROP DEFAULT",
        "CLUSTER BY NONE",
        "DROP FEATURE allowColumnDefaults",
    ):
        spark.sql(f"ALTER TABLE t {action}")
    found = table.detail().collect()[0]
    assert (found.clusteringColumns, found.properties) == ([], {})
    assert "allowColumnDefaults" not in found.tableFeatures
    spark.sql("INSERT INTO t VALUES (NULL, -1)")


def test_several_changes_of_columns_are_one_commit(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (a SMALLINT, b INT, c INT) USING delta")
    spark.sql("ALTER TABLE t CHANGE COLUMN a a INT COMMENT 'first' AFTER b")
    table = slackwater.DeltaTable.forName(spark, "t")
    assert table.toDF().columns == ["b", "a", "c"]
    assert (table.toDF().schema["a"].dataType.simpleString(), table.toDF().schema["a"].metadata) == (
        "int",
        {"comment": "first"},
    )
    spark.sql("ALTER TABLE t ALTER COLUMN a COMMENT 'x', b COMMENT 'y', c FIRST")
    assert table.toDF().columns == ["c", "b", "a"]
    assert [field.metadata.get("comment") for field in table.toDF().schema] == [None, "y", "x"]
    assert [row.operation for row in table.history().collect()] == ["CHANGE COLUMNS", "CHANGE COLUMN", "CREATE TABLE"]


def test_of_several_changes_none_is_made_where_one_cannot_be(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (a INT, b INT) USING delta")
    spark.sql("INSERT INTO t VALUES (1, NULL)")
    with pytest.raises(InvariantViolationException):
        spark.sql("ALTER TABLE t ALTER COLUMN a COMMENT 'x', b SET NOT NULL")
    with pytest.raises(InvalidArgument):
        spark.sql("ALTER TABLE t ALTER COLUMN a COMMENT 'x', nope COMMENT 'y'")
    assert slackwater.DeltaTable.forName(spark, "t").history().count() == 2


def test_a_default_value(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE t (a INT, b INT) USING delta TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    spark.sql("ALTER TABLE t ALTER COLUMN b SET DEFAULT abs(-4) + 1")
    spark.sql("INSERT INTO t (a) VALUES (1)")
    assert spark.table("t").collect() == [(1, 5)]
    with pytest.raises(InvalidArgument):
        spark.sql("ALTER TABLE t ALTER COLUMN b SET DEFAULT a + 1")
    with pytest.raises(InvalidArgument, match="default value"):
        spark.sql("ALTER TABLE t ALTER COLUMN b SET DEFAULT nope(1)")


def test_parameters_are_values(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (a INT) USING delta")
    spark.sql("ALTER TABLE t ALTER COLUMN a COMMENT :said", args={"said": "it's \\ a"})
    assert spark.table("t").schema["a"].metadata["comment"] == "it's \\ a"


REFUSED: list[tuple[str, type[SlackwaterError], str]] = [
    ("ADD COLUMN x INT DEFAULT 3", InvalidArgument, "default"),
    ("ADD COLUMN x INT NOT NULL", InvalidArgument, "NOT NULL"),
    ("ADD COLUMN x INT GENERATED ALWAYS AS (id + 1)", InvalidArgument, "generated"),
    ("ADD COLUMN x", InvalidArgument, "type"),
    ("ADD PARTITION (id = 1)", UnsupportedFeature, "ADD PARTITION"),
    ("ADD IF NOT EXISTS PARTITION (id = 1)", UnsupportedFeature, "PARTITION"),
    ("DROP IF EXISTS PARTITION (id = 1)", UnsupportedFeature, "PARTITION"),
    ("PARTITION (id = 1) RENAME TO PARTITION (id = 2)", UnsupportedFeature, "PARTITION"),
    ("RECOVER PARTITIONS", UnsupportedFeature, "RECOVER PARTITIONS"),
    ("SET SERDEPROPERTIES ('a' = 'b')", UnsupportedFeature, "SERDE"),
    ("ALTER COLUMN id SYNC IDENTITY", InvalidArgument, "not an identity column"),
    ("CHANGE COLUMN id key INT", InvalidArgument, "RENAME COLUMN"),
    ("RENAME COLUMN id TO a.b", InvalidArgument, "one name"),
    ("DROP FEATURE deletionVectors", InvalidArgument, "deletionVectors"),
    ("DO SOMETHING", InvalidArgument, "line 1, column"),
    ("SET TBLPROPERTIES ('a' = 'b') AND MORE", InvalidArgument, "the end of the statement"),
    ("ADD CONSTRAINT c CHECK (id > 5)", InvariantViolationException, "CHECK constraint c"),
]


@pytest.mark.parametrize(("action", "error", "said"), REFUSED, ids=[each[0] for each in REFUSED])
@pytest.mark.shared
def test_what_is_not_there_is_refused_by_name(
    spark: SparkSession, action: str, error: type[SlackwaterError], said: str
) -> None:
    spark.sql("CREATE TABLE t (id INT, v INT) USING delta")
    spark.sql("INSERT INTO t VALUES (1, 1)")
    with pytest.raises(error, match=f"(?i){said}"):
        spark.sql(f"ALTER TABLE t {action}")
    assert slackwater.DeltaTable.forName(spark, "t").history().count() == 2


def test_a_table_of_the_catalog_gets_another_name_and_place(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE t (id INT) USING delta")
    spark.sql("INSERT INTO t VALUES (1)")
    spark.sql("ALTER TABLE t RENAME TO new")
    assert spark.table("new").collect() == [(1,)]
    assert not spark.catalog.tableExists("t")
    spark.range(2).write.format("delta").save(str(tmp_path / "other"))
    spark.sql(f"CREATE TABLE moved (id BIGINT) USING delta LOCATION '{tmp_path}/first'")
    spark.sql(f"ALTER TABLE moved SET LOCATION '{tmp_path}/other'")
    assert spark.table("moved").count() == 2


def test_a_lake_keeps_the_place_of_a_table_and_a_path_its_name(spark: SparkSession, lake: slackwater.Lake) -> None:
    at = lake.location("stock")
    for name, action in [("lake.stock", "SET LOCATION '/tmp/x'"), (f"delta.`{at}`", "RENAME TO new")]:
        with pytest.raises(UnsupportedFeature, match="location and name do not change"):
            spark.sql(f"ALTER TABLE {name} {action}")
    spark.sql("ALTER TABLE lake.stock ADD COLUMN note STRING")
    assert "note" in lake.table("stock").toDF().columns


def test_a_table_of_a_lake_gets_another_name(spark: SparkSession, lake: slackwater.Lake) -> None:
    spark.sql("INSERT INTO lake.stock (sku, qty) VALUES ('a', 1)")
    with pytest.raises(InvalidArgument, match="not a name in the lake"):
        spark.sql("ALTER TABLE lake.stock RENAME TO other.goods")
    with pytest.raises(TableAlreadyExists):
        spark.sql("ALTER TABLE lake.stock RENAME TO lake.orders")
    spark.sql("ALTER TABLE lake.stock RENAME TO lake.goods")
    spark.sql("USE lake")
    spark.sql("ALTER TABLE goods RENAME TO wares")
    assert spark.table("wares").select("sku").collect() == [("a",)]
    assert {"stock", "goods"}.isdisjoint(table.name for table in lake.tables())


def test_a_transaction_alters_its_tables(spark: SparkSession, lake: slackwater.Lake) -> None:
    spark.sql("USE lake")
    spark.sql("BEGIN TRANSACTION")
    spark.sql("ALTER TABLE stock ADD COLUMN note STRING")
    spark.sql("COMMENT ON TABLE orders IS 'what was ordered'")
    assert "note" in spark.table("stock").columns
    spark.sql("COMMIT")
    assert "note" in lake.table("stock").toDF().columns
    assert lake.table("orders").detail().collect()[0].description == "what was ordered"


def test_a_comment_on_a_table(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id INT) USING delta")
    table = slackwater.DeltaTable.forName(spark, "t")
    spark.sql("COMMENT ON TABLE t IS 'it is a table'")
    assert table.detail().collect()[0].description == "it is a table"
    spark.sql("COMMENT ON TABLE t IS NULL")
    assert table.detail().collect()[0].description is None


def test_tables_of_others_are_sparks(spark: SparkSession, db: str) -> None:
    spark.sql("CREATE TABLE p (id INT) USING parquet")
    spark.sql("ALTER TABLE p ADD COLUMNS (v INT)")
    assert spark.table("p").columns == ["id", "v"]
    with pytest.raises((AnalysisException, ParseException)):
        spark.sql("ALTER TABLE p DROP FEATURE x")
    with pytest.raises(AnalysisException):
        spark.sql("ALTER TABLE nope ADD COLUMNS (v INT)")


@pytest.mark.parametrize(("step", "brought", "following"), [(2, 7, 9), (2, 8, 11), (-2, -6, -9), (2, -50, 3)])
def test_an_identity_column_goes_on_behind_what_rows_brought(
    spark: SparkSession, db: str, step: int, brought: int, following: int
) -> None:
    spark.sql(
        f"CREATE TABLE numbered (id BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH 1 INCREMENT BY {step}), v INT) "
        "USING delta"
    )
    spark.sql("ALTER TABLE numbered ALTER COLUMN id SYNC IDENTITY")
    spark.sql("INSERT INTO numbered (v) VALUES (1)")
    spark.sql(f"INSERT INTO numbered VALUES ({brought}, 2)")
    spark.sql("ALTER TABLE numbered ALTER COLUMN ID SYNC IDENTITY")
    spark.sql("INSERT INTO numbered (v) VALUES (3)")
    assert [row.id for row in spark.table("numbered").where("v = 3").collect()] == [following]
    found = spark.sql("DESCRIBE HISTORY numbered").where("operation = 'SYNC IDENTITY'").collect()
    assert len(found) == (0 if brought == -50 else 1)


@pytest.mark.modes
def test_a_column_is_widened_and_all_its_rows_are_of_the_new_type(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE t (id INT, i INT, f FLOAT, d DATE, n DECIMAL(4, 1), b TINYINT, a ARRAY<INT>, "
        "s STRUCT<x: SMALLINT>) USING delta TBLPROPERTIES "
        "('delta.enableTypeWidening' = 'true', 'delta.enableDeletionVectors' = 'true')"
    )
    spark.sql("INSERT INTO t VALUES (1, 7, 0.5, DATE'2026-01-02', 1.5, 3, array(1), named_struct('x', 2))")
    wider = {
        "i": "BIGINT", "f": "DOUBLE", "d": "TIMESTAMP_NTZ", "n": "DECIMAL(12, 3)", "b": "DECIMAL(10, 0)",
        "a.element": "BIGINT", "s.x": "BIGINT",
    }  # fmt: skip
    for column, kind in wider.items():
        spark.sql(f"ALTER TABLE t ALTER COLUMN {column} TYPE {kind}")
    spark.sql(
        "INSERT INTO t VALUES (2, 3000000000, 1e300, TIMESTAMP_NTZ'2026-01-03 04:05:06', 12345678.125, 1234567890, "
        "array(3000000000), named_struct('x', 4000000000))"
    )
    assert [str(column.type) for column in slackwater.DeltaTable.forName(spark, "t")._snapshot().schema][1:6] == [
        "long", "double", "timestamp_ntz", "decimal(12,3)", "decimal(10,0)"
    ]  # fmt: skip
    whole = "SELECT id, i, f, CAST(d AS STRING), CAST(n AS STRING), CAST(b AS STRING), a[0], s.x FROM t ORDER BY id"
    first = (1, 7, 0.5, "2026-01-02 00:00:00", "1.500", "3", 1, 2)
    second = (2, 3000000000, 1e300, "2026-01-03 04:05:06", "12345678.125", "1234567890", 3000000000, 4000000000)
    assert [tuple(row) for row in spark.sql(whole).collect()] == [first, second]
    for condition in ("i = 7", "f < 1", "d = TIMESTAMP_NTZ'2026-01-02 00:00:00'", "n = 1.5", "b = 3", "s.x = 2"):
        assert [row.id for row in spark.sql(f"SELECT id FROM t WHERE {condition}").collect()] == [1], condition
        assert [row.id for row in spark.sql(f"SELECT id FROM t WHERE NOT ({condition})").collect()] == [2], condition
    assert spark.sql("UPDATE t SET i = i + 3000000000 WHERE i = 7").collect()[0][0] == 1
    spark.sql("OPTIMIZE t")
    assert [row.i for row in spark.sql("SELECT i FROM t ORDER BY id").collect()] == [3000000007, 3000000000]
    assert [tuple(row) for row in spark.sql(whole.replace("FROM t", "FROM t VERSION AS OF 9")).collect()] == [
        first,
        second,
    ]
    changes = spark.sql("DESCRIBE HISTORY t").where("operation = 'CHANGE COLUMN'").collect()
    assert len(changes) == len(wider)
    for narrower in ("i TYPE INT", "f TYPE FLOAT", "n TYPE DECIMAL(12, 1)", "id TYPE STRING", "id TYPE DECIMAL(4, 0)"):
        with pytest.raises(InvalidArgument, match="cannot be read as"):
            spark.sql(f"ALTER TABLE t ALTER COLUMN {narrower}")
