"""Iceberg compatibility, versions 1 to 3: rules for the table and its files. Rules for tables of Iceberg's writers.

Source: delta-protocol.md "Writer Requirements for IcebergCompatV1", "Writer Requirements for IcebergCompatV2"; the RFCs
"IcebergCompatV3", "IcebergWriterCompatV1" and "Materialize Partition Columns"; for version 3 of the rules for Iceberg's
writers, the Delta Kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from slackwater.errors import InvalidArgument, InvalidSchema
from slackwater.protocol.actions.actions import Metadata
from slackwater.protocol.features import row_tracking
from slackwater.protocol.features.column_mapping import FIELD_ID, ID, NONE, PHYSICAL_NAME
from slackwater.protocol.features.column_mapping_ids import NESTED_IDS as NESTED_ID_KEYS
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import (
    COLUMN_MAPPING_MODE,
    CONSTRAINT_PREFIX,
    ENABLE_CHANGE_DATA_FEED,
    ENABLE_DELETION_VECTORS,
    ENABLE_ICEBERG_COMPAT_V1,
    ENABLE_ICEBERG_COMPAT_V2,
    ENABLE_ICEBERG_COMPAT_V3,
    ENABLE_ICEBERG_WRITER_COMPAT_V1,
    ENABLE_ICEBERG_WRITER_COMPAT_V3,
    ENABLE_ROW_TRACKING,
    MATERIALIZED_ROW_COMMIT_VERSION,
    MATERIALIZED_ROW_ID,
    WRITE_PARTITION_COLUMNS,
    TableProperties,
)
from slackwater.protocol.schema.nested_columns import parts
from slackwater.protocol.schema.schema import (
    CURRENT_DEFAULT,
    GENERATION_EXPRESSION,
    IDENTITY_PREFIX,
    INVARIANTS,
    ArrayType,
    ColumnPath,
    DataType,
    DecimalType,
    GeospatialType,
    MapType,
    StructField,
    StructType,
    VariantType,
    walk_fields,
)
from slackwater.protocol.schema.type_widening import TYPE_CHANGES
from slackwater.protocol.sqlglot_adapter import is_literal

# Column metadata keys of the ids of array elements, map keys and map values: the protocol's key, and the key of the
# reference implementation. Both get the same ids, so that no engine assigns other ids. If another writer changed only
# the second key, its ids take precedence.
NESTED_IDS, _NESTED_IDS_ELSEWHERE = NESTED_ID_KEYS
_ENABLED_BY = {1: ENABLE_ICEBERG_COMPAT_V1, 2: ENABLE_ICEBERG_COMPAT_V2, 3: ENABLE_ICEBERG_COMPAT_V3}
_WRITERS_ENABLED_BY = {1: ENABLE_ICEBERG_WRITER_COMPAT_V1, 3: ENABLE_ICEBERG_WRITER_COMPAT_V3}
_COMPAT_OF_WRITERS = {1: 2, 3: 3}
# Source: the RFC "IcebergWriterCompatV1"; the Delta Kernel for checkpointProtection, catalogManaged and version 3. A
# table may support the features of the first line, but not use them.
_OF_ALL_WRITERS = frozenset(
    "invariants changeDataFeed checkConstraints identityColumns generatedColumns rowTracking "
    "appendOnly columnMapping domainMetadata vacuumProtocolCheck v2Checkpoint inCommitTimestamp clustering "
    "timestampNtz typeWidening checkpointProtection catalogManaged icebergCompatV2 icebergWriterCompatV1".split()
)
_FEATURES_OF_WRITERS = {
    1: _OF_ALL_WRITERS,
    3: _OF_ALL_WRITERS
    | set(
        "icebergCompatV3 icebergWriterCompatV3 deletionVectors variantType variantShredding allowColumnDefaults "
        "geospatial".split()
    ),
}
_LARGEST_ID = 2**31 - 1
_ROW_ID_FIELD, _ROW_COMMIT_VERSION_FIELD = 2147483540, 2147483539
_PRIMITIVES = frozenset(
    "byte short integer long float double string binary boolean timestamp timestamp_ntz date".split()
)
_WIDER = {
    "byte": ("short", "integer", "long"),
    "short": ("integer", "long"),
    "integer": ("long",),
    "float": ("double",),
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def active_version(table: TableConfiguration) -> int | None:
    """Return the version of Iceberg compatibility that is supported and enabled, None without one.

    Raises InvalidArgument if several are enabled.
    """
    active = [version for version in _ENABLED_BY if table.is_active(f"icebergCompatV{version}")]
    if len(active) > 1:
        raise InvalidArgument(
            f"only one of {' and '.join(_ENABLED_BY[version] for version in active)} can be true. Set the other to "
            "false",
            error_class="DELTA_ICEBERG_COMPAT_VIOLATION",
        )
    return active[0] if active else None


def is_requested(properties: TableProperties) -> bool:
    """Return whether the properties enable a version of Iceberg compatibility."""
    return any(properties.flag(key) for key in _ENABLED_BY.values())


def requests_nested_ids(properties: TableProperties) -> bool:
    """Return whether the properties enable a version with ids for array elements, map keys and map values."""
    return properties.flag(ENABLE_ICEBERG_COMPAT_V2) or properties.flag(ENABLE_ICEBERG_COMPAT_V3)


def needs_nested_ids(table: TableConfiguration) -> bool:
    """Return whether data files need field ids on array elements, map keys and map values."""
    return (active_version(table) or 0) >= 2


def hidden_field_ids(table: TableConfiguration) -> dict[str, int]:
    """Return the field ids of the hidden columns for row ids and row commit versions, by their names in files.

    Empty unless version 3 is active.
    """
    if active_version(table) != 3:
        return {}
    keys = {MATERIALIZED_ROW_ID: _ROW_ID_FIELD, MATERIALIZED_ROW_COMMIT_VERSION: _ROW_COMMIT_VERSION_FIELD}
    return {table.properties[key]: number for key, number in keys.items() if key in table.properties}


def with_required_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties, with the flags that an enabled flag needs, if the table does not set them.

    Version 3 needs row tracking. The rules for Iceberg's writers need a version of Iceberg compatibility.
    """
    needed = {_WRITERS_ENABLED_BY[version]: _ENABLED_BY[_COMPAT_OF_WRITERS[version]] for version in _WRITERS_ENABLED_BY}
    changed = dict(properties)
    for flag, other in (*needed.items(), (ENABLE_ICEBERG_COMPAT_V3, ENABLE_ROW_TRACKING)):
        found = TableProperties(changed)
        if found.flag(flag) and other not in found:
            changed[other] = "true"
    return changed


