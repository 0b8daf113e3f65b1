"""The commits of a transaction made to count, all with one row: that of the transaction in the timestamp table.

A transaction counts when all of its commits are staged and every version before them, in each of its tables, counts.
Source: paper §4.2 (timestamp table), §3.1.4 (commit); docs/commit-owner.md, docs/transactions.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from slackwater.owner.api.commits import Commit, CommitResponse
from slackwater.owner.api.transactions import TransactionResponse
from slackwater.owner.commit.flips import Flip
from slackwater.owner.commit.joint_replays import response_of, rows_of
from slackwater.owner.commit.ratification import Freed, Pending, Staged, record_staged
from slackwater.owner.database.schema import commits, tables, transactions
from slackwater.owner.state.abandoned import free_transaction
from slackwater.owner.state.heads import RATIFIED, STAGED, locked_tables

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
    found = rows_of(connection, [joint.txn_id for joint in staged])
    complete = [joint for joint in staged if _is_complete(found[joint.txn_id], joint)]
    flip = Flip(connection, rows, {joint.txn_id: [part.table_id for part in joint.parts] for joint in complete})
    if complete:
        # All at once: of a transaction whose process ended before, no commit is taken for staged.
        record_staged(connection, [part for joint in complete for part in joint.parts], STAGED)
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
    return _is_complete(rows_of(connection, [joint.txn_id])[joint.txn_id], joint)


def ratify_ready(connection: Connection, table_id: str) -> bool:
    """Ratify the transaction that is next in the table, if its process only failed to say so; whether one was."""
    txn_id = _next_transaction(connection, table_id)
    if txn_id is None:
        return False
    table_ids = connection.execute(sa.select(commits.c.table_id).where(commits.c.txn_id == txn_id)).scalars()
    return Flip(connection, locked_tables(connection, set(table_ids))).run()


def give_back(connection: Connection, joint: JointStaged) -> None:
    """Free the versions of a transaction that is not going to be ratified; nothing where they are not its any more."""
    locked_tables(connection, {part.table_id for part in joint.parts})
    found = rows_of(connection, [joint.txn_id])[joint.txn_id]
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


def _is_complete(found: Sequence[Row[Any]], joint: JointStaged) -> bool:
    # Commits of one version in two tables have files of one name.
    return {(row.table_id, row.file_name) for row in found} == {(part.table_id, part.file_name) for part in joint.parts}


def _outcome(connection: Connection, joint: JointStaged, rows: Mapping[str, Row[Any]]) -> Outcome:
    found = rows_of(connection, [joint.txn_id])[joint.txn_id]
    if found[0].state == RATIFIED:
        return response_of(found)
    return Pending(max(part.version - rows[part.table_id].ratified_version - 1 for part in joint.parts))


def _outcome_without_rows(connection: Connection, joint: JointStaged, rows: Mapping[str, Row[Any]]) -> Outcome:
    """What became of a transaction that lacks rows: it was given back, or counts for so long that they are gone."""
    names = {part.file_name for part in joint.parts}
    found = rows_of(connection, [joint.txn_id])[joint.txn_id]
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
