"""Relations over just the files that a log names.

Spark leaves out in silence what Hadoop takes for hidden, what has no bytes, what a filter in the Hadoop configuration
refuses and what vanished while it looked, and lists what is in a directory. A file that is left out is rows that are
lost, so what Spark lists is compared with what it was asked for.
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
from slackwater.spark.session.classic_connect import (
    frame_of_relation,
    is_connect,
    is_missing_path,
    listed_urls,
    read_paths,
    relation_of,
)
from slackwater.spark.session.enabled_sessions import is_within_statement
from slackwater.spark.session.locations import DataLocations
from slackwater.spark.session.row_transport import require_known
from slackwater.spark.session.temporary_settings import listing_on_driver
from slackwater.storage.existence import metas_of

# What a session may have set otherwise, for files that are its own to lose.
_EVERY_FILE = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
# By its name, "parquet", the session chooses between two readers (`spark.sql.sources.useV1SourceList`). Only this one
# tells each row's file.
_PARQUET = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
_SHOWN = 4
_KEPT = "_slackwater_relations"
_MOST_KEPT, _MOST_KEPT_FILES = 32, 256


def read_files(
    spark: SparkSession, reader: DataFrameReader, locations: DataLocations, paths: Sequence[str]
) -> DataFrame:
    """The rows of all the Parquet files at `paths`, each as `DataLocations.relative` gives it.

    A file that is gone later on, or cannot be read, fails the job. Raises UnsupportedFeature for names that Hadoop
    hides, DataFileNotFound for a file that is gone, CorruptTable for one that is none or has no bytes, StorageError
    where Spark lists others than these for a reason that is not known.
    """
    hidden = [path for path in paths if is_hidden(path)]
    if hidden:
        raise UnsupportedFeature(
            f"{locations.root}: the log names {_some(hidden)}, and Spark leaves out files whose name starts with '_' "
            "or '.' or ends with '._COPYING_': their rows would be missing. Have an engine that reads them (such as "
            "delta-spark, delta-rs) rewrite them, as OPTIMIZE does, under other names"
        )
    if (path := locations.unreadable(paths)) is not None:
        raise UnsupportedFeature(
            f"{path}: Hadoop, by which Spark reads, cannot open a path with a colon and one of {{ }} [ ] * ? \\ in it: "
            "move the table's directory to a place without"
        )
    require_known(spark, locations.store.root_url, (locations.place(path) for path in paths if is_absolute(path)))
    known = _known_files(spark, locations, paths)
    # Many paths on a local disk are looked up faster without a Spark job; in a remote store the job is right.
    with listing_on_driver(spark, len(paths) if locations.is_local else 0):
        try:
            asked = locations.spark_paths(paths[:1] if known else paths)
            frame = read_paths(spark, reader.options(**_EVERY_FILE, **locations.reading).format(_PARQUET), asked)
        except AnalysisException as error:
            if is_missing_path(error):
                missing = (error.getMessageParameters() or {}).get("path") or str(error).splitlines()[0]
                raise DataFileNotFound(missing) from error
            raise
        if known:
            frame = frame_of_relation(spark, relation_over(spark, relation_of(frame), known))
        listed = listed_urls(frame)
    require_content(locations, paths)
    _require_same(locations, paths, listed)
    return frame


def _known_files(spark: SparkSession, locations: DataLocations, paths: Sequence[str]) -> list[KnownFile] | None:
    """The files at `paths`, of which the store has been asked here; None where Spark is to ask.

    Spark asks an object store three times for each, this package once. What the log says of their sizes is not taken:
    of a file that is longer, Spark would leave out the end in silence. Raises DataFileNotFound, CorruptTable.
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
            raise _without_bytes(locations, path)
        locations.know(meta)
        found.append(KnownFile(locations.place(path), meta.size_bytes, meta.modified_ms))
    return found