def allows_type_change(old: str, new: str) -> bool:
    """Return whether Iceberg can widen a column of type `old` to `new`, both as texts of the schema."""
    decimals = _DECIMAL.fullmatch(old), _DECIMAL.fullmatch(new)
    if decimals[0] and decimals[1]:
        return decimals[0][2] == decimals[1][2] and int(decimals[0][1]) <= int(decimals[1][1])
    return new in _WIDER.get(old, ())


def materializes_partition_values(table: TableConfiguration) -> bool:
    """Return whether new data files must also store the partition columns, after the other columns.

    A feature has precedence over the property `delta.writePartitionColumnsToParquet`, which is a request.
    Source: the RFC "Materialize Partition Columns".
    """
    return (
        active_version(table) is not None
        or table.supports("materializePartitionColumns")
        or table.properties.flag(WRITE_PARTITION_COLUMNS)
    )


def validate_iceberg_compat(
    table: TableConfiguration, previous: TableConfiguration | None = None, has_earlier_files: bool = False
) -> None:
    """Validate the table against the rules of its active Iceberg compatibility version.

    `previous` is the table before the change, None for a new table. `has_earlier_files` is true if the table retains
    data files written under `previous`. Raises InvalidArgument, naming the broken rule and the cause.
    """
    for writers in _WRITERS_ENABLED_BY:
        if table.is_active(f"icebergWriterCompatV{writers}"):
            _validate_for_writers(writers, table, previous)
    version = active_version(table)
    if version is None:
        return
    rule = f"{_ENABLED_BY[version]} is true"
    if table.column_mapping_mode == NONE:
        raise InvalidArgument(
            f"{rule}, which needs {COLUMN_MAPPING_MODE} to be name or id", error_class="DELTA_ICEBERG_COMPAT_VIOLATION"
        )
    _validate_deletion_vectors(version, table, rule)
    _validate_types(version, table.schema, rule)
    _validate_type_changes(table, rule)
    if version == 3:
        _validate_row_tracking(table, rule)
        _validate_defaults(table.schema, rule)
    if previous is not None:
        _validate_partitioning(previous.metadata, table.metadata, rule)
        _validate_earlier_files(version, table, previous, has_earlier_files, rule)
    if version >= 2:
        _validate_ids(table.schema, rule)


