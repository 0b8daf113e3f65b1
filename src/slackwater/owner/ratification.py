"""Staged commits made to count: the second of a commit's two short database transactions.

The row of a version flips only after those of all versions before it. Source: design §5; managed-commits.md "Commit
Protocol".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection

from slackwater.owner.abandoned import free_from
from slackwater.owner.api import Commit, CommitResponse
from slackwater.owner.database_schema import commits, tables
from slackwater.owner.heads import ALLOCATED, RATIFIED, STAGED, commit_of, locked_table

# Statements that every commit runs are built once.
_STAGE = (
    sa.update(commits)
    .where(
        commits.c.table_id == sa.bindparam("of_table"),
        commits.c.version == sa.bindparam("at_version"),
        commits.c.file_name == sa.bindparam("named"),
        commits.c.state == ALLOCATED,
    )
    .values(state=sa.bindparam("state"), size_bytes=sa.bindparam("size_bytes"))
)
_OF_TABLE = commits.c.table_id == sa.bindparam("of_table")
_WAITING = (
    sa.select(
        commits.c.version,
        commits.c.state,
        commits.c.timestamp_ms,
        commits.c.mark,
        commits.c.is_change,
        commits.c.txn_id,
    )
    .where(_OF_TABLE, commits.c.version > sa.bindparam("after"))
    .order_by(commits.c.version)
)
_FLIP = (
    sa.update(commits)
    .where(_OF_TABLE, commits.c.version > sa.bindparam("after"), commits.c.version <= sa.bindparam("up_to"))
    .values(state=RATIFIED)
)
_OF_VERSIONS = sa.select(commits).where(_OF_TABLE, commits.c.version.in_(sa.bindparam("versions", expanding=True)))
_RATIFIED_TO = sa.select(tables.c.ratified_version, tables.c.purged_version).where(
    tables.c.table_id == sa.bindparam("of_table")
)
_RATIFIED = ("ratified_version", "ratified_ms", "ratified_mark", "ratified_change")
_UPDATE_RATIFIED = (
    sa.update(tables)
    .where(tables.c.table_id == sa.bindparam("of_table"))
    .values({column: sa.bindparam(column) for column in _RATIFIED})
)


@dataclass(frozen=True, slots=True)
class Staged:
    """A commit whose file is in place, under the name that it was given."""

    table_id: str
    version: int
    file_name: str
    timestamp_ms: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Pending:
    """The commit counts as soon as the `num_before` versions before it do, which do not count yet."""

    num_before: int


@dataclass(frozen=True, slots=True)
class Freed:
    """The version was taken from the commit, which does not count; where `is_purged`, only the log can tell."""

    is_purged: bool = False


Outcome: TypeAlias = CommitResponse | Pending | Freed


def ratify(connection: Connection, staged: Sequence[Staged]) -> list[Outcome]:
    """What becomes of each of `staged`, in order: all that can count do."""
    by_table: dict[str, list[Staged]] = defaultdict(list)
    for commit in staged:
        by_table[commit.table_id].append(commit)
    outcomes: dict[tuple[str, str], Outcome] = {}
    for table_id in sorted(by_table):
        row = locked_table(connection, table_id)
        if row is None:
            outcomes |= {(table_id, c.file_name): Freed() for c in by_table[table_id]}
        else:
            outcomes |= _ratify_at_once(connection, row, by_table[table_id]) or _ratify_in_turn(
                connection, row, by_table[table_id]
            )
    return [outcomes[commit.table_id, commit.file_name] for commit in staged]


def outcome_of(connection: Connection, commit: Staged) -> Outcome:
    """What became of a commit that was pending."""
    row = connection.execute(_RATIFIED_TO, {"of_table": commit.table_id}).first()
    if row is None:
        return Freed()
    outcomes = _outcomes(connection, [commit], row.ratified_version, row.purged_version)
    return outcomes[commit.table_id, commit.file_name]


def give_back(connection: Connection, commit: Staged) -> None:
    """Free the version of a commit that is not going to be ratified; nothing where it is no longer the commit's."""
    row = locked_table(connection, commit.table_id)
    if row is None:
        return
    own = connection.execute(
        sa.select(commits.c.version).where(
            commits.c.table_id == commit.table_id,
            commits.c.version == commit.version,
            commits.c.file_name == commit.file_name,
            commits.c.state != RATIFIED,
        )
    ).first()
    if own is not None:
        free_from(connection, row, commit.version)


