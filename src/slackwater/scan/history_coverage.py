"""History coverage: the first version from which the history of every row is known, and the reason for this limit.

Source: delta-protocol.md "Row Tracking", "In-Commit Timestamps", "Metadata Cleanup".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.errors import OperationNotAllowed, VersionNotFound
from slackwater.log.files.commits import ParsedCommit
from slackwater.log.files.segment import LogListing
from slackwater.log.history import format_ms
from slackwater.protocol.actions.actions import Metadata, Protocol
from slackwater.protocol.features.column_mapping import NONE, physical_schema
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import (
    ENABLE_IN_COMMIT_TIMESTAMPS,
    ENABLE_ROW_TRACKING,
    ICT_ENABLEMENT_VERSION,
)
from slackwater.protocol.schema.schema import ArrayType, DataType, MapType, StructType
from slackwater.protocol.schema.type_widening import can_change_in_place, is_same_type
from slackwater.scan.snapshot import Snapshot

ASKED = "history was requested from then on"
_WHOLE = "its first version"
_ROW_IDS = f"{ENABLE_ROW_TRACKING} is on since then"
_COMMIT_TIMES = f"{ENABLE_IN_COMMIT_TIMESTAMPS} is on since then"
_SCHEMA = "earlier versions have a schema or partitions that cannot be read as the table's"
_CLEANED_UP = "the log was cleaned up before"


@dataclass(frozen=True, slots=True)
class HistoryCoverage:
    """The start of the known history: `version`, its commit time `timestamp_ms`, and the `reason` for this limit.

    The history of rows already present in `version` starts at `timestamp_ms`.
    """

    version: int
    timestamp_ms: int
    reason: str


def require_enabled(snapshot: Snapshot) -> None:
    """Raise OperationNotAllowed unless row tracking and in-commit timestamps are enabled."""
    needed = (
        ("rowTracking", ENABLE_ROW_TRACKING, "which row is which"),
        ("inCommitTimestamp", ENABLE_IN_COMMIT_TIMESTAMPS, "when a version was committed"),
    )
    for feature, key, use in needed:
        if not snapshot.configuration.is_active(feature):
            raise OperationNotAllowed(
                f"{snapshot.store.root_url}: the versions of rows are unknown, because the table does not record "
                f"{use}. Set {key} to true to record it from then on"
            )


def not_covered(where: str, asked_ms: int, coverage: HistoryCoverage) -> str:
    """Return the error message for a request at `asked_ms`, an instant before the coverage."""
    return (
        f"{where}: rows can be followed back to {format_ms(coverage.timestamp_ms)}, version {coverage.version} "
        f"({coverage.reason}), but not to {format_ms(asked_ms)}. Use a later time, or read the version of that time "
        "by timestampAsOf"
    )


def oldest_version(snapshot: Snapshot, listing: LogListing) -> tuple[int, str]:
    """Return the oldest readable version with an in-commit timestamp and no gap after it, and the reason for the limit.

    Raises VersionNotFound if the log is cleaned up concurrently.
    """
    first = _oldest(listing, snapshot.version)
    enablement = snapshot.properties.integer(ICT_ENABLEMENT_VERSION)
    if enablement is not None and enablement > first:
        return enablement, _COMMIT_TIMES
    return first, _WHOLE if first == 0 else _CLEANED_UP


def followed_from(snapshot: Snapshot, base: Snapshot, commits: Sequence[ParsedCommit], reason: str) -> tuple[int, str]:
    """Return the first version with row ids and a schema readable with the newest one, and the reason for the limit.

    Row ids and a readable schema hold from this version on. `commits` start at `base`, ascending. `reason` explains why
    `base` is not older.
    """
    then = base.configuration
    hindrance = _hindrance(snapshot, then)
    start, is_followed, reason = base.version, hindrance is None, hindrance or reason
    for commit in commits:
        changed = None if commit.version == base.version else _changed(then, commit)
        if changed is None:
            continue
        then = changed
        hindrance = _hindrance(snapshot, then)
        if hindrance is not None:
            is_followed, reason = False, hindrance
        elif not is_followed:
            start, is_followed = commit.version, True
    return start, reason


def _changed(table: TableConfiguration, commit: ParsedCommit) -> TableConfiguration | None:
    """Return the table after a commit with a new protocol or metadata, None after any other commit."""
    protocols = [Protocol.from_json(a["protocol"], commit.where) for a in commit.actions if a.get("protocol")]
    metadata = [Metadata.from_json(a["metaData"], commit.where) for a in commit.actions if a.get("metaData")]
    if not protocols and not metadata:
        return None
    return table.changed(protocols[-1] if protocols else None, metadata[-1] if metadata else None)


def _hindrance(snapshot: Snapshot, then: TableConfiguration) -> str | None:
    """Return why rows of a version with configuration `then` cannot be followed to `snapshot`, None if possible."""
    if not then.is_active("rowTracking"):
        return _ROW_IDS
    if not then.is_active("inCommitTimestamp"):
        return _COMMIT_TIMES
    if then.metadata.schema_string == snapshot.metadata.schema_string:
        return None if then.metadata.partition_columns == snapshot.metadata.partition_columns else _SCHEMA
    earlier = then.schema
    mode = snapshot.column_mapping_mode
    if mode != NONE and any("delta.columnMapping.physicalName" not in c.metadata for c in earlier):
        # Enabling column mapping turned the names into physical names.
        old = earlier
    else:
        old = physical_schema(earlier, mode)
    is_alike = _is_readable(old, physical_schema(snapshot.schema, mode))
    return None if is_alike and _partitions(then, mode) == _partitions(snapshot.configuration, mode) else _SCHEMA


def _partitions(table: TableConfiguration, mode: str) -> list[str]:
    schema, columns = table.schema, table.metadata.partition_columns
    if mode != NONE and any("delta.columnMapping.physicalName" not in c.metadata for c in schema):
        return list(columns)
    physical = physical_schema(schema, mode)
    by_name = dict(zip(schema.names, physical.names, strict=True))
    return [by_name.get(name, name) for name in columns]


def _is_readable(old: DataType, new: DataType) -> bool:
    """Return whether data of type `old` can be read with type `new`. Dropped columns are not read."""
    if isinstance(old, StructType) and isinstance(new, StructType):
        now = {column.name: column.type for column in new}
        return all(_is_readable(c.type, now[c.name]) for c in old if c.name in now)
    if isinstance(old, ArrayType) and isinstance(new, ArrayType):
        return _is_readable(old.element_type, new.element_type)
    if isinstance(old, MapType) and isinstance(new, MapType):
        return _is_readable(old.key_type, new.key_type) and _is_readable(old.value_type, new.value_type)
    return is_same_type(old, new) or can_change_in_place(old, new)


def _oldest(listing: LogListing, last: int) -> int:
    """Return the oldest readable version with all later commits in the log."""
    if last not in listing.commits:
        raise VersionNotFound(f"the commit of version {last} was cleaned up while the log was being read")
    first = last
    while first - 1 in listing.commits:
        first -= 1
    return min((c.version for c in listing.checkpoints if first <= c.version <= last), default=first) if first else 0