def assign_nested_ids(schema: StructType, max_id: int) -> tuple[StructType, int]:
    """Return `schema` with an id for every array element, map key and map value, and the highest id in use.

    `max_id` is `delta.columnMapping.maxColumnId`. New ids follow it and every id in the schema. They are assigned in
    schema order: the nested types of a column first, an outer type before its inner types, a key before its value, then
    the columns inside. Existing ids stay. The keys start with the physical name of the column, because renames do not
    change it and other engines look for it. Raises InvalidSchema for ids that are not numbers, InvalidArgument if an id
    exceeds 32 bits.
    """
    used = [found for _, column in walk_fields(schema) for found in _ids_of(column)]
    assigned, highest = _assign_struct(schema, max([max_id, *used]))
    if highest > _LARGEST_ID:
        raise InvalidArgument(f"the column ids of the table are used up, the highest would be {highest}")
    return assigned, highest


def nested_ids(column: StructField) -> dict[str, int]:
    """Return the ids of the nested types of `column` by path: `element`, `element.element`, `key`, `value.element`, ….

    Stored keys begin with the column's physical name, its display name, or its name before a rename. The prefix with
    the most valid keys is used. Raises InvalidSchema for an entry that is not a number.
    """
    return _ids_under(NESTED_IDS, column) | _ids_under(_NESTED_IDS_ELSEWHERE, column)


def _ids_under(name: str, column: StructField) -> dict[str, int]:
    found = column.metadata.get(name) or {}
    if not isinstance(found, Mapping):
        raise InvalidSchema(f"column {column.name}: {name} must be an object, found {found!r}")
    for key, value in found.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidSchema(f"column {column.name}: {name} must map to numbers, found {value!r} for {key}")
    wanted = set(_nested_parts(column.type))
    shortest = min(found, key=len, default="")
    names = (column.metadata.get(PHYSICAL_NAME, column.name), column.name, shortest.rpartition(".")[0])
    readings = [
        {key[len(name) + 1 :]: value for key, value in found.items() if key.startswith(f"{name}.")} for name in names
    ]
    return max(({part: ids[part] for part in ids if part in wanted} for ids in readings), key=len)


def _validate_for_writers(version: int, table: TableConfiguration, previous: TableConfiguration | None) -> None:
    """Validate the rules for tables that Iceberg's own writers also write, icebergWriterCompatV1 or V3."""
    rule, compat = f"{_WRITERS_ENABLED_BY[version]} is true", _COMPAT_OF_WRITERS[version]
    if active_version(table) != compat:
        raise _violation(f"{rule}, which needs {_ENABLED_BY[compat]} to be true")
    if table.column_mapping_mode != ID:
        raise _violation(f"{rule}, which needs {COLUMN_MAPPING_MODE} to be id. Write the rows into a new table")
    refused = sorted(table.supported_features - _FEATURES_OF_WRITERS[version])
    if refused:
        raise _violation(f"{rule}, which does not allow the table features {', '.join(refused)}. Drop them first")
    active = next(_active_for_writers(version, table), None)
    if active is not None:
        raise _violation(f"{rule}, which does not allow {active}")
    for path, data_type in parts(table.schema):
        if str(data_type) in ("byte", "short"):
            raise _violation(f"column {'.'.join(path)}: {rule}, which does not allow the type {data_type}. Use INT")
    for path, column in walk_fields(table.schema):
        _validate_column_for_writers(".".join(path), column, rule)
    if previous is not None and previous.is_active(f"icebergWriterCompatV{version}"):
        _validate_map_keys(table.schema, previous.schema, rule)


def _active_for_writers(version: int, table: TableConfiguration) -> Iterator[str]:
    """Yield the features in use that the table may support, but not use."""
    if table.properties.flag(ENABLE_CHANGE_DATA_FEED):
        yield f"the change data feed ({ENABLE_CHANGE_DATA_FEED})"
    if version == 1 and table.properties.flag(ENABLE_ROW_TRACKING):
        yield f"row tracking ({ENABLE_ROW_TRACKING})"
    for key in table.metadata.configuration:
        if key.lower().startswith(CONSTRAINT_PREFIX):
            yield f"the CHECK constraint {key[len(CONSTRAINT_PREFIX) :]}"


def _validate_column_for_writers(name: str, column: StructField, rule: str) -> None:
    wanted = f"col-{column.metadata.get(FIELD_ID)}"
    if column.metadata.get(PHYSICAL_NAME) != wanted:
        raise _violation(
            f"column {name}: {rule}, which needs the physical name {wanted}, found "
            f"{column.metadata.get(PHYSICAL_NAME)}. Write the rows into a new table"
        )
    for key, what in ((GENERATION_EXPRESSION, "generation expression"), (INVARIANTS, "invariant")):
        if key in column.metadata:
            raise _violation(f"column {name}: {rule}, which does not allow the {what} {column.metadata[key]}")
    if any(key.startswith(IDENTITY_PREFIX) for key in column.metadata):
        raise _violation(f"column {name}: {rule}, which does not allow an identity column")


