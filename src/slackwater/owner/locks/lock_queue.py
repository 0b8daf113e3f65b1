"""Lock requests on the lock table: granting, queueing, deadlock victims.

The functions run in the caller's database transaction. The order of database locks is: rows of `tables` by id, the
right to wait, rows of `locks`. The caller of `renew`, `release` or `conflicting_lock` has locked the necessary rows of
`tables` before. Source: paper §3.1; docs/transactions.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cache

import sqlalchemy as sa
from sqlalchemy import Connection

from slackwater.errors import InvalidArgument, TableNotFound
from slackwater.owner.api.commits import TableState
from slackwater.owner.api.transactions import LONGEST_GRANULE, WHOLE, Item, LockRequest
from slackwater.owner.database.schema import locks
from slackwater.owner.locks.deadlock_detection import (
    IsDead,
    LeaseJudge,
    are_waiting,
    choose_victim,
    require_unmarked,
    short_id,
)
from slackwater.owner.locks.lock_modes import LockMode, are_compatible, covers, join, joined, modes_for
from slackwater.owner.locks.lock_table import (
    ENDED,
    GAVE_WAY,
    IS_TABLE,
    IS_WAITING,
    Lock,
    contested,
    is_due,
    own_rows,
    own_tables,
    record,
    rivals,
    states,
    strip,
    take_over,
)
from slackwater.owner.state.log_head import locked_tables

PREPARED = "a prepared transaction"
"""Holder of locks without a process to keep them alive."""

_MAX_ID_CHARS = 36
_FOR_GOOD_MS = 2**62
_OF_TXN = locks.c.txn_id == sa.bindparam("of_txn")
_ANY_OWN = sa.select(locks.c.txn_id).where(_OF_TXN).limit(1)
_RENEW = sa.update(locks).where(_OF_TXN, IS_TABLE).values(until_ms=sa.bindparam("new_until_ms"))
_WITHDRAW_NEW = sa.delete(locks).where(_OF_TXN, locks.c.held == "", IS_WAITING)
_WITHDRAW_MORE = sa.update(locks).where(_OF_TXN, IS_WAITING).values(wanted="")
_RELEASE = sa.delete(locks).where(locks.c.txn_id.in_(sa.bindparam("txn_ids", expanding=True)))
# Serializes waiting requests, because two concurrent requests could otherwise close a deadlock cycle unnoticed.
_RIGHT_TO_WAIT = sa.text("SELECT pg_advisory_xact_lock(7303015)")


@dataclass(frozen=True, slots=True)
class BlockingLock:
    """A blocking transaction: holds `mode` of `item`, or requested it earlier if not `is_held`.

    `holder` is the requesting process, `since_ms` the start of the transaction.
    """

    txn_id: str
    item: Item
    mode: LockMode
    is_held: bool
    holder: str
    since_ms: int

    @property
    def description(self) -> str:
        """Description for messages, with the table id."""
        return self.described(self.item.table_id)

    def described(self, table_name: str) -> str:
        """Return a description for messages, with `table_name`."""
        what = f"table {table_name}" if self.item.granule == WHOLE else f"{self.item.granule} of table {table_name}"
        since = datetime.fromtimestamp(self.since_ms / 1000, timezone.utc).isoformat(timespec="milliseconds")
        verb = "holds" if self.is_held else "waits for"
        who = f"transaction {short_id(self.txn_id)} of process {self.holder}, begun at {since}"
        return f"{who}, {verb} {self.mode.value} on {what}"


@dataclass(frozen=True, slots=True)
class LockWait:
    """A waiting request. Its situation is unchanged if `blockers_of` still returns `seen`.

    Exceptions are expired leases and crashed processes.
    """

    blockers: Sequence[BlockingLock]
    seen: frozenset[tuple[str, ...]]


def acquire(
    connection: Connection, request: LockRequest, holder: str, now_ms: int, until_ms: int, is_dead: IsDead
) -> LockWait | None:
    """Lock all items of the request, or record the request in the queue and return its blockers.

    Repeat the call with the same request until the result is None. The queue position is the position of the first
    call. Call `withdraw` after an unsuccessful wait. A transaction has one request at a time. The lease of its locks
    ends at about `until_ms`. An earlier conflicting request goes first, unless it waits for a lock of this transaction
    on the same item.

    Blocking transactions with an expired lease or a crashed process lose all their locks.

    Raises:
        DeadlockDetected: If this transaction is the victim. Then call `release_as_victim` in a new database
            transaction, because the error undoes this one.
        LockTimeout: If the transaction lost its locks before.
        TableNotFound: If a table is unknown or released.
        InvalidArgument: If the transaction id is empty or too long, or if a granule is too long.
    """
    _require_valid(request)
    asked = _modes_asked(request)
    _lock_tables(connection, {item.table_id for item in asked})
    judge = LeaseJudge(now_ms, cache(is_dead))
    may_wait = connection.dialect.name == "sqlite"
    while True:
        own, missing, others = _situation(connection, request.txn_id, asked)
        require_unmarked(request.txn_id, own.values())
        wishes = _wishes(request, missing, own, others, holder, until_ms)
        blockers = _blockers(wishes, others)
        ended = {lock.txn_id for lock, _ in blockers if judge.has_ended(lock)}
        if ended:
            for txn_id in sorted(ended):
                strip(connection, txn_id, ENDED, now_ms, judge.have_ended)
            continue
        if blockers and not may_wait:
            connection.execute(_RIGHT_TO_WAIT)
            may_wait = True
            continue
        if own and not _are_current(connection, request.txn_id, own):
            continue
        if not blockers:
            granted = [replace(wish, held=wish.wanted, wanted=None) for wish in wishes]
            record(connection, request.txn_id, own, granted, holder, now_ms, until_ms)
            return None
        record(connection, request.txn_id, own, wishes, holder, now_ms, until_ms)
        victim = choose_victim(request, contested(connection), judge)
        if victim is None:
            return LockWait([blocker for _, blocker in blockers], blockers_of(connection, request))
        # The deadlock cycle may have dissolved since, so check again.
        strip(connection, victim, GAVE_WAY, now_ms, are_waiting)


def blockers_of(connection: Connection, request: LockRequest) -> frozenset[tuple[str, ...]]:
    """Return the lock state relevant for `acquire`, for comparisons."""
    own, _, others = _situation(connection, request.txn_id, _modes_asked(request))
    return states([*own.values(), *others])


def withdraw(connection: Connection, txn_id: str) -> None:
    """Delete the waiting request. Existing locks stay."""
    connection.execute(_WITHDRAW_NEW, {"of_txn": txn_id})
    connection.execute(_WITHDRAW_MORE, {"of_txn": txn_id})


def release_as_victim(connection: Connection, txn_id: str, now_ms: int) -> None:
    """Release all locks of a deadlock victim. Before its `release`, the transaction gets no new locks."""
    strip(connection, txn_id, GAVE_WAY, now_ms, lambda _: True)


def release(connection: Connection, *txn_ids: str) -> None:
    """Delete all locks and requests of transactions."""
    connection.execute(_RELEASE, {"txn_ids": txn_ids})


def pin(connection: Connection, txn_id: str) -> None:
    """Retain the locks of the transaction until `release`, even after a crash of its process."""
    take_over(connection, txn_id, _FOR_GOOD_MS, PREPARED)


def has_locks(connection: Connection, txn_id: str) -> bool:
    """Return whether the transaction has locks, waits for locks, or lost its locks without ending."""
    return connection.execute(_ANY_OWN, {"of_txn": txn_id}).first() is not None


def renew(connection: Connection, txn_id: str, until_ms: int, now_ms: int) -> bool:
    """Renew the lease until about `until_ms`. Return whether the transaction still has all its locks.

    False if it has no locks, or lost them after an expired lease or a deadlock.
    """
    leases = own_tables(connection, txn_id)
    if not leases or any(lock.mark for lock in leases):
        return False
    if is_due(leases, now_ms, until_ms):
        connection.execute(_RENEW, {"of_txn": txn_id, "new_until_ms": until_ms})
    return True


def conflicting_lock(
    connection: Connection,
    txn_id: str | None,
    reads: Sequence[Item],
    writes: Sequence[Item],
    now_ms: int,
    is_dead: IsDead,
) -> BlockingLock | None:
    """Return a lock of another transaction that blocks a commit with these reads and writes, None without one.

    A write of a whole table means unknown partitions. Waiting requests do not block. Locks of ended transactions are
    released.
    """
    needed = joined(modes_for(reads, LockMode.SHARED), modes_for(writes, LockMode.EXCLUSIVE))
    judge = LeaseJudge(now_ms, cache(is_dead))
    for lock in sorted(rivals(connection, txn_id or "", needed), key=lambda found: (found.txn_id, found.item.granule)):
        mode = needed.get(lock.item)
        if mode is None or lock.held is None or are_compatible(mode, lock.held):
            continue
        if not (judge.has_ended(lock) and strip(connection, lock.txn_id, ENDED, now_ms, judge.have_ended)):
            return _blocker(lock, lock.held, is_held=True)
    return None


def _require_valid(request: LockRequest) -> None:
    if not 0 < len(request.txn_id) <= _MAX_ID_CHARS:
        raise InvalidArgument(f"a transaction's id is a UUID, found {request.txn_id!r}")
    for item in request.items:
        if len(item.granule) > LONGEST_GRANULE:
            raise InvalidArgument(
                f"a granule has at most {LONGEST_GRANULE} characters, found {len(item.granule)} of table "
                f"{item.table_id}: {item.granule[:60]}…. Lock the whole table instead"
            )


def _modes_asked(request: LockRequest) -> dict[Item, LockMode]:
    return modes_for(request.items, LockMode.EXCLUSIVE if request.is_exclusive else LockMode.SHARED)


def _lock_tables(connection: Connection, table_ids: Collection[str]) -> None:
    rows = locked_tables(connection, table_ids)
    for table_id in sorted(table_ids):
        row = rows.get(table_id)
        if row is None or row.state == TableState.RELEASED.value:
            raise TableNotFound(f"the commit owner has no table {table_id}, so it cannot be locked")


def _situation(
    connection: Connection, txn_id: str, asked: Mapping[Item, LockMode]
) -> tuple[dict[Item, Lock], dict[Item, LockMode], list[Lock]]:
    """Return rows of the transaction, its missing locks, and the rows of other transactions able to block these."""
    own = own_rows(connection, txn_id, asked)
    held = {item: lock.held for item, lock in own.items()}
    missing = {}
    for item, mode in asked.items():
        target = join(held.get(item), mode)
        table = Item(item.table_id, WHOLE)
        is_covered = item != table and covers(join(held.get(table), asked[table]), target)
        if target is not held.get(item) and not is_covered:
            missing[item] = target
    return own, missing, rivals(connection, txn_id, missing)


def _are_current(connection: Connection, txn_id: str, own: Mapping[Item, Lock]) -> bool:
    """Return whether the transaction still has the rows `own`, and lock its rows on tables.

    A loss of locks changes a row on a table.
    """
    read = [lock for lock in own.values() if lock.item.granule == WHOLE]
    return states(own_tables(connection, txn_id)) == states(read)


def _wishes(
    request: LockRequest,
    missing: Mapping[Item, LockMode],
    own: Mapping[Item, Lock],
    others: Sequence[Lock],
    holder: str,
    until_ms: int,
) -> list[Lock]:
    """Return the requests for the missing locks, at their place in the queue."""
    places = [lock.place for lock in own.values() if lock.wanted]
    place = min(places) if places else 1 + max((lock.place for lock in (*own.values(), *others)), default=0)
    held = {item: lock.held for item, lock in own.items()}
    return [
        Lock(item, request.txn_id, held.get(item), target, "", place, request.started_ms, holder, until_ms)
        for item, target in missing.items()
    ]


def _blockers(wishes: Sequence[Lock], rows: Sequence[Lock]) -> list[tuple[Lock, BlockingLock]]:
    by_item = {wish.item: wish for wish in wishes}
    found = []
    for lock in rows:
        wish = by_item.get(lock.item)
        mode = None if wish is None else lock.blocks(wish)
        if mode is not None:
            found.append((lock, _blocker(lock, mode, is_held=mode is lock.held)))
    return found


def _blocker(lock: Lock, mode: LockMode, is_held: bool) -> BlockingLock:
    return BlockingLock(lock.txn_id, lock.item, mode, is_held, lock.holder, lock.started_ms)
