"""Relations over exactly the files named by a log.

Spark silently skips files with hidden names for Hadoop, empty files, files rejected by a filter in the Hadoop
configuration, and files deleted during the listing. Spark also lists all files of a directory. A skipped file means
lost rows, so the files listed by Spark are compared with the requested files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Hashable, Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.types import StructType

from slackwater.errors import CorruptTable, DataFileNotFound, StorageError, UnsupportedFeature
from slackwater.protocol.actions.paths import is_absolute
from slackwater.spark.hadoop.prelisted_relation import KnownFile, relation_over
from slackwater.spark.hadoop.store import HadoopStore
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.session.enabled_sessions import is_within_statement
from slackwater.spark.session.frames import frame_of_relation, listed_urls, read_paths, relation_of, uncached_reader
from slackwater.spark.session.spark_errors import is_missing_path
from slackwater.spark.session.temporary_settings import listing_on_driver
from slackwater.spark.storage.locations import DataLocations
from slackwater.spark.storage.row_transport import require_known
from slackwater.storage.existence import metas_of

# Overrides the session's settings, because a table must not lose files silently.
EVERY_FILE = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
# The class, because for the name "parquet" the session chooses between two readers
# (`spark.sql.sources.useV1SourceList`). Only this reader reports each row's file.
_PARQUET = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
_SHOWN = 4
_KEPT = "_slackwater_relations"
_MOST_KEPT, _MOST_KEPT_FILES = 32, 256


def read_files(
    spark: SparkSession, reader: DataFrameReader, locations: DataLocations, paths: Sequence[str]
) -> DataFrame:
    """Return the rows of all Parquet files at `paths`. Each path has the form of `DataLocations.relative`.

    A file deleted or unreadable later fails the job.

    Raises:
        UnsupportedFeature: If Hadoop hides a file by its name, or cannot open a path.
        DataFileNotFound: If a file is missing.
        CorruptTable: If a path is not a file, or a file is empty.
        StorageError: If Spark lists other files, for an unknown reason.
    """
    hidden = [path for path in paths if is_hidden(path)]
    if hidden:
        raise UnsupportedFeature(
            f"{locations.root}: the log names {_some(hidden)}. Spark skips files whose names start with '_' or '.', or "
            "end with '._COPYING_', so rows would be missing. Rewrite the files under other names with another engine, "
            "for example by OPTIMIZE of delta-spark or delta-rs"
        )
    require_openable(spark, locations, paths)
    known = _known_files(spark, locations, paths)
    # Without a Spark job for a local disk, because a local lookup of many paths is faster on the driver.
    with listing_on_driver(spark, len(paths) if locations.is_local else 0):
        try:
            asked = locations.spark_paths(paths[:1] if known else paths)
            frame = read_paths(spark, reader.options(**EVERY_FILE, **locations.reading).format(_PARQUET), asked)
        except AnalysisException as error:
            if is_missing_path(error):
                missing = (error.getMessageParameters() or {}).get("path") or str(error).splitlines()[0]
                raise DataFileNotFound(missing) from error
            raise
        if known:
            frame = frame_of_relation(spark, relation_over(spark, relation_of(frame), known))
        listed = listed_urls(frame)
        if not listed and is_connect(spark):
            # Spark plans an equal cached frame instead, which has no files.
            listed = listed_urls(read_paths(spark, uncached_reader(reader), asked))
    require_content(locations, paths)
    _require_same(locations, paths, listed)
    return frame


def require_openable(spark: SparkSession, locations: DataLocations, paths: Sequence[str]) -> None:
    """Raise UnsupportedFeature if Hadoop cannot open a path, or Spark has no file system for an absolute path."""
    if (path := locations.unreadable(paths)) is not None:
        raise UnsupportedFeature(
            f"{path}: Hadoop, the file reader of Spark, cannot open a path with a colon and one of {{ }} [ ] * ? \\. "
            "Move the table's directory to a path without these characters"
        )
    require_known(spark, locations.store.root_url, (locations.place(path) for path in paths if is_absolute(path)))


def _known_files(spark: SparkSession, locations: DataLocations, paths: Sequence[str]) -> list[KnownFile] | None:
    """Return the files at `paths`, checked in the store by this process. None if Spark must check them.

    Spark needs three requests per file to an object store, this process one. The sizes in the log are not used, because
    Spark would silently skip the end of a longer file. Raises DataFileNotFound, CorruptTable.
    """
    store = locations.store
    is_asked_here = not (is_connect(spark) or locations.is_local or isinstance(store, HadoopStore))
    if not is_asked_here or len(paths) < 2 or any(map(is_absolute, paths)):
        return None
    found = []
    for path, meta in zip(paths, metas_of(store, paths), strict=True):
        if meta is None:
            raise DataFileNotFound(f"{locations.root}: {path} does not exist")
        if not meta.size_bytes:
            raise without_bytes(locations, path)
        locations.know(meta)
        found.append(KnownFile(locations.place(path), meta.size_bytes, meta.modified_ms))
    return found


class KeptRelations:
    """A cache of the latest file relations of a classic session. Creating a relation costs a listing and a plan.

    The key of a relation has its columns, and its files with sizes and times, checked on every use. Only relations over
    local files are cached, because their check is cheap.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._kept: dict[Hashable, tuple[Any, StructType]] = {}
        self._for_statements: dict[Hashable, DataFrame] = {}

    def __len__(self) -> int:
        return len(self._kept)

    @staticmethod
    def of(spark: SparkSession) -> KeptRelations:
        """Return the cache of the session."""
        found: KeptRelations = spark.__dict__.setdefault(_KEPT, KeptRelations(spark))
        return found

    def key(self, locations: DataLocations, paths: Sequence[str], columns: Sequence[str]) -> Hashable | None:
        """Return the cache key for a relation of these files and columns, None if it is not cacheable."""
        if is_connect(self._spark) or not locations.is_local or len(paths) > _MOST_KEPT_FILES:
            return None
        try:
            found = [os.stat(locations.place(path)) for path in paths]  # noqa: PTH116  (as in `require_content`)
        except OSError:
            return None
        marks = tuple((each.st_ino, each.st_size, each.st_mtime_ns) for each in found)
        return (locations.root, tuple(paths), marks, tuple(columns))

    def frame(self, key: Hashable | None) -> DataFrame | None:
        """Return a new frame over the relation cached under `key`, None if there is none.

        Within a statement, the previous frame is reused, because statements name columns by table, and Spark
        distinguishes tables.
        """
        found = None if key is None else self._kept.pop(key, None)
        if found is None:
            return None
        self._kept[key] = found
        if not is_within_statement():
            return frame_of_relation(self._spark, *found)
        frame = self._for_statements.get(key)
        if frame is None:
            frame = self._for_statements[key] = frame_of_relation(self._spark, *found)
        return frame

    def keep(self, key: Hashable | None, frame: DataFrame) -> None:
        """Cache the relation of `frame`, and evict the least recently used relation."""
        if key is None:
            return
        self._kept[key] = (relation_of(frame), frame.schema)
        while len(self._kept) > _MOST_KEPT:
            oldest = next(iter(self._kept))
            self._kept.pop(oldest, None)
            self._for_statements.pop(oldest, None)