def _validate_map_keys(schema: StructType, previous: StructType, rule: str) -> None:
    before = {place: key for place, _, key in _map_keys(previous)}
    for place, path, key in _map_keys(schema):
        if before.get(place, key) != key:
            raise _violation(
                f"{'.'.join(path)}: {rule}, which does not allow a change of the key of a map. Add a new column"
            )


def _map_keys(schema: StructType) -> Iterator[tuple[tuple[object, ...], ColumnPath, StructType]]:
    """Yield the keys of maps that are structs: the id of their column and the path inside it, the path, the type."""
    for path, column in walk_fields(schema):
        for inside, data_type in _values_in(column.type, ()):
            if isinstance(data_type, MapType) and isinstance(data_type.key_type, StructType):
                place = (column.metadata.get(FIELD_ID), *inside)
                yield place, (*path, *inside, "key"), data_type.key_type


def _values_in(data_type: DataType, path: ColumnPath) -> Iterator[tuple[ColumnPath, DataType]]:
    """Yield `data_type` and the types inside its arrays and maps, without the columns inside structs."""
    yield path, data_type
    if isinstance(data_type, ArrayType):
        yield from _values_in(data_type.element_type, (*path, "element"))
    elif isinstance(data_type, MapType):
        yield from _values_in(data_type.key_type, (*path, "key"))
        yield from _values_in(data_type.value_type, (*path, "value"))


def _violation(message: str) -> InvalidArgument:
    return InvalidArgument(message, error_class="DELTA_ICEBERG_COMPAT_VIOLATION")


def _validate_deletion_vectors(version: int, table: TableConfiguration, rule: str) -> None:
    if not table.supports("deletionVectors"):
        return
    if version == 1:
        raise InvalidArgument(
            f"{rule}, but the table supports deletion vectors. Drop the feature first",
            error_class="DELTA_ICEBERG_COMPAT_VIOLATION",
        )
    if version == 2 and table.properties.flag(ENABLE_DELETION_VECTORS):
        raise InvalidArgument(
            f"{rule}, which needs {ENABLE_DELETION_VECTORS} to be false", error_class="DELTA_ICEBERG_COMPAT_VIOLATION"
        )


def _validate_types(version: int, schema: StructType, rule: str) -> None:
    for path, data_type in parts(schema):
        if not _allows_type(version, data_type):
            raise InvalidArgument(
                f"column {'.'.join(path)}: {rule}, which does not allow the type {data_type}",
                error_class="DELTA_ICEBERG_COMPAT_VIOLATION",
            )


def _allows_type(version: int, data_type: DataType) -> bool:
    if isinstance(data_type, ArrayType | MapType):
        return version >= 2
    if isinstance(data_type, VariantType | GeospatialType):
        return version >= 3
    return isinstance(data_type, StructType | DecimalType) or str(data_type) in _PRIMITIVES


def _validate_type_changes(table: TableConfiguration, rule: str) -> None:
    """Validate that Iceberg supports every type change in the history of the columns."""
    if not table.supports("typeWidening"):
        return
    for path, column in walk_fields(table.schema):
        for change in column.metadata.get(TYPE_CHANGES) or ():
            old, new = str(change.get("fromType")), str(change.get("toType"))
            if not allows_type_change(old, new):
                raise InvalidArgument(
                    f"column {'.'.join(path)}: {rule}, which does not allow the type change from {old} to {new}. Write "
                    "the rows into a new table",
                    error_class="DELTA_ICEBERG_COMPAT_VIOLATION",
                )


def _validate_row_tracking(table: TableConfiguration, rule: str) -> None:
    if not row_tracking.is_enabled(table):
        raise InvalidArgument(
            f"{rule}, which needs {ENABLE_ROW_TRACKING} to be true", error_class="DELTA_ICEBERG_COMPAT_VIOLATION"
        )


def _validate_defaults(schema: StructType, rule: str) -> None:
    for path, column in walk_fields(schema):
        default = column.metadata.get(CURRENT_DEFAULT)
        if default is not None and not is_literal(str(default)):
            raise InvalidArgument(
                f"column {'.'.join(path)}: {rule}, which needs a literal as default value, found {default}",
                error_class="DELTA_ICEBERG_COMPAT_VIOLATION",
            )


