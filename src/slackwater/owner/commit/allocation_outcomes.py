"""One attempt at a commit, or at a transaction over many tables, and what may come of it when versions are given out.

A commit to one table is a transaction that writes that table, at whatever time. It stands alone: no row but its own
says whether it counts. Source: paper §3.1 (V_R, V_I, V_D), §4.1.1; docs/commit-owner.md, docs/transactions.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from slackwater.errors import InvalidArgument, SlackwaterError
from slackwater.owner.api.commits import CommitRequest
from slackwater.owner.api.granules import checked, stamped, written_granules
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import (
    Item,
    TableRead,
    TableWrite,
    TransactionConflict,
    TransactionRequest,
    TransactionResponse,
)
from slackwater.owner.locks.lock_queue import BlockingLock
from slackwater.owner.state.commit_content import ContentFacts, facts_of
from slackwater.owner.state.log_head import Allocated

_ANY_TIME = TimestampRange(-1)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a transaction; `file_id` (a UUID) is its own, and part of its files' names.

    `facts` and `granules` (those it writes, None for all) of its writes by table. One that is `alone` has one write,
    and no row in the timestamp table. Up to `searched_version` the log of the first table that it writes was searched
    for an earlier result.
    """

    request: TransactionRequest
    facts: Mapping[str, ContentFacts]
    granules: Mapping[str, Sequence[str] | None]
    file_id: str
    holder: str
    lease_ms: int
    is_alone: bool = False
    searched_version: int = -1
    has_waited: bool = False
    """For the time that it was promised, as long as that was away; a clock that stepped back may never come there."""
    is_decided: bool = False
    """The timestamp was decided for all owners of the transaction, of which this one promised that it can be."""

    @staticmethod
    def of(request: TransactionRequest, file_id: str, holder: str, lease_ms: int) -> Attempt:
        """The first attempt at `request`. Raises InvalidArgument for actions that are no commits of it."""
        written = [write.table_id for write in request.writes]
        if len(set(written)) != len(written):
            raise InvalidArgument("a transaction has one commit for each table that it writes, found two for one table")
        facts = {write.table_id: facts_of(write.actions, request.txn_id) for write in request.writes}
        granules = {write.table_id: written_granules(write.actions) for write in request.writes}
        return Attempt(request, facts, granules, file_id, holder, lease_ms)

    @staticmethod
    def for_single_table(asked: CommitRequest, file_id: str, holder: str, lease_ms: int) -> Attempt:
        """The first attempt at a commit to one table. Raises InvalidArgument for actions that are no commit of it."""
        table_id = asked.table_id
        facts = {table_id: facts_of(asked.actions, asked.commit_id)}
        # Its time is after every read of the table: there is always a later one.
        return Attempt(alone(asked), facts, {table_id: None}, file_id, holder, lease_ms, is_alone=True)

    @property
    def who(self) -> str:
        """Whose attempt it is, for a message."""
        request = self.request
        return f"table {request.writes[0].table_id}" if self.is_alone else f"transaction {request.txn_id}"


def alone(asked: CommitRequest) -> TransactionRequest:
    """The transaction that a commit to one table is; its id is the commit's."""
    write = TableWrite(asked.table_id, asked.version, asked.actions, asked.may_move)
    return TransactionRequest(asked.commit_id, _ANY_TIME, (), (write,), is_replay=asked.is_replay)


@dataclass(frozen=True, slots=True)
class VersionsAllocated:
    """The versions, by table, are the attempt's until its lease ends; all have the one timestamp."""

    timestamp_ms: int
    parts: Mapping[str, Allocated]


@dataclass(frozen=True, slots=True)
class RetryAfterStaging:
    """Whether the versions are free depends on commits that are being staged: ask again."""


@dataclass(frozen=True, slots=True)
class WaitForLock:
    """A transaction has a lock, or was promised a time, that forbids the commit: ask again."""

    by: BlockingLock


@dataclass(frozen=True, slots=True)
class SearchLog:
    """Of versions up to `version` only the log tells whether one of them is the request's: search it, and ask again.

    Both are of the first table that is written; `latest_version` is ratified.
    """

    version: int
    latest_version: int


@dataclass(frozen=True, slots=True)
class WaitUntilTimestamp:
    """The transaction was promised a time that has not come: ask again in so many ms."""

    wait_ms: int


Outcome: TypeAlias = (
    VersionsAllocated
    | RetryAfterStaging
    | WaitForLock
    | WaitUntilTimestamp
    | SearchLog
    | TransactionResponse
    | TransactionConflict
    | SlackwaterError
)


def tables_of(request: TransactionRequest) -> set[str]:
    """The tables that a transaction reads or writes, by ids."""
    return {read.table_id for read in request.reads} | {write.table_id for write in request.writes}


def written_items(attempt: Attempt) -> list[Item]:
    """The items whose read timestamps its own must exceed."""
    return [item for table_id, granules in attempt.granules.items() for item in checked(table_id, granules)]


def read_items(read: TableRead) -> list[Item]:
    """The items whose read timestamps a read moves forward."""
    return stamped(read.table_id, read.granules)
