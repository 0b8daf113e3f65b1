"""Routes of multi-table transactions."""

from __future__ import annotations

import functools
from collections import OrderedDict
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from slackwater.owner.api.field_types import ID_PATTERN
from slackwater.owner.api.transactions import (
    LONGEST_LOCK_WAIT_S,
    LockRequest,
    TimeRequest,
    TransactionConflict,
    TransactionRequest,
    TransactionResponse,
    Vote,
)
from slackwater.owner.served.admission import signed
from slackwater.owner.served.request_observer import observation
from slackwater.owner.served.responses import json_response
from slackwater.owner.served.routes import BODY, COMMIT, TABLE, Service, answer, route
from slackwater.owner.served.tokens import Scope
from slackwater.owner.served.transaction_ownership import TransactionCall
from slackwater.owner.served.wire import calls
from slackwater.owner.served.wire.calls import (
    AcknowledgeRequest,
    DecisionAnswer,
    DecisionRequest,
    EmptyResponse,
    ErrorAnswer,
    FinishAnswer,
    FinishRequest,
    InDoubtAnswer,
    PrepareRequest,
)
from slackwater.owner.served.wire.queries import CutQuery

TxnId = Annotated[str, Path(pattern=ID_PATTERN, description="The transaction's UUID.")]
_MOST = 65_536


def add_transactions(router: APIRouter, service: Service) -> None:
    """Add the routes to `router`. Its admission applies."""
    holders = LockHolders()
    _add_steps(router, service, holders)
    _add_locks(router, service, holders)
    _add_commit(router, service, holders)
    _add_promises(router, service, holders)
    _add_decisions(router, service)


def _add_steps(router: APIRouter, service: Service, holders: LockHolders) -> None:
    owner, workers, guarded = service.owner, service.workers, service.openers.guarded

    @route(router, calls.GET_CUT, Scope.READ, TABLE)
    async def get_cut(asked: Annotated[CutQuery, Query()]) -> Response:
        """Return a consistent state of all tables: the latest, or the stable state at an instant."""
        if asked.timestamp_ms is None:
            found = await workers.look(owner.cut)
        else:
            found = await workers.look_back(functools.partial(owner.cut, asked.timestamp_ms))
        return json_response(found.to_json())

    @route(router, calls.GET_TIME, Scope.COMMIT, (*TABLE, *BODY, 409))
    async def get_time(request: Request, txn_id: TxnId, body: TimeRequest) -> Response:
        """Return the timestamp range after a request for the current time. Repeating the request is safe."""
        if body.holds:
            holders.add(txn_id)
        narrowed = await workers.step(
            guarded(request, txn_id, TransactionCall.WORK, functools.partial(owner.narrow, body))
        )
        return json_response(narrowed.to_json())


def _add_locks(router: APIRouter, service: Service, holders: LockHolders) -> None:
    owner, workers, guarded = service.owner, service.workers, service.openers.guarded

    @route(router, calls.LOCK, Scope.COMMIT, (*TABLE, *BODY, 409))
    async def lock(request: Request, txn_id: TxnId, body: LockRequest) -> Response:
        """Lock the items for the transaction. 409 (LockTimeout) if locks are unavailable. Repeat to keep waiting."""
        holders.add(txn_id)
        call = guarded(
            request, txn_id, TransactionCall.WORK, lambda timeout_s: owner.lock(replace(body, timeout_s=timeout_s))
        )
        await workers.lock(call, min(body.timeout_s, LONGEST_LOCK_WAIT_S))
        return json_response(EmptyResponse().to_json())

    @route(router, calls.KEEP_ALIVE, Scope.COMMIT, (*TABLE, 409))
    async def keep_alive(request: Request, txn_id: TxnId) -> Response:
        """Renew the lease of the transaction and its locks."""
        await workers.step(guarded(request, txn_id, TransactionCall.WORK, functools.partial(owner.keep_alive, txn_id)))
        # Another server of the same owner may have granted the locks.
        holders.add(txn_id)
        return json_response(EmptyResponse().to_json())

    @route(router, calls.END, Scope.COMMIT, (*TABLE, 409))
    async def end(request: Request, txn_id: TxnId) -> Response:
        """Discard a transaction without a commit, and release its locks."""
        await workers.step(guarded(request, txn_id, TransactionCall.END, functools.partial(owner.end, txn_id)))
        holders.remove(txn_id)
        return json_response(EmptyResponse().to_json())


