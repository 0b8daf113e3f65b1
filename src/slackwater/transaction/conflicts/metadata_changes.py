"""Concurrent changes of table metadata that do not conflict with a commit.

A change is tolerated if files written under the old metadata are valid, unchanged, under the new metadata.
Source: docs/concurrent-changes.md; delta-spark's conflict checker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from slackwater.protocol.features.identity_columns import HIGH_WATER_MARK
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import COLUMN_MAPPING_MODE
from slackwater.protocol.schema.schema import (
    COMMENT,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
)

_COLUMN_MAPPING = "delta.columnMapping."

_KeyTest = Callable[[str], bool]

# Enabling these does not affect written files, because each attempt recomputes row ids and timestamps. Disabling them,
# or setting any other value, is a conflict.
_TURNED_ON = {
    "delta.enablerowtracking": "true",
    "delta.enabledeletionvectors": "true",
    "delta.enableincommittimestamps": "true",
    "delta.checkpointpolicy": "v2",
    COLUMN_MAPPING_MODE.lower(): "name",
}
# These change together with the properties above, or only affect log maintenance.
_FREE = frozenset(
    {
        "delta.rowtracking.materializedrowidcolumnname",
        "delta.rowtracking.materializedrowcommitversioncolumnname",
        "delta.columnmapping.maxcolumnid",
        "delta.incommittimestampenablementversion",
        "delta.incommittimestampenablementtimestamp",
        "delta.checkpointinterval",
        "delta.checkpointretentionduration",
        "delta.checkpoint.writestatsasjson",
        "delta.checkpoint.writestatsasstruct",
        "delta.deletedfileretentionduration",
        "delta.enableexpiredlogcleanup",
        "delta.enablefullretentionrollback",
        "delta.logretentionduration",
        "delta.settransactionretentionduration",
    }
)


def is_tolerated(old: TableConfiguration, new: TableConfiguration) -> bool:
    """Return whether files written for `old` may be committed to a table with the metadata of `new`."""
    before, after = old.metadata, new.metadata
    if (before.id, before.partition_columns, before.format) != (after.id, after.partition_columns, after.format):
        return False
    return _configuration_tolerated(before.configuration, after.configuration) and _schema_tolerated(old, new)


def _configuration_tolerated(old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    changed = {key for key in {*old, *new} if old.get(key) != new.get(key)}
    return all(_key_tolerated(key.lower(), new.get(key)) for key in changed)


def _key_tolerated(key: str, value: str | None) -> bool:
    if not key.startswith("delta."):
        # Properties of other programs do not affect files.
        return True
    if key in _FREE:
        return True
    return key in _TURNED_ON and value is not None and value.lower() == _TURNED_ON[key]


def _schema_tolerated(old: TableConfiguration, new: TableConfiguration) -> bool:
    if old.metadata.schema_string == new.metadata.schema_string:
        return True
    turned_on = (
        old.metadata.configuration.get(COLUMN_MAPPING_MODE, "none") == "none"
        and new.metadata.configuration.get(COLUMN_MAPPING_MODE) == "name"
    )
    return _without(old.schema, _is_silent(turned_on)) == _without(new.schema, _is_silent(turned_on))


def _is_silent(mapping_turned_on: bool) -> _KeyTest:
    def silent(key: str) -> bool:
        return key in (HIGH_WATER_MARK, COMMENT) or (mapping_turned_on and key.startswith(_COLUMN_MAPPING))

    return silent


def _without(data_type: DataType, drop: _KeyTest) -> object:
    """Return `data_type` as nested tuples for comparison, without the field metadata selected by `drop`."""
    if isinstance(data_type, StructType):
        return tuple(_field_without(column, drop) for column in data_type)
    if isinstance(data_type, ArrayType):
        return ("array", _without(data_type.element_type, drop), data_type.contains_null)
    if isinstance(data_type, MapType):
        return (
            "map",
            _without(data_type.key_type, drop),
            _without(data_type.value_type, drop),
            data_type.value_contains_null,
        )
    return str(data_type)


def _field_without(column: StructField, drop: _KeyTest) -> object:
    kept = sorted((key, repr(value)) for key, value in column.metadata.items() if not drop(key))
    return (column.name, _without(column.type, drop), column.nullable, tuple(kept))
