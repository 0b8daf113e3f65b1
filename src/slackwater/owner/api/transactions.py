"""Requests and responses of an owner for transactions over many tables.

Times are ms since the epoch on the owner's clock. The clock never goes back. Source: paper §3, §4;
docs/transactions.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from slackwater.owner.api.actions import Actions
from slackwater.owner.api.commits import CommitResponse
from slackwater.owner.api.field_types import (
    GREATEST_TIMEOUT_S,
    TEXT_PATTERN,
    Id,
    Instant,
    IsReplay,
    Known,
    Listed,
    Many,
    MayMove,
    ToldId,
    Version,
    whole_number,
)
from slackwater.owner.api.timestamp_range import PRECISIONS, AnsweredRange, TimestampRange
from slackwater.owner.api.wire_model import RequestModel, ResponseModel, WireType

WHOLE = ""
"""Granule for the whole table. Other granules are texts such as `["day","2026-11-21"]`, equal for equal partitions."""

LONGEST_GRANULE = 512
"""Maximum length of a granule in characters."""
LONGEST_AHEAD_MS = 60_000
"""Maximum lead of a transaction's requested time over the owner's clock."""
LONGEST_LOCK_WAIT_S = 10.0
"""Maximum wait for locks in one request. A client repeats the request for a longer wait."""
LONGEST_PREPARE_WAIT_S = 20.0
"""Maximum wait for locks in a prepare request: first for read locks, then for write locks."""
LONGEST_ZONE = 255

Granule = Annotated[
    str,
    WireType(pattern=r"^[^\x00-\x1f]*$", max_length=LONGEST_GRANULE, description="Empty for the whole table."),
]
Timeout = Annotated[
    float,
    WireType(
        ge=0,
        le=GREATEST_TIMEOUT_S,
        allow_inf_nan=False,
        description=f"For how long to wait, at most {LONGEST_LOCK_WAIT_S:g} s at once: ask again after LockTimeout.",
        told=f"a number of seconds from 0 to {GREATEST_TIMEOUT_S:g}",
    ),
]


@dataclass(frozen=True, slots=True)
class TableVersion(ResponseModel):
    """A table in a cut: its newest version and timestamp.

    In a cut of the past both are None if the owner's database does not reach back far enough. The log then has the
    answer, up to the version `known_from - 1`. With `is_released`, the owner released the table later, by the version
    `known_from - 1`. The table then has no owner. No version after `change_version` changed the metadata or the
    protocol of the table, None if unknown.
    """

    always_sent = ("known_from",)

    table_id: ToldId
    name: str
    location: str
    version: Known | None
    timestamp_ms: int | None
    known_from: int = 0
    is_released: Annotated[bool, WireType(description="It was handed back after that instant.")] = False
    change_version: Annotated[
        Known | None, WireType(description="No later version changed the metadata or the protocol.")
    ] = None


@dataclass(frozen=True, slots=True)
class Cut(ResponseModel):
    """A consistent state of all tables, and the owner's time. The time is t_s of a transaction started with the cut."""

    timestamp_ms: int
    tables: Listed[TableVersion]

    def named(self, name: str) -> TableVersion | None:
        """Return the table called `name`, None if unknown."""
        return next((table for table in self.tables if table.name == name), None)


@dataclass(frozen=True, slots=True)
class Item(RequestModel):
    """A unit of reads, writes and locks: a table, or the rows of a table with one value in a partition column."""

    table_id: Id
    granule: Granule = WHOLE


@dataclass(frozen=True, slots=True)
class TimeRequest(RequestModel):
    """Request of a transaction for the current time, truncated to `precision` in `zone`.

    `range` is the range left by reads, writes and earlier requests, `writes` the items written so far. The returned
    time is `ahead_ms` after the owner's time, and the transaction commits no earlier. `holds` are ids of tables to be
    written. At full precision, other transactions cannot read or write them at or after the returned time until the
    transaction ends.
    """

    in_path = "txn_id"

    txn_id: Id
    range: TimestampRange
    precision: Annotated[str, WireType(Literal[PRECISIONS])] = "millisecond"
    zone: Annotated[str, WireType(pattern=TEXT_PATTERN, max_length=LONGEST_ZONE)] = "UTC"
    writes: Many[Item] = ()
    ahead_ms: Annotated[int, WireType(before=whole_number, ge=0, le=LONGEST_AHEAD_MS)] = 0
    holds: Many[Id] = ()


@dataclass(frozen=True, slots=True)
class LockRequest(RequestModel):
    """Locks for a transaction started at `started_ms`. The locks last until its end or until its lease expires.

    The owner adds the intention locks on the tables of the granules. `timeout_s` limits the wait for other
    transactions.
    """

    in_path = "txn_id"

    txn_id: Id
    started_ms: Instant
    items: Many[Item]
    is_exclusive: bool
    timeout_s: Timeout


@dataclass(frozen=True, slots=True)
class TableRead(RequestModel):
    """A read of a table: its `granules` at its version `version`.

    `version` may be later than the read version if no commit in between changed the result.
    """

    table_id: Id
    version: Version
    granules: Many[Granule] = (WHOLE,)


@dataclass(frozen=True, slots=True)
class TableWrite(RequestModel):
    """A commit to one of the tables, with the fields of `CommitRequest`. `version` is the version after its base."""

    table_id: Id
    version: Version
    actions: Actions = field(repr=False)
    may_move: MayMove = False


@dataclass(frozen=True, slots=True)
class TransactionRequest(RequestModel):
    """A transaction, identified by `txn_id` (a UUID), the `txnId` of all its commits.

    `range` bounds its timestamp by its reads and its requests for the time. Without `writes` the transaction is
    read-only. `has_locks`: the transaction locked its reads and writes. The owner rejects the request if the locks are
    lost. `is_replay`: an earlier, equal request may have succeeded.
    """

    txn_id: Id
    range: TimestampRange
    reads: Many[TableRead] = ()
    writes: Many[TableWrite] = ()
    has_locks: Annotated[bool, WireType(description="It is refused where it has lost its locks.")] = False
    is_replay: IsReplay = False


@dataclass(frozen=True, slots=True)
class TransactionResponse(ResponseModel):
    """A committed transaction: its commits by table id. All have the timestamp `timestamp_ms`."""

    timestamp_ms: int
    commits: Annotated[Mapping[str, CommitResponse], WireType()]


@dataclass(frozen=True, slots=True)
class TransactionConflict(ResponseModel):
    """Conflict: tables, by id, with newer versions than the transaction is based on.

    The values are the latest ratified versions. The transaction has no effect. The client retries if the transaction
    may follow these versions.
    """

    latest_versions: Annotated[Mapping[str, Known], WireType()]


@dataclass(frozen=True, slots=True)
class Vote(ResponseModel):
    """Vote of a participant: it can commit at any timestamp of `range` chosen by the coordinator.

    `now_ms` is the time of the participant. Source: paper §3.2.2.
    """

    range: AnsweredRange
    now_ms: int


@dataclass(frozen=True, slots=True)
class InDoubt(ResponseModel):
    """A transaction with a vote of this participant. The owner `coordinator_id` knows the outcome."""

    txn_id: ToldId
    coordinator_id: ToldId
    voted_ms: int
