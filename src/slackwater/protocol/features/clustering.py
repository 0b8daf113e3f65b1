"""Clustering columns: validation, and their metadata domain.

Source: delta-protocol.md "Clustered Table".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from slackwater.errors import CorruptTable, InvalidArgument
from slackwater.protocol.actions.actions import DomainMetadata, Metadata
from slackwater.protocol.actions.files import AddFile
from slackwater.protocol.features.column_mapping import NONE, physical_name
from slackwater.protocol.schema.schema import (
    DataType,
    DecimalType,
    PrimitiveType,
    StructField,
    StructType,
    collation_of,
)

DOMAIN = "delta.clustering"
MOST_COLUMNS = 4

ColumnName = tuple[str, ...]
"""The names on the path to a column, through structs if nested."""

# Types with minimum and maximum in the file statistics, usable for data skipping.
_SKIPPING_TYPES = frozenset(
    {"byte", "short", "integer", "long", "float", "double", "date", "timestamp", "timestamp_ntz", "string"}
)


def domain_metadata(schema: StructType, columns: Sequence[ColumnName], mode: str) -> DomainMetadata:
    """Return the action that sets `columns` as the clustering columns. Empty `columns` remove them (`CLUSTER BY NONE`).

    `columns` are display names from `resolve`, and `mode` is the column mapping mode: the action stores physical names.
    Each column is a list of name parts, the format of the reference implementation and the kernels. They do not read
    the bare names of the protocol's example, a format without nested columns.
    """
    paths = [[physical_name(field, mode) for field in _fields(schema, column)] for column in columns]
    return DomainMetadata(DOMAIN, orjson.dumps({"clusteringColumns": paths, "domainName": DOMAIN}).decode())


def without_domain(domain: DomainMetadata) -> DomainMetadata | None:
    """Return the action that ends `domain` in a table whose protocol stays as it is; None if nothing is left to end.

    The clustering domain stays, with an empty list of columns, because writers of a table that lists the feature must
    track them. Every other domain is removed. Source: "Writer Requirements for Clustered Table".
    """
    if domain.domain != DOMAIN:
        return replace(domain, removed=True)
    empty = domain_metadata(StructType(()), (), NONE)
    return None if domain.configuration == empty.configuration else empty


def physical_columns(domain: DomainMetadata | None, where: str) -> list[ColumnName]:
    """Return the physical names of the clustering columns stored in `domain`; empty without a domain.

    Reads lists of name parts, and the bare names of the protocol's example. Raises CorruptTable, naming `where`, for
    any other format.
    """
    if domain is None or domain.removed:
        return []
    try:
        found = orjson.loads(domain.configuration)["clusteringColumns"]
        columns = [(item,) if isinstance(item, str) else tuple(item) for item in found]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise _malformed(domain, where) from error
    if not all(column and all(isinstance(part, str) for part in column) for column in columns):
        raise _malformed(domain, where)
    return columns


def resolve(schema: StructType, columns: Sequence[ColumnName]) -> list[ColumnName]:
    """Return `columns` in the schema's spelling. Raises InvalidArgument for a column missing in the schema."""
    return [tuple(field.name for field in _fields(schema, column)) for column in columns]


def validate_clustering_columns(
    metadata: Metadata,
    schema: StructType,
    columns: Sequence[ColumnName],
    columns_with_stats: Collection[ColumnName] | None = None,
) -> None:
    """Validate the clustering columns of a table.

    `columns_with_stats` has the display names of columns with statistics in every file, None if clustering columns
    always get statistics. Raises InvalidArgument for more than four columns and for a table with partition columns.
    Raises InvalidArgument for a column that is not in the schema, is repeated, or has no statistics. Raises
    InvalidArgument for a type without minimum and maximum (structs, arrays, maps, booleans, binary).
    """
    if columns and metadata.partition_columns:
        raise InvalidArgument(
            f"a table that is partitioned (by {', '.join(metadata.partition_columns)}) cannot be clustered",
            error_class="DELTA_CLUSTER_BY_WITH_PARTITIONED_BY",
        )
    if len(columns) > MOST_COLUMNS:
        raise InvalidArgument(
            f"at most {MOST_COLUMNS} clustering columns are possible, found {len(columns)}",
            error_class="DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS",
        )
    resolved = resolve(schema, columns)
    for position, column in enumerate(resolved):
        name, data_type = ".".join(column), _fields(schema, column)[-1].type
        if column in resolved[:position]:
            raise InvalidArgument(f"clustering column {name} occurs twice", error_class="DELTA_DUPLICATE_COLUMNS_FOUND")
        if not has_extremes(data_type):
            raise InvalidArgument(
                f"clustering column {name}: a table cannot be clustered by the type {data_type}"
                f"{'' if collation_of(data_type) is None else f' with the collation {collation_of(data_type)}'}",
                error_class="DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED",
            )
        if columns_with_stats is not None and column not in columns_with_stats:
            raise InvalidArgument(
                f"clustering column {name}: no statistics are collected for it. Increase "
                "delta.dataSkippingNumIndexedCols, or add it to delta.dataSkippingStatsColumns",
                error_class="DELTA_CLUSTERING_COLUMN_MISSING_STATS",
            )


def validate_file_stats(add: AddFile, columns: Sequence[ColumnName]) -> None:
    """Validate that a file has statistics of the clustering columns, passed by physical names.

    Required are the number of records, the null count, and minimum and maximum unless all values are null. Raises
    InvalidArgument, naming file and column. Source: "Writer Requirements for Clustered Table".
    """
    stats = _stats_of(add)
    for column in columns:
        found = {group: _dig(stats.get(group), column) for group in ("minValues", "maxValues", "nullCount")}
        rows = stats.get("numRecords")
        bounded = found["minValues"] is not None and found["maxValues"] is not None
        if rows is None or found["nullCount"] is None or not (bounded or found["nullCount"] == rows):
            raise InvalidArgument(
                f"{add.path}: the table is clustered by {'.'.join(column)}, but stats are missing. Add numRecords, and "
                "minValues, maxValues and nullCount of this column"
            )


def _stats_of(add: AddFile) -> Mapping[str, Any]:
    try:
        found = orjson.loads(add.stats or "{}")
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, Mapping) else {}


def _dig(node: object, column: ColumnName) -> object:
    for name in column:
        node = node.get(name) if isinstance(node, Mapping) else None
    return node


def has_extremes(data_type: DataType) -> bool:
    """Return whether files have minimum and maximum of a column of this type, for data skipping."""
    return isinstance(data_type, DecimalType) or (
        isinstance(data_type, PrimitiveType) and data_type.name in _SKIPPING_TYPES and data_type.collation is None
    )


def _fields(schema: StructType, column: ColumnName) -> list[StructField]:
    found: list[StructField] = []
    struct: DataType = schema
    for name in column:
        field = struct.get(name) if isinstance(struct, StructType) else None
        if field is None:
            raise InvalidArgument(
                f"clustering column {'.'.join(column)} is not in the schema {schema.names}",
                error_class="DELTA_COLUMN_NOT_FOUND_IN_SCHEMA",
            )
        found.append(field)
        struct = field.type
    if not found:
        raise InvalidArgument("a clustering column must have a name")
    return found


def _malformed(domain: DomainMetadata, where: str) -> CorruptTable:
    return CorruptTable(
        f"{where}: domain {DOMAIN} must list its clusteringColumns, found {domain.configuration[:200]!r}"
    )
