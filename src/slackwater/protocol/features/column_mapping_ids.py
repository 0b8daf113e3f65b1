"""Column mapping for writers: assignment of permanent column ids and physical names, and the record of their use.

Source: delta-protocol.md "Writer Requirements for Column Mapping"; the RFC "Column Mapping Usage Tracking".
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from slackwater.errors import InvalidArgument, InvalidSchema, UnsupportedFeature
from slackwater.protocol.actions.actions import Metadata
from slackwater.protocol.features.column_mapping import FIELD_ID, ID, NAME, NONE, PHYSICAL_NAME, field_id, physical_name
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import (
    COLUMN_MAPPING_MODE,
    ENABLE_ICEBERG_WRITER_COMPAT_V1,
    ENABLE_ICEBERG_WRITER_COMPAT_V3,
    HAS_DROPPED_OR_RENAMED,
    MAX_COLUMN_ID,
    TableProperties,
)
from slackwater.protocol.schema.column_paths import ILLEGAL_CHARACTERS, format_column_path
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
    without_metadata,
)

NESTED_IDS = ("parquet.field.nested.ids", "delta.columnMapping.nested.ids")
"""The metadata keys of ids inside arrays and maps: the key of the documents, and the key of newer writers."""

USAGE_TRACKING = "columnMappingUsageTracking"
"""The feature that records whether a column of the table was ever dropped or renamed."""
_MAPPING_KEYS = frozenset({FIELD_ID, PHYSICAL_NAME, *NESTED_IDS})
_GREATEST_ID = 2**31 - 1


def random_physical_name() -> str:
    """Return a unique physical name: `col-` and a random UUID."""
    return f"col-{uuid.uuid4()}"


def assign_column_mapping(
    schema: StructType,
    mode: str,
    max_id: int = 0,
    existing: StructType | None = None,
    physical: Callable[[], str] = random_physical_name,
    keeps_names: bool = False,
    names_by_id: bool = False,
) -> tuple[StructType, int]:
    """Return `schema` with an id and a physical name for every field, and the greatest id so far.

    Includes nested fields. Fields with both keep them. Other fields get a name from `physical`, and ids above `max_id`
    (the table property `MAX_COLUMN_ID`) and above every id in `schema`. The returned id is at least `max_id`. Pass
    columns of other tables through `strip_mapping` first. In mode `none`, both values are returned unchanged. With
    `keeps_names` the physical name is the column's own name, if a file can have this name. With `names_by_id` it is
    `col-` and the id.

    Pass `existing`, the table's schema, to enable mapping on an existing table. Its names are the column names in the
    data files. Fields of `existing` use these names as physical names, so that the files stay readable, and get new
    ids.

    Raises InvalidSchema if a field has only an id or only a physical name, or if two fields share one. Raises
    InvalidArgument for `existing` in mode `id`, because existing files have no ids, and if an id exceeds 32 bits.
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
        is_own = path in written or (keeps_names and not any(c in ILLEGAL_CHARACTERS for c in column.name))
        name = column.name if is_own else f"col-{last}" if names_by_id else physical()
        return replace(column, metadata={**_unmapped(column), FIELD_ID: last, PHYSICAL_NAME: name})

    mapped = rewrite_fields(schema, assigned)
    if last > _GREATEST_ID:
        raise InvalidArgument(
            f"column ids are 32-bit numbers, but {last} would be needed. Write the table's rows into a new table"
        )
    validate_mapping(mapped, mode)
    return mapped, last


def with_mapped_schema(
    table: TableConfiguration,
    schema: StructType,
    mode: str,
    existing: StructType | None = None,
    physical: Callable[[], str] = random_physical_name,
    keeps_names: bool = False,
) -> TableConfiguration:
    """Return `table` with `schema` after `assign_column_mapping`, and with the greatest id in its property.

    New ids are above the property and above the ids of the old schema. No id is therefore assigned twice, even after
    dropped columns. Raises the errors of `assign_column_mapping`, and CorruptTable if the property is not a number.
    """
    given = table.properties.integer(MAX_COLUMN_ID) or 0
    max_id = max(given, max_column_id(table.schema))
    by_id = has_names_by_id(table.properties)
    mapped, last = assign_column_mapping(schema, mode, max_id, existing, physical, keeps_names, by_id)
    configuration = dict(table.metadata.configuration)
    if mode != NONE:
        configuration[MAX_COLUMN_ID] = str(last)
    metadata = replace(table.metadata, schema_string=schema_to_json(mapped), configuration=configuration)
    return table.changed(metadata=metadata)


def has_names_by_id(properties: TableProperties) -> bool:
    """Return whether new columns must have `col-` and their id as physical name, for Iceberg's writers."""
    return properties.flag(ENABLE_ICEBERG_WRITER_COMPAT_V1) or properties.flag(ENABLE_ICEBERG_WRITER_COMPAT_V3)


