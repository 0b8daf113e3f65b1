"""The time that a commit gives itself, and the record of when a table began to do so.

All times are in milliseconds since the epoch. Source: delta-protocol.md "Writer Requirements for In-Commit
Timestamps".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slackwater.protocol.actions.actions import Metadata, Protocol
from slackwater.protocol.features.table_features import is_active
from slackwater.protocol.properties.properties import (
    ENABLE_IN_COMMIT_TIMESTAMPS,
    ICT_ENABLEMENT_TIMESTAMP,
    ICT_ENABLEMENT_VERSION,
    TableProperties,
)

_PROVENANCE = (ICT_ENABLEMENT_VERSION, ICT_ENABLEMENT_TIMESTAMP)


def is_enabled(protocol: Protocol, properties: TableProperties) -> bool:
    """Whether every commit must carry an in-commit timestamp: the feature is supported and its property is true."""
    return is_active("inCommitTimestamp", protocol, properties)


def next_timestamp(clock_ms: int, previous_ms: int | None) -> int:
    """The in-commit timestamp of a commit that is tried at `clock_ms`, always later than `previous_ms`.

    `previous_ms` is the in-commit timestamp of the version before or, where that has none, the modification time of
    its file; None for the first version of a table. Source: rules 3 and 5.
    """
    return clock_ms if previous_ms is None else max(clock_ms, previous_ms + 1)


def enablement(
    previous_metadata: Metadata | None,
    new_metadata: Metadata,
    version: int,
    timestamp_ms: int,
    has_earlier_commits: bool,
    was_supported: bool = True,
) -> Metadata:
    """`new_metadata` with a true record of since when commits have timestamps of their own.

    Where this commit turns them on in a table that has commits without, the record is `version` and `timestamp_ms`,
    the commit's own in-commit timestamp. Where they stay on, the earlier record is kept, whatever `new_metadata` says
    of it; where they are off, or are on from the first version, there is none. `was_supported`: the protocol before
    this commit supported the feature, without which the property alone had not turned it on.
    Made anew at each attempt of a commit, since version and time change. Source: rule 4.
    """
    before = TableProperties(previous_metadata.configuration if previous_metadata else {})
    was_enabled = was_supported and before.flag(ENABLE_IN_COMMIT_TIMESTAMPS)
    record: Mapping[str, str] = {}
    if TableProperties(new_metadata.configuration).flag(ENABLE_IN_COMMIT_TIMESTAMPS):
        if was_enabled:
            record = {key: before[key] for key in _PROVENANCE if key in before}
        elif has_earlier_commits:
            record = {ICT_ENABLEMENT_VERSION: str(version), ICT_ENABLEMENT_TIMESTAMP: str(timestamp_ms)}
    folded = {key.lower() for key in _PROVENANCE}
    others = {key: value for key, value in new_metadata.configuration.items() if key.lower() not in folded}
    configuration = {**others, **record}
    if configuration == dict(new_metadata.configuration):
        return new_metadata
    return replace(new_metadata, configuration=configuration)
