"""Whether Spark finds a table's files where this process does: looked at before anything depends on it.

This process reads the log, writes commits and lists what Spark wrote; Spark's driver lists files to read; its executors
read and write them. All three must mean the same file by one path. A bucket has one address for everybody; a path of a
disk means another file, or none, on another machine.
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
from slackwater.log.segment import LogSegment
from slackwater.spark.session.classic_connect import default_parallelism, is_missing_path, is_one_process
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
    """Make sure that Spark, by its driver and its executors, finds what this process has in the file `sample()`.

    Its bytes are compared; of a large file only how many they are. Looked at once per session and mount point of this
    machine (with `each_table`: per table), by a job with a task for each core that Spark has then; a file that is gone
    meanwhile, or empty, proves nothing. Not at all where Spark is one process of this machine, or the table is in a
    bucket. Raises StorageRefused where Spark finds no such file, or another one.
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
    """Let `other`, a session of the same application, know what `require_shared` found in `spark`, and the reverse."""
    other.__dict__[_SEEN] = spark.__dict__.setdefault(_SEEN, set())


def log_sample(segment: LogSegment) -> str | None:
    """A file of the log to look at: the newest commit, which an older copy of the log has not, where there is one."""
    if segment.commits:
        return segment.commits[-1].path
    return segment.checkpoint.paths[0] if segment.checkpoint is not None else None


def not_shared(where: str, found: str) -> StorageRefused:
    """The error of a place where this process has files, and Spark has not the same ones."""
    return StorageRefused(
        f"{where}: Spark does not see the files there that this process sees, it found {found}; nothing was read or "
        f"changed: {WHAT_TO_DO}"
    )


def all_here(store: ObjectStore, paths: Sequence[str]) -> bool:
    """Return whether this process finds each of the files, of which Spark misses one; also those outside the root."""
    return not missing_files(store, paths)


def _told(spark: SparkSession, store: ObjectStore, path: str, what: Column) -> set[str | None]:
    """What tasks of Spark say of the file, None where the driver or a task finds no file.

    There are as many as run at once, which Spark deals to all executors that have room.
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
