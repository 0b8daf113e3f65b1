"""Ratification of staged commits: the second of two short database transactions of a commit.

A version is ratified only after all earlier versions. A transaction is ratified if all of its commits are staged, and
every earlier version in each of its tables is ratified. Source: docs/commit-owner.md, docs/transactions.md;
managed-commits.md "Commit Protocol"; paper §4.2 (timestamp table), §3.1.4 (commit).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from slackwater.owner.api.commits import Commit, CommitResponse
from slackwater.owner.api.transactions import TransactionResponse
from slackwater.owner.commit.ratify_in_order import OrderedRatification, decide, newest_ratified, save_ratified
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import commits, tables
from slackwater.owner.state.clock import OwnerClock
from slackwater.owner.state.expired_allocations import free_abandoned, free_from, locked_with_siblings
from slackwater.owner.state.log_head import ALLOCATED, RATIFIED, STAGED, locked_tables
from slackwater.owner.state.shared_clock import read_clock

# Built once, because every commit runs these statements.
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
_OF_VERSIONS = sa.select(commits.c.table_id, commits.c.file_name, commits.c.state).where(
    commits.c.table_id.in_(sa.bindparam("of_tables", expanding=True)),
    commits.c.version.in_(sa.bindparam("versions", expanding=True)),
)
_REACHED = sa.select(tables.c.table_id, tables.c.ratified_version, tables.c.purged_version).where(
    tables.c.table_id.in_(sa.bindparam("of_tables", expanding=True))
)


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A staged file of a commit, under its allocated name."""

    table_id: str
    version: int
    file_name: str
    timestamp_ms: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class StagedCommits:
    """A staged commit, or all commits of a transaction: ratified together or not at all.

    `txn_id` identifies the deciding row in the timestamp table, None for a single-table commit.
    """

    commit_id: str
    files: Sequence[StagedFile]
    txn_id: str | None
    by_client: bool = False
    """The client staged the file itself. The owner does not delete the file."""

    @property
    def who(self) -> str:
        """Description of the commits for messages."""
        first = self.files[0]
        alone = f"version {first.version} of table {first.table_id}"
        return alone if self.txn_id is None else f"transaction {self.txn_id}"

    @property
    def table_ids(self) -> list[str]:
        """Ids of the written tables."""
        return [file.table_id for file in self.files]


@dataclass(frozen=True, slots=True)
class AwaitingEarlierVersions:
    """Outcome of staged commits with `num_before` unratified versions before them. They follow automatically.

    `is_behind_own`: all versions before are known to be of the same process, and the process reports the ratification.
    """

    num_before: int
    is_behind_own: bool = False


@dataclass(frozen=True, slots=True)
class VersionsReleased:
    """Outcome of commits without versions: not committed. With `is_purged`, only the log has the outcome."""

    is_purged: bool = False


Outcome: TypeAlias = TransactionResponse | AwaitingEarlierVersions | VersionsReleased


@dataclass(frozen=True, slots=True)
class Ratification:
    """Result of `ratify`: an outcome for each request, in order, and what else was ratified.

    `files` are the ratified commits by table and file name, also those of earlier requests. `versions` are the newest
    ratified versions by table.
    """

    outcomes: Sequence[Outcome]
    files: Collection[tuple[str, str]]
    versions: Mapping[str, int]


