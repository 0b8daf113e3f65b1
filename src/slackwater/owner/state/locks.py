"""The lock table: who holds which items, who waits for whom, and who gives way where they wait in a circle.

The functions run inside a transaction of the database that somebody else began. What is locked in the database is, in
this order: rows of `tables` by their ids, the right to wait, rows of `locks`. Whoever calls `keep`, `release` or
`in_the_way` has locked the rows of `tables` that it needs before. Source: paper §3.1; docs/transactions.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from slackwater.errors import DeadlockDetected, InvalidArgument, LockTimeout, TableNotFound
from slackwater.owner.api.commits import TableState
from slackwater.owner.api.transactions import LONGEST_GRANULE, WHOLE, Item, LockRequest
from slackwater.owner.database.schema import locks
from slackwater.owner.state.heads import locked_tables
from slackwater.owner.state.lock_modes import LockMode, are_compatible, covers, join, joined, modes_for

REMEMBERED_MS = 24 * 3_600_000
"""For how long a transaction that lost its locks is told so; afterwards it is as one that never had any."""

# In place of a wanted mode, in the one row that is left of a transaction which lost its locks.
_GAVE_WAY, _ENDED = "dl", "end"
_MARKS = (_GAVE_WAY, _ENDED)
_MAX_ID_CHARS = 36
# Beyond that many granules the rows of whole tables are read.
_MANY_GRANULES = 500

_OF_TABLES = locks.c.table_id.in_(sa.bindparam("table_ids", expanding=True))
_OF_GRANULES = locks.c.granule.in_(sa.bindparam("granules", expanding=True))
_OF_TXN = locks.c.txn_id == sa.bindparam("of_txn")
_OF_ITEM = sa.and_(locks.c.table_id == sa.bindparam("of_table"), locks.c.granule == sa.bindparam("of_granule"))
_IS_WAITING = locks.c.wanted.in_([mode.value for mode in LockMode])
_IS_MARKED = locks.c.wanted.in_(_MARKS)
_ON_ITEMS = sa.select(locks).where(sa.or_(sa.and_(_OF_TABLES, _OF_GRANULES), _OF_TXN))
_ON_TABLES = sa.select(locks).where(sa.or_(_OF_TABLES, _OF_TXN))
_HELD = sa.select(locks).where(_OF_TABLES, _OF_GRANULES, locks.c.held != "", locks.c.txn_id != sa.bindparam("of_txn"))
_HELD_IN_TABLES = sa.select(locks).where(_OF_TABLES, locks.c.held != "", locks.c.txn_id != sa.bindparam("of_txn"))
_ANY_OWN = sa.select(locks.c.txn_id).where(_OF_TXN).limit(1)
_OWN = sa.select(locks).where(_OF_TXN).order_by(locks.c.table_id, locks.c.granule).with_for_update()
_wish = locks.alias()
_CONTESTED = sa.select(locks).where(
    sa.exists().where(
        _wish.c.table_id == locks.c.table_id,
        _wish.c.granule == locks.c.granule,
        _wish.c.wanted.in_([mode.value for mode in LockMode]),
    )
)
_INSERT = sa.insert(locks)
_UPDATE = (
    sa.update(locks)
    .where(_OF_TXN, _OF_ITEM)
    .values({column: sa.bindparam(f"new_{column}") for column in ("held", "wanted", "place")})
)
_DELETE = sa.delete(locks).where(_OF_TXN, _OF_ITEM)
_TAKE_OVER = (
    sa.update(locks).where(_OF_TXN).values(until_ms=sa.bindparam("new_until_ms"), holder=sa.bindparam("new_holder"))
)
_RENEW = sa.update(locks).where(_OF_TXN).values(until_ms=sa.bindparam("new_until_ms"))
_RELEASE = sa.delete(locks).where(locks.c.txn_id.in_(sa.bindparam("txn_ids", expanding=True)))
_MARK = (
    sa.update(locks)
    .where(_OF_TXN, _OF_ITEM)
    .values(held="", wanted=sa.bindparam("mark"), until_ms=sa.bindparam("new_until_ms"))
)
_DELETE_UNMARKED = sa.delete(locks).where(_OF_TXN, sa.not_(_IS_MARKED))
_FORGET_MARKED = sa.delete(locks).where(_IS_MARKED, locks.c.until_ms < sa.bindparam("now_ms"))
_WITHDRAW_NEW = sa.delete(locks).where(_OF_TXN, locks.c.held == "", _IS_WAITING)
_WITHDRAW_MORE = sa.update(locks).where(_OF_TXN, _IS_WAITING).values(wanted="")
# Those who are about to wait look at each other one by one: else two could close a circle that neither sees.
_RIGHT_TO_WAIT = sa.text("SELECT pg_advisory_xact_lock(7303015)")

PREPARED = "a prepared transaction"
"""The holder of locks that no process has to keep alive."""

_FOR_GOOD_MS = 2**62
IsDead = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Blocker:
    """A transaction that holds `mode` of `item`, or where not `is_held` asked for it before.

    `holder` is the process that asked for it; `since_ms` is when the transaction began.
    """

    txn_id: str
    item: Item
    mode: LockMode
    is_held: bool
    holder: str
    since_ms: int

    @property
    def description(self) -> str:
        """Who has what, for a message that names the table by its id."""
        return self.described(self.item.table_id)

    def described(self, table_name: str) -> str:
        """Who has what, for a message."""
        what = f"table {table_name}" if self.item.granule == WHOLE else f"{self.item.granule} of table {table_name}"
        since = datetime.fromtimestamp(self.since_ms / 1000, timezone.utc).isoformat(timespec="milliseconds")
        verb = "holds" if self.is_held else "waits for"
        who = f"transaction {_told(self.txn_id)} of process {self.holder}, begun at {since}"
        return f"{who}, {verb} {self.mode.value} on {what}"


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the request waits for; nothing can have changed while `look` answers what it did then, `seen`.

    But for leases that end and processes that die.
    """

    blockers: Sequence[Blocker]
    seen: frozenset[tuple[str, ...]]


