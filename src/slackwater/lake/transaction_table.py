"""A table of a multi-table transaction: its base version, its changes and its reads.

Source: paper §3.1 (V_R, V_I, V_D); docs/transactions.md.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import orjson

from slackwater.errors import OperationNotAllowed, SlackwaterError, UnsupportedFeature
from slackwater.log.table import Table, UncommittedVersions
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.commits import Commit, CommitResponse
from slackwater.owner.api.owner_registry import OwnedTable
from slackwater.owner.api.transactions import Item, TableRead, TableWrite
from slackwater.predicate.predicate import Predicate
from slackwater.protocol.actions.commit_info import CommitInfo
from slackwater.protocol.actions.paths import canonical_path
from slackwater.protocol.actions.transaction_groups import TransactionGroup
from slackwater.protocol.features.table_features import MULTI_TABLE
from slackwater.protocol.properties.properties import FEATURE_PREFIX
from slackwater.scan.snapshot import Snapshot
from slackwater.scan.unread_snapshot import newest_read
from slackwater.transaction.clock import Clock
from slackwater.transaction.combine_commits import combine_actions, combine_reads
from slackwater.transaction.commit.transaction import ENGINE_INFO, TableTransaction
from slackwater.transaction.commit_result import CommitResult
from slackwater.transaction.committer import Committed
from slackwater.transaction.committers.deferred import DeferredCommit, DeferringCommitter
from slackwater.transaction.committers.managed import ManagedCommitter, committed_by
from slackwater.transaction.conflicts.commit_loop import CommitLoop
from slackwater.transaction.conflicts.granule_reads import granules_read
from slackwater.transaction.conflicts.isolation import IsolationLevel
from slackwater.transaction.observability.commit_report import report_commit
from slackwater.transaction.observability.tracing import COMMIT, record_span
from slackwater.transaction.staged import ReadSet, StagedActions
from slackwater.transaction.staged_transaction import StagedTransaction

OPERATION = "TRANSACTION"
"""Operation name of a commit with several changes."""

_FEWEST = 2


class TransactionTableState:
    """A table within a transaction. Commits to its `table` become part of the transaction."""

    def __init__(self, name: str, owned: OwnedTable, base: Snapshot, clock: Clock, transaction: object) -> None:
        """`base` is the committed table. `transaction` is referenced weakly."""
        self.name = name
        self.base = base
        self.reads = ReadSet()
        self._owned = owned
        self._clock = clock
        self._branch = UncommittedVersions(base, transaction)
        self._race: CommitLoop | None = None
        self._prepared_ms = 0

    @property
    def table(self) -> Table:
        """The table for reads and commits within the transaction."""
        return self._branch.table

    @property
    def owner(self) -> CommitOwner:
        """The table's owner."""
        return self._owned.owner

    @property
    def table_id(self) -> str:
        """The owner's id of the table."""
        return self._owned.table_id

    @property
    def snapshot(self) -> Snapshot:
        """The table including the transaction's own changes. Raises TransactionEnded."""
        newest: Snapshot = self._branch.newest
        return newest

    def read(self, predicate: Predicate | None = None) -> None:
        """Record a read of the rows matching `predicate`, or of all rows."""
        if predicate is None:
            self.reads.read_all()
        else:
            self.reads.read(predicate)

    def record_progress(
        self, app_id: str, version: int, operation: str, parameters: Mapping[str, str], user_name: str | None
    ) -> None:
        """Record the progress of an application with the changes of the table, or alone if there are none."""
        self.base.configuration.require_writable(self.base.store.root_url)
        committer = DeferringCommitter(self._branch)
        transaction = TableTransaction(self.table, committer, self.base, self._clock)
        transaction.set_transaction(app_id, version)
        loop = transaction.prepared(operation, parameters, user_name=user_name, is_validated=True)
        committer.defer(transaction, loop.info, self._branch.newest_version + 1, loop.actions)

    @property
    def is_written(self) -> bool:
        """True if there are changes to commit."""
        return bool(self._joined)

    @property
    def all_reads(self) -> ReadSet:
        """The reads of the table, including reads by its changes."""
        return self._all_reads()

    @property
    def written_items(self) -> list[Item]:
        """The items written so far."""
        return [Item(self.table_id)] if self.is_written else []

    def close(self) -> None:
        """Close the table for further reads and changes."""
        self._branch.close()

    def prepare(self, txn_id: str, isolation: IsolationLevel) -> None:
        """Combine all changes into one commit. Raises as `TableTransaction.commit` before its first attempt."""
        self._prepared_ms = time.time_ns() // 1_000_000
        transaction = self._joined_commit(txn_id)
        if len(self._joined) > 1:
            self._race = transaction.prepared(
                OPERATION,
                self._parameters(),
                user_metadata=self._user_metadata(),
                isolation=isolation,
                user_name=self._joined[-1].info.user_name,
                # A single change was validated on creation, and the progress of an application needs no validation.
                is_validated=len(self._changes) <= 1,
            )
            return
        # A single commit has its own `commitInfo`.
        nothing = CommitInfo(timestamp=0, operation=OPERATION, txn_id=txn_id, engine_info=ENGINE_INFO)
        info = self._joined[0].info if self._joined else nothing
        self._race = CommitLoop(transaction, replace(info, txn_id=txn_id), isolation)

    def table_read(self) -> TableRead | None:
        """Return the reads, valid as of the last version checked for conflicts. None without reads."""
        reads = self._all_reads()
        if not (reads.readings or reads.app_ids):
            return None
        granules = granules_read(self.base, reads)
        return TableRead(self.table_id, self._ready.version - 1, granules) if granules else None

    def table_write(self) -> TableWrite | None:
        """Return the commit of the next attempt, or None if there are no changes."""
        if not self.is_written:
            return None
        race = self._ready
        may_move = race.transaction.may_move and not self.reads.readings
        return TableWrite(self.table_id, race.version, race.actions(), may_move)

    @property
    def supports_groups(self) -> bool:
        """True if the log of the table describes multi-table transactions after the next attempt."""
        race = self._ready
        before = None if race.before is None else race.before.configuration
        return race.transaction.staged.table_after(before).supports(MULTI_TABLE)

    def rebase(self, latest_version: int) -> bool:
        """Rebase onto the winning commits. Return whether the transaction's own commit is among them.

        Raises the DeltaConcurrentModificationException of a conflict.
        """
        race = self._ready
        commits = race.transaction.committer.commits_after(race.version - 1)
        own = race.rebase(commits, latest_version)
        return own is not None

    def on_committed(self, response: CommitResponse, attempts: int) -> CommitResult:
        """Report the commit, and return the result after the due post-commit hooks."""
        commit, race = response.commit, self._ready
        txn_id = race.transaction.txn_id
        try:
            committed = Committed(committed_by(self.base.store, response))
        except SlackwaterError as error:
            location, begun_ms, now_ms = self.base.table.location, race.transaction.begun_ms, self._clock.now_ms()
            info = [{"commitInfo": {"operation": race.info.operation}}]
            race.report = report_commit(
                location, commit.version, info, begun_ms, now_ms, commit.timestamp_ms, attempts, txn_id
            )
            return self._unread(commit, attempts, error)
        try:
            return race.on_committed(committed, attempts, txn_id)
        except SlackwaterError as error:
            return self._unread(commit, attempts, error)
        finally:
            if race.report is not None:
                record_span(COMMIT, asdict(race.report), self._prepared_ms)

    def _unread(self, commit: Commit, attempts: int, error: SlackwaterError) -> CommitResult:
        """Return the result of a commit whose version cannot be read back. It is committed nevertheless."""
        told = f"reading the version back failed: {error}"
        return CommitResult(self.base.table, commit.version, commit.timestamp_ms, attempts, upkeep_errors=(told,))

    def staged_paths(self) -> list[str]:
        """Return the data files written for the transaction, relative to the table's root."""
        found: list[str] = []
        # If the log was not read, all files are new. A read now could fail, and hide the outcome of the commit.
        base = newest_read(self.base)
        known = base.live_files(["path"])["path"].to_pylist() if base.version == self.base.version else []
        live = {canonical_path(path) for path in known}
        for part in self._joined:
            staged = part.transaction.staged
            found += [canonical_path(add.path) for add in staged.adds if not staged.known_files]
            found += [canonical_path(change.path) for change in staged.change_files]
            found += part.transaction.vector_paths
        if self._race is not None:
            # Deletion vectors written by rebased attempts.
            found += self._race.transaction.vector_paths
        return [path for path in dict.fromkeys(found) if path not in live]

    def discard(self) -> None:
        """Delete the written files of a transaction known not to be committed."""
        paths = self.staged_paths() if self.is_written else []
        if paths:
            self.base.store.delete(paths)

    @property
    def _ready(self) -> CommitLoop:
        if self._race is None:
            raise ValueError("the commit was not prepared")
        return self._race

    @property
    def _joined(self) -> Sequence[DeferredCommit]:
        return self._branch.joined

    @property
    def _changes(self) -> Sequence[StagedTransaction]:
        """The commits that change more than the progress of applications."""
        return [part.transaction for part in self._joined if not part.transaction.staged.is_progress]

    def _staged(self) -> StagedActions:
        """Return the actions of all commits."""
        staged = combine_actions([change.staged for change in self._changes])
        for part in self._joined:
            staged.transactions.update(part.transaction.staged.transactions)
        return staged

    def _all_reads(self) -> ReadSet:
        return combine_reads([self.reads, *(part.transaction.reads for part in self._joined)])

    def _joined_commit(self, txn_id: str) -> TableTransaction:
        """Return one transaction with all changes, under the table's owner."""
        parts = [part.transaction for part in self._joined]
        return TableTransaction(
            self.base.table,
            ManagedCommitter(self.base.store, self._owned),
            self.base,
            self._clock,
            zone=parts[0].zone if parts else "UTC",
            staged=self._staged(),
            reads=self._all_reads(),
            txn_id=txn_id,
            rows_preserved=all(part.rows_preserved for part in parts),
            vector_paths=[path for part in parts for path in part.vector_paths],
            begun_ms=min((part.begun_ms for part in parts), default=0),
        )

    def _user_metadata(self) -> str | None:
        """Return the distinct user metadata of the operations, one per line. None if no operation has any."""
        texts = [part.info.user_metadata for part in self._joined if part.info.user_metadata is not None]
        return "\n".join(dict.fromkeys(texts)) if texts else None

    def _parameters(self) -> Mapping[str, str]:
        told: list[Mapping[str, Any]] = [
            {"operation": part.info.operation, "operationParameters": dict(part.info.operation_parameters or {})}
            for part in self._joined
        ]
        return {"operations": orjson.dumps(told).decode()}


