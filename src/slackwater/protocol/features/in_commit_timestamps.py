"""The time that a commit gives itself, and the record of when a table began to do so.

All times are in milliseconds since the epoch. Source: delta-protocol.md "Writer Requirements for In-Commit
Timestamps".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slackwater.protocol.actions.actions import Metadata
from slackwater.protocol.properties.properties import (
    ENABLE_IN_COMMIT_TIMESTAMPS,
    ICT_ENABLEMENT_TIMESTAMP,
    ICT_ENABLEMENT_VERSION,
)
from slackwater.protocol.table_configuration import TableConfiguration

_PROVENANCE = (ICT_ENABLEMENT_VERSION, ICT_ENABLEMENT_TIMESTAMP)


def is_enabled(table: TableConfiguration) -> bool:
    """Whether every commit must carry an in-commit timestamp: the feature is supported and its property is true."""
    return table.is_active("inCommitTimestamp")


def next_timestamp(clock_ms: int, previous_ms: int | None) -> int:
    """The in-commit timestamp of a commit that is tried at `clock_ms`, always later than `previous_ms`.

    `previous_ms` is the in-commit timestamp of the version before or, where that has none, the modification time of
    its file; None for the first version of a table. Source: rules 3 and 5.
    """
    return clock_ms if previous_ms is None else max(clock_ms, previous_ms + 1)


def enablement(
    previous: TableConfiguration | None, new: TableConfiguration, version: int, timestamp_ms: int
) -> Metadata:
    """The metadata of `new` with a true record of since when commits have timestamps of their own.

    `previous` is the table before the commit, None where the commit is its first.

    Where this commit turns them on in a table that has commits without, the record is `version` and `timestamp_ms`,
    the commit's own in-commit timestamp. Where they stay on, the earlier record is kept, whatever `new` says of it;
    where they are off, or are on from the first version, there is none.
    Made anew at each attempt of a commit, since version and time change. Source: rule 4.
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
