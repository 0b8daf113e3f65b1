"""Selection of the columns with file statistics.

Source: delta-protocol.md "Per-file Statistics", "Column Mapping" (physical names), "Clustered Table"; delta-spark's
properties (`dataSkippingNumIndexedCols`, `dataSkippingStatsColumns`, `dataSkippingStringPrefixLength`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from slackwater.errors import CorruptTable, InvalidArgument
from slackwater.predicate.columns import resolve_column
from slackwater.protocol.actions.actions import DomainMetadata
from slackwater.protocol.features.clustering import DOMAIN, has_extremes, physical_columns
from slackwater.protocol.features.column_mapping import ID, field_id, physical_name, physical_schema
from slackwater.protocol.features.identity_columns import identity_columns
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import (
    DATA_SKIPPING_NUM_INDEXED_COLS,
    DATA_SKIPPING_STATS_COLUMNS,
    DATA_SKIPPING_STRING_PREFIX_LENGTH,
    TableProperties,
)
from slackwater.protocol.schema.column_paths import (
    format_column_path,
    has_path,
    listed_column_paths,
    resolve_field,
    resolve_path,
)
from slackwater.protocol.schema.schema import VOID, ColumnPath, DataType, StructField, StructType

DEFAULT_PREFIX_CHARACTERS = 32


@dataclass(frozen=True, slots=True)
class StatsLeaf:
    """A leaf column with file statistics: its physical path, its type, and its id in column mapping mode `id`.

    An array or a map is a leaf. `comparable` is False if the sort order differs from the stored values (collations).
    """

    path: ColumnPath
    type: DataType
    field_id: int | None = None
    comparable: bool = True


@dataclass(frozen=True, slots=True)
class StatsLeaves:
    """The leaf columns with statistics in schema order, and the length of text bounds, `prefix_characters`.

    `by_id` is true if files identify columns by id, not by physical name.
    """

    leaves: tuple[StatsLeaf, ...] = ()
    prefix_characters: int = DEFAULT_PREFIX_CHARACTERS
    by_id: bool = False


def stats_leaves(
    schema: StructType,
    mode: str,
    partition_columns: Collection[str],
    properties: Mapping[str, str],
    clustering_columns: Iterable[Sequence[str]] = (),
) -> StatsLeaves:
    """Return the leaf columns of `schema` with statistics. `mode` is the column mapping mode.

    `schema`, `partition_columns` and the property `dataSkippingStatsColumns` have display names. `clustering_columns`
    are physical paths from the table's domain. Clustering columns have statistics in any case. Partition and void
    columns have no statistics, but a void column counts among the indexed columns. Unknown names are ignored, so that
    the table stays writable: `validate_stats_columns` rejects unknown names in a new property. Raises CorruptTable for
    invalid settings.
    """
    found = TableProperties(properties)
    partitions = frozenset(partition_columns)
    pairs = list(leaf_columns(StructType(tuple(f for f in schema if f.name not in partitions)), mode))
    chosen = _chosen([display for display, _ in pairs], schema, found)
    clustering = {tuple(path) for path in clustering_columns}
    leaves = tuple(
        leaf for display, leaf in pairs if leaf.type != VOID and (display in chosen or leaf.path in clustering)
    )
    prefix = found.integer(DATA_SKIPPING_STRING_PREFIX_LENGTH)
    if prefix is not None and prefix < 0:
        raise CorruptTable(f"table property {DATA_SKIPPING_STRING_PREFIX_LENGTH} must not be negative, found {prefix}")
    return StatsLeaves(leaves, DEFAULT_PREFIX_CHARACTERS if prefix is None else prefix, mode == ID)


def table_leaves(table: TableConfiguration, domains: Mapping[str, DomainMetadata], where: str) -> StatsLeaves:
    """Return the leaf columns with statistics of the table at `where` with these `domains`.

    Clustering columns and identity columns have statistics whatever the properties say. Raises CorruptTable.
    """
    schema, mode = table.schema, table.column_mapping_mode
    clustered = physical_columns(domains.get(DOMAIN), where)
    identity = identity_columns(schema) if table.supports("identityColumns") else ()
    names = {each.name for each in identity}
    always = [(physical_name(column, mode),) for column in schema if column.name in names]
    return stats_leaves(schema, mode, table.metadata.partition_columns, table.properties, [*clustered, *always])


def leaf_columns(schema: StructType, mode: str) -> Iterator[tuple[ColumnPath, StatsLeaf]]:
    """Yield the leaf columns of `schema` with their display paths; `mode` is the column mapping mode."""
    yield from _walk(schema, physical_schema(schema, mode), (), (), mode)


def parse_stats_columns(text: str) -> list[ColumnPath]:
    """Return the paths that a `dataSkippingStatsColumns` lists. Raises InvalidArgument if one of them is not a path."""
    try:
        return [path for _, path in listed_column_paths(text)]
    except InvalidArgument as error:
        raise InvalidArgument(
            f"{DATA_SKIPPING_STATS_COLUMNS} must be column names separated by commas, found {text!r}"
        ) from error


def validate_stats_columns(
    schema: StructType, partition_columns: Collection[str], properties: Mapping[str, str]
) -> None:
    """Reject a property `dataSkippingStatsColumns` with columns without bounds.

    Raises InvalidArgument for a missing column, a partition column, a column inside an array or a map, or a type
    without bounds. Inside structs such types are accepted, like in delta-spark.
    """
    text = TableProperties(properties).get(DATA_SKIPPING_STATS_COLUMNS)
    for named in () if text is None else parse_stats_columns(text):
        try:
            path, column = resolve_field(schema, named)
        except InvalidArgument as error:
            raise InvalidArgument(
                f"{DATA_SKIPPING_STATS_COLUMNS} = {text!r}: {error}", error_class=error.error_class
            ) from error
        here = f"{DATA_SKIPPING_STATS_COLUMNS} = {text!r}"
        if path[0] in partition_columns:
            raise InvalidArgument(
                f"{here}: {format_column_path(path)} is a partition column, which has no statistics. Omit it",
                error_class="DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_PARTITIONED_COLUMN",
            )
        if len(path) == 1 and not (isinstance(column.type, StructType) or has_extremes(column.type)):
            raise InvalidArgument(
                f"{here}: {format_column_path(path)} has the type {column.type}, which has no smallest and largest "
                "value. Omit it",
                error_class="DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_TYPE",
            )
        if not all(isinstance(resolve_path(schema, path[:end])[1], StructType) for end in range(1, len(path))):
            raise InvalidArgument(
                f"{here}: {format_column_path(path)} is inside an array or a map and has no statistics. Name the "
                "whole column",
                error_class="DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_TYPE",
            )


def _walk(
    display: StructType, physical: StructType, display_path: ColumnPath, path: ColumnPath, mode: str
) -> Iterator[tuple[ColumnPath, StatsLeaf]]:
    for shown, stored in zip(display, physical, strict=True):
        names, inner = (*display_path, shown.name), (*path, stored.name)
        if isinstance(shown.type, StructType) and isinstance(stored.type, StructType):
            yield from _walk(shown.type, stored.type, names, inner, mode)
        else:
            number = field_id(shown) if mode == ID else None
            yield names, StatsLeaf(inner, stored.type, number, _is_comparable(shown))


def _is_comparable(column: StructField) -> bool:
    return resolve_column(StructType((column,)), (column.name,)).comparable


def _chosen(paths: Sequence[ColumnPath], schema: StructType, properties: TableProperties) -> set[ColumnPath]:
    """Return the leaf columns with statistics by the table properties. `paths` are display paths.

    Unknown names and an unparsable list are ignored, because another writer may have left them.
    """
    text = properties.get(DATA_SKIPPING_STATS_COLUMNS)
    try:
        listed = None if text is None else parse_stats_columns(text)
    except InvalidArgument:
        listed = None
    if listed is None:
        most = properties.integer(DATA_SKIPPING_NUM_INDEXED_COLS)
        return set(paths if most is None or most < 0 else paths[:most])
    named = [resolve_path(schema, path)[0] for path in listed if has_path(schema, path)]
    return {leaf for leaf in paths if any(leaf[: len(path)] == path for path in named)}
