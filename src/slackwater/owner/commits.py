"""Commits from request to answer: allocate, stage, ratify, many at once.

Source: design §5; managed-commits.md "Commit Protocol".
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from slackwater.errors import (
    CommitFailed,
    CommitOwnerBusy,
    CommitOwnerUnavailable,
    CommitUnknown,
    SlackwaterError,
    StorageError,
)
from slackwater.owner import allocation, ratification
from slackwater.owner.allocation import Allocated, Allocation, Attempt
from slackwater.owner.api import Commit, CommitConflict, CommitRequest, CommitResponse
from slackwater.owner.batches import Batches
from slackwater.owner.clock import OwnerClock, is_dead
from slackwater.owner.commit_content import content, facts_of, timestamp_of
from slackwater.owner.commit_files import backfilled_path, stage, staged_path, transaction_at
from slackwater.owner.database import Database
from slackwater.owner.database_schema import tables
from slackwater.owner.ratification import Freed, Pending, Staged
from slackwater.storage.store import ObjectStore

LEASE_MS = 30_000
"""For how long nobody doubts that a version that was given out is being staged; large commits get longer."""
MAX_BACKLOG = 10_000
"""How many ratified commits of one table may wait for their backfill."""

_LEASE_BYTES_PER_MS = 1000
_FIRST_WAIT_S = 0.001
_LONGEST_WAIT_S = 0.02
_DOUBT_AFTER_S = 0.1
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
    ) -> None:
        self._database = database
        self._store_of = store_of
        self._clock = clock
        self._lease_ms = lease_ms
        self._allocation = Allocation(clock.now_ms, is_dead, max_backlog)
        self._allocate: Batches[Attempt, allocation.Outcome] = Batches(self._allocate_batch)
        self._ratify: Batches[Staged, ratification.Outcome] = Batches(self._ratify_batch)
        self._changed = threading.Condition()

    def commit(self, request: CommitRequest) -> CommitResponse | CommitConflict:
        """As `CommitOwner.commit`."""
        facts = facts_of(request.actions, request.commit_id)
        started, waits = time.monotonic(), 0
        while True:
            lease_ms = self._lease_ms + _rough_size(request) // _LEASE_BYTES_PER_MS
            until_ms = self._clock.now_ms() + lease_ms
            attempt = Attempt(request, facts, self._clock.new_id(), self._clock.holder, until_ms)
            outcome = self._allocate(attempt)
            if isinstance(outcome, SlackwaterError):
                raise outcome
            if isinstance(outcome, CommitResponse | CommitConflict):
                return self._known_or(outcome, request)
            if isinstance(outcome, Allocated):
                answer = self._stage_and_ratify(request, outcome)
                if answer is not None:
                    return answer
            elif time.monotonic() - started > _PATIENCE_S:
                raise CommitOwnerBusy(
                    f"table {request.table_id}: versions before {request.version} were being staged for {_PATIENCE_S} "
                    "seconds; nothing was committed: try again"
                )
            else:
                waits += 1
                self._wait(waits)

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
            waits, started = 0, time.monotonic()
            while isinstance(outcome, Pending):
                waits += 1
                self._wait(waits)
                if time.monotonic() - started > _DOUBT_AFTER_S:
                    self._free_abandoned(staged.table_id)
                    started = time.monotonic()
                outcome = self._database.read(lambda c: ratification.outcome_of(c, staged))
        except CommitOwnerUnavailable as error:
            raise CommitUnknown(
                f"version {staged.version} of table {staged.table_id} is staged, and whether it counts only the commit "
                f"owner's database can say, which does not answer: {error}"
            ) from error
        return outcome

    def _known_or(
        self, outcome: CommitResponse | CommitConflict, request: CommitRequest
    ) -> CommitResponse | CommitConflict:
        """The first result of a request that was carried out before, where no row tells of it any more."""
        if isinstance(outcome, CommitResponse) or not request.is_replay:
            return outcome
        purged = self._database.read(lambda c: _purged_version(c, request.table_id))
        store = self._store_of(request.table_id)
        for version in range(request.version, purged + 1):
            if transaction_at(store, version) == request.commit_id:
                # Its file is the backfilled one; how the staged one was called nobody knows any more.
                data = store.read(backfilled_path(version))
                return CommitResponse(Commit(version, "", timestamp_of(data), len(data), data), outcome.latest_version)
        return outcome

    def _allocate_batch(self, attempts: Sequence[Attempt]) -> list[allocation.Outcome]:
        # A power cut that undoes it undoes nothing that anybody has seen.
        try:
            return self._database.write(lambda c: self._allocation.allocate(c, attempts), durable=False)
        except IntegrityError:
            # A run whose answer was lost has counted, or a request comes twice without saying so.
            return self._database.write(lambda c: self._allocation.allocate(c, attempts, is_rerun=True), durable=False)

    def _ratify_batch(self, staged: Sequence[Staged]) -> list[ratification.Outcome]:
        outcomes = self._database.write(lambda c: ratification.ratify(c, staged))
        with self._changed:
            self._changed.notify_all()
        return outcomes

    def _give_back(self, staged: Staged) -> None:
        # Where this fails the lease ends it.
        with suppress(CommitOwnerUnavailable):
            self._database.write(lambda c: ratification.give_back(c, staged), durable=False)

    def _free_abandoned(self, table_id: str) -> None:
        def free(connection: Connection) -> None:
            row = allocation.locked_table(connection, table_id)
            if row is not None:
                allocation.free_abandoned(connection, row, self._clock.now_ms(), is_dead)

        self._database.write(free, durable=False)

    def _wait(self, waits: int) -> None:
        """Until this process has ratified something, or another may have."""
        with self._changed:
            self._changed.wait(min(_LONGEST_WAIT_S, _FIRST_WAIT_S * waits))


def _purged_version(connection: Connection, table_id: str) -> int:
    found = connection.execute(sa.select(tables.c.purged_version).where(tables.c.table_id == table_id)).scalar()
    return -1 if found is None else int(found)


def _rough_size(request: CommitRequest) -> int:
    """Bytes of the commit's file, roughly: most actions are files with statistics."""
    return 1000 * len(request.actions)
