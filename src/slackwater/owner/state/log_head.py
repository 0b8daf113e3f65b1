"""Head of a table's log in the owner's database: the newest allocated version, and the priority reservation.

Source: docs/commit-owner.md (allocate); managed-commits.md "Commit Protocol".
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from slackwater.errors import (
    CommitOwnerBusy,
    InvalidArgument,
    ProtocolChangedException,
    SlackwaterError,
    UnratifiedCommit,
)
from slackwater.owner.api.commits import Commit, TableState
from slackwater.owner.database.schema import commits, tables
from slackwater.owner.state.commit_content import ContentFacts
from slackwater.owner.state.table_form import staged_directory
from slackwater.protocol.actions.file_names import COMMITS_DIRECTORY, staged_file_name

TURN_MS = 1500
"""Duration of a priority reservation, for a commit with repeated version conflicts."""

ALLOCATED, STAGED, RATIFIED = "allocated", "staged", "ratified"
"""States in the rows of commits and transactions."""
OPEN = "open"
"""State of a transaction with a request for the time."""

# Built once, because every commit runs these statements.
_LOCKED_TABLE = sa.select(tables).where(tables.c.table_id == sa.bindparam("of_table")).with_for_update()
# Every process locks rows in this order, so that no deadlock occurs.
_LOCKED_TABLES = (
    sa.select(tables)
    .where(tables.c.table_id.in_(sa.bindparam("of_tables", expanding=True)))
    .order_by(tables.c.table_id)
    .with_for_update()
)
# Number of tables of one query. SQLite limits the depth of an expression.
_MOST_TABLES = 50
_HEAD = ("allocated_version", "allocated_ms", "allocated_mark", "allocated_change")
_UPDATE_HEAD = (
    sa.update(tables)
    .where(tables.c.table_id == sa.bindparam("of_table"))
    .values({column: sa.bindparam(column) for column in _HEAD})
)
_OF_TURN = sa.select(tables.c.table_id).where(tables.c.turn_of == sa.bindparam("of_commit"))
_UPDATE_TURN = (
    sa.update(tables)
    .where(tables.c.table_id == sa.bindparam("of_table"))
    .values({column: sa.bindparam(column) for column in ("turn_of", "turn_until_ms")})
)


@dataclass(frozen=True, slots=True)
class Allocated:
    """An allocated version. It belongs to the attempt until its lease expires.

    `shift` is added to its row ids, None if the row ids do not change.
    """

    version: int
    timestamp_ms: int
    file_name: str
    shift: int | None = None


@dataclass(frozen=True, slots=True)
class AllocationClaim:
    """Identity of an allocated commit: commit, attempt (part of the file name), process and end of lease.

    `txn_id` identifies the deciding transaction, None for a single-table commit.
    """

    commit_id: str
    file_id: str
    holder: str
    until_ms: int
    txn_id: str | None = None


@dataclass
class Head:
    """The newest allocated version. Each allocation advances the head."""

    version: int
    timestamp_ms: int
    mark: int | None
    change: int
    directory: str = COMMITS_DIRECTORY

    @staticmethod
    def of(row: Row[Any]) -> Head:
        """Return the head of the table of `row`."""
        directory = staged_directory(row.kept)
        return Head(row.allocated_version, row.allocated_ms, row.allocated_mark, row.allocated_change, directory)

    def may_be_followed(self, version: int, facts: ContentFacts, may_move: bool) -> bool:
        """Return whether a request for `version` may follow commits unknown to its writer."""
        if not (may_move and facts.may_move) or self.change >= version:
            return False
        return facts.first_row_id is None or self.mark is not None

    def give(self, version: int, facts: ContentFacts, file_id: str, timestamp_ms: int) -> Allocated:
        """Return the next version for a request for `version`."""
        expected = self.version + 1
        shift = None
        if version < expected and facts.first_row_id is not None and self.mark is not None:
            shift = self.mark + 1 - facts.first_row_id
        return Allocated(expected, timestamp_ms, staged_file_name(expected, file_id, self.directory), shift)

    def advance(
        self, table_id: str, claim: AllocationClaim, facts: ContentFacts, allocated: Allocated
    ) -> dict[str, Any]:
        """Advance the head to an allocated version, and return the row for `commits`."""
        self.version, self.timestamp_ms = allocated.version, allocated.timestamp_ms
        if facts.mark is not None:
            self.mark = facts.mark + (allocated.shift or 0)
        if facts.is_change:
            self.change = allocated.version
        return {
            "table_id": table_id,
            "version": allocated.version,
            "commit_id": claim.commit_id,
            "file_name": allocated.file_name,
            "state": ALLOCATED,
            "timestamp_ms": allocated.timestamp_ms,
            "size_bytes": 0,
            "mark": self.mark,
            "is_change": facts.is_change,
            "holder": claim.holder,
            "until_ms": claim.until_ms,
            "txn_id": claim.txn_id,
        }

    @staticmethod
    def save(connection: Connection, heads: Mapping[str, Head]) -> None:
        """Write the heads to the rows of the tables, by table id."""
        rows = [
            {
                "of_table": table_id,
                "allocated_version": head.version,
                "allocated_ms": head.timestamp_ms,
                "allocated_mark": head.mark,
                "allocated_change": head.change,
            }
            for table_id, head in heads.items()
        ]
        if rows:
            connection.execute(_UPDATE_HEAD, rows)


@dataclass
class PriorityReservation:
    """Reservation of the next version for one commit. Prevents its starvation behind a stream of appends."""

    commit_id: str | None
    until_ms: int

    @staticmethod
    def of(row: Row[Any]) -> PriorityReservation:
        """Return the reservation in the table of `row`."""
        return PriorityReservation(row.turn_of, row.turn_until_ms)

    def is_of_another(self, commit_id: str, now_ms: int) -> bool:
        """Return whether another commit has the reservation.

        Ignores a reservation with its end too far in the future, because the clock was set back after its start.
        """
        return now_ms < self.until_ms <= now_ms + TURN_MS and self.commit_id != commit_id

    def is_now_of(self, commit_id: str, now_ms: int) -> bool:
        """Return whether other commits must wait for `commit_id`."""
        return self.commit_id == commit_id and now_ms < self.until_ms <= now_ms + TURN_MS

    def record_loss(self, commit_id: str, now_ms: int) -> None:
        """Record a version conflict of `commit_id`. The second conflict starts the reservation."""
        if self.commit_id == commit_id:
            self.until_ms = now_ms + TURN_MS
        elif not self.is_of_another(commit_id, now_ms):
            self.commit_id, self.until_ms = commit_id, 0

    def record_win(self, commit_id: str) -> None:
        """Record an allocated version of `commit_id`. This ends its reservation."""
        if self.commit_id == commit_id:
            self.commit_id, self.until_ms = None, 0

    @staticmethod
    def release(connection: Connection, commit_id: str) -> None:
        """End the reservations of a commit in all tables, because the commit is not tried again."""
        reserved = connection.execute(_OF_TURN, {"of_commit": commit_id}).scalars().all()
        rows = locked_tables(connection, reserved) if reserved else {}
        ended = {t: PriorityReservation(None, 0) for t, row in rows.items() if row.turn_of == commit_id}
        PriorityReservation.save(connection, ended)

    @staticmethod
    def save(connection: Connection, reservations: Mapping[str, PriorityReservation]) -> None:
        """Write the reservations to the rows of the tables, by table id."""
        rows = [
            {"of_table": table_id, "turn_of": reservation.commit_id, "turn_until_ms": reservation.until_ms}
            for table_id, reservation in reservations.items()
        ]
        if rows:
            connection.execute(_UPDATE_TURN, rows)


def locked_table(connection: Connection, table_id: str) -> Row[Any] | None:
    """Return the table's row, locked until the end of the transaction. None for an unknown table."""
    return connection.execute(_LOCKED_TABLE, {"of_table": table_id}).first()


