"""An OPTIMIZE that is killed: its commit is there or not at all, no row is lost or doubled, the next one ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater import Snapshot
from slackwater.spark.session.modes import with_settings
from tests.faults import dying_optimize
from tests.faults.dying_optimize import POINTS
from tests.spark.services.rearranged import live, made
from tests.spark.written import data_files, listing, read, rows

# It is another process with a Spark of its own that is killed: the mode of the session that looks is all the same.
pytestmark = [pytest.mark.spark, pytest.mark.classic]
_LANDED = "commit visible, not answered"
_TOLD = ("one of two files in its place", _LANDED)


def _killed(path: Path, point: str) -> None:
    done = subprocess.run(
        [sys.executable, dying_optimize.__file__, str(path), point],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize(
    "point", [pytest.param(point, marks=[] if point in _TOLD else pytest.mark.long) for point in POINTS]
)
def test_a_killed_optimize_is_whole_or_absent_and_the_next_one_ends_it(
    spark: SparkSession, tmp_path: Path, point: str
) -> None:
    slackwater.enable(spark)
    path = tmp_path / "t"
    table = made(spark, str(path), 3, "select id, id % 2 p from numbers", "p")
    before = rows(read(spark, path))
    assert len(live(str(path))) == 6
    _killed(path, point)

    landed = point == _LANDED
    assert Snapshot.load(path).version == int(landed)
    assert len(live(str(path))) == (2 if landed else 6)
    assert rows(read(spark, path)) == before

    table.optimize().executeCompaction()
    assert Snapshot.load(path).version == 1
    assert len(live(str(path))) == 2
    assert rows(read(spark, path)) == before
    # What the killed one left goes with what was compacted, and nothing else does.
    with with_settings(spark, {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}):
        table.vacuum(0, untracked_hours=0)
    assert {file.name for file in data_files(path)} == {file["path"].rpartition("/")[2] for file in live(str(path))}
    assert [name for name in listing(path) if name.startswith(".slackwater-")] == []
    assert rows(read(spark, path)) == before
