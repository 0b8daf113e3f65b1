"""Versions and timestamps given out: the first of a commit's two short database transactions.

Source: design §5 (allocate, stage, ratify), §6 (late choice); managed-commits.md "Commit Protocol".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from slackwater.errors import (
    CommitOwnerBusy,
    InvalidArgument,
    ProtocolChangedException,
    SlackwaterError,
    TableNotFound,
    UnratifiedCommit,
)
from slackwater.owner.api import Commit, CommitConflict, CommitRequest, CommitResponse, TableState
from slackwater.owner.commit_content import ContentFacts
from slackwater.owner.database_schema import commits, owner, tables
from slackwater.protocol.file_names import version_prefix

# Statements that every commit runs are built once.
_LOCKED_TABLE = sa.select(tables).where(tables.c.table_id == sa.bindparam("of_table")).with_for_update()
# LAST, the greatest timestamp that was ever given out, whichever table it was for.
_TABLE_AND_LAST = _LOCKED_TABLE.add_columns(
    sa.select(owner.c.last_ms).scalar_subquery().label("floor_ms"),
    sa.select(sa.func.max(tables.alias().c.allocated_ms)).scalar_subquery().label("greatest_ms"),
)
_INSERT_COMMIT = sa.insert(commits)
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

TURN_MS = 1500
"""For how long a commit that lost its version again is waited for."""

ALLOCATED, STAGED, RATIFIED = "allocated", "staged", "ratified"
"""The states of a commit's row."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a commit; `file_id` (a UUID) is its own, and part of its file's name.

    Up to `searched_version` the log was searched for an earlier result of the request.
    """

    request: CommitRequest
    facts: ContentFacts
    file_id: str
    holder: str
    until_ms: int
    searched_version: int = -1


@dataclass(frozen=True, slots=True)
class Allocated:
    """The version is the attempt's until its lease ends. `shift`: what its row ids move by, None where they stay."""

    version: int
    timestamp_ms: int
    file_name: str
    shift: int | None = None


@dataclass(frozen=True, slots=True)
class InFlight:
    """Whether the version is free depends on commits that are being staged: ask again."""


@dataclass(frozen=True, slots=True)
class Purged:
    """Of versions up to `version` only the log tells whether one of them is the request's: search it, and ask again.

    `latest_version` is ratified.
    """

    version: int
    latest_version: int


Outcome: TypeAlias = Allocated | InFlight | Purged | CommitResponse | CommitConflict | SlackwaterError


