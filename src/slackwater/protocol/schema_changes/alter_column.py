"""Changes of one column's comment, nullability, default value or type, without rewriting files (ALTER COLUMN).

Each function takes the table configuration and returns the changed one. Path lookup ignores case. All functions raise
InvalidArgument, with the column and the remedy, if the column does not exist or the table does not allow the change.
Source: delta-protocol.md "Default Columns", "Column Metadata", "Generated Columns", "Identity Columns".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from slackwater.errors import InvalidArgument
from slackwater.protocol.features.iceberg_compat import active_version, allows_type_change
from slackwater.protocol.features.identity_columns import is_identity
from slackwater.protocol.features.sql_columns import columns_in_sql, fixed_columns, is_generated
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import ENABLE_TYPE_WIDENING
from slackwater.protocol.schema.char_varchar import is_longer, schema_limits, text_limits, with_limits
from slackwater.protocol.schema.column_paths import (
    format_column_path,
    resolve_field,
    resolve_path,
    with_field_at,
    with_type_at,
)
from slackwater.protocol.schema.schema import (
    COMMENT,
    CURRENT_DEFAULT,
    EXISTS_DEFAULT,
    STRING,
    ArrayType,
    ColumnPath,
    DataType,
    MapType,
    StructField,
    StructType,
    is_string,
    nullable_type,
    schema_to_json,
    walk_fields,
)
from slackwater.protocol.schema.type_widening import (
    can_change_in_place,
    can_store,
    can_widen,
    is_same_type,
    with_type_change,
)
from slackwater.protocol.schema_changes.column_names import validate_column_type
from slackwater.protocol.schema_changes.merge_schema import without_internal_metadata


def set_comment(table: TableConfiguration, path: ColumnPath, comment: str | None) -> TableConfiguration:
    """Set the comment of the column at `path`; None removes the comment."""

    def commented(column: StructField) -> StructField:
        kept = {key: value for key, value in column.metadata.items() if key != COMMENT}
        return replace(column, metadata=kept if comment is None else {**kept, COMMENT: comment})

    return _with_field(table, path, commented)


def retype(table: TableConfiguration, path: ColumnPath, given: StructField) -> TableConfiguration:
    """Return `table` after a change of the column at `path` to the type and the text lengths of `given`.

    Raises the errors of `change_type` and `validate_longer_texts`.
    """
    changed = change_type(table, path, given.type)
    schema = changed.schema
    spelled, _ = resolve_path(schema, path)
    limits = {resolve_path(schema, (*spelled, *at))[0]: kind for at, kind in text_limits(given).items()}
    validate_longer_texts(table.schema, limits)
    others = {at: kind for at, kind in schema_limits(schema).items() if at[: len(spelled)] != spelled}
    limited = with_limits(schema, {**others, **limits})
    return changed if limited == schema else _with_schema(changed, limited)


def validate_longer_texts(schema: StructType, limits: Mapping[ColumnPath, str]) -> None:
    """Refuse `limits` for texts of `schema` that may be longer, or that CHAR would pad. Raises InvalidArgument."""
    before = schema_limits(schema)
    for at, kind in limits.items():
        if not is_longer(before.get(at), kind):
            raise InvalidArgument(
                f"column {format_column_path(at)} is of type {before.get(at, STRING)} and cannot become {kind}. "
                "VARCHAR(n) can only become longer, or STRING",
                error_class="DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP",
            )


def set_nullability(
    table: TableConfiguration, path: ColumnPath, nullable: bool, *, holds_no_null: bool = False
) -> TableConfiguration:
    """Make the column at `path` nullable or NOT NULL.

    For NOT NULL, the caller passes `holds_no_null=True` to confirm a check of the table's rows: the column has no null.
    The table's protocol must support `invariants`. NOT NULL is rejected inside arrays and maps, because no writer
    enforces it there.
    """
    schema = table.schema
    spelled, column = resolve_field(schema, path)
    here = format_column_path(spelled)
    if not nullable and column.nullable:
        if any(
            isinstance(resolve_path(schema, spelled[:depth])[1], (ArrayType, MapType)) for depth in range(len(spelled))
        ):
            raise InvalidArgument(
                f"column {here} is inside an array or a map, where NOT NULL is not enforced",
                error_class="DELTA_NESTED_NOT_NULL_CONSTRAINT",
            )
        if not holds_no_null:
            raise InvalidArgument(f"column {here} can be set NOT NULL only after a check that no row contains a null")
    return _with_field(table, spelled, lambda found: replace(found, nullable=nullable))


def set_default(table: TableConfiguration, path: ColumnPath, sql: str | None) -> TableConfiguration:
    """Set the default value of the column at `path` to the expression `sql`; None removes the default.

    The default applies only to later writes. The table needs the feature `allowColumnDefaults`. Rejects fields of
    structs, generated and identity columns, and expressions with column references.
    """
    spelled, column = resolve_field(table.schema, path)
    here = format_column_path(spelled)
    if len(spelled) > 1:
        raise InvalidArgument(f"column {here} cannot have a default value: only top-level columns can")
    if sql is not None:
        if is_generated(column) or is_identity(column):
            raise InvalidArgument(
                f"column {here} cannot have a default value: the table computes its values",
                error_class="DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP",
            )
        read = sorted(format_column_path(names) for names in columns_in_sql(sql))
        if read:
            raise InvalidArgument(f"the default value of column {here} cannot read columns, found {read} in {sql!r}")

    def defaulted(found: StructField) -> StructField:
        kept = {key: value for key, value in found.metadata.items() if key not in (CURRENT_DEFAULT, EXISTS_DEFAULT)}
        return replace(found, metadata=kept if sql is None else {**kept, CURRENT_DEFAULT: sql})

    return _with_field(table, spelled, defaulted)


def change_type(table: TableConfiguration, path: ColumnPath, new_type: DataType) -> TableConfiguration:
    """Change the type at `path` (a column, an array element, a map key or a map value) to `new_type`.

    byte may become short, and both may become integer. void may become any type. With `delta.enableTypeWidening`, a
    type may become any wider type allowed by `can_widen`, and the column metadata records the old type. The same type
    is no change. In a table with the preview of that feature, the commit adds its version to the record. Raises the
    errors of `changed_type`.
    """
    schema = table.schema
    spelled, old = resolve_path(schema, path)
    if not spelled:
        raise InvalidArgument("a column needs a name")
    if table.properties.flag(ENABLE_TYPE_WIDENING) and can_widen(old, new_type) and not is_same_type(old, new_type):
        return _widened(table, spelled, old, new_type)
    changed = changed_type(table, spelled, old, new_type)
    return _with_schema(table, with_type_at(schema, spelled, lambda _: changed))


def changed_type(table: TableConfiguration, path: ColumnPath, old: DataType, new: DataType) -> DataType:
    """Return the type of the column at `path`, in the schema's spelling, after a change from `old` to `new`.

    Raises InvalidArgument if files of the old type are not readable as the new type. Raises InvalidArgument if the type
    is fixed by partitioning, generation, identity, or an expression with a reference to the column.
    """
    if is_same_type(old, new):
        return old
    here = format_column_path(path)
    # Files store the bytes of the text only, whatever its collation.
    if not can_change_in_place(old, new) and not (is_string(old) and is_string(new)):
        wider = f". For this change, set {ENABLE_TYPE_WIDENING} to true" if can_widen(old, new) else ""
        raise InvalidArgument(
            f"column {here} is of type {old}, and its data files cannot be read as {new}. Only byte to short or "
            f"integer, and short to integer, are possible{wider}. Add and drop fields of a struct one by one. "
            "Otherwise write the rows into a new column",
            error_class="DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP",
        )
    _require_free(table, path, old)
    validate_column_type(new, path)
    return _as_new(nullable_type(new))


def _widened(table: TableConfiguration, path: ColumnPath, old: DataType, new: DataType) -> TableConfiguration:
    """Return the table with the wider type at `path` and the old type in the column's type history."""
    here = format_column_path(path)
    if active_version(table) is not None and not _is_of_iceberg(old, new):
        raise InvalidArgument(
            f"column {here} is of type {old}. The table is compatible with Iceberg, which does not widen {old} to "
            f"{new}",
            error_class="DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP",
        )
    _require_free(table, path, old)
    schema = with_type_at(table.schema, path, lambda _: new)
    fields = dict(walk_fields(schema))
    column = max((path[:depth] for depth in range(1, len(path) + 1) if path[:depth] in fields), key=len)
    inside = path[len(column) :]
    return _with_schema(table, with_field_at(schema, column, lambda found: with_type_change(found, inside, old, new)))


