"""Staged actions and the read set of a transaction, before conflict detection.

Source: delta-protocol.md "Actions", "Delta Log Entries" (what a single log entry must not hold).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slackwater.errors import InvalidArgument
from slackwater.predicate.predicate import Constant, Predicate
from slackwater.protocol.actions.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from slackwater.protocol.actions.files import AddCDCFile, AddFile, RemoveFile
from slackwater.protocol.actions.paths import canonical_path
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.transaction.row_reads import ConditionRead, RowsRead
from slackwater.transaction.rows.bulk_file_stream import FileStream
from slackwater.transaction.rows.bulk_file_swap import BulkFileSwap
from slackwater.transaction.rows.row_deletion import FileDeletion


@dataclass(slots=True)
class StagedActions:
    """The actions of one commit without `commitInfo`.

    At most one protocol and one metadata, and one action per application id and per domain. `row_deletions` are
    deletions by deletion vectors, by canonical path. Their actions are also in `removes` and `adds`. `exchange`: files
    added and removed in bulk, in addition to the single actions. `stream`: the files of a new table, in bulk.
    `fresh_adds`: every other added file has a new name, so no earlier action of the log names the file. `restates`: the
    commit re-adds a file, unchanged, that is live in the version read. `known_files`: the added files and their
    deletion vectors existed before this work, and remain if it fails. `changes_owner`: the commit gives the table to a
    commit owner or releases the table. `protects_history`: the commit protects all checkpoints before its version.
    """

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    adds: list[AddFile] = field(default_factory=list)
    removes: list[RemoveFile] = field(default_factory=list)
    change_files: list[AddCDCFile] = field(default_factory=list)
    transactions: dict[str, SetTransaction] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    row_deletions: dict[str, FileDeletion] = field(default_factory=dict)
    exchange: BulkFileSwap | None = None
    stream: FileStream | None = None
    fresh_adds: bool = True
    restates: bool = False
    known_files: bool = False
    changes_owner: bool = False
    protects_history: bool = False
    _table: TableConfiguration | None = field(default=None, init=False, repr=False, compare=False)

    def set_table(self, table: TableConfiguration) -> None:
        """Stage the protocol and the metadata of `table`, and cache their parsed form."""
        self.protocol, self.metadata, self._table = table.protocol, table.metadata, table

    def table_after(self, before: TableConfiguration | None) -> TableConfiguration:
        """Return the table after the commit. `before` is None for a new table.

        The result is cached until the staged protocol or metadata change. Raises InvalidArgument for a table without
        protocol or metadata.
        """
        protocol = self.protocol or (before.protocol if before else None)
        metadata = self.metadata or (before.metadata if before else None)
        if protocol is None or metadata is None:
            raise InvalidArgument(
                "the first commit of a table must hold its protocol and its metadata",
                error_class="DELTA_METADATA_ABSENT",
            )
        if before is not None and before == TableConfiguration(protocol, metadata):
            return before
        known = self._table or before
        self._table = TableConfiguration(protocol, metadata) if known is None else known.changed(protocol, metadata)
        return self._table

    @property
    def has_file_actions(self) -> bool:
        """Return whether any action names a file."""
        return bool(self.adds or self.removes or self.change_files or self.exchange or self.stream)

    @property
    def is_progress(self) -> bool:
        """Return whether only the progress of applications is staged."""
        return bool(self.transactions) and not (self.has_file_actions or self.metadata or self.protocol or self.domains)

    @property
    def num_removed_files(self) -> int:
        """The number of removed files."""
        return len(self.removes) + (self.exchange.removes.num_rows if self.exchange else 0)

    @property
    def has_adds(self) -> bool:
        """Return whether any file is added."""
        in_bulk = self.exchange is not None and self.exchange.adds.num_rows > 0
        return bool(self.adds) or in_bulk or (self.stream is not None and self.stream.num_files > 0)

    @property
    def changes_data(self) -> bool:
        """Return whether a file action adds or removes rows. Rearranged rows are no change."""
        if self.exchange is not None or self.stream is not None:
            return True
        return any(a.data_change for a in self.adds) or any(r.data_change for r in self.removes)

    def hold(self, now_ms: int) -> None:
        """Read the files of a stream into memory. Raises the errors of reading the files."""
        if self.stream is not None:
            self.exchange, self.stream = self.stream.exchange(now_ms), None

    def unpack(self, now_ms: int) -> None:
        """Convert actions staged in bulk to single actions."""
        self.hold(now_ms)
        if self.exchange is not None:
            adds = self.exchange.add_files
            self.adds += adds
            self.removes += self.exchange.remove_files
            self.fresh_adds = self.fresh_adds and not adds
            self.exchange = None

    def stage_row_deletions(self, deletions: Mapping[str, FileDeletion], deletion_timestamp_ms: int) -> None:
        """Stage the actions of `deletions`, by canonical path, and replace earlier actions of the same files.

        The remaining vectors must be written before. `deletion_timestamp_ms` is in milliseconds since the epoch.
        """
        again = self.row_deletions.keys() & deletions.keys()
        if again:
            self.removes[:] = [r for r in self.removes if canonical_path(r.path) not in again]
            self.adds[:] = [a for a in self.adds if canonical_path(a.path) not in again]
        self.row_deletions.update(deletions)
        self.removes += [d.remove(deletion_timestamp_ms) for d in deletions.values()]
        self.adds += [d.add() for d in deletions.values() if not d.is_whole]

    def validate_single_entry(self) -> None:
        """Raise InvalidArgument if two actions cannot be in one log entry because they reconcile.

        Source: delta-protocol.md "Delta Log Entries" under "Requirements for Writers", "Add File and Remove File".
        """
        _without_double("add", (a.path for a in self.adds))
        _without_double("remove", (r.path for r in self.removes))
        removed = {(canonical_path(r.path), r.deletion_vector_id) for r in self.removes} if self.removes else set()
        both = [a.path for a in self.adds if removed and (canonical_path(a.path), a.deletion_vector_id) in removed]
        if both:
            raise InvalidArgument(
                f"one commit cannot both add and remove the same logical file: {both[0]!r}. Use another file name, or "
                "another deletion vector",
                error_class="DELTA_DUPLICATE_ACTIONS_FOUND",
            )


@dataclass(slots=True)
class ReadSet:
    """The read set of a transaction: conditions on rows, and applications whose progress was read.

    A read of the whole table is the condition TRUE. An empty read set means that the transaction read nothing.
    """

    readings: list[ConditionRead] = field(default_factory=list)
    app_ids: set[str] = field(default_factory=set)

    @property
    def reads_all(self) -> bool:
        """Return whether every row was read."""
        return any(isinstance(reading.predicate, Constant) and reading.predicate.value for reading in self.readings)

    def read_all(self) -> None:
        """Record that every row was read."""
        self.readings = [ConditionRead(Constant(True))]

    def read(self, predicate: Predicate, found: RowsRead | None = None) -> None:
        """Record a read of the rows that may satisfy `predicate`, or of the rows in `found`."""
        self.readings.append(ConditionRead(predicate, found))


def _without_double(kind: str, paths: Iterable[str]) -> None:
    seen: set[str] = set()
    for path in paths:
        canonical = canonical_path(path)
        if canonical in seen:
            raise InvalidArgument(
                f"one commit cannot {kind} the same path twice: {path!r}. Name each file once",
                error_class="DELTA_DUPLICATE_ACTIONS_FOUND",
            )
        seen.add(canonical)
