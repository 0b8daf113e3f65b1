"""Conditions, sub-queries, files of many row groups and spellings of times, as other engines lost rows by them."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater import DeltaTable
from slackwater.errors import InvalidArgument, InvariantViolationException
from tests.spark.written import first_row, read, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.shared, pytest.mark.usefixtures("enabled")]

CONDITIONS = (
    "NOT (id > 5 AND upper(s) = 'X')",
    "NOT (odd(id) OR id < 25)",
    "NOT (id > 100 AND s RLIKE '1')",
    "id > 5 AND NULL",
    "id > 25 OR NULL",
    "NOT (id > 100 AND CAST(NULL AS BOOLEAN))",
    "NOT (id > 100 OR NULL)",
    "CASE WHEN id > 15 THEN odd(id) ELSE false END",
    "(id > 5) IS NULL",
    "(id > 100 AND upper(s) = '7') IS NOT NULL",
    "(id > 5) <=> (s = '7')",
    "NOT ((id > 100) <=> (upper(s) = '7'))",
    "(id > 100 AND upper(s) = '7') = false",
    "coalesce(id > 100, true) = false",
    "if(id > 100, upper(s) = '7', true)",
    "NOT (id IN (1, NULL))",
    "(id > 5) != (id > 15)",
)


@pytest.fixture
def numbers(spark: SparkSession, path: str) -> DataFrame:
    """Rows 0 to 29 with their text, in three files of the table at `path` as well."""
    spark.udf.register("odd", lambda number: number % 2 == 1, spark_types.BooleanType())
    plain = spark.range(30).selectExpr("id", "CAST(id AS STRING) AS s")
    plain.repartitionByRange(3, "id").write.format("delta").save(path)
    return plain


def test_conditions_that_say_little_about_files_lose_no_rows(
    spark: SparkSession, path: str, numbers: DataFrame
) -> None:
    table = read(spark, path)
    found = {condition: rows(table.where(condition)) for condition in CONDITIONS}
    assert found == {condition: rows(numbers.where(condition)) for condition in CONDITIONS}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_that_say_little_about_files_delete_the_right_rows(
    spark: SparkSession, path: str, numbers: DataFrame, condition: str
) -> None:
    DeltaTable.forPath(spark, path).delete(condition)
    assert rows(read(spark, path)) == rows(numbers.where(f"NOT coalesce({condition}, false)"))


@pytest.mark.usefixtures("numbers")
def test_chance_is_asked_once_for_a_row_and_refused_in_changes(spark: SparkSession, path: str) -> None:
    save(spark.range(30, 10000).selectExpr("id", "CAST(id AS STRING) AS s"), path)
    assert 2200 < read(spark, path).where("id >= 0 AND rand(42) < 0.25").count() < 2800
    table = DeltaTable.forPath(spark, path)
    with pytest.raises(InvalidArgument, match="rand"):
        table.delete("rand(42) < 0.25")
    with pytest.raises(InvalidArgument, match="rand"):
        table.update("id >= 0 AND rand(42) < 0.25", {"s": "'a'"})


def test_a_deep_condition_is_no_larger_than_its_parts(spark: SparkSession, path: str, numbers: DataFrame) -> None:
    condition = "id = 0"
    for depth in range(40):
        condition = f"({condition} {'AND' if depth % 2 else 'OR'} id > {depth})"
    for test in (f"({condition}) IS NULL", f"NOT ({condition})", f"(({condition}) IS NULL) IS NULL"):
        assert read(spark, path).where(test).count() == numbers.where(test).count()


DELETED: dict[str, tuple[str, list[int | None], list[int | None]]] = {
    "NOT IN": ("NOT id IN (SELECT id FROM s)", [1, 2, 3], [4, 5, 6]),
    "NOT IN with a NULL": ("id NOT IN (SELECT id FROM s)", [1, None], []),
    "NOT IN nothing": ("id NOT IN (SELECT id FROM s)", [], [1, 2, 3, 4, 5, 6, None]),
    "NOT EXISTS": ("NOT EXISTS (SELECT 1 FROM s WHERE s.id = t.id)", [1, 2, 3], [4, 5, 6, None]),
    "IN with duplicates": ("id IN (SELECT id FROM s)", [1, 1, 2], [1, 2]),
    "NULL": ("id > 3 AND NULL", [], []),
    "its own rows": ("id > (SELECT avg(id) FROM t)", [], [4, 5, 6]),
    "its own next rows": ("id IN (SELECT id + 1 FROM t)", [], [2, 3, 4, 5, 6]),
}


@pytest.mark.parametrize("case", DELETED)
def test_sub_queries_delete_what_they_select_and_the_feed_has_it(
    spark: SparkSession, path: str, vectors: str, case: str
) -> None:
    condition, given, expected = DELETED[case]
    present: list[int | None] = [1, 2, None, 3, 4, 5, 6]
    writer = spark.createDataFrame([(i,) for i in present], "id INT").repartition(3).write.format("delta")
    writer = writer.option("delta.enableDeletionVectors", vectors).option("delta.enableChangeDataFeed", "true")
    writer.save(path)
    spark.createDataFrame([(i,) for i in given], "id INT").createOrReplaceTempView("s")
    named = f"delta.`{path}`"
    spark.sql(f"DELETE FROM {named} AS t WHERE {condition.replace('FROM t', f'FROM {named}')}")
    assert rows(read(spark, path)) == sorted(((i,) for i in present if i not in expected), key=repr)
    versions = DeltaTable.forPath(spark, path).history().count()
    assert versions == 2 or not expected
    if versions == 2:
        feed = read(spark, path, readChangeFeed="true", startingVersion="1").select("id", "_change_type")
        assert rows(feed) == sorted(((i, "delete") for i in expected), key=repr)


def test_a_sub_query_with_duplicates_updates_each_row_once(spark: SparkSession, path: str, vectors: str) -> None:
    writer = spark.range(6).selectExpr("id", "'a' AS v").write.format("delta")
    writer.option("delta.enableDeletionVectors", vectors).save(path)
    spark.createDataFrame([(1,), (1,), (4,)], "id LONG").createOrReplaceTempView("s")
    spark.sql(f"UPDATE delta.`{path}` SET v = concat(v, '!') WHERE id IN (SELECT id FROM s)")
    assert rows(read(spark, path)) == [(i, "a!" if i in (1, 4) else "a") for i in range(6)]


OF_TEXTS = (
    "s < '2022-04-01'", "s = 'no date'", "s >= '2'", "s IS NULL", "s <= '10000-01-01'", "s LIKE '2022%'",
    "s < '2022'", "s <= '2022-0'", "s > '2022-0'",
)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "expression", "moved"),
    [("DATE", "TRUNC(s, 'quarter')", "2023-07-01"), ("STRING", "SUBSTRING(s, 1, 4)", "2023")],
)
@pytest.mark.long
def test_a_generated_partition_of_a_text_goes_by_the_order_of_texts(
    spark: SparkSession, path: str, kind: str, expression: str, moved: str
) -> None:
    builder = DeltaTable.create(spark).location(path).addColumn("s", "STRING").addColumn("c", "CHAR(5)")
    builder.addColumn("q", kind, generatedAlwaysAs=expression).partitionedBy("q").execute()
    texts = ["2022-02-01", "10000-01-01", None, "2022-05-01", "2021-12-31"]
    texts += ["no date"] if kind == "STRING" else []
    save(spark.createDataFrame([(text, "ab") for text in texts], "s STRING, c STRING"), path)
    plain = spark.createDataFrame([(text,) for text in texts], "s STRING")
    found = {condition: rows(read(spark, path).where(condition).select("s")) for condition in OF_TEXTS}
    assert found == {condition: rows(plain.where(condition)) for condition in OF_TEXTS}
    target = DeltaTable.forPath(spark, path).alias("t")
    given = spark.createDataFrame([("2022-02-01", "zz"), ("2024-02-01", "zz")], "s STRING, c STRING").alias("n")
    merge = target.merge(given, "t.s = n.s").whenMatchedUpdate(set={"s": "'2023-08-08'"})
    merge.whenNotMatchedInsert(values={"s": "n.s", "c": "n.c"}).execute()
    changed = read(spark, path).where("s > '2023'").selectExpr("s", "c", "CAST(q AS STRING)")
    assert rows(changed.where("s < '2024'")) == [("2023-08-08", "ab   ", moved)]
    assert rows(changed.where("s = '2024-02-01'").select("s", "c")) == [("2024-02-01", "zz   ")]
    other = spark.sql(f"SELECT '2024-02-01' AS s, 'a' AS c, CAST('1999-01-01' AS {kind}) AS q")
    with pytest.raises(InvariantViolationException, match="generated column q"):
        save(other, path)


@pytest.mark.parametrize(
    ("kind", "expression"),
    [("INT", "YEAR(ts)"), ("STRING", "DATE_FORMAT(ts, 'yyyy-MM')"), ("DATE", "CAST(ts AS DATE)")],
)
def test_a_generated_partition_of_a_time_finds_rows_from_other_time_zones(
    spark: SparkSession, path: str, conf: Callable[[str, str], None], kind: str, expression: str
) -> None:
    builder = DeltaTable.create(spark).location(path).addColumn("ts", "TIMESTAMP")
    builder.addColumn("q", kind, generatedAlwaysAs=expression).partitionedBy("q").execute()
    times = ("2021-12-31 23:30:00Z", "2022-01-01 00:30:00Z", "2022-06-30 12:00:00Z")
    plain = spark.sql(" UNION ALL ".join(f"SELECT TIMESTAMP'{t}' AS ts" for t in times) + " UNION ALL SELECT NULL")
    save(plain, path)
    conditions = (
        "ts = TIMESTAMP'2021-12-31 23:30:00Z'", "ts < TIMESTAMP'2022-01-01 00:00:00'",
        "ts >= TIMESTAMP'2022-01-01 00:00:00'", "ts >= TIMESTAMP'2022-01-01 00:30:00Z'", "ts IS NULL",
        "YEAR(ts) = 2022", "CAST(ts AS DATE) = DATE'2022-01-01'",
    )  # fmt: skip
    for zone in ("America/Los_Angeles", "Asia/Tokyo"):
        conf("spark.sql.session.timeZone", zone)
        for condition in conditions:
            found = read(spark, path).where(condition).selectExpr("unix_micros(ts)")
            assert rows(found) == rows(plain.where(condition).selectExpr("unix_micros(ts)")), (zone, condition)


def test_spark_s_metadata_is_found_beside_columns_named_like_its_fields(spark: SparkSession, path: str) -> None:
    columns = "file_name INT, file_path STRING, id INT"
    for first in (0, 10):
        content = [(i, f"p{i}", i) for i in range(first, first + 10)]
        save(spark.createDataFrame(content, columns).coalesce(1), path)
    table = read(spark, path)
    name = first_row(table.where("id = 5").select("_metadata.file_name"))[0]
    found = table.where(f"_metadata.file_name = '{name}' AND file_name > 7")
    assert rows(found.select("id")) == [(8,), (9,)]
    assert table.where("_metadata.file_path LIKE '%part%' AND file_name > 3").count() == 16
    assert rows(table.where("_metadata.row_index < 2").select("id")) == [(0,), (1,), (10,), (11,)]


def test_a_column_called_as_spark_s_metadata_is_the_user_s(spark: SparkSession, path: str, vectors: str) -> None:
    columns = "`_metadata` STRUCT<file_name: INT, row_index: INT>, id INT"
    frame = spark.createDataFrame([((1, 100), 1), ((2, 0), 2), ((3, 0), 3)], columns).coalesce(1)
    frame.write.format("delta").option("delta.enableDeletionVectors", vectors).save(path)
    table = DeltaTable.forPath(spark, path)
    table.delete("id = 3")
    assert rows(read(spark, path).where("_metadata.row_index < 2").select("id")) == [(2,)]
    table.delete("_metadata.file_name = 1")
    table.update(set={"`_metadata`.file_name": "7"})
    assert rows(read(spark, path).select("_metadata.file_name", "id")) == [(7, 2)]


@pytest.mark.long
def test_deleted_rows_stay_away_where_a_file_is_split(
    spark: SparkSession, path: str, conf: Callable[[str, str], None]
) -> None:
    frame = spark.range(0, 20000, 1, 1).selectExpr("id", "md5(CAST(id AS STRING)) AS pad")
    writer = frame.write.format("delta").option("parquet.block.size", str(16 * 1024))
    writer.option("parquet.block.size.row.check.min", "10").option("delta.enableDeletionVectors", "true").save(path)
    (file,) = Path(path).glob("*.parquet")
    groups = pq.ParquetFile(file).metadata
    edges, start = set[int](), 0
    for number in range(groups.num_row_groups):
        size = groups.row_group(number).num_rows
        edges |= {start, start + size - 1}
        start += size
    assert groups.num_row_groups > 10
    conf("spark.sql.files.maxPartitionBytes", str(64 * 1024))
    table = DeltaTable.forPath(spark, path)
    table.delete(f"id % 7 = 0 OR id IN ({', '.join(map(str, sorted(edges)))})")
    table.delete("id % 11 = 0")
    table.update("id % 13 = 0", {"id": "id + 1000000"})
    left = [i for i in range(20000) if i % 7 and i not in edges and i % 11]
    live = sorted(i + 1000000 if i % 13 == 0 else i for i in left)
    for transport in ("spark", "arrow"):
        found = read(spark, path, rows=transport)
        assert found.count() == len(live)
        assert tuple(first_row(found.agg(F.count("id"), F.max("id"), F.sum("id")))) == (len(live), live[-1], sum(live))
        assert [row.id for row in found.orderBy("id").limit(10).collect()] == live[:10]
        limited = {row.id for row in found.limit(10).collect()}
        assert len(limited) == 10
        assert limited <= set(live)
        inside = found.where("id BETWEEN 10000 AND 10020")
        assert rows(inside.select("id")) == [(i,) for i in live if 10000 <= i <= 10020]
        assert found.join(found.select("id"), "id").count() == len(live)


@pytest.mark.long
def test_spellings_of_a_moment_agree(spark: SparkSession, path: str, conf: Callable[[str, str], None]) -> None:
    for number in range(4):
        save(spark.range(number, number + 1), path)

    def commit_at(*texts: str) -> None:
        for version, text in enumerate(texts):
            micros = round(dt.datetime.fromisoformat(f"{text}+00:00").timestamp() * 1_000_000)
            os.utime(Path(path, "_delta_log", f"{version:020d}.json"), ns=(micros * 1000, micros * 1000))

    def counts(text: str) -> set[int]:
        of_sql = spark.sql(f"SELECT count(*) FROM delta.`{path}` TIMESTAMP AS OF '{text}'")
        return {read(spark, path, timestampAsOf=text).count(), first_row(of_sql)[0]}

    commit_at("2026-01-01 00:00:00", "2026-01-02 03:04:05", "2026-01-02 03:04:05.123", "2026-01-03 00:00:00")
    moments = {
        "2026-01-02": 1, "2026-01-02 03:04:05": 2, "2026-01-02 03:04:05.123456": 3, "2026-01-02 03:04:05.122999": 2,
        "2026-01-02T03:04:05Z": 2, "2026-01-02T05:04:05+02:00": 2, " 2026-01-02 03:04:05 ": 2,
    }  # fmt: skip
    assert {text: counts(text) for text in moments} == {text: {count} for text, count in moments.items()}
    versions: tuple[Any, ...] = (1, "1", " 1", "01")
    assert {read(spark, path, versionAsOf=version).count() for version in versions} == {2}
    assert {read(spark, f"{path}@{suffix}").count() for suffix in ("v1", "20260102030405000")} == {2}
    conf("spark.sql.session.timeZone", "America/New_York")
    commit_at("2026-11-01 05:00:00", "2026-11-01 05:30:00", "2026-11-01 06:30:00", "2026-11-01 08:00:00")
    assert counts("2026-11-01 01:30:00") == {2}
    assert counts("2026-11-01 01:30:00-05:00") == {3}


FAR = (
    "TIMESTAMP'+10000-12-31 23:59:59.999999'", "TIMESTAMP'9999-12-31 23:59:59.999999'",
    "TIMESTAMP'0001-01-01 00:00:00'", "TIMESTAMP'-0044-03-15 00:00:00'", "TIMESTAMP'1900-01-01 00:00:00.000001'",
)  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_rows_of_far_times_are_found_with_and_without_a_checkpoint(
    spark: SparkSession, path: str, conf: Callable[[str, str], None], zone: str
) -> None:
    conf("spark.sql.session.timeZone", zone)
    columns = ("id", "ts", "CAST(ts AS TIMESTAMP_NTZ) AS n", "CAST(ts AS DATE) AS d")
    texts = [f"SELECT {number} AS id, {value} AS ts" for number, value in enumerate(FAR)]
    plain = spark.sql(" UNION ALL ".join(texts)).selectExpr(*columns)
    writer = plain.coalesce(1).write.format("delta").option("maxRecordsPerFile", 1)
    writer.option("delta.checkpoint.writeStatsAsStruct", "true").save(path)
    conditions = [f"{name} {test}" for value in FAR for name, test in (
        ("ts", f"= {value}"), ("ts", f"> {value}"), ("n", f"BETWEEN {value} AND {value}"),
        ("d", f"= CAST({value} AS DATE)"), ("d", f"< CAST({value} AS DATE)"),
    )]  # fmt: skip

    def found(frame: DataFrame) -> list[list[Any]]:
        return [sorted(row.id for row in frame.where(condition).select("id").collect()) for condition in conditions]

    expected = found(plain)
    assert found(read(spark, path)) == expected
    DeltaTable.forPath(spark, path).setProperties({"delta.checkpointInterval": "1"})
    assert found(read(spark, path)) == expected
    for number, value in enumerate(FAR):
        DeltaTable.forPath(spark, path).delete(f"ts = {value}")
        assert read(spark, path).count() == len(FAR) - 1 - number


@pytest.mark.long
def test_open_rows_until_the_end_of_time_are_closed_after_a_checkpoint(spark: SparkSession, path: str) -> None:
    forever = "TIMESTAMP'9999-12-31 23:59:59.999999'"
    writer = spark.range(10).selectExpr("id AS k", f"{forever} AS until").coalesce(1).write.format("delta")
    writer = writer.option("delta.checkpoint.writeStatsAsStruct", "true").option("delta.checkpointInterval", "1")
    writer.save(path)
    for day in ("2026-02-01", "2026-02-02"):
        table = DeltaTable.forPath(spark, path).alias("t")
        merge = table.merge(spark.range(5).alias("s"), f"t.k = s.id AND t.until = {forever}")
        merge.whenMatchedUpdate(set={"until": f"TIMESTAMP'{day} 00:00:00'"}).execute()
        save(spark.range(5).selectExpr("id AS k", f"{forever} AS until"), path)
    found = read(spark, path)
    assert (found.where(f"until = {forever}").count(), found.where(f"until < {forever}").count()) == (10, 10)


@pytest.mark.parametrize("sign", [1, -1])
def test_explicit_values_of_an_identity_column_move_no_mark(spark: SparkSession, path: str, sign: int) -> None:
    named = f"delta.`{path}`"
    identity = f"GENERATED BY DEFAULT AS IDENTITY (START WITH {100 * sign} INCREMENT BY {10 * sign})"
    spark.sql(f"CREATE TABLE {named} (id BIGINT {identity}, k INT, v STRING) USING delta")
    for number in (5, -5, 1000 * sign):
        spark.sql(f"INSERT INTO {named} VALUES ({number}, 1, 'old')")
    using = f"MERGE INTO {named} AS t USING (SELECT 1 AS k, 'x' AS v) AS s ON t.k = s.k"
    spark.sql(f"{using} WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)")
    spark.sql(f"INSERT INTO {named} (k, v) VALUES (3, 'c')")
    made = "SELECT id FROM {} WHERE k = 3"
    assert rows(spark.sql(made.format(named))) == [(100 * sign,)]
    clone = f"delta.`{path}_c`"
    spark.sql(f"CREATE TABLE {clone} SHALLOW CLONE {named} VERSION AS OF 4")
    spark.sql(f"INSERT INTO {clone} (k, v) VALUES (3, 'c')")
    found = read(spark, f"{path}_c", allowPathsOutsideRoot="true").where("k = 3").select("id")
    assert rows(found) == [(100 * sign,)]
    spark.sql(f"RESTORE TABLE {named} TO VERSION AS OF 4")
    spark.sql(f"INSERT INTO {named} (k, v) VALUES (3, 'c')")
    assert rows(spark.sql(made.format(named))) == [(110 * sign,)]
