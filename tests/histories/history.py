"""What a run of concurrent transactions recorded, as values: items are lists that they append to and read.

The form is list-append, as in Jepsen's Elle: every appended value is unique in its item, so a list that was read says
which transactions its reader saw, and in what order they came. Commit times are ms since the epoch; `begin` and `end`
are instants of one real-time axis, where a counter does.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, final


class Item(NamedTuple):
    """One list: a key in a partition of a table. A plain tuple of the three is the same item."""

    table: str
    partition: Hashable
    key: Hashable


Values = tuple[Hashable, ...]
Lists = Mapping[Item, Values]


class Outcome(Enum):
    """What the client was told: an unknown outcome is one of which no answer came."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@final
@dataclass(frozen=True, slots=True)
class Append:
    """`value` goes to the end of the list of `item`; no other append to that item has the same value."""

    item: Item
    value: Hashable


@final
@dataclass(frozen=True, slots=True)
class Read:
    """The list of one item as it was seen, in its order, the transaction's own appends included."""

    item: Item
    values: Values


@final
@dataclass(frozen=True, slots=True)
class TableRead:
    """A read of a whole table: a key that is missing in `lists` was read as the empty list."""

    table: str
    lists: Lists


@final
@dataclass(frozen=True, slots=True)
class PartitionRead:
    """A read of a whole partition: a key that is missing in `lists` was read as the empty list."""

    table: str
    partition: Hashable
    lists: Lists


Operation = Append | Read | TableRead | PartitionRead


class Batch(NamedTuple):
    """A micro-batch: its number among those of a streaming query, from 0."""

    query: str
    number: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """One try of a transaction: what it did, in order, and what it was told.

    `begin` is before its first request, `end` after the last answer; where `order` is less than another's of the same
    `client`, it had ended before that began. `versions` are those it holds in the logs of its tables: of an unknown one
    they are looked up there afterwards, and prove that it committed. `batch` is the micro-batch that it tried to land:
    each attempt is a transaction of its own. `row_timestamps_ms` are the distinct values that
    its rows carry as `current_timestamp`. Each range of `asked` is [first, last + 1) of the instants that share what
    the clock answered. `owner_time_ms` is the owner's time when it began.
    """

    id: str
    client: str
    order: int
    begin: float
    end: float
    outcome: Outcome
    operations: tuple[Operation, ...]
    commit_timestamp_ms: int | None = None
    row_timestamps_ms: tuple[int, ...] = ()
    asked: tuple[tuple[int, int], ...] = ()
    versions: Mapping[str, int] = field(default_factory=dict)
    owner_time_ms: int | None = None
    batch: Batch | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """A streaming query into `tables`, all of them in each micro-batch; `done` are known to its checkpoint as done."""

    query: str
    tables: frozenset[str]
    done: frozenset[int]


@dataclass(frozen=True, slots=True)
class AsOf:
    """The answer to a time slice: every list of `tables` (None: of all) as of `at_ms`, empty ones left out or not."""

    id: str
    at_ms: int
    begin: float
    end: float
    lists: Lists
    tables: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class History:
    """A finished run: its transactions, time slices and streams, and what the run left.

    `final` is every list when all was over. `logs` are, by table, the commit timestamps of its versions as its log has
    them; versions that no transaction of the history wrote may be among them, and a table may be left out. `groups`
    are, by table with the feature multiTableTransaction, the groups that its versions describe: the versions of all
    tables of a transaction.
    """

    transactions: tuple[Transaction, ...]
    final: Lists
    slices: tuple[AsOf, ...] = ()
    logs: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    streams: tuple[Stream, ...] = ()
    groups: Mapping[str, Mapping[int, Mapping[str, int]]] = field(default_factory=dict)
