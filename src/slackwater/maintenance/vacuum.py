"""VACUUM: deletes files not required by any retained version, between a START and an END commit.

Source: delta-protocol.md "VACUUM Protocol Check", "Add File and Remove File"; delta-spark's VACUUM (names of
operations, parameters and metrics, the retention check, LITE).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import orjson

from slackwater.errors import InvalidArgument, ObjectNotFound, OperationNotAllowed
from slackwater.log.cleanup import with_hadoop_checksums
from slackwater.log.table import Table
from slackwater.maintenance.referenced_files import dereferenced_files, files_left, retained_files
from slackwater.maintenance.vacuum_candidates import abandoned_directories, abandoned_files, below_root, unneeded_files
from slackwater.maintenance.vacuum_markers import ReferencedFiles, VacuumLogging, VacuumMarkers
from slackwater.maintenance.vacuum_request import UNTRACKED_HOURS, VacuumRequest
from slackwater.protocol.actions.file_names import LOG
from slackwater.protocol.properties.properties import DELETED_FILE_RETENTION
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.store import ObjectMeta, ObjectStore
from slackwater.transaction.clock import Clock

__all__ = ["UNTRACKED_HOURS", "VacuumRequest", "VacuumResult", "vacuum"]

_HOUR_MS = 3_600_000
# VACUUM reads the log before each batch. Object stores delete 1000 objects per request, in concurrent requests.
_BATCH = 20_000
_BATCH_ON_DISK = 2_000
_LAST_VACUUM = f"{LOG}/_last_vacuum_info"
_LAST_VERSION = "latestCommitVersionOutsideOfRetentionWindow"


@dataclass(frozen=True)
class VacuumResult:
    """Files deleted by a VACUUM, or found by a dry run: paths relative to the root, sizes in bytes."""

    root_url: str
    paths: tuple[str, ...] = ()
    size_bytes: int = 0
    dry_run: bool = False
    cutoff_version: int | None = None


@dataclass(frozen=True)
class _Plan:
    files: Sequence[ObjectMeta]
    cutoff_version: int | None
    present: frozenset[str] = field(default_factory=frozenset)
    abandoned_before_ms: int = 0


def vacuum(
    table: Table,
    request: VacuumRequest = VacuumRequest(),  # noqa: B008  (immutable)
    clock: Clock | None = None,
    deleting: Callable[[int, int], None] = lambda done, total: None,  # noqa: ARG005  (the names are the interface)
) -> VacuumResult:
    """Delete the files of `table` not required by any retained version. A kill at any time leaves a valid table.

    `deleting` is called before each batch with the number of processed files and the total. The history gets an entry
    before the first deletion, every ten minutes, and at the end, including a failure. VACUUM reads concurrent commits
    before each batch. Also raises the errors of a commit.

    Raises:
        InvalidArgument: If the retention is below the table's retention, or a period is negative.
        UnsupportedFeature: If this package cannot write the table's protocol.
        OperationNotAllowed: If `lite` and log cleanup removed commits after the last VACUUM.
        DataFileNotFound: If another engine re-added files at the moment of their deletion.
        StorageError: If the store fails.
    """
    clock = clock or Clock()
    snapshot = Snapshot.open(table)
    # Always validate. This also implements `vacuumProtocolCheck`.
    snapshot.configuration.require_writable(table.root_url)
    asked_ms = _retention_ms(snapshot, request)
    cutoff_ms = clock.now_ms() - asked_ms
    plan = _plan(snapshot, request, cutoff_ms, clock)
    if request.dry_run:
        return _result(table, plan, dry_run=True)
    parameters = {
        "retentionCheckEnabled": str(request.checks_retention).lower(),
        "defaultRetentionMillis": str(_default_ms(snapshot)),
    }
    if request.retention_hours is not None:
        parameters["specifiedRetentionMillis"] = str(asked_ms)
    spares_ms = max(asked_ms, round(request.untracked_hours * _HOUR_MS))
    telling = VacuumLogging(request.logs, spares_ms, request.user_metadata, request.user_name)
    told = VacuumMarkers(snapshot, telling, parameters, clock)
    told.commit_start(plan.files)
    return _carried_out(table, ReferencedFiles(snapshot, cutoff_ms), plan, told, deleting)


def _retention_ms(snapshot: Snapshot, request: VacuumRequest) -> int:
    default_ms = _default_ms(snapshot)
    hours = request.retention_hours
    for name, value in (("retention", hours), ("untracked", request.untracked_hours)):
        if value is not None and not value >= 0:
            raise InvalidArgument(
                f"VACUUM: {name} must be a number of hours from 0, found {value!r}",
                error_class="DELTA_VACUUM_RETENTION_PERIOD_NEGATIVE",
            )
    if hours is None:
        return default_ms
    asked_ms = round(hours * _HOUR_MS)
    if asked_ms < default_ms and request.checks_retention:
        raise InvalidArgument(
            f"{snapshot.store.root_url}: {hours} hours are less than {DELETED_FILE_RETENTION}, "
            f"{default_ms / _HOUR_MS:g} hours. Active readers and writers may fail. If you are sure, use "
            "--no-retention-check in the terminal, or set spark.slackwater.retentionDurationCheck.enabled to false",
            error_class="DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT",
        )
    return asked_ms


def _default_ms(snapshot: Snapshot) -> int:
    return snapshot.properties.duration_ms(DELETED_FILE_RETENTION) or 0


def _plan(snapshot: Snapshot, request: VacuumRequest, cutoff_ms: int, clock: Clock) -> _Plan:
    retained = retained_files(snapshot, cutoff_ms)
    if request.lite:
        files = _named_by_the_log(snapshot, retained.cutoff_version, retained.places)
        return _Plan(files, retained.cutoff_version)
    present = list(request.inventory) if request.inventory is not None else _listed(snapshot.store)
    untracked_ms = clock.now_ms() - round(request.untracked_hours * _HOUR_MS)
    files = unneeded_files(
        snapshot,
        present,
        retained.places,
        cutoff_ms,
        untracked_ms,
        lambda oldest_ms: dereferenced_files(snapshot, retained.cutoff_version, oldest_ms),
    )
    abandoned_before_ms = min(cutoff_ms, untracked_ms)
    files += abandoned_files(snapshot.store, abandoned_before_ms)
    return _Plan(files, retained.cutoff_version, frozenset(meta.path for meta in present), abandoned_before_ms)


def _listed(store: ObjectStore) -> list[ObjectMeta]:
    return [meta for meta in store.list_from("", recursive=True) if not meta.path.startswith(f"{LOG}/")]


def _named_by_the_log(snapshot: Snapshot, cutoff_version: int | None, retained: frozenset[str]) -> list[ObjectMeta]:
    """Return the files removed by commits up to the cutoff and not handled by an earlier VACUUM.

    Raises OperationNotAllowed if log cleanup removed commits after the last VACUUM.
    """
    store, history = snapshot.store, snapshot.history()
    done = _last_version(store)
    first = 0 if done is None else done + 1
    if not history.versions or history.versions[0] > first:
        raise OperationNotAllowed(
            f"{store.root_url}: VACUUM LITE reads only the log, but log cleanup removed commits since the last "
            "VACUUM. Run a full VACUUM once (DELTA_CANNOT_VACUUM_LITE)",
            error_class="DELTA_CANNOT_VACUUM_LITE",
        )
    if cutoff_version is None:
        return []
    places: dict[str, int] = {}
    for version in history.versions:
        if first <= version <= cutoff_version:
            places.update(files_left(store, history.actions_but_adds(version)))
    return [ObjectMeta(place, places[place], 0) for place in sorted(below_root(places)) if place not in retained]


def _carried_out(
    table: Table, log: ReferencedFiles, plan: _Plan, told: VacuumMarkers, deleting: Callable[[int, int], None]
) -> VacuumResult:
    store = table.store
    size = _BATCH_ON_DISK if store.local_root is not None else _BATCH
    deleted: dict[str, ObjectMeta] = {}
    try:
        for start in range(0, len(plan.files), size):
            rest = plan.files[start:]
            deleting(start, len(plan.files))
            told.renew_start(rest)
            named = log.named()
            going = [meta for meta in rest[:size] if meta.path not in named]
            store.delete(with_hadoop_checksums([meta.path for meta in going], plan.present))
            deleted.update((meta.path, meta) for meta in going)
        log.require_not_named(deleted)
    except BaseException:
        # Raise the original error, not an error of the END commit.
        told.commit_end("FAILED", len(deleted), 0, quietly=True)
        raise
    directories = _remove_empty_directories(store, deleted, plan.abandoned_before_ms)
    if plan.cutoff_version is not None:
        _remember(store, plan.cutoff_version)
    told.commit_end("COMPLETED", len(deleted), directories)
    return _result(table, replace(plan, files=list(deleted.values())))


def _remove_empty_directories(store: ObjectStore, paths: Iterable[str], abandoned_before_ms: int) -> int:
    """Remove directories emptied by the deletion and return their number. Object stores have no directories.

    Also removes directories of killed writers if nothing in the directory is newer than `abandoned_before_ms`, because
    directory names may reveal data. Writers create missing directories again.
    """
    if store.local_root is None:
        return 0
    directories: set[str] = set()
    for held in {path.rpartition("/")[0] for path in paths}:
        parts = held.split("/")
        directories.update("/".join(parts[:count]) for count in range(1, len(parts) + 1) if held)
    emptied = {directory.partition("/")[0] for directory in directories}
    directories |= abandoned_directories(store.local_root, emptied, abandoned_before_ms)
    removed = 0
    # Inner directories first.
    for directory in sorted(directories, reverse=True):
        with contextlib.suppress(OSError):
            Path(store.local_root, directory).rmdir()
            removed += 1
    return removed


def _last_version(store: ObjectStore) -> int | None:
    """Return the last version handled by an earlier VACUUM; None if there was none or it is unknown."""
    try:
        node = orjson.loads(store.read(_LAST_VACUUM))
    except (ObjectNotFound, orjson.JSONDecodeError):
        return None
    found = node.get(_LAST_VERSION) if isinstance(node, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _remember(store: ObjectStore, version: int) -> None:
    done = _last_version(store)
    if done is None or version > done:
        store.put(_LAST_VACUUM, orjson.dumps({_LAST_VERSION: version}))


def _result(table: Table, plan: _Plan, dry_run: bool = False) -> VacuumResult:
    paths = tuple(meta.path for meta in plan.files)
    return VacuumResult(table.root_url, paths, _bytes(plan.files), dry_run, plan.cutoff_version)


def _bytes(files: Sequence[ObjectMeta]) -> int:
    return sum(meta.size_bytes for meta in files)
