"""Commits from request to answer: allocate, stage, ratify, many at once.

Source: design §5; managed-commits.md "Commit Protocol".
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from slackwater.errors import (
    CommitFailed,
    CommitOwnerBusy,
    CommitOwnerUnavailable,
    CommitUnknown,
    LockTimeout,
    SlackwaterError,
    StorageError,
)
from slackwater.owner import allocation, ratification
from slackwater.owner.abandoned import free_abandoned
from slackwater.owner.allocation import Allocation, Attempt, Blocked, Purged
from slackwater.owner.api import Commit, CommitConflict, CommitRequest, CommitResponse
from slackwater.owner.batches import Batches
from slackwater.owner.clock import OwnerClock, is_dead
from slackwater.owner.commit_content import content, facts_of, timestamp_of
from slackwater.owner.commit_files import backfilled_path, stage, staged_path, transaction_at
from slackwater.owner.database import Database
from slackwater.owner.heads import Allocated, locked_table
from slackwater.owner.joint_ratification import ratify_ready
from slackwater.owner.ratification import Freed, Pending, Staged
from slackwater.owner.waiting import Changes
from slackwater.storage.store import ObjectStore

LEASE_MS = 30_000
"""For how long nobody doubts that a version that was given out is being staged; large commits get longer."""
LOCKED_S = 15.0
"""For how long a commit waits for a transaction that locked its table: less than a client waits for an answer."""
MAX_BACKLOG = 10_000
"""How many ratified commits of one table may wait for their backfill."""

_LEASE_BYTES_PER_MS = 1000
_FIRST_WAIT_S = 0.001
# Whether those who come first are dead is asked when they have been waited for so often.
_DOUBT_EVERY = 10
_PATIENCE_S = 120.0


class Commits:
    """Makes requests versions of their tables; called from many threads, it does the work of all who wait together."""

    def __init__(
        self,
        database: Database,
        store_of: Callable[[str], ObjectStore],
        clock: OwnerClock,
        max_backlog: int = MAX_BACKLOG,
        lease_ms: int = LEASE_MS,
        changes: Changes | None = None,
    ) -> None:
        self._database = database
        self._store_of = store_of
        self._clock = clock
        self._lease_ms = lease_ms
        self._allocation = Allocation(clock.now_ms, max_backlog)
        self._allocate: Batches[Attempt, allocation.Outcome] = Batches(self._allocate_batch)
        self._ratify: Batches[Staged, ratification.Outcome] = Batches(self._ratify_batch)
        self._changes = changes or Changes()

    def commit(self, request: CommitRequest) -> CommitResponse | CommitConflict:
        """As `CommitOwner.commit`."""
        facts = facts_of(request.actions, request.commit_id)
        started, waits, searched = time.monotonic(), 0, -1
        while True:
            lease_ms = self._lease_ms + _rough_size(request) // _LEASE_BYTES_PER_MS
            until_ms = self._clock.now_ms() + lease_ms
            attempt = Attempt(request, facts, self._clock.new_id(), self._clock.holder, until_ms, searched)
            outcome = self._allocate(attempt)
            if isinstance(outcome, SlackwaterError):
                raise outcome
            if isinstance(outcome, CommitResponse | CommitConflict):
                return outcome
            if isinstance(outcome, Allocated | Purged):
                if isinstance(outcome, Purged):
                    answer, searched = self._told_by_log(request, outcome, searched), outcome.version
                else:
                    answer = self._stage_and_ratify(request, outcome)
                if answer is not None:
                    return answer
            elif time.monotonic() - started > (LOCKED_S if isinstance(outcome, Blocked) else _PATIENCE_S):
                if isinstance(outcome, Blocked):
                    raise LockTimeout(
                        f"table {request.table_id}: the commit waited {LOCKED_S:.0f} s: {outcome.by.description}; "
                        "nothing was committed: try again when that has ended"
                    )
                raise CommitOwnerBusy(
                    f"table {request.table_id}: versions before {request.version} were being staged for {_PATIENCE_S} "
                    "seconds; nothing was committed: try again"
                )
            else:
                waits += 1
                if waits % _DOUBT_EVERY == 0:
                    self._free_abandoned(request.table_id)
                self._changes.wait(_FIRST_WAIT_S * waits)

    def _stage_and_ratify(self, request: CommitRequest, given: Allocated) -> CommitResponse | None:
        """The answer, None where the version was taken away: then the commit does not count, and is tried again."""
        store = self._store_of(request.table_id)
        moved_to = None if given.shift is None else given.version
        data = content(request.actions, given.version, given.timestamp_ms, given.shift, moved_to)
        staged = Staged(request.table_id, given.version, given.file_name, given.timestamp_ms, len(data))
        try:
            stage(store, given.file_name, data)
        except StorageError as error:
            # Whatever is at the store under this name, no record will ever name it.
            self._give_back(staged)
            raise CommitFailed(
                f"{store.root_url}/{staged_path(given.file_name)} was not written, nothing was committed: {error}"
            ) from error
        outcome = self._settled(staged)
        if isinstance(outcome, CommitResponse):
            commit = Commit(given.version, given.file_name, given.timestamp_ms, len(data), data)
            return CommitResponse(commit, outcome.latest_version)
        if outcome.is_purged and transaction_at(store, given.version) == request.commit_id:
            return CommitResponse(
                Commit(given.version, given.file_name, given.timestamp_ms, len(data), data), given.version
            )
        with suppress(StorageError):
            store.delete([staged_path(given.file_name)])
        return None

    def _settled(self, staged: Staged) -> CommitResponse | Freed:
        try:
            outcome = self._ratify(staged)
            waits = 0
            while isinstance(outcome, Pending):
                waits += 1
                if waits % _DOUBT_EVERY == 0:
                    self._free_abandoned(staged.table_id)
                self._changes.wait(_FIRST_WAIT_S * (outcome.num_before + waits))
                outcome = self._database.read(lambda c: ratification.outcome_of(c, staged))
        except CommitOwnerUnavailable as error:
            raise CommitUnknown(
                f"version {staged.version} of table {staged.table_id} is staged, and whether it counts only the commit "
                f"owner's database can say, which does not answer: {error}"
            ) from error
        except BaseException:
            # Of whatever broke off here others must not wait for the end of the lease.
            self._give_back(staged)
            raise
        return outcome

    def _told_by_log(self, request: CommitRequest, purged: Purged, searched: int) -> CommitResponse | None:
        """The first result of a request that was carried out before, where no row tells of it any more."""
        store = self._store_of(request.table_id)
        last = purged.version if request.may_move else request.version
        try:
            for version in range(max(request.version, searched + 1), last + 1):
                if transaction_at(store, version) == request.commit_id:
                    # Its file is the backfilled one; how the staged one was called nobody knows any more.
                    data = store.read(backfilled_path(version))
                    commit = Commit(version, "", timestamp_of(data), len(data), data)
                    return CommitResponse(commit, purged.latest_version)
        except StorageError as error:
            raise CommitUnknown(
                f"{store.root_url}: whether an earlier, equal request was carried out only the log tells, which could "
                f"not be read: {error}; ask again"
            ) from error
        return None

    def _allocate_batch(self, attempts: Sequence[Attempt]) -> list[allocation.Outcome]:
        runs = itertools.count()

        def allocate(connection: Connection) -> list[allocation.Outcome]:
            # A run whose answer was lost may have counted.
            return self._allocation.allocate(connection, attempts, is_rerun=next(runs) > 0)

        # A power cut that undoes it undoes nothing that anybody has seen.
        try:
            return self._database.write(allocate, durable=False)
        except IntegrityError:
            # A request comes again without saying so.
            return self._database.write(allocate, durable=False)

    def _ratify_batch(self, staged: Sequence[Staged]) -> list[ratification.Outcome]:
        outcomes = self._database.write(lambda c: ratification.ratify(c, staged))
        self._changes.notify()
        return outcomes

    def _give_back(self, staged: Staged) -> None:
        # Where this fails the lease ends it.
        with suppress(CommitOwnerUnavailable):
            self._database.write(lambda c: ratification.give_back(c, staged), durable=False)

    def _free_abandoned(self, table_id: str) -> None:
        settle_abandoned(self._database, self._clock, table_id)


def settle_abandoned(database: Database, clock: OwnerClock, table_id: str) -> None:
    """What keeps the next version of the table from counting is brought to an end, where its process is gone."""

    def settle(connection: Connection) -> None:
        if ratify_ready(connection, table_id):
            return
        row = locked_table(connection, table_id)
        if row is not None:
            free_abandoned(connection, row, clock.now_ms(), is_dead)

    database.write(settle)


def _rough_size(request: CommitRequest) -> int:
    """Bytes of the commit's file, roughly: most actions are files with statistics."""
    return 1000 * len(request.actions)
