"""Monitoring values of an owner: active transactions, locks, waits, recent commits.

No decision depends on these values. They contain only a prefix of transaction ids, because the full id allows ending a
transaction opened without a token. Times are ms since the epoch, on the owner's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from slackwater.owner.api.field_types import GREATEST_VERSION, Known, Listed, ToldId, Version, whole_number
from slackwater.owner.api.wire_model import ResponseModel, WireType

MOST_COMMITS = 1000
"""Maximum of commits in one response."""
MOST_SHOWN = 1000
"""Maximum of transactions, locks and timestamp reservations in one response, for each kind."""


class TransactionPhase(str, Enum):
    """Phase of a transaction."""

    OPEN = "open"
    """The transaction reads, writes, has requested the time, or has locks."""
    COMMITTING = "committing"
    """The transaction has its versions and its timestamp. Its files are being staged."""
    PREPARED = "prepared"
    """The owner has voted. A coordinator decides, see `in_doubt`."""


@dataclass(frozen=True, slots=True)
class OpenTransaction(ResponseModel):
    """A transaction, or a commit to one table, in progress.

    `transaction` is a prefix of its id. `tables` are the names of locked, reserved and written tables. `since_ms` is
    the start known to the owner, None if unknown. Its timestamp is after `low_ms` and at most `high_ms`, None if
    unknown. `holder` is the process of the transaction, `opened_by` the token. `has_ended` is true if the lease expired
    or the process crashed. Its locks and reservations then no longer block other transactions.
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
    """A lock of a transaction, or a lock request, on a table or on the partition `granule`.

    `held` and `wanted` are IS, IX, S, SIX, X, '' for none. `waits_for` are the blocking transactions, by prefixes of
    their ids.
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
    """A timestamp reservation of a transaction in a table. Source: docs/transactions.md (hold)."""

    table: str
    transaction: str
    timestamp_ms: int
    until_ms: int
    holder: str
    has_ended: bool


@dataclass(frozen=True, slots=True)
class ReadTimestampLoad(ResponseModel):
    """Load of the read timestamp table. `used` of its `slots` have an entry.

    `latest_ms` is the latest entry, `floor_ms` the lower bound of all entries. Source: paper §4.1.
    """

    slots: int
    used: int
    floor_ms: int
    latest_ms: int


@dataclass(frozen=True, slots=True)
class Activity(ResponseModel):
    """Active transactions, locks and timestamp reservations at `now_ms`, oldest first.

    `left_out` is the number of omitted entries, beyond MOST_SHOWN of each kind.
    """

    now_ms: int
    transactions: Listed[OpenTransaction]
    locks: Listed[LockInfo]
    promises: Listed[TimestampReservationInfo]
    read_timestamps: ReadTimestampLoad
    left_out: int


@dataclass(frozen=True, slots=True)
class RecentCommit(ResponseModel):
    """A ratified commit. `operation`, `user_name` and `metrics` come from its writer, None or empty if missing.

    Commits of one transaction share one `transaction` (a prefix of its id) and one `timestamp_ms`.
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
