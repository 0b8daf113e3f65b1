"""What a transaction over many tables asks of the owner of its tables, and what it is answered.

Times are ms since the epoch on the owner's clock, which never goes back. Source: paper §3, §4; docs/transactions.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slackwater.owner.api.commits import Action, CommitResponse
from slackwater.owner.api.timestamp_range import TimestampRange

WHOLE = ""
"""The granule that is the whole table; others are texts such as `["day","2026-11-21"]`, equal for equal partitions."""

LONGEST_GRANULE = 512
"""How many characters a granule has at most."""
LONGEST_AHEAD_MS = 60_000
"""How far ahead of the owner's clock a transaction can be told the time."""


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table in a cut: the newest version, and its timestamp.

    Of a cut of the past both are None where the owner's database does not reach back so far: then the log tells, up to
    the version `known_from - 1`. A table that `is_released` was handed back later, with that version; it is nobody's.
    """

    table_id: str
    name: str
    location: str
    version: int | None
    timestamp_ms: int | None
    known_from: int = 0
    is_released: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """One consistent state of all tables, and the owner's time: of a transaction that begins with it, t_s."""

    timestamp_ms: int
    tables: Sequence[TableVersion]

    def named(self, name: str) -> TableVersion | None:
        """The table called `name`."""
        return next((table for table in self.tables if table.name == name), None)


@dataclass(frozen=True, slots=True)
class Item:
    """What is read, written or locked: a table, or of a table what has one value in a partition column."""

    table_id: str
    granule: str = WHOLE


@dataclass(frozen=True, slots=True)
class TimeRequest:
    """A transaction asks for the current time, truncated to `precision` in `zone`.

    `range` is what its reads, writes and earlier requests leave; `writes` what it has written so far. The answer is
    `ahead_ms` after the owner's time, and it commits no earlier than that. `holds` are tables, by ids, that it is going
    to write: at full precision nobody else reads or writes them at or after the time that is told before it ends.
    """

    txn_id: str
    range: TimestampRange
    precision: str = "millisecond"
    zone: str = "UTC"
    writes: Sequence[Item] = ()
    ahead_ms: int = 0
    holds: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class LockRequest:
    """Locks for a transaction that began at `started_ms`; they are its own until it ends, or does not say it lives.

    Tables whose granules are asked for get the intention lock by themselves. `timeout_s`: for how long others are
    waited for.
    """

    txn_id: str
    started_ms: int
    items: Sequence[Item]
    is_exclusive: bool
    timeout_s: float


@dataclass(frozen=True, slots=True)
class TableRead:
    """What was read of a table: `granules` of it as of its version `version`.

    `version` may be a later one than was read, where nothing that came in between would have been read.
    """

    table_id: str
    version: int
    granules: Sequence[str] = (WHOLE,)


@dataclass(frozen=True, slots=True)
class TableWrite:
    """A commit to one of the tables, as `CommitRequest` has it; the version is the one after that it was based on."""

    table_id: str
    version: int
    actions: Sequence[Action] = field(repr=False)
    may_move: bool = False


@dataclass(frozen=True, slots=True)
class TransactionRequest:
    """One transaction, by its identity `txn_id` (a UUID), which is the `txnId` of all its commits.

    `range` bounds its timestamp: by what it read and was told of the time. Without `writes` it only reads.
    `has_locks`: it locked what it depends on, and is refused where it has lost that. `is_replay` says that an earlier,
    equal request may have been carried out.
    """

    txn_id: str
    range: TimestampRange
    reads: Sequence[TableRead] = ()
    writes: Sequence[TableWrite] = ()
    has_locks: bool = False
    is_replay: bool = False


@dataclass(frozen=True, slots=True)
class TransactionResponse:
    """The transaction counts, at `timestamp_ms`: its commits by table id, all of that timestamp."""

    timestamp_ms: int
    commits: Mapping[str, CommitResponse]


@dataclass(frozen=True, slots=True)
class TransactionConflict:
    """Tables, by id, that have newer versions than the transaction is based on: the latest that is ratified.

    Nothing of it is visible; where it may follow these versions it is asked for again.
    """

    latest_versions: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Vote:
    """A participant's promise to commit at any timestamp of `range` that the coordinator decides for.

    `now_ms` is its owner's time. Source: paper §3.2.2.
    """

    range: TimestampRange
    now_ms: int


@dataclass(frozen=True, slots=True)
class InDoubt:
    """A transaction that a participant has voted for, and whose outcome the owner `coordinator_id` knows."""

    txn_id: str
    coordinator_id: str
    voted_ms: int
