"""Changes of a table's definition beside its other settings, as other engines lost or kept the wrong ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable
from slackwater.errors import DataFileNotFound, InvalidArgument, InvariantViolationException, ValueDoesNotFit
from slackwater.protocol.features.column_mapping import physical_name
from slackwater.protocol.features.identity_columns import identity_columns
from slackwater.protocol.features.row_tracking import high_water_mark
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.table.alteration import clustering_columns
from tests.spark.written import actions, column, first_row, save, table_log

pytestmark = [pytest.mark.spark, pytest.mark.shared, pytest.mark.usefixtures("db")]

Rows = Callable[..., list[tuple[Any, ...]]]


def run(spark: SparkSession, *statements: str) -> None:
    """Execute statements in their order."""
    for statement in statements:
        spark.sql(statement)


def properties(tracked: bool = True, **more: str) -> str:
    """TBLPROPERTIES with row tracking and with `more`."""
    both = {**({"delta.enableRowTracking": "true"} if tracked else {}), **more}
    return "TBLPROPERTIES (" + ", ".join(f"'{key}' = '{value}'" for key, value in both.items()) + ")"


def snapshot(spark: SparkSession, name: str = "t") -> Snapshot:
    """The newest version of a table of the current database."""
    return Snapshot.load(first_row(DeltaTable.forName(spark, name).detail()).location)


@pytest.mark.parametrize("kept", ["true", None], ids=["restated", "left out"])
def test_a_replaced_table_is_found_by_the_times_of_its_history(
    spark: SparkSession, rows: Rows, kept: str | None
) -> None:
    run(
        spark,
        "CREATE TABLE t (a INT) USING delta",
        "INSERT INTO t VALUES (1)",
        "INSERT INTO t VALUES (2)",
        "ALTER TABLE t SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
        "INSERT INTO t VALUES (4)",
        "INSERT INTO t VALUES (5)",
    )
    enabled = snapshot(spark).properties
    given = "" if kept is None else f"TBLPROPERTIES ('delta.enableInCommitTimestamps' = '{kept}')"
    run(spark, f"CREATE OR REPLACE TABLE t (a INT, b INT) USING delta {given}", "INSERT INTO t VALUES (7, 7)")
    since = ["delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp"]
    found = snapshot(spark).properties
    assert [found.get(key) for key in since] == [enabled[key] if kept else None for key in since]
    times: dict[int, str] = dict(
        spark.sql("DESCRIBE HISTORY t").selectExpr("version", "CAST(timestamp AS STRING)").collect()
    )
    assert len(times) == 8
    for version, time in times.items():
        assert rows(f"SELECT * FROM t TIMESTAMP AS OF '{time}'") == rows(f"SELECT * FROM t VERSION AS OF {version}")
    run(spark, "RESTORE TABLE t TO VERSION AS OF 2", "INSERT INTO t VALUES (9)")
    assert rows("SELECT * FROM t") == [(1,), (2,), (9,)]
    assert snapshot(spark).configuration.is_active("inCommitTimestamp") == (kept is not None)


def test_a_restored_table_has_the_settings_of_then(spark: SparkSession, rows: Rows) -> None:
    run(
        spark,
        f"CREATE TABLE t (a INT, b STRING) USING delta {properties()}",
        "INSERT INTO t VALUES (1, 'x')",
        "ALTER TABLE t CLUSTER BY (a)",
        "INSERT INTO t VALUES (3, 'y')",
        "ALTER TABLE t CLUSTER BY (b)",
    )
    table = DeltaTable.forName(spark, "t")
    table.setDomainMetadata("com.example.mine", "{}")
    run(
        spark,
        "ALTER TABLE t ADD CONSTRAINT positive CHECK (a > 0)",
        "ALTER TABLE t SET TBLPROPERTIES ('mine' = '1', 'delta.enableDeletionVectors' = 'true')",
        "ALTER TABLE t ADD COLUMNS (c INT)",
        "INSERT INTO t VALUES (9, 'z', 9)",
    )
    before, opened = snapshot(spark), table.toDF()
    run(spark, "RESTORE TABLE t TO VERSION AS OF 3")
    after = snapshot(spark)
    assert after.schema.names == ("a", "b")
    assert clustering_columns(after) == [("a",)]
    assert set(after.domain_metadata) == {"delta.clustering", "delta.rowTracking"}
    assert {key for key in after.properties if "rowTracking" not in key} == {"delta.enableRowTracking"}
    assert (after.protocol, high_water_mark(after.domain_metadata)) == (before.protocol, 2)
    # A frame that was opened before has the rows of its version.
    assert sorted(opened.collect()) == [(1, "x", None), (3, "y", None), (9, "z", 9)]
    run(spark, "INSERT INTO t VALUES (-1, 'n')")
    ids = table.toDF(rowTracking="true").select("a", "_row_id", "_row_commit_version").collect()
    assert sorted(ids) == [(-1, 3, 11), (1, 0, 1), (3, 1, 3)]
    # Before the first CLUSTER BY there were no clustering columns; the protocol still asks for their list.
    run(spark, "RESTORE TABLE t TO VERSION AS OF 1")
    empty = snapshot(spark).domain_metadata["delta.clustering"]
    assert (json.loads(empty.configuration)["clusteringColumns"], empty.removed) == ([], False)
    run(spark, "RESTORE TABLE t TO VERSION AS OF 9")
    assert (clustering_columns(snapshot(spark)), snapshot(spark).properties["mine"]) == ([("b",)], "1")
    assert max(rows("SELECT * FROM t")) == (9, "z", 9)


def test_a_table_replaced_by_a_clone_has_the_settings_of_the_source(spark: SparkSession, rows: Rows) -> None:
    identity = "id BIGINT GENERATED ALWAYS AS IDENTITY, a INT"
    run(
        spark,
        f"CREATE TABLE t ({identity}, old INT) USING delta CLUSTER BY (a) {properties(mine='1')}",
        "INSERT INTO t (a) SELECT id FROM range(0, 10, 1, 1)",
        f"CREATE TABLE src ({identity}) USING delta {properties()}",
        "INSERT INTO src (a) SELECT id FROM range(0, 2, 1, 1)",
        "CREATE TABLE plain (id BIGINT, a INT) USING delta",
    )
    DeltaTable.forName(spark, "t").setDomainMetadata("com.example.mine", "{}")
    protocol, ((highest,),) = snapshot(spark).protocol, rows("SELECT max(id) FROM t")
    run(spark, "CREATE OR REPLACE TABLE t SHALLOW CLONE src")
    after = snapshot(spark)
    assert (after.schema.names, clustering_columns(after), after.protocol) == (("id", "a"), [], protocol)
    assert set(after.domain_metadata) == {"delta.clustering", "delta.rowTracking"}
    assert "mine" not in after.properties
    run(spark, "INSERT INTO t (a) VALUES (77)")
    # Ten rows of the table had ids before: neither row ids nor identity values are given out twice.
    ids = DeltaTable.forName(spark, "t").toDF(rowTracking="true").select("a", "_row_id").collect()
    assert sorted(ids) == [(0, 10), (1, 11), (77, 12)]
    ((new,),) = rows("SELECT id FROM t WHERE a = 77")
    assert new > highest
    # A row that was moved has its id in a column whose name the table and the clone must not share.
    run(spark, "DELETE FROM src WHERE a = 0", "CREATE OR REPLACE TABLE t SHALLOW CLONE src")
    ids = DeltaTable.forName(spark, "t").toDF(rowTracking="true").select("a", "_row_id").collect()
    assert ids == [(1, 13)]
    run(spark, "CREATE OR REPLACE TABLE t SHALLOW CLONE plain", "INSERT INTO t VALUES (5, 5)")
    assert high_water_mark(snapshot(spark).domain_metadata) == 14
    assert rows("SELECT * FROM t") == [(5, 5)]
    assert identity_columns(snapshot(spark).schema) == ()


def test_a_clone_of_vacuumed_files_is_not_restored(
    spark: SparkSession, rows: Rows, conf: Callable[[str, str], None]
) -> None:
    conf("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    run(
        spark,
        "CREATE TABLE src (a INT) USING delta",
        "INSERT INTO src VALUES (1)",
        "CREATE TABLE t SHALLOW CLONE src",
        "INSERT INTO t VALUES (2)",
        "DELETE FROM t WHERE a = 1",
        "DELETE FROM src",
        "VACUUM src RETAIN 0 HOURS",
    )
    version = snapshot(spark).version
    with pytest.raises(DataFileNotFound, match="nothing was changed"):
        run(spark, "RESTORE TABLE t TO VERSION AS OF 0")
    assert (snapshot(spark).version, rows("SELECT * FROM t")) == (version, [(2,)])
    # One of the two files of this version is there: the error names the other one.
    with pytest.raises(DataFileNotFound, match="/src/part-"):
        rows("SELECT * FROM t VERSION AS OF 1")


STATS, MAPPING = "delta.dataSkippingStatsColumns", "delta.columnMapping.mode"


def bounded(spark: SparkSession, name: str = "t") -> list[str]:
    """The top-level columns with bounds in the files of the newest version, by the names of its schema."""
    newest = snapshot(spark, name)
    root = newest.table.location
    (add,) = actions(root, newest.version, "add")
    names = {physical_name(field, newest.column_mapping_mode): field.name for field in newest.schema}
    found = json.loads(add["stats"])
    assert set(found.get("minValues", ())) == set(found.get("maxValues", ()))
    return [names[physical] for physical in found.get("minValues", ())]


def test_columns_with_statistics_follow_renames_and_drops(spark: SparkSession, rows: Rows) -> None:
    def insert(number: int) -> None:
        newest = snapshot(spark)
        values = ", ".join("NULL" if field.name in ("s", "s.t", "w") else str(number) for field in newest.schema)
        run(spark, f"INSERT INTO t VALUES ({values})")

    def listed() -> str:
        return str(snapshot(spark).properties[STATS])

    run(
        spark,
        "CREATE TABLE t (`a.b` INT, `c,d` INT, `x``y` INT, `Upper` INT, s STRUCT<`in.ner`: INT, o: INT>, z INT, "
        f"w BINARY) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name', '{STATS}' = "
        "'`a.b`,`c,d`,`x``y`,Upper,s.`in.ner`')",
    )
    insert(1)
    assert bounded(spark) == ["a.b", "c,d", "x`y", "Upper"]
    run(spark, "ALTER TABLE t DROP COLUMN z")
    assert listed() == "`a.b`,`c,d`,`x``y`,Upper,s.`in.ner`"
    insert(2)
    run(
        spark,
        "ALTER TABLE t RENAME COLUMN `c,d` TO `c#2`",
        "ALTER TABLE t RENAME COLUMN `a.b` TO `n,a.b`",
        "ALTER TABLE t RENAME COLUMN s.`in.ner` TO `in``n.r`",
        "ALTER TABLE t RENAME COLUMN s TO `s.t`",
        "ALTER TABLE t RENAME COLUMN upper TO `größe`",
    )
    assert listed() == "`n,a.b`,`c#2`,`x``y`,`größe`,`s.t`.`in``n.r`"
    insert(3)
    assert bounded(spark) == ["n,a.b", "c#2", "x`y", "größe"]
    run(spark, "ALTER TABLE t DROP COLUMN `x``y`", "ALTER TABLE t DROP COLUMN `s.t`.`in``n.r`")
    assert listed() == "`n,a.b`,`c#2`,`größe`"
    insert(4)
    assert bounded(spark) == ["n,a.b", "c#2", "größe"]
    assert rows("SELECT `c#2` FROM t WHERE `n,a.b` > 2 AND `größe` < 4") == [(3,)]
    version = snapshot(spark).version
    for wrong in ("w", "missing", "`c#2`.x", "s.t", "`c#2`,,w", "`c#2"):
        with pytest.raises(InvalidArgument, match=STATS):
            run(spark, f"ALTER TABLE t SET TBLPROPERTIES ('{STATS}' = '{wrong}')")
        with pytest.raises(InvalidArgument, match=STATS):
            run(spark, f"CREATE TABLE n (`c#2` INT, w BINARY) USING delta TBLPROPERTIES ('{STATS}' = '{wrong}')")
    assert snapshot(spark).version == version
    run(spark, f"ALTER TABLE t SET TBLPROPERTIES ('{STATS}' = '')")
    insert(5)
    assert bounded(spark) == []


@pytest.mark.parametrize(
    ("listed", "expected"), [("gone,v", ["v"]), ("v,a b", ["v"]), ("w", []), ("", []), ("v,,w", ["v", "x"])]
)
def test_a_list_of_columns_that_leads_nowhere_does_not_stop_writes(
    spark: SparkSession, tmp_path: Path, listed: str, expected: list[str]
) -> None:
    fields = [column("v", "integer"), column("w", "binary"), column("x", "integer")]
    path = table_log(tmp_path / "h", fields, {STATS: listed}, ["appendOnly"])
    name = f"delta.`{path}`"
    run(spark, f"INSERT INTO {name} VALUES (1, NULL, 2)", f"ALTER TABLE {name} SET TBLPROPERTIES ('mine' = '1')")
    (add,) = actions(path, 1, "add")
    assert list(json.loads(add["stats"]).get("minValues", {})) == expected
    run(spark, f"UPDATE {name} SET v = 3")
    assert [tuple(row) for row in spark.table(name).collect()] == [(3, None, 2)]
    assert Snapshot.load(str(path)).properties[STATS] == listed


def test_fields_of_an_array_are_one_column_with_statistics(spark: SparkSession) -> None:
    many = ", ".join(f"f{number}: INT" for number in range(31))
    columns = ", ".join(f"c{number} INT" for number in range(5))
    run(spark, f"CREATE TABLE t (x ARRAY<STRUCT<{many}>>, m MAP<INT, STRUCT<{many}>>, {columns}) USING delta")
    run(spark, "INSERT INTO t VALUES (NULL, NULL, 0, 1, 2, 3, 4)")
    assert bounded(spark) == [f"c{number}" for number in range(5)]


def test_clustering_columns_have_bounds_wherever_they_are(spark: SparkSession) -> None:
    run(
        spark,
        f"CREATE TABLE t (x INT, y INT, z INT) USING delta CLUSTER BY (y) TBLPROPERTIES ('{STATS}' = 'x')",
        "INSERT INTO t VALUES (1, 2, 3)",
    )
    assert bounded(spark) == ["x", "y"]
    run(
        spark,
        f"ALTER TABLE t UNSET TBLPROPERTIES ('{STATS}')",
        "ALTER TABLE t SET TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '2')",
        "ALTER TABLE t ALTER COLUMN y AFTER z",
        "ALTER TABLE t ADD COLUMNS (n INT FIRST)",
        "INSERT INTO t VALUES (4, 1, 3, 2)",
    )
    assert bounded(spark) == ["n", "x", "y"]
    run(spark, "UPDATE t SET x = 5 WHERE n = 4")
    assert bounded(spark) == ["n", "x", "y"]
    run(spark, "OPTIMIZE t FULL")
    assert bounded(spark) == ["n", "x", "y"]


WIDENING = "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
MERGE = "MERGE WITH SCHEMA EVOLUTION INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET *"


def types(spark: SparkSession, name: str = "t") -> str:
    """The types of a table's columns, as Spark has them."""
    return ", ".join(field.dataType.simpleString() for field in spark.table(name).schema)


