"""Replacement of all columns of a table: REPLACE COLUMNS, `overwriteSchema` and REPLACE TABLE.

Source: delta-protocol.md "Column Mapping", "Change Metadata", "Consistency Between Table Metadata and Data Files".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from slackwater.errors import InvalidArgument
from slackwater.protocol.features.column_mapping_ids import random_physical_name, strip_mapping, with_mapped_schema
from slackwater.protocol.features.sql_columns import column_expressions, missing_columns
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import ENABLE_CHANGE_DATA_FEED
from slackwater.protocol.schema.char_varchar import schema_limits, with_limits
from slackwater.protocol.schema.column_paths import format_column_path, has_path, resolve_path
from slackwater.protocol.schema.schema import (
    COMMENT,
    CURRENT_DEFAULT,
    GENERATION_EXPRESSION,
    INVARIANTS,
    ArrayType,
    ColumnPath,
    DataType,
    MapType,
    StructField,
    StructType,
    walk_fields,
)
from slackwater.protocol.schema_changes.alter_column import changed_type, validate_longer_texts
from slackwater.protocol.schema_changes.alter_columns import (
    new_column,
    validate_drop,
    without_stats_columns,
)
from slackwater.protocol.schema_changes.column_names import (
    validate_column_names,
    validate_column_types,
    validate_partition_columns,
)


def replace_columns(
    table: TableConfiguration,
    columns: StructType,
    *,
    clustering: Collection[ColumnPath] = (),
    physical: Callable[[], str] = random_physical_name,
) -> TableConfiguration:
    """Replace the columns of the table by `columns`, in their order, without rewriting files (REPLACE COLUMNS).

    Columns match by name at every depth, ignoring case. They keep the table's spelling, ids and metadata, but take a
    comment from `columns`. `change_type` defines the allowed type changes. NOT NULL can be removed, but not added. The
    rules of `add_columns` apply to new columns. Missing columns are dropped by the rules of `drop_columns`. Raises
    InvalidArgument.
    """
    metadata, mode = table.metadata, table.column_mapping_mode
    replacement = _Replacement(table, mode, table.properties.flag(ENABLE_CHANGE_DATA_FEED))
    replaced = replacement.struct(table.schema, columns, ())
    validate_drop(table, replacement.dropped, clustering)
    validate_column_types(replaced)
    validate_partition_columns(replaced, metadata.partition_columns)
    limits = {resolve_path(replaced, at)[0]: kind for at, kind in schema_limits(columns).items()}
    validate_longer_texts(table.schema, {at: kind for at, kind in limits.items() if has_path(table.schema, at)})
    replaced = with_limits(replaced, limits)
    configuration = without_stats_columns(metadata.configuration, replacement.dropped)
    kept = table.changed(metadata=replace(metadata, configuration=configuration))
    return with_mapped_schema(kept, replaced, mode, physical=physical)


def replace_schema(
    table: TableConfiguration,
    new_schema: StructType,
    partition_columns: Sequence[str],
    physical: Callable[[], str] = random_physical_name,
) -> TableConfiguration:
    """Return the table with `new_schema` and `partition_columns`, for a commit with a remove action for every file.

    Used by `overwriteSchema` and REPLACE TABLE. Under column mapping, every column gets a new physical name and an id
    above every id ever assigned. This includes columns with an old name, so that data of old files is never read as a
    new column. The configuration is unchanged, except that `delta.dataSkippingStatsColumns` loses dropped columns.
    `new_schema` may have generated columns, identity columns and defaults. Pass the schema of a DataFrame through
    `without_internal_metadata` first.

    Raises InvalidArgument if the table cannot have a name, type or partition column of the new schema. Raises
    InvalidArgument if a CHECK constraint or a generated column reads a column missing in `new_schema`.
    """
    schema = strip_mapping(new_schema)
    old, mode = table.metadata, table.column_mapping_mode
    validate_column_names(schema, mode, change_feed=table.properties.flag(ENABLE_CHANGE_DATA_FEED))
    validate_column_types(schema)
    columns = validate_partition_columns(schema, partition_columns)
    gone = [path for path, _ in walk_fields(table.schema) if not has_path(schema, path)]
    configuration = without_stats_columns(old.configuration, gone)
    kept = table.changed(metadata=replace(old, partition_columns=columns, configuration=configuration))
    new = with_mapped_schema(kept, schema, mode, physical=physical)
    for expression in column_expressions(new):
        missing = [format_column_path(path) for path in missing_columns(expression.sql, schema)]
        if missing:
            raise InvalidArgument(
                f"{expression.label} reads {missing}, which the new schema lacks ({expression.sql}). The new columns "
                f"are {list(schema.names)}. Drop {expression.label} first, or keep the columns"
            )
    return new


@dataclass(slots=True)
class _Replacement:
    table: TableConfiguration
    mode: str
    change_feed: bool
    dropped: list[ColumnPath] = field(default_factory=list)

    def struct(self, old: StructType, new: StructType, path: ColumnPath) -> StructType:
        fields = []
        kept: set[str] = set()
        for given in new:
            column = old.get(given.name)
            if column is None:
                fields.append(new_column(given, (*path, given.name), self.mode, self.change_feed))
                continue
            if column.name in kept:
                here = format_column_path((*path, column.name))
                raise InvalidArgument(
                    f"column {here} occurs twice, in spellings that differ at most in case",
                    error_class="DELTA_DUPLICATE_COLUMNS_FOUND",
                )
            kept.add(column.name)
            fields.append(self.column(column, given, (*path, column.name)))
        _refuse_twins(fields, path)
        self.dropped.extend((*path, column.name) for column in old if column.name not in kept)
        return StructType(tuple(fields))

    def column(self, old: StructField, new: StructField, path: ColumnPath) -> StructField:
        here = format_column_path(path)
        if old.nullable and not new.nullable:
            raise InvalidArgument(
                f"column {here} may contain nulls. Set it NOT NULL in a separate step, with a check",
                error_class="DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP",
            )
        for key in (CURRENT_DEFAULT, GENERATION_EXPRESSION, INVARIANTS):
            if key in new.metadata and new.metadata[key] != old.metadata.get(key):
                raise InvalidArgument(
                    f"column {here}: replacing columns does not change {key}, found a different value",
                    error_class="DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP",
                )
        comment = {COMMENT: new.metadata[COMMENT]} if COMMENT in new.metadata else {}
        return replace(
            old,
            type=self.type(old.type, new.type, path),
            nullable=new.nullable,
            metadata={**old.metadata, **comment},
        )

    def type(self, old: DataType, new: DataType, path: ColumnPath) -> DataType:
        if isinstance(old, StructType) and isinstance(new, StructType):
            return self.struct(old, new, path)
        if isinstance(old, ArrayType) and isinstance(new, ArrayType):
            return replace(old, element_type=self.type(old.element_type, new.element_type, (*path, "element")))
        if isinstance(old, MapType) and isinstance(new, MapType):
            return replace(
                old,
                key_type=self.type(old.key_type, new.key_type, (*path, "key")),
                value_type=self.type(old.value_type, new.value_type, (*path, "value")),
            )
        return changed_type(self.table, path, old, new)


def _refuse_twins(fields: Sequence[StructField], path: ColumnPath) -> None:
    folded = [column.name.lower() for column in fields]
    twins = [column.name for column in fields if folded.count(column.name.lower()) > 1]
    if twins:
        inside = f" in {format_column_path(path)}" if path else ""
        raise InvalidArgument(
            f"columns {twins}{inside} differ only in case. Rename all but one",
            error_class="DELTA_DUPLICATE_COLUMNS_FOUND",
        )
