"""A simulation of the owner's rules for timestamps: clients in a closed loop, virtual milliseconds, one seed."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush

from benchmarks.timestamp_history import Committed, require_order
from benchmarks.timestamp_locks import Locks, closes_cycle
from benchmarks.timestamp_owner import Owner, Reason, Transaction
from benchmarks.timestamp_policies import EXACT, Control, Policy
from benchmarks.timestamp_workload import Access, Work, Workload, works

_NOON_MS = 43_200_000
_BACKOFF_MS = 20.0
_REMEMBERED = 200
_FIRST_GUESS_MS = 100.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run found. Means over commits, in ms: waits for others, and for the clock to reach a promised time.

    `in_the_past` are late choosers that committed before a commit that had overtaken them.
    """

    commits: int
    stamp_aborts: int
    read_aborts: int
    deadlocks: int
    given_up: int
    duration_ms: float
    wait_ms: float
    ahead_ms: float
    latency_ms: float
    in_the_past: int

    @property
    def attempts(self) -> int:
        """Commits and aborts."""
        return self.commits + self.stamp_aborts + self.read_aborts + self.deadlocks

    @property
    def stamp_share(self) -> float:
        """The share of attempts aborted for want of a stamp."""
        return self.stamp_aborts / self.attempts

    @property
    def conflict_share(self) -> float:
        """The share of attempts aborted for a read that was overtaken, or for a deadlock."""
        return (self.read_aborts + self.deadlocks) / self.attempts

    @property
    def throughput(self) -> float:
        """Commits per second."""
        return 1000 * self.commits / self.duration_ms


def run(
    workload: Workload, policy: Policy = EXACT, control: Control = "optimistic", seed: int = 0, commits: int = 2000
) -> Outcome:
    """The outcome of the first `commits`. Raises OrderViolated where their times and dependencies disagree."""
    simulation = Simulation(workload, policy, control, seed)
    simulation.run(commits)
    require_order(simulation.history)
    return simulation.outcome()


@dataclass(frozen=True, slots=True)
class _Step:
    """After `wait_ms`, and as soon as there are no `blockers`, a transaction does this."""

    wait_ms: float
    blockers: Callable[[Transaction], set[Transaction]]
    do: Callable[[Transaction], None]


