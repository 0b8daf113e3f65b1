"""One attempt at a transaction, and what may come of it when versions are given out.

Source: paper §3.1 (V_R, V_I, V_D), §4.1.1; docs/commit-owner.md, docs/transactions.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from slackwater.errors import SlackwaterError
from slackwater.owner.api.granules import checked, stamped
from slackwater.owner.api.transactions import (
    Item,
    TableRead,
    TransactionConflict,
    TransactionRequest,
    TransactionResponse,
)
from slackwater.owner.commit.allocation import Blocked, InFlight, Purged
from slackwater.owner.state.commit_content import ContentFacts
from slackwater.owner.state.heads import Allocated


@dataclass(frozen=True, slots=True)
class JointAttempt:
    """One attempt at a transaction; `file_id` (a UUID) is its own, and part of its files' names.

    `facts` and `granules` (those it writes, None for all) of its writes by table. Up to `searched_version` the log of
    the first table that it writes was searched for an earlier result.
    """

    request: TransactionRequest
    facts: Mapping[str, ContentFacts]
    granules: Mapping[str, Sequence[str] | None]
    file_id: str
    holder: str
    lease_ms: int
    searched_version: int = -1
    has_waited: bool = False
    """For the time that it was promised, as long as that was away; a clock that stepped back may never come there."""
    is_decided: bool = False
    """The timestamp was decided for all owners of the transaction, of which this one promised that it can be."""


@dataclass(frozen=True, slots=True)
class JointAllocated:
    """The versions, by table, are the attempt's until its lease ends; all have the one timestamp."""

    timestamp_ms: int
    parts: Mapping[str, Allocated]


@dataclass(frozen=True, slots=True)
class TooEarly:
    """The transaction was promised a time that has not come: ask again in so many ms."""

    wait_ms: int


Outcome: TypeAlias = (
    JointAllocated
    | InFlight
    | Blocked
    | TooEarly
    | Purged
    | TransactionResponse
    | TransactionConflict
    | SlackwaterError
)


def tables_of(request: TransactionRequest) -> set[str]:
    """The tables that a transaction reads or writes, by ids."""
    return {read.table_id for read in request.reads} | {write.table_id for write in request.writes}


def written_items(attempt: JointAttempt) -> list[Item]:
    """The items whose read timestamps its own must exceed."""
    return [item for table_id, granules in attempt.granules.items() for item in checked(table_id, granules)]


def read_items(read: TableRead) -> list[Item]:
    """The items whose read timestamps a read moves forward."""
    return stamped(read.table_id, read.granules)
