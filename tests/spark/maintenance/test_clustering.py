"""OPTIMIZE of clustered tables: what is new goes into cubes, and cubes that are full stay as they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable, Snapshot, errors
from tests.spark.changed import MAPPING, VECTORS, info
from tests.spark.maintenance.rearranged import TRACKED, live, metrics
from tests.spark.written import actions, listing, read, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]
CUBE = "spark.databricks.delta.optimize.clustering.mergeStrategy.minCubeSize"


def clustered(spark: SparkSession, path: str, *columns: str, **properties: str) -> DeltaTable:
    builder = DeltaTable.create(spark).location(path).addColumn("x", "BIGINT").addColumn("y", "STRING")
    for key, value in properties.items():
        builder = builder.property(key, value)
    return builder.clusterBy(*columns).execute()


def append(spark: SparkSession, path: str, start: int, count: int = 20) -> None:
    save(spark.range(start, start + count, 1, 2).selectExpr("id x", "concat('y', id % 10) y"), path)


def cubes(path: str) -> dict[str, int]:
    """The files of each cube; of those without, under ''."""
    found: dict[str, int] = {}
    for file in live(path):
        name = dict(file["tags"] or ()).get("ZCUBE_ID", "")
        found[name] = found.get(name, 0) + 1
    return found


@pytest.mark.parametrize("mode", ["none", "name"])
def test_what_is_new_is_clustered_and_says_so(spark: SparkSession, path: str, way: str, mode: str) -> None:
    table = clustered(spark, path, "x", "y", **{MAPPING: mode, TRACKED: "true", VECTORS: "true"})
    append(spark, path, 0)
    table.delete("x = 3")
    expected = rows(read(spark, path, rowTracking="true"))
    found = metrics(table.optimize().executeCompaction())
    assert (found["numFilesRemoved"], found["numFilesAdded"]) == (2, 1)
    assert found["clusteringStats"]["numOutputZCubes"] == 1
    assert found["clusteringStats"]["inputOtherFiles"]["numFiles"] == 2
    assert rows(read(spark, path, rowTracking="true")) == expected
    (file,) = live(path)
    tags = dict(file["tags"])
    assert file["clusteringProvider"] == "liquid"
    assert (json.loads(tags["ZCUBE_ZORDER_BY"]), tags["ZCUBE_ZORDER_CURVE"]) == (["x", "y"], "hilbert")
    assert json.loads(info(path)["operationParameters"]["clusterBy"]) == ["x", "y"]
    before = listing(path)
    assert metrics(table.optimize().executeCompaction())["numFilesRemoved"] == 0
    assert listing(path) == before, "one cube and nothing new: there is nothing to do"


@pytest.mark.long
def test_full_cubes_are_left_alone_and_others_grow(
    spark: SparkSession, path: str, conf: Callable[[str, str], None]
) -> None:
    table = clustered(spark, path, "x")
    append(spark, path, 0)
    table.optimize().executeCompaction()
    (first,) = cubes(path)
    append(spark, path, 100)
    table.optimize().executeCompaction()
    (grown,) = cubes(path)
    assert grown != first, "the cube was not full, so what is new was put into one with it"
    conf(f"{CUBE}.threshold", str(live(path)[0]["size"]))
    conf(f"{CUBE}.targetCubeSize", str(live(path)[0]["size"]))
    append(spark, path, 200)
    table.optimize().executeCompaction()
    assert set(cubes(path)) > {grown}
    assert len(cubes(path)) == 2
    append(spark, path, 300)
    table.optimize().executeCompaction()
    assert grown in cubes(path)
    table.optimize().full().executeCompaction()
    assert not cubes(path).keys() & {grown, ""}
    assert sorted(row.x for row in table.toDF().collect()) == [n + at for n in range(0, 400, 100) for at in range(20)]


def test_files_by_other_columns_and_of_other_clusterings_stay(spark: SparkSession, path: str) -> None:
    table = clustered(spark, path, "x")
    append(spark, path, 0)
    table.optimize().executeCompaction()
    (by_x,) = cubes(path)
    table.clusterBy("y")
    append(spark, path, 100)
    table.optimize().executeCompaction()
    assert set(cubes(path)) > {by_x}, "they are clustered by other columns, and stay so until they are asked for"
    table.optimize().full().executeCompaction()
    assert by_x not in cubes(path)
    (name,) = (file["path"] for file in live(path))
    _other_provider(path)
    append(spark, path, 200)
    table.optimize().full().executeCompaction()
    assert name in {file["path"] for file in live(path)}, "another clustering's files are its own"
    table.clusterBy()
    append(spark, path, 300)
    assert metrics(table.optimize().executeCompaction())["clusteringStats"] is None
    assert table.toDF().count() == 80


def _other_provider(path: str) -> None:
    log = Path(path) / "_delta_log"
    last = max(log.glob("*.json"))
    last.write_text(last.read_text().replace('"clusteringProvider":"liquid"', '"clusteringProvider":"another"'))
    for checksum in log.glob("*.crc"):
        checksum.unlink()


def test_what_is_asked_of_other_tables_is_refused(spark: SparkSession, path: str, tmp_path: Path) -> None:
    table = clustered(spark, path, "x")
    append(spark, path, 0)
    before = listing(path)
    with pytest.raises(errors.InvalidArgument, match="is clustered, so OPTIMIZE cannot z-order its rows"):
        table.optimize().executeZOrderBy("x")
    with pytest.raises(errors.InvalidArgument, match="is clustered, so it has no partitions"):
        table.optimize().where("x = 1").executeCompaction()
    assert listing(path) == before
    plain = str(tmp_path / "plain")
    save(spark.range(3), plain)
    with pytest.raises(errors.InvalidArgument, match="not clustered"):
        DeltaTable.forPath(spark, plain).optimize().full().executeCompaction()


def test_a_purge_leaves_files_in_their_cube(spark: SparkSession, path: str) -> None:
    table = clustered(spark, path, "x", **{VECTORS: "true"})
    append(spark, path, 0)
    table.optimize().executeCompaction()
    (before,) = live(path)
    table.delete("x = 3")
    metrics(table.reorg().applyPurge())
    (after,) = live(path)
    assert after["path"] != before["path"]
    kept: tuple[str, ...] = ("tags", "clusteringProvider")
    assert [_sorted(after[name]) for name in kept] == [_sorted(before[name]) for name in kept]
    assert Snapshot.load(path).version == 4
    assert actions(path, 4, "remove")[0]["dataChange"] is False


def _sorted(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value