def stream(spark: SparkSession, source: str, sink: str, **options: str) -> None:
    """Stream a table to the end into another one, whose schema evolves."""
    writer = spark.readStream.format("delta").options(**options).table(source).writeStream.format("delta")
    writer = writer.option("mergeSchema", "true").option("checkpointLocation", f"{sink}_c")
    writer.trigger(availableNow=True).start(sink).awaitTermination()


def test_a_column_widens_beside_texts_constraints_and_generated_columns(
    spark: SparkSession, rows: Rows, tmp_path: Path
) -> None:
    sink = str(tmp_path / "sink")
    columns = "a VARCHAR(10), b INT, c ARRAY<TINYINT>, d SMALLINT, h INT GENERATED ALWAYS AS (d + 1)"
    content = "VALUES ('x', 1, array(1Y, 2Y), 3S, 4), ('y', 2, array(1Y, 2Y), 4S, 5)"
    run(
        spark,
        f"CREATE TABLE t ({columns}) USING delta {WIDENING}",
        f"INSERT INTO t SELECT /*+ COALESCE(1) */ * FROM {content}",
        f"CREATE TABLE delta.`{sink}` (a STRING, b INT, c ARRAY<TINYINT>, d SMALLINT, h INT) USING delta {WIDENING}",
    )
    stream(spark, "t", sink)
    run(
        spark,
        "ALTER TABLE t ALTER COLUMN b TYPE BIGINT",
        "INSERT INTO t (a, b, c, d) VALUES ('z', 5000000000, array(1Y, 1Y), 5S)",
        "MERGE INTO t USING (SELECT 'x' a, 6000000000 b) s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = s.b",
    )
    # A row that was rewritten beside the one that changed, in a file of its own type.
    assert rows("SELECT a, b, h FROM t") == [("x", 6000000000, 4), ("y", 2, 5), ("z", 5000000000, 6)]
    assert types(spark).split(", ")[1] == "bigint"
    with pytest.raises(InvariantViolationException, match="length of column a"):
        run(spark, "UPDATE t SET a = '01234567890'")
    run(spark, "ALTER TABLE t ADD CONSTRAINT hashed CHECK (hash(c[1]) IS NOT NULL)")
    version = snapshot(spark).version
    wider = spark.createDataFrame([("q", 1, [300, 300], 70000)], "a STRING, b BIGINT, c ARRAY<SMALLINT>, d INT")
    wider.createOrReplaceTempView("s")
    for refused in ("ALTER TABLE t ALTER COLUMN c.element TYPE SMALLINT", "ALTER TABLE t ALTER COLUMN d TYPE INT"):
        with pytest.raises(InvalidArgument, match="must stay"):
            run(spark, refused)
    with pytest.raises(InvalidArgument, match=r"c\.element.*cannot change"):
        run(spark, f"{MERGE} WHEN NOT MATCHED THEN INSERT *")
    for left in ("c", "d"):
        with pytest.raises(InvalidArgument, match=left):
            save(wider.drop(left), snapshot(spark).table.location, mergeSchema="true")
    assert snapshot(spark).version == version
    run(spark, "RESTORE TABLE t TO VERSION AS OF 1")
    assert (types(spark).split(", ")[1], rows("SELECT a, b FROM t")) == ("int", [("x", 1), ("y", 2)])
    with pytest.raises(ValueDoesNotFit):
        run(spark, "INSERT INTO t (a, b) VALUES ('w', 5000000000)")
    run(spark, "ALTER TABLE t ALTER COLUMN b TYPE BIGINT", "INSERT INTO t (a, b, d) VALUES ('w', 5000000000, 1S)")
    assert rows("SELECT a, b FROM t") == [("w", 5000000000), ("x", 1), ("y", 2)]
    # The stream that began before goes on, and its table widens too.
    stream(spark, "t", sink, ignoreChanges="true", startingVersion="0")
    assert rows(f"SELECT max(b), typeof(max(b)) FROM delta.`{sink}`") == [(6000000000, "bigint")]


