"""What a table's rules and features mean for DELETE, UPDATE and MERGE, whichever way they write."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slackwater import DeltaTable, IdentityGenerator, Snapshot, errors
from slackwater.spark.session.temporary_settings import with_settings
from tests.spark.changed import FEED, MAPPING, VECTORS, WRITTEN_ALIKE, counts, make
from tests.spark.committed import column_metadata, live_paths, parquet_schema
from tests.spark.written import actions, changes, column, listing, read, rows, save, table_log

pytestmark = [pytest.mark.spark, pytest.mark.shared, pytest.mark.usefixtures("enabled")]

APPEND_ONLY = "delta.appendOnly"


def create(spark: SparkSession, path: str, *columns: tuple[Any, ...], **properties: str) -> DeltaTable:
    """An empty table; a column is its name, its type, and what makes its values or whether it may be null."""
    builder = DeltaTable.create(spark).location(path)
    for name, kind, *rest in columns:
        made = rest[0] if rest else None
        if isinstance(made, bool):
            builder.addColumn(name, kind, nullable=made)
        else:
            builder.addColumn(name, kind, generatedAlwaysAs=made)
    for key, value in properties.items():
        builder.property(key, value)
    return builder.execute()


# Rules of rows.


@WRITTEN_ALIKE
def test_a_row_that_breaks_a_rule_stops_the_whole_change(spark: SparkSession, tmp_path: Path, vectors: str) -> None:
    positive = json.dumps({"expression": {"expression": "c > 0"}})
    fields = [column("id", "long", nullable=False), column("v", "long"), column("c", "long", delta_invariants=positive)]
    path = table_log(tmp_path / "t", fields, {"delta.constraints.small": "v < 10"}, ["checkConstraints", "invariants"])
    table = DeltaTable.forPath(spark, str(path))
    if vectors == "true":
        table.setProperties({VECTORS: "true"})
    save(spark.sql("select id, id v, 1L c from range(6)").coalesce(1), path)
    before = listing(path)
    source = spark.sql("select id k, id * 4 w from range(2, 8)")
    merge = table.merge(source, "id = k")
    broken: list[tuple[Callable[[], object], str]] = [
        (lambda: table.update("id > 2", {"v": "id * 3"}), "CHECK constraint small"),
        (lambda: table.update("id > 2", {"v": "null"}), "CHECK constraint small"),
        (lambda: table.update("id > 2", {"id": "nullif(id, 5)"}), "NOT NULL"),
        (lambda: table.update(set={"c": "v"}), "invariant of column c"),
        (merge.whenMatchedUpdate("id > 2", {"v": "w"}).execute, "CHECK constraint small"),
        (merge.whenMatchedDelete().whenNotMatchedInsert(values={"id": "k", "v": "w"}).execute, "small|invariant"),
        (merge.whenNotMatchedInsert(values={"v": "1", "c": "1"}).execute, "NOT NULL"),
        (merge.whenNotMatchedBySourceUpdate(set={"c": "-v"}).execute, "invariant of column c"),
    ]
    for change, says in broken:
        with pytest.raises(errors.InvariantViolationException, match=says):
            change()
        assert listing(path) == before
    assert rows(read(spark, path)) == [(i, i, 1) for i in range(6)]


def test_generated_columns_follow_the_columns_that_they_are_made_of(
    spark: SparkSession, path: str, vectors: str
) -> None:
    builder = DeltaTable.create(spark).location(path).addColumn("id", "LONG").addColumn("ts", "TIMESTAMP")
    builder.addColumn("day", "DATE", generatedAlwaysAs="CAST(ts AS DATE)")
    builder.addColumn("twice", "LONG", generatedAlwaysAs="id * 2").partitionedBy("day")
    table = builder.property(VECTORS, vectors).property(FEED, "true").execute()
    data = "select id, timestamp'2024-01-01 12:00:00' + make_dt_interval(id) ts from range(4)"
    save(spark.sql(data).coalesce(1), path)

    table.update("id = 1", {"ts": "timestamp'1899-12-31 23:00:00'"})
    table.update("id = 2", {"id": "20", "twice": "40", "day": "date'2024-01-03'"})
    source = spark.sql("select id k, timestamp'2030-06-01 00:00:00' at from range(3, 5)")
    merge = table.merge(source, "id = k").whenMatchedUpdate(set={"ts": "at"})
    merge = merge.whenNotMatchedInsert("k = 9", {"id": "k", "day": "null"})
    merge = merge.whenNotMatchedInsert(values={"id": "k", "ts": "at"})
    assert counts(merge.whenNotMatchedBySourceUpdate("id = 0", {"id": "-1"})) == (3, 2, 0, 1)

    def day(year: int, month: int = 1, of_month: int = 1) -> dt.date:
        return dt.date(year, month, of_month)

    found = [
        (-1, day(2024), -2),
        (1, day(1899, 12, 31), 2),
        (20, day(2024, 1, 3), 40),
        (3, day(2030, 6), 6),
        (4, day(2030, 6), 8),
    ]
    assert rows(read(spark, path).select("id", "day", "twice")) == sorted(found, key=repr)
    assert rows(read(spark, path).where("day = '2030-06-01'").select("id")) == [(3,), (4,)]
    posts = [c[1:] for c in changes(spark, path, 4, "id", "day", "twice") if c[0] == "update_postimage"]
    assert sorted(posts) == [(-1, day(2024), -2), (3, day(2030, 6), 6)]

    before = listing(path)
    for wrong in (
        lambda: table.update("id = 1", {"twice": "3"}),
        lambda: table.update("id = 1", {"day": "null"}),
        table.merge(source, "id = k").whenMatchedUpdate(set={"ts": "null", "day": "day"}).execute,
        table.merge(source, "id = k - 100").whenNotMatchedInsert(values={"id": "k", "twice": "k"}).execute,
    ):
        with pytest.raises(errors.InvariantViolationException, match="generated column"):
            wrong()
    assert listing(path) == before


@WRITTEN_ALIKE
def test_dates_that_the_session_made_of_timestamps_stay_where_rows_are_not_changed(
    spark: SparkSession, path: str, vectors: str
) -> None:
    builder = DeltaTable.create(spark).location(path).addColumn("id", "LONG").addColumn("ts", "TIMESTAMP")
    builder.addColumn("day", "DATE", generatedAlwaysAs="CAST(ts AS DATE)").addColumn("v", "STRING")
    table = builder.property(VECTORS, vectors).execute()
    save(spark.sql("select id, timestamp'2024-01-01 23:00:00' ts, 'old' v from range(5)").coalesce(1), path)
    first, second = dt.date(2024, 1, 1), dt.date(2024, 1, 2)
    with with_settings(spark, {"spark.sql.session.timeZone": "Asia/Tokyo"}):
        table.update("id = 1", {"v": "'new'"})
        table.delete("id = 2")
        merge = table.merge(spark.range(3, 4).toDF("k"), "id = k")
        merge.whenMatchedUpdate(set={"v": "'merged'"}).execute()
    found = rows(read(spark, path).select("id", "day", "v"))
    assert found == [(0, first, "old"), (1, second, "new"), (3, second, "merged"), (4, first, "old")]
    assert read(spark, path).select("ts").distinct().count() == 1


@WRITTEN_ALIKE
def test_defaults_fill_what_inserts_leave_out_and_are_set_by_name(spark: SparkSession, path: str, vectors: str) -> None:
    supported = {"delta.feature.allowColumnDefaults": "supported"}
    table = make(spark, path, "select id, 1 n, 'x' v from range(3)", **{VECTORS: vectors}, **supported)
    table.setColumnDefault("n", "7")
    table.setColumnDefault("v", "upper('a') || 'b'")
    table.update("id = 1", {"n": "DEFAULT", "v": "default"})
    source = spark.range(2, 6).toDF("k")
    merge = table.merge(source, "id = k").whenMatchedUpdate(set={"id": "id", "n": " Default "})
    merge = merge.whenNotMatchedInsert("k = 3", {"id": "k", "v": "DEFAULT", "n": "null"})
    merge = merge.whenNotMatchedInsert("k = 4", {"id": "k", "v": "'given'"})
    assert counts(merge.whenNotMatchedInsert(values={"id": "k"})) == (4, 1, 0, 3)
    assert rows(read(spark, path)) == [
        (0, 1, "x"),
        (1, 7, "Ab"),
        (2, 7, "x"),
        (3, None, "Ab"),
        (4, 7, "given"),
        (5, 7, "Ab"),
    ]
    table.update("id = 0", {"id": "DEFAULT"})
    assert (None, 1, "x") in rows(read(spark, path)), "the default of a column without one is null"


@WRITTEN_ALIKE
def test_identity_values_are_made_for_inserts_and_never_updated(spark: SparkSession, path: str, vectors: str) -> None:
    generator = IdentityGenerator(100, 10)
    table = create(
        spark,
        path,
        ("name", "STRING"),
        ("id", "BIGINT", generator),
        ("size", "INT", "length(name)"),
        **{VECTORS: vectors},
    )
    save(spark.createDataFrame([("a",), ("b",)], "name string").coalesce(1), path)
    old = dict(rows(read(spark, path).select("name", "id")))
    table.update("name = 'a'", {"name": "'aa'"})
    source = spark.createDataFrame([("b",), ("ccc",), ("dddd",)], "name string").alias("s")
    merge = table.alias("t").merge(source, "t.name = s.name").whenMatchedUpdate(set={"name": "concat(s.name, '!')"})
    assert counts(merge.whenNotMatchedInsertAll()) == (3, 1, 0, 2)
    found = {row["name"]: (row["id"], row["size"]) for row in read(spark, path).collect()}
    assert (found["aa"], found["b!"]) == ((old["a"], 2), (old["b"], 2))
    fresh = [found["ccc"][0], found["dddd"][0]]
    assert found["ccc"][1] == 3
    assert len(set(fresh)) == 2
    assert all(value > max(old.values()) and value % 10 == 0 for value in fresh)
    assert column_metadata(path, "id")["delta.identity.highWaterMark"] >= max(fresh)

    before = listing(path)
    for wrong, says in (
        (lambda: table.update(set={"id": "1"}), "identity column id cannot be set"),
        (lambda: table.update(set={"ID": "DEFAULT"}), "identity column id cannot be set"),
        (merge.whenMatchedUpdate(set={"id": "1"}).execute, "Only the last|identity column id cannot be set"),
        (table.merge(source, "false").whenNotMatchedInsert(values={"id": "1"}).execute, "GENERATED ALWAYS"),
    ):
        with pytest.raises(errors.InvalidArgument, match=says):
            wrong()
    assert listing(path) == before


def test_a_table_that_only_grows_lets_a_merge_insert(spark: SparkSession, path: str) -> None:
    table = make(spark, path, "select id from range(3)", **{APPEND_ONLY: "true", VECTORS: "true"})
    merge = table.alias("t").merge(spark.range(2, 5).alias("s"), "t.id = s.id")
    before = listing(path)
    for change in (
        lambda: table.delete("id = 1"),
        table.delete,
        lambda: table.delete("false"),
        lambda: table.update("id = 1", {"id": "2"}),
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute,
        merge.whenMatchedDelete().execute,
        merge.whenNotMatchedBySourceDelete("false").execute,
    ):
        with pytest.raises(errors.OperationNotAllowed, match=APPEND_ONLY):
            change()
    assert listing(path) == before
    assert counts(merge.whenNotMatchedInsertAll()) == (2, 0, 0, 2)
    assert rows(read(spark, path)) == [(i,) for i in range(5)]


def test_a_merge_moves_rows_between_partitions(spark: SparkSession, path: str, vectors: str) -> None:
    sql = "select id, concat('p', id % 2) p, cast(1.5 as decimal(5, 2)) d from range(6)"
    table = make(spark, path, sql, "p", "d", **{VECTORS: vectors, FEED: "true"})
    source = spark.sql("select id, if(id = 4, null, concat('q/', id)) p, 2.5 d from range(3, 8)")
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll("s.id <> 5")
    merge = merge.whenMatchedDelete().whenNotMatchedInsertAll("s.id = 7")
    assert counts(merge.whenNotMatchedBySourceUpdate("t.id = 0", {"p": "null", "d": "-1"})) == (5, 3, 1, 1)
    low, high = Decimal("1.50"), Decimal("2.50")
    assert rows(read(spark, path)) == [
        (0, None, Decimal("-1.00")),
        (1, "p1", low),
        (2, "p0", low),
        (3, "q/3", high),
        (4, None, high),
        (7, "q/7", high),
    ]
    assert rows(read(spark, path).where("p is null and d > 0").select("id")) == [(4,)]
    recorded = changes(spark, path, 1, "id", "p")
    assert ("update_preimage", 4, "p0") in recorded
    assert ("update_postimage", 4, None) in recorded
    assert ("delete", 5, "p1") in recorded


# Features of tables.

ROW_TRACKING, IN_COMMIT = "delta.enableRowTracking", "delta.enableInCommitTimestamps"
ICEBERG_1, ICEBERG_2 = "delta.enableIcebergCompatV1", "delta.enableIcebergCompatV2"


@pytest.mark.parametrize(
    "properties",
    [
        {MAPPING: "name", VECTORS: "true", ROW_TRACKING: "true", FEED: "true", IN_COMMIT: "true"},
        {MAPPING: "id", ROW_TRACKING: "true", "delta.checkpointInterval": "2"},
        {MAPPING: "id", VECTORS: "true", FEED: "true", "delta.checkpointPolicy": "v2"},
        {MAPPING: "name", ICEBERG_1: "true", FEED: "true"},
        {MAPPING: "id", ICEBERG_2: "true", ROW_TRACKING: "true", IN_COMMIT: "true"},
    ],
    ids=lambda properties: " ".join(key.removeprefix("delta.").removeprefix("enable") for key in properties),
)
def test_every_operation_keeps_what_the_table_promises(
    spark: SparkSession, path: str, properties: dict[str, str]
) -> None:
    table = make(spark, path, "select id, 'old' v, struct(id as a, 'b' as b) st from range(6)", **properties)
    if ICEBERG_1 not in properties:
        table.clusterBy("id")
    table.renameColumn("v", "was v")
    tracked = ROW_TRACKING in properties
    first = _ids(spark, path) if tracked else {}
    table.delete("id = 0")
    table.update("id = 1", {"`was v`": "'set'", "st.a": "-1"})
    source = spark.sql("select id, 'new' `was v`, struct(id * 10 as a, 'n' as b) st from range(5, 8)")
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    assert counts(merge.whenNotMatchedBySourceDelete("t.id = 2")) == (4, 1, 1, 2)
    assert rows(read(spark, path)) == [
        (1, "set", (-1, "b")),
        (3, "old", (3, "b")),
        (4, "old", (4, "b")),
        (5, "new", (50, "n")),
        (6, "new", (60, "n")),
        (7, "new", (70, "n")),
    ]
    newest = Snapshot.load(path).version
    if tracked:
        last = _ids(spark, path)
        assert {i: last[i][0] for i in (1, 3, 4, 5)} == {i: first[i][0] for i in (1, 3, 4, 5)}
        assert {i: last[i][1] for i in last} == {1: newest - 1, 3: 0, 4: 0, 5: newest, 6: newest, 7: newest}
        assert len({row_id for row_id, _ in last.values()}) == len(last)
    if IN_COMMIT in properties:
        stamps = [actions(path, v, "commitInfo")[0]["inCommitTimestamp"] for v in range(newest + 1)]
        assert stamps == sorted(set(stamps))
    if FEED in properties:
        recorded = changes(spark, path, newest, "id", "`was v`")
        assert recorded == [
            ("delete", 2, "old"),
            ("insert", 6, "new"),
            ("insert", 7, "new"),
            ("update_postimage", 5, "new"),
            ("update_preimage", 5, "old"),
        ]
    physical = column_metadata(path, "was v")
    for file in live_paths(path):
        field = parquet_schema(file).field(physical["delta.columnMapping.physicalName"])
        assert field.metadata[b"PARQUET:field_id"] == str(physical["delta.columnMapping.id"]).encode()
    if ICEBERG_1 in properties or ICEBERG_2 in properties:
        assert all(add.get("deletionVector") is None for add in actions(path, newest, "add"))
        assert all(json.loads(add["stats"])["numRecords"] for add in actions(path, newest, "add"))


def _ids(spark: SparkSession, path: str) -> dict[int, tuple[int, int]]:
    """Row id and commit version by the column id."""
    found = read(spark, path, rowTracking="true").select("id", "_row_id", "_row_commit_version").collect()
    return {row[0]: (row[1], row[2]) for row in found}


def test_columns_whose_type_was_widened_are_changed_as_what_they_are(
    spark: SparkSession, path: str, vectors: str
) -> None:
    sql = "select cast(id as int) id, cast(id as byte) n, 1.5F f, cast(1 as decimal(4, 2)) d from range(4)"
    table = make(spark, path, sql, **{"delta.enableTypeWidening": "true", VECTORS: vectors, FEED: "true"})
    _widen(path, {"id": "long", "n": "integer", "f": "double", "d": "decimal(12,4)"})
    table.update("id = 1", {"n": "n + 100000", "f": "f + 1e300D", "d": "d + 1234567.0001BD"})
    table.delete("d = 1 and id = 2 and f < 2")
    large = 2**40
    source = spark.sql(f"select {large} k, 3 j")
    assert counts(table.merge(source, "id = j").whenMatchedUpdate(set={"id": "k"})) == (1, 1, 0, 0)
    one = Decimal("1.0000")
    assert rows(read(spark, path)) == [
        (0, 0, 1.5, one),
        (1, 100001, 1e300, Decimal("1234568.0001")),
        (large, 3, 1.5, one),
    ]
    assert ("update_preimage", 3, 3) in changes(spark, path, Snapshot.load(path).version, "id", "n")


def _widen(path: str, wider: dict[str, str]) -> None:
    """Commit the schema with other types of columns, as an engine that widens them does."""
    (metadata,) = actions(path, 0, "metaData")
    schema = json.loads(metadata["schemaString"])
    for field in schema["fields"]:
        field["metadata"] = {"delta.typeChanges": [{"fromType": field["type"], "toType": wider[field["name"]]}]}
        field["type"] = wider[field["name"]]
    action = {"metaData": {**metadata, "schemaString": json.dumps(schema)}}
    (Path(path) / "_delta_log" / f"{1:020d}.json").write_text(json.dumps(action) + "\n")


def test_values_of_every_kind_are_copied_as_they_are(spark: SparkSession, path: str, vectors: str) -> None:
    sql = """
        select id, date'1582-10-04' d, timestamp'1712-02-28 01:02:03.000004' at,
               timestamp_ntz'0001-01-01 00:00:00' n, cast('12345678901234567890.123456789' as decimal(38, 9)) c,
               X'00ff' b, array(struct(cast(null as int) as x), null) l, map('k', map(1, array('ü'))) m,
               double('NaN') f, float('-0.0') g, named_struct('a', cast(null as date), 'b', '') st
        from range(6)
    """
    table = make(spark, path, sql, **{VECTORS: vectors, FEED: "true"})
    before = repr(rows(read(spark, path).where("id = 5").drop("id")))
    table.delete("id = 0")
    table.update("id = 1", {"id": "10"})
    source = spark.sql(sql).where("id in (2, 5)")
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdate("s.id = 2", {"id": "20"})
    assert counts(merge.whenMatchedUpdateAll()) == (2, 2, 0, 0)
    assert counts(table.merge(source.alias("s"), "false").whenNotMatchedInsertAll("id = 2")) == (1, 0, 0, 1)
    found = read(spark, path)
    assert sorted(row["id"] for row in found.collect()) == [2, 3, 4, 5, 10, 20]
    assert {repr([tuple(row)[1:]]) for row in found.collect()} == {before}
    recorded = read(spark, path, readChangeFeed="true", startingVersion="1").select(found.columns).collect()
    assert {repr([tuple(row)[1:]]) for row in recorded} == {before}


def test_a_change_of_a_change_keeps_its_rows(spark: SparkSession, path: str, vectors: str) -> None:
    table = make(spark, path, "select id, 0 n from range(8)", **{VECTORS: vectors, FEED: "true"})
    table.delete("id = 7")
    table.delete("id = 6")
    table.update("id < 4", {"n": "n + 1"})
    table.update("id % 2 = 0", {"n": "n + 1"})
    source = spark.range(6).toDF("k")
    assert counts(table.merge(source, "id = k and n = 1").whenMatchedUpdate(set={"n": "n + 10"})) == (3, 3, 0, 0)
    table.delete(F.col("n") == 0)
    assert rows(read(spark, path)) == [(0, 2), (1, 11), (2, 2), (3, 11), (4, 11)]
    assert changes(spark, path, 6, "id", "n") == [("delete", 5, 0)]
