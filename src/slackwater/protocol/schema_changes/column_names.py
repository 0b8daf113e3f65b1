"""Validation of column names, column types and partition columns.

Source: delta-protocol.md "Column Mapping", "Change Metadata", "Partition Value Serialization", "Primitive Types".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slackwater.errors import InvalidArgument
from slackwater.protocol.features.column_mapping import NONE
from slackwater.protocol.schema.column_paths import ILLEGAL_CHARACTERS, format_column_path
from slackwater.protocol.schema.schema import (
    VOID,
    ArrayType,
    ColumnPath,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructType,
    collation_of,
)

CHANGE_FEED_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")
OWN_PREFIX = "__slackwater"
"""The prefix of internal columns added by reads and writes."""


def validate_column_names(schema: StructType, mode: str, *, change_feed: bool = False, parent: ColumnPath = ()) -> None:
    """Validate the column names of `schema`, at every depth, for a table with the column mapping mode `mode`.

    `change_feed` is true if the table records its changes, so that `CHANGE_FEED_COLUMNS` are reserved. `parent` is the
    path of the struct with the fields of `schema`, if `schema` is a part of a table. Raises InvalidArgument, with the
    column and the remedy, for names that differ only in case. Also raised for a name that is empty, not Unicode or
    reserved, or has an illegal character.
    """
    for name in schema.names if not parent else ():
        _refuse_reserved(name, change_feed)
    _validate_struct(schema, parent, mode)


def validate_column_types(schema: StructType) -> None:
    """Validate the column types of `schema` by `validate_column_type`, and require a column of a type other than void.

    Data files never store top-level void columns: leave them out when writing. Raises InvalidArgument.
    """
    if schema.fields and all(column.type == VOID for column in schema):
        raise InvalidArgument(
            f"columns {list(schema.names)} are all of type void. Set a type for at least one of them",
            error_class="DELTA_CANNOT_WRITE_EMPTY_SCHEMA",
        )
    for column in schema:
        validate_column_type(column.type, (column.name,))


def validate_column_type(data_type: DataType, path: ColumnPath) -> None:
    """Validate the type of the column at `path`: void only at the top level, and no struct without fields.

    Data files can store neither. Raises InvalidArgument.
    """
    if data_type == VOID and len(path) > 1:
        raise InvalidArgument(
            f"{format_column_path(path)} is of type void inside another column. Set its type, or omit it",
            error_class="DELTA_UNSUPPORTED_DATA_TYPES",
        )
    if isinstance(data_type, StructType):
        if not data_type.fields:
            raise InvalidArgument(
                f"{format_column_path(path)} is a struct without fields. Add a field, or omit it",
                error_class="DELTA_CANNOT_WRITE_EMPTY_SCHEMA",
            )
        for column in data_type:
            validate_column_type(column.type, (*path, column.name))
    elif isinstance(data_type, ArrayType):
        validate_column_type(data_type.element_type, (*path, "element"))
    elif isinstance(data_type, MapType):
        validate_column_type(data_type.key_type, (*path, "key"))
        validate_column_type(data_type.value_type, (*path, "value"))


def validate_partition_columns(schema: StructType, names: Sequence[str]) -> tuple[str, ...]:
    """Return the partition columns `names` in the spelling of `schema`.

    Raises InvalidArgument if a name is not a top-level column, is repeated, or is a struct, an array, a map or void.
    Raises InvalidArgument if no column is left to be stored in files.
    """
    columns: list[str] = []
    for name in names:
        column = schema.get(name)
        if column is None:
            raise InvalidArgument(
                f"partition column {name!r} is not among the columns {list(schema.names)}. Only top-level columns can "
                "be partition columns",
                error_class="DELTA_PARTITION_COLUMN_NOT_FOUND",
            )
        if column.name in columns:
            raise InvalidArgument(
                f"partition column {column.name!r} occurs twice in {list(names)}",
                error_class="DELTA_DUPLICATE_COLUMNS_FOUND",
            )
        if not isinstance(column.type, (PrimitiveType, DecimalType)) or column.type == VOID:
            raise InvalidArgument(
                f"a table cannot be partitioned by {column.name} of type {column.type}. Partition by a column of "
                "numbers, text, binary, booleans, dates or timestamps",
                error_class="DELTA_INVALID_PARTITION_COLUMN_TYPE",
            )
        if collation_of(column.type) is not None:
            raise InvalidArgument(
                f"a table cannot be partitioned by {column.name} with the collation {collation_of(column.type)}, "
                "because equal texts would be in several partitions. Partition by a column without a collation",
                error_class="DELTA_INVALID_PARTITION_COLUMN_TYPE",
            )
        columns.append(column.name)
    if columns and not any(f.name not in columns and f.type != VOID for f in schema):
        raise InvalidArgument(
            f"a table needs at least one column that it is not partitioned by, found only {columns}",
            error_class="DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION",
        )
    return tuple(columns)


def _refuse_reserved(name: str, change_feed: bool) -> None:
    if change_feed and name.lower() in CHANGE_FEED_COLUMNS:
        raise InvalidArgument(
            f"column name {name!r} is reserved while the change data feed is enabled. Rename the column, or set "
            "delta.enableChangeDataFeed to false",
            error_class="DELTA_TABLE_ALREADY_CONTAINS_CDC_COLUMNS",
        )
    refuse_own_names((name,))


def refuse_own_names(names: Iterable[str]) -> None:
    """Raise InvalidArgument if one of `names`, of top-level columns, begins with OWN_PREFIX."""
    for name in names:
        if name.lower().startswith(OWN_PREFIX):
            raise InvalidArgument(
                f"column names that begin with {OWN_PREFIX} are reserved, found {name!r}. Rename it",
                error_class="DELTA_ADDING_COLUMN_WITH_INTERNAL_NAME_FAILED",
            )


def _validate_struct(struct: StructType, path: ColumnPath, mode: str) -> None:
    seen: dict[str, str] = {}
    for column in struct:
        here = (*path, column.name)
        if column.name.lower() in seen:
            inside = f" in {format_column_path(path)}" if path else ""
            raise InvalidArgument(
                f"column names must differ in more than case, found {seen[column.name.lower()]!r} and "
                f"{column.name!r}{inside}. Rename one",
                error_class="DELTA_DUPLICATE_COLUMNS_FOUND",
            )
        seen[column.name.lower()] = column.name
        _validate_name(column.name, here, mode)
        _validate_type(column.type, here, mode)


def _validate_type(data_type: DataType, path: ColumnPath, mode: str) -> None:
    if isinstance(data_type, StructType):
        _validate_struct(data_type, path, mode)
    elif isinstance(data_type, ArrayType):
        _validate_type(data_type.element_type, (*path, "element"), mode)
    elif isinstance(data_type, MapType):
        _validate_type(data_type.key_type, (*path, "key"), mode)
        _validate_type(data_type.value_type, (*path, "value"), mode)


def _validate_name(name: str, path: ColumnPath, mode: str) -> None:
    if not name:
        inside = f" in {format_column_path(path[:-1])}" if path[:-1] else ""
        raise InvalidArgument(f"a column{inside} has an empty name. Name it")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"column name {name!r} is not Unicode text ({error.reason}). Rename it") from error
    illegal = sorted({c for c in name if c in ILLEGAL_CHARACTERS})
    if illegal and mode == NONE:
        raise InvalidArgument(
            f"column {format_column_path(path)}: a name must not contain {', '.join(map(repr, illegal))}. Rename the "
            "column, or set the table property delta.columnMapping.mode to name",
            error_class="DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES",
        )
