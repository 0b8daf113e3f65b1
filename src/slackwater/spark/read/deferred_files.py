"""Files of a scan that are chosen when Spark plans a query, with the query's filters.

Source: delta-protocol.md "Data Files", "Partition Value Serialization"; docs/architecture.md "The life of a read".
"""

from __future__ import annotations

import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater.errors import DataFileNotFound
from slackwater.log.files.file_actions import total_size
from slackwater.predicate.predicate import And, Constant, IsNull, Not, Predicate, Unprunable, with_columns
from slackwater.protocol.actions.partition_values import parse_partition_column
from slackwater.protocol.actions.paths import is_absolute
from slackwater.protocol.features.column_mapping import ID, physical_name, physical_schema
from slackwater.protocol.schema.schema import StructField
from slackwater.scan.deletion_vectors import load_deletion_vectors
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.conditions.column_trees import read_expression
from slackwater.spark.conditions.predicates import predicate_of_tree
from slackwater.spark.hadoop.prelisted_relation import KnownFile
from slackwater.spark.jvm.file_index import Partitions, file_status
from slackwater.spark.parquet import field_ids
from slackwater.spark.read.deleted_rows import ChunkSize, words_table
from slackwater.spark.read.file_columns import ROW
from slackwater.spark.read.file_relations import not_a_file, require_openable, without_bytes
from slackwater.spark.session.settings import session_zone
from slackwater.spark.storage.locations import DataLocations
from slackwater.storage.existence import metas_of

_NUMBER = "__slackwater_number"
_SHIFT, _MASK = 21, (1 << 32) - 1
_MOST_RESULTS, _MOST_FILES, _MOST_WORDS_BYTES = 8, 200_000, 24 << 20
# A guess, to choose the size of chunks.
_LEAST_BYTES_OF_A_ROW = 8


class DeferredScan(Protocol):
    """The scan of a `DeferredFiles`."""

    @property
    def spark(self) -> SparkSession: ...

    @property
    def snapshot(self) -> Snapshot: ...

    @property
    def locations(self) -> DataLocations: ...

    @property
    def zone(self) -> str: ...

    @property
    def follows_outside(self) -> bool: ...

    @property
    def identity(self) -> str:
        """Text that is equal for two scans exactly if they read the same version of the same table in the same way."""
        ...

    def files_for(self, predicate: Predicate | None) -> pa.Table:
        """Return the files that may hold a match for `predicate`."""
        ...


class _RecentResults:
    """The latest results, because Spark retains the index of a frame until the JVM collects its garbage."""

    def __init__(self) -> None:
        self._found: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str, make: Callable[[], Any]) -> Any:
        """Return the result of `make` for `key`. Results for very many files are not retained."""
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
        result = make()
        if len(result) > _MOST_FILES:
            return result
        with self._lock:
            self._found[key] = result
            while len(self._found) > _MOST_RESULTS:
                self._found.popitem(last=False)
        return result


_recent = _RecentResults()


class _ListedFiles(dict[str, KnownFile]):
    """The listed files by path, and their deleted rows by the numbers made from this listing."""

    words: pa.Table | None = None


