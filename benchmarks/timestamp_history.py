"""What committed in a run of the model, and whether the order of timestamps is an order of its dependencies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.timestamp_workload import Granule


class OrderViolated(AssertionError):
    """A dependency between two committed transactions does not go forward in time."""


@dataclass(frozen=True, slots=True)
class Committed:
    """`reads` and `writes` with the version of the table that was read, or made; `time_ms` of the owner on beginning.

    `began` and `acknowledged` are instants of the simulation.
    """

    timestamp_ms: int
    time_ms: int
    began: float
    acknowledged: float
    reads: tuple[tuple[Granule, int], ...]
    writes: tuple[tuple[Granule, int], ...]


def require_order(history: Sequence[Committed]) -> None:
    """Raises OrderViolated unless every ww, wr and rw edge goes strictly forward in time.

    Nor may a transaction have a time before its beginning, or before that of one acknowledged by then.
    """
    for fault in faults(history):
        raise OrderViolated(fault)


def faults(history: Sequence[Committed]) -> Iterator[str]:
    """What is wrong, one sentence each."""
    logs: dict[int, dict[int, tuple[Committed, Granule]]] = defaultdict(dict)
    for one in history:
        for granule, version in one.writes:
            if version in logs[granule.table]:
                yield f"version {version} of table {granule.table} was given twice"
            logs[granule.table][version] = one, granule
    for table, log in logs.items():
        if sorted(log) != list(range(1, len(log) + 1)):
            yield f"table {table} has holes between its versions"
        for version in range(2, len(log) + 1):
            yield from _edge("ww", log[version - 1][0], log[version][0], table)
    for one in history:
        for granule, version in one.reads:
            yield from _edges_of_read(one, granule, version, logs[granule.table])
    yield from _faults_of_time(history)


def _edges_of_read(
    reader: Committed, granule: Granule, version: int, log: dict[int, tuple[Committed, Granule]]
) -> Iterator[str]:
    if version:
        yield from _edge("wr", log[version][0], reader, granule.table)
    later = version + 1
    # What it changed itself does not overtake its read.
    while later in log and not (log[later][1].overlaps(granule) and log[later][0] is not reader):
        later += 1
    if later in log:
        yield from _edge("rw", reader, log[later][0], granule.table)


def _edge(kind: str, first: Committed, second: Committed, table: int) -> Iterator[str]:
    if first.timestamp_ms >= second.timestamp_ms:
        yield f"{kind} edge of table {table} goes from {first.timestamp_ms} to {second.timestamp_ms} ms"


def _faults_of_time(history: Sequence[Committed]) -> Iterator[str]:
    greatest, done = 0, 0
    by_end = sorted(history, key=lambda one: one.acknowledged)
    for one in sorted(history, key=lambda one: one.began):
        while by_end[done].acknowledged < one.began:
            greatest = max(greatest, by_end[done].timestamp_ms)
            done += 1
        if one.timestamp_ms < max(one.time_ms, greatest):
            yield f"{one.timestamp_ms} ms is before its beginning, or before one that was acknowledged by then"
