"""What an owner tells of itself to people: who is at work, who waits for whom, what was committed lately.

Nothing here decides anything. Of transactions only the beginning of the id is told: who knows all of it could end one
that was opened without a token. Times are ms since the epoch, by the owner's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from slackwater.owner.api.field_types import GREATEST_VERSION, Known, Listed, ToldId, Version, whole_number
from slackwater.owner.api.wire_model import ResponseModel, WireType

MOST_COMMITS = 1000
"""How many commits are told at once, at most."""
MOST_SHOWN = 1000
"""How many transactions, locks and promises are told, at most of each."""


class TransactionPhase(str, Enum):
    """How far a transaction is."""

    OPEN = "open"
    """It reads, writes, was told the time, or holds locks."""
    COMMITTING = "committing"
    """It has its versions and its timestamp; its files are being staged."""
    PREPARED = "prepared"
    """It was voted for: a coordinator decides, see `in_doubt`."""


@dataclass(frozen=True, slots=True)
class OpenTransaction(ResponseModel):
    """A transaction, or a commit to one table, that has not ended.

    `transaction` is the beginning of its id, `tables` names of those that it has locked, was promised or commits to.
    `since_ms` is since when the owner knows of it, None where nothing says. Its timestamp is after `low_ms` and at most
    `high_ms`, None where nothing is known. `holder` is the process that works at it, `opened_by` the token. Where
    `has_ended` the lease is over or the process dead: whatever is in the way of others goes.
    """

    transaction: str
    stage: Annotated[TransactionPhase, WireType(strict=False)]
    tables: Listed[str]
    since_ms: int | None
    low_ms: int | None
    high_ms: int | None
    holder: str
    opened_by: str | None
    until_ms: int | None
    has_ended: bool


@dataclass(frozen=True, slots=True)
class LockInfo(ResponseModel):
    """What a transaction has locked, or waits for: the table, or of it the partition that `granule` names.

    `held` and `wanted` are IS, IX, S, SIX, X, '' for nothing. `waits_for` are the transactions in the way of what is
    wanted, by the beginnings of their ids.
    """

    table: str
    granule: str
    transaction: str
    held: str
    wanted: str
    waits_for: Listed[str]
    since_ms: int
    until_ms: int
    holder: str
    has_ended: bool


@dataclass(frozen=True, slots=True)
class TimestampReservationInfo(ResponseModel):
    """A time that a transaction was told, kept free for it in a table. Source: docs/transactions.md (hold)."""

    table: str
    transaction: str
    timestamp_ms: int
    until_ms: int
    holder: str
    has_ended: bool


@dataclass(frozen=True, slots=True)
class ReadTimestampLoad(ResponseModel):
    """The read timestamp table: `used` of its `slots` have an entry, the latest `latest_ms`; none is below `floor_ms`.

    Source: paper §4.1.
    """

    slots: int
    used: int
    floor_ms: int
    latest_ms: int


@dataclass(frozen=True, slots=True)
class Activity(ResponseModel):
    """Who is at work at `now_ms`, oldest first. Of more than MOST_SHOWN of a kind `left_out` counts the others."""

    now_ms: int
    transactions: Listed[OpenTransaction]
    locks: Listed[LockInfo]
    promises: Listed[TimestampReservationInfo]
    read_timestamps: ReadTimestampLoad
    left_out: int


@dataclass(frozen=True, slots=True)
class RecentCommit(ResponseModel):
    """A commit that counts. `operation`, `user_name` and `metrics` are what its writer says, None and nothing for none.

    Commits of one transaction have one `transaction` (the beginning of its id) and one `timestamp_ms`.
    """

    table_id: ToldId
    table: str
    version: Version
    timestamp_ms: Annotated[int, WireType(before=whole_number, le=GREATEST_VERSION)]
    transaction: str
    size_bytes: Known
    is_backfilled: bool
    operation: str | None
    user_name: str | None
    metrics: Annotated[Mapping[str, str], WireType()]
