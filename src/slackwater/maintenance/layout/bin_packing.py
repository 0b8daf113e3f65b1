"""Bin packing: groups files of one partition into bins of about the target file size.

The result is deterministic, and compacting a compacted table finds no bins. Because a compacted file is smaller than
its input files, its tag records the size of its bin.
Source: delta-spark's OPTIMIZE; delta-protocol.md "Add File and Remove File" (tags).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.protocol.actions.files import num_records_of
from slackwater.protocol.properties.byte_sizes import size_in_bytes
from slackwater.protocol.properties.properties import TARGET_FILE_SIZE, TableProperties

PACKED_BYTES = "PACKED_BYTES"
"""The tag of a compacted file: the size in bytes of its original input files, through all compactions."""

GIBIBYTE = 1 << 30


@dataclass(frozen=True, slots=True)
class BinPackingOptions:
    """Target sizes: files below `min_bytes` are compacted into bins of at most `max_bytes`.

    Files with a ratio of deleted rows above `max_deleted_ratio` are rewritten regardless of size.
    """

    min_bytes: int = GIBIBYTE
    max_bytes: int = GIBIBYTE
    max_deleted_ratio: float = 0.05


@dataclass(frozen=True, slots=True)
class Bin:
    """Files of one partition to combine (columns of ADD_SCHEMA), in row order."""

    partition_values: Mapping[str, str | None]
    files: pa.Table
    packed_bytes: int

    @property
    def partition(self) -> str:
        """The partition values as a JSON text with sorted keys."""
        return orjson.dumps(dict(self.partition_values), option=orjson.OPT_SORT_KEYS).decode()

    @property
    def has_vectors(self) -> bool:
        """Return whether any file has a deletion vector."""
        return bool(self.files["deletionVector"].null_count < self.files.num_rows)


def packing_of_table(properties: TableProperties) -> BinPackingOptions:
    """Return the target sizes in the table properties. Raises InvalidArgument for an invalid size."""
    target = properties.get(TARGET_FILE_SIZE)
    size = None if target is None else size_in_bytes(TARGET_FILE_SIZE, target)
    return BinPackingOptions() if size is None else BinPackingOptions(size, size)


def compaction(files: pa.Table, packing: BinPackingOptions) -> list[Bin]:
    """Return the OPTIMIZE bins of `files` (columns of ADD_SCHEMA) in a table without clustering."""
    return bins_of(to_compact(files, packing), packing)


def in_crowded_partitions(bins: Sequence[Bin], least_files: int) -> list[Bin]:
    """Return the bins of partitions with at least `least_files` files to rewrite."""
    counts = Counter[str]()
    for each in bins:
        counts[each.partition] += each.files.num_rows
    return [each for each in bins if counts[each.partition] >= least_files]


def parts_of(each: Bin, packing: BinPackingOptions) -> int:
    """Return the number of output files of a bin whose rows are reordered, each about the target size."""
    size: int = sum(each.files["size"].to_pylist())
    return max(1, -(-size // packing.max_bytes))


def to_compact(files: pa.Table, packing: BinPackingOptions) -> pa.Table:
    """Return the small files of `files` (columns of ADD_SCHEMA), and the files with many deleted rows."""
    small = pc.less(pa.array(_weights(files), pa.int64()), packing.min_bytes)
    ratios = pa.array(_deleted_ratios(files), pa.float64())
    return files.filter(pc.or_(small, pc.greater(ratios, packing.max_deleted_ratio)))


def bins_of(files: pa.Table, packing: BinPackingOptions, rewrites_single: bool = False) -> list[Bin]:
    """Return bins of `files` (columns of ADD_SCHEMA), partition by partition.

    A file alone in its bin is left out, unless the file has a deletion vector, or `rewrites_single`.
    """
    files = in_order(files)
    bins: list[Bin] = []
    for key, rows in _partitions(files).items():
        part = files.take(pa.array(rows, pa.int64()))
        weights = _weights(part)
        for members in first_fit(weights, packing.max_bytes):
            chosen = part.take(pa.array(members, pa.int64()))
            found = Bin(dict(key), chosen, sum(weights[at] for at in members))
            if len(members) > 1 or rewrites_single or found.has_vectors:
                bins.append(found)
    return bins


def first_fit(weights: Sequence[int], capacity: int) -> list[list[int]]:
    """Return bins with the positions of `weights`. Each position is added to the first bin with enough capacity.

    No two bins would fit in one. A weight above `capacity` has its own bin.
    """
    bins: list[list[int]] = []
    room = _Room()
    for position, weight in enumerate(weights):
        at = room.first(weight)
        if at is None:
            bins.append([position])
            room.append(capacity - weight)
        else:
            bins[at].append(position)
            room.take(at, weight)
    return bins


class _Room:
    """Free capacity of each bin, as a tree with the maximum below each node."""

    def __init__(self) -> None:
        self._size = 1
        self._count = 0
        self._most = [-1, -1]

    def first(self, weight: int) -> int | None:
        if self._most[1] < weight:
            return None
        node = 1
        while node < self._size:
            node *= 2
            node += self._most[node] < weight
        return node - self._size

    def append(self, room: int) -> None:
        if self._count == self._size:
            leaves = self._most[self._size :]
            self._size *= 2
            self._most = [-1] * self._size + leaves + [-1] * (self._size - len(leaves))
            for node in range(self._size - 1, 0, -1):
                self._most[node] = max(self._most[2 * node], self._most[2 * node + 1])
        self._set(self._count, room)
        self._count += 1

    def take(self, at: int, weight: int) -> None:
        self._set(at, self._most[at + self._size] - weight)

    def _set(self, at: int, room: int) -> None:
        node = at + self._size
        self._most[node] = room
        while node > 1:
            node //= 2
            self._most[node] = max(self._most[2 * node], self._most[2 * node + 1])


def in_order(files: pa.Table) -> pa.Table:
    """Return `files` in row order: by row ids if all files have row ids, else by modification time."""
    keys = [("modificationTime", "ascending"), ("path", "ascending")]
    if not files["baseRowId"].null_count:
        keys = [("baseRowId", "ascending")]
    return files.take(pc.sort_indices(files, sort_keys=keys))


def _partitions(files: pa.Table) -> dict[tuple[tuple[str, str | None], ...], list[int]]:
    """Return the row numbers of `files` by partition values. An empty text is a null."""
    found: dict[tuple[tuple[str, str | None], ...], list[int]] = {}
    for row, pairs in enumerate(files["partitionValues"].to_pylist()):
        key = tuple(sorted((name, value or None) for name, value in pairs or ()))
        found.setdefault(key, []).append(row)
    return found


def _weights(files: pa.Table) -> list[int]:
    """Return the weight of each file in bytes: its size or its PACKED_BYTES, the larger."""
    sizes: list[int] = files["size"].to_pylist()
    if files["tags"].null_count == files.num_rows:
        return sizes
    tags = files["tags"].to_pylist()
    return [max(size, _packed(found)) for size, found in zip(sizes, tags, strict=True)]


def _packed(tags: Sequence[tuple[str, str | None]] | None) -> int:
    told = dict(tags or ()).get(PACKED_BYTES)
    return int(told) if told and told.isdecimal() else 0


def _deleted_ratios(files: pa.Table) -> list[float]:
    if files["deletionVector"].null_count == files.num_rows:
        return [0.0] * files.num_rows
    vectors = files["deletionVector"].to_pylist()
    stats = files["stats"].to_pylist()
    return [_ratio(vector, text) for vector, text in zip(vectors, stats, strict=True)]


def _ratio(vector: Mapping[str, int] | None, stats: str | None) -> float:
    rows = num_records_of(stats)
    return vector["cardinality"] / rows if vector and rows else 0.0
