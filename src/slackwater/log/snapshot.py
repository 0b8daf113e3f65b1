"""A version of a table read from its log, without Spark."""

from __future__ import annotations

import copy
import datetime as dt
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

import pyarrow as pa
from typing_extensions import Self

from slackwater.errors import (
    CheckpointFallbackWarning,
    CommitOwnerRequired,
    CorruptCheckpoint,
    CorruptLog,
    InvalidArgument,
    InvalidSchema,
    MissingCommit,
    VersionNotFound,
)
from slackwater.log.files.commits import ParsedCommit
from slackwater.log.files.file_actions import ADD_SCHEMA, file_keys, total_size
from slackwater.log.files.last_checkpoint import read_last_checkpoint
from slackwater.log.files.segment import (
    CheckpointFiles,
    CommitFile,
    LogListing,
    LogSegment,
    classic_checkpoint,
    load_segment,
)
from slackwater.log.files.version_checksum import VersionChecksum, contradiction, read_version_checksum
from slackwater.log.history import CommitHistory, after_last_commit_allowed, to_ms
from slackwater.log.live_files import CheckpointAdds, LiveFiles, live_tombstones
from slackwater.log.replay import LogState, advance, advance_by, replay, replay_first
from slackwater.log.table import Table
from slackwater.owner.api.owner_registry import OwnedTable
from slackwater.protocol.actions.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from slackwater.protocol.actions.commit_timestamps import has_in_commit_timestamp
from slackwater.protocol.actions.file_names import LOG, crc_name
from slackwater.protocol.features.column_mapping import data_columns
from slackwater.protocol.features.in_commit_timestamps import is_enabled
from slackwater.protocol.features.managed_commits import needs_owner_to_read
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import ICT_ENABLEMENT_VERSION, TableProperties
from slackwater.protocol.schema.schema import StructType
from slackwater.storage.store import ObjectStore

T = TypeVar("T")