@dataclass(frozen=True)
class Allocation:
    """Gives out versions; `max_backlog` commits of a table may wait for their backfill."""

    now_ms: Callable[[], int]
    max_backlog: int

    def allocate(self, connection: Connection, attempts: Sequence[Attempt], is_rerun: bool = False) -> list[Outcome]:
        """An outcome for each of `attempts`, in order; those of one table get versions in their order.

        Earlier results are looked for where a request is a replay, or this `is_rerun`. Raises IntegrityError where
        one of the commits has been given a version before and that was not looked for.
        """
        by_table: dict[str, list[int]] = defaultdict(list)
        for index, attempt in enumerate(attempts):
            by_table[attempt.request.table_id].append(index)
        outcomes: dict[int, Outcome] = {}
        # Rows are locked in one order by everybody.
        for table_id in sorted(by_table):
            indexes = by_table[table_id]
            found = self._of_table(connection, table_id, [attempts[i] for i in indexes], is_rerun)
            outcomes |= zip(indexes, found, strict=True)
        return [outcomes[i] for i in range(len(attempts))]

    def _of_table(
        self, connection: Connection, table_id: str, attempts: Sequence[Attempt], is_rerun: bool
    ) -> list[Outcome]:
        row = connection.execute(_TABLE_AND_LAST, {"of_table": table_id}).first()
        if row is None:
            missing = TableNotFound(f"the commit owner has no table {table_id}")
            return [missing] * len(attempts)
        now_ms = max(self.now_ms(), row.floor_ms, row.greatest_ms)
        head = _Head.of(row)
        earlier: dict[str, Outcome] = {}
        if is_rerun or any(attempt.request.is_replay for attempt in attempts):
            earlier = _earlier_results(connection, row, attempts)
        outcomes: list[Outcome] = []
        new: dict[str, dict[str, Any]] = {}
        turn = Turn.of(row)
        for attempt in attempts:
            commit_id = attempt.request.commit_id
            # Equal requests may come together: the second waits for the first.
            known = InFlight() if commit_id in new else earlier.get(commit_id) or _purged(row, attempt)
            outcome = known or self._of_attempt(row, head, attempt, now_ms, turn)
            if isinstance(outcome, Allocated) and commit_id not in earlier:
                new[commit_id] = head.advance(row.table_id, attempt, outcome)
            outcomes.append(outcome)
        if new:
            connection.execute(_INSERT_COMMIT, list(new.values()))
            connection.execute(_UPDATE_HEAD, {"of_table": table_id, **head.columns()})
        if turn != Turn.of(row):
            connection.execute(_UPDATE_TURN, {"of_table": table_id, **turn.columns()})
        return outcomes

    def _of_attempt(self, row: Row[Any], head: _Head, attempt: Attempt, now_ms: int, turn: Turn) -> Outcome:
        request = attempt.request
        refusal = why_refused(row)
        if refusal is not None:
            return refusal
        expected = head.version + 1
        if request.version > expected:
            return InvalidArgument(
                f"{row.location}: version {request.version} cannot be committed, since version {request.version - 1} "
                f"does not exist: the latest is {row.ratified_version}"
            )
        if row.ratified_version - row.backfilled_version >= self.max_backlog:
            return CommitOwnerBusy(
                f"{row.location}: {row.ratified_version - row.backfilled_version} commits wait for their backfill, "
                "the owner takes no more before some are done: try again in a moment"
            )
        if request.version < expected and not _may_move(attempt, head):
            turn.passes_by(request.commit_id, self.now_ms())
            if request.version <= row.ratified_version:
                return CommitConflict(row.ratified_version)
            return InFlight()
        if turn.is_of_another(request.commit_id, self.now_ms()):
            return InFlight()
        turn.is_used_by(request.commit_id)
        shift = None
        if request.version < expected and attempt.facts.first_row_id is not None and head.mark is not None:
            shift = head.mark + 1 - attempt.facts.first_row_id
        return Allocated(
            expected, max(now_ms, head.timestamp_ms + 1), f"{version_prefix(expected)}.{attempt.file_id}.json", shift
        )


@dataclass
class Turn:
    """Who goes next: a commit that must look at what others did would lose to a stream of appends for ever."""

    commit_id: str | None
    until_ms: int

    @staticmethod
    def of(row: Row[Any]) -> Turn:
        """Whose turn it is in the table of `row`."""
        return Turn(row.turn_of, row.turn_until_ms)

    def is_of_another(self, commit_id: str, now_ms: int) -> bool:
        """Whether `commit_id` has to wait; a turn that ends too late is of before the clock stepped back."""
        return now_ms < self.until_ms <= now_ms + TURN_MS and self.commit_id != commit_id

    def passes_by(self, commit_id: str, now_ms: int) -> None:
        """`commit_id` lost its version; where that happens to it again, it is its turn."""
        if self.commit_id == commit_id:
            self.until_ms = now_ms + TURN_MS
        elif not self.is_of_another(commit_id, now_ms):
            self.commit_id, self.until_ms = commit_id, 0

    def is_used_by(self, commit_id: str) -> None:
        """`commit_id` has got a version."""
        if self.commit_id == commit_id:
            self.commit_id, self.until_ms = None, 0

    def columns(self) -> dict[str, Any]:
        """The columns of `tables` that hold it."""
        return {"turn_of": self.commit_id, "turn_until_ms": self.until_ms}


