"""A table's history is forgotten: its log begins with the newest version, and holds nothing of what was before.

Source: delta-protocol.md "Metadata Cleanup", "Checkpoints"; docs/guides/maintenance.md.
"""

from __future__ import annotations

from slackwater.errors import CorruptCheckpoint, OperationNotAllowed
from slackwater.log.checkpoints.checkpoint import sidecar_paths
from slackwater.log.files.cleanup import CHECKPOINT_PROTECTION, delete_versions_before
from slackwater.log.segment import list_log
from slackwater.log.table import Table
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.store import ObjectStore
from slackwater.transaction.clock import Clock
from slackwater.transaction.factory import begin
from slackwater.transaction.log_maintenance import checkpoint

OPERATION = "TRUNCATE HISTORY"


def truncate_history(
    table: Table, user_metadata: str | None = None, clock: Clock | None = None, user_name: str | None = None
) -> list[str]:
    """Delete of the log of `table` what is before its newest version, whatever its age; the files that went.

    The newest version is one that this makes, so that its commit says nothing but that. It has a checkpoint before
    anything goes, from which removals are left out that are older than `delta.deletedFileRetentionDuration`; whatever
    is cut short leaves it readable. A table with an owner is backfilled first. Reads of an earlier
    version, and commits on one, fail afterwards. Raises OperationNotAllowed for a table with the feature
    checkpointProtection, and what commits and checkpoints raise.
    """
    clock = clock or Clock()
    before = Snapshot.open(table)
    if before.configuration.supports(CHECKPOINT_PROTECTION):
        raise OperationNotAllowed(
            f"{table.root_url}: the feature {CHECKPOINT_PROTECTION} keeps old checkpoints: drop it first, with the "
            "engine that added it",
            error_class="DELTA_FEATURE_CAN_ONLY_DROP_CHECKPOINT_PROTECTION_WITH_HISTORY_TRUNCATION",
        )
    landed = begin(before, clock=clock).commit(OPERATION, user_metadata=user_metadata, user_name=user_name)
    owned = before.table.owned
    if owned is not None:
        owned.owner.backfill_to_version(owned.table_id, landed.version)
    newest = Snapshot.open(table, landed.version)
    store = table.store
    sidecars = _sidecars_before(store, landed.version)
    checkpoint(newest, clock.now_ms())
    deleted = delete_versions_before(store, landed.version)
    needed = {path for at in list_log(store).checkpoints for path in sidecar_paths(store, at)}
    old = [path for path in sidecars if path not in needed]
    store.delete(old)
    return [*deleted, *old]


def _sidecars_before(store: ObjectStore, version: int) -> list[str]:
    """The sidecars of checkpoints that will go; those of a damaged one are left to the cleanup of the log."""
    found: dict[str, None] = {}
    for at in list_log(store).checkpoints:
        if at.version < version:
            try:
                found.update(dict.fromkeys(sidecar_paths(store, at)))
            except CorruptCheckpoint:
                continue
    return list(found)
