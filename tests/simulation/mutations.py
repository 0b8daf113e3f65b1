"""Faults planted in the owner: each takes away one rule of how timestamps are given, or of how commits count."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from slackwater.owner import embedded
from slackwater.owner.commit import allocation
from slackwater.owner.commit.allocation import _Work
from slackwater.owner.commit.allocation_outcomes import Attempt, VersionsAllocated, read_items, written_items
from slackwater.owner.commit.ratify_in_order import OrderedRatification
from slackwater.owner.state import expired_allocations, read_timestamps
from slackwater.owner.state.clock import OwnerClock
from slackwater.owner.state.read_timestamps import ReadTimestampTable
from slackwater.owner.state.shared_clock import SharedTime
from slackwater.owner.time import timestamp_requests
from tests.simulation.world import Process, World


@dataclass(frozen=True, slots=True)
class Mutation:
    """`planted` is in force while it is entered; within `seeds` it is found.

    In worlds that are as `focus` says, where what it breaks happens often. `prepared` is called with every world.
    """

    name: str
    seeds: int
    planted: Callable[[], Any]
    focus: Mapping[str, Any]
    prepared: Callable[[World], None] = lambda world: None


def _without_read_timestamps_checked() -> Any:
    return mock.patch.object(ReadTimestampTable, "lower_bound", return_value=0)


def _without_read_timestamps_filled() -> Any:
    return mock.patch.object(ReadTimestampTable, "record", return_value=None)


def _without_last() -> Any:
    return mock.patch.object(SharedTime, "now_ms", property(lambda self: self.clock_ms))


def _without_served() -> Any:
    real = SharedTime.of

    def of(*arguments: Any) -> SharedTime:
        time = real(*arguments)
        time.served_ms = 0
        return time

    return mock.patch.object(SharedTime, "of", staticmethod(of))


def _with_tables_one_by_one() -> Any:
    def joined(self: OrderedRatification, txn_id: str) -> list[str]:
        nexts = ((table_id, self._next(table_id)) for table_id in self.rows)
        return [table_id for table_id, commit in nexts if commit is not None and commit.txn_id == txn_id]

    return mock.patch.object(OrderedRatification, "_joined", joined)


def _without_overtaken() -> Any:
    return mock.patch.object(_Work, "_overtaken", return_value={})


def _with_resize_to_nothing() -> Any:
    return mock.patch.object(embedded, "resize", lambda c, slots, last_ms: read_timestamps.resize(c, slots, 0))


def _with_pruning_that_is_forgotten() -> Any:
    def prune(connection: Any, up_to_ms: int) -> None:
        connection.execute(read_timestamps._PRUNE, {"up_to": up_to_ms})

    return mock.patch.object(timestamp_requests, "prune", prune)


def _without_log_heads() -> Any:
    real = _Work._timestamped

    def timestamped(self: _Work, attempt: Attempt) -> Any:
        heads = [self.heads[write.table_id] for write in attempt.request.writes]
        kept = [head.timestamp_ms for head in heads]
        for head in heads:
            head.timestamp_ms = 0
        outcome = real(self, attempt)
        if not isinstance(outcome, VersionsAllocated):
            for head, timestamp_ms in zip(heads, kept, strict=True):
                head.timestamp_ms = timestamp_ms
        return outcome

    return mock.patch.object(_Work, "_timestamped", timestamped)


def _without_siblings() -> Any:
    return mock.patch.object(expired_allocations, "free_transaction", return_value=None)


@contextmanager
def _with_time_looked_at_early() -> Iterator[None]:
    real = SharedTime.of
    seen: dict[str, SharedTime] = {}

    class Early:
        @staticmethod
        def of(connection: Any, clock: OwnerClock, items: Sequence[Any]) -> SharedTime:
            return seen.pop("it", None) or real(connection, clock, items)

    allocate = allocation.Allocation.allocate

    def allocated(self: Any, connection: Any, attempts: Sequence[Attempt], is_rerun: bool = False) -> Any:
        found = _EARLY.get(attempts[0].file_id)
        if found is not None:
            seen["it"] = found
        return allocate(self, connection, attempts, is_rerun)

    with (
        mock.patch.object(allocation, "SharedTime", Early),
        mock.patch.object(allocation.Allocation, "allocate", allocated),
    ):
        yield
    _EARLY.clear()


_EARLY: dict[str, SharedTime] = {}


def _looks_early(world: World) -> None:
    def look(process: Process, attempt: Attempt) -> None:
        items = [*written_items(attempt), *(item for read in attempt.request.reads for item in read_items(read))]
        _EARLY[attempt.file_id] = process.database.read(lambda c: SharedTime.of(c, process.clock, items))

    world.before_allocation = look


_STILL = {"faults": 0.0, "jumps": 0.0, "crashes": 0.0, "joins": 0.0}
_TOLD_EARLY = {
    **_STILL, "asks": 0.9, "locks": 0.0, "lone": 0.0, "reads": 0.6, "clients": 6, "is_quick": False,
    "read_slots": (4096,), "read_kept_ms": 600_000, "asked_lease_ms": 3_600_000,
}  # fmt: skip
_RESIZED = {**_TOLD_EARLY, "joins": 0.2, "read_slots": (4095, 4096)}
_FORGETFUL = {**_TOLD_EARLY, "read_kept_ms": 1, "asked_lease_ms": 5}
_SLICED = {**_STILL, "slices": 0.04}
_STEPPING = {**_STILL, "jumps": 0.05}
_BLIND = {**_STILL, "reads": 0.1, "asks": 0.2, "locks": 0.0, "tables": 2, "clients": 6, "contention": 0.3}
_DYING = {**_BLIND, "crashes": 0.03, "lease_ms": 20}

MUTATIONS = (
    Mutation("read timestamps are not checked", 80, _without_read_timestamps_checked, _TOLD_EARLY),
    Mutation("read timestamps are not filled", 80, _without_read_timestamps_filled, _TOLD_EARLY),
    Mutation("LAST is forgotten", 40, _without_last, _STEPPING),
    Mutation("the stamp is chosen before the rows are locked", 40, _with_time_looked_at_early, _STILL, _looks_early),
    Mutation("time slices that were answered are forgotten", 40, _without_served, _SLICED),
    Mutation("tables of a transaction count one by one", 60, _with_tables_one_by_one, _BLIND),
    Mutation("overtaken reads bound nothing", 40, _without_overtaken, _STILL),
    Mutation("a resized table forgets its entries", 60, _with_resize_to_nothing, _RESIZED),
    Mutation("what was pruned is forgotten", 120, _with_pruning_that_is_forgotten, _FORGETFUL),
    Mutation("heads of logs bound nothing", 40, _without_log_heads, _STILL),
    Mutation("versions are freed without those of the same transaction", 60, _without_siblings, _DYING),
)
