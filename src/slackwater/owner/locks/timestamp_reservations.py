"""Timestamp reservations: returned times reserved for transactions, in the tables declared for writing.

The reservation blocks other reads and writes of such a table at or after the reserved time. They wait for the end of
the transaction. With an earlier timestamp they do not wait. Only later timestamps wait for earlier ones, so no deadlock
occurs. A transaction with a lock on the table does not wait and may break the reservation. Source: docs/transactions.md
(hold).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from slackwater.owner.api.transactions import Item
from slackwater.owner.database.schema import promises
from slackwater.owner.locks.lock_modes import LockMode
from slackwater.owner.locks.lock_queue import BlockingLock
from slackwater.owner.state.clock import LEASE_MS

_OF_TABLES = sa.select(promises).where(promises.c.table_id.in_(sa.bindparam("table_ids", expanding=True)))
_INSERT = sa.insert(promises)
_RELEASE = sa.delete(promises).where(promises.c.txn_id.in_(sa.bindparam("txn_ids", expanding=True)))
_KEEP = (
    sa.update(promises).where(promises.c.txn_id == sa.bindparam("of_txn")).values(until_ms=sa.bindparam("new_until_ms"))
)


@dataclass(frozen=True, slots=True)
class TimestampReservation:
    """A reservation: the transaction `txn_id` of the process `holder` may write the table at `timestamp_ms`."""

    txn_id: str
    table_id: str
    timestamp_ms: int
    holder: str

    @property
    def order(self) -> tuple[int, str]:
        """Order of waiting: the later reservation waits for the earlier one."""
        return self.timestamp_ms, self.txn_id

    def blocker(self) -> BlockingLock:
        """Return the reservation in the form of a lock, for messages."""
        return BlockingLock(
            self.txn_id, Item(self.table_id), LockMode.EXCLUSIVE, True, self.holder, since_ms=self.timestamp_ms
        )


def active_reservations(
    connection: Connection, table_ids: Iterable[str], now_ms: int, is_dead: Callable[[str], bool]
) -> list[TimestampReservation]:
    """Return the active reservations in these tables, and delete those of ended transactions."""
    found, gone = [], set()
    for row in connection.execute(_OF_TABLES, {"table_ids": sorted(set(table_ids))}):
        if row.until_ms < now_ms or is_dead(row.holder):
            gone.add(row.txn_id)
        else:
            found.append(TimestampReservation(row.txn_id, row.table_id, row.timestamp_ms, row.holder))
    for txn_id in sorted(gone):
        release(connection, txn_id)
    return [promise for promise in found if promise.txn_id not in gone]


def reserve(
    connection: Connection, txn_id: str, table_ids: Sequence[str], timestamp_ms: int, holder: str, now_ms: int
) -> None:
    """Reserve `timestamp_ms` for the transaction in these tables. Replaces its earlier reservations."""
    release(connection, txn_id)
    row = {"txn_id": txn_id, "timestamp_ms": timestamp_ms, "holder": holder, "until_ms": now_ms + LEASE_MS}
    if table_ids:
        connection.execute(_INSERT, [{**row, "table_id": table_id} for table_id in sorted(set(table_ids))])


def renew(connection: Connection, txn_id: str, now_ms: int) -> bool:
    """Renew the lease of the transaction's reservations, and return whether there are any."""
    return connection.execute(_KEEP, {"of_txn": txn_id, "new_until_ms": now_ms + LEASE_MS}).rowcount > 0


def release(connection: Connection, *txn_ids: str) -> None:
    """Delete the reservations of the transactions."""
    connection.execute(_RELEASE, {"txn_ids": txn_ids})
