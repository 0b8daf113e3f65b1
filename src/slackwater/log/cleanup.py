"""Metadata cleanup: deletes log files past their retention, except files needed by a retained version.

Source: delta-protocol.md "Metadata Cleanup"; the RFC "Checkpoint Protection".
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from slackwater.errors import CorruptCheckpoint, TimestampOutOfRange
from slackwater.log.checkpoint_protection import has_protected_versions, may_truncate, protected_before
from slackwater.log.files.checkpoint import SIDECARS, count_rows, open_checkpoint, sidecar_paths
from slackwater.log.files.segment import LogListing, list_log
from slackwater.log.history import CommitHistory
from slackwater.log.snapshot import LogSnapshot
from slackwater.protocol.actions.file_names import LOG, STAGED_DIRECTORIES, LogFileKind, commit_name, parse_log_file
from slackwater.protocol.properties.properties import ENABLE_EXPIRED_LOG_CLEANUP, LOG_RETENTION
from slackwater.storage.store import ObjectMeta, ObjectStore

_DAY_MS = 86_400_000
_EXPIRING = frozenset(LogFileKind) - {LogFileKind.COMPACTED, LogFileKind.OTHER}
_CHECKPOINTS = frozenset(
    {LogFileKind.CHECKPOINT_CLASSIC, LogFileKind.CHECKPOINT_MULTIPART, LogFileKind.CHECKPOINT_UUID}
)
# A store may delete a batch in any order. Small batches delete the oldest files first.
_BATCH = 100
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogCleanup:
    """The result of a cleanup: the deleted files, with paths in the store, and the retained versions.

    `cutoff_version`: the newest expired commit; `checkpoint_version`: the checkpoint retained for it. None if no such
    commit or checkpoint exists. In this case, all commits and checkpoints are retained. `protected_before`: the
    boundary of the feature checkpointProtection if the cleanup deleted nothing because of this feature, else None.
    """

    deleted: tuple[str, ...] = ()
    cutoff_version: int | None = None
    checkpoint_version: int | None = None
    protected_before: int | None = None


def clean_up_log(
    store: ObjectStore,
    snapshot: LogSnapshot,
    now_ms: int,
    dry_run: bool = False,
    expected_checkpoint: int | None = None,
) -> LogCleanup:
    """Delete log files past `delta.logRetentionDuration` at `now_ms`. The cutoff is rounded down to midnight UTC.

    Does nothing if `delta.enableExpiredLogCleanup` is false. The newest checkpoint not after the newest expired commit
    stays, with the commit of its version and all later files. The checkpoint is opened before files replaced by it are
    deleted. Sidecars without a reference are deleted if more than a day old. `snapshot` is the newest version. An
    interrupted cleanup leaves every retained version readable, and the next call completes it.

    Deletes nothing if the feature checkpointProtection protects a version to delete, unless every version before the
    protected boundary is deleted in this call. `dry_run` deletes nothing, and returns the files to delete.
    `expected_checkpoint` is then the version of a checkpoint to write before the cleanup. Raises CorruptTable and its
    kinds, StorageError.
    """
    if not snapshot.properties.flag(ENABLE_EXPIRED_LOG_CLEANUP):
        return LogCleanup()
    boundary = protected_before(snapshot.configuration)
    listing = list_log(store)
    cutoff = _cutoff_version(store, snapshot, listing, cleanup_cutoff_ms(snapshot, now_ms))
    if cutoff is not None and expected_checkpoint is not None and expected_checkpoint <= cutoff:
        kept: int | None = expected_checkpoint
    else:
        kept = None if cutoff is None else _newest_readable_checkpoint(store, listing, cutoff)
    if kept is not None and not may_truncate(listing, kept, boundary):
        _log.info(
            "%s: log cleanup deletes nothing. Checkpoints before version %d are protected, and the versions from %d on "
            "have not expired",
            store.root_url,
            boundary,
            kept,
        )
        return LogCleanup((), cutoff, kept, boundary)
    delete = _listed if dry_run else _delete
    deleted = [] if kept is None else delete(store, _expired(store, kept))
    deleted += delete(store, [_unreferenced_sidecars(store, _midnight_ms(now_ms) - _DAY_MS, deleted)])
    return LogCleanup(tuple(deleted), cutoff, kept)


def cleanup_cutoff_ms(snapshot: LogSnapshot, now_ms: int) -> int:
    """Return the time up to which commits have expired at `now_ms`: `delta.logRetentionDuration` ago, at midnight UTC.

    A cleanup with the same result may delete the same files. Raises CorruptTable for an invalid duration.
    """
    return _midnight_ms(now_ms - (snapshot.properties.duration_ms(LOG_RETENTION) or 0))


def _midnight_ms(time_ms: int) -> int:
    return time_ms - time_ms % _DAY_MS


def _cutoff_version(store: ObjectStore, snapshot: LogSnapshot, listing: LogListing, cutoff_ms: int) -> int | None:
    """Return the newest version committed at or before `cutoff_ms`, None if no such version exists."""
    seen = {version: commit for version, commit in listing.commits.items() if version <= snapshot.version}
    history = CommitHistory(store, replace(listing, commits=seen), snapshot.configuration)
    try:
        return history.version_at(cutoff_ms, allow_after_last_commit=True)
    except TimestampOutOfRange:
        return None


def _newest_readable_checkpoint(store: ObjectStore, listing: LogListing, cutoff_version: int) -> int | None:
    """Return the version of the newest readable checkpoint up to `cutoff_version`, None without one.

    The checkpoint is opened first, because the files replaced by it cannot be restored.
    """
    candidates = [c for c in listing.checkpoints if c.version <= cutoff_version]
    for checkpoint in sorted(candidates, key=lambda c: c.version, reverse=True):
        try:
            opened = open_checkpoint(store, checkpoint, lambda _: None)
            for path in opened.files:
                count_rows(store, path)
        except CorruptCheckpoint as error:
            _log.warning("log cleanup ignores a damaged checkpoint: %s", error)
            continue
        kinds = {kind for action in opened.actions for kind in action}
        if {"protocol", "metaData"} <= kinds:
            return checkpoint.version
    return None


def delete_versions_before(store: ObjectStore, kept_version: int) -> list[str]:
    """Delete all files of versions before `kept_version`, which has a checkpoint.

    Returns the paths in the order of deletion. An interrupted call leaves `kept_version` and later versions readable.
    Raises StorageError.
    """
    return _delete(store, _expired(store, kept_version))


def truncate_protected(store: ObjectStore, snapshot: LogSnapshot, cutoff_ms: int) -> bool:
    """Delete all versions before a checkpoint at or after the protected boundary, if committed up to `cutoff_ms`.

    Return whether the log has no version before the boundary left. If no such checkpoint was committed up to
    `cutoff_ms`, nothing is deleted. `snapshot` is the newest version. Raises CorruptTable and its kinds, StorageError.
    """
    boundary = protected_before(snapshot.configuration)
    listing = list_log(store)
    if not has_protected_versions(listing, boundary):
        return True
    cutoff = _cutoff_version(store, snapshot, listing, cutoff_ms)
    kept = None if cutoff is None else _newest_readable_checkpoint(store, listing, cutoff)
    if kept is None or kept < boundary:
        return False
    _delete(store, _expired(store, kept))
    return True


def _expired(store: ObjectStore, kept_version: int) -> list[list[str]]:
    """Return the files made unnecessary by the checkpoint of `kept_version`, in groups in the order of deletion.

    Compactions come first, so that none outlives one of its commits. Then the oldest version comes first, so that the
    log has no gap before the retained versions. Checkpoints come last, so that no client replays a commit hidden by a
    protected checkpoint. Source: "Writer Requirements for Checkpoint Protection", rule d.
    """
    compactions: list[str] = []
    others: list[tuple[int, str]] = []
    checkpoints: list[tuple[int, str]] = []
    metas = [*store.list_from(LOG)]
    for directory in STAGED_DIRECTORIES:
        metas += store.list_from(f"{LOG}/{directory}")
    # The commit of the retained version stays. Its staged file is deleted only if the backfilled copy exists.
    is_backfilled = any(meta.path == f"{LOG}/{commit_name(kept_version)}" for meta in metas)
    for meta in metas:
        file = parse_log_file(meta.path.removeprefix(f"{LOG}/"))
        if file is None:
            continue
        if file.kind is LogFileKind.COMPACTED and file.version <= kept_version:
            compactions.append(meta.path)
        elif file.kind in _EXPIRING and file.version < kept_version + (
            is_backfilled and file.kind is LogFileKind.STAGED_COMMIT
        ):
            (checkpoints if file.kind in _CHECKPOINTS else others).append((file.version, meta.path))
    groups = compactions, [path for _, path in sorted(others)], [path for _, path in sorted(checkpoints)]
    present = _paths(metas)
    return [with_hadoop_checksums(group, present) for group in groups]


def with_hadoop_checksums(paths: Iterable[str], present: Collection[str]) -> list[str]:
    """Return `paths`, each preceded by its Hadoop checksum file `.<name>.crc` if in `present`."""
    found: list[str] = []
    for path in paths:
        parent, slash, name = path.rpartition("/")
        twin = f"{parent}{slash}.{name}.crc"
        found += [twin, path] if twin in present else [path]
    return found


def _paths(metas: Iterable[ObjectMeta]) -> frozenset[str]:
    return frozenset(meta.path for meta in metas)


def _unreferenced_sidecars(store: ObjectStore, before_ms: int, expired: Collection[str]) -> list[str]:
    """Return the sidecars last modified before `before_ms` without a reference, none if a checkpoint cannot be read.

    References of `expired` checkpoints do not protect a sidecar.
    """
    sidecars = store.list_from(SIDECARS)
    old = [meta.path for meta in sidecars if meta.modified_ms < before_ms and not _is_hidden(meta.path)]
    if not old:
        return []
    # Checkpoints are listed after the sidecars, so that a concurrent checkpoint protects its sidecars too.
    referenced: set[str] = set()
    gone = frozenset(expired)
    for checkpoint in list_log(store).checkpoints:
        if not gone.isdisjoint(checkpoint.paths):
            continue
        try:
            referenced.update(sidecar_paths(store, checkpoint))
        except CorruptCheckpoint as error:
            _log.warning("log cleanup deletes no sidecar, because a checkpoint does not show its sidecars: %s", error)
            return []
    return with_hadoop_checksums([path for path in old if path not in referenced], _paths(sidecars))


def _is_hidden(path: str) -> bool:
    return path.rpartition("/")[2].startswith(".")


def _listed(_: ObjectStore, groups: Iterable[list[str]]) -> list[str]:
    return [path for paths in groups for path in paths]


def _delete(store: ObjectStore, groups: Iterable[list[str]]) -> list[str]:
    """Delete the files of `groups`, one group after the other. Return the paths."""
    deleted: list[str] = []
    for paths in groups:
        for start in range(0, len(paths), _BATCH):
            store.delete(paths[start : start + _BATCH])
        deleted += paths
    return deleted
