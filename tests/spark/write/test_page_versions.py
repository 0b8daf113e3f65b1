"""The version of data pages: `delta.parquet.format.version`, and what goes before it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable, Snapshot, errors
from tests.data_files.pages import page_versions
from tests.spark.written import data_files, read, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

PROPERTY, OPTION = "delta.parquet.format.version", "parquet.writer.version"
V2 = {PROPERTY: "2.12.0"}
Setting = Callable[[str, str], None]


@pytest.fixture(params=["spark", "arrow"])
def by(request: pytest.FixtureRequest, conf: Setting) -> str:
    """Who writes rows."""
    conf("spark.slackwater.rows", request.param)
    found: str = request.param
    return found


def _versions(path: Path) -> set[int]:
    return page_versions(*(path / name for name in Snapshot.load(str(path)).files()["path"].to_pylist()))


@pytest.mark.parametrize(("version", "pages"), [("1.0.0", 1), ("2.12.0", 2), ("3.0.0", 2), ("2.0.0", 1)])
def test_files_have_the_pages_of_the_table(
    spark: SparkSession, tmp_path: Path, by: str, version: str, pages: int
) -> None:
    path = tmp_path / "t"
    frame = spark.range(50).selectExpr("id", "cast(id as string) s", "array(id, null) a", "current_timestamp() ts")
    save(frame, path, **{PROPERTY: version})
    assert _versions(path) == {pages}
    assert sorted(row.id for row in read(spark, path).where("s = id").collect()) == list(range(50))


def test_changes_and_compaction_write_pages_of_the_table(spark: SparkSession, tmp_path: Path, by: str) -> None:
    path = tmp_path / "t"
    save(spark.range(0, 10, 1, 2), path, **V2, **{"delta.enableChangeDataFeed": "true"})
    table = DeltaTable.forPath(spark, str(path))
    table.update("id = 3", {"id": "30"})
    table.delete("id = 4")
    assert _versions(path) == {2}
    table.optimize().executeCompaction()
    assert _versions(path) == {2}
    assert page_versions(*data_files(path), *path.glob("_change_data/**/*.parquet")) == {2}
    assert sorted(row.id for row in read(spark, path).collect()) == [0, 1, 2, 5, 6, 7, 8, 9, 30]


def test_option_of_the_write_comes_first(spark: SparkSession, tmp_path: Path, by: str) -> None:
    path = tmp_path / "t"
    save(spark.range(3), path, **V2, **{OPTION: "v1"})
    assert _versions(path) == {1}
    save(spark.range(3), path, "overwrite")
    assert _versions(path) == {2}


def test_table_comes_before_the_session(spark: SparkSession, tmp_path: Path, conf: Setting, by: str) -> None:
    conf(OPTION, "v2")
    path = tmp_path / "t"
    save(spark.range(3), path)
    assert _versions(path) == {2}
    DeltaTable.forPath(spark, str(path)).setProperties({PROPERTY: "1.0.0"})
    save(spark.range(3), path, "overwrite")
    assert _versions(path) == {1}


def test_changed_property_leaves_files(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.range(3), path)
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{PROPERTY}' = '2.12.0')")
    save(spark.range(3, 6), path)
    assert _versions(path) == {1, 2}
    assert [row[0] for row in rows(read(spark, path))] == list(range(6))


def test_second_write_for_nested_ids_retains_the_pages(spark: SparkSession, tmp_path: Path, by: str) -> None:
    path = tmp_path / "t"
    properties = {**V2, "delta.enableIcebergCompatV2": "true", "delta.columnMapping.mode": "name"}
    save(spark.sql("SELECT 1L AS id, array(1, 2) AS a"), path, **properties)
    assert _versions(path) == {2}


def test_wrong_versions_are_refused_before_rows_are_written(spark: SparkSession, tmp_path: Path, by: str) -> None:
    path = tmp_path / "t"
    with pytest.raises(errors.InvalidArgument, match=PROPERTY):
        save(spark.range(3), path, **{PROPERTY: "2"})
    with pytest.raises(errors.InvalidArgument, match=r"parquet\.writer\.version must be v1 or v2"):
        save(spark.range(3), path, **{OPTION: "v3"})
    assert not path.exists()
