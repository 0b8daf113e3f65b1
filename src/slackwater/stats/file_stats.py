"""Column statistics of many files, from the `stats` and `partitionValues` of each file.

Source: delta-protocol.md "Per-file Statistics", "Partition Value Serialization", "Column Mapping".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import InvalidArgument
from slackwater.predicate.columns import resolve_column
from slackwater.protocol.actions.partition_values import parse_partition_column
from slackwater.protocol.schema.arrow_schema import to_arrow_type
from slackwater.protocol.schema.schema import DataType, StructType
from slackwater.stats.stats_parsed import Leaf, read_stats
from slackwater.stats.stats_values import typed, typed_bound, wire_type

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """Statistics of one leaf column, one element per file; null if the file has no statistics.

    `min` and `max` are as written (possibly truncated), in the Arrow type of the column. `null_count` and `num_records`
    count physical rows. `tight` is False if rows may have been deleted since. `exact` marks a partition column: min =
    max = the value of every row. Its counts are per row (`num_records` 1, `null_count` 0 or 1), because they are known
    even without statistics.
    """

    data_type: DataType
    min: pa.Array
    max: pa.Array
    null_count: pa.Array
    num_records: pa.Array
    tight: pa.Array
    exact: bool = False

    @property
    def arrays(self) -> tuple[pa.Array, ...]:
        """All arrays."""
        return self.min, self.max, self.null_count, self.num_records, self.tight

    @staticmethod
    def joined(parts: Sequence[ColumnStats]) -> ColumnStats:
        """Return the statistics of the files of all `parts`, at least one, of one column."""
        low, high, nulls, records, tight = (
            pa.concat_arrays(each) for each in zip(*(part.arrays for part in parts), strict=True)
        )
        return ColumnStats(parts[0].data_type, low, high, nulls, records, tight, parts[0].exact)


def record_counts(files: pa.Table) -> pa.ChunkedArray | pa.Array:
    """Return the physical rows of each file from its statistics, null if unknown.

    Reads `stats_parsed` if present, then `stats`. Never raises for malformed statistics.
    """
    texts = files["stats"].cast(pa.large_string())
    known = [pc.struct_field(read_stats(pa.concat_arrays(texts.chunks), []), "numRecords")] if texts.chunks else []
    if "stats_parsed" in files.column_names:
        parsed = files["stats_parsed"]
        if parsed.type.get_field_index("numRecords") >= 0:
            known.insert(0, pc.struct_field(parsed, "numRecords"))
    return pc.coalesce(*known) if known else pa.nulls(files.num_rows, pa.int64())


class StatsColumns:
    """The statistics of the live files in `files`, read on demand, column by column.

    `files` has `partitionValues` (map of string to string) and `stats` (JSON, nullable). If it has `stats_parsed`
    (struct), non-null values of that column take precedence. `schema` and `partition_columns` have display names.
    `physical_names` maps the display path of a leaf column to its physical path, if different. `zone` is the time zone
    of partition values without an offset. Never raises for malformed statistics.
    """

    def __init__(
        self,
        files: pa.Table,
        schema: StructType,
        partition_columns: Collection[str] = (),
        physical_names: Mapping[Path, Path] | None = None,
        zone: str = "UTC",
    ) -> None:
        self._files = files
        self._schema = schema
        self._partition_columns = frozenset(partition_columns)
        self._physical_names = physical_names or {}
        self._zone = zone
        self._columns: dict[Path, ColumnStats] = {}
        self._counts: tuple[pa.Array, pa.Array] | None = None

    @property
    def num_files(self) -> int:
        """The number of files: the length of every array."""
        return int(self._files.num_rows)

    @property
    def num_records(self) -> pa.Array | None:
        """Physical rows per file (int64, null if unknown); None before any statistics are read."""
        return None if self._counts is None else self._counts[0]

    def is_partition_column(self, path: Path) -> bool:
        """Return whether `path` is a partition column, with one value per file in the log."""
        return len(path) == 1 and path[0] in self._partition_columns

    def load(self, paths: Iterable[Path]) -> None:
        """Read the statistics of the leaf columns `paths` in one pass. Columns already read are cached."""
        wanted = {p: t for p in paths if p not in self._columns and (t := self._leaf_type(p)) is not None}
        for path in [p for p in wanted if self.is_partition_column(p)]:
            self._columns[path] = self._partition_stats(path, wanted.pop(path))
        if wanted:
            self._read(wanted)

    def column(self, path: Path) -> ColumnStats | None:
        """Return the statistics of the leaf column `path`, None if it is not a leaf column of the schema."""
        self.load([path])
        return self._columns.get(path)

    def _leaf_type(self, path: Path) -> DataType | None:
        try:
            column = resolve_column(self._schema, path)
        except InvalidArgument:
            return None
        return column.type if column.is_leaf and column.path == path else None

    def _read(self, wanted: dict[Path, DataType]) -> None:
        leaves = [(self._physical_names.get(path, path), data_type) for path, data_type in wanted.items()]
        structs = self._sources(leaves)
        num_records = _first_known([_dig(s, ("numRecords",)) for s in structs], pa.int64(), self.num_files)
        tight = _first_known([_dig(s, ("tightBounds",)) for s in structs], pa.bool_(), self.num_files)
        tight = tight.fill_null(True)
        self._counts = (num_records, tight)
        for path, (physical, data_type) in zip(wanted, leaves, strict=True):
            arrow = to_arrow_type(data_type)
            has_bounds = resolve_column(self._schema, path).comparable and wire_type(arrow) is not None
            bounds = []
            for group, is_max in (("minValues", False), ("maxValues", True)):
                found = [_dig(s, (group, *physical)) for s in structs] if has_bounds else []
                known = [typed_bound(bound, arrow, is_max) for bound in found if bound is not None]
                bounds.append(_first_known(known, arrow, self.num_files))
            nulls = _first_known([_dig(s, ("nullCount", *physical)) for s in structs], pa.int64(), self.num_files)
            self._columns[path] = ColumnStats(data_type, bounds[0], bounds[1], nulls, num_records, tight)

    def _sources(self, leaves: list[Leaf]) -> list[pa.Array]:
        """Return arrays of stats structs, in order of precedence."""
        names = self._files.column_names
        sources = []
        texts = _one_array(self._files.column("stats")) if "stats" in names else pa.nulls(self.num_files, pa.string())
        if "stats_parsed" in names and pa.types.is_struct(self._files.schema.field("stats_parsed").type):
            parsed = _one_array(self._files.column("stats_parsed"))
            sources.append(parsed)
            texts = pc.if_else(parsed.is_valid(), pa.scalar(None, texts.type), texts)
        if texts.null_count < len(texts):
            sources.append(read_stats(texts, leaves))
        return sources

    def _partition_stats(self, path: Path, data_type: DataType) -> ColumnStats:
        key = self._physical_names.get(path, path)[-1]
        pairs = _one_array(self._files.column("partitionValues"))
        values = parse_partition_column(pc.map_lookup(pairs, key, "first"), data_type, self._zone)
        is_null = values.is_null()
        if values.null_count:
            # A file without an entry for the column has no statistics of it.
            named = pc.map_lookup(pairs, key, "all").is_valid()
            is_null = pc.if_else(named, is_null, pa.scalar(None, pa.bool_()))
        ones = pa.repeat(pa.scalar(1, pa.int64()), self.num_files)
        tight = pa.repeat(pa.scalar(True), self.num_files)
        bounds = values if resolve_column(self._schema, path).comparable else pa.nulls(self.num_files, values.type)
        return ColumnStats(data_type, bounds, bounds, is_null.cast(pa.int64()), ones, tight, exact=True)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_string(column.type) or pa.types.is_dictionary(column.type):
        column = column.cast(pa.large_string())
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def _dig(struct: pa.Array, path: Path) -> pa.Array | None:
    """Return the field at `path` of an array of structs, including nulls of the parents; None if absent."""
    for name in path:
        if not pa.types.is_struct(struct.type) or struct.type.get_field_index(name) < 0:
            return None
        struct = pc.struct_field(struct, [struct.type.get_field_index(name)])
    return struct


def _first_known(arrays: Iterable[pa.Array | None], arrow: pa.DataType, length: int) -> pa.Array:
    known = [a for a in (None if a is None else typed(a, arrow) for a in arrays) if a is not None]
    return pc.coalesce(*known) if known else pa.nulls(length, arrow)
