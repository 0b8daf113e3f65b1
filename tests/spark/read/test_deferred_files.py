"""A classic session chooses the files of a table when it plans a query, with the filters of the query."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import slackwater
from slackwater import DeltaTable, errors
from slackwater.log.table import Table
from slackwater.scan.deletion_vectors import load_deletion_vectors
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.jvm import file_index
from slackwater.spark.read import deferred_files, table_scan
from slackwater.spark.read.deferred_files import DeferredFiles, DeferredVectorFiles
from slackwater.spark.read.load import load
from slackwater.spark.writer.save import save

pytestmark = [pytest.mark.spark, pytest.mark.classic]


@pytest.fixture(autouse=True)
def each_table_has_many_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small tables be read like large ones."""
    monkeypatch.setattr(table_scan, "FEW_FILES", 0)


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the number of files of each listing."""
    found: list[int] = []
    for kind in (DeferredFiles, DeferredVectorFiles):
        original = kind.listed

        def counted(self: Any, files: Any, original: Any = original) -> Any:
            found.append(len(files))
            return original(self, files)

        monkeypatch.setattr(kind, "listed", counted)
    return found


@pytest.fixture
def days(spark: SparkSession, tmp_path: Path) -> str:
    """Return a table of 20 files: four ids in each of 20 days."""
    path = str(tmp_path / "days")
    rows = spark.range(0, 80, 1, 1).selectExpr(
        "id", "date_add(DATE '2026-01-01', cast(id / 4 as int)) AS day", "id % 7 AS n"
    )
    save(rows, path, "error", ["day"], {})
    return path


def test_a_frame_lists_no_files(spark: SparkSession, days: str, listed: list[int]) -> None:
    frame = load(spark, days)
    narrowed = frame.where("day = DATE '2026-01-03'").select("id")
    assert narrowed.columns == ["id"]
    assert listed == []
    assert sorted(row[0] for row in narrowed.collect()) == [8, 9, 10, 11]
    assert listed == [1]


CONDITIONS: dict[str, tuple[str, int]] = {
    "partition": ("day = DATE '2026-01-03'", 1),
    "statistics": ("id = 17", 1),
    "both": ("day >= DATE '2026-01-03' AND id < 12", 1),
    "text": ("day = '2026-01-03'", 1),
    "function of the partition": ("dayofmonth(day) IN (3, 4)", 2),
    "not prunable": ("n % 7 = 3", 20),
    "nothing": ("day = DATE '2030-01-01'", 0),
}


@pytest.mark.parametrize("case", CONDITIONS)
def test_filters_above_other_operations_leave_files_out(
    spark: SparkSession, days: str, listed: list[int], case: str
) -> None:
    condition, files = CONDITIONS[case]
    local = spark.createDataFrame(load(spark, days).collect(), "id long, day date, n long")
    expected = sorted(row.id for row in local.where(condition).collect())
    frame = load(spark, days)
    frame.createOrReplaceTempView("days_of_test")
    del listed[:]
    ways = [
        frame.select("*").where(condition),
        frame.withColumn("more", F.lit(1)).where(condition),
        spark.sql(f"SELECT * FROM (SELECT * FROM days_of_test) AS d WHERE {condition}"),
        frame.where(condition),
    ]
    for way in ways:
        assert sorted(row.id for row in way.collect()) == expected
    assert listed == [files] * len(ways)


PARTITIONS: dict[str, tuple[str, list[Any]]] = {
    "string": ("string", ["a", "b c", "x=1/%", "ü", "", None]),
    "int": ("int", [0, -5, 2**31 - 1, None]),
    "boolean": ("boolean", [True, False, None]),
    "date": ("date", [dt.date(2026, 1, 1), dt.date(1900, 1, 1), None]),
    "timestamp": ("timestamp", [dt.datetime(2026, 1, 1, 12, 30, 0, 123456), None]),
    "double": ("double", [0.5, float("inf"), -0.0, None]),
    "decimal": ("decimal(20,3)", [Decimal("1.250"), Decimal("-12345678901234567.125"), None]),
    "binary": ("binary", [bytearray(b"abc"), None]),
}


@pytest.mark.parametrize("case", PARTITIONS)
@pytest.mark.long
def test_partition_values_of_each_type_come_from_the_log(spark: SparkSession, tmp_path: Path, case: str) -> None:
    kind, values = PARTITIONS[case]
    path = str(tmp_path / "t")
    rows = spark.createDataFrame([(n, value) for n, value in enumerate(values)], f"id long, p {kind}")
    save(rows, path, "error", ["p"], {})
    found = {row.id: row.p for row in load(spark, path).collect()}
    assert found == {n: None if value == "" else value for n, value in enumerate(values)}
    for n, value in enumerate(values):
        expected = [other for other, each in found.items() if each == found[n]]
        one = (
            load(spark, path)
            .select("*")
            .where(F.col("p").eqNullSafe(F.lit(value).cast(kind) if value else F.lit(value)))
        )
        if value != "":
            assert sorted(row.id for row in one.collect()) == sorted(expected)
    assert load(spark, path).select("*").where("p IS NULL").count() == sum(v is None for v in found.values())


def test_a_partition_filter_that_only_spark_evaluates_is_exact(spark: SparkSession, days: str) -> None:
    frame = load(spark, days).select("*")
    assert frame.where("dayofweek(day) = 1").count() == 12
    assert frame.where("day > DATE '2026-01-10' OR id < 4").count() == 44
    assert frame.where("hash(day) = hash(DATE '2026-01-03')").count() == 4


def test_a_join_prunes_partitions_by_the_other_side(spark: SparkSession, days: str) -> None:
    few = spark.sql("SELECT DATE '2026-01-03' AS day, 'x' AS name UNION ALL SELECT DATE '2026-01-05', 'y'")
    joined = load(spark, days).join(few.where("name != 'y'"), "day")
    assert sorted(row.id for row in joined.collect()) == [8, 9, 10, 11]
    twice = load(spark, days)
    assert twice.alias("a").join(twice.alias("b"), F.expr("a.id = b.id + 4")).count() == 76


def test_names_of_a_mapped_table_are_pruned(spark: SparkSession, tmp_path: Path, listed: list[int]) -> None:
    path = str(tmp_path / "t")
    table = DeltaTable.create(spark).location(path).addColumn("a b", "LONG").addColumn("s", "STRUCT<x: LONG>")
    table.addColumn("p", "STRING").partitionedBy("p").property("delta.columnMapping.mode", "name").execute()
    for n in range(3):
        rows = spark.sql(f"SELECT {n}L AS `a b`, named_struct('x', {n}L) AS s, 'p{n}' AS p")
        save(rows, path, "append", [], {})
    for condition in ("`a b` = 1", "s.x = 1", "p = 'p1'"):
        # Spark pushes no filter through the renaming of nested fields.
        frames = [load(spark, path), load(spark, path).select("*")][: 1 if "." in condition else 2]
        for frame in frames:
            del listed[:]
            assert [row[0] for row in frame.where(condition).collect()] == [1]
            assert listed == [1], condition


def test_two_frames_of_a_version_are_one_to_the_cache(spark: SparkSession, days: str) -> None:
    first, second = load(spark, days), load(spark, days)
    assert first.sameSemantics(second)
    assert not first.sameSemantics(load(spark, days).where("id = 1"))
    save(spark.sql("SELECT 1L AS id, DATE '2026-01-01' AS day, 0L AS n"), days, "append", [], {})
    assert not first.sameSemantics(load(spark, days))
    first.cache()
    try:
        assert second.storageLevel.useMemory
        assert (first.count(), second.count(), load(spark, days).count()) == (80, 80, 81)
    finally:
        first.unpersist()


def test_a_frame_stays_at_its_version(spark: SparkSession, days: str) -> None:
    frame = load(spark, days)
    DeltaTable.forPath(spark, days).delete("id < 40")
    assert (frame.count(), load(spark, days).count()) == (80, 40)


def test_the_error_of_a_callback_reaches_the_caller(spark: SparkSession, days: str, tmp_path: Path) -> None:
    slackwater.enable(spark)
    frame = load(spark, days)
    next(Path(days).glob("day=2026-01-03/*.parquet")).unlink()
    assert frame.where("day = DATE '2026-01-04'").count() == 4
    actions: list[Callable[[], object]] = [
        frame.count,
        frame.toArrow,
        frame.select("id").orderBy("id").collect,
        lambda: frame.join(frame.select("id"), "id").collect(),
        lambda: frame.write.format("parquet").save(str(tmp_path / "copy")),
        lambda: frame.write.format("delta").save(str(tmp_path / "copy of delta")),
        lambda: spark.sql(f"SELECT max(id) FROM delta.`{days}`").collect(),
        frame.explain,
    ]
    for action in actions[:-1]:
        with pytest.raises(errors.DataFileNotFound, match="version 0 names a data file that does not exist"):
            action()
    actions[-1]()


def test_a_session_in_another_time_zone_reads_the_values_of_the_frame(
    spark: SparkSession, tmp_path: Path, conf: Callable[[str, str], None]
) -> None:
    path = str(tmp_path / "t")
    conf("spark.sql.session.timeZone", "UTC")
    rows = spark.sql(
        "SELECT 1L AS id, TIMESTAMP '2026-01-01 12:00:00' AS p UNION ALL SELECT 2L, TIMESTAMP '2026-01-02 12:00:00'"
    )
    save(rows, path, "error", ["p"], {})
    frame = load(spark, path)
    conf("spark.sql.session.timeZone", "Asia/Tokyo")
    assert [row.id for row in frame.select("*").where("p = TIMESTAMP '2026-01-01 21:00:00'").collect()] == [1]
    assert [row.id for row in load(spark, path).where("p = TIMESTAMP '2026-01-01 21:00:00'").collect()] == [1]


@pytest.fixture
def deleted(spark: SparkSession, tmp_path: Path) -> str:
    """Return a table of 12 files of 1,000 rows: ids with id % 100 = 7 are deleted by vectors, in 11 files."""
    path = str(tmp_path / "deleted")
    rows = spark.range(0, 12_000, 1, 1).selectExpr("id", "id div 1000 AS p")
    save(rows, path, "error", ["p"], {"delta.enableDeletionVectors": "true"})
    DeltaTable.forPath(spark, path).delete("id % 100 = 7 AND p < 11")
    return path


def test_vectors_are_loaded_for_the_files_of_a_query(
    spark: SparkSession, deleted: str, listed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[int] = []
    original = DeferredVectorFiles.words

    def words(self: DeferredVectorFiles) -> Any:
        found = original(self)
        loaded.append(found.num_rows)
        return found

    monkeypatch.setattr(DeferredVectorFiles, "words", words)
    frame = load(spark, deleted)
    one = frame.where("id BETWEEN 3000 AND 3999")
    assert (loaded, listed) == ([], [])
    assert one.count() == 990
    assert loaded == [1]
    assert frame.count() == 12_000 - 110
    assert frame.where("p = 11").count() == 1000


def test_vectors_are_loaded_for_the_files_of_a_query_of_a_view(
    spark: SparkSession, deleted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[int] = []

    def counted(store: Any, vectors: Any, outside: bool) -> Any:
        loaded.append(len(vectors))
        return load_deletion_vectors(store, vectors, outside)

    monkeypatch.setattr("slackwater.spark.read.deferred_files.load_deletion_vectors", counted)
    slackwater.enable(spark)
    spark.sql(f"CREATE TEMP VIEW deleted_tv (number, part) AS SELECT id, p FROM delta.`{deleted}`")
    spark.sql(f"CREATE VIEW deleted_cv AS SELECT p, id + 1 AS n FROM delta.`{deleted}`")
    try:
        for view, part in (("deleted_tv", "part"), ("deleted_cv", "p")):
            assert spark.sql(f"SELECT * FROM {view} WHERE {part} = 3").count() == 990
            assert loaded == [1]
            loaded.clear()
            deferred_files._recent._found.clear()
    finally:
        spark.catalog.dropTempView("deleted_tv")
        spark.sql("DROP VIEW deleted_cv")


def test_vectors_of_a_view_are_loaded_once(spark: SparkSession, deleted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[int] = []

    def counted(store: Any, vectors: Any, outside: bool) -> Any:
        loaded.append(len(vectors))
        return load_deletion_vectors(store, vectors, outside)

    monkeypatch.setattr("slackwater.spark.read.deferred_files.load_deletion_vectors", counted)

    def remaining(p: int) -> int:
        load(spark, deleted).createOrReplaceTempView("deleted_of_test")
        query = f"SELECT count(*) FROM (SELECT p, id + 1 AS n FROM deleted_of_test) WHERE p = {p}"
        return int(spark.sql(query).collect()[0][0])

    assert [remaining(p) for p in (3, 4, 11)] == [990, 990, 1000]
    assert loaded == [11]
    # After another listing, the numbers of the files are others.
    recent = deferred_files._recent._found
    for key in [each for each in recent if each.endswith("listed")]:
        del recent[key]
    for number, file in enumerate(sorted(Path(deleted).glob("p=*/*.parquet"))):
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    assert [remaining(p) for p in (5, 6, 11)] == [990, 990, 1000]
    assert loaded == [11, 11]
    DeltaTable.forPath(spark, deleted).delete("id = 5000")
    assert [remaining(p) for p in (5, 6)] == [989, 990]
    assert loaded == [11, 11, 11]
    monkeypatch.setattr(deferred_files, "_MOST_WORDS_BYTES", 0)
    recent.clear()
    assert [remaining(p) for p in (5, 6)] == [989, 990]
    assert loaded == [11] * 5


@pytest.mark.long
def test_files_of_one_size_and_time_have_distinct_numbers(spark: SparkSession, deleted: str) -> None:
    expected = sorted(row.id for row in load(spark, deleted).collect())
    files = sorted(Path(deleted).glob("p=*/*.parquet"))
    size = max(file.stat().st_size for file in files)
    assert len(expected) == 12_000 - 110
    for file in files:
        os.utime(file, (1_700_000_000, 1_700_000_000))
    assert len({file.stat().st_size for file in files if file.stat().st_size == size}) == 1
    assert sorted(row.id for row in load(spark, deleted).collect()) == expected


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_rows_are_right_with_and_without_adaptive_execution(
    spark: SparkSession, deleted: str, conf: Callable[[str, str], None], adaptive: str
) -> None:
    conf("spark.sql.adaptive.enabled", adaptive)
    frame = load(spark, deleted)
    counts = {row.p: row["count"] for row in frame.groupBy("p").count().collect()}
    assert counts == {p: 990 if p < 11 else 1000 for p in range(12)}
    assert frame.select("*").where("id = 107 OR id = 108").count() == 1


@pytest.mark.long
def test_first_rows_are_read_from_the_first_files(
    spark: SparkSession, deleted: str, days: str, listed: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    frame = load(spark, days)
    reads: list[Callable[[], object]] = [
        lambda: frame.limit(4).count() == 4,
        lambda: len(frame.take(4)) == 4,
        lambda: len(frame.head(3) or ()) == 3,
        lambda: frame.first() is not None,
        lambda: frame.limit(4).select(frame.id).count() == 4,
    ]
    for read in reads:
        del listed[:]
        assert read()
        assert listed == [1]
    del listed[:]
    frame.show(3)
    assert "only showing top 3 rows" in capsys.readouterr().out
    assert listed == [1]
    assert (frame.limit(80).count(), frame.limit(81).count(), frame.limit(0).count()) == (80, 80, 0)
    assert (load(spark, deleted).limit(11_500).count(), load(spark, deleted).limit(99_999).count()) == (11_500, 11_890)
    with pytest.raises(PySparkException):
        frame.limit(-1).count()
    assert frame.where("id > 10").limit(2).count() == 2


@pytest.mark.long
def test_frames_that_nobody_uses_release_their_memory(
    spark: SparkSession, days: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Snapshot.open(Table.at(days)).state.newest.nbytes
    monkeypatch.setattr(file_index, "_MOST_HELD_BYTES", 20 * held)
    monkeypatch.setattr(file_index, "_tolerated_bytes", 20 * held)
    before = len(file_index._alive)
    for _ in range(400):
        load(spark, days)
    assert len(file_index._alive) - before < 300


def test_the_files_of_a_small_table_are_listed_with_its_frame(
    spark: SparkSession, days: str, listed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_scan, "FEW_FILES", 20)
    next(Path(days).glob("day=2026-01-03/*.parquet")).unlink()
    with pytest.raises(errors.DataFileNotFound):
        load(spark, days)
    assert listed == []
    monkeypatch.setattr(table_scan, "FEW_FILES", 19)
    assert load(spark, days).columns == ["id", "day", "n"]