@dataclass
class _Head:
    """The newest version that is given out, moved on by each further one."""

    version: int
    timestamp_ms: int
    mark: int | None
    change: int

    @staticmethod
    def of(row: Row[Any]) -> _Head:
        return _Head(row.allocated_version, row.allocated_ms, row.allocated_mark, row.allocated_change)

    def advance(self, table_id: str, attempt: Attempt, allocated: Allocated) -> dict[str, Any]:
        """Move on to what `attempt` was given; its row of `commits`."""
        self.version, self.timestamp_ms = allocated.version, allocated.timestamp_ms
        if attempt.facts.mark is not None:
            self.mark = attempt.facts.mark + (allocated.shift or 0)
        if attempt.facts.is_change:
            self.change = allocated.version
        return {
            "table_id": table_id,
            "version": allocated.version,
            "commit_id": attempt.request.commit_id,
            "file_name": allocated.file_name,
            "state": ALLOCATED,
            "timestamp_ms": allocated.timestamp_ms,
            "size_bytes": 0,
            "mark": self.mark,
            "is_change": attempt.facts.is_change,
            "holder": attempt.holder,
            "until_ms": attempt.until_ms,
            "txn_id": None,
        }

    def columns(self) -> dict[str, Any]:
        return {
            "allocated_version": self.version,
            "allocated_ms": self.timestamp_ms,
            "allocated_mark": self.mark,
            "allocated_change": self.change,
        }


def locked_table(connection: Connection, table_id: str) -> Row[Any] | None:
    """The table's row, which nobody else changes before the transaction ends; None for a table that is not known."""
    return connection.execute(_LOCKED_TABLE, {"of_table": table_id}).first()


def why_refused(row: Row[Any]) -> SlackwaterError | None:
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


def free_abandoned(connection: Connection, row: Row[Any], now_ms: int, is_dead: Callable[[str], bool]) -> bool:
    """Free the versions from the first on that nobody will ratify any more; whether there was one.

    Those behind it hold its number in their names, so they are given out anew as well.
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
    """Give back `version` and all later ones, none of which is ratified."""
    connection.execute(sa.delete(commits).where(commits.c.table_id == row.table_id, commits.c.version >= version))
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


def commit_of(row: Row[Any]) -> Commit:
    """A row of `commits` as what it is about."""
    return Commit(row.version, row.file_name, row.timestamp_ms, row.size_bytes)


def _may_move(attempt: Attempt, head: _Head) -> bool:
    """Whether the attempt may follow commits that its author did not see: they only added and removed files."""
    if not (attempt.request.may_move and attempt.facts.may_move) or head.change >= attempt.request.version:
        return False
    return attempt.facts.first_row_id is None or head.mark is not None


def _earlier_results(connection: Connection, row: Row[Any], attempts: Sequence[Attempt]) -> dict[str, Outcome]:
    """What became of those of `attempts` whose commit was given a version before."""
    by_id = {attempt.request.commit_id: attempt for attempt in attempts}
    found = connection.execute(
        sa.select(commits).where(commits.c.table_id == row.table_id, commits.c.commit_id.in_(sorted(by_id)))
    ).all()
    results: dict[str, Outcome] = {}
    for commit in found:
        if commit.state == RATIFIED:
            results[commit.commit_id] = CommitResponse(commit_of(commit), row.ratified_version)
        elif by_id[commit.commit_id].file_id in commit.file_name:
            # Given out by a run of this very transaction whose answer was lost; its row ids are worked out again.
            shift = _shift_of(commit, by_id[commit.commit_id])
            results[commit.commit_id] = Allocated(commit.version, commit.timestamp_ms, commit.file_name, shift)
        else:
            results[commit.commit_id] = InFlight()
    return results


def _purged(row: Row[Any], attempt: Attempt) -> Purged | None:
    """Where the log is yet to be searched for an earlier result: the row that told of it may be gone."""
    request = attempt.request
    if not request.is_replay or row.purged_version < max(request.version, attempt.searched_version + 1):
        return None
    return Purged(row.purged_version, row.ratified_version)


def _shift_of(commit: Row[Any], attempt: Attempt) -> int | None:
    if attempt.facts.mark is None or commit.mark is None or commit.version == attempt.request.version:
        return None
    return int(commit.mark) - attempt.facts.mark
