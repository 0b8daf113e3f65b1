"""Staged commits made to count: the second of a commit's two short database transactions.

The row of a version flips only after those of all versions before it. Source: docs/commit-owner.md; managed-commits.md
"Commit Protocol".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection

from slackwater.owner.api.commits import Commit, CommitResponse
from slackwater.owner.commit.flips import Flip, save_ratified
from slackwater.owner.database.schema import commits, tables
from slackwater.owner.state.abandoned import free_from
from slackwater.owner.state.heads import ALLOCATED, RATIFIED, STAGED, commit_of, locked_table

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
_OF_VERSIONS = sa.select(commits).where(_OF_TABLE, commits.c.version.in_(sa.bindparam("versions", expanding=True)))
_RATIFIED_TO = sa.select(tables.c.ratified_version, tables.c.purged_version).where(
    tables.c.table_id == sa.bindparam("of_table")
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


def record_staged(connection: Connection, staged: Sequence[Staged], state: str) -> int:
    """Let commits whose files are in place be in `state`; how many still had the versions that they were given."""
    rows = [
        {
            "of_table": commit.table_id,
            "at_version": commit.version,
            "named": commit.file_name,
            "state": state,
            "size_bytes": commit.size_bytes,
        }
        for commit in staged
    ]
    return connection.execute(_STAGE, rows).rowcount


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
        if record_staged(connection, ordered, RATIFIED) != len(ordered):
            if savepoint is not None:
                savepoint.rollback()
            return {}
    save_ratified(
        connection, row.table_id, row.allocated_version, row.allocated_ms, row.allocated_mark, row.allocated_change
    )
    latest = row.allocated_version
    return {
        (c.table_id, c.file_name): CommitResponse(Commit(c.version, c.file_name, c.timestamp_ms, c.size_bytes), latest)
        for c in ordered
    }


def _ratify_in_turn(connection: Connection, row: Any, staged: Sequence[Staged]) -> dict[tuple[str, str], Outcome]:
    """The outcomes where others are being staged before, between or behind."""
    record_staged(connection, staged, STAGED)
    flip = Flip(connection, {row.table_id: row})
    flip.run()
    return _outcomes(connection, staged, flip.ratified_version(row.table_id), row.purged_version)


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
