"""The schema of a table after a write with new columns (`mergeSchema`).

Source: delta-protocol.md "Consistency Between Table Metadata and Data Files", "Column Metadata".
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from slackwater.errors import InvalidArgument
from slackwater.protocol.features.identity_columns import is_identity
from slackwater.protocol.features.sql_columns import is_generated
from slackwater.protocol.schema.column_paths import format_column_path
from slackwater.protocol.schema.schema import (
    CURRENT_DEFAULT,
    EXISTS_DEFAULT,
    ArrayType,
    ColumnPath,
    DataType,
    MapType,
    StructField,
    StructType,
    as_nullable,
    without_metadata,
)
from slackwater.protocol.schema.type_widening import can_change_in_place, can_store
from slackwater.protocol.schema_changes.column_names import validate_column_type

_INTERNAL_PREFIXES = ("delta.", "parquet.field.", "spark.", "__")
_INTERNAL_KEYS = frozenset({CURRENT_DEFAULT, EXISTS_DEFAULT})


def merge_schemas(
    table: StructType,
    data: StructType,
    *,
    allow_new_columns: bool,
    widen: bool,
    fixed: Collection[ColumnPath] = (),
) -> StructType:
    """Return the schema of `table` after a write of `data`. Its columns can store all values of `data` without loss.

    Columns match by name at every depth, ignoring case. They keep the table's spelling, order, nullability and
    metadata. A column missing in the data stays unchanged. A column missing in the table is added at the end of its
    struct: nullable, with the user's metadata (such as a comment).

    Types of the table do not change: the data is cast up (see `can_store`). With `widen`, byte becomes short or
    integer, short becomes integer, and void becomes the type of the data. `fixed` lists the columns with a fixed type
    (see `fixed_columns`). Generated and identity columns always have a fixed type.

    Raises InvalidArgument if a type does not fit, with the path, both types and the remedy. Raises InvalidArgument for
    new columns without `allow_new_columns`, with all of their paths. Raises InvalidArgument for a new column inside a
    map's key, and for names that differ only in case. Raises InvalidArgument for a nested struct without a non-nullable
    field of the table.
    """
    merge = _Merge(allow_new_columns, widen, frozenset(fixed))
    merged = merge.struct(table, data, ())
    if merge.refused:
        names = ", ".join(format_column_path(path) for path in merge.refused)
        raise InvalidArgument(
            f"the data has columns that the table lacks: {names}. The table's columns are {list(table.names)}. Set "
            "the option mergeSchema to true (schema_mode='merge' without Spark) to add the new ones, or omit them",
            error_class="DELTA_METADATA_MISMATCH",
        )
    return merged


def without_internal_metadata(schema: StructType) -> StructType:
    """Return `schema` as the schema of new columns, without the metadata of another table or of Spark.

    Removes column mapping, generation, identity, invariants and defaults. Comments and user metadata stay.
    """
    return without_metadata(schema, _is_internal_key)


def _is_internal_key(key: str) -> bool:
    return key in _INTERNAL_KEYS or key.lower().startswith(_INTERNAL_PREFIXES)


@dataclass(slots=True)
class _Merge:
    allow_new_columns: bool
    widen: bool
    fixed: frozenset[ColumnPath]
    refused: list[ColumnPath] = field(default_factory=list)

    def struct(self, table: StructType, data: StructType, path: ColumnPath, in_key: bool = False) -> StructType:
        _refuse_twins(table, data, path)
        given = {column.name: found for found in data if (column := table.get(found.name)) is not None}
        kept = tuple(
            self.column(column, given[column.name], (*path, column.name), in_key) if column.name in given else column
            for column in table
        )
        absent = [column.name for column in table if column.name not in given and not column.nullable]
        if path and absent:
            raise InvalidArgument(
                f"{format_column_path(path)} in the data lacks {absent}, which must not be null in the table. Add "
                "them, or make the table's columns nullable",
                error_class="DELTA_MISSING_NOT_NULL_COLUMN_VALUE",
            )
        new = [column for column in data if table.get(column.name) is None]
        return StructType((*kept, *(self.added(column, (*path, column.name), in_key) for column in new)))

    def column(self, table: StructField, data: StructField, path: ColumnPath, in_key: bool) -> StructField:
        if is_generated(table) or is_identity(table):
            self.fixed |= {path}
        return replace(table, type=self.type(table.type, data.type, path, in_key))

    def added(self, column: StructField, path: ColumnPath, in_key: bool) -> StructField:
        if in_key:
            raise InvalidArgument(
                f"{format_column_path(path)} would be a new column inside the key of a map, which would change "
                "existing keys. Omit it",
                error_class="DELTA_FAILED_TO_MERGE_FIELDS",
            )
        if not self.allow_new_columns:
            self.refused.append(path)
            return column
        validate_column_type(column.type, path)
        return _as_new(column)

    def type(self, table: DataType, data: DataType, path: ColumnPath, in_key: bool) -> DataType:
        if isinstance(table, StructType) and isinstance(data, StructType):
            return self.struct(table, data, path, in_key)
        if isinstance(table, ArrayType) and isinstance(data, ArrayType):
            return replace(
                table, element_type=self.type(table.element_type, data.element_type, (*path, "element"), in_key)
            )
        if isinstance(table, MapType) and isinstance(data, MapType):
            return replace(
                table,
                key_type=self.type(table.key_type, data.key_type, (*path, "key"), True),
                value_type=self.type(table.value_type, data.value_type, (*path, "value"), in_key),
            )
        if can_store(data, table):
            return table
        return self.widened(table, data, path)

    def widened(self, table: DataType, data: DataType, path: ColumnPath) -> DataType:
        here = format_column_path(path)
        if not can_change_in_place(table, data):
            raise InvalidArgument(
                f"column {here} is of type {table} in the table and of type {data} in the data, which does not fit. "
                f"Cast the data to {table}, or overwrite the table with the option overwriteSchema",
                error_class="DELTA_FAILED_TO_MERGE_FIELDS",
            )
        if not self.widen:
            raise InvalidArgument(
                f"column {here} is of type {table} in the table and of type {data} in the data. Set the option "
                f"mergeSchema to true (schema_mode='merge' without Spark) to make it {data}, or cast the data to "
                f"{table}",
                error_class="DELTA_FAILED_TO_MERGE_FIELDS",
            )
        if any(path[: len(stays)] == stays for stays in self.fixed):
            raise InvalidArgument(
                f"column {here} is of type {table} in the table and of type {data} in the data. Its type cannot "
                "change: the table is partitioned by it, generates it, or has a constraint or a generated column that "
                f"reads it. Cast the data to {table}",
                error_class="DELTA_FAILED_TO_MERGE_FIELDS",
            )
        validate_column_type(data, path)
        return _as_new(StructField(path[-1], data)).type


def _as_new(column: StructField) -> StructField:
    return without_internal_metadata(as_nullable(StructType((column,)))).fields[0]


def _refuse_twins(table: StructType, data: StructType, path: ColumnPath) -> None:
    """Raise InvalidArgument if names in one schema differ only in case, because the match would be ambiguous."""
    inside = f" in {format_column_path(path)}" if path else ""
    for where, names in (("data", data.names), ("table", table.names)):
        folded = [name.lower() for name in names]
        twins = [name for name in names if folded.count(name.lower()) > 1] if len(set(folded)) < len(folded) else []
        if twins:
            raise InvalidArgument(
                f"columns {twins}{inside} of the {where} differ only in case. Rename all but one",
                error_class="DELTA_DUPLICATE_COLUMNS_FOUND",
            )