class LogSnapshot:
    """A version of a table: the state of the log, with file actions read on demand.

    Immutable: `update` returns the snapshot of the newest version and shares the data already read.
    """

    def __init__(self, table: Table, segment: LogSegment, state: LogState, base: CheckpointAdds) -> None:
        self._table = table
        self._store = table.store
        self._segment = segment
        self._state = state
        self._base = base
        self._live = LiveFiles(base, state.newest)
        self._damaged: frozenset[CheckpointFiles] = frozenset()
        self._checksum: VersionChecksum | None = None
        self._is_checked = not segment.has_checksum

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        version: int | None = None,
        timestamp: dt.datetime | dt.date | str | int | None = None,
        storage_options: Mapping[str, str] | None = None,
        strict: bool | None = None,
        allow_after_last_commit: bool = False,
        allow_paths_outside_root: bool = True,
        published_only: bool = False,
    ) -> Self:
        """Return the snapshot of the table at `path`: the newest version, or the version of `version` or `timestamp`.

        Raises TableNotFound, VersionNotFound, TimestampOutOfRange, UnsupportedFeature, CorruptTable and its kinds,
        InvalidArgument, PathNotAllowed. See `slackwater.Snapshot.load` for the parameters and the conditions of the
        errors.
        """
        allowed = after_last_commit_allowed(allow_after_last_commit, strict)
        table = Table.at(path, storage_options, allow_paths_outside_root, published_only)
        return cls.open(table, version, timestamp, allowed)

    @classmethod
    def open(
        cls,
        table: Table | ObjectStore,
        version: int | None = None,
        timestamp: dt.datetime | dt.date | str | int | None = None,
        allow_after_last_commit: bool = False,
    ) -> Self:
        """Return the snapshot of an open `table`, or of the table in a store; see `load`."""
        if version is not None and timestamp is not None:
            raise InvalidArgument(
                "time travel needs a version or a timestamp, not both", error_class="DELTA_ONEOF_IN_TIMETRAVEL"
            )
        if version is not None and (isinstance(version, bool) or not isinstance(version, int) or version < 0):
            raise InvalidArgument(
                f"a version is a whole number from 0, found {version!r}", error_class="DELTA_VERSION_INVALID"
            )
        if not isinstance(table, Table):
            table = Table(table)
        if table.branch is not None and version is None and timestamp is None:
            return table.branch.newest  # type: ignore[no-any-return]
        list_log = table.list_log
        if timestamp is not None:
            list_log = _SharedListing(table).list_log
            branch = table.branch
            newest = branch.newest.configuration if branch else _load(table, None, list_log=list_log)[1].configuration
            history = CommitHistory(table.store, list_log(0), newest)
            version = history.version_at(to_ms(timestamp), allow_after_last_commit)
        segment, state, _ = _load(table, version, list_log=list_log)
        return cls(table, segment, state, CheckpointAdds(state.checkpoint, table.store))

    def update(self, version: int | None = None, most_commits: int | None = None) -> Self:
        """Return the snapshot of the newest version, `self` if already the newest. Reads only new commits.

        `version`: this version instead of the newest one. For more than `most_commits` new commits, the table is opened
        from its newest checkpoint instead. Raises as `load` does.
        """
        if self._table.branch is not None:
            return self._table.branch.newest  # type: ignore[no-any-return]
        if version is not None and most_commits is not None and version - self.version > most_commits:
            return type(self).open(self._table, version)
        self._table.find_owner(self.configuration)
        listing = self._table.list_log(self.version + 1)
        newest = listing.latest_version if version is None else version
        if version is None and (newest is None or newest <= self.version):
            self._table.require_catalog(self.configuration)
            return self
        if most_commits is not None and (newest or 0) - self.version > most_commits:
            return type(self).open(self._table, version)
        if newest is None or any(v not in listing.commits for v in range(self.version + 1, newest + 1)):
            # The log was cleaned up in between, and now starts with a checkpoint.
            return type(self).open(self._table, version)
        commits = tuple(listing.commits[v] for v in range(self.version + 1, newest + 1))
        state = advance(self._state, commits, self._store)
        has_checksum = newest in listing.checksums
        segment = LogSegment(newest, self._segment.checkpoint, self._segment.commits + commits, has_checksum)
        found = self._other(segment, state, self._base)
        found._damaged = self._damaged
        if self._table.find_owner(state.configuration):
            return found.update(version)
        self._table.require_catalog(state.configuration)
        return found

    def from_last_checkpoint(self) -> Self | None:
        """Return this version, built from the newer checkpoint named by `_last_checkpoint`, without listing the log.

        None if there is no newer classic checkpoint, or if not all commits after it are known. Raises as `load` does.
        """
        hint, own = read_last_checkpoint(self._store), self._segment.checkpoint
        if hint is None or hint.parts is not None or hint.version > self.version:
            return None
        commits = tuple(commit for commit in self._segment.commits if commit.version > hint.version)
        num_after = sum(commit.end_version - commit.version + 1 for commit in commits)
        is_newer = own is None or hint.version > own.version
        found = classic_checkpoint(self._store, hint.version) if is_newer else None
        if found is None or found in self._damaged or num_after != self.version - hint.version:
            return None
        segment, state = replay(LogSegment(self.version, found, commits, self._segment.has_checksum), self._store)
        newer = self._other(segment, state, CheckpointAdds(state.checkpoint, self._store))
        newer._damaged = self._damaged
        return newer

    def without_files(self) -> Self:
        """Return the same version without the files and statistics that this snapshot has read."""
        base = CheckpointAdds(self._state.checkpoint, self._store)
        found = self._other(self._segment, self._state, base)
        found._damaged = self._damaged
        return found

    def with_commits(self, commits: Sequence[ParsedCommit]) -> Self:
        """Return the snapshot after `commits`, which follow this version without a gap. Reads nothing.

        Raises InvalidArgument for a gap, UnsupportedFeature if a commit requires an unsupported feature, CorruptLog.
        """
        if not commits:
            return self
        if [c.version for c in commits] != list(range(self.version + 1, self.version + 1 + len(commits))):
            raise InvalidArgument(
                f"expected commits from version {self.version + 1} on without a gap, found "
                f"{[c.version for c in commits]}"
            )
        state = advance_by(self._state, commits, self._store)
        files = tuple(commit.file for commit in commits)
        segment = LogSegment(state.version, self._segment.checkpoint, self._segment.commits + files)
        found = self._other(segment, state, self._base)
        found._damaged = self._damaged
        return found

    def _other(self, segment: LogSegment, state: LogState, base: CheckpointAdds) -> Self:
        """Return a snapshot of this table with other content."""
        return type(self)(self._table, segment, state, base)

    @classmethod
    def of_first_commit(cls, table: Table, commit: ParsedCommit) -> Self:
        """Return the snapshot of version 0 of `table` from its parsed `commit`. Raises as `with_commits` does."""
        segment = LogSegment(0, None, (commit.file,))
        return cls(table, segment, replay_first(commit, table.store), CheckpointAdds(None, table.store))

    def with_table(self, table: Table) -> Self:
        """Return the same version, accessed through `table`."""
        found = copy.copy(self)
        found._table = table
        return found

    def with_configuration(self, configuration: TableConfiguration) -> Self:
        """Return the same version with the protocol, schema and properties of `configuration`.

        For example, `configuration` comes from an older version.
        """
        found = copy.copy(self)
        found._state = replace(self._state, configuration=configuration)
        return found

    @property
    def table(self) -> Table:
        """The table of this version."""
        return self._table

    @property
    def store(self) -> ObjectStore:
        """The store of the table's files."""
        return self._store

    @property
    def segment(self) -> LogSegment:
        """The log files of this version."""
        return self._segment

    @property
    def state(self) -> LogState:
        """The reconciled actions of the log. File actions of the checkpoint are read on demand."""
        return self._state

    @property
    def version(self) -> int:
        """The version number."""
        return self._state.version

    @property
    def protocol(self) -> Protocol:
        """The reader and writer requirements of this version."""
        return self.configuration.protocol

    @property
    def metadata(self) -> Metadata:
        """Schema, partitioning and configuration."""
        return self.configuration.metadata

    @property
    def configuration(self) -> TableConfiguration:
        """Protocol and metadata in one object, shared by versions with equal values."""
        return self._state.configuration

    @property
    def properties(self) -> TableProperties:
        """The table properties, with case-insensitive keys."""
        return self.configuration.properties

    @property
    def schema(self) -> StructType:
        """The schema by display names. Raises InvalidSchema."""
        try:
            return self.configuration.schema
        except InvalidSchema as error:
            raise InvalidSchema(f"{self._store.root_url}, version {self.version}: {error}") from error

    @property
    def column_mapping_mode(self) -> str:
        """`none`, `name` or `id`."""
        return self.configuration.column_mapping_mode

    @property
    def transactions(self) -> Mapping[str, SetTransaction]:
        """The newest transaction identifier of each application, by application id."""
        return dict(self._state.transactions)

    @property
    def domain_metadata(self) -> Mapping[str, DomainMetadata]:
        """The metadata domains not removed, by name."""
        return dict(self._state.domains)

    @cached_property
    def timestamp_ms(self) -> int:
        """Commit time of this version in ms since the epoch: in-commit timestamp or file time."""
        commits = self._segment.commits
        # A compaction may contain the commitInfo of any of its commits.
        info = (self._state.last_commit_info if commits and not commits[-1].compacted else None) or {}
        if is_enabled(self.configuration) and isinstance(info.get("inCommitTimestamp"), int):
            return int(info["inCommitTimestamp"])
        return self.history().timestamp_ms(self.version)

    def history(self) -> CommitHistory:
        """Return the commits currently in the log, with their times."""
        return CommitHistory(self._store, self._table.list_log(), self.configuration)

    def history_up_to(self, newest: int | None = None) -> CommitHistory:
        """Return the commits up to this version still in the log: all, or at least the `newest` ones.

        Lists only the newest commits if they have in-commit timestamps, because file times depend on earlier commits.
        """
        start = 0 if newest is None else max(0, self.version + 1 - newest)
        has_stamps = is_enabled(self.configuration) and has_in_commit_timestamp(
            start, self.properties.integer(ICT_ENABLEMENT_VERSION)
        )
        listing = self._table.list_log(start if has_stamps else 0)
        seen = {version: commit for version, commit in listing.commits.items() if version <= self.version}
        return CommitHistory(self._store, replace(listing, commits=seen), self.configuration)

    def live_files(self, columns: Sequence[str] = ADD_SCHEMA.names) -> pa.Table:
        """Return one row per live file: `columns` of ADD_SCHEMA, or `stats_parsed` and paths below it if present.

        Sizes are in bytes, times in ms. `stats` is filled from `stats_parsed` if the checkpoint has no JSON statistics.
        If `columns` contains `stats_parsed` or paths below it, both columns are returned unchanged. If the checkpoint
        is damaged, an older checkpoint and the commits are read instead, with a CheckpointFallbackWarning. Raises
        CorruptCheckpoint if no fallback is possible, CorruptLog if the version's checksum contradicts the log.
        """

        names = list(dict.fromkeys(columns))
        if "stats" not in names or any(name.split(".")[0] == "stats_parsed" for name in names):
            return self._read_live(names)
        files = self._read_live(list(dict.fromkeys([*names, "path", "deletionVector"])))
        return self._with_all_stats(files).select(names)

    def _with_all_stats(self, files: pa.Table) -> pa.Table:
        """Return `files` with missing `stats` filled from the statistics columns of the checkpoint.

        `files` is a subset of the live files with `path`, `deletionVector` and `stats`. Memory O(live files). Raises as
        `live_files` does.
        """
        if self._state.checkpoint is None or not files["stats"].null_count:
            return files
        known = self._read_live(["path", "deletionVector", "stats_parsed"])
        if "stats_parsed" not in known.column_names:
            return files
        # Imported here, because the files of commits have JSON statistics.
        import pyarrow.compute as pc

        from slackwater.stats.stats_parsed import conform_stats, stats_to_json, stats_type

        rows = pc.index_in(file_keys(files), file_keys(known).combine_chunks())
        # The types in the file may not distinguish timestamps with and without a time zone.
        kind = stats_type(data_columns(self.schema, self.metadata.partition_columns, self.column_mapping_mode))
        parsed = conform_stats(known["stats_parsed"].combine_chunks().take(rows.combine_chunks()), kind)
        texts = pc.coalesce(files["stats"].combine_chunks().cast(pa.string()), stats_to_json(parsed))
        return files.set_column(files.schema.get_field_index("stats"), "stats", texts)

    def _read_live(self, columns: Sequence[str]) -> pa.Table:
        def read() -> pa.Table:
            files = self._live.read(columns)
            self.compare_with_checksum(files)
            return files

        return self.retry_without_damaged_checkpoint(read)

    def checksum(self) -> VersionChecksum | None:
        """Return the checksum of the version from its file, read once. None if absent or unusable.

        The file may still appear later. Raises StorageError.
        """
        if self._checksum is None:
            self._checksum = read_version_checksum(self._store, self.version, self.configuration)
        return self._checksum

    def highest_base_row_id(self) -> int | None:
        """Return the highest `baseRowId` of live and removed files, in the checkpoint and in later commits.

        None if no file has a `baseRowId`. Raises as `live_files` does.
        """

        def highest() -> int | None:
            import pyarrow.compute as pc

            columns = (
                self._base.read(["baseRowId"])["baseRowId"],
                self._base.removed_row_ids(),
                self._state.newest["baseRowId"],
            )
            found = [top for column in columns if (top := pc.max(column).as_py()) is not None]
            return max(found, default=None)

        return self.retry_without_damaged_checkpoint(highest)

    def tombstones(self) -> pa.Table:
        """Return the retained tombstones: columns of REMOVE_SCHEMA, times in ms.

        For a damaged checkpoint, falls back or raises like `live_files`.
        """
        return self.retry_without_damaged_checkpoint(
            lambda: live_tombstones(self._state.checkpoint, self._state.newest, self._store)
        )

    def retry_without_damaged_checkpoint(self, read: Callable[[], T]) -> T:
        """Return the result of `read`, retried without each checkpoint found damaged. Raises CorruptCheckpoint."""
        while True:
            try:
                return read()
            except CorruptCheckpoint as error:
                self._without_checkpoint(error)

    def _without_checkpoint(self, error: CorruptCheckpoint) -> None:
        damaged = self._segment.checkpoint
        if damaged is None:
            raise error
        without = self._damaged | {damaged}
        self._segment, self._state, self._damaged = _fall_back(self._table, self.version, without, error)
        self._base = CheckpointAdds(self._state.checkpoint, self._store)
        self._live = LiveFiles(self._base, self._state.newest)
        self._is_checked = not self._segment.has_checksum

    def compare_with_checksum(self, files: pa.Table) -> None:
        """Raise if the version's checksum contradicts `files`, all live files.

        This detects a commit truncated at the end of a line. Raises CorruptCheckpoint, or CorruptLog if the version is
        built without a checkpoint.
        """
        has_sizes = "size" in files.column_names and not files["size"].null_count
        if self._is_checked:
            return
        checksum = self.checksum()
        if checksum is not None:
            size = total_size(files) if has_sizes else None
            found = contradiction(checksum, self.configuration, files.num_rows, size)
            if found is not None:
                # CorruptCheckpoint causes a retry without the checkpoint: the commits alone may match the checksum.
                kind = CorruptLog if self._segment.checkpoint is None else CorruptCheckpoint
                raise kind(
                    f"{self._store.root_url}: the checksum {LOG}/{crc_name(self.version)} contradicts the log of "
                    f"version {self.version}: {found}. A file of the log is truncated, or the checksum is wrong. "
                    "Restore the log, read an older version, or move the checksum away if you trust the log"
                )
        self._is_checked = has_sizes or checksum is None


