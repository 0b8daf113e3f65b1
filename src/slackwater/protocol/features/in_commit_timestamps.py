"""In-commit timestamps: the next timestamp, and the record of their enablement.

All times are in milliseconds since the epoch. Source: delta-protocol.md "Writer Requirements for In-Commit Timestamps".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slackwater.protocol.actions.actions import Metadata
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import (
    ENABLE_IN_COMMIT_TIMESTAMPS,
    ICT_ENABLEMENT_TIMESTAMP,
    ICT_ENABLEMENT_VERSION,
)

_PROVENANCE = (ICT_ENABLEMENT_VERSION, ICT_ENABLEMENT_TIMESTAMP)


def is_enabled(table: TableConfiguration) -> bool:
    """Return whether every commit must have an in-commit timestamp: feature supported and property true."""
    return table.is_active("inCommitTimestamp")


def next_timestamp(clock_ms: int, previous_ms: int | None) -> int:
    """Return the in-commit timestamp of a commit attempt at `clock_ms`, always later than `previous_ms`.

    `previous_ms` is the in-commit timestamp of the previous version or, without one, the modification time of its file.
    None for the first version of a table. Source: rules 3 and 5.
    """
    return clock_ms if previous_ms is None else max(clock_ms, previous_ms + 1)


def enablement(
    previous: TableConfiguration | None, new: TableConfiguration, version: int, timestamp_ms: int
) -> Metadata:
    """Return the metadata of `new` with the correct record of the enablement of in-commit timestamps.

    `previous` is the table before the commit, None for the first commit of a table.

    If this commit enables them in an existing table, the record is `version` and `timestamp_ms`, the commit's own
    in-commit timestamp. If they remain enabled, the earlier record stays, regardless of `new`. If they are disabled, or
    enabled since the first version, there is no record. Call this at each commit attempt, because version and time
    change. Source: rule 4.
    """
    was_enabled = previous is not None and is_enabled(previous)
    record: Mapping[str, str] = {}
    if new.properties.flag(ENABLE_IN_COMMIT_TIMESTAMPS) and previous is not None:
        if was_enabled:
            record = {key: previous.properties[key] for key in _PROVENANCE if key in previous.properties}
        else:
            record = {ICT_ENABLEMENT_VERSION: str(version), ICT_ENABLEMENT_TIMESTAMP: str(timestamp_ms)}
    folded = {key.lower() for key in _PROVENANCE}
    others = {key: value for key, value in new.metadata.configuration.items() if key.lower() not in folded}
    configuration = {**others, **record}
    if configuration == dict(new.metadata.configuration):
        return new.metadata
    return replace(new.metadata, configuration=configuration)
