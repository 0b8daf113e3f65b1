"""The work of one table's transaction: the read set and the staged actions.

Source: delta-protocol.md "Actions"; docs/architecture.md "The life of a write".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyroaring import BitMap64

from slackwater.errors import InvalidArgument
from slackwater.log.table import Table
from slackwater.predicate.predicate import Predicate
from slackwater.protocol.actions.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from slackwater.protocol.actions.files import AddCDCFile, AddFile, RemoveFile
from slackwater.protocol.features import row_tracking
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.store import ObjectStore
from slackwater.transaction.clock import Clock
from slackwater.transaction.commit_validation import validate_not_append_only, validate_vectors_enabled
from slackwater.transaction.committer import Committer
from slackwater.transaction.definition import TableActions
from slackwater.transaction.post_commit import PostCommitHook
from slackwater.transaction.row_reads import RowsRead
from slackwater.transaction.rows.bulk_file_stream import FileStream
from slackwater.transaction.rows.bulk_file_swap import BulkFileSwap
from slackwater.transaction.rows.row_deletion import FileDeletion, RowDeletion, file_deletions, summary
from slackwater.transaction.rows.vector_files import delete_vector_files, write_deletion_vectors
from slackwater.transaction.staged import ReadSet, StagedActions
from slackwater.transaction.vacuum_age_check import is_late


@dataclass
class StagedTransaction:
    """Actions for the next version of one table, and the read set of the work.

    `read_snapshot` is the base of the work, None if the table is being created. `begun_ms` is the start of the work,
    before its first file was written, in milliseconds since the epoch.
    """

    table: Table
    committer: Committer
    read_snapshot: Snapshot | None
    clock: Clock = field(default_factory=Clock)
    post_commit: PostCommitHook = field(default_factory=PostCommitHook)
    zone: str = "UTC"

    staged: StagedActions = field(default_factory=StagedActions)
    reads: ReadSet = field(default_factory=ReadSet)
    txn_id: str = ""
    rows_preserved: bool = True
    vector_paths: list[str] = field(default_factory=list)
    begun_ms: int = 0

    def __post_init__(self) -> None:
        self.txn_id = self.txn_id or self.clock.new_id()
        self.begun_ms = self.begun_ms or self.clock.now_ms()

    @property
    def store(self) -> ObjectStore:
        """The object store of the table's files."""
        return self.table.store

    def read_whole_table(self) -> None:
        """Declare that the work depends on every row of the table."""
        self.reads.read_all()

    def read_where(self, predicate: Predicate, found: RowsRead | None = None) -> None:
        """Declare that the work depends on the rows for which `predicate` may be true.

        `found` lists the rows. Concurrent commits may then change other rows of the same files.
        """
        self.reads.read(predicate, found)

    def application_version(self, app_id: str) -> int | None:
        """Return the application's progress in the snapshot, and add the application to the read set.

        None if the application never committed.
        """
        self.reads.app_ids.add(app_id)
        found = self.read_snapshot.transactions.get(app_id) if self.read_snapshot else None
        return None if found is None else found.version

    def add(self, files: AddFile | Iterable[AddFile], fresh: bool = False) -> None:
        """Stage files to add. `fresh` promises file names new to the log, such as the names of Slackwater's writer."""
        staged = [files] if isinstance(files, AddFile) else list(files)
        self.staged.adds += staged
        self.staged.fresh_adds = self.staged.fresh_adds and (fresh or not staged)

    def remove(self, files: RemoveFile | Iterable[RemoveFile]) -> None:
        """Stage files to remove. Each must be a live file of the snapshot."""
        self.staged.removes += [files] if isinstance(files, RemoveFile) else list(files)

    def exchange(self, adds: pa.Table, removes: pa.Table) -> None:
        """Stage existing files in bulk, once: `adds` are added unchanged, `removes` are removed.

        Both tables have the columns of ADD_SCHEMA. Removed files must be live in the snapshot. Any concurrent commit of
        another writer is a conflict.
        """
        self.staged.exchange = BulkFileSwap(adds, removes, self.clock.now_ms())
        self.staged.known_files = True

    def begin_with(self, files: FileStream) -> None:
        """Stage existing files as the first files of a new table, once."""
        self.staged.stream = files
        self.staged.known_files = True

    def delete_rows(self, files: pa.Table, rows: Mapping[str, BitMap64]) -> RowDeletion:
        """Stage the deletion of `rows` (by `path`, physical indexes) of live `files` (columns of ADD_SCHEMA).

        Files without a remaining row are removed. Other files get deletion vectors, written immediately. Files without
        an entry in `rows` stay unchanged. Concurrent commits may delete further rows of the same files. Nothing is
        written before an error listed here.

        Raises:
            OperationNotAllowed: If the table is append-only or does not permit new deletion vectors.
            InvalidArgument: If the table is being created, a path is not in `files`, a file has an empty set of rows, a
                row is deleted already or beyond the end of the file, or an earlier call named the file.

        Source: delta-protocol.md "Deletion Vectors".
        """
        if self.read_snapshot is None:
            raise InvalidArgument("a table that is being created has no rows to delete")
        deletions = file_deletions(self.store, files, rows, self.table.follows_outside)
        again = self.staged.row_deletions.keys() & deletions.keys()
        if again:
            raise InvalidArgument(
                f"{self.store.root_url}: this transaction already deleted rows of {min(again)}. Name all rows of a "
                "file in one call"
            )
        table = self.staged.table_after(self.read_snapshot.configuration)
        validate_not_append_only(table)
        partial = next((d.file.path for d in deletions.values() if not d.is_whole), None)
        if partial is not None:
            validate_vectors_enabled(table, partial)
        self.stage_row_deletions(deletions)
        return summary(list(deletions.values()))

    def discard_vectors(self) -> None:
        """Delete the deletion vector files of this transaction after a commit failed without effect.

        Never call this after a successful commit or after an unknown outcome. A file remains if its deletion fails.
        """
        delete_vector_files(self.store, self.vector_paths)
        self.vector_paths = []

    def add_change_files(self, files: Iterable[AddCDCFile]) -> None:
        """Stage change data files."""
        self.staged.change_files += files

    def set_transaction(self, app_id: str, version: int) -> None:
        """Record `version` as the application's progress with this commit."""
        self.staged.transactions[app_id] = SetTransaction(app_id, version, self.clock.now_ms())

    def set_domain(self, domain: DomainMetadata) -> None:
        """Set a metadata domain, or remove the domain if `domain.removed`."""
        self.staged.domains[domain.domain] = domain

    def set_table(self, configuration: TableConfiguration) -> None:
        """Replace the table's protocol and metadata."""
        self.staged.set_table(configuration)

    def define(self, defined: TableActions) -> None:
        """Stage the protocol, metadata and domains of a table definition."""
        self.set_table(defined.configuration)
        for domain in defined.domains:
            self.set_domain(domain)

    def set_metadata(self, metadata: Metadata) -> None:
        """Replace the table's metadata. Features enabled by the metadata are added to the protocol."""
        self.staged.metadata = metadata

    def set_protocol(self, protocol: Protocol) -> None:
        """Replace the table's protocol."""
        self.staged.protocol = protocol

    @property
    def is_blind_append(self) -> bool:
        """Return whether nothing was read and files are only added.

        Such a commit can be rebased onto any other append.
        """
        staged = self.staged
        is_append = staged.has_adds and staged.metadata is None and staged.protocol is None
        return is_append and self.reads_and_removes_nothing

    @property
    def reads_and_removes_nothing(self) -> bool:
        """Return whether nothing was read and no file is removed. The history calls such a commit a blind append."""
        staged = self.staged
        return not self.reads.readings and not staged.num_removed_files and not staged.change_files

    def keep_vectors(self) -> None:
        """Exempt the written deletion vectors from deletion, because a commit may refer to them."""
        self.vector_paths = []

    def stage_row_deletions(self, deletions: Mapping[str, FileDeletion]) -> None:
        """Write the missing vectors of `deletions`, then stage `deletions`."""
        lacking = {path: d for path, d in deletions.items() if d.written is None and not d.is_whole}
        written = write_deletion_vectors(self.store, [d.union for d in lacking.values()], self.clock.new_uuid)
        self.vector_paths += written.paths
        complete = {
            path: replace(d, written=descriptor)
            for (path, d), descriptor in zip(lacking.items(), written.descriptors, strict=True)
        }
        self.staged.stage_row_deletions({**deletions, **complete}, self.clock.now_ms())

    @property
    def preserves_rows(self) -> bool:
        """Return whether rewritten rows retained their row ids.

        False if files are removed and the read snapshot has no row tracking: a concurrent commit assigned the ids
        later.
        """
        if self.read_snapshot is None or not self.staged.num_removed_files:
            return self.rows_preserved
        return self.rows_preserved and row_tracking.is_enabled(self.read_snapshot.configuration)

    @property
    def may_move(self) -> bool:
        """Return whether the commit can follow any commit that leaves the table's metadata unchanged."""
        staged = self.staged
        if is_late(self.clock.now_ms() - self.begun_ms):
            # A late transaction must read the winning commits before it relies on its files.
            return False
        return self.is_blind_append and staged.fresh_adds and not (staged.transactions or staged.domains)