def table_writes(txn_id: str, tables: Sequence[TransactionTableState]) -> dict[str, TableWrite]:
    """Return the commits of the next attempt, by table id, with a `transactionGroup` if the tables support it.

    A transaction that writes one table has no group.

    Raises:
        OperationNotAllowed: If some of several written tables support the feature, but not all.
        UnsupportedFeature: If the tables belong to several owners.
    """
    writes = {table.table_id: write for table in tables if (write := table.table_write()) is not None}
    written = [table for table in tables if table.table_id in writes]
    grouped = [table for table in written if table.supports_groups]
    if not grouped or len(written) < _FEWEST:
        return writes
    catalogs = {table.owner.owner_id for table in written}
    if len(catalogs) > 1:
        raise UnsupportedFeature(
            f"transaction {txn_id}: table {grouped[0].name} supports {MULTI_TABLE}, which allows one catalog, but the "
            f"transaction writes tables of {len(catalogs)} lakes. Drop the feature, or write each lake by itself"
        )
    lacking = [table.name for table in written if table not in grouped]
    if lacking:
        raise OperationNotAllowed(
            f"transaction {txn_id}: table {grouped[0].name} supports {MULTI_TABLE}, but {', '.join(lacking)} does not. "
            f"Set {FEATURE_PREFIX}{MULTI_TABLE}-dev to 'supported' in all tables that the transaction writes, or drop "
            "the feature"
        )
    group = TransactionGroup.of(txn_id, {table_id: write.version for table_id, write in writes.items()}, *catalogs)
    described = {}
    for table_id, write in writes.items():
        info, *others = write.actions
        described[table_id] = replace(write, actions=[info, group.to_json(), *others])
    return described
