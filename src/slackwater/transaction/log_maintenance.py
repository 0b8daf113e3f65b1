"""Log maintenance, automatic or on request: checkpoints, compactions, cleanup.

Maintenance covers only the commits in `_delta_log`. In a managed table these are the backfilled commits.
Source: delta-protocol.md "Checkpoints", "Log Compaction Files", "Metadata Cleanup"; managed-commits.md "Maintenance
operations on managed-commit tables".
"""

from __future__ import annotations

from slackwater.errors import InvalidArgument
from slackwater.log.checkpoints.write_checkpoint import (
    V2_FEATURE,
    CheckpointLayout,
    write_checkpoint,
    write_last_checkpoint,
)
from slackwater.log.cleanup import LogCleanup, clean_up_log
from slackwater.log.compaction import compact_log
from slackwater.log.files.last_checkpoint import CheckpointInfo
from slackwater.log.files.segment import list_log
from slackwater.protocol.properties.properties import CHECKPOINT_INTERVAL, CHECKPOINT_POLICY, TableProperties
from slackwater.scan.snapshot import Snapshot

_DEFAULT_INTERVAL = 10
_CLASSIC_EVERY = 10


def checkpoint_interval(properties: TableProperties) -> int:
    """Return the number of versions between checkpoints: `delta.checkpointInterval`."""
    return properties.integer(CHECKPOINT_INTERVAL) or _DEFAULT_INTERVAL


def checkpoint(snapshot: Snapshot, now_ms: int) -> CheckpointInfo:
    """Write the checkpoint of `snapshot` and point `_last_checkpoint` at the checkpoint.

    The commit of `snapshot` must be in the log. Raises the errors of `write_checkpoint`.
    """
    info = write_checkpoint(snapshot, now_ms, _layout(snapshot))
    write_last_checkpoint(snapshot.store, info)
    return info


def checkpoint_newest(snapshot: Snapshot, now_ms: int) -> CheckpointInfo:
    """Write the checkpoint of the newest version in the log. `snapshot` is the newest committed version.

    Raises the errors of `checkpoint` and of reading a version.
    """
    newest = list_log(snapshot.store).latest_version
    published = snapshot if newest is None or newest >= snapshot.version else Snapshot.open(snapshot.table, newest)
    return checkpoint(published, now_ms)


def compact(snapshot: Snapshot, start_version: int | None = None, end_version: int | None = None) -> str:
    """Write one compacted file for a range of commits and return its path relative to the root.

    By default the range starts after the newest checkpoint and ends at the newest commit in the log. Raises
    InvalidArgument if the range has fewer than two versions, and the errors of `compact_log`.
    """
    listing = list_log(snapshot.store)
    start, end = start_version, end_version
    if start is None:
        start = max((c.version + 1 for c in listing.checkpoints), default=min(listing.commits, default=0))
    if end is None:
        end = max(listing.commits, default=start)
    if start >= end:
        raise InvalidArgument(
            f"{snapshot.store.root_url}: there are no two commits to compact from version {start} to {end}. Name a "
            "range of at least two versions that are in the log"
        )
    return compact_log(snapshot.store, start, end)


def clean_up(
    snapshot: Snapshot, now_ms: int, dry_run: bool = False, expected_checkpoint: int | None = None
) -> LogCleanup:
    """Delete log files older than the log retention.

    `dry_run` and `expected_checkpoint` as in `clean_up_log`, which defines the retained files. Raises its errors.
    """
    return clean_up_log(snapshot.store, snapshot, now_ms, dry_run, expected_checkpoint)


def _layout(snapshot: Snapshot) -> CheckpointLayout | None:
    """Return the layout of the checkpoint of `snapshot`, None for the default layout.

    Every tenth V2 checkpoint has the classic name, because older clients then detect a table beyond their support.
    Source: delta-protocol.md "Handling Backward compatibility while moving to UUID-named v2 Checkpoints".
    """
    if snapshot.properties.choice(CHECKPOINT_POLICY) != "v2" or not snapshot.configuration.supports(V2_FEATURE):
        return None
    nth = snapshot.version // checkpoint_interval(snapshot.properties)
    return CheckpointLayout.V2_CLASSIC if nth % _CLASSIC_EVERY == 0 else None
