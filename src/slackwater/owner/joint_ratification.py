"""The commits of a transaction made to count, all with one row: that of the transaction in the timestamp table.

A transaction counts when all of its commits are staged and every version before them, in each of its tables, counts.
Source: paper §4.2 (timestamp table), §3.1.4 (commit); design §5, §6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from slackwater.owner import locks, promises
from slackwater.owner.abandoned import free_transaction
from slackwater.owner.api import Commit, CommitResponse
from slackwater.owner.database_schema import commits, tables, transactions
from slackwater.owner.heads import ALLOCATED, RATIFIED, STAGED, locked_tables
from slackwater.owner.joint_replays import response_of
from slackwater.owner.ratification import Freed, Pending, Staged
from slackwater.owner.transaction_api import TransactionResponse

_OF_TRANSACTION = sa.select(commits).where(commits.c.txn_id == sa.bindparam("of_txn"))
_OF_TRANSACTIONS = sa.select(commits).where(commits.c.txn_id.in_(sa.bindparam("txn_ids", expanding=True)))
_STAGE = (
    sa.update(commits)
    .where(
        commits.c.table_id == sa.bindparam("of_table"),
        commits.c.version == sa.bindparam("at_version"),
        commits.c.file_name == sa.bindparam("named"),
        commits.c.state == ALLOCATED,
    )
    .values(state=STAGED, size_bytes=sa.bindparam("size_bytes"))
)
_WAITING = (
    sa.select(commits)
    .where(commits.c.table_id == sa.bindparam("of_table"), commits.c.version > sa.bindparam("after"))
    .order_by(commits.c.version)
)
_FLIP = (
    sa.update(commits)
    .where(
        commits.c.table_id == sa.bindparam("of_table"),
        commits.c.version > sa.bindparam("after"),
        commits.c.version <= sa.bindparam("up_to"),
    )
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
_FORGET = sa.delete(transactions).where(transactions.c.state == RATIFIED, transactions.c.pending <= 0)
_RATIFIED_TO = sa.select(tables.c.table_id, tables.c.ratified_version).where(
    tables.c.table_id.in_(sa.bindparam("of_tables", expanding=True))
)

Outcome: TypeAlias = TransactionResponse | Pending | Freed


@dataclass(frozen=True, slots=True)
class JointStaged:
    """A transaction whose files are all in place, under the names that they were given."""

    txn_id: str
    parts: Sequence[Staged]


def ratify(connection: Connection, staged: Sequence[JointStaged]) -> list[Outcome]:
    """What becomes of each of `staged`, in order: all that can count do."""
    rows = locked_tables(connection, {part.table_id for joint in staged for part in joint.parts})
    found: dict[str, list[Row[Any]]] = {}
    for row in connection.execute(_OF_TRANSACTIONS, {"txn_ids": sorted({joint.txn_id for joint in staged})}):
        found.setdefault(row.txn_id, []).append(row)
    complete = [joint for joint in staged if _is_complete(found.get(joint.txn_id, []), joint)]
    flip = _Flip(connection, rows, {joint.txn_id: [part.table_id for part in joint.parts] for joint in complete})
    if complete:
        _mark_staged(connection, complete)
        flip.run()
    outcomes: list[Outcome] = []
    for joint in staged:
        if joint.txn_id in flip.ratified:
            outcomes.append(answer_of(joint))
        elif joint.txn_id in flip.tables_of:
            outcomes.append(_outcome(connection, joint, rows))
        else:
            outcomes.append(_outcome_without_rows(connection, joint, rows))
    return outcomes


def answer_of(joint: JointStaged) -> TransactionResponse:
    """The answer to a transaction that counts."""
    return TransactionResponse(
        joint.parts[0].timestamp_ms,
        {
            p.table_id: CommitResponse(Commit(p.version, p.file_name, p.timestamp_ms, p.size_bytes), p.version)
            for p in joint.parts
        },
    )


def can_follow(connection: Connection, joint: JointStaged) -> bool:
    """Whether every version before the transaction's counts, so that `ratify` knows more."""
    wanted = {part.table_id: part.version for part in joint.parts}
    found = connection.execute(_RATIFIED_TO, {"of_tables": sorted(wanted)}).all()
    return all(row.ratified_version >= wanted[row.table_id] - 1 for row in found)


def is_allocated(connection: Connection, joint: JointStaged) -> bool:
    """Whether the transaction still has the versions that it was given."""
    return _is_complete(list(connection.execute(_OF_TRANSACTION, {"of_txn": joint.txn_id})), joint)


def ratify_ready(connection: Connection, table_id: str) -> bool:
    """Ratify the transaction that is next in the table, if its process only failed to say so; whether one was."""
    txn_id = _next_transaction(connection, table_id)
    if txn_id is None:
        return False
    table_ids = connection.execute(sa.select(commits.c.table_id).where(commits.c.txn_id == txn_id)).scalars()
    return _Flip(connection, locked_tables(connection, set(table_ids)), {}).run()


def give_back(connection: Connection, joint: JointStaged) -> None:
    """Free the versions of a transaction that is not going to be ratified; nothing where they are not its any more."""
    locked_tables(connection, {part.table_id for part in joint.parts})
    found = list(connection.execute(_OF_TRANSACTION, {"of_txn": joint.txn_id}))
    if _is_complete(found, joint) and found[0].state != RATIFIED:
        free_transaction(connection, joint.txn_id)


