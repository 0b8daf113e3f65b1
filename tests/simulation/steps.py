"""What an owner does for its clients, one piece after the other: each `yield` lets everybody else go on.

These are the loops of `Commits.commit`, `Transactions.commit`, `Locking.lock` and `TimeSlices.cut`, which wait; here a
piece that would wait is left to be tried again. All pieces are the owner's own. A process that crashes is not resumed.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias, TypeVar

from slackwater.errors import (
    CommitFailed,
    CommitOwnerBusy,
    CommitOwnerUnavailable,
    CommitUnknown,
    DeadlockDetected,
    LockTimeout,
    SlackwaterError,
    StorageError,
)
from slackwater.owner.api.commits import LATEST, Commit, CommitConflict, CommitRequest, CommitResponse
from slackwater.owner.api.transactions import (
    Cut,
    LockRequest,
    TransactionConflict,
    TransactionRequest,
    TransactionResponse,
)
from slackwater.owner.commit import joint_ratification, ratification
from slackwater.owner.commit.allocation import Attempt, Purged
from slackwater.owner.commit.commits import settle_abandoned, staging_ms
from slackwater.owner.commit.joint_attempts import JointAllocated, TooEarly
from slackwater.owner.commit.joint_ratification import answer_of
from slackwater.owner.commit.ratification import Freed, Pending, Staged
from slackwater.owner.locking import _Patience
from slackwater.owner.locks import locks
from slackwater.owner.publish import backfill as backfilling
from slackwater.owner.state.commit_content import content, facts_of
from slackwater.owner.state.commit_files import stage, transaction_at
from slackwater.owner.state.heads import Allocated
from slackwater.owner.state.owner_time import owner_now
from slackwater.owner.time import time_slices as slicing
from slackwater.protocol.actions.file_names import staged_path
from tests.simulation.world import Process, World

PATIENCE = 60
"""How often something is waited for before it is given up."""
_DOUBT_EVERY = 3
_LONG = 20
_TOLD_LOOKS = 4
ALLOCATE, RATIFY = "_allocate_batch", "_ratify_batch"


@dataclass(frozen=True, slots=True)
class Together:
    """Something that the owner does for all at once who ask one process for it: `work` is the name of the piece."""

    process: Process
    part: str
    work: str
    question: Any

    def done_with(self, others: Sequence[Together]) -> list[Any]:
        """The answers to this one and to `others`, of the same process and work."""
        of_owner = getattr(self.process.owner, self.part)
        return list(getattr(of_owner, self.work)([self.question, *(other.question for other in others)]))


class Rest(Enum):
    """Something is waited for: there is no use in looking again at once."""

    A_WHILE = "a while"


T = TypeVar("T")
Steps: TypeAlias = Generator[Together | Rest | None, Any, T]


def transaction(
    world: World, process: Process, request: TransactionRequest
) -> Steps[TransactionResponse | TransactionConflict]:
    """As `Transactions.commit`."""
    transactions = process.owner._transactions
    try:
        return (yield from _transaction(world, process, request))
    except CommitUnknown:
        raise
    except SlackwaterError:
        transactions.end(request.txn_id)
        raise


def _transaction(
    world: World, process: Process, request: TransactionRequest
) -> Steps[TransactionResponse | TransactionConflict]:
    transactions = process.owner._transactions
    attempt = transactions.attempt(request)
    touched = sorted({w.table_id for w in request.writes} | {r.table_id for r in request.reads})
    for waits in range(1, PATIENCE):
        if world.before_allocation is not None:
            world.before_allocation(process, attempt)
            yield Rest.A_WHILE
        outcome = yield Together(process, "_transactions", ALLOCATE, attempt)
        if isinstance(outcome, SlackwaterError):
            raise outcome
        if isinstance(outcome, TransactionResponse):
            return transactions._with_purged(request, outcome)
        if isinstance(outcome, TransactionConflict):
            return outcome
        if isinstance(outcome, JointAllocated):
            answer = yield from _staged_and_ratified(process, request, outcome)
            if answer is not None:
                return answer
        elif isinstance(outcome, Purged):
            told = transactions._told_by_log(request, outcome, attempt.searched_version)
            if told is not None:
                return told
            attempt = replace(attempt, searched_version=outcome.version)
        else:
            yield Rest.A_WHILE
            if isinstance(outcome, TooEarly):
                # A clock that stepped back may never come there.
                attempt = replace(attempt, has_waited=waits > _LONG)
            elif waits % _DOUBT_EVERY == 0:
                yield from doubted(process, touched)
        attempt = replace(attempt, file_id=world.new_id())
    raise CommitOwnerBusy(f"{request.txn_id}: {outcome}")


def _staged_and_ratified(
    process: Process, request: TransactionRequest, given: JointAllocated
) -> Steps[TransactionResponse | None]:
    transactions = process.owner._transactions
    files = transactions.content(request, given)
    staged = files.staged(request.txn_id)
    try:
        for table_id, part in given.parts.items():
            yield None
            stage(transactions._store_of(table_id), part.file_name, files.data[table_id])
        outcome = yield from _transaction_settled(process, staged)
    except StorageError as error:
        transactions._give_back(staged)
        raise CommitFailed(request.txn_id) from error
    except CommitOwnerUnavailable as error:
        raise CommitUnknown(request.txn_id) from error
    if isinstance(outcome, TransactionResponse):
        return outcome
    if outcome.is_purged and transactions._counts_in_log(staged):
        return answer_of(staged)
    for part in staged.parts:
        yield None
        with suppress(StorageError):
            transactions._store_of(part.table_id).delete([staged_path(part.file_name)])
    return None


def _transaction_settled(
    process: Process, staged: joint_ratification.JointStaged
) -> Steps[TransactionResponse | Freed]:
    database = process.database
    outcome = yield Together(process, "_transactions", RATIFY, staged)
    for waits in range(1, PATIENCE):
        if not isinstance(outcome, Pending):
            return outcome
        if waits % _DOUBT_EVERY == 0:
            yield from doubted(process, [part.table_id for part in staged.parts])
        yield Rest.A_WHILE
        if database.read(lambda c: joint_ratification.can_follow(c, staged)):
            outcome = yield Together(process, "_transactions", RATIFY, staged)
        elif not database.read(lambda c: joint_ratification.is_allocated(c, staged)):
            outcome = Freed()
    raise CommitUnknown(staged.txn_id)


def lone_commit(world: World, process: Process, request: CommitRequest) -> Steps[CommitResponse | CommitConflict]:
    """As `Commits.commit`: somebody who knows of no transactions."""
    commits, clock = process.owner._commits, process.clock
    facts, searched = facts_of(request.actions, request.commit_id), -1
    for waits in range(1, PATIENCE):
        lease_ms = commits._lease_ms + staging_ms(len(request.actions))
        attempt = Attempt(request, facts, world.new_id(), clock.holder, lease_ms, searched)
        outcome = yield Together(process, "_commits", ALLOCATE, attempt)
        if isinstance(outcome, SlackwaterError):
            raise outcome
        if isinstance(outcome, CommitResponse | CommitConflict):
            return outcome
        if isinstance(outcome, Allocated):
            answer = yield from _lone_staged_and_ratified(process, request, outcome)
            if answer is not None:
                return answer
        elif isinstance(outcome, Purged):
            told, searched = commits._told_by_log(request, outcome, searched), outcome.version
            if told is not None:
                return told
        else:
            yield Rest.A_WHILE
            if waits % _DOUBT_EVERY == 0:
                yield from doubted(process, [request.table_id])
    raise CommitOwnerBusy(f"{request.commit_id}: {outcome}")


def _lone_staged_and_ratified(
    process: Process, request: CommitRequest, given: Allocated
) -> Steps[CommitResponse | None]:
    commits = process.owner._commits
    store = commits._store_of(request.table_id)
    data = content(request.actions, given.version, given.timestamp_ms, given.shift)
    staged = Staged(request.table_id, given.version, given.file_name, given.timestamp_ms, len(data))
    yield None
    try:
        stage(store, given.file_name, data)
    except StorageError as error:
        commits._give_back(staged)
        raise CommitFailed(request.commit_id) from error
    try:
        outcome = yield Together(process, "_commits", RATIFY, staged)
        waits = 0
        while isinstance(outcome, Pending):
            waits += 1
            if waits % _DOUBT_EVERY == 0:
                yield from doubted(process, [request.table_id])
            yield Rest.A_WHILE
            outcome = process.database.read(lambda c: ratification.outcome_of(c, staged))
    except CommitOwnerUnavailable as error:
        raise CommitUnknown(request.commit_id) from error
    commit = Commit(given.version, given.file_name, given.timestamp_ms, len(data), data)
    if isinstance(outcome, CommitResponse):
        return CommitResponse(commit, outcome.latest_version)
    if outcome.is_purged and transaction_at(store, given.version) == request.commit_id:
        return CommitResponse(commit, given.version)
    yield None
    with suppress(StorageError):
        store.delete([staged_path(given.file_name)])
    return None


def locked(process: Process, request: LockRequest) -> Steps[None]:
    """As `Locking.lock`."""
    locking, table_ids = process.owner._locking, sorted({item.table_id for item in request.items})
    try:
        for waits in range(1, PATIENCE):
            yield None
            if process.database.write(lambda c: locking._attempt(c, request), durable=False) is None:
                break
            yield Rest.A_WHILE
            if waits % _DOUBT_EVERY == 0:
                yield from doubted(process, table_ids)
        else:
            raise LockTimeout(f"{request.txn_id} waited for others")
    except DeadlockDetected:
        locking._free(lambda c: locks.give_way(c, request.txn_id, owner_now(c, process.clock)))
        raise
    except SlackwaterError:
        with suppress(CommitOwnerUnavailable):
            locking._free(lambda c: locks.withdraw(c, request.txn_id))
        raise
    for waits in range(1, PATIENCE):
        yield None
        try:
            locking._settle(request, _Patience(0.0))
        except LockTimeout:
            yield Rest.A_WHILE
            if waits % _DOUBT_EVERY == 0:
                yield from doubted(process, table_ids)
        else:
            return
    raise LockTimeout(f"{request.txn_id} waited for what was under way")


def time_slice(process: Process, at_ms: int) -> Steps[Cut]:
    """As `TimeSlices.cut` of the past."""
    slices, database = process.owner._slices, process.database
    if database.read(lambda c: slices._served(c, at_ms)) < at_ms:
        # Whoever was told a time up to then is waited for, for a while.
        for looks in itertools.count():
            yield None
            if database.write(lambda c, looks=looks: slices._serve(c, at_ms, looks < _TOLD_LOOKS)):  # type: ignore[misc]
                break
            yield Rest.A_WHILE
    for waits in range(1, PATIENCE):
        yield None
        staged = database.read(lambda c: slicing._under_way(c, at_ms)).staged
        if not staged:
            yield None
            return database.read(lambda c: slices._of_past(c, at_ms))
        yield Rest.A_WHILE
        if waits % _DOUBT_EVERY == 0:
            yield from doubted(process, staged)
    raise CommitOwnerBusy(f"as of {at_ms}")


def backfilled(process: Process, table_id: str) -> Steps[None]:
    """As `Backfill.now`."""
    backfill, database = process.owner._backfill, process.database
    while True:
        row, pending = database.read(lambda c: backfilling._pending(c, table_id, LATEST))
        if not pending:
            return
        yield None
        done = backfill._copy(row, pending)
        yield None
        database.write(lambda c, done=done: backfill._record(c, table_id, done))  # type: ignore[misc]
        yield None


def doubted(process: Process, table_ids: Sequence[str]) -> Iterator[None]:
    """Whether those who come first are dead is looked at."""
    for table_id in table_ids:
        yield None
        settle_abandoned(process.database, process.clock, table_id)
