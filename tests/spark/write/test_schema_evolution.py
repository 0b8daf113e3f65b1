"""Columns that come, widen and change with a write."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from slackwater import errors
from slackwater.scan.snapshot import Snapshot
from tests.spark.written import actions, data_files, listing, read, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.shared, pytest.mark.usefixtures("enabled")]


@pytest.fixture
def auto_merge(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.databricks.delta.schema.autoMerge.enabled", "true")
    yield
    spark.conf.unset("spark.databricks.delta.schema.autoMerge.enabled")


NESTED = "named_struct('a', 1) as s, array(named_struct('b', 2)) as l, map('k', named_struct('c', 3)) as m"
MORE_NESTED = (
    "named_struct('new', 'x', 'A', 10) as s, array(named_struct('b', 20, 'more', 1.5D), null) as l, "
    "map('k', named_struct('c', 30, 'deep', array(named_struct('z', true)))) as m"
)


def test_new_columns_come_only_when_they_are_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.range(1).selectExpr("id", NESTED.partition(", array")[0]), path)
    before = listing(path)
    frame = spark.range(1, 2).selectExpr("'n' as extra", "id", "named_struct('a', 2, 'b', 3) as s")
    with pytest.raises(errors.InvalidArgument, match=r"extra, s\.b|s\.b, extra"):
        save(frame, path)
    assert listing(path) == before
    save(frame, path, mergeSchema="true")
    assert read(spark, path).columns == ["id", "s", "extra"]
    assert rows(read(spark, path)) == [(0, (1, None), None), (1, (2, 3), "n")]
    assert "metaData" in [next(iter(a)) for a in actions(path, 1)]


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_new_fields_come_inside_structs_arrays_and_maps(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    path = tmp_path / "t"
    save(spark.sql(f"select 1L id, {NESTED}"), path, **{"delta.columnMapping.mode": mode})
    save(spark.sql(f"select 2L id, {MORE_NESTED}"), path, mergeSchema="true")
    assert rows(read(spark, path)) == [
        (1, (1, None), [(2, None)], {"k": (3, None)}),
        (2, (10, "x"), [(20, 1.5), None], {"k": (30, [(True,)])}),
    ]
    assert read(spark, path).schema.simpleString() == (
        "struct<id:bigint,s:struct<a:int,new:string>,l:array<struct<b:int,more:double>>,"
        "m:map<string,struct<c:int,deep:array<struct<z:boolean>>>>>"
    )
    if mode != "none":
        old, new = (actions(path, version, "metaData")[0] for version in (0, 1))
        ids = [int(m["configuration"]["delta.columnMapping.maxColumnId"]) for m in (old, new)]
        assert ids == [7, 11]
        assert {"id", "s", "a", "new", "deep"}.isdisjoint(
            name for file in data_files(path) for name in pq.read_schema(file).names
        )


def test_the_setting_of_the_session_asks_for_new_columns_and_the_option_beats_it(
    spark: SparkSession, tmp_path: Path, auto_merge: None
) -> None:
    path = tmp_path / "t"
    save(spark.range(1), path)
    with pytest.raises(errors.InvalidArgument, match="more"):
        save(spark.range(1).selectExpr("id", "1 as more"), path, mergeSchema="false")
    save(spark.range(1).selectExpr("id", "1 as more"), path)
    assert rows(read(spark, path)) == [(0, 1), (0, None)]


def test_missing_columns_are_null_at_every_depth(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.sql(f"select 1L id, {MORE_NESTED}"), path)
    save(spark.sql(f"select {NESTED}"), path)
    save(spark.sql("select struct(null as a) s, array(null, named_struct('B', 5S)) l, map('n', null) m"), path)
    assert rows(read(spark, path))[1:] == [
        (None, (None, 1), [(2, None)], {"k": (3, None)}),
        (None, (None, None), [None, (5, None)], {"n": None}),
    ]


def test_columns_are_found_by_name_in_any_order_and_case(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.sql("select 1L `Id`, named_struct('Aa', 1, 'b', 2) `S`, map(1, named_struct('X', 1)) `m`"), path)
    save(spark.sql("select map(2, named_struct('x', 2)) `M`, named_struct('B', 4, 'AA', 3) `s`, 2L `iD`"), path)
    assert rows(read(spark, path)) == [(1, (1, 2), {1: (1,)}), (2, (3, 4), {2: (2,)})]
    assert Snapshot.load(str(path)).schema.names == ("Id", "S", "m")
    assert actions(path, 1, "metaData") == []


def test_narrower_values_are_cast_up_and_the_table_stays(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(
        spark.sql(
            "select 1L l, 1 i, 1D d, timestamp_ntz'2024-01-01 00:00:00' n, 1.25BD as dec, array(1L) a, map('a', 1D) m"
        ).selectExpr("l", "i", "d", "n", "cast(dec as decimal(20,4)) as dec", "a", "m"),
        path,
    )
    save(
        spark.sql(
            "select 2 l, 2Y i, float(2.5) d, date'2024-02-03' n, 7S as dec, array(2Y, null) a, map('b', float(1.5)) m"
        ),
        path,
        mergeSchema="true",
    )
    assert rows(read(spark, path))[1] == (
        2,
        2,
        2.5,
        dt.datetime(2024, 2, 3),
        rows(spark.sql("select cast(7 as decimal(20,4))"))[0][0],
        [2, None],
        {"b": 1.5},
    )
    assert actions(path, 1, "metaData") == []


@pytest.mark.parametrize(
    ("table", "data"),
    [
        ("int", "bigint"),
        ("bigint", "double"),
        ("float", "double"),
        ("string", "int"),
        ("int", "string"),
        ("timestamp", "date"),
        ("timestamp", "timestamp_ntz"),
        ("decimal(10,2)", "decimal(10,3)"),
        ("decimal(10,2)", "double"),
        ("struct<a: int>", "struct<a: string>"),
        ("array<int>", "array<bigint>"),
        ("map<int, int>", "map<bigint, int>"),
        ("struct<a: int>", "int"),
    ],
)
def test_types_whose_values_do_not_fit_are_refused_with_both_named(
    spark: SparkSession, tmp_path: Path, table: str, data: str
) -> None:
    path = tmp_path / "t"
    save(spark.createDataFrame([], f"id long, v {table}"), path)
    before = listing(path)
    with pytest.raises(errors.InvalidArgument, match=r"column v.*table.*data"):
        save(spark.createDataFrame([], f"id long, v {data}"), path, mergeSchema="true")
    assert listing(path) == before


def test_small_integers_widen_in_place_when_asked(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.sql("select 1Y a, struct(1S as b) s, array(1Y) l"), path)
    wider = spark.sql("select 300S a, struct(70000 as b) s, array(70000) l")
    with pytest.raises(errors.InvalidArgument, match="mergeSchema"):
        save(wider, path)
    save(wider, path, mergeSchema="true")
    assert rows(read(spark, path)) == [(1, (1,), [1]), (300, (70000,), [70000])]
    assert read(spark, path).schema.simpleString() == "struct<a:smallint,s:struct<b:int>,l:array<int>>"


def test_a_void_column_takes_the_type_of_the_data(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.sql("select 1L id, null v"), path)
    save(spark.sql("select 2L id, null v"), path)
    with pytest.raises(errors.InvalidArgument, match="mergeSchema"):
        save(spark.sql("select 3L id, 'x' v"), path)
    save(spark.sql("select 3L id, 'x' v"), path, mergeSchema="true")
    assert rows(read(spark, path)) == [(1, None), (2, None), (3, "x")]


def test_a_new_column_whose_type_is_a_feature_brings_the_feature(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.range(1), path)
    save(spark.sql("select 1L id, timestamp_ntz'2024-01-01 00:00:00' n"), path, mergeSchema="true")
    (protocol,) = actions(path, 1, "protocol")
    assert "timestampNtz" in protocol["readerFeatures"]
    assert "timestampNtz" in protocol["writerFeatures"]
    assert {"appendOnly", "invariants"} <= set(protocol["writerFeatures"])
    assert rows(read(spark, path))[1] == (1, dt.datetime(2024, 1, 1))


def test_comments_come_with_new_columns_and_what_is_internal_does_not(spark: SparkSession, tmp_path: Path) -> None:
    source, path = tmp_path / "source", tmp_path / "t"
    frame = spark.range(1).selectExpr("id", "1 as v")
    frame = frame.withMetadata("v", {"comment": "a value", "delta.invariants": "{}", "mine": 1})
    save(frame, source, **{"delta.columnMapping.mode": "id"})
    save(read(spark, source), path)
    (metadata,) = actions(path, 0, "metaData")
    fields = json.loads(metadata["schemaString"])["fields"]
    assert [f["metadata"] for f in fields] == [{}, {"comment": "a value", "mine": 1}]


@pytest.mark.parametrize("mode", ["none", "name"])
def test_the_whole_schema_and_the_partitioning_can_be_replaced(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    path = tmp_path / "t"
    frame = spark.sql("select 1L id, 'x' v, 1 p")
    frame.write.format("delta").option("delta.columnMapping.mode", mode).partitionBy("p").save(str(path))
    other = spark.sql("select 'now text' as ID, struct(1 as a) v, 'k' q")
    with pytest.raises(errors.InvalidArgument, match="overwriteSchema"):
        save(other, path, "overwrite")
    writer = other.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    writer.partitionBy("q").save(str(path))
    assert rows(read(spark, path)) == [("now text", (1,), "k")]
    assert read(spark, path).columns == ["ID", "v", "q"]
    assert rows(read(spark, path, versionAsOf=0)) == [(1, "x", 1)]
    assert Snapshot.load(str(path)).metadata.partition_columns == ("q",)
    save(other, path, "overwrite", overwriteSchema="true")
    assert Snapshot.load(str(path)).metadata.partition_columns == ()
    assert rows(read(spark, path)) == [("now text", (1,), "k")]
    assert len({actions(path, v, "metaData")[0]["id"] for v in (0, 1, 2)}) == 1


def test_another_partitioning_needs_a_new_schema(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    frame = spark.sql("select 1L id, 1 p, 1 q")
    frame.write.format("delta").partitionBy("p").save(str(path))
    before = listing(path)
    for mode in ("append", "overwrite"):
        with pytest.raises(errors.InvalidArgument, match="partitioned by"):
            frame.write.format("delta").mode(mode).partitionBy("q").save(str(path))
    assert listing(path) == before
    frame.write.format("delta").mode("append").partitionBy("P").save(str(path))
    save(frame, path, "overwrite")
    assert Snapshot.load(str(path)).metadata.partition_columns == ("p",)


def test_replacing_the_schema_keeps_clustering_where_its_columns_stay(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    frame = spark.sql("select 1L a, 2L b, 'x' c")

    def overwrite(data: Any, *columns: str) -> None:
        writer = data.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        (writer.clusterBy(*columns) if columns else writer).save(path)

    frame.write.format("delta").option("delta.columnMapping.mode", "name").clusterBy("a").save(path)
    overwrite(spark.sql("select 1L a, 'y' d"))
    assert _clustering(path) == ["a"]
    overwrite(frame)
    overwrite(frame, "b")
    assert _clustering(path) == ["b"]
    overwrite(frame)
    assert _clustering(path) == ["b"]
    overwrite(spark.sql("select 'no b' as c"))
    assert _clustering(path) == []
    assert rows(read(spark, path)) == [("no b",)]


def _clustering(path: str) -> list[str]:
    snapshot = Snapshot.load(path)
    domain = snapshot.domain_metadata.get("delta.clustering")
    if domain is None or domain.removed:
        return []
    physical = [tuple(c) for c in json.loads(domain.configuration)["clusteringColumns"]]
    names = {p: n for n, p in snapshot.physical_paths.items()}
    return [".".join(names[p]) for p in physical]


def test_a_schema_that_a_constraint_reads_cannot_go(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.sql("select 1L id, 1 v"), path, **{"delta.constraints.positive": "v > 0"})
    before = listing(path)
    with pytest.raises(errors.InvalidArgument, match=r"positive.*v"):
        save(spark.range(1), path, "overwrite", overwriteSchema="true")
    assert listing(path) == before
