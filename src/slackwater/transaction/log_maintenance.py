"""The upkeep of a table's log, by itself or when somebody asks for it: checkpoints, compactions, cleanup.

Only what is in `_delta_log` is kept up: of a table with a commit owner the part that is backfilled.
Source: delta-protocol.md "Checkpoints", "Log Compaction Files", "Metadata Cleanup"; managed-commits.md "Maintenance
operations on managed-commit tables".
"""

from __future__ import annotations

from slackwater.errors import InvalidArgument
from slackwater.log.checkpoints.last_checkpoint import CheckpointInfo, write_last_checkpoint
from slackwater.log.checkpoints.write_checkpoint import V2_FEATURE, CheckpointLayout, write_checkpoint
from slackwater.log.files.cleanup import LogCleanup, clean_up_log
from slackwater.log.files.compaction import compact_log
from slackwater.log.segment import list_log
from slackwater.protocol.properties.properties import CHECKPOINT_INTERVAL, CHECKPOINT_POLICY, TableProperties
from slackwater.scan.snapshot import Snapshot

_DEFAULT_INTERVAL = 10
_CLASSIC_EVERY = 10


def checkpoint_interval(properties: TableProperties) -> int:
    """How many versions are from one checkpoint to the next: `delta.checkpointInterval`."""
    return properties.integer(CHECKPOINT_INTERVAL) or _DEFAULT_INTERVAL


def checkpoint(snapshot: Snapshot, now_ms: int) -> CheckpointInfo:
    """Write the checkpoint of `snapshot`, whose commit is in the log, and point `_last_checkpoint` at it.

    Raises as `write_checkpoint` does.
    """
    info = write_checkpoint(snapshot, now_ms, _layout(snapshot))
    write_last_checkpoint(snapshot.store, info)
    return info


def checkpoint_newest(snapshot: Snapshot, now_ms: int) -> CheckpointInfo:
    """As `checkpoint`, of the newest version that is in the log; `snapshot` is of the newest version that counts."""
    newest = list_log(snapshot.store).latest_version
    published = snapshot if newest is None or newest >= snapshot.version else Snapshot.open(snapshot.table, newest)
    return checkpoint(published, now_ms)


def compact(snapshot: Snapshot, start_version: int | None = None, end_version: int | None = None) -> str:
    """Write one file for many commits; its path, relative to the root.

    By default from the commit after the newest checkpoint up to the newest in the log. Raises InvalidArgument where
    that is fewer than two versions, and as `compact_log`.
    """
    listing = list_log(snapshot.store)
    start, end = start_version, end_version
    if start is None:
        start = max((c.version + 1 for c in listing.checkpoints), default=min(listing.commits, default=0))
    if end is None:
        end = max(listing.commits, default=start)
    if start >= end:
        raise InvalidArgument(
            f"{snapshot.store.root_url}: there are no two commits to compact from version {start} to {end}: name a "
            "range of at least two versions that are in the log"
        )
    return compact_log(snapshot.store, start, end)


def clean_up(snapshot: Snapshot, now_ms: int) -> LogCleanup:
    """Delete what of the log is older than its retention. Raises as `clean_up_log`, which says what stays."""
    return clean_up_log(snapshot.store, snapshot, now_ms)


def _layout(snapshot: Snapshot) -> CheckpointLayout | None:
    """Now and then a V2 checkpoint has the classic name, by which older clients learn that they must not read on.

    Source: delta-protocol.md "Handling Backward compatibility while moving to UUID-named v2 Checkpoints".
    """
    if snapshot.properties.choice(CHECKPOINT_POLICY) != "v2" or not snapshot.configuration.supports(V2_FEATURE):
        return None
    nth = snapshot.version // checkpoint_interval(snapshot.properties)
    return CheckpointLayout.V2_CLASSIC if nth % _CLASSIC_EVERY == 0 else None
