"""Data files that Spark's own writer leaves on this machine, from where they are put into the table's store.

It is for a Spark that is one process of this machine and has no connector for the store.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from slackwater.storage.store import ObjectStore

_SENDERS = 8
_DIRECTORIES = "SPARK_LOCAL_DIRS"


def write_local_files(
    frame: DataFrame, store: ObjectStore, directory: str, directories: Sequence[str], options: Mapping[str, Any]
) -> None:
    """Have Spark's files of the rows of `frame`, in directories named after `directories`, below `directory`.

    They pass through the first of Spark's own directories for what it does not hold in memory. Raises StorageError.
    """
    with tempfile.TemporaryDirectory(prefix="slackwater-rows-", dir=_scratch(frame.sparkSession)) as scratch:
        written = Path(scratch, "rows")
        frame.write.options(**dict(options)).partitionBy(*directories).parquet(written.as_uri())
        files = sorted(written.rglob("*.parquet"))
        with ThreadPoolExecutor(_SENDERS) as senders:
            places = (f"{directory}/{file.relative_to(written).as_posix()}" for file in files)
            for _ in senders.map(store.put_file, places, files):
                pass


def _scratch(spark: SparkSession) -> str | None:
    """Where there is room for large files; None is the place of this process."""
    told = os.environ.get(_DIRECTORIES) or spark.conf.get("spark.local.dir", None) or ""
    first = told.split(",")[0].strip()
    return first if first and Path(first).is_dir() else None