@dataclass(frozen=True)
class DeferredFiles:
    """The files of `scan` that may match `predicate`: those with a deletion vector, or those without one."""

    scan: DeferredScan
    predicate: Predicate
    partition_columns: tuple[StructField, ...]
    partition_schema: spark_types.StructType
    have_vectors: bool = False

    @property
    def root(self) -> str:
        return _qualified(self.scan.locations.root)

    @cached_property
    def identity(self) -> str:
        return f"{self.scan.identity} {self.predicate!r} {self.have_vectors}"

    @property
    def size_bytes(self) -> int:
        return total_size(self._files)

    @property
    def held_bytes(self) -> int:
        return int(self.scan.snapshot.state.newest.nbytes)

    @property
    def _files(self) -> pa.Table:
        found: pa.Table = _recent.get(f"{self.identity} files", lambda: self._part(self.scan.files_for(self.predicate)))
        return found

    def paths(self, filters: Sequence[Any]) -> pa.Table:
        known = _conjuncts(self.predicate)
        more = [each for each in self._predicates(filters) for each in _conjuncts(each) if each not in known]
        if all(_is_not_null(each) for each in more):
            return self._files
        return self._part(self.scan.files_for(And((self.predicate, *more))))

    def partitions(self, files: pa.Table) -> Partitions:
        mode = self.scan.snapshot.column_mapping_mode
        values = files["partitionValues"].combine_chunks()
        of_file: npt.NDArray[np.int64] = np.zeros(len(files), np.int64)
        texts = [pc.map_lookup(values, physical_name(column, mode), "first") for column in self.partition_columns]
        for text in texts:
            codes = text.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
            of_file = np.unique(of_file * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1]
        _, first, of_file = np.unique(of_file, return_index=True, return_inverse=True)
        chosen = pa.array(first)
        typed = [
            parse_partition_column(text.take(chosen), column.type, self.scan.zone)
            for text, column in zip(texts, self.partition_columns, strict=True)
        ]
        return Partitions(pa.table(typed, names=self.partition_schema.names), of_file)

    def listed(self, files: pa.Table) -> list[KnownFile]:
        """Return `files` with their sizes and times in the store.

        The sizes in the log are not used, because Spark would silently skip the end of a longer file.

        Raises:
            DataFileNotFound: If a file is missing.
            CorruptTable: If a path is not a file, or a file is empty.
            UnsupportedFeature: If Hadoop cannot open a path, or Spark has no file system for a path.
        """
        locations, snapshot = self.scan.locations, self.scan.snapshot
        paths = locations.relatives(files["path"].to_pylist())
        require_openable(self.scan.spark, locations, paths)
        found = [_on_disk(self.scan, path) for path in paths] if locations.is_local else _in_store(self.scan, paths)
        if snapshot.column_mapping_mode == ID:
            field_ids.require_field_ids(snapshot.store, paths)
        return found

    def urls(self) -> list[str]:
        locations = self.scan.locations
        return locations.metadata_urls(locations.relatives(self._files["path"].to_pylist()))

    def _part(self, files: pa.Table) -> pa.Table:
        vectors = files["deletionVector"]
        if self.have_vectors:
            return files.filter(pc.is_valid(vectors))
        return files.filter(pc.is_null(vectors)) if vectors.null_count < len(files) else files

    def _predicates(self, filters: Sequence[Any]) -> list[Predicate]:
        """Return predicates of Spark's expressions over the columns of the relation, by the table's column names."""
        scan = self.scan
        if not filters or session_zone(scan.spark) != scan.zone:
            return []
        mode = scan.snapshot.column_mapping_mode
        schema, names = physical_schema(scan.snapshot.schema, mode), self._display_paths
        found = []
        for each in filters:
            try:
                tree = read_expression(each)
            except ValueError:
                continue
            predicate = predicate_of_tree(tree, schema, scan.zone)
            found.append(with_columns(predicate, lambda column: names.get(column, column)))
        return found

    @cached_property
    def _display_paths(self) -> Mapping[tuple[str, ...], tuple[str, ...]]:
        return {physical: display for display, physical in self.scan.snapshot.physical_paths.items()}


@dataclass(frozen=True)
class DeferredVectorFiles(DeferredFiles):
    """The files with a deletion vector. Each file has a number that Spark computes from constants of the file.

    Spark's reader reports the size and the modification time of a file at no cost per row, unlike its path. If two
    files have the same number, the index reports another time for one of them.
    """

    have_vectors: bool = True
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def listed(self, files: pa.Table) -> list[KnownFile]:
        known = self._listed_by_path
        return [known[path] for path in files["path"].to_pylist()]

    def words(self) -> pa.Table:
        """Return the deleted rows in the form of `words_table`, by number of the file."""
        files, listed = self._files, self._listed_by_path
        if listed.words is not None:
            return listed.words
        found = (listed[path] for path in files["path"].to_pylist())
        numbers = [_number(file.size_bytes, file.modified_ms) for file in found]
        store, outside = self.scan.snapshot.store, self.scan.follows_outside
        bitmaps = load_deletion_vectors(store, files["deletionVector"].to_pylist(), outside)
        words = words_table(zip(numbers, bitmaps, strict=True), self.chunk_size)
        if words.nbytes <= _MOST_WORDS_BYTES:
            listed.words = words
        return words

    @cached_property
    def chunk_size(self) -> ChunkSize:
        """The size of the chunks of `words`."""
        files = self._files
        deleted = pc.struct_field(files["deletionVector"], "cardinality").to_numpy()
        rows = files["size"].to_numpy() // _LEAST_BYTES_OF_A_ROW
        return ChunkSize.fitting(deleted, np.maximum(deleted, rows))

    @property
    def _listed_by_path(self) -> _ListedFiles:
        with self._lock:
            found: _ListedFiles = _recent.get(f"{self.identity} listed", self._list_once)
            return found

    def _list_once(self) -> _ListedFiles:
        found = _ListedFiles()
        taken: set[int] = set()
        # The time to try next for files of one size and time, because copies of a table have the same time.
        next_ms: dict[tuple[int, int], int] = {}
        for path, file in zip(self._files["path"].to_pylist(), super().listed(self._files), strict=True):
            key = file.size_bytes, file.modified_ms
            modified_ms = next_ms.get(key, file.modified_ms)
            while (number := _number(file.size_bytes, modified_ms)) in taken:
                modified_ms += 1
            taken.add(number)
            next_ms[key] = modified_ms + 1
            found[path] = KnownFile(file.place, file.size_bytes, modified_ms)
        return found


