"""What a transaction over many tables asks of the owner of its tables, and what it is answered.

Times are ms since the epoch on the owner's clock, which never goes back. Source: paper §3, §4; docs/transactions.md.
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
"""The granule that is the whole table; others are texts such as `["day","2026-11-21"]`, equal for equal partitions."""

LONGEST_GRANULE = 512
"""How many characters a granule has at most."""
LONGEST_AHEAD_MS = 60_000
"""How far ahead of the owner's clock a transaction can be told the time."""
LONGEST_LOCK_WAIT_S = 10.0
"""For how long one request may wait for locks: a client that wants to wait longer asks again."""
LONGEST_PREPARE_WAIT_S = 20.0
"""For how long a request to prepare a transaction may wait for locks: of what was read, then of what is written."""
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
    """A table in a cut: the newest version, and its timestamp.

    Of a cut of the past both are None where the owner's database does not reach back so far: then the log tells, up to
    the version `known_from - 1`. A table that `is_released` was handed back later, with that version; it is nobody's.
    """

    always_sent = ("known_from",)

    table_id: ToldId
    name: str
    location: str
    version: Known | None
    timestamp_ms: int | None
    known_from: int = 0
    is_released: Annotated[bool, WireType(description="It was handed back after that instant.")] = False


@dataclass(frozen=True, slots=True)
class Cut(ResponseModel):
    """One consistent state of all tables, and the owner's time: of a transaction that begins with it, t_s."""

    timestamp_ms: int
    tables: Listed[TableVersion]

    def named(self, name: str) -> TableVersion | None:
        """The table called `name`."""
        return next((table for table in self.tables if table.name == name), None)


@dataclass(frozen=True, slots=True)
class Item(RequestModel):
    """What is read, written or locked: a table, or of a table what has one value in a partition column."""

    table_id: Id
    granule: Granule = WHOLE


@dataclass(frozen=True, slots=True)
class TimeRequest(RequestModel):
    """A transaction asks for the current time, truncated to `precision` in `zone`.

    `range` is what its reads, writes and earlier requests leave; `writes` what it has written so far. The answer is
    `ahead_ms` after the owner's time, and it commits no earlier than that. `holds` are tables, by ids, that it is going
    to write: at full precision nobody else reads or writes them at or after the time that is told before it ends.
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
    """Locks for a transaction that began at `started_ms`; they are its own until it ends, or does not say it lives.

    Tables whose granules are asked for get the intention lock by themselves. `timeout_s`: for how long others are
    waited for.
    """

    in_path = "txn_id"

    txn_id: Id
    started_ms: Instant
    items: Many[Item]
    is_exclusive: bool
    timeout_s: Timeout


@dataclass(frozen=True, slots=True)
class TableRead(RequestModel):
    """What was read of a table: `granules` of it as of its version `version`.

    `version` may be a later one than was read, where nothing that came in between would have been read.
    """

    table_id: Id
    version: Version
    granules: Many[Granule] = (WHOLE,)


@dataclass(frozen=True, slots=True)
class TableWrite(RequestModel):
    """A commit to one of the tables, as `CommitRequest` has it; the version is the one after that it was based on."""

    table_id: Id
    version: Version
    actions: Actions = field(repr=False)
    may_move: MayMove = False


@dataclass(frozen=True, slots=True)
class TransactionRequest(RequestModel):
    """One transaction, by its identity `txn_id` (a UUID), which is the `txnId` of all its commits.

    `range` bounds its timestamp: by what it read and was told of the time. Without `writes` it only reads.
    `has_locks`: it locked what it depends on, and is refused where it has lost that. `is_replay` says that an earlier,
    equal request may have been carried out.
    """

    txn_id: Id
    range: TimestampRange
    reads: Many[TableRead] = ()
    writes: Many[TableWrite] = ()
    has_locks: Annotated[bool, WireType(description="It is refused where it has lost its locks.")] = False
    is_replay: IsReplay = False


@dataclass(frozen=True, slots=True)
class TransactionResponse(ResponseModel):
    """The transaction counts, at `timestamp_ms`: its commits by table id, all of that timestamp."""

    timestamp_ms: int
    commits: Annotated[Mapping[str, CommitResponse], WireType()]


@dataclass(frozen=True, slots=True)
class TransactionConflict(ResponseModel):
    """Tables, by id, that have newer versions than the transaction is based on: the latest that is ratified.

    Nothing of it is visible; where it may follow these versions it is asked for again.
    """

    latest_versions: Annotated[Mapping[str, Known], WireType()]


@dataclass(frozen=True, slots=True)
class Vote(ResponseModel):
    """A participant's promise to commit at any timestamp of `range` that the coordinator decides for.

    `now_ms` is its owner's time. Source: paper §3.2.2.
    """

    range: AnsweredRange
    now_ms: int


@dataclass(frozen=True, slots=True)
class InDoubt(ResponseModel):
    """A transaction that a participant has voted for, and whose outcome the owner `coordinator_id` knows."""

    txn_id: ToldId
    coordinator_id: ToldId
    voted_ms: int