def is_hidden(path: str) -> bool:
    """Return whether Hadoop's listings, and therefore Spark, skip a file because of its name.

    Source: `HadoopFSUtils.shouldFilterOutPathName`; the `=` is that of a partition's directory.
    """
    name = path.rpartition("/")[2]
    return (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")


def require_content(locations: DataLocations, paths: Sequence[str]) -> None:
    """Raise an error unless all paths on a local disk are non-empty files, because Spark skips empty files.

    Does nothing for a remote store, because an object is either complete or missing. Raises DataFileNotFound for a
    missing file, CorruptTable for an empty file or a path that is not a file.
    """
    if not locations.is_local:
        return
    for path in paths:
        place = locations.place(path)
        if "://" in place:
            continue
        try:
            found = os.stat(place)  # noqa: PTH116  (a Path costs more than the call, for thousands of files)
        except FileNotFoundError as error:
            raise DataFileNotFound(f"{locations.root}: {path} does not exist") from error
        if not stat.S_ISREG(found.st_mode):
            raise not_a_file(locations, path)
        if not found.st_size:
            raise without_bytes(locations, path)


def not_a_file(locations: DataLocations, path: str) -> CorruptTable:
    """Return the error for a path in the log that is not a file."""
    return CorruptTable(f"{locations.root}: the log names {path}, which is not a file. Restore the file")


def without_bytes(locations: DataLocations, path: str) -> CorruptTable:
    """Return the error for an empty data file."""
    return CorruptTable(
        f"{locations.root}: the file {path}, which the log names, is empty: its writer's machine stopped before the "
        "bytes were on the disk, or the file was truncated. Restore the file, or remove it from the table"
    )


def _require_same(locations: DataLocations, paths: Sequence[str], listed: Sequence[str]) -> None:
    wanted = dict(zip(locations.metadata_urls(paths), paths, strict=True))
    found = {url.replace("file:///", "file:/", 1) for url in listed}
    if len(found) != len(listed):
        raise StorageError(f"{locations.root}: Spark lists {len(listed) - len(found)} files more than once")
    if missing := [path for url, path in wanted.items() if url not in found]:
        raise StorageError(
            f"{locations.root}: Spark does not list {_some(missing)}, so rows would be missing. The files were "
            "deleted just now, or the Hadoop setting mapreduce.input.pathFilter.class filters them"
        )
    if others := found.difference(wanted):
        raise StorageError(
            f"{locations.root}: Spark lists unrequested files, or spells their paths differently: {_some(others)}"
        )


def _some(names: Sequence[str] | set[str]) -> str:
    shown = ", ".join(sorted(names)[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
