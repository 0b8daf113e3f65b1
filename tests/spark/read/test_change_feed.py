"""The change data feed, batch: recorded changes and derived ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from slackwater import errors
from slackwater.spark.read.load import load
from tests.spark.tables import TABLES, write_table

pytestmark = pytest.mark.spark


def feed(spark: SparkSession, path: Path, start: int, end: int | None = None) -> DataFrame:
    options = {"readChangeFeed": "true", "startingVersion": start, "endingVersion": end}
    return load(spark, str(path), {k: v for k, v in options.items() if v is not None})


def multiset(frame: DataFrame) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in frame.collect())


@pytest.mark.parametrize("name", ["cdf-table-with-dv", "cdf-table-partitioned", "cdc-ict"])
def test_a_version_is_the_one_before_it_and_its_changes(spark: SparkSession, name: str) -> None:
    path = TABLES / name
    last = load(spark, str(path), {})
    del last
    from slackwater import Snapshot

    state: Counter[tuple[Any, ...]] = Counter()
    for version in range(Snapshot.load(path).version + 1):
        changes = feed(spark, path, version, version)
        columns = [c for c in changes.columns if not c.startswith("_c")]
        kinds = changes.select("_change_type").distinct().collect()
        assert {k[0] for k in kinds} <= {"insert", "update_preimage", "update_postimage", "delete"}
        came = multiset(changes.where("_change_type in ('insert', 'update_postimage')").select(*columns))
        went = multiset(changes.where("_change_type in ('delete', 'update_preimage')").select(*columns))
        assert not went - state, f"version {version} takes away rows that were not there"
        state = state - went + came
        assert state == multiset(load(spark, str(path), {"versionAsOf": version})), f"version {version}"


def test_versions_and_times_of_changes_are_those_of_their_commits(spark: SparkSession) -> None:
    changes = feed(spark, TABLES / "cdc-ict", 0)
    assert changes.columns[-3:] == ["_change_type", "_commit_version", "_commit_timestamp"]
    from slackwater import Snapshot

    history = Snapshot.load(TABLES / "cdc-ict").history()
    found = {r[0]: r[1] for r in changes.selectExpr("_commit_version", "unix_millis(_commit_timestamp)").collect()}
    assert found == {version: history.timestamp_ms(version) for version in found}
    assert set(found) == {1, 2, 3}


@pytest.mark.long
def test_a_range_is_the_sum_of_its_versions(spark: SparkSession) -> None:
    path = TABLES / "cdf-table-with-dv"
    apart = sum((multiset(feed(spark, path, v, v)) for v in range(7)), Counter())
    assert multiset(feed(spark, path, 0)) == apart
    assert multiset(feed(spark, path, 0, 6)) == apart


def test_start_and_end_by_time(spark: SparkSession) -> None:
    from slackwater import Snapshot
    from slackwater.log.history import format_ms

    path = TABLES / "cdc-ict"
    history = Snapshot.load(path).history()
    stamp = format_ms(history.timestamp_ms(2)).removesuffix(" UTC")
    options = {"readChangeFeed": "true", "startingTimestamp": stamp, "endingTimestamp": stamp}
    assert multiset(load(spark, str(path), options)) == multiset(feed(spark, path, 2, 2))


SETTING = "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled"


@pytest.mark.classic
@pytest.mark.parametrize(
    ("late", "refused", "versions"),
    [
        ({"startingTimestamp": "2190-01-01"}, errors.TimestampOutOfRange, ()),
        ({"startingTimestamp": "2190-01-01", "endingTimestamp": "2190-01-02"}, errors.TimestampOutOfRange, ()),
        ({"startingVersion": 9}, errors.VersionNotFound, ()),
        ({"startingVersion": 7, "endingVersion": 9}, errors.VersionNotFound, ()),
        ({"startingVersion": 5, "endingVersion": 9}, errors.VersionNotFound, (5, 6)),
        ({"startingVersion": 5, "endingTimestamp": "2190-01-01"}, errors.TimestampOutOfRange, (5, 6)),
    ],
)
def test_a_range_that_leaves_the_history_is_refused_unless_the_session_or_the_reader_allows_it(
    spark: SparkSession, conf: Any, late: dict[str, Any], refused: type[Exception], versions: tuple[int, ...]
) -> None:
    path = TABLES / "cdf-table-with-dv"
    options = {"readChangeFeed": "true", **late}
    with pytest.raises(refused):
        load(spark, str(path), options)
    expected = multiset(feed(spark, path, versions[0], versions[-1])) if versions else Counter()
    allowed = load(spark, str(path), {**options, "allowAfterLastCommit": "true"})
    conf(SETTING, "true")
    tolerant = load(spark, str(path), options)
    columns = feed(spark, path, 5, 6).columns
    for frame in (allowed, tolerant):
        assert (multiset(frame), frame.columns) == (expected, columns)
    conf(SETTING, "false")
    with pytest.raises(refused):
        load(spark, str(path), options)


def test_a_table_without_a_feed_says_in_which_version(spark: SparkSession, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t", [{"id": [1]}])
    with pytest.raises(errors.ChangeFeedNotEnabled, match="version 0"):
        feed(spark, Path(path), 0)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"startingVersion": 9}, errors.VersionNotFound, "newest version is 6"),
        ({"startingVersion": 0, "endingVersion": 9}, errors.VersionNotFound, "no version 9"),
        ({"startingVersion": 3, "endingVersion": 2}, errors.InvalidArgument, "before its start"),
        (
            {"startingVersion": 0, "startingTimestamp": "2020-01-01"},
            errors.InvalidArgument,
            "either startingVersion or",
        ),
        ({"startingTimestamp": "2190-01-01"}, errors.TimestampOutOfRange, "after the last commit"),
        ({"startingVersion": 0, "versionAsOf": 1}, errors.InvalidArgument, "does not support time travel"),
    ],
)
def test_ranges_that_make_no_sense_are_named(
    spark: SparkSession, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        load(spark, str(TABLES / "cdf-table-with-dv"), {"readChangeFeed": "true", **options})


MAPPED = "'delta.columnMapping.mode' = 'name'"


@pytest.mark.usefixtures("enabled")
@pytest.mark.parametrize(
    ("column", "dropped", "value"),
    [
        ("b STRING", "b", "'old'"),
        ("s STRUCT<x: INT, y: STRING>", "s.y", "named_struct('x', 1, 'y', 'old')"),
        ("l ARRAY<STRUCT<x: INT, y: STRING>>", "l.element.y", "array(named_struct('x', 1, 'y', 'old'))"),
    ],
    ids=["column", "in a struct", "in an array"],
)
@pytest.mark.parametrize("is_mapped_later", [False, True])
def test_what_was_in_a_column_that_is_dropped_and_added_again_is_not_left_out_in_silence(
    spark: SparkSession, tmp_path: Path, column: str, dropped: str, value: str, is_mapped_later: bool
) -> None:
    table = f"delta.`{tmp_path / 't'}`"
    properties = ["'delta.enableChangeDataFeed' = 'true'", *([] if is_mapped_later else [MAPPED])]
    spark.sql(f"CREATE TABLE {table} (id INT, {column}) USING delta TBLPROPERTIES ({', '.join(properties)})")
    spark.sql(f"INSERT INTO {table} VALUES (1, {value})")
    if is_mapped_later:
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({MAPPED})")
    spark.sql(f"ALTER TABLE {table} DROP COLUMN {dropped}")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN {dropped} STRING")
    last = 3 + is_mapped_later
    for start in range(last - 1):
        with pytest.raises(errors.InvalidArgument, match=f"version {start} has column .* version {last} does not"):
            feed(spark, tmp_path / "t", start)
    assert "old" in str(feed(spark, tmp_path / "t", 0, 1).collect())
    assert feed(spark, tmp_path / "t", last).collect() == []


@pytest.mark.usefixtures("enabled")
def test_rows_from_before_an_overwrite_took_a_column_are_not_read_without_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    write = spark.sql("SELECT 1 AS id, 'old' AS b").write.format("delta").option("delta.enableChangeDataFeed", "true")
    write.save(str(path))
    spark.sql("SELECT 2 AS id, 'old' AS b").write.format("delta").mode("append").save(str(path))
    other = spark.sql("SELECT 3 AS id, 4 AS c").write.format("delta").mode("overwrite")
    other.option("overwriteSchema", "true").save(str(path))
    with pytest.raises(errors.InvalidArgument, match=r"version 1 has column 'b' .* version 2 does not"):
        feed(spark, path, 1)


@pytest.mark.usefixtures("enabled")
def test_rows_from_before_a_rename_and_a_wider_type_are_read(spark: SparkSession, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path / 't'}`"
    properties = f"{MAPPED}, 'delta.enableChangeDataFeed' = 'true', 'delta.enableTypeWidening' = 'true'"
    spark.sql(f"CREATE TABLE {table} (id INT, b STRING) USING delta TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'old')")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN b TO c")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN id TYPE DECIMAL(12, 2)")
    (row,) = feed(spark, tmp_path / "t", 0).collect()
    assert (row.id, row.c, row["_change_type"]) == (1, "old", "insert")


@pytest.mark.usefixtures("enabled")
@pytest.mark.long
def test_files_are_read_by_the_partitions_that_they_were_written_in(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write = spark.sql("SELECT 1 AS id, 'a' AS p, 'b' AS q").write.format("delta").partitionBy("p")
    write.option("delta.enableChangeDataFeed", "true").save(str(path))
    spark.sql(f"UPDATE delta.`{path}` SET id = 2")
    for columns in (["q"], []):
        over = spark.sql(f"SELECT * FROM delta.`{path}`").write.format("delta").mode("overwrite")
        over.option("overwriteSchema", "true").partitionBy(*columns).save(str(path))
    spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 2")
    rows = sorted((r["_commit_version"], r["_change_type"], r.id) for r in feed(spark, path, 0).collect())
    assert rows == [
        (0, "insert", 1),
        (1, "update_postimage", 2),
        (1, "update_preimage", 1),
        (2, "delete", 2),
        (2, "insert", 2),
        (3, "delete", 2),
        (3, "insert", 2),
        (4, "delete", 2),
        (4, "insert", 2),
    ]
    for start, end in [(0, 4), *((version, version) for version in range(5))]:
        found = feed(spark, path, start, end).select("p", "q").distinct().collect()
        assert [tuple(row) for row in found] == [("a", "b")], f"versions {start} to {end}"


@pytest.mark.usefixtures("enabled")
def test_what_was_in_a_column_that_the_first_version_replaces_is_not_left_out_in_silence(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = f"delta.`{tmp_path / 't'}`"
    properties = f"{MAPPED}, 'delta.enableChangeDataFeed' = 'true'"
    spark.sql(f"CREATE TABLE {table} (id INT, b STRING) USING delta TBLPROPERTIES ({properties})")
    spark.sql(f"ALTER TABLE {table} DROP COLUMN b")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN b STRING")
    spark.sql(f"INSERT INTO {table} VALUES (2, 'new')")
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF 0")
    with pytest.raises(errors.InvalidArgument, match=r"version 4 deletes rows .* column 'b' is another column there"):
        feed(spark, tmp_path / "t", 4)
    assert "new" in str(feed(spark, tmp_path / "t", 3, 3).collect())
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN b TO c")
    spark.sql(f"INSERT INTO {table} VALUES (3, 'kept')")
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF 0")
    (row,) = feed(spark, tmp_path / "t", 7).collect()
    assert (row.id, row.b, row["_change_type"]) == (3, "kept", "delete")
