"""Column mapping for writers: giving columns the ids and physical names that they keep for ever.

Source: delta-protocol.md "Writer Requirements for Column Mapping".
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from slackwater.errors import InvalidArgument, InvalidSchema, UnsupportedFeature
from slackwater.protocol.features.column_mapping import FIELD_ID, ID, NAME, NONE, PHYSICAL_NAME, field_id, physical_name
from slackwater.protocol.properties.properties import COLUMN_MAPPING_MODE, MAX_COLUMN_ID
from slackwater.protocol.schema.column_paths import format_column_path
from slackwater.protocol.schema.schema import (
    ArrayType,
    ColumnPath,
    DataType,
    MapType,
    StructField,
    StructType,
    rewrite_fields,
    schema_to_json,
    walk_fields,
)
from slackwater.protocol.table_configuration import TableConfiguration

NESTED_IDS = ("parquet.field.nested.ids", "delta.columnMapping.nested.ids")
"""Ids of what arrays and maps hold, by the documents' key and by that of newer writers."""

_GREATEST_ID = 2**31 - 1


def random_physical_name() -> str:
    """A physical name that no other column has: `col-` and a random UUID."""
    return f"col-{uuid.uuid4()}"


def assign_column_mapping(
    schema: StructType,
    mode: str,
    max_id: int = 0,
    existing: StructType | None = None,
    physical: Callable[[], str] = random_physical_name,
) -> tuple[StructType, int]:
    """`schema` with an id and a physical name on every field, nested ones too, and the greatest id given so far.

    Fields that have both keep them; others get ids above `max_id` (the table property `MAX_COLUMN_ID`) and above every
    id in `schema`, and a name from `physical`. The id returned is never below `max_id`. Columns that come from
    elsewhere than the table must have been through `strip_mapping`. In mode `none` both come back as given.

    `existing` is given where mapping is enabled on a table: its schema, under whose names the data files were written.
    Fields that it has keep their names as physical names, so that the files stay readable, and get new ids.
    Raises InvalidSchema where a field has only one of the two, or two fields share one; InvalidArgument for `existing`
    in mode `id`, since those files have no ids.
    """
    if mode == NONE:
        return schema, max_id
    if existing is not None and mode == ID:
        raise InvalidArgument(_no_ids_in_files(), error_class="DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE")
    written = {path for path, _ in walk_fields(existing)} if existing is not None else set()
    last = max(max_id, max_column_id(schema))

    def assigned(path: ColumnPath, column: StructField) -> StructField:
        nonlocal last
        if path not in written and _is_mapped(path, column):
            return column
        last += 1
        name = column.name if path in written else physical()
        return replace(column, metadata={**_unmapped(column), FIELD_ID: last, PHYSICAL_NAME: name})

    mapped = rewrite_fields(schema, assigned)
    if last > _GREATEST_ID:
        raise InvalidArgument(
            f"column ids are 32-bit numbers, and {last} would be needed: write the table's rows into a new table"
        )
    validate_mapping(mapped, mode)
    return mapped, last


def with_mapped_schema(
    table: TableConfiguration,
    schema: StructType,
    mode: str,
    existing: StructType | None = None,
    physical: Callable[[], str] = random_physical_name,
) -> TableConfiguration:
    """`table` with `schema` after `assign_column_mapping`, and with the property of the greatest id raised to match.

    Ids start above that property and above those of the schema before, so that none is given twice, whatever was
    dropped. Raises as `assign_column_mapping`, and CorruptTable where the property is no number.
    """
    given = table.properties.integer(MAX_COLUMN_ID) or 0
    max_id = max(given, max_column_id(table.schema))
    mapped, last = assign_column_mapping(schema, mode, max_id, existing, physical)
    configuration = dict(table.metadata.configuration)
    if mode != NONE:
        configuration[MAX_COLUMN_ID] = str(last)
    metadata = replace(table.metadata, schema_string=schema_to_json(mapped), configuration=configuration)
    return table.changed(metadata=metadata)