EVOLVED = {
    "CAST(12345 AS DECIMAL(5, 0))": None,
    "CAST(12345 AS DECIMAL(10, 0))": "decimal(10,0)",
    "CAST(1.5 AS DECIMAL(12, 2))": "decimal(12,2)",
    "CAST(1.5 AS DOUBLE)": "double",
    "CAST(5000000000 AS BIGINT)": "bigint",
    "CAST(1 AS FLOAT)": None,
}


@pytest.mark.parametrize("value", EVOLVED)
def test_evolution_widens_columns_as_alter_does(spark: SparkSession, rows: Rows, value: str) -> None:
    for name in ("t", "u"):
        run(
            spark,
            f"CREATE TABLE {name} (a INT, d SMALLINT, x STRUCT<e: ARRAY<INT>>) USING delta {WIDENING}",
            f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id, id, NULL FROM range(4)",
        )
    new = spark.sql(f"SELECT id AS a, {value} AS d, named_struct('e', array(5000000000)) AS x FROM range(3, 5)")
    new.createOrReplaceTempView("s")
    run(spark, f"{MERGE} WHEN NOT MATCHED THEN INSERT *")
    expected = EVOLVED[value] or "smallint"
    assert types(spark) == f"bigint, {expected}, struct<e:array<bigint>>"
    changed = rows(f"SELECT a, CAST({value} AS {expected}), 5000000000 FROM s")
    assert rows("SELECT a, d, x.e[0] FROM t WHERE a > 2") == changed
    assert rows("SELECT a, CAST(d AS INT) FROM t WHERE a < 3") == [(0, 0), (1, 1), (2, 2)]
    history = [change["toType"] for change in snapshot(spark).schema.fields[1].metadata.get("delta.typeChanges", ())]
    assert history == ([EVOLVED[value].replace("bigint", "long")] if EVOLVED[value] else [])  # type: ignore[union-attr]
    if EVOLVED[value] is None:
        with pytest.raises(InvalidArgument, match="column d"):
            save(new, snapshot(spark, "u").table.location, mergeSchema="true")
        assert snapshot(spark, "u").version == 1
    else:
        run(spark, "INSERT WITH SCHEMA EVOLUTION INTO u SELECT * FROM s WHERE a = 4")
        save(new.where("a = 3"), snapshot(spark, "u").table.location, mergeSchema="true")
        assert types(spark, "u") == types(spark)
        assert rows("SELECT a, d, x.e[0] FROM u WHERE x IS NOT NULL") == changed


