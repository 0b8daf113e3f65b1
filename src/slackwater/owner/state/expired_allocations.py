"""Release of allocated versions: after a crash of the process, after a failed staging, and of all later versions.

Source: docs/commit-owner.md (a failed or expired stage frees its version: those queued behind it are allocated anew).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from slackwater.owner.database.schema import commits, tables, transactions
from slackwater.owner.state.clock import is_dead
from slackwater.owner.state.log_head import ALLOCATED, RATIFIED, locked_table, locked_tables

_other = commits.alias()


# Tables with a commit of a transaction that has an unratified commit in one of some tables.
_SIBLINGS = (
    sa.select(_other.c.table_id)
    .distinct()
    .select_from(commits)
    .join(tables, tables.c.table_id == commits.c.table_id)
    .join(_other, _other.c.txn_id == commits.c.txn_id)
    .where(
        commits.c.table_id.in_(sa.bindparam("of_tables", expanding=True)),
        commits.c.version > tables.c.ratified_version,
    )
)


def locked_with_siblings(connection: Connection, table_ids: Collection[str]) -> dict[str, Row[Any]]:
    """Return the locked rows of tables, and of all tables in which a release of their versions may release versions.

    Locked in order, because a release table by table could wait for another release in a circle.
    """
    found: set[str] = set()
    new = set(table_ids)
    while new:
        found |= new
        new = set(connection.execute(_SIBLINGS, {"of_tables": sorted(new)}).scalars()) - found
    return locked_tables(connection, found)


def free_abandoned(connection: Connection, row: Row[Any], now_ms: int) -> bool:
    """Release all versions, starting at the first with an expired lease or a crashed process.

    Return whether there was one. Later versions are also allocated again, because their file names contain the version.
    """
    waiting = connection.execute(
        sa.select(commits.c.version, commits.c.state, commits.c.holder, commits.c.until_ms)
        .where(commits.c.table_id == row.table_id, commits.c.version > row.ratified_version)
        .order_by(commits.c.version)
    ).all()
    for commit in waiting:
        if commit.state == ALLOCATED and (commit.until_ms < now_ms or is_dead(commit.holder)):
            free_from(connection, row, commit.version)
            return True
    return False


def free_from(connection: Connection, row: Row[Any], version: int) -> None:
    """Release `version` and all later versions, all unratified. Versions of one transaction are released together."""
    gone = (commits.c.table_id == row.table_id) & (commits.c.version >= version)
    txn_ids = connection.execute(
        sa.select(commits.c.txn_id).where(gone, commits.c.txn_id.is_not(None)).distinct()
    ).scalars()
    together = sorted(txn_ids)
    connection.execute(sa.delete(commits).where(gone))
    before = None
    if version - 1 > row.ratified_version:
        before = connection.execute(
            sa.select(commits).where(commits.c.table_id == row.table_id, commits.c.version == version - 1)
        ).one()
    change = connection.execute(
        sa.select(sa.func.max(commits.c.version)).where(
            commits.c.table_id == row.table_id, commits.c.version > row.ratified_version, commits.c.is_change
        )
    ).scalar()
    connection.execute(
        sa.update(tables)
        .where(tables.c.table_id == row.table_id)
        .values(
            allocated_version=version - 1,
            allocated_ms=row.ratified_ms if before is None else before.timestamp_ms,
            allocated_mark=row.ratified_mark if before is None else before.mark,
            allocated_change=row.ratified_change if change is None else change,
        )
    )
    for txn_id in together:
        free_transaction(connection, txn_id)


def free_transaction(connection: Connection, txn_id: str) -> None:
    """Release every unratified version of a transaction, and all later versions."""
    connection.execute(sa.delete(transactions).where(transactions.c.txn_id == txn_id, transactions.c.state != RATIFIED))
    while True:
        # The release in one table may release versions of further tables.
        sibling = connection.execute(
            sa.select(commits.c.table_id, commits.c.version)
            .where(commits.c.txn_id == txn_id, commits.c.state != RATIFIED)
            .order_by(commits.c.table_id)
            .limit(1)
        ).first()
        if sibling is None:
            return
        row = locked_table(connection, sibling.table_id)
        if row is None:
            return
        free_from(connection, row, sibling.version)
