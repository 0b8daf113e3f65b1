"""Commits from request to answer: allocate, stage, ratify, many at once.

Source: docs/commit-owner.md "What happens in a commit"; managed-commits.md "Commit Protocol".
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

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
from slackwater.owner.api.commits import Commit, CommitConflict, CommitRequest, CommitResponse
from slackwater.owner.commit import allocation, ratification
from slackwater.owner.commit.allocation import Allocation, Attempt, Blocked, Purged
from slackwater.owner.commit.commit_rules import require_kept, require_valid
from slackwater.owner.commit.joint_ratification import ratify_ready
from slackwater.owner.commit.kept_settings import kept_of
from slackwater.owner.commit.ratification import Freed, Pending, Staged
from slackwater.owner.database.database import Database
from slackwater.owner.recovery.fences import Fences
from slackwater.owner.state.abandoned import free_abandoned
from slackwater.owner.state.batches import Batches
from slackwater.owner.state.clock import OwnerClock, is_dead
from slackwater.owner.state.commit_content import content, facts_of
from slackwater.owner.state.commit_files import backfilled_commit, stage, transaction_at
from slackwater.owner.state.heads import Allocated, locked_table
from slackwater.owner.state.owner_time import owner_now
from slackwater.owner.state.waiting import Changes, Waits
from slackwater.protocol.actions.file_names import staged_path
from slackwater.storage.store import ObjectStore

LEASE_MS = 30_000
"""For how long nobody doubts that a version that was given out is being staged; large commits get longer."""
LOCKED_S = 15.0
"""For how long a commit waits for a transaction that locked its table: less than a client waits for an answer."""
MAX_BACKLOG = 10_000
"""How many ratified commits of one table may wait for their backfill."""

_BYTES_PER_ACTION = 1000
_BYTES_PER_MS = 1000
_PATIENCE_S = 120.0

T = TypeVar("T")


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
        fences: Fences | None = None,
        owner_id: str = "",
    ) -> None:
        self._database = database
        self._store_of = store_of
        self._clock = clock
        self._lease_ms = lease_ms
        self._fences = fences
        self._owner_id = owner_id
        self._kept_of = functools.partial(kept_of, database)
        self._allocation = Allocation(clock, max_backlog)
        self._allocate: Batches[Attempt, allocation.Outcome] = Batches(self._allocate_batch)
        self._ratify: Batches[Staged, ratification.Outcome] = Batches(self._ratify_batch)
        self._changes = changes or Changes()

    def commit(self, request: CommitRequest) -> CommitResponse | CommitConflict:
        """As `CommitOwner.commit`."""
        require_valid(request.actions)
        require_kept(request.actions, self._owner_id, request.table_id, self._kept_of)
        facts = facts_of(request.actions, request.commit_id)
        if self._fences is not None:
            self._fences.require_none(self._store_of(request.table_id))
        started, searched = time.monotonic(), -1
        waits = Waits(self._changes, lambda: settle_abandoned(self._database, self._clock, request.table_id))
        while True:
            lease_ms = self._lease_ms + staging_ms(len(request.actions))
            attempt = Attempt(request, facts, self._clock.new_id(), self._clock.holder, lease_ms, searched)
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
            else:
                require_patience(outcome, time.monotonic() - started, f"table {request.table_id}")
                waits.wait()

    def _stage_and_ratify(self, request: CommitRequest, given: Allocated) -> CommitResponse | None:
        """The answer, None where the version was taken away: then the commit does not count, and is tried again."""
        store = self._store_of(request.table_id)
        moved_to = None if given.shift is None else given.version
        data = content(request.actions, given.version, given.timestamp_ms, given.shift, moved_to)
        staged = Staged(request.table_id, given.version, given.file_name, given.timestamp_ms, len(data))
        try:
            stage(store, given.file_name, data)
            if self._fences is not None:
                self._fences.require_none_after_staging(store, given.file_name)
        except StorageError as error:
            # Whatever is at the store under this name, no record will ever name it; a recovery must not find it.
            self._give_back(staged)
            with suppress(StorageError):
                store.delete([staged_path(given.file_name)])
            raise CommitFailed(
                f"{store.root_url}/{staged_path(given.file_name)} was not written, nothing was committed: {error}"
            ) from error
        except CommitUnknown:
            self._give_back(staged)
            raise
        outcome = self._settled(staged)
        if isinstance(outcome, CommitResponse):
            commit = Commit(given.version, given.file_name, given.timestamp_ms, len(data), data)
            return CommitResponse(commit, outcome.latest_version)
        if outcome.is_purged and self._counts_in_log(store, given.version, request.commit_id):
            return CommitResponse(
                Commit(given.version, given.file_name, given.timestamp_ms, len(data), data), given.version
            )
        with suppress(StorageError):
            store.delete([staged_path(given.file_name)])
        return None

    def _counts_in_log(self, store: ObjectStore, version: int, commit_id: str) -> bool:
        """Whether the commit, of which no row tells any more, is in the log. Raises CommitUnknown."""
        try:
            return transaction_at(store, version) == commit_id
        except StorageError as error:
            # What it refers to must not be deleted: it may count.
            raise CommitUnknown(
                f"{store.root_url}: whether version {version} is this commit only the log tells, which could not be "
                f"read: {error}; ask again"
            ) from error

    def _settled(self, staged: Staged) -> CommitResponse | Freed:
        is_recorded = False
        try:
            outcome = self._ratify(staged)
            is_recorded = True
            waits = Waits(self._changes, lambda: settle_abandoned(self._database, self._clock, staged.table_id))
            while isinstance(outcome, Pending):
                waits.wait(outcome.num_before)
                outcome = self._database.read(lambda c: ratification.outcome_of(c, staged))
        except CommitOwnerUnavailable as error:
            if error.changed_nothing and not is_recorded:
                # The version is this attempt's alone, and nobody else lets it count.
                with suppress(StorageError):
                    self._store_of(staged.table_id).delete([staged_path(staged.file_name)])
                raise CommitFailed(
                    f"version {staged.version} of table {staged.table_id} was staged and does not count: {error}"
                ) from error
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
                    return CommitResponse(backfilled_commit(store, version), purged.latest_version)
        except StorageError as error:
            raise CommitUnknown(
                f"{store.root_url}: whether an earlier, equal request was carried out only the log tells, which could "
                f"not be read: {error}; ask again"
            ) from error
        return None

    def _allocate_batch(self, attempts: Sequence[Attempt]) -> list[allocation.Outcome]:
        # A power cut that undoes it undoes nothing that anybody has seen.
        return allocated(self._database, lambda c, again: self._allocation.allocate(c, attempts, again), durable=False)

    def _ratify_batch(self, staged: Sequence[Staged]) -> list[ratification.Outcome]:
        outcomes = self._database.write(lambda c: ratification.ratify(c, staged))
        self._changes.notify()
        return outcomes

    def _give_back(self, staged: Staged) -> None:
        # Where this fails the lease ends it.
        with suppress(CommitOwnerUnavailable):
            self._database.write(lambda c: ratification.give_back(c, staged), durable=False)


def allocated(database: Database, allocate: Callable[[Connection, bool], list[T]], durable: bool) -> list[T]:
    """What `allocate` answers in a transaction of the database; it is told whether earlier results may be there."""
    runs = itertools.count()

    def run(connection: Connection) -> list[T]:
        # A run whose answer was lost may have counted.
        return allocate(connection, next(runs) > 0)

    try:
        return database.write(run, durable)
    except IntegrityError:
        # A request comes again without saying so.
        return database.write(run, durable)


def require_patience(outcome: object, waited_s: float, who: str) -> None:
    """Return where `who` may go on waiting after `outcome`.

    Raises LockTimeout after waiting too long for a lock, CommitOwnerBusy for versions that are being staged.
    """
    if isinstance(outcome, Blocked) and waited_s > LOCKED_S:
        raise LockTimeout(
            f"{who}: the commit waited {LOCKED_S:.0f} s: {outcome.by.description}; nothing was committed: try again "
            "when that has ended"
        )
    if waited_s > _PATIENCE_S:
        raise CommitOwnerBusy(
            f"{who}: versions before its own were being staged for {_PATIENCE_S:.0f} seconds; nothing was committed: "
            "try again"
        )


def settle_abandoned(database: Database, clock: OwnerClock, table_id: str) -> None:
    """What keeps the next version of the table from counting is brought to an end, where its process is gone."""

    def settle(connection: Connection) -> None:
        if ratify_ready(connection, table_id):
            return
        row = locked_table(connection, table_id)
        if row is not None:
            free_abandoned(connection, row, owner_now(connection, clock), is_dead)

    database.write(settle)


def staging_ms(num_actions: int) -> int:
    """For how much longer nobody doubts that so many actions are being staged: most are files with statistics."""
    return num_actions * _BYTES_PER_ACTION // _BYTES_PER_MS