def test_lengths_of_texts_inside_a_column_follow_its_definition(spark: SparkSession, rows: Rows) -> None:
    columns = "a ARRAY<VARCHAR(3)>, m MAP<VARCHAR(3), VARCHAR(3)>, s STRUCT<t: VARCHAR(3), o: INT, u: VARCHAR(2)>"
    run(spark, f"CREATE TABLE t ({columns}, c CHAR(3)) USING delta {properties(False, **{MAPPING: 'name'})}")

    def described() -> list[str]:
        return [row.data_type for row in spark.sql("DESCRIBE t").collect()]

    def fits(*values: str) -> None:
        run(spark, f"INSERT INTO t ({', '.join(v.split(' = ')[0] for v in values)}) VALUES "
            f"({', '.join(v.split(' = ')[1] for v in values)})")  # fmt: skip

    for wrong in ("a.element TYPE VARCHAR(2)", "m.key TYPE VARCHAR(2)", "s.t TYPE VARCHAR(2)", "c TYPE VARCHAR(2)"):
        with pytest.raises(InvalidArgument, match="cannot become"):
            run(spark, f"ALTER TABLE t ALTER COLUMN {wrong}")
    run(
        spark,
        "ALTER TABLE t ALTER COLUMN a.element TYPE STRING",
        "ALTER TABLE t ALTER COLUMN m.value TYPE VARCHAR(4)",
        "ALTER TABLE t ALTER COLUMN c TYPE VARCHAR(4)",
        "ALTER TABLE t ALTER COLUMN s.o AFTER u",
        "ALTER TABLE t RENAME COLUMN s.t TO `t t`",
        "ALTER TABLE t ADD COLUMN s.n VARCHAR(7)",
        "ALTER TABLE t DROP COLUMN s.u",
    )
    assert described() == [
        "array<string>", "map<varchar(3),varchar(4)>", "struct<`t t`:varchar(3),o:int,n:varchar(7)>", "varchar(4)",
    ]  # fmt: skip
    fits(
        "a = array('01234')", "m = map('012', '0123')", "s = named_struct('t t', '012', 'o', 1, 'n', '0')", "c = '0123'"
    )
    for wrong in (
        "m = map('0123', '')", "m = map('', '01234')", "s = named_struct('t t', '0123', 'o', 1, 'n', '0')",
        "s = named_struct('t t', '', 'o', 1, 'n', '01234567')", "c = '01234'",
    ):  # fmt: skip
        with pytest.raises(InvariantViolationException, match="length of column"):
            fits(wrong)
    assert rows("SELECT a[0], s.`t t` FROM t") == [("01234", "012")]


def test_lengths_of_texts_that_other_writers_left_behind(spark: SparkSession, tmp_path: Path) -> None:
    # Another engine renamed s.t to s.tt, or dropped s.u, and left the type of the column as it was.
    inner = [column("tt", "string"), column("o", "integer")]
    for number, (declared, fields) in enumerate(
        (
            ("struct<t:varchar(3),o:int>", inner),
            ("struct<tt:varchar(3),u:varchar(1),o:int>", inner),
            ("struct<", inner[:1]),
        )
    ):
        kind = {"type": "struct", "fields": fields}
        field = {**column("s", kind), "metadata": {"__CHAR_VARCHAR_TYPE_STRING": declared}}
        name = f"delta.`{table_log(tmp_path / str(number), [field], features=['appendOnly'])}`"
        values = "named_struct('tt', '{}')" if len(fields) == 1 else "named_struct('tt', '{}', 'o', 1)"
        run(spark, f"INSERT INTO {name} VALUES ({values.format('012')})")
        if len(fields) > 1:
            with pytest.raises(InvariantViolationException, match="length of column s"):
                run(spark, f"INSERT INTO {name} VALUES ({values.format('0123')})")