def acquire(
    connection: Connection, request: LockRequest, holder: str, now_ms: int, until_ms: int, is_dead: IsDead
) -> Waiting | None:
    """Lock all items of the request, or none of them: then the wish is on record, in the place of its first asking.

    Called again with the same request until it answers None. What a wait ends for without a lock: `withdraw`. Of a
    transaction one request counts at a time. All that it has is kept until about `until_ms`. An earlier request
    that conflicts goes first, unless it waits for what this transaction holds of that very item already.

    Transactions whose lease ended, or whose process is dead, lose all their locks where they are in the way. Raises
    DeadlockDetected where this transaction is to give way: `give_way` records that, since an error undoes the
    transaction of the database. LockTimeout where it lost its locks before, TableNotFound, InvalidArgument.
    """
    _require_valid(request)
    asked = modes_for(request.items, LockMode.EXCLUSIVE if request.is_exclusive else LockMode.SHARED)
    _lock_tables(connection, {item.table_id for item in asked})
    judge = _Judge(now_ms, cache(is_dead))
    may_wait = connection.dialect.name == "sqlite"
    while True:
        rows = _rows(connection, asked, request.txn_id)
        own = {lock.item: lock for lock in rows if lock.txn_id == request.txn_id}
        _require_unmarked(request.txn_id, own.values())
        wishes = _wishes(request, asked, own, rows, holder, until_ms)
        blockers = _blockers(wishes, rows)
        ended = {lock.txn_id for lock, _ in blockers if judge.has_ended(lock)}
        if ended:
            for txn_id in sorted(ended):
                _strip(connection, txn_id, _ENDED, now_ms, judge.have_ended)
            continue
        if blockers and not may_wait:
            connection.execute(_RIGHT_TO_WAIT)
            may_wait = True
            continue
        if own and _states(_own(connection, request.txn_id)) != _states(own.values()):
            continue
        if not blockers:
            granted = [replace(wish, held=wish.wanted, wanted=None) for wish in wishes]
            _record(connection, request.txn_id, own, granted, holder, now_ms, until_ms)
            return None
        _record(connection, request.txn_id, own, wishes, holder, now_ms, until_ms)
        victim = _victim(request, _locks(connection.execute(_CONTESTED)), judge)
        if victim is None:
            return Waiting([blocker for _, blocker in blockers], look(connection, request))
        # A circle that is no more, since others went on: looked at again.
        _strip(connection, victim, _GAVE_WAY, now_ms, _are_waiting)


