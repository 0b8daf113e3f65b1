"""Data files written by Spark's own writer to a local disk, and uploaded to the table's store.

For Spark in a single process on this machine, without a connector for the store.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from slackwater.storage.parquet_footer import ParquetFooter, read_footer
from slackwater.storage.store import ObjectMeta, ObjectStore

_SENDERS = 8
_DIRECTORIES = "SPARK_LOCAL_DIRS"


def write_local_files(
    frame: DataFrame, store: ObjectStore, directory: str, directories: Sequence[str], options: Mapping[str, Any]
) -> list[tuple[ObjectMeta, ParquetFooter]]:
    """Write the rows of `frame` with Spark and upload the files below `directory`, into partition directories.

    `directories` are the columns that name the partition directories. The files are first written to the first of
    Spark's local directories. Returns the uploaded files with their footers. Raises StorageError if an upload fails.
    """
    with tempfile.TemporaryDirectory(prefix="slackwater-rows-", dir=_scratch(frame.sparkSession)) as scratch:
        written = Path(scratch, "rows")
        frame.write.options(**dict(options)).partitionBy(*directories).parquet(written.as_uri())
        files = sorted(written.rglob("*.parquet"))
        with ThreadPoolExecutor(_SENDERS) as senders:
            return list(senders.map(partial(_put, store, directory, written), files))


def _put(store: ObjectStore, directory: str, written: Path, file: Path) -> tuple[ObjectMeta, ParquetFooter]:
    place, found = f"{directory}/{file.relative_to(written).as_posix()}", file.stat()
    with pa.OSFile(str(file)) as source:
        footer = read_footer(source)
    store.put_file(place, file)
    return ObjectMeta(place, found.st_size, found.st_mtime_ns // 1_000_000), footer


def _scratch(spark: SparkSession) -> str | None:
    """Return a directory with space for large files. None is this process's default for temporary files."""
    told = os.environ.get(_DIRECTORIES) or spark.conf.get("spark.local.dir", None) or ""
    first = told.split(",")[0].strip()
    return first if first and Path(first).is_dir() else None
