"""Active transactions, locks and timestamp reservations of an owner, from a read-only query of its database.

Source: docs/commit-owner.md "Serving"; paper §3.1 (locks), §4.1 (read timestamps), §4.2 (timestamp table).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from slackwater.owner.api.monitoring import (
    MOST_SHOWN,
    Activity,
    LockInfo,
    OpenTransaction,
    ReadTimestampLoad,
    TimestampReservationInfo,
    TransactionPhase,
)
from slackwater.owner.api.transactions import Item
from slackwater.owner.database.schema import (
    commits,
    locks,
    openers,
    owner,
    prepared,
    promises,
    read_timestamps,
    tables,
    transactions,
)
from slackwater.owner.locks.deadlock_detection import IsDead, short_id
from slackwater.owner.locks.lock_table import LOCKS, Lock
from slackwater.owner.state.clock import OwnerClock, is_dead
from slackwater.owner.state.log_head import OPEN, RATIFIED
from slackwater.owner.state.shared_clock import read_clock

# Limits the rows read, because monitoring must also work for an overloaded owner.
_MOST_READ = 20 * MOST_SHOWN
_OPEN = sa.select(transactions).where(transactions.c.state != RATIFIED).limit(_MOST_READ)
_COMMITTING = sa.select(commits).where(commits.c.state != RATIFIED).limit(_MOST_READ)
_LOCKS = LOCKS.order_by(locks.c.started_ms, locks.c.txn_id, locks.c.place).limit(_MOST_READ)
_PROMISES = sa.select(promises).order_by(promises.c.timestamp_ms).limit(_MOST_READ)
_PREPARED = sa.select(prepared.c.txn_id, prepared.c.low_ms, prepared.c.high_ms, prepared.c.voted_ms).limit(_MOST_READ)
_OPENERS = sa.select(openers).where(openers.c.txn_id.in_(sa.bindparam("txn_ids", expanding=True)))
_LOAD = sa.select(
    sa.func.count().label("used"), sa.func.coalesce(sa.func.max(read_timestamps.c.timestamp_ms), 0).label("latest_ms")
)
_OWNER = sa.select(owner.c.read_slots, owner.c.read_floor_ms)
_IN_ONE_LIST = 500


def activity(connection: Connection, clock: OwnerClock) -> Activity:
    """Return the current activity."""
    now_ms = read_clock(connection, clock)
    look = _ActivityQuery(now_ms, cache(is_dead), _names(connection))
    held = [Lock.of(row) for row in connection.execute(_LOCKS)]
    promised = connection.execute(_PROMISES).all()
    opened = look.transactions(connection, held, promised)
    shown_locks = look.locks(held)
    shown_promises = [
        TimestampReservationInfo(
            look.table(row.table_id), short_id(row.txn_id), row.timestamp_ms, row.until_ms, row.holder, look.ended(row)
        )
        for row in promised
    ]
    load, size = connection.execute(_LOAD).one(), connection.execute(_OWNER).one()
    kinds: tuple[Sequence[object], ...] = (opened, shown_locks, shown_promises)
    return Activity(
        now_ms,
        opened[:MOST_SHOWN],
        shown_locks[:MOST_SHOWN],
        shown_promises[:MOST_SHOWN],
        ReadTimestampLoad(size.read_slots, load.used, size.read_floor_ms, load.latest_ms),
        sum(max(0, len(found) - MOST_SHOWN) for found in kinds),
    )


@dataclass
class _Open:
    """Facts about one transaction from the rows of several tables."""

    stage: TransactionPhase = TransactionPhase.OPEN
    tables: set[str] = field(default_factory=set)
    since_ms: list[int] = field(default_factory=list)
    range: tuple[int | None, int | None] = (None, None)
    holder: str = ""
    until_ms: int | None = None


@dataclass(frozen=True)
class _ActivityQuery:
    now_ms: int
    is_gone: IsDead
    names: Mapping[str, str]

    def table(self, table_id: str) -> str:
        return self.names.get(table_id, table_id)

    def ended(self, row: Row[Any] | Lock | _Open) -> bool:
        """Return whether the lease expired, or the process has ended."""
        if row.until_ms is None:
            return False
        return bool(row.until_ms < self.now_ms) or (bool(row.holder) and self.is_gone(row.holder))

    def transactions(
        self, connection: Connection, held: Sequence[Lock], promised: Sequence[Row[Any]]
    ) -> list[OpenTransaction]:
        found: dict[str, _Open] = defaultdict(_Open)
        for lock in held:
            if not lock.mark:
                self._note(found[lock.txn_id], lock, lock.item.table_id).since_ms.append(lock.started_ms)
        for row in promised:
            self._note(found[row.txn_id], row, row.table_id)
        for row in connection.execute(_OPEN):
            at = self._note(found[row.txn_id], row)
            at.stage = TransactionPhase.OPEN if row.state == OPEN else TransactionPhase.COMMITTING
            at.range = (
                (row.low_ms, row.high_ms) if row.timestamp_ms is None else (row.timestamp_ms - 1, row.timestamp_ms)
            )
        for row in connection.execute(_COMMITTING):
            at = self._note(found[row.txn_id or row.commit_id], row, row.table_id)
            at.stage, at.range = TransactionPhase.COMMITTING, (row.timestamp_ms - 1, row.timestamp_ms)
        for txn_id, low_ms, high_ms, voted_ms in connection.execute(_PREPARED):
            at = found[txn_id]
            at.stage, at.range = TransactionPhase.PREPARED, (low_ms, high_ms)
            at.since_ms.append(voted_ms)
        by_token = _openers(connection, list(found))
        shown = []
        for txn_id, at in found.items():
            opener = by_token.get(txn_id)
            if opener is not None:
                at.since_ms.append(opener.seen_ms)
            shown.append(
                OpenTransaction(
                    short_id(txn_id),
                    at.stage,
                    sorted(at.tables),
                    min(at.since_ms, default=None),
                    *at.range,
                    at.holder,
                    None if opener is None else opener.token_name,
                    at.until_ms,
                    at.stage is not TransactionPhase.PREPARED and self.ended(at),
                )
            )
        return sorted(shown, key=lambda each: (each.since_ms or self.now_ms, each.transaction))

    def locks(self, held: Sequence[Lock]) -> list[LockInfo]:
        by_item: dict[Item, list[Lock]] = defaultdict(list)
        for lock in held:
            by_item[lock.item].append(lock)
        return [
            LockInfo(
                self.table(lock.item.table_id),
                lock.item.granule,
                short_id(lock.txn_id),
                lock.held.value if lock.held else "",
                lock.wanted.value if lock.wanted else "",
                sorted({short_id(other.txn_id) for other in by_item[lock.item] if other.blocks(lock)}),
                lock.started_ms,
                lock.until_ms,
                lock.holder,
                self.ended(lock),
            )
            for lock in held
            if not lock.mark
        ]

    def _note(self, at: _Open, row: Row[Any] | Lock, table_id: str | None = None) -> _Open:
        at.holder = at.holder or row.holder
        at.until_ms = row.until_ms if at.until_ms is None else max(at.until_ms, row.until_ms)
        if table_id is not None:
            at.tables.add(self.table(table_id))
        return at


def _names(connection: Connection) -> dict[str, str]:
    return {row.table_id: row.name for row in connection.execute(sa.select(tables.c.table_id, tables.c.name))}


def _openers(connection: Connection, txn_ids: Sequence[str]) -> dict[str, Row[Any]]:
    found: dict[str, Row[Any]] = {}
    for at in range(0, len(txn_ids), _IN_ONE_LIST):
        rows: Iterable[Row[Any]] = connection.execute(_OPENERS, {"txn_ids": txn_ids[at : at + _IN_ONE_LIST]})
        found |= {row.txn_id: row for row in rows}
    return found
