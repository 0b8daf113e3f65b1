"""Tasks and executors that end while they write: Spark repeats their work, and the rows are there once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slackwater import DeltaTable
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.storage.row_transport import ROWS
from tests.spark.written import data_files, listing, read, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.modes, pytest.mark.usefixtures("enabled")]
Batches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_ROWS = 40_000


def _ends_once(table: Path | None, mark: Path, kills: bool) -> Batches:
    """What a task does that ends, once, with an error or with its executor: as soon as `table` has bytes of a file."""
    # A worker has no module of tests: what it is given must name none.
    wait = 60
    sigkill = int(signal.SIGKILL)

    def ends(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from (batch.slice(at, 1_000) for at in range(0, batch.num_rows, 1_000))
        try:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        until = time.monotonic() + wait
        while table is not None and not any(
            file.stat().st_size for file in table.rglob(".slackwater-*/rows/**/*.parquet")
        ):
            assert time.monotonic() < until
            time.sleep(0.01)
        if not kills:
            raise ValueError("this task ends once")
        pid = os.getpid()
        while "java" not in Path(f"/proc/{pid}/cmdline").read_text():
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(pid, sigkill)

    return ends


@pytest.fixture(params=["spark", "arrow"])
def way(request: pytest.FixtureRequest, conf: Callable[[str, str], None]) -> str:
    value: str = request.param
    conf(ROWS, value)
    return value


@pytest.mark.parametrize("kills", [False, True], ids=["task", "executor"])
@pytest.mark.usefixtures("way")
def test_rows_of_a_task_that_was_repeated_are_there_once(spark: SparkSession, tmp_path: Path, kills: bool) -> None:
    path = tmp_path / "t"
    save(spark.range(10), path)
    mark = tmp_path / "ended"
    # Files of 1,000 rows each: some are whole when the task ends, and one is not.
    ending = spark.range(10, _ROWS, 1, 2).mapInArrow(_ends_once(path, mark, kills), "id long")
    save(ending, path, maxRecordsPerFile="1000")
    assert mark.exists()
    assert read(spark, path).agg(F.count("id"), F.count_distinct("id")).head() == (_ROWS, _ROWS)
    assert Snapshot.load(path).version == 1
    named = set(Snapshot.load(path).live_files(["path"])["path"].to_pylist())
    assert {file.name for file in data_files(path)} == named
    assert [name for name in listing(path) if name.startswith(".")] == []


@pytest.mark.usefixtures("way")
def test_a_merge_whose_executor_ended_changes_each_row_once(spark: SparkSession, tmp_path: Path, vectors: str) -> None:
    path = tmp_path / "t"
    save(spark.range(0, 100, 1, 2), path, **{"delta.enableDeletionVectors": vectors})
    ending = spark.range(50, 150, 1, 2).mapInArrow(_ends_once(None, tmp_path / "ended", kills=True), "id long")
    merge = DeltaTable.forPath(spark, str(path)).alias("t").merge(ending.alias("s"), "t.id = s.id")
    merge.whenMatchedUpdate(set={"id": "s.id + 1000"}).whenNotMatchedInsertAll().execute()
    assert (tmp_path / "ended").exists()
    assert rows(read(spark, path)) == sorted(
        [(n,) for n in (*range(50), *range(1050, 1100), *range(100, 150))], key=repr
    )
    assert Snapshot.load(path).version == 1