def ratify(
    connection: Connection, staged: Sequence[StagedCommits], awaited: Sequence[StagedCommits] = ()
) -> Ratification:
    """Ratify commits of `staged` if possible, and staged commits of earlier requests that follow.

    The tables of the earlier requests `awaited` are included.
    """
    rows = locked_tables(connection, {table_id for each in (*staged, *awaited) for table_id in each.table_ids})
    first = _next_in_all(staged, rows)
    if first and not _ratify_at_once(connection, rows, first):
        first = []
    ratified = {table_id: int(row.ratified_version) for table_id, row in rows.items()}
    ratified |= {table_id: int(rows[table_id].allocated_version) for each in first for table_id in each.table_ids}
    done: dict[int, Outcome] = {id(each): response_for(each, ratified) for each in first}
    others = [each for each in staged if id(each) not in done]
    states: Mapping[tuple[str, str], str] = {}
    if others:
        flip = _ratify_in_turn(connection, rows, others, awaited)
        states = flip.states
        ratified |= {table_id: max(ratified[table_id], flip.ratified_version(table_id)) for table_id in flip.rows}
        purged = {table_id: int(row.purged_version) for table_id, row in rows.items()}
        outcomes = _outcomes(connection, others, ratified, purged, states)
        for each, outcome in zip(others, outcomes, strict=True):
            done[id(each)] = outcome
            if isinstance(outcome, AwaitingEarlierVersions):
                is_behind_own = all(flip.is_behind_own(file.table_id, file.version) for file in each.files)
                done[id(each)] = replace(outcome, is_behind_own=is_behind_own)
    files = [key for key, state in states.items() if state == RATIFIED]
    return Ratification([done[id(each)] for each in staged], files, ratified)


def outcome_of(connection: Connection, staged: StagedCommits) -> Outcome:
    """Return the outcome of pending commits. `ratify` knows more of commits next in all their tables."""
    reached = connection.execute(_REACHED, {"of_tables": sorted(staged.table_ids)}).all()
    ratified = {row.table_id: row.ratified_version for row in reached}
    return _outcomes(connection, [staged], ratified, {row.table_id: row.purged_version for row in reached})[0]


def response_for(staged: StagedCommits, latest: Mapping[str, int]) -> TransactionResponse:
    """Return the response for ratified commits. `latest` has versions by table, where known."""
    return TransactionResponse(
        staged.files[0].timestamp_ms,
        {
            f.table_id: CommitResponse(
                Commit(f.version, f.file_name, f.timestamp_ms, f.size_bytes), latest.get(f.table_id, f.version)
            )
            for f in staged.files
        },
    )


def release_versions(connection: Connection, staged: StagedCommits) -> None:
    """Release the versions of unratified commits. No effect if the versions no longer belong to them."""
    rows = locked_with_siblings(connection, staged.table_ids)
    first = staged.files[0]
    own = connection.execute(
        sa.select(commits.c.version).where(
            commits.c.table_id == first.table_id,
            commits.c.version == first.version,
            commits.c.file_name == first.file_name,
            commits.c.state != RATIFIED,
        )
    ).first()
    if own is not None:
        # This also releases the versions in the other tables of the transaction.
        free_from(connection, rows[first.table_id], first.version)


def resolve_expired(database: Database, clock: OwnerClock, table_id: str) -> None:
    """Resolve the allocation before the table's next version if its process has crashed."""

    def settle(connection: Connection) -> None:
        row = locked_with_siblings(connection, [table_id]).get(table_id)
        if row is not None and not _ratify_ready(connection, table_id):
            free_abandoned(connection, row, read_clock(connection, clock))

    database.write(settle)


def _record(connection: Connection, staged: Sequence[StagedCommits], state: str) -> int:
    """Set the state of staged commits, and return the number of commits with their allocated versions."""
    rows = [
        {
            "of_table": file.table_id,
            "at_version": file.version,
            "named": file.file_name,
            "state": state,
            "size_bytes": file.size_bytes,
        }
        for each in staged
        for file in each.files
    ]
    return connection.execute(_STAGE, rows).rowcount


def _next_in_all(staged: Sequence[StagedCommits], rows: Mapping[str, Row[Any]]) -> list[StagedCommits]:
    """Return the commits of `staged` that are the only allocated versions in each of their tables."""
    versions: dict[str, list[int]] = defaultdict(list)
    for each in staged:
        for file in each.files:
            versions[file.table_id].append(file.version)
    whole = {
        table_id
        for table_id, row in rows.items()
        if sorted(versions[table_id]) == list(range(row.ratified_version + 1, row.allocated_version + 1))
    }
    found = list(staged)
    while found:
        left = [each for each in found if whole.issuperset(each.table_ids)]
        if len(left) == len(found):
            break
        # If a commit waits in another table, later commits of its tables wait, too.
        whole -= {table_id for each in found if each not in left for table_id in each.table_ids}
        found = left
    return found


