"""The head of a table's log as the owner has it: the newest version given out, what follows it, whose turn it is.

Source: docs/commit-owner.md (allocate); managed-commits.md "Commit Protocol".
"""

from __future__ import annotations

from collections.abc import Iterable
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
from slackwater.owner.database.schema import tables
from slackwater.owner.state.commit_content import ContentFacts
from slackwater.protocol.actions.file_names import staged_file_name

TURN_MS = 1500
"""For how long a commit that lost its version again is waited for."""

ALLOCATED, STAGED, RATIFIED = "allocated", "staged", "ratified"
"""The states of a commit's row, and of a transaction's."""
OPEN = "open"
"""The state of a transaction that was told what time it is."""

# Statements that every commit runs are built once.
_LOCKED_TABLE = sa.select(tables).where(tables.c.table_id == sa.bindparam("of_table")).with_for_update()
# In one order by everybody.
_LOCKED_TABLES = (
    sa.select(tables)
    .where(tables.c.table_id.in_(sa.bindparam("of_tables", expanding=True)))
    .order_by(tables.c.table_id)
    .with_for_update()
)
_HEAD = ("allocated_version", "allocated_ms", "allocated_mark", "allocated_change")
_UPDATE_HEAD = (
    sa.update(tables)
    .where(tables.c.table_id == sa.bindparam("of_table"))
    .values({column: sa.bindparam(column) for column in _HEAD})
)
_UPDATE_TURN = (
    sa.update(tables)
    .where(tables.c.table_id == sa.bindparam("of_table"))
    .values({column: sa.bindparam(column) for column in ("turn_of", "turn_until_ms")})
)


@dataclass(frozen=True, slots=True)
class Allocated:
    """The version is the attempt's until its lease ends. `shift`: what its row ids move by, None where they stay."""

    version: int
    timestamp_ms: int
    file_name: str
    shift: int | None = None


@dataclass(frozen=True, slots=True)
class AllocationClaim:
    """Whose a commit is: its identity, that of the attempt (part of its file's name), the process, its lease's end.

    `txn_id`: of the transaction that decides for it; None where it stands alone.
    """

    commit_id: str
    file_id: str
    holder: str
    until_ms: int
    txn_id: str | None = None


@dataclass
class Head:
    """The newest version that is given out, moved on by each further one."""

    version: int
    timestamp_ms: int
    mark: int | None
    change: int

    @staticmethod
    def of(row: Row[Any]) -> Head:
        """The head of the table of `row`."""
        return Head(row.allocated_version, row.allocated_ms, row.allocated_mark, row.allocated_change)

    def may_be_followed(self, version: int, facts: ContentFacts, may_move: bool) -> bool:
        """Whether a commit that wants `version` may follow commits that its author did not see."""
        if not (may_move and facts.may_move) or self.change >= version:
            return False
        return facts.first_row_id is None or self.mark is not None

    def give(self, version: int, facts: ContentFacts, file_id: str, timestamp_ms: int) -> Allocated:
        """The next version for a commit that wanted `version`."""
        expected = self.version + 1
        shift = None
        if version < expected and facts.first_row_id is not None and self.mark is not None:
            shift = self.mark + 1 - facts.first_row_id
        return Allocated(expected, timestamp_ms, staged_file_name(expected, file_id), shift)

    def advance(
        self, table_id: str, claim: AllocationClaim, facts: ContentFacts, allocated: Allocated
    ) -> dict[str, Any]:
        """Move on to what was given; its row of `commits`."""
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

    def save(self, connection: Connection, table_id: str) -> None:
        """Write it to the table's row."""
        values = {
            "allocated_version": self.version,
            "allocated_ms": self.timestamp_ms,
            "allocated_mark": self.mark,
            "allocated_change": self.change,
        }
        connection.execute(_UPDATE_HEAD, {"of_table": table_id, **values})


@dataclass
class PriorityReservation:
    """Who goes next: a commit that must look at what others did would lose to a stream of appends for ever."""

    commit_id: str | None
    until_ms: int

    @staticmethod
    def of(row: Row[Any]) -> PriorityReservation:
        """Whose turn it is in the table of `row`."""
        return PriorityReservation(row.turn_of, row.turn_until_ms)

    def is_of_another(self, commit_id: str, now_ms: int) -> bool:
        """Whether `commit_id` has to wait; a turn that ends too late is of before the clock stepped back."""
        return now_ms < self.until_ms <= now_ms + TURN_MS and self.commit_id != commit_id

    def is_now_of(self, commit_id: str, now_ms: int) -> bool:
        """Whether others have to wait for `commit_id`."""
        return self.commit_id == commit_id and now_ms < self.until_ms <= now_ms + TURN_MS

    def record_loss(self, commit_id: str, now_ms: int) -> None:
        """`commit_id` lost its version; where that happens to it again, it is its turn."""
        if self.commit_id == commit_id:
            self.until_ms = now_ms + TURN_MS
        elif not self.is_of_another(commit_id, now_ms):
            self.commit_id, self.until_ms = commit_id, 0

    def record_win(self, commit_id: str) -> None:
        """`commit_id` has got a version."""
        if self.commit_id == commit_id:
            self.commit_id, self.until_ms = None, 0

    def save(self, connection: Connection, table_id: str) -> None:
        """Write it to the table's row."""
        values = {"turn_of": self.commit_id, "turn_until_ms": self.until_ms}
        connection.execute(_UPDATE_TURN, {"of_table": table_id, **values})


def locked_table(connection: Connection, table_id: str) -> Row[Any] | None:
    """The table's row, which no other writer changes before the transaction ends; None for an unknown table."""
    return connection.execute(_LOCKED_TABLE, {"of_table": table_id}).first()


def locked_tables(connection: Connection, table_ids: Iterable[str]) -> dict[str, Row[Any]]:
    """The rows of the tables that are known, as `locked_table`, by id."""
    wanted = sorted(table_ids)
    if len(wanted) == 1:
        row = locked_table(connection, wanted[0])
        return {} if row is None else {wanted[0]: row}
    return {row.table_id: row for row in connection.execute(_LOCKED_TABLES, {"of_tables": wanted})}


def rejection_reason(row: Row[Any]) -> SlackwaterError | None:
    """What keeps the table of `row` from taking commits."""
    if row.state in (TableState.RELEASING.value, TableState.RELEASED.value):
        return ProtocolChangedException(
            f"{row.location} was handed back to the file system: read the table again and repeat the work"
        )
    if row.state != TableState.ACTIVE.value:
        return ProtocolChangedException(
            f"{row.location} is not this owner's yet: finish its creation or adoption with `slackwater lake repair`"
        )
    return UnratifiedCommit(row.problem) if row.problem else None


def allocation_error(row: Row[Any], head: Head, version: int, max_backlog: int) -> SlackwaterError | None:
    """What keeps a commit that wants `version` from being given one."""
    refusal = rejection_reason(row)
    if refusal is not None:
        return refusal
    if version > head.version + 1:
        return InvalidArgument(
            f"{row.location}: version {version} cannot be committed, since version {version - 1} "
            f"does not exist: the latest is {row.ratified_version}"
        )
    backlog = row.ratified_version - row.backfilled_version
    if backlog >= max_backlog:
        return CommitOwnerBusy(
            f"{row.location}: {backlog} commits wait for their backfill, "
            "the owner takes no more before some are done: try again in a moment"
        )
    return None


def commit_of(row: Row[Any]) -> Commit:
    """A row of `commits` as what it is about."""
    return Commit(row.version, row.file_name, row.timestamp_ms, row.size_bytes)
