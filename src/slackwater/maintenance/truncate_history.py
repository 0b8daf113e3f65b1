"""Deletes the history of a table: the log then starts at the newest version.

Source: delta-protocol.md "Metadata Cleanup", "Checkpoints"; the RFC "Checkpoint Protection";
docs/guides/maintenance.md.
"""

from __future__ import annotations

from slackwater.errors import CorruptCheckpoint, OperationNotAllowed
from slackwater.log.checkpoint_protection import FEATURE, protected_before
from slackwater.log.cleanup import delete_versions_before
from slackwater.log.files.checkpoint import sidecar_paths
from slackwater.log.files.segment import list_log
from slackwater.log.table import Table
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.store import ObjectStore
from slackwater.transaction.clock import Clock
from slackwater.transaction.commit.factory import begin
from slackwater.transaction.log_maintenance import checkpoint

OPERATION = "TRUNCATE HISTORY"


def truncate_history(
    table: Table, user_metadata: str | None = None, clock: Clock | None = None, user_name: str | None = None
) -> list[str]:
    """Delete all log files of `table` before its newest version, regardless of age. Return the deleted files.

    First commits a new newest version without other actions and writes its checkpoint. The checkpoint omits tombstones
    older than `delta.deletedFileRetentionDuration`. The table stays readable if the process stops early. A managed
    table is backfilled first. Later reads of an earlier version, and commits based on an earlier version, fail. Raises
    OperationNotAllowed if the feature checkpointProtection protects the newest version, and the errors of commits and
    checkpoints.
    """
    clock = clock or Clock()
    before = Snapshot.open(table)
    boundary = protected_before(before.configuration)
    if boundary > before.version + 1:
        raise OperationNotAllowed(
            f"{table.root_url}: the feature {FEATURE} protects all checkpoints before version {boundary}, and the "
            f"newest version is {before.version}. Retry after version {boundary - 1}"
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
    """Return the sidecars of checkpoints before `version`. Log cleanup handles sidecars of corrupt checkpoints."""
    found: dict[str, None] = {}
    for at in list_log(store).checkpoints:
        if at.version < version:
            try:
                found.update(dict.fromkeys(sidecar_paths(store, at)))
            except CorruptCheckpoint:
                continue
    return list(found)
