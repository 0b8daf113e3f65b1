"""Streaming queries over files that a test drops into a folder, run to the end of what is there."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from slackwater import Snapshot
from tests.spark.committed import actions


def drop(folder: Path, **columns: Any) -> None:
    """One more file for the stream that reads `folder`."""
    folder.mkdir(exist_ok=True)
    name = f"{len(list(folder.glob('*.parquet'))):03d}.parquet"
    table = pa.table(columns)
    hidden = folder / f".{name}"
    times_ns = [file.stat().st_mtime_ns for file in folder.glob("*.parquet")]
    pq.write_table(table, hidden)
    # Spark takes files in the order of their milliseconds, those of one in any.
    time_ns = max([time.time_ns(), *(each + 2_000_000 for each in times_ns)])
    os.utime(hidden, ns=(time_ns, time_ns))
    # A stream lists files while they are written; one that is renamed is whole.
    hidden.rename(folder / name)


def files(spark: SparkSession, folder: Path, ddl: str, per_batch: int = 1) -> DataFrame:
    """The stream of the rows in `folder`, `per_batch` files at a time."""
    return spark.readStream.schema(ddl).option("maxFilesPerTrigger", per_batch).parquet(str(folder))


def append(spark: SparkSession, path: str, columns: str, **options: str) -> None:
    """One row more in the table at `path`: `columns` are the columns of a SELECT. The table is created if it is new."""
    spark.sql(f"SELECT {columns}").write.format("delta").mode("append").options(**options).save(path)


def writer(frame: DataFrame, checkpoint: Path, **options: Any) -> Any:
    """The writer of a stream to a Delta table that ends when it has written what is there."""
    found = frame.writeStream.format("delta").options(checkpointLocation=str(checkpoint), **options)
    return found.trigger(availableNow=True)


def finished(query: Any) -> Any:
    """The query after its end. Raises as it failed."""
    query.awaitTermination()
    return query


def failure(query: Any) -> str:
    """What a query says that fails."""
    try:
        query.awaitTermination()
    except Exception:  # noqa: BLE001  (classic and Connect have classes of their own)
        return str(query.exception())
    raise AssertionError("the query did not fail")


def batches(path: str) -> list[tuple[str, int]]:
    """Return the query and the number of each batch in the published commits, in their order."""
    found: list[tuple[str, int]] = []
    for version in range(Snapshot.load(path, published_only=True).version + 1):
        found += [(txn["appId"], txn["version"]) for txn in actions(path, version, "txn")]
    return found


def done_batches(checkpoint: Path) -> list[int]:
    """The numbers of the batches that Spark has written down as done."""
    return sorted(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit())