_Loaded = tuple[LogSegment, LogState, frozenset[CheckpointFiles]]
# Limit of damaged checkpoints, because concurrent writers may add new ones on every retry.
_MOST_DAMAGED = 1_000


class _SharedListing:
    """Lists the log of a table once for the reads of one call, and again if the table has another owner since."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._start_version = 0
        self._listing: LogListing | None = None
        self._owned: OwnedTable | None = None

    def list_log(self, start_version: int = 0) -> LogListing:
        """Return a listing from `start_version` on, or from an earlier version on."""
        owned = self._table.owned
        if self._listing is None or start_version < self._start_version or owned is not self._owned:
            self._listing = self._table.list_log(start_version)
            self._start_version, self._owned = start_version, self._table.owned
        return self._listing


def _load(
    table: Table,
    version: int | None,
    without: frozenset[CheckpointFiles] = frozenset(),
    list_log: Callable[[int], LogListing] | None = None,
) -> _Loaded:
    """Return the segment and the state of `version`, and the excluded checkpoints: `without` and damaged ones."""
    list_log = list_log or table.list_log
    damage: list[CorruptCheckpoint] = []
    while True:
        try:
            segment = load_segment(table.store, version, without, list_log)
        except VersionNotFound as missing:
            if damage:
                raise _too_short(damage[-1]) from missing
            # The version may be ratified but not backfilled yet.
            if version is None or without or table.owned is not None or not _finds_owner(table):
                raise
            continue
        except MissingCommit as missing:
            if damage:
                raise _too_short(damage[-1]) from missing
            raise
        try:
            segment, state = replay(segment, table.store)
        except CorruptCheckpoint as error:
            # Each iteration excludes one more checkpoint, so that the loop ends.
            if segment.checkpoint is None or len(without) >= _MOST_DAMAGED:
                raise
            version, without = segment.version, without | {segment.checkpoint}
            damage.append(error)
            continue
        if table.find_owner(state.configuration):
            continued = _continued(table, version, without, segment, state, list_log)
            if continued is None:
                continue
            segment, state = continued
        _require_catalog(table, version, state)
        for found in damage:
            _warn(found)
        return segment, state, without


def _continued(
    table: Table,
    version: int | None,
    without: frozenset[CheckpointFiles],
    segment: LogSegment,
    state: LogState,
    list_log: Callable[[int], LogListing],
) -> tuple[LogSegment, LogState] | None:
    """Return the segment and the state extended by the owner's commits, None if the files already read have changed."""
    whole = load_segment(table.store, version, without, list_log)
    count = len(segment.commits)
    if whole.checkpoint != segment.checkpoint or _contents(whole.commits[:count]) != _contents(segment.commits):
        return None
    return whole, advance(state, whole.commits[count:], table.store) if whole.commits[count:] else state