def look(connection: Connection, request: LockRequest) -> frozenset[tuple[str, ...]]:
    """What `acquire` would see: to be compared."""
    asked = modes_for(request.items, LockMode.SHARED)
    return _states(_rows(connection, asked, request.txn_id))


def withdraw(connection: Connection, txn_id: str) -> None:
    """Wait no longer; what is held is kept."""
    connection.execute(_WITHDRAW_NEW, {"of_txn": txn_id})
    connection.execute(_WITHDRAW_MORE, {"of_txn": txn_id})


def give_way(connection: Connection, txn_id: str, now_ms: int) -> None:
    """Free all locks of a transaction that is to give way; until its `release` it gets no others."""
    _strip(connection, txn_id, _GAVE_WAY, now_ms, lambda _: True)


def release(connection: Connection, *txn_ids: str) -> None:
    """Forget all locks and wishes of transactions."""
    connection.execute(_RELEASE, {"txn_ids": txn_ids})


def keep_for_good(connection: Connection, txn_id: str) -> None:
    """Let the transaction have its locks until they are released, whatever becomes of its process."""
    connection.execute(_TAKE_OVER, {"of_txn": txn_id, "new_until_ms": _FOR_GOOD_MS, "new_holder": PREPARED})


def has_locks(connection: Connection, txn_id: str) -> bool:
    """Whether the transaction holds or wants any lock, or has lost some and not ended."""
    return connection.execute(_ANY_OWN, {"of_txn": txn_id}).first() is not None


def keep(connection: Connection, txn_id: str, until_ms: int, now_ms: int) -> bool:
    """Whether the transaction has all the locks that it was given, which are then kept until about `until_ms`.

    False where it has none, or lost them: its lease had ended, or it was to give way.
    """
    own = _own(connection, txn_id)
    if not own or any(lock.mark for lock in own):
        return False
    if _is_due(own, now_ms, until_ms):
        connection.execute(_RENEW, {"of_txn": txn_id, "new_until_ms": until_ms})
    return True


def in_the_way(
    connection: Connection,
    txn_id: str | None,
    reads: Sequence[Item],
    writes: Sequence[Item],
    now_ms: int,
    is_dead: IsDead,
) -> Blocker | None:
    """The lock of another transaction that forbids a commit which read and wrote these items, None where none does.

    The whole of a table as what is written: it is not known which partitions. Locks that are only waited for forbid
    nothing; those of transactions that ended are freed.
    """
    needed = joined(modes_for(reads, LockMode.SHARED), modes_for(writes, LockMode.EXCLUSIVE))
    held = _rows(connection, needed, txn_id or "", only_held=True)
    judge = _Judge(now_ms, cache(is_dead))
    for lock in sorted(held, key=lambda found: (found.txn_id, found.item.granule)):
        mode = needed.get(lock.item)
        if mode is None or lock.held is None or are_compatible(mode, lock.held):
            continue
        if not (judge.has_ended(lock) and _strip(connection, lock.txn_id, _ENDED, now_ms, judge.have_ended)):
            return _blocker(lock, lock.held, is_held=True)
    return None


@dataclass(frozen=True, slots=True)
class _Lock:
    """A row of `locks`; a row with a mark locks nothing."""

    item: Item
    txn_id: str
    held: LockMode | None
    wanted: LockMode | None
    mark: str
    place: int
    started_ms: int
    holder: str
    until_ms: int

    @staticmethod
    def of(row: Row[Any]) -> _Lock:
        mark = row.wanted if row.wanted in _MARKS else ""
        return _Lock(
            Item(row.table_id, row.granule),
            row.txn_id,
            LockMode(row.held) if row.held else None,
            LockMode(row.wanted) if row.wanted and not mark else None,
            mark,
            row.place,
            row.started_ms,
            row.holder,
            row.until_ms,
        )

    def key(self) -> dict[str, Any]:
        return {"of_txn": self.txn_id, "of_table": self.item.table_id, "of_granule": self.item.granule}

    def state(self) -> dict[str, Any]:
        held, wanted = (mode.value if mode else "" for mode in (self.held, self.wanted))
        return {"held": held, "wanted": self.mark or wanted, "place": self.place}

    def columns(self) -> dict[str, Any]:
        return {
            **self.state(),
            "table_id": self.item.table_id,
            "granule": self.item.granule,
            "txn_id": self.txn_id,
            "started_ms": self.started_ms,
            "holder": self.holder,
            "until_ms": self.until_ms,
        }

    def blocks(self, wish: _Lock) -> LockMode | None:
        """The mode that is held, or was asked for before, which `wish` has to wait for; None where it has not."""
        if wish.wanted is None or self.item != wish.item or self.txn_id == wish.txn_id:
            return None
        if self.held is not None and not are_compatible(wish.wanted, self.held):
            return self.held
        if self.wanted is None or are_compatible(wish.wanted, self.wanted):
            return None
        if wish.held is not None and not are_compatible(self.wanted, wish.held):
            # It waits for the one that wishes: to wait for it would be a circle.
            return None
        return self.wanted if (self.place, self.txn_id) < (wish.place, wish.txn_id) else None


