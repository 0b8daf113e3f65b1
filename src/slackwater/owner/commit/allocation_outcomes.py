"""An attempt at a commit or at a multi-table transaction, and the possible outcomes of its allocation.

A commit to one table is a transaction with one written table and no timestamp constraint. It is alone: only its own row
decides whether it is committed. Source: paper §3.1 (V_R, V_I, V_D), §4.1.1; docs/commit-owner.md, docs/transactions.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
class ClientFile:
    """A file that its client staged: the UUID in its name, and its content."""

    file_id: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt at a transaction. `file_id` (a UUID) belongs to this attempt and is part of its file names.

    `facts` and `granules` describe its writes by table (`granules` are the written granules, None for the whole table).
    With `is_alone`, the attempt has one write and no row in the timestamp table. The log of the first written table was
    searched for an earlier result up to `searched_version`.
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
    """The attempt has waited once for its reserved timestamp. A clock set back may never reach it."""
    staged: Mapping[str, ClientFile] = field(default_factory=dict)
    """Files that the client staged itself, by table. Empty if the owner stages the files."""
    is_decided: bool = False
    """The coordinator decided the timestamp for all owners, after this owner voted for it."""

    @staticmethod
    def of(request: TransactionRequest, file_id: str, holder: str, lease_ms: int) -> Attempt:
        """Return the first attempt at `request`. Raises InvalidArgument for actions unsuitable for a commit."""
        written = [write.table_id for write in request.writes]
        if len(set(written)) != len(written):
            raise InvalidArgument("a transaction has one commit for each table that it writes, found two for one table")
        facts = {write.table_id: facts_of(write.actions, request.txn_id) for write in request.writes}
        granules = {write.table_id: written_granules(write.actions) for write in request.writes}
        return Attempt(request, facts, granules, file_id, holder, lease_ms)

    @staticmethod
    def for_single_table(asked: CommitRequest, file_id: str, holder: str, lease_ms: int) -> Attempt:
        """Return the first attempt at a commit to one table.

        Raises InvalidArgument for actions unsuitable for a commit.
        """
        table_id = asked.table_id
        facts = {table_id: facts_of(asked.actions, asked.commit_id)}
        # The timestamp is after every read of the table, because a later timestamp is always possible.
        return Attempt(alone(asked), facts, {table_id: None}, file_id, holder, lease_ms, is_alone=True)

    def again(self, file_id: str) -> Attempt:
        """Return the next attempt, with a file of its own. A file staged by the client stays the same."""
        return self if self.staged else replace(self, file_id=file_id)

    def file_id_of(self, table_id: str) -> str:
        """Return the UUID in the name of the file for a table."""
        return self.staged[table_id].file_id if self.staged else self.file_id

    @property
    def who(self) -> str:
        """Description of the attempt for messages."""
        request = self.request
        return f"table {request.writes[0].table_id}" if self.is_alone else f"transaction {request.txn_id}"


def alone(asked: CommitRequest) -> TransactionRequest:
    """Return the transaction for a commit to one table. Its id is the id of the commit."""
    write = TableWrite(asked.table_id, asked.version, asked.actions, asked.may_move)
    return TransactionRequest(asked.commit_id, _ANY_TIME, (), (write,), is_replay=asked.is_replay)


@dataclass(frozen=True, slots=True)
class VersionsAllocated:
    """Versions by table, all with one timestamp. They belong to the attempt until its lease expires."""

    timestamp_ms: int
    parts: Mapping[str, Allocated]


@dataclass(frozen=True, slots=True)
class RetryAfterStaging:
    """Retry later: commits in staging decide whether the versions are free."""


@dataclass(frozen=True, slots=True)
class WaitForLock:
    """Retry later: a lock or a timestamp reservation of another transaction blocks the commit."""

    by: BlockingLock


@dataclass(frozen=True, slots=True)
class SearchLog:
    """Search the log for an earlier result, up to `version`, then retry. The database rows were purged.

    Both versions belong to the first written table. `latest_version` is ratified.
    """

    version: int
    latest_version: int


@dataclass(frozen=True, slots=True)
class WaitUntilTimestamp:
    """Retry after `wait_ms`: the reserved timestamp of the transaction is in the future."""

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
    """Return the ids of the tables read or written by a transaction."""
    return {read.table_id for read in request.reads} | {write.table_id for write in request.writes}


def written_items(attempt: Attempt) -> list[Item]:
    """Return the items of the writes. The commit timestamp must exceed their read timestamps."""
    return [item for table_id, granules in attempt.granules.items() for item in checked(table_id, granules)]


def read_items(read: TableRead) -> list[Item]:
    """Return the items of a read. The read raises their read timestamps."""
    return stamped(read.table_id, read.granules)
