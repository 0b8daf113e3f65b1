"""The bodies of requests and answers of transactions over many tables; those of requests are checked against them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.json_schema import SkipJsonSchema

from slackwater.owner.api.transactions import LONGEST_AHEAD_MS, LONGEST_GRANULE, WHOLE
from slackwater.owner.served.wire.schemas import (
    FROM_JSON,
    Actions,
    Body,
    CommitAnswer,
    Id,
    Known,
    Text,
    Version,
)
from slackwater.owner.served.wire.transactions import (
    GREATEST_TIMEOUT_S,
    GREATEST_TIMESTAMP_MS,
    LONGEST_LOCK_WAIT_S,
    LONGEST_ZONE,
    MOST_ITEMS,
)

Precision = Literal["day", "hour", "minute", "second", "decisecond", "centisecond", "millisecond"]
Instant = Annotated[int, Field(ge=0, le=GREATEST_TIMESTAMP_MS, description="Milliseconds since the epoch."), FROM_JSON]
# What lies before the epoch bounds nothing.
Bound = Annotated[int, Field(ge=-1, le=GREATEST_TIMESTAMP_MS, description="Milliseconds since the epoch."), FROM_JSON]
Granule = Annotated[str, Field(pattern=r"^[^\x00-\x1f]*$", max_length=LONGEST_GRANULE)]


Timeout = Annotated[
    float,
    Field(
        ge=0,
        le=GREATEST_TIMEOUT_S,
        allow_inf_nan=False,
        description=f"For how long to wait, at most {LONGEST_LOCK_WAIT_S:g} s at once: ask again after LockTimeout.",
    ),
]


class CutQuery(BaseModel):
    """Which state."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")

    timestamp_ms: Instant | SkipJsonSchema[None] = Field(None, description="The latest state where none is given.")


class RangeRecord(Body):
    """A timestamp is greater than `lowMs` and at most `highMs`; null where there is no upper bound."""

    low_ms: Bound
    high_ms: Bound | None


class ItemRecord(Body):
    """A table, or what has one value in a partition column of it."""

    table_id: Id
    granule: Granule = Field(WHOLE, description="Empty for the whole table.")


class TimeBody(Body):
    """A request for the current time."""

    range: RangeRecord
    precision: Precision = "millisecond"
    zone: Annotated[Text, Field(max_length=LONGEST_ZONE)] = "UTC"
    writes: list[ItemRecord] = Field([], max_length=MOST_ITEMS, fail_fast=True)
    ahead_ms: Annotated[int, Field(ge=0, le=LONGEST_AHEAD_MS), FROM_JSON] = 0
    holds: list[Id] = Field([], max_length=MOST_ITEMS, fail_fast=True, description="Tables that it is going to write.")


class LockBody(Body):
    """A request for locks."""

    started_ms: Instant
    items: list[ItemRecord] = Field(max_length=MOST_ITEMS, fail_fast=True)
    is_exclusive: bool
    timeout_s: Timeout


class ReadRecord(Body):
    """What was read of a table."""

    table_id: Id
    version: Version
    granules: list[Granule] = Field([WHOLE], max_length=MOST_ITEMS, fail_fast=True)


class WriteRecord(Body):
    """A commit of the transaction."""

    table_id: Id
    version: Version
    actions: Actions
    may_move: bool = Field(False, description="A later version than the one asked for will do: a blind append.")


class WorkBody(Body):
    """What a transaction depends on and does."""

    range: RangeRecord
    reads: list[ReadRecord] = Field([], max_length=MOST_ITEMS, fail_fast=True)
    writes: list[WriteRecord] = Field([], max_length=MOST_ITEMS, fail_fast=True)
    has_locks: bool = Field(False, description="It is refused where it has lost its locks.")
    is_replay: bool = Field(False, description="An earlier, equal request may have been carried out.")


class TransactionBody(WorkBody):
    """One transaction; of any number of equal requests one counts."""

    txn_id: Id


class PrepareBody(WorkBody):
    """This owner's part of a transaction over the tables of several owners."""

    coordinator_id: Id = Field(description="The owner that decides, a UUID: it is asked whoever does not know.")


class FinishBody(Body):
    """What was decided."""

    timestamp_ms: Instant | None = Field(description="When the transaction commits; null where it does not.")


class DecisionBody(FinishBody):
    """What is to be decided."""

    participants: list[Id] = Field(max_length=MOST_ITEMS, fail_fast=True, description="The owners that voted.")


class AcknowledgeBody(Body):
    """An owner that has carried out the decision."""

    participant_id: Id


class TableVersionRecord(Body):
    """A table in a state of all of them; what is null the table's log tells, up to the version before `knownFrom`."""

    table_id: Id
    name: str
    location: str
    version: Known | None
    timestamp_ms: int | None
    known_from: int
    is_released: bool = Field(False, description="It was handed back after that instant.")


class CutAnswer(Body):
    """One state of all tables, and its time."""

    timestamp_ms: int
    tables: list[TableVersionRecord]


class TransactionAnswer(Body):
    """The transaction counts; its commits by table id."""

    timestamp_ms: int
    commits: dict[str, CommitAnswer]


class TransactionConflictAnswer(Body):
    """Tables, by id, that have newer versions: the latest of each."""

    latest_versions: dict[str, Known]


class VoteAnswer(Body):
    """A promise to commit at any timestamp of the range, and the time of the owner."""

    range: RangeRecord
    now_ms: int


class DecisionAnswer(Body):
    """What counts: when the transaction commits, null where it does not."""

    timestamp_ms: int | None


class FinishAnswer(Body):
    """What was carried out; null where that was to forget the transaction, or was done before."""

    transaction: TransactionAnswer | None


class InDoubtRecord(Body):
    """A transaction that the owner has voted for, and when."""

    txn_id: Id
    coordinator_id: Id
    voted_ms: int


class InDoubtAnswer(Body):
    """The transactions whose outcome the owner has not been told."""

    transactions: list[InDoubtRecord]


class DoneAnswer(Body):
    """It is done."""
