"""The commit owner as its clients see it: the three calls of managed commits, and those for a table's ownership.

Commits are staged, then ratified, then backfilled. Versions and timestamps (ms since the epoch) are the owner's to
choose. Source: managed-commits.md "Commit Owner API", "Sample Commit Owner API".
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
    """Ratifies the commits of its tables; the embedded and the served one are equals.

    Every call may raise CommitOwnerUnavailable and NotAuthorized; calls for a table raise TableNotFound where the owner
    does not know it.
    """

    @property
    def owner_id(self) -> str:
        """The identity of the owner, a UUID: two that share a database are one."""
        ...

    @property
    def endpoint(self) -> str | None:
        """The URL that the owner is served at, None for an embedded one. Never with a secret in it."""
        ...

    def commit(self, request: CommitRequest) -> CommitResponse | CommitConflict:
        """Make the request's actions a version of the table: atomic, durable, at most once.

        Raises InvalidArgument where the version before does not exist, ProtocolChangedException where the table is no
        longer this owner's, UnratifiedCommit where its log holds what the owner did not ratify, CommitOwnerBusy where
        too many commits wait for their backfill, CommitUnknown where it is not known whether the commit counts;
        CommitFailed and every other error: it does not.
        """
        ...

    def get_commits(
        self, table_id: str, start_version: int, end_version: int = LATEST, with_data: bool = False
    ) -> GetCommitsResponse:
        """The ratified commits in `[start_version, end_version]` that are not backfilled.

        With `with_data` small ones carry their content. For a reader that lists the log first and asks then: where the
        answer begins later than the listing ends, the listing is to be repeated.
        """
        ...

    def backfill_to_version(self, table_id: str, version: int = LATEST) -> int:
        """Copy ratified commits up to `version` to `_delta_log`, in order; the version that it reaches to now.

        Raises UnratifiedCommit where another commit is there, StorageError.
        """
        ...

    def tables(self) -> list[ManagedTable]:
        """The tables that are this owner's, or on their way, by name."""
        ...

    def table(self, name: str) -> ManagedTable:
        """The table of that name. Raises TableNotFound."""
        ...

    def take(self, proposal: OwnershipProposal) -> CommitResponse | CommitConflict:
        """Own a table from the proposed commit on: promised in the owner's database, real by put-if-absent in the log.

        CommitConflict where the version exists already: the promise is forgotten. Raises TableAlreadyExists for a name
        or a location that is taken, InvalidArgument, PathNotAllowed for a location outside the roots of the owner,
        StorageError; after CommitUnknown `repair` settles what became of it.
        Source: "Creating a new managed-commit table", "Converting an existing filesystem based table".
        """
        ...

    def release(self, request: CommitRequest) -> CommitResponse | CommitConflict:
        """Hand a table back to the file system by the commit that removes the ownership; all of it is backfilled then.

        Raises OperationNotAllowed where the owner does not give it up, and as `commit` does.
        Source: "Converting a managed-commit table to filesystem table".
        """
        ...

    def repair(self, table_id: str | None = None) -> list[str]:
        """Finish what was cut short and remove what is not needed, in one table or all: what was done, in words.

        Promises and releases are carried out or forgotten, commits of the dead dropped, ratified ones backfilled,
        staged files without a record deleted after a time of grace, foreign commits reported.
        """
        ...

    def cut(self, timestamp_ms: int | None = None) -> Cut:
        """One state of all tables: the latest, or the one that was current at `timestamp_ms`, for ever the same.

        A state of the past is waited for while commits of before then are being ratified, and none can get a timestamp
        up to then afterwards. Raises TimestampOutOfRange for an instant of the future. Source: paper §1.
        """
        ...

    def narrow(self, request: TimeRequest) -> TimestampRange:
        """The range that a request for the current time leaves. Source: paper §3.2.1, §4.1.1.

        Raises TimestampConflict where none is left, InvalidArgument for a precision or zone that there is none of.
        """
        ...

    def lock(self, request: LockRequest) -> None:
        """Lock the items for the transaction; those it has are kept, and made exclusive where that is asked.

        When this returns, every commit that was under way to them is settled. Raises LockTimeout, which says who holds
        what; DeadlockDetected; TableNotFound.
        """
        ...

    def keep_alive(self, txn_id: str) -> None:
        """Say that the transaction goes on: its locks, and what it holds, stay.

        Raises LockTimeout where locks are another's already.
        """
        ...

    def commit_transaction(self, request: TransactionRequest) -> TransactionResponse | TransactionConflict:
        """Make all commits of the request count at once, with one timestamp: atomic, durable, at most once.

        Its locks end, whatever comes of it, but for a conflict. Raises as `commit`, and TimestampConflict where no
        timestamp is left for it. Source: paper §3.1.4, §3.2.2, §4.1.1, §4.2; docs/transactions.md.
        """
        ...

    def end(self, txn_id: str) -> None:
        """Forget a transaction that is not going to commit: its locks are free. One that is prepared stays."""
        ...

    def prepare(self, request: TransactionRequest, coordinator_id: str) -> Vote | TransactionConflict:
        """Promise to commit this owner's part of a transaction over the tables of several, at any time of the vote.

        The promise is durable, and what was read and is written is locked until `finish`. Raises as
        `commit_transaction`: then nothing is promised. Source: paper §3.2.2; docs/transactions.md "Several lakes".
        """
        ...

    def decide(self, txn_id: str, timestamp_ms: int | None, participants: Sequence[str]) -> int | None:
        """As coordinator: record that the transaction commits at `timestamp_ms`, None for that it does not.

        What is answered counts: another decision may have been made before. This is the commit point. `participants`
        are the ids of the owners that voted.
        """
        ...

    def decision(self, txn_id: str) -> int | None:
        """As coordinator: when the transaction commits, None where it does not.

        Of one that is not decided it is then decided that it does not (presumed abort).
        """
        ...

    def finish(self, txn_id: str, timestamp_ms: int | None) -> TransactionResponse | None:
        """As participant: carry out what was decided, at most once; None where that is to forget it, or it was done.

        Raises StorageError and CommitOwnerUnavailable: then it is to be called again.
        """
        ...

    def acknowledge(self, txn_id: str, participant_id: str) -> None:
        """As coordinator: one participant has carried out the decision; after the last it is forgotten."""
        ...

    def in_doubt(self) -> list[InDoubt]:
        """The transactions that this owner has voted for, and whose outcome it has not been told."""
        ...

    def activity(self) -> Activity:
        """Who is at work now, and who waits for whom: for people, who may know by then what is no longer so."""
        ...

    def recent_commits(self, limit: int = 50) -> list[RecentCommit]:
        """The latest commits of all tables, newest first. Raises InvalidArgument for a limit beyond MOST_COMMITS.

        Of each table so many as the owner's database has, about the latest 1000.
        """
        ...

    def close(self) -> None:
        """Backfill what this process committed, and let go of connections; the owner is not used afterwards."""
        ...
