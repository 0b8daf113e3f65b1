"""Who gives way where transactions wait for each other's locks, and who has lost its locks. Source: paper §3.1."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from slackwater.errors import DeadlockDetected, LockTimeout
from slackwater.owner.api.transactions import Item, LockRequest
from slackwater.owner.locks.lock_table import GAVE_WAY, Lock

IsDead = Callable[[str], bool]
"""Whether the process of that name is dead for certain."""

_TOLD = 8


def short_id(txn_id: str) -> str:
    """Another's transaction for a message: who knows the whole id may end it."""
    return txn_id if len(txn_id) <= _TOLD else f"{txn_id[:_TOLD]}…"


def _deadlock(txn_id: str, others: Sequence[str] = ()) -> DeadlockDetected:
    named = f" ({', '.join(short_id(other) for other in others)})" if others else ""
    return DeadlockDetected(
        f"transaction {txn_id} and others{named} wait for each other's locks, and it was chosen to give way: its locks "
        "are free; run it again"
    )


@dataclass(frozen=True, slots=True)
class LeaseJudge:
    """Says who lost its locks if another wants them; all rows of a transaction have the same lease."""

    now_ms: int
    is_dead: IsDead

    def has_ended(self, lock: Lock) -> bool:
        """Whether the lease is over or the process is dead."""
        return lock.until_ms < self.now_ms or self.is_dead(lock.holder)

    def have_ended(self, own: Collection[Lock]) -> bool:
        """Whether all of them have."""
        return all(map(self.has_ended, own))


def choose_victim(request: LockRequest, contested: Sequence[Lock], judge: LeaseJudge) -> str | None:
    """Who gives way in a circle through this transaction, None where there is none.

    The oldest of a circle never does, so that every transaction is done at last. Raises DeadlockDetected where it is
    this one.
    """
    circle = _circle(request.txn_id, contested, judge)
    if not circle:
        return None
    age = {lock.txn_id: (lock.started_ms, lock.txn_id) for lock in contested}
    if min(circle, key=age.__getitem__) != request.txn_id:
        raise _deadlock(request.txn_id, circle[1:])
    return max(circle, key=age.__getitem__)


def _circle(txn_id: str, contested: Sequence[Lock], judge: LeaseJudge) -> list[str]:
    """Transactions that wait each for the next, the last for the first, which is `txn_id`; empty where none do."""
    by_item: dict[Item, list[Lock]] = {}
    wishes: dict[str, list[Lock]] = {}
    for lock in contested:
        if lock.mark or (lock.txn_id != txn_id and judge.has_ended(lock)):
            continue
        by_item.setdefault(lock.item, []).append(lock)
        if lock.wanted is not None:
            wishes.setdefault(lock.txn_id, []).append(lock)
    came_from: dict[str, str] = {}
    to_visit = [txn_id]
    for waiting in to_visit:
        awaited = {lock.txn_id for wish in wishes.get(waiting, ()) for lock in by_item[wish.item] if lock.blocks(wish)}
        if txn_id in awaited:
            path = [waiting]
            while path[-1] != txn_id:
                path.append(came_from[path[-1]])
            return path[::-1]
        for other in sorted(awaited - came_from.keys()):
            came_from[other] = waiting
            to_visit.append(other)
    return []


def are_waiting(own: Collection[Lock]) -> bool:
    """Whether the transaction of these rows waits for a lock."""
    return any(lock.wanted for lock in own)


def require_unmarked(txn_id: str, own: Iterable[Lock]) -> None:
    """Raise DeadlockDetected where the transaction was to give way, LockTimeout where it lost its locks."""
    for lock in own:
        if lock.mark == GAVE_WAY:
            raise _deadlock(txn_id)
        if lock.mark:
            raise LockTimeout(
                f"transaction {txn_id} did not say in time that it goes on, and its locks were given to others: run it "
                "again"
            )