def _add_commit(router: APIRouter, service: Service, holders: LockHolders) -> None:
    owner, workers, guarded = service.owner, service.workers, service.openers.guarded

    @route(router, calls.COMMIT_TRANSACTION, Scope.COMMIT, COMMIT)
    async def commit_transaction(request: Request, body: TransactionRequest) -> Response:
        """Commit all writes with one timestamp. 409 with `latestVersions` if a base version is not the latest."""
        body = _signed(request, body)
        is_awaited = body.txn_id in holders
        call = guarded(request, body.txn_id, TransactionCall.WORK, owner.commit_transaction)
        outcome = await workers.ratify(call, body, is_awaited)
        _note(request, outcome)
        service.metrics.count_commit(isinstance(outcome, TransactionResponse))
        if isinstance(outcome, TransactionResponse):
            holders.remove(body.txn_id)
        return json_response(outcome.to_json(), 200 if isinstance(outcome, TransactionResponse) else 409)


def _add_promises(router: APIRouter, service: Service, holders: LockHolders) -> None:
    owner, workers, guarded = service.owner, service.workers, service.openers.guarded

    @route(router, calls.PREPARE, Scope.COMMIT, (*TABLE, *BODY, 409))
    async def prepare(request: Request, txn_id: TxnId, body: PrepareRequest) -> Response:
        """Vote durably for this owner's part of a multi-owner transaction.

        409 with `latestVersions`, see the commit of a transaction. Repeating the request is safe: the first vote
        remains valid.
        """
        call = functools.partial(owner.prepare, _signed(request, body.transaction), body.coordinator_id)
        outcome = await workers.vote(guarded(request, txn_id, TransactionCall.WORK, call), txn_id in holders)
        # The locks stay, even after a conflict.
        holders.add(txn_id)
        if isinstance(outcome, Vote):
            return json_response(outcome.to_json())
        service.metrics.count_commit(False)
        return json_response(outcome.to_json(), 409)

    @route(router, calls.FINISH, Scope.COMMIT, (*TABLE, *BODY, 409))
    async def finish(request: Request, txn_id: TxnId, body: FinishRequest) -> Response:
        """Apply the decision, once. Repeating the request is safe. Repeat after every error except a rejection."""
        call = functools.partial(owner.finish, txn_id, body.timestamp_ms)
        response = await workers.finish(guarded(request, txn_id, TransactionCall.END, call))
        if response is not None:
            service.metrics.count_commit(True)
            _note(request, response)
        holders.remove(txn_id)
        return json_response(FinishAnswer(response).to_json())

    @route(router, calls.GET_IN_DOUBT, Scope.ADMIN, TABLE)
    async def get_in_doubt() -> Response:
        """Return the transactions with a vote of this owner and an unknown outcome."""
        return json_response(InDoubtAnswer(await workers.look(owner.in_doubt)).to_json())


def _add_decisions(router: APIRouter, service: Service) -> None:
    owner, workers, guarded = service.owner, service.workers, service.openers.guarded

    unknown = answer("Nobody can say what is decided (CommitUnknown): ask again.", ErrorAnswer)

    @route(router, calls.DECIDE, Scope.COMMIT, (*TABLE, *BODY), {504: unknown})
    async def decide(request: Request, txn_id: TxnId, body: DecisionRequest) -> Response:
        """Record the coordinator's decision: commit timestamp or abort.

        The response has the effective decision: the first one. Repeating the request is safe.
        """
        call = functools.partial(owner.decide, txn_id, body.timestamp_ms, body.participants)
        decided_ms = await workers.decide(guarded(request, txn_id, TransactionCall.WORK, call))
        return json_response(DecisionAnswer(decided_ms).to_json())

    @route(router, calls.ASK_DECISION, Scope.COMMIT, TABLE)
    async def ask_decision(request: Request, txn_id: TxnId) -> Response:
        """Return the coordinator's decision. An undecided transaction is aborted now."""
        call = functools.partial(owner.decision, txn_id)
        decided_ms = await workers.step(guarded(request, txn_id, TransactionCall.ASK, call))
        return json_response(DecisionAnswer(decided_ms).to_json())

    @route(router, calls.ACKNOWLEDGE, Scope.COMMIT, (*TABLE, *BODY))
    async def acknowledge(request: Request, txn_id: TxnId, body: AcknowledgeRequest) -> Response:
        """Record at the coordinator that one participant applied the decision.

        After the last acknowledgement, a decision to commit is deleted.
        """
        call = functools.partial(owner.acknowledge, txn_id, body.participant_id)
        await workers.step(guarded(request, txn_id, TransactionCall.END, call))
        return json_response(EmptyResponse().to_json())


def _signed(request: Request, asked: TransactionRequest) -> TransactionRequest:
    """Return the request with the caller's name in its commits, and record its tables for the access log."""
    seen = observation(request.scope)
    seen.transaction = asked.txn_id
    seen.versions = {write.table_id: None for write in asked.writes}
    return replace(asked, writes=[replace(write, actions=signed(request, write.actions)) for write in asked.writes])


def _note(request: Request, outcome: TransactionResponse | TransactionConflict) -> None:
    if isinstance(outcome, TransactionResponse):
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
