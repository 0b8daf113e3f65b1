"""The owner of the model: logs of tables, read stamps, promised times, and the choice of a transaction's timestamp.

A transaction X gets a time in its range: low < t_X <= high. What it reads and writes raises `low`; what it asks of the
clock, and later commits that overtake its reads, bring down `high`. Source: paper §2 and §3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Literal, TypeAlias

from benchmarks.timestamp_policies import Policy, ReadStamps
from benchmarks.timestamp_workload import Granule, Work

Reason: TypeAlias = Literal["stamp", "read", "deadlock"]
"""Why a transaction is aborted: no time is left below what was asked, a read was overtaken, or a deadlock."""


@dataclass(eq=False, slots=True)
class Transaction:
    """One attempt at `work`; `is_promised`: its `timestamp_ms` was answered at full precision, and is its own.

    `versions` that were read and `made`; `reached` is what it has written so far. `not_before_ms`: its commit waits for
    the clock.
    """

    client: int
    work: Work
    attempt: int
    first_began: float
    began: float
    time_ms: int
    low: int
    asked_high: float = inf
    is_promised: bool = False
    not_before_ms: int = 0
    asked_at: float | None = None
    timestamp_ms: int = 0
    is_past: bool = False
    reason: Reason | None = None
    waited_ms: float = 0.0
    ahead_ms: float = 0.0
    versions: dict[Granule, int] = field(default_factory=dict)
    made: dict[Granule, int] = field(default_factory=dict)
    reached: list[Granule] = field(default_factory=list)


class Owner:
    """Gives out versions and timestamps by `policy`; every time is in ms, and `clock_ms` what its clock says."""

    def __init__(self, tables: int, policy: Policy) -> None:
        self._policy = policy
        self._last_ms = 0
        self._logs: list[list[tuple[int, Granule]]] = [[] for _ in range(tables)]
        self._ratified = [0] * tables
        self._staging: dict[int, Transaction] = {}
        self._promises: list[dict[Transaction, int]] = [{} for _ in range(tables)]
        self._stamps = ReadStamps(policy.slots)

    def time_ms(self, clock_ms: int) -> int:
        """The owner's time, which never goes back."""
        return max(clock_ms, self._last_ms)

    def read(self, transaction: Transaction, granule: Granule) -> None:
        """The ratified version of the table is read."""
        self._read(transaction, granule, self._ratified[granule.table])

    def read_as_of(self, transaction: Transaction, granule: Granule, promised: int) -> None:
        """The version of the promised instant is read, and stays it: no later commit gets a time before that."""
        log, version = self._logs[granule.table], self._ratified[granule.table]
        while version and log[version - 1][0] >= promised:
            version -= 1
        self._read(transaction, granule, version)
        self._stamps.stamp((granule,), promised)

    def blockers_as_of(self, transaction: Transaction, granule: Granule, promised: int) -> set[Transaction]:
        """Who may still commit to the table with a time before `promised`, and has been told so."""
        found = {holder for holder, time in self._promises[granule.table].items() if time <= promised}
        if granule.table in self._staging:
            found.add(self._staging[granule.table])
        return found - {transaction}

    def write(self, transaction: Transaction, granule: Granule) -> None:
        """`granule` is about to be written."""
        transaction.reached.append(granule)
        if transaction.is_promised and self._policy.hold != "none":
            self._promises[granule.table][transaction] = transaction.timestamp_ms

    def check(self, transaction: Transaction) -> None:
        """What nobody can change any more is known at once: `reason` is set where no time is left."""
        if max(transaction.low, self._low_of_writes(transaction.reached)) >= transaction.asked_high:
            transaction.reason = "stamp"

    def holders(self, transaction: Transaction) -> set[Transaction]:
        """Who has the log heads that `transaction` declared."""
        found: set[Transaction] = set()
        for granule in transaction.work.writes:
            found.update(self._promises[granule.table])
            if granule.table in self._staging:
                found.add(self._staging[granule.table])
        return found

    def answer(self, transaction: Transaction, clock_ms: int, precision_ms: int, ahead_ms: int) -> None:
        """Narrow the range of `transaction` to the instants that share the truncated answer."""
        is_held = self._policy.hold != "none"
        known = transaction.work.writes if is_held and self._policy.declared else transaction.reached
        low = max(transaction.low, self._low_of_writes(known))
        if is_held:
            low = max([low, *(time for granule in known for time in self._promises[granule.table].values())])
        answered = max(self.time_ms(clock_ms) + ahead_ms, low + 1)
        first = answered - answered % precision_ms
        transaction.low = max(low, first - 1)
        transaction.asked_high = first + precision_ms - 1
        if ahead_ms:
            transaction.not_before_ms = transaction.low + 1
        if precision_ms == 1:
            transaction.is_promised, transaction.timestamp_ms = True, answered
            if is_held:
                for granule in known:
                    self._promises[granule.table][transaction] = answered

    def blockers(self, transaction: Transaction, clock_ms: int) -> set[Transaction]:
        """For whom the allocation has to wait; none, and the choice is made: `timestamp_ms`, or a `reason` against it.

        These are the transactions whose versions of its tables are being staged, and the holders of its tables whose
        promised time is not after its own.
        """
        work, staging = transaction.work, self._staging
        found = {staging[g.table] for g in (*work.reads, *work.writes) if g.table in staging}
        if found:
            return found
        low, high = self._choose(transaction, self.time_ms(clock_ms))
        if transaction.reason is not None or self._policy.hold == "none":
            return set()
        asked = work.writes if self._policy.hold == "writers" else (*work.reads, *work.writes)
        harmed = dict(self._harmed(transaction, asked))
        if harmed and self._policy.below and not transaction.is_promised:
            below = min(harmed.values()) - 1
            if low < below <= high and not _overtakes_any(transaction, harmed):
                transaction.timestamp_ms, transaction.is_past = below, True
                return set()
        return set(harmed)

    def allocate(self, transaction: Transaction) -> None:
        """The chosen time is its own, and the next version of every table that it writes."""
        self._last_ms = max(self._last_ms, transaction.timestamp_ms)
        self._stamps.stamp(transaction.work.reads, transaction.timestamp_ms)
        for granule in transaction.work.writes:
            log = self._logs[granule.table]
            log.append((transaction.timestamp_ms, granule))
            transaction.made[granule] = len(log)
            self._staging[granule.table] = transaction
        self.withdraw(transaction)

    def ratify(self, transaction: Transaction) -> None:
        """All its versions count, at once."""
        for granule in transaction.work.writes:
            del self._staging[granule.table]
            self._ratified[granule.table] = len(self._logs[granule.table])

    def withdraw(self, transaction: Transaction) -> None:
        """What was promised to it holds nobody up any more."""
        for granule in transaction.work.writes:
            self._promises[granule.table].pop(transaction, None)

    def _read(self, transaction: Transaction, granule: Granule, version: int) -> None:
        transaction.versions[granule] = version
        if version:
            transaction.low = max(transaction.low, self._logs[granule.table][version - 1][0])

    def _choose(self, transaction: Transaction, time_ms: int) -> tuple[int, float]:
        """The range; of it the owner's time is chosen, or the least where that is past its upper bound."""
        low = max(transaction.low, self._low_of_writes(transaction.work.writes))
        overtaken = self._overtaken(transaction)
        asked = transaction.asked_high
        high = min(asked, overtaken)
        if low >= high:
            transaction.reason = "stamp" if asked <= overtaken else "read"
        elif overtaken < inf and not self._policy.past:
            transaction.reason = "read"
        best = max(low + 1, time_ms)
        transaction.timestamp_ms = best if best <= high else low + 1
        transaction.is_past = best > overtaken
        return low, high

    def _overtaken(self, transaction: Transaction) -> float:
        """The last instant at which all that was read is current."""
        high = inf
        for granule, version in transaction.versions.items():
            log = self._logs[granule.table]
            for later in range(version, len(log)):
                if log[later][1].overlaps(granule):
                    high = min(high, log[later][0] - 1)
                    break
        return high

    def _low_of_writes(self, granules: Iterable[Granule]) -> int:
        heads = (self._logs[granule.table][-1][0] for granule in granules if self._logs[granule.table])
        low = max(self._stamps.of_writes(granules), max(heads, default=0))
        return max(low, self._last_ms) if self._policy.last else low

    def _harmed(self, transaction: Transaction, granules: Iterable[Granule]) -> Iterator[tuple[Transaction, int]]:
        """The promises that the time of `transaction` would make impossible."""
        for granule in granules:
            for holder, promised in self._promises[granule.table].items():
                if holder is not transaction and promised <= transaction.timestamp_ms:
                    yield holder, promised


def _overtakes_any(transaction: Transaction, others: Iterable[Transaction]) -> bool:
    """Whether `transaction` changes what one of `others` reads."""
    read = [granule for other in others for granule in other.work.reads]
    return any(written.overlaps(granule) for written in transaction.work.writes for granule in read)
