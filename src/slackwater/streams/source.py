"""Streaming source for a table: start offset, end offset of a micro-batch, and the files between two offsets.

Source: delta-spark's DeltaSource, with the same offsets and rules.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.errors import CorruptTable, MissingCommit, OperationNotAllowed, TimestampOutOfRange, VersionNotFound
from slackwater.log.files.file_actions import ADD_SCHEMA
from slackwater.log.files.managed_log import read_commits
from slackwater.log.files.segment import CommitFile, LogListing
from slackwater.log.history import commit_actions, format_ms
from slackwater.log.table import Table
from slackwater.protocol.actions.actions import Metadata, Protocol, parse_commit
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.features.table_features import validate_readable
from slackwater.scan.file_changes import INSERT, FileChange, require_feed
from slackwater.scan.snapshot import Snapshot
from slackwater.streams.backlog_metrics import CommitsAhead, Outstanding
from slackwater.streams.offsets import BASE_INDEX, BEHIND_SCHEMA_CHANGE, SCHEMA_CHANGE, SourceOffset
from slackwater.streams.options import LATEST, StreamOptions
from slackwater.streams.schema_changes import (
    differs,
    require_partitions,
    require_readable,
    require_same_columns,
)
from slackwater.streams.schema_log import SchemaLog
from slackwater.streams.version_files import (
    VersionFiles,
    appended_files,
    changed_files,
    sizes_of_files,
    snapshot_files,
)

_KEPT_VERSIONS = 64
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BatchFiles:
    """Files of a micro-batch from one version: rows of `files`, or `changes`. `timestamp_ms` is the commit time."""

    version: int
    files: pa.Table | None = None
    changes: tuple[FileChange, ...] = ()
    timestamp_ms: int = 0


class TableSource:
    """The source of a running stream. Not thread-safe.

    Rows are read with `configuration`, the configuration of `version`. An incompatible commit raises an error. With a
    `schema_log`, the stream ends before the commit instead, and the next run reads with the new schema. `columns` of
    ADD_SCHEMA are the required columns of files.
    """

    def __init__(
        self,
        table: Table,
        configuration: TableConfiguration,
        version: int,
        options: StreamOptions,
        columns: Sequence[str] = tuple(ADD_SCHEMA.names),
        schema_log: SchemaLog | None = None,
    ) -> None:
        self._table = table
        self._schema_log = schema_log
        self._is_tracked = schema_log is None
        self._is_start_read = schema_log is not None
        self._configuration = configuration
        self._protocol = configuration.protocol
        self._version = version
        self._options = options
        self._columns = columns
        self._last: int | None = None
        self._first: SourceOffset | None = None
        self._issued: set[SourceOffset] = set()
        self._began_with: VersionFiles | None = None
        self._commits: OrderedDict[int, VersionFiles] = OrderedDict()
        self._times: dict[int, int] = {}
        self._at: SourceOffset | None = None
        self._seen: _ListedLog | None = None
        self._ahead = CommitsAhead()
        self._table.find_owner(configuration)

    @property
    def table_id(self) -> str:
        """The id of the table."""
        return self._configuration.metadata.id

    def first(self) -> SourceOffset:
        """Return the start offset of a stream without a checkpoint. Raises VersionNotFound, TimestampOutOfRange."""
        if self._first is None:
            begun = self._begin()
            self._first = replace(begun, ordered_by=self._options.event_time) if begun.is_initial else begun
        self._track(self._first)
        return self._first

    def newest(self) -> SourceOffset:
        """Return the offset after all current files."""
        return SourceOffset(self.table_id, self._newest() + 1)

    def stop_at_newest(self) -> None:
        """Limit the stream to the current newest version. Later commits are ignored."""
        self._last = self._newest()

    def latest(self, start: SourceOffset, max_files: int | None, max_bytes: int | None) -> SourceOffset:
        """Return the end offset of a micro-batch from `start` with limited files and bytes, `start` if nothing is new.

        A file that exceeds `max_bytes` is included as the last one. Raises UnsupportedFeature for a commit not accepted
        by the stream's options, and every error of reading.
        """
        self._require_same_table(start)
        self._require_same_order(start)
        self._track(start)
        self._require_start(start)
        budget = _Budget(max_files, max_bytes)
        found = self._advance(start, budget)
        if start == self._first and self._options.starting_version == LATEST and found != start:
            found = replace(found, started=start.version)
        self._issued.add(found)
        self._at = found
        return found

    def outstanding(self) -> Outstanding | None:
        """Return the files left by the last planned micro-batch, relative to the table at that time; None if unknown.

        Reads later commits for this purpose, a few at a time. Never raises.
        """
        if self._at is None:
            return None
        try:
            return self._outstanding(self._at)
        except Exception as error:  # noqa: BLE001  (the stream raises the error when it reaches the commit)
            _log.debug("%s: what is outstanding is not known: %s", self._table.root_url, error)
            return None

    def files(self, start: SourceOffset, end: SourceOffset) -> list[BatchFiles]:
        """Return the files after `start` up to `end`, by version. Raises as `latest`."""
        self._require_same_table(start)
        self._require_same_table(end)
        self._require_same_order(end)
        self._track(start)
        self._require_start(start)
        start = self._as_logged(start, end)
        found: list[BatchFiles] = []
        if start.is_initial:
            initial = self._initial(start.version)
            is_part = end.is_initial and end.version == start.version
            found.append(self._batch(initial, start.index, end.index if is_part else len(initial) - 1, True))
            if is_part:
                return _with_files(found)
            start = SourceOffset(start.table_id, start.version + 1)
        last = end.version - 1 if end.index <= BASE_INDEX else end.version
        if start.version > last:
            return _with_files(found)
        listing = self._table.list_log(start.version)
        for version in range(start.version, last + 1):
            self._require_kept(listing, version)
            commit = self._commit(version, listing)
            after = max(start.index, BASE_INDEX) if version == start.version else BASE_INDEX
            if commit is not None:
                is_part = version == end.version
                found.append(self._batch(commit, after, end.index if is_part else len(commit) - 1))
        return _with_files(found)

    def committed(self, end: SourceOffset) -> None:
        """Handle the end of a micro-batch. If `end` is before a schema change, record the new schema for the next run.

        Raises OperationNotAllowed after the schema is recorded, because the query must be started again to use the
        schema.
        """
        if self._schema_log is None or not end.is_amid_schema_change or end.version <= self._version:
            return
        self._evolve(end.version)

    def _require_same_order(self, offset: SourceOffset) -> None:
        """Raise OperationNotAllowed if `offset` is amid the initial files, in a different order from the options."""
        if not offset.is_initial or offset.index <= BASE_INDEX or offset.ordered_by == self._options.event_time:
            return
        said = "the order of their writing" if offset.ordered_by is None else f"the order of {offset.ordered_by}"
        raise OperationNotAllowed(
            f"{self._table.root_url}: the query still reads its initial files, in {said}. Set withEventTimeOrder and "
            "eventTimeColumn as before until these files are read, or begin with a new checkpoint"
        )

    def _track(self, start: SourceOffset) -> None:
        """Create the first entry of the schema log, if missing.

        The stream's configuration must equal the configuration at `start`. Otherwise, the one at `start` is recorded,
        and OperationNotAllowed is raised.
        """
        if self._is_tracked or self._schema_log is None:
            return
        if self._schema_log.newest() is None:
            version = min(start.version, self._newest())
            if differs(self._configuration, Snapshot.open(self._table, version).configuration):
                self._evolve(version)
            self._schema_log.append(version, self._configuration)
            self._version = version
        self._is_tracked = True

    def _require_start(self, start: SourceOffset) -> None:
        """Check the configuration at the start of this run. Raises as `require_readable`.

        Later changes are checked in their commits, but the configuration at the start may be in no commit of this run.
        """
        if self._is_start_read or start.is_initial:
            return
        version = min(start.version, self._newest())
        try:
            at_start = Snapshot.open(self._table, version).configuration if version != self._version else None
        except (VersionNotFound, MissingCommit):
            # `_require_kept` reports missing commits.
            at_start = None
        if at_start is not None:
            self._protocol = at_start.protocol
            require_readable(self._configuration, self._version, at_start, version, self._table.root_url)
        self._is_start_read = True

    def _evolve(self, version: int) -> None:
        changed = Snapshot.open(self._table, version).configuration
        if self._schema_log is not None:
            self._schema_log.append(version, changed)
        raise OperationNotAllowed(
            f"{self._table.root_url}: version {version} of the table has another schema, protocol or configuration "
            "than the stream reads with. It is recorded at schemaTrackingLocation. Start the query again, which then "
            f"reads with it\nthe new schema: {changed.schema}",
            error_class="DELTA_STREAMING_METADATA_EVOLUTION",
        )

    def _begin(self) -> SourceOffset:
        options = self._options
        if options.starting_version == LATEST:
            return SourceOffset(self.table_id, self._newest() + 1)
        snapshot = Snapshot.open(self._table, self._last)
        self._require_id(snapshot.metadata.id)
        if options.starting_version is None and options.starting_ms is None:
            return SourceOffset(self.table_id, snapshot.version, is_initial=True)
        if options.starting_ms is not None:
            require_commit_from(snapshot, options.starting_ms)
            version = snapshot.history().version_from(options.starting_ms, snapshot.version)
        else:
            version = int(options.starting_version or 0)
            _require_there(snapshot, version)
        if options.change_feed:
            require_feed(Snapshot.open(self._table, version).configuration, version, self._table.root_url)
        return SourceOffset(self.table_id, version)

    def _as_logged(self, start: SourceOffset, end: SourceOffset) -> SourceOffset:
        """Return the start offset of the micro-batch ending at `end`.

        A logged but incomplete first micro-batch is repeated from a start offset computed again. The table may have
        changed since, so the start is derived from `end`.
        """
        if start != self._first or end in self._issued:
            return start
        if end.started is not None:
            return replace(start, version=end.started)
        if not start.is_initial:
            return start
        return replace(start, version=end.version if end.is_initial else end.version - 1)

    def _advance(self, start: SourceOffset, budget: _Budget) -> SourceOffset:
        at = replace(start, started=None)
        if at.index == SCHEMA_CHANGE:
            return replace(at, index=BEHIND_SCHEMA_CHANGE)
        if at.index == BEHIND_SCHEMA_CHANGE:
            if self._schema_log is not None and at.version > self._version:
                return at
            at = replace(at, index=BASE_INDEX)
        if at.is_initial:
            initial = self._initial(at.version)
            index = budget.take(initial, at.index)
            if index < len(initial) - 1:
                return at if index == at.index else replace(at, index=index)
            at = SourceOffset(at.table_id, at.version + 1)
        else:
            # Frees the initial snapshot, which may have many files and is not needed again.
            self._began_with = None
        seen = self._look(at.version)
        listing = seen.listing
        for version in range(at.version, seen.newest + 1):
            self._require_kept(listing, version)
            if at.index == BASE_INDEX and self._changes_schema(version, listing):
                return replace(at, index=SCHEMA_CHANGE)
            commit = self._commit(version, listing)
            if commit is not None:
                index = budget.take(commit, at.index)
                if index < len(commit) - 1:
                    return replace(at, index=index)
            at = SourceOffset(at.table_id, version + 1)
        return at

    def _outstanding(self, at: SourceOffset) -> Outstanding | None:
        seen = self._seen
        if seen is None or seen.first > at.version:
            seen = self._look(at.version)
        left, first = Outstanding(), at.version
        held = self._began_with if at.is_initial else self._commits.get(at.version)
        if held is not None and held.version == at.version:
            left, first = Outstanding.of(held, max(at.index, BASE_INDEX)), first + 1
        elif at.is_initial or at.index > BASE_INDEX:
            return None
        if first <= seen.newest:
            self._require_kept(seen.listing, first)
        ahead = self._ahead.outstanding(first, seen.newest, seen.listing, self._looked_at)
        return None if ahead is None else left + ahead

    def _looked_at(self, commits: Sequence[CommitFile]) -> Iterator[VersionFiles]:
        """Yield the files of commits ahead of the stream, without a check against the stream's options."""
        for file, data in zip(commits, read_commits(self._table.store, commits), strict=True):
            where = f"{self._table.root_url}/{file.path}"
            actions = parse_commit(data, where)
            if self._options.change_feed:
                yield changed_files(self._newest_seen, actions, file.version, where, self._options)
            else:
                yield sizes_of_files(actions, file.version, where, self._options)

    def _newest(self) -> int:
        if self._last is not None:
            return self._last
        return self._look(self._version if self._at is None else self._at.version).newest

    def _look(self, version: int) -> _ListedLog:
        """List the log from `version`, the next required version, and find the newest version.

        Raises VersionNotFound if the table ends before the versions already read.
        """
        # Includes the previous version, to distinguish a deleted log from a log without new commits.
        listing = self._table.list_log(max(0, version - 1))
        newest = listing.latest_version
        if newest is None or newest < version - 1:
            found = Snapshot.open(self._table)
            self._require_id(found.metadata.id)
            if found.version < version - 1:
                raise VersionNotFound(
                    f"{self._table.root_url}: the stream has read the table up to version {version - 1}, but its "
                    f"newest version is {found.version}. The table was restored from a copy, or recreated. Begin with "
                    "a new checkpoint",
                    error_class="DELTA_STREAMING_TRAILING_COMMIT_MISSING",
                )
            newest = found.version
        newest = newest if self._last is None else min(newest, self._last)
        self._seen = _ListedLog(version, listing, newest)
        return self._seen

    def _require_kept(self, listing: LogListing, version: int) -> None:
        """Raise VersionNotFound if the commit of `version` was cleaned up, unless `fail_on_data_loss` is False."""
        if version in listing.commits or version in self._commits or not self._options.fail_on_data_loss:
            return
        oldest = min((each for each in listing.commits if each > version), default=None)
        raise VersionNotFound(
            f"{self._table.root_url}: the stream needs the commit of version {version}, but log cleanup removed it "
            "before it was read "
            f"(delta.logRetentionDuration){'' if oldest is None else f', and the log begins with {oldest}'}. Begin "
            "with a new checkpoint, or set the option failOnDataLoss to false to skip what is lost",
            error_class="DELTA_MISSING_FILES_UNEXPECTED_VERSION",
        )

    def _initial(self, version: int) -> VersionFiles:
        if self._began_with is None or self._began_with.version != version:
            snapshot = Snapshot.open(self._table, version)
            self._require_id(snapshot.metadata.id)
            require_readable(self._configuration, self._version, snapshot.configuration, version, self._table.root_url)
            if self._options.change_feed:
                self._times[version] = snapshot.timestamp_ms
            self._began_with = snapshot_files(snapshot, self._options, self._columns)
        return self._began_with

    def _changes_schema(self, version: int, listing: LogListing) -> bool:
        """Return whether the commit changes the configuration and the schema log must follow the change."""
        if self._schema_log is None or version <= self._version or version not in listing.commits:
            return False
        where = f"{self._table.root_url}/{listing.commits[version].path}"
        changed = self._configuration
        for action in commit_actions(self._table.store, listing.commits[version]):
            if action.get("protocol") is not None:
                changed = changed.changed(Protocol.from_json(action["protocol"], where))
            if action.get("metaData") is not None:
                changed = changed.changed(metadata=Metadata.from_json(action["metaData"], where))
        self._require_id(changed.metadata.id)
        return differs(self._configuration, changed)

    def _commit(self, version: int, listing: LogListing) -> VersionFiles | None:
        """Return the files of a commit, cached for task planning; None if the commit is missing."""
        if version in self._commits:
            return self._commits[version]
        if version not in listing.commits:
            return None
        actions = commit_actions(self._table.store, listing.commits[version])
        where = f"{self._table.root_url}/{listing.commits[version].path}"
        self._require_fit(actions, version, where)
        if self._options.change_feed:
            found = self._changes(actions, version, where)
        else:
            found = appended_files(actions, version, where, self._options)
        self._commits[version] = found
        while len(self._commits) > _KEPT_VERSIONS:
            self._commits.popitem(last=False)
        return found

    def _changes(self, actions: list[dict[str, Any]], version: int, where: str) -> VersionFiles:
        if version not in self._times:
            # Needs the whole log, because file times are made strictly increasing from its first commit on.
            self._newest_seen = self._newest_seen.update()
            history = self._newest_seen.history()
            self._times = {each: history.timestamp_ms(each) for each in history.versions if each >= version}
        found = changed_files(self._newest_seen, actions, version, where, self._options)
        require_partitions(self._configuration, found.changes, version, self._table.root_url)
        is_new = version > 0 and any(action.get("metaData") is not None for action in actions)
        if is_new and any(change.kind != INSERT for change in found.changes):
            then = Snapshot.open(self._table, version - 1).configuration
            require_same_columns(self._configuration, then, version, self._table.root_url)
        return found

    @cached_property
    def _newest_seen(self) -> Snapshot:
        return Snapshot.open(self._table)

    def _require_fit(self, actions: list[dict[str, Any]], version: int, where: str) -> None:
        for action in actions:
            if action.get("protocol") is not None:
                self._protocol = Protocol.from_json(action["protocol"], where)
                validate_readable(self._protocol, where)
        for action in actions:
            if action.get("metaData") is None:
                continue
            metadata = Metadata.from_json(action["metaData"], where)
            self._require_id(metadata.id)
            changed = self._configuration.changed(self._protocol, metadata)
            require_readable(self._configuration, self._version, changed, version, self._table.root_url)
            if self._options.change_feed:
                require_feed(changed, version, self._table.root_url)

    def _require_same_table(self, offset: SourceOffset) -> None:
        if offset.table_id != self.table_id:
            raise CorruptTable(
                f"{self._table.root_url} is the table with the id {self.table_id}, but the stream's checkpoint is of "
                f"the table with the id {offset.table_id}. The table was recreated, or the checkpoint belongs to "
                "another stream. Begin with a new checkpoint, or read the table of the checkpoint",
                error_class="DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
            )

    def _require_id(self, table_id: str) -> None:
        self._require_same_table(SourceOffset(table_id, 0))

    def _batch(self, found: VersionFiles, after: int, to: int, is_initial: bool = False) -> BatchFiles:
        """Return the files of a version with indexes in `(after, to]`.

        In a change feed, rows of initial files are inserts.
        """
        chosen = np.arange(after + 1, min(to, len(found) - 1) + 1)
        chosen = chosen[found.counts[chosen]]
        time = self._times.get(found.version, 0)
        if found.files is None:
            return BatchFiles(found.version, None, tuple(found.changes[at] for at in chosen.tolist()), time)
        return BatchFiles(found.version, found.rows(chosen), (), time if is_initial else 0)


