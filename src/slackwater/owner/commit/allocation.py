"""Versions and timestamps given out: the first of a commit's two short database transactions.

Source: docs/commit-owner.md "What happens in a commit"; managed-commits.md "Commit Protocol".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from slackwater.errors import SlackwaterError, TableNotFound
from slackwater.owner.api.commits import CommitConflict, CommitRequest, CommitResponse
from slackwater.owner.api.granules import checked, locked, written_granules
from slackwater.owner.database.schema import commits, locks
from slackwater.owner.locks.locks import Blocker, in_the_way
from slackwater.owner.state.clock import OwnerClock, is_dead
from slackwater.owner.state.commit_content import ContentFacts
from slackwater.owner.state.heads import (
    RATIFIED,
    Allocated,
    Author,
    Head,
    Turn,
    commit_of,
    locked_tables,
    why_not_next,
)
from slackwater.owner.state.owner_time import OwnerTime, begin_allocation
from slackwater.owner.state.promises import live_promises

_INSERT_COMMIT = sa.insert(commits)
_WITH_LOCKS = sa.select(locks.c.table_id).where(locks.c.table_id.in_(sa.bindparam("table_ids", expanding=True)))


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a commit; `file_id` (a UUID) is its own, and part of its file's name.

    Up to `searched_version` the log was searched for an earlier result of the request.
    """

    request: CommitRequest
    facts: ContentFacts
    file_id: str
    holder: str
    lease_ms: int
    searched_version: int = -1


@dataclass(frozen=True, slots=True)
class InFlight:
    """Whether the version is free depends on commits that are being staged: ask again."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """A transaction has a lock that forbids the commit: ask again."""

    by: Blocker


@dataclass(frozen=True, slots=True)
class Purged:
    """Of versions up to `version` only the log tells whether one of them is the request's: search it, and ask again.

    `latest_version` is ratified.
    """

    version: int
    latest_version: int


Outcome: TypeAlias = Allocated | InFlight | Blocked | Purged | CommitResponse | CommitConflict | SlackwaterError


@dataclass(frozen=True)
class Allocation:
    """Gives out versions; `max_backlog` commits of a table may wait for their backfill."""

    clock: OwnerClock
    max_backlog: int
    is_dead: Callable[[str], bool] = is_dead

    def allocate(self, connection: Connection, attempts: Sequence[Attempt], is_rerun: bool = False) -> list[Outcome]:
        """An outcome for each of `attempts`, in order; those of one table get versions in their order.

        Earlier results are looked for where a request is a replay, or this `is_rerun`. Raises IntegrityError where
        one of the commits has been given a version before and that was not looked for.
        """
        by_table: dict[str, list[int]] = defaultdict(list)
        for index, attempt in enumerate(attempts):
            by_table[attempt.request.table_id].append(index)
        begin_allocation(connection)
        rows = locked_tables(connection, by_table)
        # Looked at when nobody else can give out a timestamp, or read, in these tables.
        items = [item for table_id in rows for item in checked(table_id, None)]
        time = OwnerTime.of(connection, self.clock, items)
        blockers = self._blockers(connection, attempts, rows, time.now_ms)
        outcomes: dict[int, Outcome] = {}
        for table_id, indexes in by_table.items():
            of_table = [attempts[i] for i in indexes]
            if table_id in rows:
                found = self._of_table(connection, rows[table_id], of_table, is_rerun, time, blockers)
            else:
                found = [TableNotFound(f"the commit owner has no table {table_id}")] * len(indexes)
            outcomes |= zip(indexes, found, strict=True)
        return [outcomes[i] for i in range(len(attempts))]

    def _blockers(
        self, connection: Connection, attempts: Sequence[Attempt], table_ids: Collection[str], now_ms: int
    ) -> dict[str, Blocked]:
        """Which commits, by their ids, a transaction's locks or promises forbid; seldom there is any."""
        promised = live_promises(connection, table_ids, now_ms, self.is_dead)
        held = {promise.table_id: promise.blocker() for promise in promised}
        locked_ids = set(connection.execute(_WITH_LOCKS, {"table_ids": sorted(table_ids)}).scalars())
        found = {
            attempt.request.commit_id: Blocked(held[attempt.request.table_id])
            for attempt in attempts
            if attempt.request.table_id in held
        }
        for request in (a.request for a in attempts if a.request.table_id in locked_ids):
            writes = locked(request.table_id, written_granules(request.actions))
            blocker = in_the_way(connection, None, [], writes, now_ms, self.is_dead)
            if blocker is not None:
                found[request.commit_id] = Blocked(blocker)
        return found

    def _of_table(
        self,
        connection: Connection,
        row: Row[Any],
        attempts: Sequence[Attempt],
        is_rerun: bool,
        time: OwnerTime,
        blockers: Mapping[str, Blocked],
    ) -> list[Outcome]:
        table_id = row.table_id
        least_ms = max(time.now_ms, time.before_write(table_id) + 1)
        head = Head.of(row)
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
            known = known or blockers.get(commit_id)
            outcome = known or self._of_attempt(row, head, attempt, least_ms, turn, time.now_ms)
            if isinstance(outcome, Allocated) and commit_id not in earlier:
                author = Author(commit_id, attempt.file_id, attempt.holder, time.now_ms + attempt.lease_ms)
                new[commit_id] = head.advance(table_id, author, attempt.facts, outcome)
            outcomes.append(outcome)
        if new:
            connection.execute(_INSERT_COMMIT, list(new.values()))
            head.save(connection, table_id)
        if turn != Turn.of(row):
            turn.save(connection, table_id)
            if not new:
                time.pass_on(connection)
        return outcomes

    def _of_attempt(
        self, row: Row[Any], head: Head, attempt: Attempt, least_ms: int, turn: Turn, now_ms: int
    ) -> Outcome:
        request, facts = attempt.request, attempt.facts
        refusal = why_not_next(row, head, request.version, self.max_backlog)
        if refusal is not None:
            return refusal
        if request.version <= head.version and not head.may_be_followed(request.version, facts, request.may_move):
            turn.record_loss(request.commit_id, now_ms)
            if request.version <= row.ratified_version:
                return CommitConflict(row.ratified_version)
            return InFlight()
        if turn.is_of_another(request.commit_id, now_ms):
            return InFlight()
        turn.record_win(request.commit_id)
        return head.give(request.version, facts, attempt.file_id, max(least_ms, head.timestamp_ms + 1))


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
