"""Interface of the commit owner: the three calls of managed commits, table ownership and transactions.

Commits are staged, then ratified, then backfilled. The owner chooses versions and timestamps (ms since the epoch).
Source: managed-commits.md "Commit Owner API", "Sample Commit Owner API".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from slackwater.owner.api.commits import (
    LATEST,
    CommitConflict,
    CommitRequest,
    CommitResponse,
    GetCommitsResponse,
    ManagedTable,
    OwnershipProposal,
)
from slackwater.owner.api.monitoring import Activity, RecentCommit
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import (
    Cut,
    InDoubt,
    LockRequest,
    TimeRequest,
    TransactionConflict,
    TransactionRequest,
    TransactionResponse,
    Vote,
)


class CommitOwner(Protocol):
    """The owner of the commits of its tables. The embedded and the served owner have the same interface.

    Every call may raise CommitOwnerUnavailable and NotAuthorized. Calls for a table raise TableNotFound if the owner
    does not manage the table.
    """

    @property
    def owner_id(self) -> str:
        """Identity of the owner, a UUID. Owners with a shared database have the same identity."""
        ...

    @property
    def endpoint(self) -> str | None:
        """URL of the served owner, without secrets. None for an embedded owner."""
        ...

    def commit(self, request: CommitRequest) -> CommitResponse | CommitConflict:
        """Commit the request's actions to the table: atomic, durable, at most once.

        After every error except CommitUnknown, the commit has no effect.

        Raises:
            InvalidArgument: If the previous version does not exist.
            ProtocolChangedException: If this owner no longer manages the table.
            UnratifiedCommit: If the log contains a commit not ratified by the owner.
            CommitOwnerBusy: If too many commits wait for their backfill.
            CommitUnknown: If the outcome of the commit is unknown.
            CommitFailed: If the commit failed without effect.
        """
        ...

    def get_commits(
        self, table_id: str, start_version: int, end_version: int = LATEST, with_data: bool = False
    ) -> GetCommitsResponse:
        """Return the ratified commits in `[start_version, end_version]` without a backfilled file.

        With `with_data`, small commits include their content. A reader lists the log first, then calls this method. If
        the first returned version leaves a gap after the listing, the reader must list the log again.
        """
        ...

    def backfill_to_version(self, table_id: str, version: int = LATEST) -> int:
        """Copy ratified commits up to `version` to `_delta_log`, in order.

        Return the latest backfilled version. Raises UnratifiedCommit if the log contains another commit there,
        StorageError.
        """
        ...

    def tables(self) -> list[ManagedTable]:
        """Return the tables of this owner in the order of their names, including proposed and releasing tables."""
        ...

    def table(self, name: str) -> ManagedTable:
        """Return the table called `name`. Raises TableNotFound."""
        ...

    def take(self, proposal: OwnershipProposal) -> CommitResponse | CommitConflict:
        """Acquire ownership of a table, starting at the proposed commit.

        The owner first records a proposal in its database. A put-if-absent into the log then makes the ownership
        effective. Return CommitConflict if the version exists already. In this case the owner discards the proposal.
        Source: "Creating a new managed-commit table", "Converting an existing filesystem based table".

        Raises:
            TableAlreadyExists: If the name or the location is in use.
            InvalidArgument: If the proposal is invalid.
            PathNotAllowed: If the location is outside the roots of the owner.
            StorageError: If the store fails.
            CommitUnknown: If the outcome is unknown. `repair` resolves the outcome later.
        """
        ...

    def release(self, request: CommitRequest) -> CommitResponse | CommitConflict:
        """Release a table to the file system, by a commit without the ownership. Backfill the whole table.

        Raises OperationNotAllowed if the owner must not release the table, and the errors of `commit`. Source:
        "Converting a managed-commit table to filesystem table".
        """
        ...

    def repair(self, table_id: str | None = None) -> list[str]:
        """Complete interrupted operations and delete unneeded files, for one table or all. Return the actions in text.

        Completes or discards proposals and releases, drops commits of crashed processes, and backfills ratified
        commits. Deletes staged files without a record after a grace period. Reports commits of foreign writers.
        """
        ...

    def cut(self, timestamp_ms: int | None = None) -> Cut:
        """Return a consistent state of all tables: the latest, or the stable state at `timestamp_ms`.

        A request for the past waits until all commits up to `timestamp_ms` are ratified. No later commit gets a
        timestamp up to `timestamp_ms`. Raises TimestampOutOfRange for a future timestamp. Source: paper §1.
        """
        ...

    def narrow(self, request: TimeRequest) -> TimestampRange:
        """Return the timestamp range after a request for the current time. Source: paper §3.2.1, §4.1.1.

        Raises TimestampConflict if no timestamp is left, InvalidArgument for an unknown precision or zone.
        """
        ...

    def lock(self, request: LockRequest) -> None:
        """Lock the items for the transaction. Existing locks stay, and become exclusive on request.

        Before the call returns, every pending commit to the items is resolved. Raises LockTimeout with the lock holders
        in its message, DeadlockDetected, TableNotFound.
        """
        ...

    def keep_alive(self, txn_id: str) -> None:
        """Renew the lease of the transaction, of its locks and of its timestamp reservations.

        Raises LockTimeout if the transaction lost its locks, or has neither locks nor reservations.
        """
        ...

    def commit_transaction(self, request: TransactionRequest) -> TransactionResponse | TransactionConflict:
        """Commit all writes of the request with one timestamp: atomic, durable, at most once.

        Releases the transaction's locks after every outcome except a conflict. Raises the errors of `commit`, and
        TimestampConflict if no timestamp is left. Source: paper §3.1.4, §3.2.2, §4.1.1, §4.2; docs/transactions.md.
        """
        ...

    def end(self, txn_id: str) -> None:
        """Discard a transaction without a commit and release its locks. A prepared transaction stays."""
        ...

    def prepare(self, request: TransactionRequest, coordinator_id: str) -> Vote | TransactionConflict:
        """Vote to commit this owner's part of a multi-owner transaction, at any timestamp of the vote.

        The vote is durable. Reads and writes of the transaction stay locked until `finish`. Raises the errors of
        `commit_transaction`. After an error, the owner has not voted. Source: paper §3.2.2; docs/transactions.md
        "Several lakes".
        """
        ...

    def decide(self, txn_id: str, timestamp_ms: int | None, participants: Sequence[str]) -> int | None:
        """Record the coordinator's decision: commit at `timestamp_ms`, or abort if None.

        Return the effective decision, because an earlier call may have decided differently. This is the commit point.
        `participants` are the ids of the owners with a vote.
        """
        ...

    def decision(self, txn_id: str) -> int | None:
        """Return the commit timestamp decided by the coordinator, None for an abort.

        Decides to abort if the transaction is undecided (presumed abort).
        """
        ...

    def finish(self, txn_id: str, timestamp_ms: int | None) -> TransactionResponse | None:
        """Apply the decision at a participant, at most once.

        Return None for an abort, and for an earlier commit with purged rows. Raises InvalidArgument if `timestamp_ms`
        is outside the vote. After StorageError or CommitOwnerUnavailable, the caller must call again.
        """
        ...

    def acknowledge(self, txn_id: str, participant_id: str) -> None:
        """Record at the coordinator that one participant applied the decision.

        After the last acknowledgement, the coordinator deletes a decision to commit.
        """
        ...

    def in_doubt(self) -> list[InDoubt]:
        """Return the transactions with a vote of this owner and an unknown outcome."""
        ...

    def activity(self) -> Activity:
        """Return active transactions, locks and waits, for monitoring. The result may be out of date on arrival."""
        ...

    def recent_commits(self, limit: int = 50) -> list[RecentCommit]:
        """Return the latest commits of all tables, newest first.

        The owner's database retains about the latest 1000 commits of a table. Raises InvalidArgument for a limit above
        MOST_COMMITS.
        """
        ...

    def close(self) -> None:
        """Backfill the commits of this process and close the connections. The owner is unusable afterwards."""
        ...