@dataclass(frozen=True, slots=True)
class _ListedLog:
    """The log from the version `first` on at the time of the listing, and the newest version to read."""

    first: int
    listing: LogListing
    newest: int


@dataclass
class _Budget:
    """The remaining capacity of a micro-batch."""

    files: int | None
    size_bytes: int | None

    def take(self, found: VersionFiles, after: int) -> int:
        """Return the index of the last file after `after` within the budget, `after` if none fits."""
        first = after + 1
        counts, sizes = found.counts[first:], found.sizes[first:]
        if not len(counts):
            return max(after, len(found) - 1)
        if (self.files is not None and self.files <= 0) or (self.size_bytes is not None and self.size_bytes <= 0):
            # Excluded files cost nothing, so skip them up to the first included file.
            free = int(np.argmax(counts)) if counts.any() else len(counts)
            return after + free if found.ends is None else after
        taken = len(counts)
        numbers, totals = np.cumsum(counts), np.cumsum(np.where(counts, sizes, 0))
        if self.files is not None:
            taken = min(taken, int(np.searchsorted(numbers, self.files, "right")))
        if self.size_bytes is not None:
            taken = min(taken, int(np.searchsorted(totals, self.size_bytes, "left")) + 1)
        taken = found.end_from(after + taken) - after
        if self.files is not None:
            self.files -= int(numbers[taken - 1])
        if self.size_bytes is not None:
            self.size_bytes -= int(totals[taken - 1])
        return after + taken


