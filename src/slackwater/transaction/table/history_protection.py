"""Protection of a table's history while DROP FEATURE removes a reader feature.

Older versions may need the dropped feature. Barrier checkpoints after the last trace of the feature hide these versions
from clients without the feature. The feature checkpointProtection then preserves the checkpoints. Source: the RFC
"Checkpoint Protection"; delta-spark's DROP FEATURE.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from slackwater.errors import OperationNotAllowed, SlackwaterError
from slackwater.log.checkpoint_protection import FEATURE, protected_before
from slackwater.log.cleanup import truncate_protected
from slackwater.log.files.segment import list_log
from slackwater.protocol.actions.deletion_vectors import INLINE, DeletionVectorDescriptor
from slackwater.protocol.actions.files import RemoveFile
from slackwater.protocol.actions.paths import canonical_paths, encode_path, is_absolute
from slackwater.protocol.properties.properties import DROP_FEATURE_RETENTION
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.path_guard import named_vector_place
from slackwater.transaction.clock import Clock
from slackwater.transaction.commit.factory import begin
from slackwater.transaction.commit_result import CommitResult
from slackwater.transaction.log_maintenance import checkpoint

# delta-spark falls back to an earlier checkpoint twice. With three, no client reaches a checkpoint before the barriers.
_BARRIERS = 3
_DAY_MS = 24 * 3600 * 1000
_log = logging.getLogger(__name__)


def write_barriers(snapshot: Snapshot, clock: Clock, user_name: str | None = None) -> Snapshot:
    """Commit three empty versions after `snapshot`, each with a checkpoint. Return the last one.

    `snapshot` must have no trace of the feature to drop. Raises the errors of commits and checkpoints.
    """
    for _ in range(_BARRIERS):
        snapshot = begin(snapshot, clock=clock).commit("Empty Commit", user_name=user_name).snapshot
        write_published_checkpoint(snapshot, clock.now_ms())
    return snapshot


def write_published_checkpoint(snapshot: Snapshot, now_ms: int) -> None:
    """Write the checkpoint of `snapshot`. Backfills a managed table first. Raises the errors of a checkpoint."""
    owned = snapshot.table.owned
    if owned is not None:
        owned.owner.backfill_to_version(owned.table_id, snapshot.version)
    checkpoint(snapshot, now_ms)


def with_checkpoint(dropped: CommitResult, now_ms: int) -> CommitResult:
    """Write the checkpoint of the DROP FEATURE commit and return the commit. A failure is recorded as a failed upkeep.

    Clients without the dropped feature start at this checkpoint if they validate the protocol of every commit.
    """
    try:
        write_published_checkpoint(dropped.snapshot, now_ms)
    except SlackwaterError as error:
        problem = f"the checkpoint failed: {type(error).__name__}: {error}"
        _log.warning("%s: version %d is committed, but %s", dropped.store.root_url, dropped.version, problem)
        return replace(dropped, upkeep_errors=(*dropped.upkeep_errors, problem))
    return replace(dropped, upkeep=(*dropped.upkeep, f"checkpoint {dropped.version}"))


def add_vector_tombstones(snapshot: Snapshot, clock: Clock, user_name: str | None = None) -> Snapshot:
    """Commit a tombstone for each deletion vector file of a removed data file. Return the new or the same version.

    VACUUM of a client without deletion vectors does not see the vector of a tombstone. With a tombstone of its own, the
    vector file remains for the retention of deleted files. Raises the errors of a commit.
    """
    tombstones = snapshot.tombstones()
    known = set(canonical_paths(tombstones["path"]).to_pylist())
    removes = [
        RemoveFile(encode_path(place), clock.now_ms(), data_change=False)
        for place in _vector_files(snapshot)
        if place not in known
    ]
    if not removes:
        return snapshot
    transaction = begin(snapshot, clock=clock)
    transaction.remove(removes)
    # The removed files are not data files of the table, so that the totals need the earlier version.
    transaction.staged.restates = True
    loop = transaction.prepared("Deletion Vector Tombstones", user_name=user_name, is_validated=True)
    return loop.run().snapshot


def _vector_files(snapshot: Snapshot) -> list[str]:
    """Return the deletion vector files below the root of the files in the tombstones, each once."""
    found: dict[str, None] = {}
    for node in snapshot.tombstones()["deletionVector"].to_pylist():
        if node is None or node["storageType"] == INLINE:
            continue
        place = named_vector_place(snapshot.store, DeletionVectorDescriptor.from_json(node))
        if not is_absolute(place):
            found[place] = None
    return list(found)


def history_retention_ms(snapshot: Snapshot) -> int:
    """Return the age in milliseconds from which DROP FEATURE deletes versions with traces of the feature."""
    retention_ms = snapshot.properties.duration_ms(DROP_FEATURE_RETENTION)
    return _DAY_MS if retention_ms is None else retention_ms


def remove_protected_versions(snapshot: Snapshot, now_ms: int) -> None:
    """Delete the versions protected by the feature checkpointProtection, in one operation.

    Raises OperationNotAllowed before the retention of `delta.dropFeatureTruncateHistory.retentionDuration` has passed.
    """
    if truncate_protected(snapshot.store, snapshot, now_ms - history_retention_ms(snapshot)):
        return
    boundary = protected_before(snapshot.configuration)
    if all(files.version < boundary for files in list_log(snapshot.store).checkpoints):
        # The truncation needs a checkpoint at the boundary or later.
        write_published_checkpoint(snapshot, now_ms)
    raise OperationNotAllowed(
        f"{snapshot.store.root_url}: versions before {boundary} may hold traces of dropped features, and {FEATURE} "
        f"protects their checkpoints. Retry when they are older than {DROP_FEATURE_RETENTION} (24 hours by default)",
        error_class="DELTA_FEATURE_DROP_CHECKPOINT_PROTECTION_WAIT_FOR_RETENTION_PERIOD",
    )
