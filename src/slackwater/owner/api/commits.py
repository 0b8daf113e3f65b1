"""The commit owner as its clients see it: the three calls of managed commits, and those for a table's ownership.

Commits are staged, then ratified, then backfilled. Versions and timestamps (ms since the epoch) are the owner's to
choose. Source: managed-commits.md "Commit Owner API", "Sample Commit Owner API".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
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

LATEST = -1
"""As `end_version`: up to the latest ratified version."""

Action = Mapping[str, Any]


class TableState(str, Enum):
    """Where a table is on its way into and out of an owner's hands."""

    PROPOSED = "proposed"
    """The owner has promised to own it; the commit that says so may not be in the table's log yet."""
    ACTIVE = "active"
    RELEASING = "releasing"
    """No commit is taken any more; the one that hands the table back may not be in the table's log yet."""
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class ManagedTable:
    """What an owner knows of a table; `location` is the URL of its root.

    Versions are -1 where there is none: `ratified_version` is the latest that counts, `backfilled_version` the latest
    that is in `_delta_log` for everybody. `problem` says what keeps the owner from taking commits, '' where nothing.
    """

    table_id: str
    name: str
    location: str
    state: TableState
    ratified_version: int
    backfilled_version: int
    timestamp_ms: int
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Commit:
    """A ratified commit: the file `_delta_log/_commits/<file_name>`, and once backfilled `_delta_log/<version>.json`.

    `data` is the file's content, None where it was not asked for or is large: then the file has it.
    """

    version: int
    file_name: str
    timestamp_ms: int
    size_bytes: int
    data: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """One commit to one table, by the identity `commit_id` (a UUID): of any number of equal requests one counts.

    `version` is the one after the version that the work was based on. `actions` are as in the log, `commitInfo` first;
    its `txnId` is `commit_id`, and what it says of time is replaced by the owner. `may_move` promises that nothing was
    read, and that every action adds a file whose name is new to the log: such a commit may get a later version.
    `is_replay` says that an earlier, equal request may have been carried out.
    """

    table_id: str
    commit_id: str
    version: int
    actions: Sequence[Action] = field(repr=False)
    may_move: bool = False
    is_replay: bool = False


@dataclass(frozen=True, slots=True)
class CommitResponse:
    """The commit counts; its version is later than the one asked for where a commit that may move lost the race.

    `latest_version` is the latest that was ratified then.
    """

    commit: Commit
    latest_version: int


@dataclass(frozen=True, slots=True)
class CommitConflict:
    """The version belongs to another commit, and nothing of this one is visible; `latest_version` is ratified."""

    latest_version: int


@dataclass(frozen=True, slots=True)
class GetCommitsResponse:
    """The ratified commits of a range that are not backfilled, ascending without a gap, and the latest version.

    The first may be later than the start that was asked for: what is missing before it is in `_delta_log`.
    """

    commits: Sequence[Commit]
    latest_version: int


@dataclass(frozen=True, slots=True)
class OwnershipProposal:
    """The commit that makes a table this owner's: `version` 0 creates it, a later one takes over what is there.

    Its metadata names the owner and `table_id` (a UUID of the proposer's choice). `previous_timestamp_ms` is that of
    the version before, None for a new table; `row_id_mark` the row id high-water mark, None where there are no row ids.
    """

    table_id: str
    name: str
    location: str
    commit_id: str
    version: int
    actions: Sequence[Action] = field(repr=False)
    previous_timestamp_ms: int | None = None
    row_id_mark: int | None = None


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
        too many commits wait for their backfill, CommitUnknown where nobody can say whether the commit counts;
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
        """Finish what was cut short and remove what nobody needs, in one table or all: what was done, in words.

        Promises and releases are carried out or forgotten, commits of the dead dropped, ratified ones backfilled,
        staged files without a record deleted after a time of grace, foreign commits reported.
        """
        ...

    def cut(self, timestamp_ms: int | None = None) -> Cut:
        """One state of all tables: the latest, or the one that was current at `timestamp_ms`, for ever the same.

        A state of the past is waited for while commits of before then are being ratified, and none can get a timestamp
        up to then afterwards. Raises TimestampOutOfRange for an instant of the future. Source: paper §1; design §6.
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
        timestamp is left for it. Source: paper §3.1.4, §3.2.2, §4.1.1, §4.2; design §6.
        """
        ...

    def end(self, txn_id: str) -> None:
        """Forget a transaction that is not going to commit: its locks are free. One that is prepared stays."""
        ...

    def prepare(self, request: TransactionRequest, coordinator_id: str) -> Vote | TransactionConflict:
        """Promise to commit this owner's part of a transaction over the tables of several, at any time of the vote.

        The promise is durable, and what was read and is written is locked until `finish`. Raises as
        `commit_transaction`: then nothing is promised. Source: paper §3.2.2; design §6 (several owners).
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

    def close(self) -> None:
        """Backfill what this process committed, and let go of connections; the owner is not used afterwards."""
        ...
