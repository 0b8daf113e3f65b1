"""Routes of multi-table transactions."""

from __future__ import annotations

import functools
from collections import OrderedDict
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.requests import Request

from slackwater.owner.api.field_types import ID_PATTERN
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import (
    LONGEST_LOCK_WAIT_S,
    Cut,
    LockRequest,
    TimeRequest,
    TransactionConflict,
    TransactionRequest,
    TransactionResponse,
    Vote,
)
from slackwater.owner.served.access.permissions import Scope
from slackwater.owner.served.admission import signed
from slackwater.owner.served.request_observer import observation
from slackwater.owner.served.routes import Service, answer, route
from slackwater.owner.served.transaction_ownership import TransactionCall
from slackwater.owner.served.wire import calls
from slackwater.owner.served.wire.queries import CutQuery

TxnId = Annotated[str, Path(pattern=ID_PATTERN, description="The transaction's UUID.")]
_UNKNOWN = answer("The decision is unknown (CommitUnknown). Repeat the request.", calls.ErrorAnswer)
_MOST = 65_536


def add_transactions(router: APIRouter, service: Service) -> None:
    """Add the routes to `router`."""
    holders = LockHolders()
    _add_steps(router, service, holders)
    _add_two_phase_commit(router, service, holders)


def _add_steps(router: APIRouter, service: Service, holders: LockHolders) -> None:
    owner_of, workers, guarded = service.owner_for, service.workers, service.openers.guarded

    @route(router, calls.GET_CUT, Scope.READ, 404)
    async def get_cut(request: Request, asked: Annotated[CutQuery, Query()]) -> Cut:
        """Return a consistent state of all tables: the latest, or the stable state at an instant."""
        if asked.timestamp_ms is None:
            return await workers.look(owner_of(request).cut)
        return await workers.look_back(owner_of(request).cut, asked.timestamp_ms)

    @route(router, calls.GET_TIME, Scope.COMMIT, 404, 409)
    async def get_time(request: Request, txn_id: TxnId, body: TimeRequest) -> TimestampRange:
        """Return the timestamp range after a request for the current time. Repeating the request is safe."""
        observation(request.scope).used = [*(item.table_id for item in body.writes), *body.holds]
        if body.holds:
            holders.add(txn_id)
        return await workers.step(guarded(request, txn_id, TransactionCall.WORK, owner_of(request).narrow), body)

    @route(router, calls.LOCK, Scope.COMMIT, 404, 409)
    async def lock(request: Request, txn_id: TxnId, body: LockRequest) -> calls.EmptyResponse:
        """Lock the items for the transaction. 409 (LockTimeout) if locks are unavailable. Repeat to keep waiting."""
        observation(request.scope).used = [item.table_id for item in body.items]
        holders.add(txn_id)

        def lock(timeout_s: float) -> None:
            owner_of(request).lock(replace(body, timeout_s=timeout_s))

        call = guarded(request, txn_id, TransactionCall.WORK, lock)
        await workers.lock(call, min(body.timeout_s, LONGEST_LOCK_WAIT_S))
        return calls.EmptyResponse()

    @route(router, calls.KEEP_ALIVE, Scope.COMMIT, 404, 409)
    async def keep_alive(request: Request, txn_id: TxnId) -> calls.EmptyResponse:
        """Renew the lease of the transaction and its locks."""
        await workers.step(guarded(request, txn_id, TransactionCall.WORK, owner_of(request).keep_alive), txn_id)
        # Another server of the same owner may have granted the locks.
        holders.add(txn_id)
        return calls.EmptyResponse()

    @route(router, calls.END, Scope.COMMIT, 404, 409)
    async def end(request: Request, txn_id: TxnId) -> calls.EmptyResponse:
        """Discard a transaction without a commit, and release its locks."""
        await workers.step(guarded(request, txn_id, TransactionCall.END, owner_of(request).end), txn_id)
        holders.remove(txn_id)
        return calls.EmptyResponse()

    @route(router, calls.COMMIT_TRANSACTION, Scope.COMMIT, 404)
    async def commit_transaction(
        request: Request, body: TransactionRequest
    ) -> TransactionResponse | TransactionConflict:
        """Commit all writes with one timestamp. 409 with `latestVersions` if a base version is not the latest."""
        body = _signed(request, body)
        call = guarded(request, body.txn_id, TransactionCall.WORK, owner_of(request).commit_transaction)
        outcome = await workers.ratify(call, body, body.txn_id in holders)
        service.metrics.count_commit(isinstance(outcome, TransactionResponse))
        if isinstance(outcome, TransactionResponse):
            _note(request, outcome)
            holders.remove(body.txn_id)
        return outcome