def keeps_names(table: TableConfiguration) -> bool:
    """Return whether new columns of `table` use their own names as physical names.

    True if the table tracks drops and renames, and had none: then all physical names are still unique.
    """
    return table.supports(USAGE_TRACKING) and not table.properties.flag(HAS_DROPPED_OR_RENAMED, True)


def with_usage_tracking(before: TableConfiguration | None, after: TableConfiguration) -> Metadata:
    """Return the metadata of `after` with the record of drops and renames, if the table tracks them.

    `before` is the table before the commit, None for a new table. The record is true after the first drop or rename,
    and if tracking starts on a table with column mapping. It never becomes false again.
    Source: "Writer Requirements for Usage Tracking".
    """
    if not after.supports(USAGE_TRACKING):
        return after.metadata
    was_tracked = before is not None and before.supports(USAGE_TRACKING)
    used = after.properties.flag(HAS_DROPPED_OR_RENAMED, False) if before is None else False
    if before is not None and was_tracked:
        used = before.properties.flag(HAS_DROPPED_OR_RENAMED, True) or _drops_or_renames(before.schema, after.schema)
    elif before is not None:
        used = before.column_mapping_mode != NONE
    text = "true" if used else "false"
    if after.metadata.configuration.get(HAS_DROPPED_OR_RENAMED) == text:
        return after.metadata
    return replace(after.metadata, configuration={**after.metadata.configuration, HAS_DROPPED_OR_RENAMED: text})


def _drops_or_renames(before: StructType, after: StructType) -> bool:
    """Return whether a mapped column of `before` is missing in `after`, or has another name."""
    names = {column.metadata.get(FIELD_ID): column.name for _, column in walk_fields(after)}
    mapped = (column for _, column in walk_fields(before) if FIELD_ID in column.metadata)
    return any(names.get(column.metadata[FIELD_ID]) != column.name for column in mapped)


def validate_mapping_change(old_mode: str, new_mode: str, is_new_table: bool) -> None:
    """Validate a change of `delta.columnMapping.mode`.

    A new table may have any mode. An existing table may change from `none` to `name`. Raises InvalidArgument for an
    invalid mode, or for a change not supported by the data files of the table. Raises UnsupportedFeature for disabling
    column mapping.
    """
    old_mode, new_mode = old_mode.lower(), new_mode.lower()
    if new_mode not in (NONE, NAME, ID):
        raise InvalidArgument(f"table property {COLUMN_MAPPING_MODE} must be none, name or id, found {new_mode!r}")
    if is_new_table or old_mode == new_mode or (old_mode, new_mode) == (NONE, NAME):
        return
    if new_mode == NONE:
        raise UnsupportedFeature(
            f"table property {COLUMN_MAPPING_MODE} cannot change from {old_mode} to none: the data files have "
            "physical names. Write the table's rows into a new table without column mapping",
            error_class="DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE",
        )
    if old_mode == NONE:
        raise InvalidArgument(_no_ids_in_files(), error_class="DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE")
    raise InvalidArgument(
        f"table property {COLUMN_MAPPING_MODE} cannot change from {old_mode} to {new_mode}: files are read by the "
        "same mode for the life of a table. Write the rows into a new table",
        error_class="DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE",
    )


def validate_mapping(schema: StructType, mode: str) -> None:
    """Validate that every field of the schema has a unique id and a unique physical name.

    Ids are unique in the table. Physical names are unique within their struct, ignoring case. Raises InvalidSchema,
    naming the columns.
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
    """Return the greatest id in `schema`, including ids inside arrays and maps; 0 without ids."""
    return max((number for _, column in walk_fields(schema) for number in _all_ids(column)), default=0)


def strip_mapping(schema: StructType) -> StructType:
    """Return `schema` without ids and physical names, for columns of a new table."""
    return without_metadata(schema, _MAPPING_KEYS.__contains__)


def _unmapped(column: StructField) -> dict[str, Any]:
    return {key: value for key, value in column.metadata.items() if key not in _MAPPING_KEYS}


def _no_ids_in_files() -> str:
    return (
        f"table property {COLUMN_MAPPING_MODE} can be id only if it is set at the creation of the table: the data "
        "files of this table contain no column ids. Use name"
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
    """Yield the fields with their display path and their physical path."""
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
    """Return the distinct ids of the column's elements, keys and values, from both metadata keys."""
    nested = [column.metadata.get(key) for key in NESTED_IDS]
    numbers = (number for ids in nested if isinstance(ids, Mapping) for number in ids.values())
    return tuple(dict.fromkeys(number for number in numbers if isinstance(number, int)))


def _all_ids(column: StructField) -> Iterator[int]:
    if FIELD_ID in column.metadata:
        yield field_id(column)
    yield from _nested_ids(column)