class KeptRelations:
    """The relations of files that a classic session made last: to make one anew costs it a listing and a plan.

    Each is known by all that it is made of: the columns, and the files with their sizes and times, looked at anew each
    time. Only those on a local disk are kept, where a look costs next to nothing.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._kept: dict[Hashable, tuple[Any, StructType]] = {}
        self._for_statements: dict[Hashable, DataFrame] = {}

    def __len__(self) -> int:
        return len(self._kept)

    @staticmethod
    def of(spark: SparkSession) -> KeptRelations:
        """Those of the session."""
        found: KeptRelations = spark.__dict__.setdefault(_KEPT, KeptRelations(spark))
        return found

    def key(self, locations: DataLocations, paths: Sequence[str], columns: Sequence[str]) -> Hashable | None:
        """What a relation of these files and columns is known by; None for one that is not kept."""
        if is_connect(self._spark) or not locations.is_local or len(paths) > _MOST_KEPT_FILES:
            return None
        try:
            found = [os.stat(locations.place(path)) for path in paths]  # noqa: PTH116  (as in `require_content`)
        except OSError:
            return None
        marks = tuple((each.st_ino, each.st_size, each.st_mtime_ns) for each in found)
        return (locations.root, tuple(paths), marks, tuple(columns))

    def frame(self, key: Hashable | None) -> DataFrame | None:
        """A new frame over the relation that is kept by `key`; None where there is none.

        For statements it is the one of before: they name columns by the table, which Spark tells apart.
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
        """Keep the relation that `frame` is of, and let go of the one that was not asked for longest."""
        if key is None:
            return
        self._kept[key] = (relation_of(frame), frame.schema)
        while len(self._kept) > _MOST_KEPT:
            oldest = next(iter(self._kept))
            self._kept.pop(oldest, None)
            self._for_statements.pop(oldest, None)


def is_hidden(path: str) -> bool:
    """Whether Hadoop's listings, and with them Spark, leave out a file for its name.

    Source: `HadoopFSUtils.shouldFilterOutPathName`; the `=` is that of a partition's directory.
    """
    name = path.rpartition("/")[2]
    return (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")


def require_content(locations: DataLocations, paths: Sequence[str]) -> None:
    """That what is on a local disk are files with bytes: Parquet has some, and Spark leaves out what has none.

    In a remote store an object is whole, or is not there.
    """
    if not locations.is_local:
        return
    for path in paths:
        place = locations.place(path)
        if "://" in place:
            continue
        try:
            found = os.stat(place)  # noqa: PTH116  (thousands of them, where building a Path costs more than asking)
        except FileNotFoundError as error:
            raise DataFileNotFound(f"{locations.root}: {path} does not exist") from error
        if not stat.S_ISREG(found.st_mode):
            raise CorruptTable(f"{locations.root}: the log names {path}, which is no file: restore it")
        if not found.st_size:
            raise _without_bytes(locations, path)


def _without_bytes(locations: DataLocations, path: str) -> CorruptTable:
    return CorruptTable(
        f"{locations.root}: the file {path}, which the log names, has no bytes: its writer's machine stopped "
        "before they were on the disk, or it was emptied. Restore it, or remove it from the table"
    )


def _require_same(locations: DataLocations, paths: Sequence[str], listed: Sequence[str]) -> None:
    wanted = dict(zip(locations.metadata_urls(paths), paths, strict=True))
    found = {url.replace("file:///", "file:/", 1) for url in listed}
    if len(found) != len(listed):
        raise StorageError(f"{locations.root}: Spark lists {len(listed) - len(found)} files more than once")
    if missing := [path for url, path in wanted.items() if url not in found]:
        raise StorageError(
            f"{locations.root}: Spark leaves out {_some(missing)}, and gives no reason: rows would be missing. They "
            "may have been deleted this moment, or the Hadoop setting mapreduce.input.pathFilter.class filters them"
        )
    if others := found.difference(wanted):
        raise StorageError(
            f"{locations.root}: Spark lists files that it was not asked for, or spells them otherwise: {_some(others)}"
        )


def _some(names: Sequence[str] | set[str]) -> str:
    shown = ", ".join(sorted(names)[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"
