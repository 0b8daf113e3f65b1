"""The owner's database in a recovery: its remaining state, and its reset.

Source: docs/recovery.md; paper §4.1 (after a restart every read timestamp counts as LAST).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from slackwater.owner.api.commits import TableState
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
from slackwater.owner.state.log_head import RATIFIED
from slackwater.owner.state.shared_clock import begin_slice

_RECOVERING = "the lake is being recovered"
UNDER_WAY = f"{_RECOVERING}. Wait for the recovery. If it was interrupted, run `slackwater lake recover` again"


@dataclass(frozen=True, slots=True)
class RecordedCommit:
    """A commit ratified according to the database."""

    version: int
    file_name: str
    commit_id: str


@dataclass(frozen=True, slots=True)
class RecordedTable:
    """A table in the database. `location` has its database form. `commits` are the commits with rows."""

    table_id: str
    name: str
    location: str
    state: TableState
    ratified_version: int
    commits: Sequence[RecordedCommit]


@dataclass(frozen=True, slots=True)
class RecordedVote:
    """A multi-owner transaction with a vote of this owner. Its timestamp is after `low_ms`."""

    txn_id: str
    coordinator_id: str
    low_ms: int


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """State of a database for a recovery. `owner_id` is '' for a new database. Times are ms since the epoch."""

    owner_id: str
    former_ids: Sequence[str]
    latest_ms: int
    tables: Mapping[str, RecordedTable]
    in_doubt: Sequence[RecordedVote]


def is_under_way(problem: str) -> bool:
    """Return whether the problem recorded for a table is a recovery, possibly of another version of Slackwater."""
    return problem.startswith(_RECOVERING)


def known_state(connection: Connection) -> DatabaseState:
    """Return the state of the database."""
    own = connection.execute(sa.select(owner)).first()
    if own is None:
        return DatabaseState("", (), 0, {}, ())
    ratified: dict[str, list[RecordedCommit]] = {}
    found = connection.execute(sa.select(commits).where(commits.c.state == RATIFIED).order_by(commits.c.version))
    for row in found:
        ratified.setdefault(row.table_id, []).append(RecordedCommit(row.version, row.file_name, row.commit_id))
    taken = connection.execute(sa.select(tables).where(tables.c.state != TableState.RELEASED.value)).all()
    greatest = connection.execute(sa.select(sa.func.max(tables.c.allocated_ms))).scalar()
    return DatabaseState(
        own.owner_id,
        [each for each in own.former_ids.split(",") if each],
        max(own.last_ms, own.served_ms, own.read_floor_ms, greatest or 0),
        {
            row.table_id: RecordedTable(
                row.table_id, row.name, row.location, TableState(row.state), row.ratified_version,
                ratified.get(row.table_id, []),
            )
            for row in taken
        },
        [RecordedVote(row.txn_id, row.coordinator_id, row.low_ms) for row in connection.execute(sa.select(prepared))],
    )  # fmt: skip


def reset(
    connection: Connection, owner_id: str, former_ids: Collection[str], floor_ms: int, now_ms: int,
    table_ids: Collection[str],
) -> None:  # fmt: skip
    """Assign the database to the owner `owner_id`, with all timestamps after `floor_ms`.

    The owner accepts no commits to the tables of `table_ids` before each is adopted again, and deletes other tables.
    Open transactions, locks and reservations end. Their processes find a fence. Released tables, decisions and tokens
    stay.
    """
    begin_slice(connection)
    is_taken = tables.c.state != TableState.RELEASED.value
    connection.execute(sa.delete(tables).where(is_taken, tables.c.table_id.not_in(sorted(table_ids))))
    connection.execute(
        sa.update(tables)
        .where(is_taken)
        .values(
            state=TableState.ACTIVE.value, transfer_version=None, transfer_file=None, transfer_commit_id=None,
            problem=UNDER_WAY,
        )
    )  # fmt: skip
    # Retained, because time slices still include released tables.
    handed_back = sa.select(tables.c.table_id).where(tables.c.state == TableState.RELEASED.value)
    connection.execute(sa.delete(commits).where(commits.c.table_id.not_in(handed_back)))
    for each in (transactions, locks, promises, prepared, openers, read_timestamps):
        connection.execute(sa.delete(each))
    values = {
        "owner_id": owner_id,
        "former_ids": ",".join(sorted(former_ids)),
        "recovered_ms": now_ms,
        "last_ms": floor_ms,
        "served_ms": floor_ms,
        "read_floor_ms": floor_ms,
    }
    if connection.execute(sa.select(owner.c.owner_id)).first() is None:
        connection.execute(sa.insert(owner).values(created_ms=now_ms, **values))
    else:
        connection.execute(sa.update(owner).values(**values))


def forget_table(connection: Connection, table_id: str) -> None:
    """Delete a table from the database, before its immediate adoption."""
    connection.execute(sa.delete(tables).where(tables.c.table_id == table_id))
