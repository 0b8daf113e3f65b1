"""Mapping between versions and commit timestamps.

All times are in milliseconds since the epoch. Source: delta-protocol.md "In-Commit Timestamps".
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from slackwater.errors import CorruptLog, InvalidArgument


def monotonic(file_times_ms: Sequence[int]) -> list[int]:
    """Return the file modification times of consecutive commits, adjusted to increase by at least one.

    Listed times need not increase, because clocks of writers and stores differ and files are copied. The reference
    implementation adjusts times in the same way, so both return the same version for a time.
    """
    adjusted: list[int] = []
    for time_ms in file_times_ms:
        adjusted.append(max(time_ms, adjusted[-1] + 1) if adjusted else time_ms)
    return adjusted


def version_at(timestamp_ms: int, versions: Sequence[int], commit_timestamps_ms: Sequence[int]) -> int | None:
    """Return the newest of `versions` with a commit timestamp of at most `timestamp_ms`; None if all are later.

    Both sequences are ascending and parallel. Raises InvalidArgument if their lengths differ.
    """
    if len(versions) != len(commit_timestamps_ms):
        raise InvalidArgument(f"found {len(versions)} versions but {len(commit_timestamps_ms)} commit timestamps")
    position = bisect_right(commit_timestamps_ms, timestamp_ms)
    return versions[position - 1] if position else None


def has_in_commit_timestamp(version: int, enablement_version: int | None) -> bool:
    """Return whether a commit has an in-commit timestamp, in a table with in-commit timestamps enabled.

    Otherwise its file's modification time applies. `enablement_version` is `delta.inCommitTimestampEnablementVersion`;
    None if the table had in-commit timestamps from its first version.
    Source: delta-protocol.md "Recommendations for Readers of Tables with In-Commit Timestamps", commit timestamps.
    """
    return enablement_version is None or version >= enablement_version


def split_by_enablement(
    timestamp_ms: int,
    versions: range,
    enablement_version: int | None,
    enablement_timestamp_ms: int | None,
) -> range:
    """Return the part of `versions` to search for `timestamp_ms`; it may be empty.

    From the enablement timestamp on, the part has only versions since the enablement; before it, only earlier versions.
    Without both properties, the part is `versions`. File times and in-commit timestamps are therefore never compared
    with each other. `versions` has step 1. Raises CorruptLog if exactly one of the two properties is set.
    Source: delta-protocol.md "Recommendations for Readers of Tables with In-Commit Timestamps", time travel.
    """
    if enablement_version is None and enablement_timestamp_ms is None:
        return versions
    if enablement_version is None or enablement_timestamp_ms is None:
        raise CorruptLog(
            "delta.inCommitTimestampEnablementVersion and delta.inCommitTimestampEnablementTimestamp must be set "
            f"together, found {enablement_version} and {enablement_timestamp_ms}"
        )
    if timestamp_ms >= enablement_timestamp_ms:
        return range(max(versions.start, enablement_version), max(versions.stop, enablement_version))
    return range(versions.start, max(versions.start, min(versions.stop, enablement_version)))
