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
from slackwater.owner.state.log_head import RATIFIED, STAGED, commits_in

# Built once, because every commit runs these statements.
_OF_TABLE = commits.c.table_id == sa.bindparam("of_table")
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
        self._waiting = {table_id: [] for table_id in self.rows}
        self._ready = {table_id: [] for table_id in self.rows}
        ranges = {t: (row.ratified_version, row.allocated_version) for t, row in self.rows.items()}
        for commit in commits_in(self.connection, ranges):
            self._waiting[commit.table_id].append(commit)
        while any(self._step(table_id) for table_id in self.rows):
            pass
        ready = {table_id: commits for table_id, commits in self._ready.items() if commits}
        if not ready:
            return False
        versions = [
            {"of_table": table_id, "after": self.rows[table_id].ratified_version, "up_to": commits[-1].version}
            for table_id, commits in ready.items()
        ]
        self.connection.execute(_FLIP, versions)
        save_ratified(self.connection, [self._newest(table_id, commits) for table_id, commits in ready.items()])
        decide(self.connection, self._decided)
        return True

    @property
    def states(self) -> dict[tuple[str, str], str]:
        """States after `run`, by table and file name, of all commits unratified before."""
        known = {(c.table_id, c.file_name): c.state for waiting in self._waiting.values() for c in waiting}
        return known | {(c.table_id, c.file_name): RATIFIED for ready in self._ready.values() for c in ready}

    def ratified_version(self, table_id: str) -> int:
        """Return the newest ratified version of the table after `run`."""
        return int(self.rows[table_id].ratified_version) + len(self._ready[table_id])

    def is_behind_own(self, table_id: str, version: int) -> bool:
        """Return whether `version` and all unratified versions before it belong to one process."""
        left = self._waiting[table_id][len(self._ready[table_id]) :]
        return len({commit.holder for commit in left if commit.version <= version}) == 1

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

    def _newest(self, table_id: str, ready: Sequence[Row[Any]]) -> dict[str, Any]:
        newest = ready[-1]
        changes = [commit.version for commit in ready if commit.is_change]
        change = changes[-1] if changes else self.rows[table_id].ratified_change
        return newest_ratified(table_id, newest.version, newest.timestamp_ms, newest.mark, change)


def newest_ratified(table_id: str, version: int, timestamp_ms: int, mark: int | None, change: int) -> dict[str, Any]:
    """Return the values for `save_ratified` of a table's newest ratified version."""
    return {"of_table": table_id, **dict(zip(_RATIFIED, (version, timestamp_ms, mark, change), strict=True))}


def save_ratified(connection: Connection, newest: Sequence[Mapping[str, Any]]) -> None:
    """Record the newest ratified version of each table in its row. `newest` has values of `newest_ratified`."""
    connection.execute(_UPDATE_RATIFIED, newest)


def decide(connection: Connection, txn_ids: Iterable[str]) -> None:
    """Mark transactions with ratified commits, and release their locks and timestamp reservations."""
    found = sorted(txn_ids)
    if found:
        connection.execute(_DECIDE, {"txn_ids": found})
        lock_queue.release(connection, *found)
        timestamp_reservations.release(connection, *found)
