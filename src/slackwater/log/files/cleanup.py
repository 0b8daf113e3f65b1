"""Metadata cleanup: what of the log is older than its retention is deleted, and never what a kept version needs.

Source: delta-protocol.md "Metadata Cleanup".
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from slackwater.errors import CorruptCheckpoint, TimestampOutOfRange, UnsupportedFeature
from slackwater.log.checkpoints.checkpoint import SIDECARS, count_rows, open_checkpoint, sidecar_paths
from slackwater.log.history import CommitHistory
from slackwater.log.segment import LogListing, list_log
from slackwater.log.snapshot import LogSnapshot
from slackwater.protocol.actions.file_names import COMMITS_DIRECTORY, LOG, LogFileKind, commit_name, parse_log_file
from slackwater.protocol.properties.properties import ENABLE_EXPIRED_LOG_CLEANUP, LOG_RETENTION
from slackwater.storage.store import ObjectMeta, ObjectStore

_DAY_MS = 86_400_000
CHECKPOINT_PROTECTION = "checkpointProtection"
"""A feature outside the four documents, that asks for more care with old checkpoints than is taken here."""
_COMMITS = f"{LOG}/{COMMITS_DIRECTORY}"
_EXPIRING = frozenset(LogFileKind) - {LogFileKind.COMPACTED, LogFileKind.OTHER}
# A store may delete a batch in any order: small ones keep the oldest files ahead of the others.
_BATCH = 100
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogCleanup:
    """What a cleanup did: the files it deleted, as paths in the store, and the versions from which it kept all.

    `cutoff_version`: the newest commit that is as old as the retention; `checkpoint_version`: the checkpoint kept for
    it. None where there is no such commit or checkpoint, and then commits and checkpoints are all kept.
    """

    deleted: tuple[str, ...] = ()
    cutoff_version: int | None = None
    checkpoint_version: int | None = None


def clean_up_log(store: ObjectStore, snapshot: LogSnapshot, now_ms: int) -> LogCleanup:
    """Delete what of the log is older at `now_ms` than `delta.logRetentionDuration`, counted from midnight UTC.

    Nothing where `delta.enableExpiredLogCleanup` is false. The newest checkpoint that is not newer than the newest
    expired commit stays, the commit of its version and all that follows too; it is opened before anything it replaces
    goes. Sidecars go where no checkpoint refers to them and they are more than a day old. `snapshot` is of the newest
    version. Whatever is cut short leaves every kept version readable, and is made up for by the next call. Raises
    UnsupportedFeature, CorruptTable and its kinds, StorageError.
    """
    if not snapshot.properties.flag(ENABLE_EXPIRED_LOG_CLEANUP):
        return LogCleanup()
    if snapshot.configuration.supports(CHECKPOINT_PROTECTION):
        raise UnsupportedFeature(
            f"{store.root_url}: the log of a table with the feature {CHECKPOINT_PROTECTION} is not cleaned up by this "
            "version of Slackwater; use the engine that added it"
        )
    listing = list_log(store)
    cutoff = _cutoff_version(
        store, snapshot, listing, _midnight_ms(now_ms - (snapshot.properties.duration_ms(LOG_RETENTION) or 0))
    )
    kept = None if cutoff is None else _newest_readable_checkpoint(store, listing, cutoff)
    deleted = [] if kept is None else _delete(store, _expired(store, kept))
    deleted += _delete(store, _unreferenced_sidecars(store, _midnight_ms(now_ms) - _DAY_MS))
    return LogCleanup(tuple(deleted), cutoff, kept)


def _midnight_ms(time_ms: int) -> int:
    return time_ms - time_ms % _DAY_MS


def _cutoff_version(store: ObjectStore, snapshot: LogSnapshot, listing: LogListing, cutoff_ms: int) -> int | None:
    """The newest commit not newer than `cutoff_ms`."""
    seen = {version: commit for version, commit in listing.commits.items() if version <= snapshot.version}
    history = CommitHistory(store, replace(listing, commits=seen), snapshot.configuration)
    try:
        return history.version_at(cutoff_ms, allow_after_last_commit=True)
    except TimestampOutOfRange:
        return None


def _newest_readable_checkpoint(store: ObjectStore, listing: LogListing, cutoff_version: int) -> int | None:
    """The version of the newest checkpoint up to `cutoff_version` that opens: what it replaces cannot be had again."""
    candidates = [c for c in listing.checkpoints if c.version <= cutoff_version]
    for checkpoint in sorted(candidates, key=lambda c: c.version, reverse=True):
        try:
            opened = open_checkpoint(store, checkpoint, lambda _: None)
            for path in opened.files:
                count_rows(store, path)
        except CorruptCheckpoint as error:
            _log.warning("a checkpoint is passed over by the cleanup of its log: %s", error)
            continue
        kinds = {kind for action in opened.actions for kind in action}
        if {"protocol", "metaData"} <= kinds:
            return checkpoint.version
    return None


def delete_versions_before(store: ObjectStore, kept_version: int) -> list[str]:
    """Delete every file of versions before `kept_version`, which has a checkpoint; the paths, in the order they went.

    Whatever is cut short leaves every version readable that is not wholly gone. Raises StorageError.
    """
    return _delete(store, _expired(store, kept_version))


def _expired(store: ObjectStore, kept_version: int) -> list[str]:
    """What the checkpoint of `kept_version` makes needless, in the order in which it may go.

    Compactions first, so that none outlives a commit that it stands for; then the oldest version first, so that the
    log has no hole before what is kept.
    """
    compactions: list[str] = []
    others: list[tuple[int, str]] = []
    metas = [*store.list_from(LOG), *store.list_from(_COMMITS)]
    # Of the kept version itself the commit stays, and what it was copied from goes: never the only one.
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
            others.append((file.version, meta.path))
    return with_hadoop_checksums([*compactions, *(path for _, path in sorted(others))], _paths(metas))


def with_hadoop_checksums(paths: Iterable[str], present: Collection[str]) -> list[str]:
    """`paths`, each behind the `.<name>.crc` that a JVM's local file system left beside it, where that is `present`."""
    found: list[str] = []
    for path in paths:
        parent, slash, name = path.rpartition("/")
        twin = f"{parent}{slash}.{name}.crc"
        found += [twin, path] if twin in present else [path]
    return found


def _paths(metas: Iterable[ObjectMeta]) -> frozenset[str]:
    return frozenset(meta.path for meta in metas)


def _unreferenced_sidecars(store: ObjectStore, before_ms: int) -> list[str]:
    """The sidecars changed before `before_ms` that no checkpoint refers to; none where a checkpoint cannot be read."""
    sidecars = store.list_from(SIDECARS)
    old = [meta.path for meta in sidecars if meta.modified_ms < before_ms and not _is_hidden(meta.path)]
    if not old:
        return []
    # Listed only now: a checkpoint that came in the meantime protects its sidecars too.
    referenced: set[str] = set()
    for checkpoint in list_log(store).checkpoints:
        try:
            referenced.update(sidecar_paths(store, checkpoint))
        except CorruptCheckpoint as error:
            _log.warning("no sidecar is deleted, what this checkpoint refers to is not known: %s", error)
            return []
    return with_hadoop_checksums([path for path in old if path not in referenced], _paths(sidecars))


def _is_hidden(path: str) -> bool:
    return path.rpartition("/")[2].startswith(".")


def _delete(store: ObjectStore, paths: list[str]) -> list[str]:
    for start in range(0, len(paths), _BATCH):
        store.delete(paths[start : start + _BATCH])
    return paths
