"""Ratification of staged commits in version order. All commits of a transaction are ratified together.

Source: docs/commit-owner.md (ratify); paper §4.2 (one row decides for all commits of a transaction).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from slackwater.owner.commit.idempotency import rows_of
from slackwater.owner.database.schema import commits, tables, transactions
from slackwater.owner.locks import lock_queue, timestamp_reservations
from slackwater.owner.state.log_head import RATIFIED, STAGED

# Built once, because every commit runs these statements.
_OF_TABLE = commits.c.table_id == sa.bindparam("of_table")
_WAITING = sa.select(commits).where(_OF_TABLE, commits.c.version > sa.bindparam("after")).order_by(commits.c.version)
_FLIP = (
    sa.update(commits)
    .where(_OF_TABLE, commits.c.version > sa.bindparam("after"), commits.c.version <= sa.bindparam("up_to"))
    .values(state=RATIFIED)
)
_RATIFIED = ("ratified_version", "ratified_ms", "ratified_mark", "ratified_change")
_UPDATE_RATIFIED = (
    sa.update(tables)
    .where(tables.c.table_id == sa.bindparam("of_table"))
    .values({column: sa.bindparam(column) for column in _RATIFIED})
)
_DECIDE = (
    sa.update(transactions)
    .where(transactions.c.txn_id.in_(sa.bindparam("txn_ids", expanding=True)))
    .values(state=RATIFIED)
)


@dataclass
class OrderedRatification:
    """Ratifies the staged commits next in version order. The caller has locked the `rows` of the tables.

    `tables_of` has the tables of known transactions, by transaction id.
    """

    connection: Connection
    rows: Mapping[str, Row[Any]]
    tables_of: Mapping[str, Sequence[str]] = field(default_factory=dict)
    _decided: set[str] = field(default_factory=set)
    _waiting: dict[str, list[Row[Any]]] = field(default_factory=dict)
    _ready: dict[str, list[Row[Any]]] = field(default_factory=dict)

    def run(self) -> bool:
        """Ratify all commits possible, and return whether there were any."""
        for table_id, row in self.rows.items():
            found = self.connection.execute(_WAITING, {"of_table": table_id, "after": row.ratified_version})
            self._waiting[table_id] = list(found)
            self._ready[table_id] = []
        while any(self._step(table_id) for table_id in self.rows):
            pass
        for table_id, ready in self._ready.items():
            if ready:
                self._save(table_id, ready)
        decide(self.connection, self._decided)
        return any(self._ready.values())

    def ratified_version(self, table_id: str) -> int:
        """Return the newest ratified version of the table after `run`."""
        return int(self.rows[table_id].ratified_version) + len(self._ready[table_id])

    def _step(self, table_id: str) -> bool:
        commit = self._next(table_id)
        if commit is None or commit.state != STAGED:
            return False
        if commit.txn_id is None:
            self._take(table_id)
            return True
        joined = self._joined(commit.txn_id)
        for sibling in joined:
            self._take(sibling)
        if joined:
            self._decided.add(commit.txn_id)
        return bool(joined)

    def _next(self, table_id: str) -> Row[Any] | None:
        waiting, done = self._waiting[table_id], len(self._ready[table_id])
        expected = self.rows[table_id].ratified_version + 1 + done
        return waiting[done] if done < len(waiting) and waiting[done].version == expected else None

    def _joined(self, txn_id: str) -> list[str]:
        """Return the tables of the transaction if it is staged and next in each table, else none."""
        table_ids = self.tables_of.get(txn_id)
        if table_ids is None:
            table_ids = [commit.table_id for commit in rows_of(self.connection, [txn_id])[txn_id]]
        for table_id in table_ids:
            following = self._next(table_id) if table_id in self.rows else None
            if following is None or following.txn_id != txn_id or following.state != STAGED:
                return []
        return list(table_ids)

    def _take(self, table_id: str) -> None:
        self._ready[table_id].append(self._waiting[table_id][len(self._ready[table_id])])

    def _save(self, table_id: str, ready: Sequence[Row[Any]]) -> None:
        row, newest = self.rows[table_id], ready[-1]
        changes = [commit.version for commit in ready if commit.is_change]
        versions = {"of_table": table_id, "after": row.ratified_version, "up_to": newest.version}
        self.connection.execute(_FLIP, versions)
        change = changes[-1] if changes else row.ratified_change
        save_ratified(self.connection, table_id, newest.version, newest.timestamp_ms, newest.mark, change)


def save_ratified(
    connection: Connection, table_id: str, version: int, timestamp_ms: int, mark: int | None, change: int
) -> None:
    """Record `version` in the row of its table: the newest ratified version."""
    values = dict(zip(_RATIFIED, (version, timestamp_ms, mark, change), strict=True))
    connection.execute(_UPDATE_RATIFIED, {"of_table": table_id, **values})


def decide(connection: Connection, txn_ids: Iterable[str]) -> None:
    """Mark transactions with ratified commits, and release their locks and timestamp reservations."""
    found = sorted(txn_ids)
    if found:
        connection.execute(_DECIDE, {"txn_ids": found})
        lock_queue.release(connection, *found)
        timestamp_reservations.release(connection, *found)
