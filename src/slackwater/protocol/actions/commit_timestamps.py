"""Which version answers for a time, and which time a version has.

All times are in milliseconds since the epoch. Source: delta-protocol.md "In-Commit Timestamps".
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from slackwater.errors import CorruptLog, InvalidArgument


def monotonic(file_times_ms: Sequence[int]) -> list[int]:
    """File modification times of consecutive commits, each raised to at least one more than the one before it.

    Clocks of writers and stores differ and files are copied, so a listing's times need not rise; versions do. The
    reference implementation adjusts in the same way, hence both give one answer for one time.
    """
    adjusted: list[int] = []
    for time_ms in file_times_ms:
        adjusted.append(max(time_ms, adjusted[-1] + 1) if adjusted else time_ms)
    return adjusted


def version_at(timestamp_ms: int, versions: Sequence[int], commit_timestamps_ms: Sequence[int]) -> int | None:
    """The newest of `versions` whose commit timestamp is at most `timestamp_ms`; None where all are later.

    Both sequences ascend and belong together, position by position. Raises InvalidArgument where their lengths
    differ.
    """
    if len(versions) != len(commit_timestamps_ms):
        raise InvalidArgument(f"found {len(versions)} versions but {len(commit_timestamps_ms)} commit timestamps")
    position = bisect_right(commit_timestamps_ms, timestamp_ms)
    return versions[position - 1] if position else None


def has_in_commit_timestamp(version: int, enablement_version: int | None) -> bool:
    """Whether a commit of a table with in-commit timestamps enabled has one, or goes by its file's modification time.

    `enablement_version` is `delta.inCommitTimestampEnablementVersion`; None where the table had them from its start.
    Source: delta-protocol.md "Recommendations for Readers of Tables with In-Commit Timestamps", commit timestamps.
    """
    return enablement_version is None or version >= enablement_version


def split_by_enablement(
    timestamp_ms: int,
    versions: range,
    enablement_version: int | None,
    enablement_timestamp_ms: int | None,
) -> range:
    """The part of `versions` that may answer for `timestamp_ms`; it may be empty.

    From the enablement timestamp on, only versions since the enablement; before it, only those before the
    enablement; where neither property is set, all. So file times and in-commit timestamps are never compared with
    each other. `versions` has step 1. Raises CorruptLog where only one of the two properties is set.
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