@dataclass(frozen=True, slots=True)
class _Judge:
    """Says who lost its locks if another wants them; all rows of a transaction have the same lease."""

    now_ms: int
    is_dead: IsDead

    def has_ended(self, lock: _Lock) -> bool:
        return lock.until_ms < self.now_ms or self.is_dead(lock.holder)

    def have_ended(self, own: Collection[_Lock]) -> bool:
        return all(map(self.has_ended, own))


def _require_valid(request: LockRequest) -> None:
    if not 0 < len(request.txn_id) <= _MAX_ID_CHARS:
        raise InvalidArgument(f"a transaction's id is a UUID, found {request.txn_id!r}")
    for item in request.items:
        if len(item.granule) > LONGEST_GRANULE:
            raise InvalidArgument(
                f"a granule has at most {LONGEST_GRANULE} characters, found {len(item.granule)} of table "
                f"{item.table_id}: {item.granule[:60]}…; lock the whole table instead"
            )


def _lock_tables(connection: Connection, table_ids: Collection[str]) -> None:
    rows = locked_tables(connection, table_ids)
    for table_id in sorted(table_ids):
        row = rows.get(table_id)
        if row is None or row.state == TableState.RELEASED.value:
            raise TableNotFound(f"the commit owner has no table {table_id}: nothing of it can be locked")


def _require_unmarked(txn_id: str, own: Iterable[_Lock]) -> None:
    for lock in own:
        if lock.mark == _GAVE_WAY:
            raise _deadlock(txn_id)
        if lock.mark:
            raise LockTimeout(
                f"transaction {txn_id} did not say in time that it goes on, and its locks were given to others: run it "
                "again"
            )


_TOLD = 8


def _told(txn_id: str) -> str:
    """Another's transaction for a message: who knows the whole id may end it."""
    return txn_id if len(txn_id) <= _TOLD else f"{txn_id[:_TOLD]}…"


def _deadlock(txn_id: str, others: Sequence[str] = ()) -> DeadlockDetected:
    named = f" ({', '.join(_told(other) for other in others)})" if others else ""
    return DeadlockDetected(
        f"transaction {txn_id} and others{named} wait for each other's locks, and it was chosen to give way: its locks "
        "are free; run it again"
    )


def _wishes(
    request: LockRequest,
    asked: Mapping[Item, LockMode],
    own: Mapping[Item, _Lock],
    rows: Sequence[_Lock],
    holder: str,
    until_ms: int,
) -> list[_Lock]:
    """What the transaction has to get beyond what it holds."""
    held = {item: lock.held for item, lock in own.items()}
    places = [lock.place for lock in own.values() if lock.wanted]
    place = min(places) if places else 1 + max((lock.place for lock in rows), default=0)
    wishes = []
    for item, mode in asked.items():
        target = join(held.get(item), mode)
        table = Item(item.table_id, WHOLE)
        is_covered = item != table and covers(join(held.get(table), asked[table]), target)
        if target is not held.get(item) and not is_covered:
            wishes.append(
                _Lock(
                    item, request.txn_id, held.get(item), target, "", place, request.started_ms, holder, until_ms
                )
            )  # fmt: skip
    return wishes


def _blockers(wishes: Sequence[_Lock], rows: Sequence[_Lock]) -> list[tuple[_Lock, Blocker]]:
    by_item = {wish.item: wish for wish in wishes}
    found = []
    for lock in rows:
        wish = by_item.get(lock.item)
        mode = None if wish is None else lock.blocks(wish)
        if mode is not None:
            found.append((lock, _blocker(lock, mode, is_held=mode is lock.held)))
    return found


