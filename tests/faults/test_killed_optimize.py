"""OPTIMIZE and its kin, killed: the commit is there or not at all, no row is lost or doubled, the next one ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater import DeltaTable, Snapshot
from slackwater.spark.session.temporary_settings import with_settings
from tests.faults import dying_optimize
from tests.faults.attached_spark import gateway_of
from tests.faults.dying_optimize import AUTO, CLUSTERING, COMPACTION, OPERATIONS, POINTS, PURGE
from tests.spark.maintenance.rearranged import live, made
from tests.spark.written import data_files, listing, read, rows

# It is another process that is killed: the mode of the session that looks is all the same.
pytestmark = [pytest.mark.spark, pytest.mark.classic]
_LANDED = "commit visible, not answered"
_TOLD = ("one file in its place", _LANDED)


def _of(point: str, is_told: bool) -> Any:
    """A point that only the long run tries, unless `is_told`."""
    return pytest.param(point, marks=[] if is_told else pytest.mark.long)


def _killed(path: Path, operation: str, point: str, **gateway: str) -> None:
    done = subprocess.run(
        [sys.executable, dying_optimize.__file__, str(path), operation, point],
        capture_output=True,
        check=False,
        env={**os.environ, **gateway, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


def _table(spark: SparkSession, path: Path, operation: str) -> DeltaTable:
    """A table of six files that the operation makes two of, or one where it is clustered."""
    by = () if operation == CLUSTERING else ("p",)
    properties = {"delta.enableDeletionVectors": "true"} if operation == PURGE else {}
    table = made(spark, str(path), 3 if by else 6, "select id, id * 7 % 13 n, id % 2 p from numbers", *by, **properties)
    if operation == CLUSTERING:
        table.clusterBy("id", "n")
    elif operation == PURGE:
        table.delete("id % 10 in (2, 3)")
    elif operation == AUTO:
        spark.sql(f"alter table delta.`{path}` set tblproperties ('delta.autoOptimize.autoCompact' = 'true')")
    assert len(live(str(path))) == 6
    return table


def _end(spark: SparkSession, path: Path, operation: str) -> None:
    """Do what was killed once more; compaction by itself, which comes with rows, is done when asked for."""
    OPERATIONS[COMPACTION if operation == AUTO else operation].do(spark, str(path))


@pytest.mark.parametrize("point", [_of(point, point in _TOLD) for point in POINTS])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_rearranges_a_table_is_whole_or_absent_when_killed_and_the_next_one_ends_it(
    spark: SparkSession, tmp_path: Path, operation: str, point: str
) -> None:
    slackwater.enable(spark)
    path = tmp_path / "t"
    table = _table(spark, path, operation)
    before = rows(read(spark, path))
    _killed(path, operation, point, **gateway_of(spark))
    expected = sorted([*before, (100, 1, 0)], key=repr) if operation == AUTO else before
    _require_whole(spark, path, table, operation, point, expected)


@pytest.mark.parametrize("point", [_of(point, point != _LANDED) for point in _TOLD])
def test_an_optimize_that_is_killed_with_its_spark(spark: SparkSession, tmp_path: Path, point: str) -> None:
    slackwater.enable(spark)
    path = tmp_path / "t"
    table = _table(spark, path, COMPACTION)
    before = rows(read(spark, path))
    _killed(path, COMPACTION, point)
    _require_whole(spark, path, table, COMPACTION, point, before)


def _require_whole(
    spark: SparkSession, path: Path, table: DeltaTable, operation: str, point: str, expected: list[tuple[object, ...]]
) -> None:
    landed, version = point == _LANDED, OPERATIONS[operation].version
    num_files = 1 if operation == CLUSTERING else 2
    assert Snapshot.load(path).version == version - (not landed)
    assert len(live(str(path))) == (num_files if landed else 6 + (operation == AUTO))
    assert rows(read(spark, path)) == expected

    _end(spark, path, operation)
    assert len(live(str(path))) == num_files
    assert rows(read(spark, path)) == expected
    # What the killed one left goes with what was rewritten, and nothing else does.
    with with_settings(spark, {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}):
        table.vacuum(0, untracked_hours=0)
    assert {file.name for file in data_files(path)} == {file["path"].rpartition("/")[2] for file in live(str(path))}
    assert [name for name in listing(path) if name.startswith(".slackwater-")] == []
    assert rows(read(spark, path)) == expected