def _ratify_at_once(connection: Connection, row: Any, staged: Sequence[Staged]) -> dict[tuple[str, str], Outcome]:
    """The outcomes where `staged` is all that was given out; nothing is done, and none, where that is not so."""
    first = row.ratified_version + 1
    ordered = sorted(staged, key=lambda commit: commit.version)
    if [commit.version for commit in ordered] != list(range(first, row.allocated_version + 1)):
        return {}
    with connection.begin_nested() if len(ordered) > 1 else nullcontext() as savepoint:
        result = connection.execute(_STAGE, [_parameters(commit, RATIFIED) for commit in ordered])
        if result.rowcount != len(ordered):
            if savepoint is not None:
                savepoint.rollback()
            return {}
    connection.execute(
        _UPDATE_RATIFIED,
        {
            "of_table": row.table_id,
            "ratified_version": row.allocated_version,
            "ratified_ms": row.allocated_ms,
            "ratified_mark": row.allocated_mark,
            "ratified_change": row.allocated_change,
        },
    )
    latest = row.allocated_version
    return {
        (c.table_id, c.file_name): CommitResponse(Commit(c.version, c.file_name, c.timestamp_ms, c.size_bytes), latest)
        for c in ordered
    }


def _ratify_in_turn(connection: Connection, row: Any, staged: Sequence[Staged]) -> dict[tuple[str, str], Outcome]:
    """The outcomes where others are being staged before, between or behind."""
    connection.execute(_STAGE, [_parameters(commit, STAGED) for commit in staged])
    ratified_version = _flip(connection, row)
    return _outcomes(connection, staged, ratified_version, row.purged_version)


def _parameters(commit: Staged, state: str) -> dict[str, Any]:
    return {
        "of_table": commit.table_id,
        "at_version": commit.version,
        "named": commit.file_name,
        "state": state,
        "size_bytes": commit.size_bytes,
    }


def _flip(connection: Connection, row: Any) -> int:
    """Ratify what is staged right behind what counts; the newest version that counts then."""
    table_id, ratified_version = row.table_id, row.ratified_version
    waiting = connection.execute(_WAITING, {"of_table": table_id, "after": ratified_version}).all()
    ready: list[Any] = []
    for commit in waiting:
        # A transaction's commits count together, by its own ratification.
        if commit.state != STAGED or commit.txn_id is not None or commit.version != ratified_version + 1 + len(ready):
            break
        ready.append(commit)
    if not ready:
        return int(ratified_version)
    newest = ready[-1]
    connection.execute(_FLIP, {"of_table": table_id, "after": ratified_version, "up_to": newest.version})
    changes = [commit.version for commit in ready if commit.is_change]
    connection.execute(
        _UPDATE_RATIFIED,
        {
            "of_table": row.table_id,
            "ratified_version": newest.version,
            "ratified_ms": newest.timestamp_ms,
            "ratified_mark": newest.mark,
            "ratified_change": changes[-1] if changes else row.ratified_change,
        },
    )
    return int(newest.version)


def _outcomes(
    connection: Connection, staged: Sequence[Staged], ratified_version: int, purged_version: int
) -> dict[tuple[str, str], Outcome]:
    """What became of each of `staged`, all of one table, by table and file."""
    versions = sorted({commit.version for commit in staged})
    rows = connection.execute(_OF_VERSIONS, {"of_table": staged[0].table_id, "versions": versions}).all()
    found = {row.file_name: row for row in rows}
    outcomes: dict[tuple[str, str], Outcome] = {}
    for commit in staged:
        row = found.get(commit.file_name)
        if row is None:
            outcome: Outcome = Freed(is_purged=commit.version <= purged_version)
        else:
            outcome = (
                CommitResponse(commit_of(row), ratified_version)
                if row.state == RATIFIED
                else (Pending(commit.version - ratified_version - 1))
            )
        outcomes[commit.table_id, commit.file_name] = outcome
    return outcomes