def _blocker(lock: _Lock, mode: LockMode, is_held: bool) -> Blocker:
    return Blocker(lock.txn_id, lock.item, mode, is_held, lock.holder, lock.started_ms)


def _record(
    connection: Connection,
    txn_id: str,
    own: Mapping[Item, _Lock],
    wanted: Sequence[_Lock],
    holder: str,
    now_ms: int,
    until_ms: int,
) -> None:
    """Make the rows of the transaction what it holds and `wanted`; earlier wishes are gone."""
    new = {item: replace(lock, wanted=None) for item, lock in own.items()} | {lock.item: lock for lock in wanted}
    gone = [lock.key() for lock in new.values() if lock.held is None and lock.wanted is None]
    changed = [
        {**lock.key(), **{f"new_{column}": value for column, value in lock.state().items()}}
        for item, lock in new.items()
        if item in own and (lock.held or lock.wanted) and lock.state() != own[item].state()
    ]
    added = [lock.columns() for item, lock in new.items() if item not in own]
    for statement, rows in ((_DELETE, gone), (_UPDATE, changed), (_INSERT, added)):
        if rows:
            connection.execute(statement, rows)
    kept = own.values()
    is_other = any(lock.holder != holder for lock in kept)
    if kept and (added or is_other or _is_due(kept, now_ms, until_ms)):
        connection.execute(_TAKE_OVER, {"of_txn": txn_id, "new_until_ms": until_ms, "new_holder": holder})


def _is_due(own: Iterable[_Lock], now_ms: int, until_ms: int) -> bool:
    """Whether half of the lease is over: not every sign of life is worth a write."""
    return any(lock.until_ms < (now_ms + until_ms) // 2 for lock in own)


def _victim(request: LockRequest, contested: Sequence[_Lock], judge: _Judge) -> str | None:
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


def _circle(txn_id: str, contested: Sequence[_Lock], judge: _Judge) -> list[str]:
    """Transactions that wait each for the next, the last for the first, which is `txn_id`; empty where none do."""
    by_item: dict[Item, list[_Lock]] = {}
    wishes: dict[str, list[_Lock]] = {}
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


def _are_waiting(own: Collection[_Lock]) -> bool:
    return any(lock.wanted for lock in own)


def _strip(
    connection: Connection, txn_id: str, mark: str, now_ms: int, may: Callable[[Collection[_Lock]], bool]
) -> bool:
    """Free all locks of a transaction and mark it, where its rows still are such that one may; whether it was done."""
    own = _own(connection, txn_id)
    if not own or any(lock.mark for lock in own):
        return True
    if not may(own):
        return False
    # A row that is changed is seen by whoever waits for it; one that is deleted, and another made, is not.
    connection.execute(_MARK, {**own[0].key(), "mark": mark, "new_until_ms": now_ms + REMEMBERED_MS})
    connection.execute(_DELETE_UNMARKED, {"of_txn": txn_id})
    connection.execute(_FORGET_MARKED, {"now_ms": now_ms})
    return True


def _rows(connection: Connection, items: Collection[Item], txn_id: str, only_held: bool = False) -> list[_Lock]:
    """The rows on `items`, and those of the transaction; with `only_held` what others hold. There may be more."""
    if not items:
        return [] if only_held else _locks(connection.execute(_OWN, {"of_txn": txn_id}))
    table_ids = sorted({item.table_id for item in items})
    granules = sorted({item.granule for item in items})
    parameters: dict[str, Any] = {"of_txn": txn_id, "table_ids": table_ids}
    if len(granules) > _MANY_GRANULES:
        return _locks(connection.execute(_HELD_IN_TABLES if only_held else _ON_TABLES, parameters))
    parameters["granules"] = granules
    return _locks(connection.execute(_HELD if only_held else _ON_ITEMS, parameters))


def _own(connection: Connection, txn_id: str) -> list[_Lock]:
    """The rows of the transaction, by item, which nobody else changes from now on."""
    return _locks(connection.execute(_OWN, {"of_txn": txn_id}))


def _locks(rows: Iterable[Row[Any]]) -> list[_Lock]:
    return [_Lock.of(row) for row in rows]


def _states(found: Iterable[_Lock]) -> frozenset[tuple[str, ...]]:
    return frozenset(
        (lock.item.table_id, lock.item.granule, lock.txn_id, lock.state()["held"], lock.state()["wanted"])
        for lock in found
    )