def widened_for(table: TableConfiguration, data: StructType) -> TableConfiguration:
    """Return the table after a write that evolves its schema: columns are as wide as those of `data`.

    Only on a table with `delta.enableTypeWidening`, and only for the changes of `widenings`.
    """
    for path, old, new in widenings(table, data):
        table = _widened(table, path, old, new)
    return table


def widenings(table: TableConfiguration, data: StructType) -> list[tuple[ColumnPath, DataType, DataType]]:
    """Return the columns that a write of `data` widens if it evolves the schema: path, old type, new type.

    Columns whose type must stay are left out, and changes that Iceberg compatibility does not allow.
    Source: delta-spark's automatic type widening, which by default makes every change that ALTER TABLE makes.
    """
    if not table.properties.flag(ENABLE_TYPE_WIDENING):
        return []
    fixed, is_iceberg = fixed_columns(table), active_version(table) is not None
    return [
        (path, old, new)
        for path, old, new in _pairs(table.schema, data, ())
        if can_widen(old, new)
        and not can_store(new, old)
        and not any(path[: len(stays)] == stays for stays in fixed)
        and (not is_iceberg or _is_of_iceberg(old, new))
    ]


def _pairs(table: DataType, data: DataType, path: ColumnPath) -> Iterator[tuple[ColumnPath, DataType, DataType]]:
    """The columns that both have, and what arrays and maps hold, with their types."""
    if isinstance(table, StructType) and isinstance(data, StructType):
        for given in data:
            if (column := table.get(given.name)) is not None:
                yield from _pairs(column.type, given.type, (*path, column.name))
    elif isinstance(table, ArrayType) and isinstance(data, ArrayType):
        yield from _pairs(table.element_type, data.element_type, (*path, "element"))
    elif isinstance(table, MapType) and isinstance(data, MapType):
        yield from _pairs(table.key_type, data.key_type, (*path, "key"))
        yield from _pairs(table.value_type, data.value_type, (*path, "value"))
    else:
        yield path, table, data


def _is_of_iceberg(old: DataType, new: DataType) -> bool:
    return can_change_in_place(old, new) or allows_type_change(str(old), str(new))


def _require_free(table: TableConfiguration, path: ColumnPath, old: DataType) -> None:
    here = format_column_path(path)
    if any(path[: len(stays)] == stays for stays in fixed_columns(table)):
        raise InvalidArgument(
            f"column {here} must stay {old}: the table is partitioned by it, generates it, or has a constraint, a "
            "generated column or an invariant that reads it",
            error_class="DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP",
        )


def _as_new(data_type: DataType) -> DataType:
    return without_internal_metadata(StructType((StructField("column", data_type),))).fields[0].type


def _with_field(
    table: TableConfiguration, path: ColumnPath, change: Callable[[StructField], StructField]
) -> TableConfiguration:
    spelled, _ = resolve_field(table.schema, path)
    return _with_schema(table, with_field_at(table.schema, spelled, change))


def _with_schema(table: TableConfiguration, schema: StructType) -> TableConfiguration:
    return table.changed(metadata=replace(table.metadata, schema_string=schema_to_json(schema)))
