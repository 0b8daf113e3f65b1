"""Log segments: the files of `_delta_log` needed to build a version of the table.

Source: delta-protocol.md "Checkpoints", "Log Compaction Files", "Last Checkpoint File", "Delta Log Entries".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from urllib.parse import unquote

from slackwater.errors import MissingCommit, StorageError, TableNotFound, VersionNotFound
from slackwater.log.files.last_checkpoint import LastCheckpoint, read_last_checkpoint
from slackwater.protocol.actions.file_names import (
    LOG,
    STAGED_DIRECTORIES,
    LogFile,
    LogFileKind,
    checkpoint_name,
    parse_log_file,
    version_prefix,
)
from slackwater.storage.store import ObjectMeta, ObjectStore

LAKE_DATABASE = "_slackwater/owner.db"
"""Path of the SQLite database of a lake in a local directory, relative to its root."""
_NO_COMMIT = f"its {LOG} directory is missing or holds no commit"
_MOST_TABLES = 10
_STAGED = tuple(f"{LOG}/{directory}/" for directory in STAGED_DIRECTORIES)
_NAMED_GAPS = 5
_MOST_LISTINGS = 10


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """The files of one complete checkpoint, several for a multi-part checkpoint. Paths are relative to the store.

    `sizes` are the listed sizes of the files in bytes, `modified_ms` their times in ms since the epoch.
    """

    version: int
    kind: LogFileKind
    paths: tuple[str, ...]
    sizes: tuple[int, ...]
    modified_ms: tuple[int, ...] = ()

    @property
    def size_bytes(self) -> int:
        """The size of all files, without sidecars."""
        return sum(self.sizes)


@dataclass(frozen=True, slots=True)
class CommitFile:
    """A file with the commits `[version, end_version]`: one commit, or several in a log compaction file.

    `data` is the content of the file if the owner returned it with the name. `modified_ms` of a staged commit is its
    own timestamp. `stands_for` lists the commits replaced by a compaction, for readers unable to use the compaction.
    """

    version: int
    end_version: int
    path: str
    modified_ms: int
    size_bytes: int = 0
    data: bytes | None = field(default=None, repr=False, compare=False)
    stands_for: tuple[CommitFile, ...] = field(default=(), repr=False, compare=False)

    @property
    def compacted(self) -> bool:
        """True for a log compaction file."""
        return self.path.endswith(".compacted.json")

    @property
    def is_staged(self) -> bool:
        """True if the owner ratified this commit but had not backfilled it at the time of the listing."""
        return self.path.startswith(_STAGED)


@dataclass(frozen=True, slots=True)
class LogSegment:
    """The files needed to build `version`: at most one checkpoint, then commits without a gap, ascending.

    `has_checksum` is True if the listing contained the version's `.crc`.
    """

    version: int
    checkpoint: CheckpointFiles | None
    commits: tuple[CommitFile, ...]
    has_checksum: bool = False


@dataclass(frozen=True, slots=True)
class LogListing:
    """The result of a log listing, by kind of file. `complete` is True if the listing started at the log's first file.

    `checksums` are the versions with a `.crc`.
    """

    commits: dict[int, CommitFile]
    compacted: tuple[CommitFile, ...]
    checkpoints: tuple[CheckpointFiles, ...]
    complete: bool
    checksums: frozenset[int] = frozenset()

    @property
    def latest_version(self) -> int | None:
        """The newest version in the listing, None for an empty listing."""
        newest = [max(self.commits, default=-1), max((c.version for c in self.checkpoints), default=-1)]
        return max(newest) if max(newest) >= 0 else None


def list_log(store: ObjectStore, start_version: int = 0) -> LogListing:
    """List the log from `start_version` on, ignoring files of other kinds.

    A listing is not atomic: commits written during the listing can leave a gap. A listing with a gap is repeated until
    two listings agree. The caller decides about remaining gaps.
    """
    listing = _list_once(store, start_version)
    for _ in range(_MOST_LISTINGS):
        if not _has_gap(listing, start_version):
            break
        before, listing = listing, _list_once(store, start_version)
        if listing.commits.keys() == before.commits.keys():
            break
    return listing


def load_segment(
    store: ObjectStore,
    version: int | None = None,
    without: frozenset[CheckpointFiles] = frozenset(),
    list_from: Callable[[int], LogListing] | None = None,
) -> LogSegment:
    """Return the segment of `version`, or of the newest version if None. `list_from` lists the log from a version on.

    `_last_checkpoint` only shortens the listing. If it is absent, stale or wrong, the whole log is listed. Checkpoints
    in `without` proved unreadable and are ignored. Raises TableNotFound, VersionNotFound, and MissingCommit with the
    missing version.
    """
    list_from = list_from or partial(list_log, store)
    hint = None if without else read_last_checkpoint(store)
    try:
        return _segment(store, version, without, list_from, hint)
    except TableNotFound:
        if store.local_root is None:
            # The message would cost an additional request for each new table in an object store.
            raise
        raise TableNotFound(not_a_table(store)) from None


def _segment(
    store: ObjectStore,
    version: int | None,
    without: frozenset[CheckpointFiles],
    list_from: Callable[[int], LogListing],
    hint: LastCheckpoint | None,
) -> LogSegment:
    if hint is not None and (version is None or hint.version <= version):
        listing = list_from(hint.version)
        if any(c.version == hint.version for c in listing.checkpoints):
            return segment_of(listing, store.root_url, version, without)
    return segment_of(list_from(0), store.root_url, version, without)


def not_a_table(store: ObjectStore) -> str:
    """Return a message for a directory without a log that names its content: a lake, Parquet files, or a log."""
    where = store.root_url
    if where.endswith(f"/{LOG}"):
        return f"{where} is the log of a table, not a table. Name the directory that contains it"
    return f"{where} is not a Delta table: {_what_is_there(store)}"


def _what_is_there(store: ObjectStore) -> str:
    try:
        names = [meta.path for meta in store.list_from("")]
        is_lake = any(meta.path == LAKE_DATABASE for meta in store.list_from(LAKE_DATABASE.partition("/")[0]))
    except StorageError:
        names, is_lake = [], False
    if is_lake:
        return _lake(store)
    partition = _partition(store)
    if partition is not None:
        return partition
    plain = next((name for name in names if name.endswith(".parquet") and not name.startswith(("_", "."))), None)
    if plain is not None:
        return (
            f"it holds plain Parquet files ({plain}). Read them with format parquet, or make them a table with "
            "DeltaTable.convertToDelta or `slackwater convert`"
        )
    return _NO_COMMIT


def _lake(store: ObjectStore) -> str:
    found = sorted(path.parent.name for path in Path(store.local_root or "").glob(f"*/{LOG}"))
    names = ", ".join([*islice(found, _MOST_TABLES), *(["…"] if len(found) > _MOST_TABLES else [])])
    # Tables with a location of their own are not below the root.
    tables = f"with the tables {names}" if names else "of tables"
    return f"it is a lake {tables}. Open it with Lake.open, or name the directory of one of its tables"


def _partition(store: ObjectStore) -> str | None:
    """Return the message for a partition's directory of a table on a local disk, None for other directories."""
    place = Path(store.local_root or "")
    parts: list[str] = []
    while "=" in place.name:
        parts.insert(0, place.name)
        place = place.parent
    if not parts or not (place / LOG).is_dir():
        return None
    columns = " AND ".join(map(_condition, parts))
    return f'it is a partition of the table {place}. Name the table, and choose the rows with where="{columns}"'


