"""Conflict detection between a transaction and a winning commit.

The rules are delta-spark's rules with finer checks. Reads are conditions on rows. A file conflicts only if its
partition values and statistics permit a row that should have been read. Files that were only rearranged conflict with
no reader. Two commits both succeed if they delete different rows of one file by deletion vectors.
Source: docs/concurrent-changes.md; delta-spark's conflict checker.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
from pyroaring import BitMap64

from slackwater.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)
from slackwater.predicate.predicate import Predicate
from slackwater.protocol.actions.actions import Protocol
from slackwater.protocol.actions.deletion_vectors import DeletionVectorDescriptor
from slackwater.protocol.actions.files import AddFile
from slackwater.protocol.actions.paths import canonical_path, canonical_paths
from slackwater.protocol.features import managed_commits, row_tracking
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.features.table_features import supported_features, validate_writable
from slackwater.scan.pruning.file_pruning import plan
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.conflicts.isolation import IsolationLevel
from slackwater.transaction.conflicts.metadata_changes import is_tolerated
from slackwater.transaction.conflicts.winning_commit import VectorChange, WinningCommit
from slackwater.transaction.row_reads import ConditionRead
from slackwater.transaction.rows.row_deletion import FileDeletion
from slackwater.transaction.rows.vector_files import LoadedVectors
from slackwater.transaction.staged import ReadSet, StagedActions

_PARTITIONS_IN_FILES = "materializePartitionColumns"


@dataclass
class ConflictCheck:
    """The transaction's side of the check: staged actions, read set and the snapshot read.

    `zone` is the time zone of partition values without a zone. One instance checks all winning commits of a loop in
    order. It tracks the rows read and the rows to delete across the winning commits.
    """

    snapshot: Snapshot
    staged: StagedActions
    reads: ReadSet
    isolation: IsolationLevel
    zone: str = "UTC"
    _rebased: dict[str, FileDeletion] = field(default_factory=dict, init=False)
    _vectors: LoadedVectors = field(init=False)

    def __post_init__(self) -> None:
        self._vectors = LoadedVectors(self.snapshot.store, self.snapshot.table.follows_outside)

    def take_rebased(self) -> dict[str, FileDeletion]:
        """Return and clear the rebased row deletions, by canonical path."""
        rebased, self._rebased = self._rebased, {}
        return rebased

    def check(self, winner: WinningCommit, before: Snapshot) -> None:
        """Validate that the transaction may follow `winner`. `before` is the version before `winner`.

        Raises the DeltaConcurrentModificationException for the conflict, and UnsupportedFeature if the new protocol
        needs a feature that this package cannot write.
        """
        self._known_files(winner)
        self._dropped_features(winner)
        if winner.protocol is not None:
            self._protocol(winner, winner.protocol, before.protocol)
        if winner.metadata is not None:
            self._metadata(winner, before.configuration.changed(metadata=winner.metadata), before.configuration)
        self._domains(winner)
        self._applications(winner)
        self._same_path(winner)
        self._appended(winner)
        self._removed_by_both(winner)
        self._rows_deleted_by_both(winner)
        self._deleted(winner)
        self._appended_matches(winner, before)

    def _protocol(self, winner: WinningCommit, new: Protocol, old: Protocol) -> None:
        validate_writable(new, self._where)
        gained = supported_features(new) - supported_features(old)
        if managed_commits.FEATURES & gained:
            raise ProtocolChangedException(
                f"{self._says(winner)} put the table under a commit owner. Read the table again through its lake and "
                "retry"
            )
        if _PARTITIONS_IN_FILES in gained and self.staged.has_adds:
            raise ProtocolChangedException(
                f"{self._says(winner)} added the feature {_PARTITIONS_IN_FILES}, and the written files may lack the "
                "partition columns. Read the table again and retry"
            )
        lost = supported_features(old) - supported_features(new)
        if self.staged.protocol is None and not lost:
            return
        what = f"removed the features {', '.join(sorted(lost))}" if lost else "changed the table's protocol as well"
        raise ProtocolChangedException(f"{self._says(winner)} {what}. Read the table again and retry")

    def _known_files(self, winner: WinningCommit) -> None:
        """Raise ConcurrentWriteException if existing files are re-added.

        The existence of the files was checked at one version, and a winning commit may have removed them since.
        """
        if self.staged.known_files:
            raise ConcurrentWriteException(
                f"{self._says(winner)} was committed first. Files that this commit re-adds may have been deleted. "
                "Read the table again and retry"
            )

    def _dropped_features(self, winner: WinningCommit) -> None:
        """Raise ProtocolChangedException if the transaction drops features that the winning commit may use."""
        if self.staged.protocol is None or winner.is_blind_append:
            return
        dropped = supported_features(self.snapshot.protocol) - supported_features(self.staged.protocol)
        if dropped:
            raise ProtocolChangedException(
                f"{self._says(winner)} changed the table, which may now need {', '.join(sorted(dropped))}. Read the "
                "table again and retry"
            )

    def _metadata(self, winner: WinningCommit, new: TableConfiguration, old: TableConfiguration) -> None:
        if self.staged.metadata is None and is_tolerated(old, new):
            return
        raise MetadataChangedException(
            f"{self._says(winner)} changed the table's schema or settings, so the written rows may not fit any more. "
            "Read the table again and retry"
        )

    def _domains(self, winner: WinningCommit) -> None:
        both = sorted((set(self.staged.domains) & winner.domains) - {row_tracking.DOMAIN})
        if both:
            raise ConcurrentTransactionException(
                f"{self._says(winner)} changed the metadata domain {both[0]} as well. Read the table again and retry"
            )

    def _applications(self, winner: WinningCommit) -> None:
        both = sorted((self.reads.app_ids | set(self.staged.transactions)) & winner.app_ids)
        if both:
            raise ConcurrentTransactionException(
                f"{self._says(winner)} recorded progress of the same application id {both[0]!r}. Two writers use one "
                "id, or this work is already done. Check the table before you retry"
            )

    def _appended(self, winner: WinningCommit) -> None:
        """Raise ConcurrentAppendException if statistics permit added rows that the transaction should have read."""
        for reading in self._readings_of_added(winner):
            if reading.matches is None:
                files = self._added_rows(winner, reading.predicate)
                if files.num_rows:
                    raise ConcurrentAppendException(self._added(winner, files))

    def _appended_matches(self, winner: WinningCommit, before: Snapshot) -> None:
        """Raise ConcurrentAppendException if added rows satisfy a condition.

        This runs last, because it may cost a job.
        """
        for reading in self._readings_of_added(winner):
            if reading.matches is None:
                continue
            files = self._added_rows(winner, reading.predicate)
            if not files.num_rows:
                continue
            try:
                found = reading.matches(before.with_commits([winner.commit]), files)
            except Exception as error:
                why = f". The condition could not be evaluated for these rows: {error}"
                raise ConcurrentAppendException(self._added(winner, files) + why) from error
            if found:
                raise ConcurrentAppendException(self._added(winner, files))

    def _readings_of_added(self, winner: WinningCommit) -> list[ConditionRead]:
        """Return the conditions that rows added by `winner` must not satisfy, for the isolation level."""
        if self.isolation is IsolationLevel.SNAPSHOT_ISOLATION:
            return []
        overlooked = self.isolation is IsolationLevel.WRITE_SERIALIZABLE and self.staged.metadata is None
        return [] if overlooked and winner.is_blind_append else self.reads.readings

    def _added_rows(self, winner: WinningCommit, predicate: Predicate) -> pa.Table:
        """Return the files of `winner` with new rows that may satisfy `predicate`."""
        files = self._may_match(winner.added_files, predicate)
        if not files.num_rows or not winner.vector_changes:
            return files
        changes = [winner.vector_changes.get(path) for path in canonical_paths(files["path"]).to_pylist()]
        self._vectors.load(node for c in changes if c is not None and c.old is not None for node in (c.old, c.new))
        return files.filter(pa.array([c is None or self._rows_deleted(c) is None for c in changes], pa.bool_()))

    def _may_match(self, files: pa.Table, predicate: Predicate) -> pa.Table:
        snapshot = self.snapshot
        partition_columns = snapshot.metadata.partition_columns
        return plan(files, predicate, snapshot.schema, partition_columns, snapshot.physical_paths, zone=self.zone).files

    def _rows_deleted(self, change: VectorChange) -> BitMap64 | None:
        """Return the rows deleted by `change`; None if the change also restores rows."""
        if change.old is None:
            return self._vectors[change.new]
        old, new = self._vectors[change.old], self._vectors[change.new]
        return new - old if new.issuperset(old) else None

    def _added(self, winner: WinningCommit, files: pa.Table) -> str:
        values = dict(files["partitionValues"][0].as_py() or ())
        place = f" in the partition {values}" if values else ""
        return (
            f"{self._says(winner)} added rows{place} that this transaction should have read (file "
            f"{files['path'][0].as_py()}). Retry on the new version"
        )

    def _same_path(self, winner: WinningCommit) -> None:
        staged = self.staged
        if staged.fresh_adds or not staged.adds:
            return
        paths = {canonical_path(add.path) for add in staged.adds} - staged.row_deletions.keys()
        for other in (winner.added_paths, winner.removed_paths):
            both = sorted(paths & other)
            if both:
                raise ConcurrentDeleteReadException(
                    f"{self._says(winner)} added or removed the file {both[0]} that this transaction adds. Read the "
                    "table again and retry"
                )

    def _removed_by_both(self, winner: WinningCommit) -> None:
        if not winner.removed_paths or not self.staged.removes:
            return
        removed = {canonical_path(remove.path) for remove in self.staged.removes} - self.staged.row_deletions.keys()
        both = sorted(winner.removed_paths & removed)
        if both:
            raise ConcurrentDeleteDeleteException(
                f"{self._says(winner)} removed the file {both[0]} that this transaction removes as well. Retry on the "
                "new version"
            )

    def _rows_deleted_by_both(self, winner: WinningCommit) -> None:
        """Rebase row deletions onto the new state of files changed by `winner`.

        Commits may delete different rows of one file. Raises ConcurrentDeleteDeleteException if both delete the same
        row, or if `winner` removed or replaced the file.
        """
        mine = {**self.staged.row_deletions, **self._rebased}
        touched = mine.keys() & (winner.added_paths | winner.removed_paths)
        if not touched:
            return
        files = winner.added_again(touched)
        self._vectors.load(winner.vector_changes[path].new for path in touched & winner.vector_changes.keys())
        for path in sorted(touched):
            file = files.get(path)
            vector = self._vector_followed(winner, path, mine[path], file)
            if file is None or vector is None:
                raise ConcurrentDeleteDeleteException(
                    f"{self._says(winner)} removed or replaced the file {path} of which this transaction deletes "
                    "rows. Retry on the new version"
                )
            both = vector & mine[path].rows
            if both:
                raise ConcurrentDeleteDeleteException(
                    f"{self._says(winner)} deleted rows of the file {path} that this transaction deletes as well "
                    f"({len(both)} rows, the first is row {both.min()}). Retry on the new version"
                )
            self._rebased[path] = mine[path].behind(file, vector)

    def _vector_followed(
        self, winner: WinningCommit, path: str, mine: FileDeletion, file: AddFile | None
    ) -> BitMap64 | None:
        """Return the rows deleted from the file after `winner`; None if it is another file or regained rows."""
        if mine.file.deletion_vector is not None:
            self._vectors.remember(mine.file.deletion_vector, mine.vector)
        change = winner.vector_changes.get(path)
        if change is None:
            is_same = file is not None and file.deletion_vector_id == mine.file.deletion_vector_id
            return mine.vector if is_same and path not in winner.removed_paths else None
        old = None if change.old is None else DeletionVectorDescriptor.from_json(change.old).unique_id
        if old != mine.file.deletion_vector_id:
            return None
        deleted = self._rows_deleted(change)
        if deleted is None or (deleted and not change.data_change):
            # Rows were restored, or moved to another file.
            return None
        return mine.vector | deleted

    def _deleted(self, winner: WinningCommit) -> None:
        if not winner.removed_paths:
            return
        for reading in self.reads.readings:
            moved = False
            held = reading.files_among(winner.removed_paths, self.snapshot, self.zone)
            known = (winner.vector_changes.get(path) for path in held if reading.rows_of(path) is not None)
            self._vectors.load(node for change in known if change is not None for node in (change.old, change.new))
            for path in held:
                if not self._leaves_rows(winner, path, reading):
                    if winner.removes_rows:
                        raise ConcurrentDeleteReadException(
                            f"{self._says(winner)} removed rows that this transaction read (file {path}). Retry on "
                            "the new version"
                        )
                    moved = True
            if moved:
                files = self._may_match(winner.rearranged_files, reading.predicate)
                reading.moved.update(canonical_paths(files["path"]).to_pylist())

    def _leaves_rows(self, winner: WinningCommit, path: str, reading: ConditionRead) -> bool:
        """Return whether `winner` retains the file and all rows read from the file, unmoved."""
        rows, change = reading.rows_of(path), winner.vector_changes.get(path)
        if rows is None or change is None:
            return False
        deleted = self._rows_deleted(change)
        if deleted is None or (deleted and not change.data_change):
            return False
        return rows.isdisjoint(deleted)

    @property
    def _where(self) -> str:
        return self.snapshot.store.root_url

    def _says(self, winner: WinningCommit) -> str:
        return f"{self._where}: while this transaction ran on version {self.snapshot.version}, {winner.description}"