def count_backfilled(connection: Connection, table_id: str, after: int, up_to: int) -> None:
    """The versions in `(after, up_to]` are in `_delta_log`: transactions with none that is not are forgotten.

    Source: paper §4.2.2 (a count of what remains to be timestamped).
    """
    backfilled = sa.select(commits.c.txn_id).where(
        commits.c.table_id == table_id, commits.c.version > after, commits.c.version <= up_to,
        commits.c.txn_id.is_not(None),
    )  # fmt: skip
    txn_ids = list(connection.execute(backfilled).scalars())
    if not txn_ids:
        return
    connection.execute(
        sa.update(transactions).where(transactions.c.txn_id.in_(txn_ids)).values(pending=transactions.c.pending - 1)
    )
    connection.execute(_FORGET)


@dataclass
class _Flip:
    """Ratifies what is staged right behind what counts, in tables whose `rows` nobody else changes.

    `tables_of` are the tables of transactions that are known; `ratified` those that were by this.
    """

    connection: Connection
    rows: Mapping[str, Row[Any]]
    tables_of: Mapping[str, Sequence[str]]
    ratified: set[str] = field(default_factory=set)
    _waiting: dict[str, list[Row[Any]]] = field(default_factory=dict)
    _ready: dict[str, list[Row[Any]]] = field(default_factory=dict)

    def run(self) -> bool:
        """Whether anything was ratified."""
        for table_id, row in self.rows.items():
            found = self.connection.execute(_WAITING, {"of_table": table_id, "after": row.ratified_version})
            self._waiting[table_id] = list(found)
            self._ready[table_id] = []
        while any(self._step(table_id) for table_id in self.rows):
            pass
        for table_id, ready in self._ready.items():
            if ready:
                self._save(table_id, ready)
        if self.ratified:
            txn_ids = sorted(self.ratified)
            self.connection.execute(_DECIDE, {"txn_ids": txn_ids})
            locks.release(self.connection, *txn_ids)
            promises.release(self.connection, *txn_ids)
        return any(self._ready.values())

    def _step(self, table_id: str) -> bool:
        commit = self._next(table_id)
        if commit is None or commit.state != STAGED:
            return False
        if commit.txn_id is None:
            self._take(table_id)
            return True
        together = self._together(commit.txn_id)
        for sibling in together:
            self._take(sibling)
        if together:
            self.ratified.add(commit.txn_id)
        return bool(together)

    def _next(self, table_id: str) -> Row[Any] | None:
        waiting, done = self._waiting[table_id], len(self._ready[table_id])
        expected = self.rows[table_id].ratified_version + 1 + done
        return waiting[done] if done < len(waiting) and waiting[done].version == expected else None

    def _together(self, txn_id: str) -> list[str]:
        """The tables of the transaction, where it is next and staged in each of them; else none."""
        table_ids = self.tables_of.get(txn_id)
        if table_ids is None:
            own = self.connection.execute(_OF_TRANSACTION, {"of_txn": txn_id})
            table_ids = [commit.table_id for commit in own]
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
        values = (newest.version, newest.timestamp_ms, newest.mark, changes[-1] if changes else row.ratified_change)
        self.connection.execute(_UPDATE_RATIFIED, {"of_table": table_id, **dict(zip(_RATIFIED, values, strict=True))})


def _is_complete(found: Sequence[Row[Any]], joint: JointStaged) -> bool:
    # Commits of one version in two tables have files of one name.
    return {(row.table_id, row.file_name) for row in found} == {(part.table_id, part.file_name) for part in joint.parts}


def _mark_staged(connection: Connection, staged: Sequence[JointStaged]) -> None:
    """All at once: of a transaction whose process ended before, no commit is taken for staged."""
    connection.execute(
        _STAGE,
        [
            {"of_table": p.table_id, "at_version": p.version, "named": p.file_name, "size_bytes": p.size_bytes}
            for joint in staged
            for p in joint.parts
        ],
    )


def _outcome(connection: Connection, joint: JointStaged, rows: Mapping[str, Row[Any]]) -> Outcome:
    found = connection.execute(_OF_TRANSACTION, {"of_txn": joint.txn_id}).all()
    if found[0].state == RATIFIED:
        return response_of(found)
    return Pending(max(part.version - rows[part.table_id].ratified_version - 1 for part in joint.parts))


def _outcome_without_rows(connection: Connection, joint: JointStaged, rows: Mapping[str, Row[Any]]) -> Outcome:
    """What became of a transaction that lacks rows: it was given back, or counts for so long that they are gone."""
    names = {part.file_name for part in joint.parts}
    found = connection.execute(_OF_TRANSACTION, {"of_txn": joint.txn_id}).all()
    if any(row.state == RATIFIED and row.file_name in names for row in found):
        return answer_of(joint)
    return Freed(
        is_purged=any(p.table_id in rows and p.version <= rows[p.table_id].purged_version for p in joint.parts)
    )


def _next_transaction(connection: Connection, table_id: str) -> str | None:
    """The transaction whose commit is the next version of the table, where that is staged."""
    ratified = sa.select(tables.c.ratified_version).where(tables.c.table_id == table_id).scalar_subquery()
    found: str | None = connection.execute(
        sa.select(commits.c.txn_id).where(
            commits.c.table_id == table_id, commits.c.version == ratified + 1, commits.c.state == STAGED
        )
    ).scalar()
    return found