class Simulation:
    """The owner, its clients, and the events between them; `history` is what was acknowledged."""

    def __init__(self, workload: Workload, policy: Policy, control: Control, seed: int) -> None:
        self.history: list[Committed] = []
        self._workload, self._policy, self._is_locking = workload, policy, control == "locking"
        self._locks_when_asked = self._is_locking and policy.hold != "none" and policy.declared
        self._rng = random.Random(seed)  # noqa: S311 - a simulation
        self._works = [works(workload, 1000 * seed + client) for client in range(workload.clients)]
        self._owner = Owner(workload.tables, policy)
        self._locks: Locks[Transaction] = Locks(workload.partitions)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._now = 0.0
        self._waiting: dict[Transaction, tuple[_Step, float, set[Transaction]]] = {}
        self._is_waking = self._is_stirred = False
        self._remaining_ms: deque[float] = deque([_FIRST_GUESS_MS], maxlen=_REMEMBERED)
        self._aborts: dict[Reason, int] = {"stamp": 0, "read": 0, "deadlock": 0}
        self._given_up = self._past = 0
        self._waited_ms = self._ahead_ms = self._latency_ms = 0.0

    def run(self, commits: int) -> None:
        """Go on until there are so many commits."""
        for client in range(self._workload.clients):
            self._after(100 * self._rng.random(), partial(self._next, client))
        while len(self.history) < commits:
            self._now, _, event = heappop(self._events)
            event()

    def outcome(self) -> Outcome:
        """What happened so far."""
        done = len(self.history)
        return Outcome(
            done, self._aborts["stamp"], self._aborts["read"], self._aborts["deadlock"], self._given_up, self._now,
            self._waited_ms / done, self._ahead_ms / done, self._latency_ms / done, self._past,
        )  # fmt: skip

    @property
    def _clock_ms(self) -> int:
        return _NOON_MS + int(self._now)

    def _next(self, client: int) -> None:
        self._begin(client, next(self._works[client]), 1, self._now)

    def _begin(self, client: int, work: Work, attempt: int, first_began: float) -> None:
        time_ms = self._owner.time_ms(self._clock_ms)
        transaction = Transaction(client, work, attempt, first_began, self._now, time_ms, time_ms - 1)
        if not self._is_locking:
            for granule in work.reads:
                self._owner.read(transaction, granule)
        if self._policy.at_start:
            self._owner.answer(transaction, self._clock_ms, 1, 0)
        self._advance(transaction, self._steps(transaction))

    def _steps(self, transaction: Transaction) -> Iterator[_Step]:
        """Its accesses and the ask, in time; then the commit, which waits for the clock to reach what was promised."""
        work = transaction.work
        moments = [(access.at, self._reaching(access)) for access in work.accesses]
        if work.asks_at is not None and not self._policy.at_start:
            moments.append((work.asks_at, (self._ask_blockers, self._ask)))
        moments.append((1.0, (_nobody, self._be_ready)))
        done = 0.0
        for at, (blockers, do) in sorted(moments, key=lambda moment: moment[0]):
            yield _Step((at - done) * work.duration_ms, blockers, do)
            done = at
        transaction.ahead_ms = max(0.0, transaction.not_before_ms - _NOON_MS - self._now)
        yield _Step(transaction.ahead_ms, lambda t: self._owner.blockers(t, self._clock_ms), self._allocate)

    def _reaching(
        self, access: Access
    ) -> tuple[Callable[[Transaction], set[Transaction]], Callable[[Transaction], None]]:
        def optimistic(transaction: Transaction) -> None:
            if access.writes:
                self._owner.write(transaction, access.granule)

        def locking(transaction: Transaction) -> None:
            if self._is_as_of(access, transaction):
                self._owner.read_as_of(transaction, access.granule, transaction.timestamp_ms)
                return
            self._locks.grant(transaction, [access])
            if access.reads:
                self._owner.read(transaction, access.granule)
            optimistic(transaction)
            self._owner.check(transaction)

        def blockers(transaction: Transaction) -> set[Transaction]:
            if self._is_as_of(access, transaction):
                return self._owner.blockers_as_of(transaction, access.granule, transaction.timestamp_ms)
            return self._locks.blockers(transaction, [access])

        if self._is_locking:
            return blockers, locking
        return _nobody, optimistic

    def _is_as_of(self, access: Access, transaction: Transaction) -> bool:
        return self._policy.reads_as_of and transaction.is_promised and not access.writes

    def _ask_blockers(self, transaction: Transaction) -> set[Transaction]:
        found = self._owner.holders(transaction) if self._policy.hold == "exclusive" else set()
        if self._locks_when_asked:
            found |= self._locks.blockers(transaction, _declared(transaction))
        return found

    def _ask(self, transaction: Transaction) -> None:
        if self._locks_when_asked:
            self._locks.grant(transaction, _declared(transaction))
        transaction.asked_at = self._now
        ahead_ms = int(self._policy.ahead_ms + self._quantile_ms())
        self._owner.answer(transaction, self._clock_ms, self._workload.precision_ms, ahead_ms)

    def _quantile_ms(self) -> float:
        if self._policy.ahead_quantile is None:
            return 0.0
        recent = sorted(self._remaining_ms)
        return recent[int(self._policy.ahead_quantile * (len(recent) - 1))]

    def _be_ready(self, transaction: Transaction) -> None:
        if transaction.asked_at is not None:
            self._remaining_ms.append(self._now - transaction.asked_at)

    def _allocate(self, transaction: Transaction) -> None:
        if transaction.reason is not None:
            return
        self._owner.allocate(transaction)
        self._past += transaction.is_past
        self._after(self._rng.uniform(*self._workload.staging_ms), partial(self._ratify, transaction))
        self._wake()

    def _ratify(self, transaction: Transaction) -> None:
        self._owner.ratify(transaction)
        self.history.append(
            Committed(transaction.timestamp_ms, transaction.time_ms, transaction.began, self._now,
                      tuple(transaction.versions.items()), tuple(transaction.made.items()))
        )  # fmt: skip
        self._waited_ms += transaction.waited_ms
        self._ahead_ms += transaction.ahead_ms
        self._latency_ms += self._now - transaction.first_began
        self._locks.release(transaction)
        self._after(transaction.work.think_ms, partial(self._next, transaction.client))
        self._wake()

    def _abort(self, transaction: Transaction, reason: Reason) -> None:
        self._aborts[reason] += 1
        self._owner.withdraw(transaction)
        self._locks.release(transaction)
        work, client, attempt = transaction.work, transaction.client, transaction.attempt + 1
        if attempt > self._workload.attempts:
            self._given_up += 1
            self._after(work.think_ms, partial(self._next, client))
        else:
            backoff_ms = self._rng.random() * _BACKOFF_MS * attempt
            self._after(backoff_ms, partial(self._begin, client, work, attempt, transaction.first_began))
        self._wake()

    # Events and waits: a transaction is either in one event or waits for others.

    def _after(self, wait_ms: float, event: Callable[[], None]) -> None:
        self._count += 1
        heappush(self._events, (self._now + wait_ms, self._count, event))

    def _advance(self, transaction: Transaction, steps: Iterator[_Step]) -> None:
        step = next(steps, None)
        if step is None:
            return

        def do(t: Transaction) -> None:
            step.do(t)
            if t.reason is not None:
                self._abort(t, t.reason)
            else:
                self._advance(t, steps)

        self._after(step.wait_ms, partial(self._attempt, transaction, _Step(0.0, step.blockers, do)))

    def _attempt(self, transaction: Transaction, step: _Step) -> None:
        blockers = step.blockers(transaction)
        if blockers:
            self._wait(transaction, step, self._now, blockers)
        else:
            step.do(transaction)

    def _wake(self) -> None:
        """Those who wait look again, the longest waiting first."""
        self._is_stirred = True
        if self._is_waking:
            return
        self._is_waking = True
        while self._is_stirred:
            self._is_stirred = False
            for transaction, (step, since, _) in list(self._waiting.items()):
                blockers = step.blockers(transaction)
                if blockers:
                    self._wait(transaction, step, since, blockers)
                    continue
                del self._waiting[transaction]
                transaction.waited_ms += self._now - since
                step.do(transaction)
        self._is_waking = False

    def _wait(self, transaction: Transaction, step: _Step, since: float, blockers: set[Transaction]) -> None:
        """Whoever closes a circle of waits is aborted."""
        self._waiting[transaction] = step, since, blockers
        if closes_cycle(transaction, self._blockers_of):
            del self._waiting[transaction]
            self._abort(transaction, "deadlock")

    def _blockers_of(self, transaction: Transaction) -> set[Transaction]:
        waits = self._waiting.get(transaction)
        return waits[2] if waits else set()


def _nobody(_: Transaction) -> set[Transaction]:
    return set()


def _declared(transaction: Transaction) -> list[Access]:
    return [access for access in transaction.work.accesses if access.writes]