def validate_mapping_change(old_mode: str, new_mode: str, is_new_table: bool) -> None:
    """Let pass a change of `delta.columnMapping.mode`: any mode for a new table, `none` to `name` for an existing one.

    Raises InvalidArgument for a value that is no mode or for a change that the data files of the table do not allow,
    UnsupportedFeature for switching column mapping off.
    """
    old_mode, new_mode = old_mode.lower(), new_mode.lower()
    if new_mode not in (NONE, NAME, ID):
        raise InvalidArgument(f"table property {COLUMN_MAPPING_MODE} must be none, name or id, found {new_mode!r}")
    if is_new_table or old_mode == new_mode or (old_mode, new_mode) == (NONE, NAME):
        return
    if new_mode == NONE:
        raise UnsupportedFeature(
            f"table property {COLUMN_MAPPING_MODE} cannot go from {old_mode} to none: the data files have physical "
            "names; write the table's rows into a new table without column mapping",
            error_class="DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE",
        )
    if old_mode == NONE:
        raise InvalidArgument(_no_ids_in_files(), error_class="DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE")
    raise InvalidArgument(
        f"table property {COLUMN_MAPPING_MODE} cannot go from {old_mode} to {new_mode}: files are read by one or the "
        "other for the life of a table; write the rows into a new table",
        error_class="DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE",
    )


def validate_mapping(schema: StructType, mode: str) -> None:
    """Let pass a schema in which every field has an id and a physical name, and no two are confused by either.

    Ids are unique in the table; physical names, whatever their case, within their struct. Raises InvalidSchema naming
    the columns.
    """
    if mode == NONE:
        return
    by_id: dict[int, str] = {}
    by_name: dict[ColumnPath, str] = {}
    for path, physical_path, column in _mapped_fields(schema, mode):
        here = format_column_path(path)
        for number in (field_id(column), *_nested_ids(column)):
            if number in by_id:
                raise InvalidSchema(f"columns {by_id[number]} and {here} have the same column mapping id {number}")
            by_id[number] = here
        folded = tuple(step.lower() for step in physical_path)
        if folded in by_name:
            raise InvalidSchema(
                f"columns {by_name[folded]} and {here} have the same physical name {physical_path[-1]!r}"
            )
        by_name[folded] = here


def max_column_id(schema: StructType) -> int:
    """The greatest id in `schema`, those of what arrays and maps hold included; 0 where there is none."""
    return max((number for _, column in walk_fields(schema) for number in _all_ids(column)), default=0)


def strip_mapping(schema: StructType) -> StructType:
    """`schema` without ids and physical names: as the columns of a new table begin."""
    return rewrite_fields(schema, lambda _, column: replace(column, metadata=_unmapped(column)))


def _unmapped(column: StructField) -> dict[str, Any]:
    keys = {FIELD_ID, PHYSICAL_NAME, *NESTED_IDS}
    return {key: value for key, value in column.metadata.items() if key not in keys}


def _no_ids_in_files() -> str:
    return (
        f"table property {COLUMN_MAPPING_MODE} can be id only from the creation of a table on: the data files that "
        "this one has hold no column ids; use name"
    )


def _is_mapped(path: ColumnPath, column: StructField) -> bool:
    has_id, has_name = FIELD_ID in column.metadata, PHYSICAL_NAME in column.metadata
    if has_id != has_name:
        has, lacks = (FIELD_ID, PHYSICAL_NAME) if has_id else (PHYSICAL_NAME, FIELD_ID)
        raise InvalidSchema(f"column {format_column_path(path)} has {has} in its metadata, but no {lacks}")
    return has_id


def _mapped_fields(
    data_type: DataType, mode: str, path: ColumnPath = (), physical: ColumnPath = ()
) -> Iterator[tuple[ColumnPath, ColumnPath, StructField]]:
    """Every field with the path of its names and that of its physical names."""
    if isinstance(data_type, StructType):
        for column in data_type:
            here, there = (*path, column.name), (*physical, physical_name(column, mode))
            yield here, there, column
            yield from _mapped_fields(column.type, mode, here, there)
    elif isinstance(data_type, ArrayType):
        yield from _mapped_fields(data_type.element_type, mode, (*path, "element"), (*physical, "element"))
    elif isinstance(data_type, MapType):
        yield from _mapped_fields(data_type.key_type, mode, (*path, "key"), (*physical, "key"))
        yield from _mapped_fields(data_type.value_type, mode, (*path, "value"), (*physical, "value"))


def _nested_ids(column: StructField) -> tuple[int, ...]:
    """Ids of what the column's arrays and maps hold; each once, though both keys may tell it."""
    nested = [column.metadata.get(key) for key in NESTED_IDS]
    numbers = (number for ids in nested if isinstance(ids, Mapping) for number in ids.values())
    return tuple(dict.fromkeys(number for number in numbers if isinstance(number, int)))


def _all_ids(column: StructField) -> Iterator[int]:
    if FIELD_ID in column.metadata:
        yield field_id(column)
    yield from _nested_ids(column)
