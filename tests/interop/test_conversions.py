"""Parquet directories that become tables, and manifests: delta-spark makes the same of them, and others read ours."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from slackwater import DeltaTable
from slackwater.protocol.actions.file_names import commit_path
from slackwater.protocol.actions.paths import canonical_path
from slackwater.scan.snapshot import Snapshot

from .delta_spark import DeltaSpark
from .peers import PEERS, why_absent
from .rows import expected_rows, rows_of
from .types_alike import bare_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

_PARTITIONS = "p INT, s STRING, d DATE, c DECIMAL(6, 2)"
_ROWS = """
    SELECT id, concat('v', id) AS v, IF(id = 1, NULL, id * 1.5D) AS x, named_struct('a', id) AS st,
           timestamp_micros(id * 1000003) AS ts, IF(id = 0, NULL, CAST(id AS INT)) AS p,
           IF(id = 1, NULL, concat('a=b/%:é ', id)) AS s, date_add(DATE '2026-01-01', CAST(id AS INT)) AS d,
           CAST(id * 1.5 AS DECIMAL(6, 2)) AS c
    FROM range(3)
"""
# Not by times: their SQL cannot say TIMESTAMP there.
_COLUMNS = ["p", "s", "d", "c"]
# DuckDB reads a directory name such as `s=a%3Db` as a pattern of its own.
_PLAIN = ["p", "d"]


def _directory(ours: SparkSession, path: Path, columns: list[str]) -> None:
    kept = ["id", "v", "x", "st", "ts", *columns]
    ours.sql(_ROWS).select(*kept).write.partitionBy(*columns).parquet(str(path))


def _commit(path: Path) -> dict[str, Any]:
    """Version 0: its actions by kind, the files by path."""
    lines = [json.loads(line) for line in (path / commit_path(0)).read_text().splitlines()]
    single = {kind: node for line in lines for kind, node in line.items() if kind != "add"}
    return {**single, "adds": {canonical_path(line["add"]["path"]): line["add"] for line in lines if "add" in line}}


def test_delta_spark_has_the_same_variants_of_another_writer(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    mine.mkdir()
    duckdb = pytest.importorskip("duckdb")
    rows = "SELECT 1 AS id, 'x'::VARIANT AS v UNION ALL SELECT 2, {'a': 1, 'b': [1, 2.5]}::VARIANT"
    duckdb.sql(f"COPY ({rows}) TO '{mine}/f.parquet'")
    shutil.copytree(mine, theirs)
    DeltaTable.convertToDelta(ours, f"parquet.`{mine}`")
    delta_spark.run(f"CONVERT TO DELTA parquet.`{theirs}`")
    found, expected = _commit(mine), _commit(theirs)
    assert json.loads(found["metaData"]["schemaString"]) == json.loads(expected["metaData"]["schemaString"])
    query = "SELECT id, to_json(v) AS v FROM delta.`{}` ORDER BY id"
    wanted = delta_spark.sql(query.format(theirs)).rows
    assert delta_spark.sql(query.format(mine)).rows.equals(wanted)
    for path in (mine, theirs):
        assert [row.v for row in ours.sql(query.format(path)).collect()] == wanted["v"].to_pylist()


@pytest.mark.parametrize("columns", [[], _COLUMNS], ids=["plain", "partitioned"])
def test_delta_spark_makes_the_same_table(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path, columns: list[str]
) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    _directory(ours, mine, columns)
    shutil.copytree(mine, theirs)
    DeltaTable.convertToDelta(ours, f"parquet.`{mine}`", _PARTITIONS if columns else None)
    partitioned = f" PARTITIONED BY ({_PARTITIONS})" if columns else ""
    delta_spark.run(f"CONVERT TO DELTA parquet.`{theirs}`{partitioned}")
    found, expected = _commit(mine), _commit(theirs)
    assert found["adds"].keys() == expected["adds"].keys()
    for path, add in expected["adds"].items():
        assert found["adds"][path]["size"] == add["size"]
        assert json.loads(found["adds"][path]["stats"])["numRecords"] == json.loads(add["stats"])["numRecords"]
    assert found["metaData"]["partitionColumns"] == expected["metaData"]["partitionColumns"]
    assert bare_schema(json.loads(found["metaData"]["schemaString"])) == bare_schema(
        json.loads(expected["metaData"]["schemaString"])
    )
    (we,), (they,) = delta_spark.history(str(mine)), delta_spark.history(str(theirs))
    for field in ("operation", "operationParameters", "operationMetrics"):
        assert we[field] == they[field], field
    rows = rows_of(delta_spark.read(str(theirs)).rows)
    assert rows_of(delta_spark.read(str(mine)).rows) == rows
    assert rows_of(ours.read.format("delta").load(str(mine)).toArrow()) == rows
    assert rows_of(ours.read.format("delta").load(str(theirs)).toArrow()) == rows


@pytest.mark.parametrize("peer", PEERS)
def test_other_engines_read_what_was_converted(ours: SparkSession, tmp_path: Path, peer: str) -> None:
    if why_absent(peer) is not None:
        pytest.skip(why_absent(peer) or "")
    path = tmp_path / "t"
    _directory(ours, path, _PLAIN)
    DeltaTable.convertToDelta(ours, f"parquet.`{path}`", "p INT, d DATE")
    wanted = ours.sql(_ROWS).select("id", "v", "x", "st", "ts", *_PLAIN).toArrow()
    assert rows_of(PEERS[peer](str(path)).select(wanted.column_names)) == rows_of(wanted)


@pytest.mark.parametrize("columns", [[], _COLUMNS], ids=["plain", "partitioned"])
def test_manifests_are_those_of_delta_spark(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path, columns: list[str]
) -> None:
    path = tmp_path / "a b"
    frame = ours.sql(_ROWS).select("id", *columns).repartition(1)
    frame.write.format("delta").partitionBy(*columns).save(str(path))
    frame.where("id > 0").write.format("delta").mode("append").save(str(path))
    delta_spark.run(f"GENERATE symlink_format_manifest FOR TABLE delta.`{path}`")
    expected = _manifests(path)
    DeltaTable.forPath(ours, str(path)).generate("symlink_format_manifest")
    assert _manifests(path) == expected
    # A checksum that is left of another manifest would make this fail.
    DeltaTable.forPath(ours, str(path)).delete("id = 2")
    DeltaTable.forPath(ours, str(path)).generate("symlink_format_manifest")
    listed = [
        row.value for row in ours.read.text(str(path / "_symlink_format_manifest"), recursiveFileLookup=True).collect()
    ]
    assert len(listed) == Snapshot.load(path).live_files().num_rows
    read = ours.read.parquet(*listed).select("id").toArrow()
    assert rows_of(read) == expected_rows(["id"], [(0,), (1,), (1,)])


def _manifests(path: Path) -> dict[str, list[str]]:
    root = path / "_symlink_format_manifest"
    return {str(p.relative_to(root)): sorted(p.read_text().splitlines()) for p in root.rglob("manifest")}
