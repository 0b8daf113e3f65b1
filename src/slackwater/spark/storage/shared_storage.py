"""Check that Spark and this process find the same files of a table, before an operation depends on them.

This process reads the log, writes commits and lists the files written by Spark. Spark's driver lists the files to read.
Spark's executors read and write these files. One path must mean the same file for all three. A bucket has one address
on all machines. A path of a disk can mean another file, or none, on another machine.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from slackwater.errors import StorageRefused
from slackwater.log.files.segment import LogSegment
from slackwater.spark.session.classic_connect import default_parallelism, is_one_process
from slackwater.spark.session.spark_errors import is_missing_path
from slackwater.spark.session.temporary_settings import listing_on_driver
from slackwater.spark.storage.locations import DataLocations
from slackwater.storage.existence import missing_files
from slackwater.storage.store import ObjectStore

WHAT_TO_DO = (
    "this process, Spark's driver or Connect server and all of its executors must have the table's storage mounted at "
    "the same path, and the users that they run as must be allowed to read and write there"
)
"""What helps where they do not find the same files."""

_SEEN = "_slackwater_shared_places"
# A larger file is told from others by its size alone.
_MOST_HASHED_BYTES = 16 * 1024**2


def require_shared(
    spark: SparkSession, store: ObjectStore, sample: Callable[[], str | None], *, each_table: bool = False
) -> None:
    """Check that Spark's driver and executors find the same file `sample()` as this process.

    The check compares the bytes, for a large file only the size. It runs once per session and mount point of this
    machine (with `each_table`: per table), in a job with a task for each core of Spark. A file that is empty, or
    deleted during the check, proves nothing. No check runs if Spark is one process of this machine, or if the table is
    in a bucket. Raises StorageRefused if Spark finds no such file, or another one.
    """
    if store.local_root is None or is_one_process(spark):
        return
    place = store.root_url if each_table else _mount_point(store.local_root)
    seen: set[str] = spark.__dict__.setdefault(_SEEN, set())
    if place in seen:
        return
    path = sample()
    here = store.head(path) if path else None
    if path is None or here is None or not here.size_bytes:
        return
    is_small = here.size_bytes <= _MOST_HASHED_BYTES
    expected = hashlib.sha256(store.read(path)).hexdigest() if is_small else str(here.size_bytes)
    found = _told(spark, store, path, F.sha2("content", 256) if is_small else F.col("length").cast("string"))
    if found == {expected}:
        seen.add(place)
    elif store.head(path) is not None:
        what = "nothing" if None in found else "another file"
        some = " on some of its executors" if expected in found else ""
        raise not_shared(store.root_url, f"{what} at {path}{some}")


def share_seen_places(spark: SparkSession, other: SparkSession) -> None:
    """Share the results of `require_shared` between `spark` and `other`, a session of the same application."""
    other.__dict__[_SEEN] = spark.__dict__.setdefault(_SEEN, set())


def log_sample(segment: LogSegment) -> str | None:
    """Return a file of the log for the check: the newest commit, or else a checkpoint.

    Older copies of the log do not have the newest commit.
    """
    if segment.commits:
        return segment.commits[-1].path
    return segment.checkpoint.paths[0] if segment.checkpoint is not None else None


def not_shared(where: str, found: str) -> StorageRefused:
    """Return the error for a path with different files for Spark and this process."""
    return StorageRefused(
        f"{where}: Spark does not see the same files there as this process, it found {found}. Nothing was read or "
        f"changed: {WHAT_TO_DO}"
    )


def all_here(store: ObjectStore, paths: Sequence[str]) -> bool:
    """Return whether this process finds each of the files, of which Spark misses one; also those outside the root."""
    return not missing_files(store, paths)


def _told(spark: SparkSession, store: ObjectStore, path: str, what: Column) -> set[str | None]:
    """Return the values of the file found by tasks of Spark, None if the driver or a task finds no file.

    One task runs per core, so that Spark distributes the tasks over all executors with free cores.
    """
    tasks = default_parallelism(spark)
    reader = spark.read.format("binaryFile").option("ignoreMissingFiles", "true")
    try:
        with listing_on_driver(spark, tasks):
            found = reader.load([DataLocations(store).spark_path(path)] * tasks)
        rows = found.select(what).collect()
    except AnalysisException as error:
        if is_missing_path(error):
            return {None}
        raise
    return {str(row[0]) for row in rows} | ({None} if len(rows) < tasks else set())


def _mount_point(root: str) -> str:
    path = Path(os.path.realpath(root))
    return next(str(each) for each in (path, *path.parents) if each.is_mount())