def _validate_partitioning(previous: Metadata, metadata: Metadata, rule: str) -> None:
    if previous.partition_columns and previous.partition_columns != metadata.partition_columns:
        raise InvalidArgument(
            f"{rule}, which does not allow a change of the partition columns from "
            f"{', '.join(previous.partition_columns)} to {', '.join(metadata.partition_columns) or 'none'}",
            error_class="DELTA_ICEBERG_COMPAT_VIOLATION",
        )


def _validate_earlier_files(
    version: int, table: TableConfiguration, previous: TableConfiguration, has_earlier_files: bool, rule: str
) -> None:
    """Validate files written before the enablement.

    Version 1: every file needs the partition values. Version 3: hidden columns of row tracking need their field ids.
    """
    was = active_version(previous.changed(table.protocol))
    if version == 3 and was != 3 and has_earlier_files and row_tracking.is_enabled(previous):
        raise InvalidArgument(
            f"{rule}, which needs field ids on the hidden columns of row tracking, but some files may lack them. "
            "Rewrite the files in the same commit, or write the rows into a new table",
            error_class="DELTA_ICEBERG_COMPAT_VIOLATION",
        )
    was_active = was is not None
    if version == 1 and not was_active and has_earlier_files and table.metadata.partition_columns:
        raise InvalidArgument(
            f"{rule}, which needs the partition values in every data file, but some files lack them. Rewrite these "
            "files in the same commit",
            error_class="DELTA_ICEBERG_COMPAT_VIOLATION",
        )


def _validate_ids(schema: StructType, rule: str) -> None:
    seen: dict[int, str] = {}
    for path, column in walk_fields(schema):
        missing = set(_nested_parts(column.type)) - set(nested_ids(column))
        if missing:
            raise InvalidArgument(
                f"column {'.'.join(path)}: {rule}, which needs ids for {', '.join(sorted(missing))} in {NESTED_IDS}",
                error_class="DELTA_ICEBERG_COMPAT_VIOLATION",
            )
        for number in _ids_of(column):
            if number in seen:
                raise InvalidArgument(
                    f"column {'.'.join(path)}: {rule}, which needs unique ids, and {seen[number]} has {number} too",
                    error_class="DELTA_ICEBERG_COMPAT_VIOLATION",
                )
            seen[number] = ".".join(path)


def _ids_of(column: StructField) -> Iterator[int]:
    own = column.metadata.get(FIELD_ID)
    if isinstance(own, int):
        yield own
    yield from nested_ids(column).values()


def _assign_struct(struct: StructType, highest: int) -> tuple[StructType, int]:
    fields: list[StructField] = []
    for column in struct:
        metadata, highest = _assign_parts(column, highest)
        inner, highest = _assign_type(column.type, highest)
        fields.append(replace(column, type=inner, metadata=metadata))
    return StructType(tuple(fields)), highest


def _assign_parts(column: StructField, highest: int) -> tuple[Mapping[str, object], int]:
    known = nested_ids(column)
    ids: dict[str, int] = {}
    prefix = column.metadata.get(PHYSICAL_NAME, column.name)
    for part in _nested_parts(column.type):
        if part not in known:
            highest += 1
        ids[f"{prefix}.{part}"] = known.get(part, highest)
    if not ids or all(column.metadata.get(key) == ids for key in NESTED_ID_KEYS):
        return column.metadata, highest
    return {**column.metadata, **{key: dict(ids) for key in NESTED_ID_KEYS}}, highest


def _assign_type(data_type: DataType, highest: int) -> tuple[DataType, int]:
    if isinstance(data_type, StructType):
        return _assign_struct(data_type, highest)
    if isinstance(data_type, ArrayType):
        element, highest = _assign_type(data_type.element_type, highest)
        return replace(data_type, element_type=element), highest
    if isinstance(data_type, MapType):
        key, highest = _assign_type(data_type.key_type, highest)
        value, highest = _assign_type(data_type.value_type, highest)
        return replace(data_type, key_type=key, value_type=value), highest
    return data_type, highest


def _nested_parts(data_type: DataType, prefix: str = "") -> Iterator[str]:
    """Yield the paths of the nested types of a column. Types below a struct belong to the columns of the struct."""
    if isinstance(data_type, ArrayType):
        inside = {"element": data_type.element_type}
    elif isinstance(data_type, MapType):
        inside = {"key": data_type.key_type, "value": data_type.value_type}
    else:
        return
    for name, inner in inside.items():
        yield prefix + name
        yield from _nested_parts(inner, f"{prefix}{name}.")