def _condition(directory: str) -> str:
    name, _, value = unquote(directory).partition("=")
    return f"{name} IS NULL" if value == "__HIVE_DEFAULT_PARTITION__" else f"{name} = '{value}'"


def classic_checkpoint(store: ObjectStore, version: int) -> CheckpointFiles | None:
    """Return the checkpoint of `version` in one file with the classic name, None if absent. Raises StorageError."""
    found = store.head(f"{LOG}/{checkpoint_name(version)}")
    return None if found is None else _checkpoint_files(version, LogFileKind.CHECKPOINT_CLASSIC, [found])


def segment_of(
    listing: LogListing, where: str, version: int | None = None, without: frozenset[CheckpointFiles] = frozenset()
) -> LogSegment:
    """Return the segment of `version` (newest if None) from the files in `listing`. Raises as `load_segment` does."""
    latest = listing.latest_version
    if latest is None:
        raise TableNotFound(f"{where} is not a Delta table: {_NO_COMMIT}")
    target = latest if version is None else version
    if target > latest:
        raise VersionNotFound(f"{where} has no version {target}: its newest version is {latest}")
    usable = [c for c in listing.checkpoints if c.version <= target and c not in without]
    checkpoint = max(usable, key=lambda c: (c.version, _PREFERENCE[c.kind]), default=None)
    first = checkpoint.version + 1 if checkpoint else 0
    commits = _contiguous(listing, where, first, target)
    return LogSegment(target, checkpoint, commits, target in listing.checksums)


def _contiguous(listing: LogListing, where: str, first: int, target: int) -> tuple[CommitFile, ...]:
    # Only the first gaps are collected, because a stray file may have any version number.
    missing = list(islice((v for v in range(first, target + 1) if v not in listing.commits), _NAMED_GAPS + 1))
    if missing:
        raise _missing(listing, where, missing, target)
    longest: dict[int, CommitFile] = {}
    for file in listing.compacted:
        best = longest.get(file.version)
        if file.end_version <= target and (best is None or file.end_version > best.end_version):
            longest[file.version] = file
    files: list[CommitFile] = []
    version = first
    while version <= target:
        file = longest.get(version, listing.commits[version])
        if file.compacted:
            stands_for = tuple(listing.commits[v] for v in range(version, file.end_version + 1))
            file = replace(file, stands_for=stands_for)
        files.append(file)
        version = file.end_version + 1
    return tuple(files)