def _require_catalog(table: Table, version: int | None, state: LogState) -> None:
    """Raise CommitOwnerRequired if only a catalog not open here knows the commits. `version` is the requested version.

    A released table has such versions, but its newest version, in the file system, has no catalog.
    """
    try:
        table.require_catalog(state.configuration)
    except CommitOwnerRequired:
        if version is None:
            raise
        newest = _load(Table(table.store, published_only=True), None)[1].configuration
        # An earlier adoption has another table id than the present one.
        if needs_owner_to_read(newest) and not table.find_owner(newest):
            raise


def _contents(commits: Sequence[CommitFile]) -> list[tuple[int, int, int]]:
    return [(commit.version, commit.end_version, commit.size_bytes) for commit in commits]


def _finds_owner(table: Table) -> bool:
    """Return whether the newest backfilled version names an owner. The owner may have more commits."""
    _load(table, None)
    return table.owned is not None


def _fall_back(table: Table, version: int, without: frozenset[CheckpointFiles], error: CorruptCheckpoint) -> _Loaded:
    if len(without) > _MOST_DAMAGED:
        raise error
    try:
        loaded = _load(table, version, without)
    except (MissingCommit, VersionNotFound) as missing:
        raise _too_short(error) from missing
    _warn(error)
    return loaded


def _too_short(error: CorruptCheckpoint) -> CorruptCheckpoint:
    return CorruptCheckpoint(f"{error}. Without this checkpoint, the log does not reach back far enough")


def _warn(error: CorruptCheckpoint) -> None:
    message = f"{error}. An older checkpoint and the commits are read instead"
    warnings.warn(message, CheckpointFallbackWarning, stacklevel=5)
