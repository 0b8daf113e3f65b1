"""What an owner does for its clients, one piece after the other: each `yield` lets everybody else go on.

These are the loops of `CommitPipeline`, `LockManager.lock` and `TimeSlices.cut`, which wait; here a piece that would
wait is left to be tried again. All pieces are the owner's own. A process that crashes is not resumed.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
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
from slackwater.owner.api.commits import LATEST, CommitConflict, CommitRequest, CommitResponse
from slackwater.owner.api.transactions import (
    Cut,
    LockRequest,
    TransactionConflict,
    TransactionRequest,
    TransactionResponse,
)
from slackwater.owner.commit import log_lookup, ratification
from slackwater.owner.commit.allocation_outcomes import (
    Attempt,
    SearchLog,
    VersionsAllocated,
    WaitUntilTimestamp,
    tables_of,
)
from slackwater.owner.commit.ratification import (
    AwaitingEarlierVersions,
    StagedCommits,
    VersionsReleased,
    resolve_expired,
)
from slackwater.owner.commit.staging import content_of
from slackwater.owner.locks import lock_queue
from slackwater.owner.publish import backfill as backfilling
from slackwater.owner.state.commit_files import stage
from slackwater.owner.state.shared_clock import read_clock
from slackwater.owner.time import time_slices as slicing
from slackwater.protocol.actions.file_names import staged_path
from slackwater.waiting import Deadline
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
    work: str
    question: Any

    def done_with(self, others: Sequence[Together]) -> list[Any]:
        """The answers to this one and to `others`, of the same process and work."""
        work = getattr(self.process.owner._commits, self.work)
        return list(work([self.question, *(other.question for other in others)]))


class Rest(Enum):
    """Something is waited for: there is no use in looking again at once."""

    A_WHILE = "a while"


T = TypeVar("T")
Steps: TypeAlias = Generator[Together | Rest | None, Any, T]


def transaction(
    world: World, process: Process, request: TransactionRequest
) -> Steps[TransactionResponse | TransactionConflict]:
    """As `CommitPipeline.commit_transaction`."""
    commits = process.owner._commits
    try:
        return (yield from _committed(world, process, commits.attempt(request)))
    except CommitUnknown:
        raise
    except SlackwaterError:
        commits.end(request.txn_id)
        raise


def lone_commit(world: World, process: Process, request: CommitRequest) -> Steps[CommitResponse | CommitConflict]:
    """As `CommitPipeline.commit`: somebody who knows of no transactions."""
    answer = yield from _committed(world, process, process.owner._commits.single_table_attempt(request))
    if isinstance(answer, TransactionConflict):
        return CommitConflict(answer.latest_versions[request.table_id])
    return answer.commits[request.table_id]


def _committed(world: World, process: Process, attempt: Attempt) -> Steps[TransactionResponse | TransactionConflict]:
    store_of, request = process.owner._commits._store_of, attempt.request
    for waits in range(1, PATIENCE):
        if world.before_allocation is not None and not attempt.is_alone:
            world.before_allocation(process, attempt)
            yield Rest.A_WHILE
        outcome = yield Together(process, ALLOCATE, attempt)
        if isinstance(outcome, SlackwaterError):
            raise outcome
        if isinstance(outcome, TransactionResponse):
            return log_lookup.completed(store_of, attempt, outcome)
        if isinstance(outcome, TransactionConflict):
            return outcome
        if isinstance(outcome, VersionsAllocated):
            answer = yield from _staged_and_ratified(process, attempt, outcome)
            if answer is not None:
                return answer
        elif isinstance(outcome, SearchLog):
            told = log_lookup.find_earlier_result(store_of, attempt, outcome)
            if told is not None:
                return told
            attempt = replace(attempt, searched_version=outcome.version)
        else:
            yield Rest.A_WHILE
            if isinstance(outcome, WaitUntilTimestamp):
                # A clock that stepped back may never come there.
                attempt = replace(attempt, has_waited=waits > _LONG)
            elif waits % _DOUBT_EVERY == 0:
                yield from doubted(process, sorted(tables_of(request)))
        attempt = replace(attempt, file_id=world.new_id())
    raise CommitOwnerBusy(f"{request.txn_id}: {outcome}")


def _staged_and_ratified(
    process: Process, attempt: Attempt, given: VersionsAllocated
) -> Steps[TransactionResponse | None]:
    commits = process.owner._commits
    files = content_of(attempt, given)
    staged = files.staged
    try:
        for part in staged.files:
            yield None
            stage(commits._store_of(part.table_id), part.file_name, files.data[part.table_id])
        outcome = yield from _settled(process, staged)
    except StorageError as error:
        commits._give_back(staged)
        raise CommitFailed(attempt.who) from error
    except CommitOwnerUnavailable as error:
        raise CommitUnknown(attempt.who) from error
    if isinstance(outcome, TransactionResponse):
        return files.answer(outcome)
    if outcome.is_purged and log_lookup.is_in_log(commits._store_of, staged):
        return files.answer(ratification.response_for(staged, {}))
    for part in staged.files:
        yield None
        with suppress(StorageError):
            commits._store_of(part.table_id).delete([staged_path(part.file_name)])
    return None


def _settled(process: Process, staged: StagedCommits) -> Steps[TransactionResponse | VersionsReleased]:
    outcome: TransactionResponse | VersionsReleased | AwaitingEarlierVersions = yield Together(process, RATIFY, staged)
    for waits in range(1, PATIENCE):
        if not isinstance(outcome, AwaitingEarlierVersions):
            return outcome
        if waits % _DOUBT_EVERY == 0:
            yield from doubted(process, staged.table_ids)
        yield Rest.A_WHILE
        outcome = process.database.read(lambda c: ratification.outcome_of(c, staged))
        if isinstance(outcome, AwaitingEarlierVersions) and not outcome.num_before:
            outcome = yield Together(process, RATIFY, staged)
    raise CommitUnknown(staged.who)


def locked(process: Process, request: LockRequest) -> Steps[None]:
    """As `LockManager.lock`."""
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
        locking._free(lambda c: lock_queue.release_as_victim(c, request.txn_id, read_clock(c, process.clock)))
        raise
    except SlackwaterError:
        with suppress(CommitOwnerUnavailable):
            locking._free(lambda c: lock_queue.withdraw(c, request.txn_id))
        raise
    for waits in range(1, PATIENCE):
        yield None
        try:
            locking._settle(request, Deadline(0.0, itertools.repeat(0.0)))
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
        backfill._copy(row, pending)
        yield None
        database.write(partial(backfill._record, copied={table_id: pending}))
        yield None


def doubted(process: Process, table_ids: Sequence[str]) -> Iterator[None]:
    """Whether those who come first are dead is looked at."""
    for table_id in table_ids:
        yield None
        resolve_expired(process.database, process.clock, table_id)