def _add_two_phase_commit(router: APIRouter, service: Service, holders: LockHolders) -> None:
    owner_of, workers, guarded = service.owner_for, service.workers, service.openers.guarded

    @route(router, calls.PREPARE, Scope.COMMIT, 404)
    async def prepare(request: Request, txn_id: TxnId, body: calls.PrepareRequest) -> Vote | TransactionConflict:
        """Vote durably for this owner's part of a multi-owner transaction.

        409 with `latestVersions`, see the commit of a transaction. Repeating the request is safe: the first vote
        remains valid.
        """
        call = functools.partial(owner_of(request).prepare, _signed(request, body.transaction), body.coordinator_id)
        outcome = await workers.vote(guarded(request, txn_id, TransactionCall.WORK, call), txn_id in holders)
        # The locks stay, even after a conflict.
        holders.add(txn_id)
        if isinstance(outcome, TransactionConflict):
            service.metrics.count_commit(False)
        return outcome

    @route(router, calls.FINISH, Scope.COMMIT, 404, 409)
    async def finish(request: Request, txn_id: TxnId, body: calls.FinishRequest) -> calls.FinishAnswer:
        """Apply the decision, once. Repeating the request is safe. Repeat after every error except a rejection."""
        call = guarded(request, txn_id, TransactionCall.END, owner_of(request).finish)
        response = await workers.finish(call, txn_id, body.timestamp_ms)
        if response is not None:
            service.metrics.count_commit(True)
            _note(request, response)
        holders.remove(txn_id)
        return calls.FinishAnswer(response)

    @route(router, calls.GET_IN_DOUBT, Scope.ADMIN, 404)
    async def get_in_doubt(request: Request) -> calls.InDoubtAnswer:
        """Return the transactions with a vote of this owner and an unknown outcome."""
        return calls.InDoubtAnswer(await workers.look(owner_of(request).in_doubt))

    @route(router, calls.DECIDE, Scope.COMMIT, 404, own={504: _UNKNOWN})
    async def decide(request: Request, txn_id: TxnId, body: calls.DecisionRequest) -> calls.DecisionAnswer:
        """Record the coordinator's decision: commit timestamp or abort.

        The response has the effective decision: the first one. Repeating the request is safe.
        """
        call = guarded(request, txn_id, TransactionCall.WORK, owner_of(request).decide)
        return calls.DecisionAnswer(await workers.decide(call, txn_id, body.timestamp_ms, body.participants))

    @route(router, calls.ASK_DECISION, Scope.COMMIT, 404)
    async def ask_decision(request: Request, txn_id: TxnId) -> calls.DecisionAnswer:
        """Return the coordinator's decision. An undecided transaction is aborted now."""
        call = guarded(request, txn_id, TransactionCall.ASK, owner_of(request).decision)
        return calls.DecisionAnswer(await workers.step(call, txn_id))

    @route(router, calls.ACKNOWLEDGE, Scope.COMMIT, 404)
    async def acknowledge(request: Request, txn_id: TxnId, body: calls.AcknowledgeRequest) -> calls.EmptyResponse:
        """Record at the coordinator that one participant applied the decision.

        After the last acknowledgement, a decision to commit is deleted.
        """
        call = guarded(request, txn_id, TransactionCall.END, owner_of(request).acknowledge)
        await workers.step(call, txn_id, body.participant_id)
        return calls.EmptyResponse()


def _signed(request: Request, asked: TransactionRequest) -> TransactionRequest:
    """Return the request with the caller's name in its commits, and record its tables for the access log."""
    seen = observation(request.scope)
    seen.transaction = asked.txn_id
    seen.versions = {write.table_id: None for write in asked.writes}
    seen.used = [read.table_id for read in asked.reads]
    return replace(asked, writes=[replace(write, actions=signed(request, write.actions)) for write in asked.writes])


def _note(request: Request, outcome: TransactionResponse) -> None:
    versions = {table_id: done.commit.version for table_id, done in outcome.commits.items()}
    observation(request.scope).versions.update(versions)


class LockHolders:
    """Ids of active transactions with lock requests at this server, limited to the latest `most`.

    A commit of a forgotten transaction still works, but has no priority.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._ids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, txn_id: str) -> bool:
        return txn_id in self._ids

    def add(self, txn_id: str) -> None:
        """Add a transaction, because other transactions may wait for it."""
        self._ids[txn_id] = None
        self._ids.move_to_end(txn_id)
        if len(self._ids) > self._most:
            self._ids.popitem(last=False)

    def remove(self, txn_id: str) -> None:
        """Remove an ended transaction."""
        self._ids.pop(txn_id, None)
