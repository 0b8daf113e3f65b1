"""Table versions in the type history of columns, as the preview of type widening records them.

The preview's clients use the version to find the files to rewrite when they drop the feature. The stable feature has no
versions. Source: `tableVersion` in delta-spark's type widening; the RFC "Type Widening".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from slackwater.protocol.actions.actions import Metadata, Protocol
from slackwater.protocol.features.column_mapping import physical_schema
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.schema.schema import ColumnPath, StructField, rewrite_fields, schema_to_json, walk_fields
from slackwater.protocol.schema.type_widening import TYPE_CHANGES

PREVIEW = "typeWidening-preview"
"""The name of the preview in the protocol."""

TABLE_VERSION = "tableVersion"
"""The key of the version in an entry of the type history."""

_Change = Mapping[str, Any]


def is_preview(protocol: Protocol) -> bool:
    """Return whether a table with `protocol` records the version of each type change."""
    return PREVIEW in (protocol.writer_features or ())


def with_change_versions(previous: TableConfiguration, new: TableConfiguration, version: int) -> Metadata:
    """Return the metadata of `new`. With the preview, each new type change has `version`, the version of the commit.

    `previous` is the table before the commit. Its type changes stay unchanged. Call this at each commit attempt,
    because the version changes.
    """
    if TYPE_CHANGES not in new.metadata.schema_string or not is_preview(new.protocol):
        return new.metadata
    known = _histories(previous)
    physical = (path for path, _ in walk_fields(physical_schema(new.schema, new.column_mapping_mode)))
    paths = dict(zip((path for path, _ in walk_fields(new.schema)), physical, strict=True))

    def stamped(path: ColumnPath, column: StructField) -> StructField:
        history = column.metadata.get(TYPE_CHANGES)
        if not history:
            return column
        old = _common(known.get(paths[path], ()), history)
        changes = [*history[:old], *({**change, TABLE_VERSION: version} for change in history[old:])]
        return replace(column, metadata={**column.metadata, TYPE_CHANGES: changes})

    schema = rewrite_fields(new.schema, stamped)
    return new.metadata if schema == new.schema else replace(new.metadata, schema_string=schema_to_json(schema))


def _histories(table: TableConfiguration) -> dict[ColumnPath, Sequence[_Change]]:
    """Return the type history of each column by its physical path, which survives a rename."""
    columns = walk_fields(physical_schema(table.schema, table.column_mapping_mode))
    return {path: column.metadata.get(TYPE_CHANGES) or () for path, column in columns}


def _common(old: Sequence[_Change], new: Sequence[_Change]) -> int:
    """Return the number of first entries that both histories have, without regard to their versions."""
    for count, (one, other) in enumerate(zip(old, new, strict=False)):
        if _unversioned(one) != _unversioned(other):
            return count
    return min(len(old), len(new))


def _unversioned(change: _Change) -> _Change:
    return {key: value for key, value in change.items() if key != TABLE_VERSION}