def _missing(listing: LogListing, where: str, missing: Sequence[int], target: int) -> Exception:
    oldest = min(listing.commits, default=None)
    if missing[0] == 0 and (oldest is None or missing[-1] < oldest):
        starts = sorted({c.version for c in listing.checkpoints})
        if starts:
            return VersionNotFound(
                f"{where} can no longer show version {target}: the log was cleaned up. The oldest version it can show "
                f"is {starts[0]}"
            )
        return MissingCommit(
            f"{where}: version 0 is missing. The log begins with commit {oldest} and has no checkpoint before it",
            error_class="DELTA_TRUNCATED_TRANSACTION_LOG",
        )
    names = ", ".join(str(v) for v in missing[:_NAMED_GAPS]) + (" …" if len(missing) > _NAMED_GAPS else "")
    return MissingCommit(
        f"{where}: version {names} is missing from {LOG}, so version {target} cannot be built. Restore the file, or "
        "read an older version"
    )


def has_checkpoint(store: ObjectStore, version: int) -> bool:
    """Return whether the log has a complete checkpoint of `version`: one file, or all parts. Raises StorageError."""
    files: list[tuple[LogFile, ObjectMeta]] = []
    for meta in store.list_from(LOG, f"{LOG}/{version_prefix(version)}"):
        file = parse_log_file(meta.path.rpartition("/")[2])
        if file is not None and file.version > version:
            break
        if file is not None and file.version == version and file.kind in _CHECKPOINT_KINDS:
            files.append((file, meta))
    return bool(_complete_checkpoints(files))


def _list_once(store: ObjectStore, start_version: int) -> LogListing:
    start_after = f"{LOG}/{version_prefix(start_version)}" if start_version else ""
    commits: dict[int, CommitFile] = {}
    compacted: list[CommitFile] = []
    checkpoint_files: list[tuple[LogFile, ObjectMeta]] = []
    checksums: set[int] = set()
    for meta in store.list_from(LOG, start_after):
        file = parse_log_file(meta.path.rpartition("/")[2])
        if file is None:
            continue
        if file.kind is LogFileKind.COMMIT:
            commits[file.version] = CommitFile(file.version, file.version, meta.path, meta.modified_ms, meta.size_bytes)
        elif file.kind is LogFileKind.COMPACTED and file.end_version is not None:
            compacted.append(CommitFile(file.version, file.end_version, meta.path, meta.modified_ms, meta.size_bytes))
        elif file.kind in _CHECKPOINT_KINDS:
            checkpoint_files.append((file, meta))
        elif file.kind is LogFileKind.CRC:
            checksums.add(file.version)
    checkpoints = tuple(_complete_checkpoints(checkpoint_files))
    return LogListing(commits, tuple(compacted), checkpoints, start_version == 0, frozenset(checksums))


def _has_gap(listing: LogListing, start_version: int) -> bool:
    """Return whether commits are missing between the listed commits, or before the first one without a checkpoint."""
    if not listing.commits:
        return False
    oldest, newest = min(listing.commits), max(listing.commits)
    expected = start_version + 1 if listing.checkpoints and start_version else start_version
    if oldest > expected and (start_version or not listing.checkpoints):
        return True
    return newest - oldest + 1 != len(listing.commits)


_PREFERENCE = {
    LogFileKind.CHECKPOINT_MULTIPART: 0,
    LogFileKind.CHECKPOINT_CLASSIC: 1,
    LogFileKind.CHECKPOINT_UUID: 2,
}
_CHECKPOINT_KINDS = frozenset(_PREFERENCE)


def _complete_checkpoints(files: Iterable[tuple[LogFile, ObjectMeta]]) -> list[CheckpointFiles]:
    complete: list[CheckpointFiles] = []
    parts: dict[tuple[int, int], dict[int, ObjectMeta]] = defaultdict(dict)
    for file, meta in files:
        if file.part is not None and file.num_parts is not None:
            parts[file.version, file.num_parts][file.part] = meta
        else:
            complete.append(_checkpoint_files(file.version, file.kind, [meta]))
    for (version, num_parts), found in parts.items():
        if len(found) == num_parts:
            metas = [found[part] for part in sorted(found)]
            complete.append(_checkpoint_files(version, LogFileKind.CHECKPOINT_MULTIPART, metas))
    return complete


def _checkpoint_files(version: int, kind: LogFileKind, metas: Sequence[ObjectMeta]) -> CheckpointFiles:
    paths, sizes = tuple(meta.path for meta in metas), tuple(meta.size_bytes for meta in metas)
    return CheckpointFiles(version, kind, paths, sizes, tuple(meta.modified_ms for meta in metas))
