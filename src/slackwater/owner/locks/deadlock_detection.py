"""Deadlock detection between lock requests, and detection of lost locks. Source: paper §3.1."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from slackwater.errors import DeadlockDetected, LockTimeout
from slackwater.owner.api.transactions import Item, LockRequest
from slackwater.owner.locks.lock_table import GAVE_WAY, Lock

IsDead = Callable[[str], bool]
"""Function: returns whether the named process has certainly ended."""

_TOLD = 8


def short_id(txn_id: str) -> str:
    """Return a shortened transaction id for messages, because the full id allows ending the transaction."""
    return txn_id if len(txn_id) <= _TOLD else f"{txn_id[:_TOLD]}…"


def _deadlock(txn_id: str, others: Sequence[str] = ()) -> DeadlockDetected:
    named = f" ({', '.join(short_id(other) for other in others)})" if others else ""
    return DeadlockDetected(
        f"transaction {txn_id} and other transactions{named} wait for each other's locks, and it is the deadlock "
        "victim. Its locks are released. Retry the transaction"
    )


@dataclass(frozen=True, slots=True)
class LeaseJudge:
    """Determines which transactions lose their locks on request. All rows of a transaction have the same lease."""

    now_ms: int
    is_dead: IsDead

    def has_ended(self, lock: Lock) -> bool:
        """Return whether the lease expired or the process ended."""
        return lock.until_ms < self.now_ms or self.is_dead(lock.holder)

    def have_ended(self, own: Collection[Lock]) -> bool:
        """Return whether the leases of all locks have ended."""
        return all(map(self.has_ended, own))


def choose_victim(request: LockRequest, contested: Sequence[Lock], judge: LeaseJudge) -> str | None:
    """Return the deadlock victim in a deadlock cycle with this transaction, None without a cycle.

    The oldest transaction of a cycle is never the victim, so that every transaction completes eventually. Raises
    DeadlockDetected if this transaction is the victim.
    """
    circle = _circle(request.txn_id, contested, judge)
    if not circle:
        return None
    age = {lock.txn_id: (lock.started_ms, lock.txn_id) for lock in contested}
    if min(circle, key=age.__getitem__) != request.txn_id:
        raise _deadlock(request.txn_id, circle[1:])
    return max(circle, key=age.__getitem__)


def _circle(txn_id: str, contested: Sequence[Lock], judge: LeaseJudge) -> list[str]:
    """Return a wait-for cycle that starts at `txn_id`, in the order of waiting; empty if there is none."""
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
    """Return whether the transaction of these rows waits for a lock."""
    return any(lock.wanted for lock in own)


def require_unmarked(txn_id: str, own: Iterable[Lock]) -> None:
    """Raise DeadlockDetected if the transaction was a deadlock victim, LockTimeout if it lost its locks."""
    for lock in own:
        if lock.mark == GAVE_WAY:
            raise _deadlock(txn_id)
        if lock.mark:
            raise LockTimeout(
                f"transaction {txn_id} did not renew its lease in time, and other transactions acquired its locks. "
                "Retry the transaction"
            )
