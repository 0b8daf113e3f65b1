"""The transactions that the model of timestamps runs: which tables they touch, how long they take, when they ask."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from math import log

PRECISIONS = {"ms": 1, "s": 1000, "day": 86_400_000}
"""What may be asked of the clock, in ms."""

_MEDIAN_MS = 100.0
_SIGMA = 0.8
_THINK_MS = 20.0
_UPDATES = 0.25
_WHOLE_READS = 0.2


@dataclass(frozen=True, slots=True)
class Workload:
    """`clients` in a closed loop over `tables` of `partitions` each, chosen by Zipf's law with exponent `zipf`.

    A share `early` of the transactions asks for the time at a random point of its duration, with `precision_ms`.
    Staging takes between the two times of `staging_ms`; after an abort the same work is tried `attempts` times in all.
    """

    tables: int = 50
    zipf: float = 0.8
    early: float = 0.5
    precision_ms: int = 1
    partitions: int = 1
    clients: int = 16
    staging_ms: tuple[float, float] = (10.0, 30.0)
    attempts: int = 10


@dataclass(frozen=True, slots=True)
class Granule:
    """What of a table is read or written: one partition, or all of it where `partition` is None."""

    table: int
    partition: int | None

    def overlaps(self, other: Granule) -> bool:
        """Whether a change of one may be a change of the other."""
        if self.table != other.table:
            return False
        return self.partition is None or other.partition is None or self.partition == other.partition


@dataclass(frozen=True, slots=True)
class Access:
    """At the share `at` of the duration `granule` is read, written (a blind append), or both (an update)."""

    at: float
    granule: Granule
    reads: bool
    writes: bool


@dataclass(frozen=True, slots=True)
class Work:
    """What one transaction does: `accesses` by time, one per table; `asks_at` is a share of `duration_ms`, or None."""

    duration_ms: float
    accesses: tuple[Access, ...]
    asks_at: float | None
    think_ms: float

    @property
    def reads(self) -> tuple[Granule, ...]:
        """What it reads."""
        return tuple(access.granule for access in self.accesses if access.reads)

    @property
    def writes(self) -> tuple[Granule, ...]:
        """What it writes; all of it is declared where a policy asks for that."""
        return tuple(access.granule for access in self.accesses if access.writes)


def works(workload: Workload, seed: int) -> Iterator[Work]:
    """The endless work of one client: the same for every policy, and the same tables for every share of askers."""
    rng = random.Random(seed)  # noqa: S311 - a simulation
    weights = list(accumulate((rank + 1) ** -workload.zipf for rank in range(workload.tables)))
    while True:
        accesses = _accesses(workload, weights, rng)
        duration_ms = rng.lognormvariate(log(_MEDIAN_MS), _SIGMA)
        think_ms = rng.expovariate(1 / _THINK_MS)
        is_early, asks_at = rng.random() < workload.early, rng.random()
        yield Work(duration_ms, accesses, asks_at if is_early else None, think_ms)


def _accesses(workload: Workload, weights: list[float], rng: random.Random) -> tuple[Access, ...]:
    """One to three reads and one or two writes; a quarter of the writes are updates of what was read."""
    population = range(workload.tables)
    read = _distinct(rng.randint(1, 3), population, weights, rng)
    written: set[int] = set()
    for _ in range(rng.randint(1, 2)):
        left = [table for table in read if table not in written]
        if left and rng.random() < _UPDATES:
            written.add(rng.choice(left))
        else:
            written.add(rng.choices(population, cum_weights=weights)[0])
    found = []
    for table in sorted({*read, *written}):
        granule = _granule(workload, table, table in written, rng)
        found.append(Access(rng.random(), granule, table in read, table in written))
    return tuple(sorted(found, key=lambda access: access.at))


def _distinct(count: int, population: range, weights: list[float], rng: random.Random) -> list[int]:
    found: dict[int, None] = {}
    while len(found) < min(count, len(population)):
        found[rng.choices(population, cum_weights=weights)[0]] = None
    return list(found)


def _granule(workload: Workload, table: int, is_written: bool, rng: random.Random) -> Granule:
    """With partitions every write is of one, and so are most reads."""
    partition = rng.randrange(workload.partitions)
    is_whole = workload.partitions == 1 or (not is_written and rng.random() < _WHOLE_READS)
    return Granule(table, None if is_whole else partition)