def locked_tables(connection: Connection, table_ids: Iterable[str]) -> dict[str, Row[Any]]:
    """Return the locked rows of known tables by id. See `locked_table`."""
    wanted = sorted(table_ids)
    if len(wanted) == 1:
        row = locked_table(connection, wanted[0])
        return {} if row is None else {wanted[0]: row}
    return {row.table_id: row for row in connection.execute(_LOCKED_TABLES, {"of_tables": wanted})}


def commits_in(connection: Connection, ranges: Mapping[str, tuple[int, int]]) -> list[Row[Any]]:
    """Return the commits of tables by id, each in a range (first excluded, last included), in version order."""
    table_ids = [table_id for table_id, (after, up_to) in sorted(ranges.items()) if after < up_to]
    found: list[Row[Any]] = []
    for first in range(0, len(table_ids), _MOST_TABLES):
        part = table_ids[first : first + _MOST_TABLES]
        values: dict[str, Any] = {}
        for number, table_id in enumerate(part):
            after, up_to = ranges[table_id]
            values |= {f"table_{number}": table_id, f"after_{number}": after, f"up_to_{number}": up_to}
        found += connection.execute(_in_ranges(len(part)), values)
    return found


@functools.cache
def _in_ranges(num_tables: int) -> sa.Select[Any]:
    """Return the query of the commits in a range of each of so many tables."""
    ranges = (
        (commits.c.table_id == sa.bindparam(f"table_{number}"))
        & (commits.c.version > sa.bindparam(f"after_{number}"))
        & (commits.c.version <= sa.bindparam(f"up_to_{number}"))
        for number in range(num_tables)
    )
    return sa.select(commits).where(sa.or_(*ranges)).order_by(commits.c.version)


def rejection_reason(row: Row[Any]) -> SlackwaterError | None:
    """Return the reason why the table of `row` accepts no commits, None if it accepts commits."""
    if row.state in (TableState.RELEASING.value, TableState.RELEASED.value):
        return ProtocolChangedException(f"{row.location} was released to the file system. Reload the table and retry")
    if row.state != TableState.ACTIVE.value:
        return ProtocolChangedException(
            f"{row.location} does not belong to this owner yet. Complete its creation or adoption with `slackwater "
            "lake repair`"
        )
    return UnratifiedCommit(row.problem) if row.problem else None


def allocation_error(row: Row[Any], head: Head, version: int, max_backlog: int) -> SlackwaterError | None:
    """Return the reason why the request for `version` gets no version, None if it gets one."""
    refusal = rejection_reason(row)
    if refusal is not None:
        return refusal
    if version > head.version + 1:
        return InvalidArgument(
            f"{row.location}: version {version} cannot be committed, because version {version - 1} does not exist. "
            f"The latest is {row.ratified_version}"
        )
    backlog = row.ratified_version - row.backfilled_version
    if backlog >= max_backlog:
        return CommitOwnerBusy(
            f"{row.location}: {backlog} commits wait for their backfill, and the owner accepts no more until some "
            "are backfilled. Retry in a moment"
        )
    return None


def commit_of(row: Row[Any]) -> Commit:
    """Return the commit of a row of `commits`."""
    return Commit(row.version, row.file_name, row.timestamp_ms, row.size_bytes)
