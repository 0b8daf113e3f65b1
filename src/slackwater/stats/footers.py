"""Statistics of a data file from its Parquet footer, without a second pass over the data.

Statistics not proven by the footer are omitted. Source: delta-protocol.md "Per-file Statistics".
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.errors import InvalidArgument, StorageError
from slackwater.protocol.schema.schema import ArrayType, ColumnPath, GeospatialType, MapType, VariantType
from slackwater.stats.footer_bounds import Writer, json_bounds
from slackwater.stats.json_structs import plant
from slackwater.stats.stats_columns import StatsLeaf, StatsLeaves, stats_leaves, table_leaves
from slackwater.storage.parquet_footer import FIELD_ID_KEY, ParquetFooter, RowGroup, leaf_count, read_footer
from slackwater.storage.store import ObjectStore

__all__ = ["StatsLeaves", "parquet_footer", "stats_leaves", "stats_of_footer", "stats_of_row_groups", "table_leaves"]


def stats_of_footer(footer: ParquetFooter, columns: StatsLeaves) -> str:
    """Return the `stats` of the file as JSON: numRecords, and the proven statistics of the leaf `columns`.

    Bounds cover all rows of the file and are tight. A column missing in the file is null in every row. Arrays and maps
    in the file have no statistics. Never raises for a malformed footer.
    """
    return _stats(footer, columns, _content_of(footer))


def stats_of_row_groups(footer: ParquetFooter, columns: StatsLeaves) -> list[str]:
    """Return the statistics of each row group like `stats_of_footer`, as if it were a file."""
    content = _content_of(footer)
    alone = (replace(footer, num_rows=group.num_rows, row_groups=(group,)) for group in footer.row_groups)
    return [_stats(group, columns, content) for group in alone]


def parquet_footer(store: ObjectStore, path: str) -> tuple[ParquetFooter, int]:
    """Return the footer of the Parquet file at `path`, and the file's size in bytes. Reads only the end of the file.

    Raises:
        ObjectNotFound: If the file does not exist.
        InvalidArgument: If the file is not Parquet, or the footer is damaged.
        StorageError: If the file cannot be read.
    """
    with closing(store.open_file(path)) as file:
        try:
            return read_footer(file), int(file.size())
        except ValueError as error:
            what = " ".join(str(error).split())
            raise InvalidArgument(f"{store.root_url}: {path} is not a Parquet file: {what}") from error
        except OSError as error:
            raise StorageError(f"{store.root_url}: {path} cannot be read: {error}") from error


@dataclass(slots=True)
class _Content:
    """The columns of one file. `leaves` has the indexes of plain columns outside arrays and maps, by path.

    `ids` has the indexes by field id, -1 for nested columns. `folded` and `structs` have lower-case paths.
    """

    leaves: dict[ColumnPath, list[int]] = field(default_factory=dict)
    ids: dict[int, list[int]] = field(default_factory=dict)
    folded: set[ColumnPath] = field(default_factory=set)
    structs: set[ColumnPath] = field(default_factory=lambda: {()})


def _stats(footer: ParquetFooter, columns: StatsLeaves, content: _Content | None) -> str:
    stats: dict[str, Any] = {"numRecords": footer.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    if content is not None:
        groups = [group for group in footer.row_groups if group.num_rows]
        writer = Writer.of(footer.created_by, footer.metadata.metadata or {})
        for leaf in columns.leaves:
            _describe(leaf, columns, content, footer, groups, writer, stats)
    for name in ("minValues", "maxValues", "nullCount"):
        if not stats[name]:
            del stats[name]
    stats["tightBounds"] = True
    return orjson.dumps(stats).decode()


def _content_of(footer: ParquetFooter) -> _Content | None:
    return None if footer.is_encrypted else _content(footer.metadata)


def _content(footer: pq.FileMetaData) -> _Content | None:
    """Return the columns of the file by exact names, None if Arrow does not support the schema.

    Parquet's own listing is ambiguous, because it joins names by dots.
    """
    content = _Content()
    end = 0
    try:
        for column in footer.schema.to_arrow_schema():
            end = _visit(column, (), end, content)
    except (pa.ArrowException, OSError, ValueError):
        # Types unknown to Arrow, or names that are not text.
        return None
    return content if end == footer.num_columns else None


def _visit(column: pa.Field, parent: ColumnPath, index: int, content: _Content) -> int:
    """Record `column` and its nested columns, and return the index after its last leaf. `index` is its first leaf."""
    path = (*parent, column.name)
    folded = tuple(name.lower() for name in path)
    content.folded.add(folded)
    number = (column.metadata or {}).get(FIELD_ID_KEY)
    arrow = column.type.storage_type if isinstance(column.type, pa.BaseExtensionType) else column.type
    end = index + leaf_count(arrow)
    if pa.types.is_struct(arrow):
        content.structs.add(folded)
        at = index
        for inner in arrow:
            at = _visit(inner, path, at, content)
    elif not pa.types.is_nested(arrow):
        content.leaves.setdefault(path, []).append(index)
    if number is not None:
        content.ids.setdefault(int(number), []).append(-1 if pa.types.is_nested(arrow) else index)
    return end


def _describe(
    leaf: StatsLeaf,
    columns: StatsLeaves,
    content: _Content,
    footer: ParquetFooter,
    groups: Sequence[RowGroup],
    writer: Writer,
    stats: dict[str, Any],
) -> None:
    found = _indexes(leaf, columns.by_id, content)
    if found is None:
        return
    if not found:
        plant(stats["nullCount"], leaf.path, footer.num_rows)
        return
    index = found[0]
    column = footer.metadata.schema.column(index)
    nulls, lows, highs = _merged(index, column.max_definition_level == 0, groups)
    if nulls is not None:
        plant(stats["nullCount"], leaf.path, nulls)
    if isinstance(leaf.type, GeospatialType):
        _describe_box(leaf, index, groups, stats)
        return
    if not lows or not leaf.comparable:
        return
    low, high = json_bounds(lows, highs, column, leaf.type, writer, columns.prefix_characters)
    if low is not None:
        plant(stats["minValues"], leaf.path, low)
    if high is not None:
        plant(stats["maxValues"], leaf.path, high)


def _describe_box(leaf: StatsLeaf, index: int, groups: Sequence[RowGroup], stats: dict[str, Any]) -> None:
    """Add the corners of the bounding box of all shapes, as points in WKT. Source: the Delta kernels."""
    known = [group.columns[index] for group in groups if group.columns[index].null_count != group.num_rows]
    boxes = [column.box for column in known if column.box is not None]
    # A geography that crosses the antimeridian has its west above its east.
    if not boxes or len(boxes) < len(known) or any(west > east for west, east, _, _ in boxes):
        return
    west, east, south, north = zip(*boxes, strict=True)
    plant(stats["minValues"], leaf.path, f"POINT({min(west)} {min(south)})")
    plant(stats["maxValues"], leaf.path, f"POINT({max(east)} {max(north)})")


def _indexes(leaf: StatsLeaf, by_id: bool, content: _Content) -> list[int] | None:
    """Return the index of the column in the file, as a list.

    The list is empty if the file certainly lacks the column. Returns None if the match is ambiguous.
    """
    if isinstance(leaf.type, VariantType):
        # Its metadata is null exactly where the variant is.
        return _variant_indexes(leaf, by_id, content)
    if by_id:
        if leaf.field_id is None or not content.ids:
            return None
        found = content.ids.get(leaf.field_id, [])
    else:
        found = content.leaves.get(leaf.path, [])
        if not found and not _lacks(leaf.path, content):
            return None
    if len(found) > 1 or -1 in found or (found and isinstance(leaf.type, (ArrayType, MapType))):
        return None
    return found


def _variant_indexes(leaf: StatsLeaf, by_id: bool, content: _Content) -> list[int] | None:
    if by_id:
        return None
    found = content.leaves.get((*leaf.path, "metadata"), [])
    if not found and not _lacks(leaf.path, content):
        return None
    return found if len(found) <= 1 else None


def _lacks(path: ColumnPath, content: _Content) -> bool:
    """Return whether the file certainly has no column for `path`, even with another case."""
    folded = tuple(name.lower() for name in path)
    depth = next((d for d in range(1, len(folded) + 1) if folded[:d] not in content.folded), None)
    return depth is not None and folded[: depth - 1] in content.structs


def _merged(index: int, required: bool, groups: Sequence[RowGroup]) -> tuple[int | None, list[Any], list[Any]]:
    """Return the null count over all row groups, and the bounds of the row groups with values.

    The null count is None if a row group lacks it. No bounds are returned if a row group with values lacks them.
    """
    nulls: int | None = 0
    lows: list[Any] = []
    highs: list[Any] = []
    bounded = True
    for group in groups:
        found = group.columns[index]
        count = 0 if required else found.null_count
        nulls = None if nulls is None or count is None else nulls + count
        if found.low is not None:
            lows.append(found.low)
            highs.append(found.high)
        elif count != group.num_rows:
            bounded = False
    return (nulls, lows, highs) if bounded else (nulls, [], [])