def _ratify_at_once(connection: Connection, rows: Mapping[str, Row[Any]], staged: Sequence[StagedCommits]) -> bool:
    """Ratify `staged` and return True. Return False without effect if a commit has lost its versions."""
    num_files = sum(len(each.files) for each in staged)
    with connection.begin_nested() if num_files > 1 else nullcontext() as savepoint:
        if _record(connection, staged, RATIFIED) != num_files:
            if savepoint is not None:
                savepoint.rollback()
            return False
    heads = [rows[table_id] for table_id in sorted({table_id for each in staged for table_id in each.table_ids})]
    save_ratified(
        connection,
        [
            newest_ratified(
                row.table_id, row.allocated_version, row.allocated_ms, row.allocated_mark, row.allocated_change
            )
            for row in heads
        ],
    )
    decide(connection, [each.txn_id for each in staged if each.txn_id is not None])
    return True


def _ratify_in_turn(
    connection: Connection,
    rows: Mapping[str, Row[Any]],
    staged: Sequence[StagedCommits],
    awaited: Sequence[StagedCommits],
) -> OrderedRatification:
    """Ratify in version order if other commits are in staging."""
    # In one statement, so that after a crash no transaction is partly staged.
    _record(connection, staged, STAGED)
    known = [*staged, *awaited]
    table_ids = {table_id for each in known for table_id in each.table_ids}
    flip = OrderedRatification(
        connection,
        {table_id: rows[table_id] for table_id in sorted(table_ids & rows.keys())},
        {each.txn_id: each.table_ids for each in known if each.txn_id is not None},
    )
    flip.run()
    return flip


def _outcomes(
    connection: Connection,
    staged: Sequence[StagedCommits],
    ratified: Mapping[str, int],
    purged: Mapping[str, int],
    known: Mapping[tuple[str, str], str] | None = None,
) -> list[Outcome]:
    """Return an outcome for each of `staged`. `ratified` and `purged` are versions of their tables.

    `known` has states by table and file name, where known.
    """
    # The key includes the table, because commits of one version in two tables have equal file names.
    states = dict(known or {})
    files = [file for each in staged for file in each.files if (file.table_id, file.file_name) not in states]
    if files:
        asked = {
            "of_tables": sorted({file.table_id for file in files}),
            "versions": sorted({file.version for file in files}),
        }
        states |= {(row.table_id, row.file_name): row.state for row in connection.execute(_OF_VERSIONS, asked)}
    outcomes: list[Outcome] = []
    for each in staged:
        own = [states.get((file.table_id, file.file_name)) for file in each.files]
        if RATIFIED in own:
            # One ratified row is sufficient, because the other rows may have been purged.
            outcomes.append(response_for(each, ratified))
        elif None in own:
            is_purged = any(file.version <= purged.get(file.table_id, -1) for file in each.files)
            outcomes.append(VersionsReleased(is_purged))
        else:
            outcomes.append(
                AwaitingEarlierVersions(max(file.version - ratified[file.table_id] - 1 for file in each.files))
            )
    return outcomes


def _ratify_ready(connection: Connection, table_id: str) -> bool:
    """Ratify the table's next transaction if its process staged the commits but did not ratify. Return whether done."""
    ratified = sa.select(tables.c.ratified_version).where(tables.c.table_id == table_id).scalar_subquery()
    txn_id = connection.execute(
        sa.select(commits.c.txn_id).where(
            commits.c.table_id == table_id, commits.c.version == ratified + 1, commits.c.state == STAGED
        )
    ).scalar()
    if txn_id is None:
        return False
    table_ids = connection.execute(sa.select(commits.c.table_id).where(commits.c.txn_id == txn_id)).scalars()
    return OrderedRatification(connection, locked_tables(connection, set(table_ids))).run()