def first_files(files: pa.Table, rows: int) -> pa.Table:
    """Return the first of `files` with `rows` live rows in total according to the column `stats`."""
    found = 0
    for at, (stats, vector) in enumerate(zip(files["stats"], files["deletionVector"], strict=True)):
        if found >= rows:
            return files.slice(0, at)
        told = orjson.loads(stats.as_py()) if stats.is_valid else {}
        deleted = vector["cardinality"].as_py() if vector.is_valid else 0
        count = told.get("numRecords")
        found += max(0, count - deleted) if isinstance(count, int) else 0
    return files


def numbered(frame: DataFrame) -> tuple[DataFrame, Column]:
    """Return `frame` of a `DeferredVectorFiles` with ROW, and the number of each row's file."""
    metadata = frame.metadataColumn("_metadata")
    micros = F.unix_micros(metadata.getField("file_modification_time"))
    number = metadata.getField("file_size").bitwiseXOR(micros).bitwiseXOR(F.shiftright(micros, _SHIFT))
    frame = frame.select("*", metadata.getField("row_index").alias(ROW), number.bitwiseAND(_MASK).alias(_NUMBER))
    return frame, F.col(_NUMBER)


def _number(size_bytes: int, modified_ms: int) -> int:
    micros = modified_ms * 1000
    return (size_bytes ^ micros ^ micros >> _SHIFT) & _MASK


def _conjuncts(predicate: Predicate) -> list[Predicate]:
    if isinstance(predicate, And):
        return [each for child in predicate.children for each in _conjuncts(child)]
    return [predicate]


def _is_not_null(predicate: Predicate) -> bool:
    """Return whether `predicate` is a condition that Spark adds to each comparison of a column."""
    return isinstance(predicate, Constant | Unprunable) or (
        isinstance(predicate, Not) and isinstance(predicate.child, IsNull)
    )


def _on_disk(scan: DeferredScan, path: str) -> KnownFile:
    place = scan.locations.place(path)
    if "://" in place:
        return _by_hadoop(scan, path)
    try:
        status = os.stat(place)  # noqa: PTH116  (a Path costs more than the call, for thousands of files)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _missing(scan, path) from error
    if not stat.S_ISREG(status.st_mode):
        raise not_a_file(scan.locations, path)
    if not status.st_size:
        raise without_bytes(scan.locations, path)
    return KnownFile(_qualified(place), status.st_size, status.st_mtime_ns // 1_000_000)


def _in_store(scan: DeferredScan, paths: Sequence[str]) -> list[KnownFile]:
    locations = scan.locations
    metas = iter(metas_of(locations.store, [path for path in paths if not is_absolute(path)]))
    found = []
    for path in paths:
        if is_absolute(path):
            found.append(_by_hadoop(scan, path))
            continue
        meta = next(metas)
        if meta is None:
            raise _missing(scan, path)
        if not meta.size_bytes:
            raise without_bytes(locations, path)
        locations.know(meta)
        found.append(KnownFile(locations.place(path), meta.size_bytes, meta.modified_ms))
    return found


def _by_hadoop(scan: DeferredScan, path: str) -> KnownFile:
    """Return a file outside the table's store, found with Spark's own access to it."""
    place = scan.locations.place(path)
    status = file_status(scan.spark, place)
    if status is None:
        raise _missing(scan, path)
    if not status.isFile():
        raise not_a_file(scan.locations, path)
    if not status.getLen():
        raise without_bytes(scan.locations, path)
    return KnownFile(place, int(status.getLen()), int(status.getModificationTime()))


def _missing(scan: DeferredScan, path: str) -> DataFileNotFound:
    return DataFileNotFound(
        f"{scan.snapshot.store.root_url}: version {scan.snapshot.version} names a data file that does not "
        f"exist: {path}. VACUUM may have deleted the file. Restore it, or read a version without it"
    )


def _qualified(place: str) -> str:
    return place if "://" in place else f"file:{place}"
