"""Which files become one: bins of files of one partition, each about as large as a file shall be.

Two runs over the same table make the same bins, and a run over what another one made makes none: a file remembers how
full its bin was, since it is smaller than what it was made of.
Source: delta-spark's OPTIMIZE; delta-protocol.md "Add File and Remove File" (tags).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.protocol.actions.files import num_records_of
from slackwater.protocol.properties.byte_sizes import size_in_bytes
from slackwater.protocol.properties.properties import TARGET_FILE_SIZE, TableProperties

PACKED_BYTES = "PACKED_BYTES"
"""The tag of a compacted file: the bytes of the files that it was made of, and of those that they were made of."""

GIBIBYTE = 1 << 30


@dataclass(frozen=True, slots=True)
class BinPackingOptions:
    """How large files shall be: those below `min_bytes` are taken, and as many go together as fit `max_bytes`.

    Files of which more than `max_deleted_ratio` of the rows are deleted are taken whatever their size.
    """

    min_bytes: int = GIBIBYTE
    max_bytes: int = GIBIBYTE
    max_deleted_ratio: float = 0.05


@dataclass(frozen=True, slots=True)
class Bin:
    """Files (columns of ADD_SCHEMA) of one partition that are to become one, in the order of their rows."""

    partition_values: Mapping[str, str | None]
    files: pa.Table
    packed_bytes: int

    @property
    def has_vectors(self) -> bool:
        """Whether rows of the files are deleted by vectors."""
        return bool(self.files["deletionVector"].null_count < self.files.num_rows)


def packing_of_table(properties: TableProperties) -> BinPackingOptions:
    """How large files shall be, as the table says. Raises InvalidArgument for a size that is none."""
    target = properties.get(TARGET_FILE_SIZE)
    size = None if target is None else size_in_bytes(TARGET_FILE_SIZE, target)
    return BinPackingOptions() if size is None else BinPackingOptions(size, size)


def compaction(files: pa.Table, packing: BinPackingOptions) -> list[Bin]:
    """The bins of OPTIMIZE in a table that is not clustered, of `files` (columns of ADD_SCHEMA)."""
    return bins_of(to_compact(files, packing), packing)


def parts_of(each: Bin, packing: BinPackingOptions) -> int:
    """How many files a bin becomes whose rows are put in another order: each about as large as files shall be."""
    size: int = sum(each.files["size"].to_pylist())
    return max(1, -(-size // packing.max_bytes))


def to_compact(files: pa.Table, packing: BinPackingOptions) -> pa.Table:
    """Those of `files` (columns of ADD_SCHEMA) that are small, or have many deleted rows."""
    small = pc.less(pa.array(_weights(files), pa.int64()), packing.min_bytes)
    ratios = pa.array(_deleted_ratios(files), pa.float64())
    return files.filter(pc.or_(small, pc.greater(ratios, packing.max_deleted_ratio)))


def bins_of(files: pa.Table, packing: BinPackingOptions, rewrites_single: bool = False) -> list[Bin]:
    """Bins of `files` (columns of ADD_SCHEMA), partition by partition.

    A file that would be alone stays out, unless it has a deletion vector, or `rewrites_single`.
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
    """The positions of `weights` in bins of `capacity`: each goes to the first one with room for it.

    No two bins would fit in one. What is heavier than `capacity` has a bin of its own.
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
    """How much room each bin has, as a tree of the most room below each node."""

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
    """`files` as their rows came into the table: by row ids where all have them, else by time."""
    keys = [("modificationTime", "ascending"), ("path", "ascending")]
    if not files["baseRowId"].null_count:
        keys = [("baseRowId", "ascending")]
    return files.take(pc.sort_indices(files, sort_keys=keys))


def _partitions(files: pa.Table) -> dict[tuple[tuple[str, str | None], ...], list[int]]:
    """The rows of `files` by their partition values; an empty text is a null."""
    found: dict[tuple[tuple[str, str | None], ...], list[int]] = {}
    for row, pairs in enumerate(files["partitionValues"].to_pylist()):
        key = tuple(sorted((name, value or None) for name, value in pairs or ()))
        found.setdefault(key, []).append(row)
    return found


def _weights(files: pa.Table) -> list[int]:
    """How full the bin of each file would be with it alone, in bytes."""
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
