"""Rows of the lock table: modes held and requested by a transaction, for each item.

A transaction has one row per item, and a row for the table of each partition. The rows of tables hold the lease of the
transaction, so that a lock on one more partition changes no row of another partition. After a loss of its locks, one
row of a table remains, with a mark, and locks nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from slackwater.owner.api.transactions import WHOLE, Item
from slackwater.owner.database.schema import locks
from slackwater.owner.locks.lock_modes import LockMode, are_compatible, compatible_with_all

REMEMBERED_MS = 24 * 3_600_000
"""Duration for which a loss of locks is recorded. Afterwards the transaction looks like one without locks."""

# Marks, stored in place of the requested mode in the remaining row after a loss of locks.
GAVE_WAY, ENDED = "dl", "end"
MARKS = (GAVE_WAY, ENDED)
# Values of a partition's row, because the row of its table has the lease. Processes of earlier releases wait for such a
# lock until it is released.
_NO_HOLDER, _NO_END_MS = "", 2**62
# Granules in one statement, because databases limit the parameters.
_IN_ONE_LIST = 500

_OF_TABLES = locks.c.table_id.in_(sa.bindparam("table_ids", expanding=True))
_OF_GRANULES = locks.c.granule.in_(sa.bindparam("granules", expanding=True))
_OF_TXN = locks.c.txn_id == sa.bindparam("of_txn")
_OF_ITEM = sa.and_(locks.c.table_id == sa.bindparam("of_table"), locks.c.granule == sa.bindparam("of_granule"))
# Literals instead of parameters, because otherwise SQLite does not use the partial index of waiting rows.
IS_TABLE = locks.c.granule == sa.literal_column("''")
_HAS_WANTED = locks.c.wanted != sa.literal_column("''")
_IS_MARKED = sa.and_(_HAS_WANTED, locks.c.wanted.in_(MARKS))
IS_WAITING = sa.and_(_HAS_WANTED, locks.c.wanted.not_in(MARKS))

_of_table = locks.alias()
LOCKS: sa.Select[Any] = sa.select(
    *(column for column in locks.columns if column.name not in ("holder", "until_ms")),
    _of_table.c.holder,
    _of_table.c.until_ms,
).where(
    _of_table.c.table_id == locks.c.table_id,
    _of_table.c.granule == sa.literal_column("''"),
    _of_table.c.txn_id == locks.c.txn_id,
)
"""Query of all rows, each with the lease of its transaction."""

_OWN = sa.union_all(sa.select(locks).where(_OF_TXN, _OF_GRANULES), sa.select(locks).where(_OF_TXN, _HAS_WANTED))
_OWN_TABLES = sa.select(locks).where(_OF_TXN, IS_TABLE).order_by(locks.c.table_id).with_for_update()
_OWN_WAITING = LOCKS.where(_OF_TXN, IS_WAITING)
_RIVALS = LOCKS.where(
    _OF_TABLES,
    _OF_GRANULES,
    locks.c.txn_id != sa.bindparam("of_txn"),
    sa.or_(
        IS_WAITING,
        sa.and_(IS_TABLE, locks.c.held.not_in(sa.bindparam("harmless_on_tables", expanding=True))),
        sa.and_(sa.not_(IS_TABLE), locks.c.held.not_in(sa.bindparam("harmless_on_granules", expanding=True))),
    ),
)
_CONTESTED = LOCKS.where(
    sa.tuple_(locks.c.table_id, locks.c.granule).in_(sa.select(locks.c.table_id, locks.c.granule).where(IS_WAITING))
)
_INSERT = sa.insert(locks)
_UPDATE = (
    sa.update(locks)
    .where(_OF_TXN, _OF_ITEM)
    .values({column: sa.bindparam(f"new_{column}") for column in ("held", "wanted", "place")})
)
_DELETE = sa.delete(locks).where(_OF_TXN, _OF_ITEM)
_TAKE_OVER = (
    sa.update(locks)
    .where(_OF_TXN, IS_TABLE)
    .values(until_ms=sa.bindparam("new_until_ms"), holder=sa.bindparam("new_holder"))
)
_MARK = (
    sa.update(locks)
    .where(_OF_TXN, _OF_ITEM)
    .values(held="", wanted=sa.bindparam("mark"), until_ms=sa.bindparam("new_until_ms"))
)
_DELETE_UNMARKED = sa.delete(locks).where(_OF_TXN, sa.not_(_IS_MARKED))
_FORGET_MARKED = sa.delete(locks).where(_IS_MARKED, locks.c.until_ms < sa.bindparam("now_ms"))


@dataclass(frozen=True, slots=True)
class Lock:
    """A row of `locks`. A row with a mark locks nothing. `holder` and `until_ms` are the lease of the transaction."""

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
    def of(row: Row[Any]) -> Lock:
        """Return the lock of a database row."""
        mark = row.wanted if row.wanted in MARKS else ""
        return Lock(
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
        """Return the key of the row."""
        return {"of_txn": self.txn_id, "of_table": self.item.table_id, "of_granule": self.item.granule}

    def state(self) -> dict[str, Any]:
        """Return the mutable columns."""
        held, wanted = (mode.value if mode else "" for mode in (self.held, self.wanted))
        return {"held": held, "wanted": self.mark or wanted, "place": self.place}

    def columns(self) -> dict[str, Any]:
        """Return all columns of the row."""
        has_lease = self.item.granule == WHOLE
        return {
            **self.state(),
            "table_id": self.item.table_id,
            "granule": self.item.granule,
            "txn_id": self.txn_id,
            "started_ms": self.started_ms,
            "holder": self.holder if has_lease else _NO_HOLDER,
            "until_ms": self.until_ms if has_lease else _NO_END_MS,
        }

    def blocks(self, wish: Lock) -> LockMode | None:
        """Return the blocking mode (held, or requested earlier) for the request `wish`, None if not blocking."""
        if wish.wanted is None or self.item != wish.item or self.txn_id == wish.txn_id:
            return None
        if self.held is not None and not are_compatible(wish.wanted, self.held):
            return self.held
        if self.wanted is None or are_compatible(wish.wanted, self.wanted):
            return None
        if wish.held is not None and not are_compatible(self.wanted, wish.held):
            # This lock waits for `wish` already, so that waiting for it would be a deadlock cycle.
            return None
        return self.wanted if (self.place, self.txn_id) < (wish.place, wish.txn_id) else None


def own_rows(connection: Connection, txn_id: str, items: Iterable[Item]) -> dict[Item, Lock]:
    """Return rows of the transaction: those on `items` and on tables, and those of requests. Possibly more."""
    found: dict[Item, Lock] = {}
    for granules in _lists({WHOLE, *(item.granule for item in items)}):
        rows = connection.execute(_OWN, {"of_txn": txn_id, "granules": granules})
        found |= {lock.item: lock for lock in _locks_of(rows)}
    return found


def rivals(connection: Connection, txn_id: str, modes: Mapping[Item, LockMode]) -> list[Lock]:
    """Return the rows of other transactions able to block the locks `modes`, possibly more."""
    parameters: dict[str, Any] = {"of_txn": txn_id, "table_ids": sorted({item.table_id for item in modes})}
    for name, are_tables in (("harmless_on_tables", True), ("harmless_on_granules", False)):
        asked = [mode for item, mode in modes.items() if (item.granule == WHOLE) is are_tables]
        parameters[name] = sorted(mode.value for mode in compatible_with_all(asked))
    found = []
    for granules in _lists({item.granule for item in modes}):
        found += _locks_of(connection.execute(_RIVALS, {**parameters, "granules": granules}))
    return found


def own_tables(connection: Connection, txn_id: str) -> list[Lock]:
    """Return the rows of the transaction on tables, by table, locked until the end of the database transaction."""
    return _locks_of(connection.execute(_OWN_TABLES, {"of_txn": txn_id}))


def _lists(granules: Iterable[str]) -> list[list[str]]:
    texts = sorted(granules)
    return [texts[at : at + _IN_ONE_LIST] for at in range(0, len(texts), _IN_ONE_LIST)]


def _locks_of(rows: Iterable[Row[Any]]) -> list[Lock]:
    return [Lock.of(row) for row in rows]


def states(found: Iterable[Lock]) -> frozenset[tuple[str, ...]]:
    """Return the state of these rows that decides about locks, for comparisons."""
    return frozenset(
        (lock.item.table_id, lock.item.granule, lock.txn_id, lock.state()["held"], lock.state()["wanted"])
        for lock in found
    )


def record(
    connection: Connection,
    txn_id: str,
    own: Mapping[Item, Lock],
    wanted: Sequence[Lock],
    holder: str,
    now_ms: int,
    until_ms: int,
) -> None:
    """Write the rows of the transaction: its locks and the requests `wanted`. Earlier requests are deleted."""
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
    leases = [lock for lock in own.values() if lock.item.granule == WHOLE]
    is_other = any(lock.holder != holder for lock in leases)
    if leases and (added or is_other or is_due(leases, now_ms, until_ms)):
        take_over(connection, txn_id, until_ms, holder)


def is_due(leases: Iterable[Lock], now_ms: int, until_ms: int) -> bool:
    """Return whether half of the lease is over, because not every heartbeat justifies a write."""
    return any(lock.until_ms < (now_ms + until_ms) // 2 for lock in leases)


def strip(connection: Connection, txn_id: str, mark: str, now_ms: int, may: Callable[[Collection[Lock]], bool]) -> bool:
    """Release all locks of a transaction and mark it, if its rows still satisfy `may`. Return whether done.

    `may` gets the rows on tables and the rows of requests.
    """
    own = own_tables(connection, txn_id)
    if not own or any(lock.mark for lock in own):
        return True
    waiting = _locks_of(connection.execute(_OWN_WAITING, {"of_txn": txn_id}))
    if not may([*own, *(lock for lock in waiting if lock.item.granule != WHOLE)]):
        return False
    # Update one row instead of inserting a new one, because a process waiting for the row sees only an update.
    connection.execute(_MARK, {**own[0].key(), "mark": mark, "new_until_ms": now_ms + REMEMBERED_MS})
    connection.execute(_DELETE_UNMARKED, {"of_txn": txn_id})
    connection.execute(_FORGET_MARKED, {"now_ms": now_ms})
    return True


def contested(connection: Connection) -> list[Lock]:
    """Return all rows on items with waiting requests."""
    return _locks_of(connection.execute(_CONTESTED))


def take_over(connection: Connection, txn_id: str, until_ms: int, holder: str) -> None:
    """Assign all locks of the transaction to the process `holder` until `until_ms`."""
    connection.execute(_TAKE_OVER, {"of_txn": txn_id, "new_until_ms": until_ms, "new_holder": holder})