def require_not_after(snapshot: Snapshot, version: int) -> None:
    """Raise VersionNotFound if `version` is after the newest version, so that no stream can start there."""
    if version > snapshot.version:
        raise VersionNotFound(
            f"{snapshot.store.root_url}: a stream cannot begin with version {version}: the newest is "
            f"{snapshot.version}. Set startingVersion=latest to begin with the next commit"
        )


def require_commit_from(snapshot: Snapshot, starting_ms: int) -> None:
    """Raise TimestampOutOfRange if `starting_ms` is after the last commit, so that no stream can start there."""
    # The history adjusts file times to be strictly increasing. Read it only if the result may change.
    last_ms = snapshot.timestamp_ms
    if starting_ms > last_ms and starting_ms > (last_ms := snapshot.history().timestamp_ms(snapshot.version)):
        raise TimestampOutOfRange(
            f"{snapshot.store.root_url}: a stream cannot begin at {format_ms(starting_ms)}, which is after the last "
            f"commit, version {snapshot.version} of {format_ms(last_ms)}. Set startingVersion=latest to begin with "
            "the next commit",
            error_class="DELTA_TIMESTAMP_GREATER_THAN_COMMIT",
        )


def _require_there(snapshot: Snapshot, version: int) -> None:
    require_not_after(snapshot, version)
    oldest = min(snapshot.history().versions, default=snapshot.version)
    if version < oldest:
        raise VersionNotFound(
            f"{snapshot.store.root_url}: a stream cannot begin with version {version}: the log was cleaned up. Its "
            f"oldest commit is {oldest}"
        )


def _with_files(found: list[BatchFiles]) -> list[BatchFiles]:
    return [batch for batch in found if batch.changes or (batch.files is not None and batch.files.num_rows)]
