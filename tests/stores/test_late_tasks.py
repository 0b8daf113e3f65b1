"""Tasks that put their files when the job has failed and the writer has been told of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import slackwater
from slackwater.errors import StorageError
from slackwater.storage.open import open_store
from tests.contract.owners import eventually
from tests.contract.s3_server import BUCKET, s3_server
from tests.stores.proxy import FaultProxy, Request, fault_proxy

pytestmark = [pytest.mark.spark, pytest.mark.modes, pytest.mark.usefixtures("by_arrow")]
_PATIENCE_S = 60


@pytest.fixture(scope="module")
def proxy() -> Iterator[FaultProxy]:
    with s3_server() as options, fault_proxy(options) as found:
        yield found


def _fails_when(mark: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What tasks do of which the one with the row 3 fails, once `mark` is there."""
    # A worker has no module of tests: what it is given must name none.
    patience_s = _PATIENCE_S

    def fails(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if 3 in batch.column(0).to_pylist():
                until = time.monotonic() + patience_s
                while not mark.exists() and time.monotonic() < until:
                    time.sleep(0.01)
                raise ValueError("broken")
            yield batch

    return fails


def test_a_file_that_is_put_after_the_write_has_failed_is_taken_away(
    spark: SparkSession, proxy: FaultProxy, tmp_path: Path
) -> None:
    slackwater.enable(spark)
    path, options = f"s3a://{BUCKET}/late", {key.lower(): value for key, value in proxy.options.items()}
    spark.range(2).write.format("delta").options(**options).save(path)
    store = open_store(path, proxy.options)

    def files() -> set[str]:
        found = {meta.path for meta in store.list_from("", recursive=True)}
        return {name for name in found if not name.startswith("_delta_log/")}

    before = files()
    on_its_way, released = tmp_path / "on its way", threading.Event()

    def holds_files(request: Request) -> None:
        if request.kind == "put" and request.key.endswith(".parquet"):
            on_its_way.touch()
            released.wait(_PATIENCE_S)

    broken = spark.range(0, 4, 1, 2).mapInArrow(_fails_when(on_its_way), "id long")
    with proxy.faults(holds_files):
        with pytest.raises((PySparkException, StorageError)):
            broken.write.format("delta").mode("append").options(**options).save(path)
        deleted = proxy.counts()["delete"]
        assert files() == before
        released.set()
        eventually(lambda: proxy.counts()["delete"] > deleted)
    eventually(lambda: files() == before)
