"""Client of a commit owner over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import httpx

from slackwater.errors import CommitOwnerUnavailable, CommitUnknown, InvalidArgument
from slackwater.owner.api.commits import (
    LATEST,
    CommitConflict,
    CommitRequest,
    CommitResponse,
    GetCommitsResponse,
    ManagedTable,
    OwnershipProposal,
)
from slackwater.owner.api.field_types import Id, Instant, Known, Name, Version
from slackwater.owner.api.monitoring import Activity, RecentCommit
from slackwater.owner.api.owner_registry import reopened
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import (
    LONGEST_LOCK_WAIT_S,
    LONGEST_PREPARE_WAIT_S,
    Cut,
    InDoubt,
    LockRequest,
    Timeout,
    TimeRequest,
    TransactionConflict,
    TransactionRequest,
    TransactionResponse,
    Vote,
)
from slackwater.owner.api.wire_model import RequestModel, WireModel, checked
from slackwater.owner.served.client.deadline import ClientClock, in_shares
from slackwater.owner.served.client.http_session import HttpSession
from slackwater.owner.served.client.retrying_transport import OwnerRequest, RetryingTransport
from slackwater.owner.served.wire import calls
from slackwater.owner.served.wire.calls import Call

TIMEOUT_S = 30.0
"""Timeout for a response, including all attempts."""

_LONG = 10
# Factor for the owner's waiting time in a call's timeout, because the first attempt has two thirds of the timeout.
_MORE = 1.5
A = TypeVar("A", bound=WireModel)


class HttpOwner:
    """Client of the CommitOwner served by `slackwater serve` at a URL. Thread-safe, with one connection pool.

    A commit without a response is retried with a replay mark until its deadline. A decision is retried, too.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        timeout_s: float = TIMEOUT_S,
        client: httpx.Client | None = None,
        *,
        allow_http: bool = False,
        ca_file: str | None = None,
        clock: ClientClock | None = None,
    ) -> None:
        """Create the client. `timeout_s` limits each call.

        Backfills, releases, repairs and cuts of the past have ten times `timeout_s`. Waiting for locks adds to it. The
        other parameters as `HttpSession`. Raises InvalidArgument.
        """
        if not timeout_s > 0:
            raise InvalidArgument(f"the timeout must be greater than 0 s, found {timeout_s!r}")
        self._session = HttpSession(url, token, client, allow_http=allow_http, ca_file=ca_file)
        self._url = self._session.url
        self._token = token
        self._timeout_s = timeout_s
        self._ca_file = ca_file
        self._owner_id: str | None = None
        self._clock = clock or ClientClock()
        self._exchange = RetryingTransport(self._url, self._send, self._clock)
        self._most_ahead_s = 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the client for other processes. They use the same server."""
        return reopened, (self.owner_id, partial(_opened, self._url, self._token, self._timeout_s, self._ca_file))

    def __repr__(self) -> str:
        return f"HttpOwner({self._url!r})"

    @property
    def owner_id(self) -> str:
        """Identity of the owner, requested once."""
        if self._owner_id is None:
            self._owner_id = self._ask(calls.GET_OWNER).owner_id
        return self._owner_id

    @property
    def endpoint(self) -> str | None:
        """URL of the served owner."""
        return self._url

    def commit(self, request: CommitRequest) -> CommitResponse | CommitConflict:
        """See CommitOwner. Also raises CommitUnknown if the response is lost permanently."""
        return self._ratify(calls.COMMIT, request)

    def get_commits(
        self, table_id: str, start_version: int, end_version: int = LATEST, with_data: bool = False
    ) -> GetCommitsResponse:
        """See CommitOwner."""
        from slackwater.owner.served.wire.queries import CommitsQuery

        query = CommitsQuery.sent(start_version=start_version, end_version=end_version, with_data=with_data)
        return self._ask(calls.GET_COMMITS, query=query, table_id=table_id)

    def backfill_to_version(self, table_id: str, version: int = LATEST) -> int:
        """See CommitOwner."""
        asked = calls.BackfillRequest(checked(Known, "version", version))
        return self._ask(calls.BACKFILL, asked, table_id=table_id).version

    def tables(self) -> list[ManagedTable]:
        """See CommitOwner."""
        return list(self._ask(calls.LIST_TABLES).tables)

    def table(self, name: str) -> ManagedTable:
        """See CommitOwner. Raises InvalidArgument for a malformed table name."""
        return self._ask(calls.GET_TABLE, name=name)

    def take(self, proposal: OwnershipProposal) -> CommitResponse | CommitConflict:
        """See CommitOwner. Also raises CommitUnknown if the response is lost permanently."""
        checked(Id, "table's id", proposal.table_id)
        checked(Id, "commit's id", proposal.commit_id)
        checked(Name, "table's name", proposal.name)
        checked(Version, "version", proposal.version)
        return self._ask(calls.TAKE_TABLE, proposal)

    def release(self, request: CommitRequest) -> CommitResponse | CommitConflict:
        """See CommitOwner. Also raises CommitUnknown if the response is lost permanently."""
        return self._ratify(calls.RELEASE, request)

    def repair(self, table_id: str | None = None) -> list[str]:
        """See CommitOwner."""
        asked = calls.RepairRequest(None if table_id is None else checked(Id, "table's id", table_id))
        return list(self._ask(calls.REPAIR, asked).done)

    def cut(self, timestamp_ms: int | None = None) -> Cut:
        """See CommitOwner. Raises InvalidArgument for an instant before the epoch or after the year 9999."""
        if timestamp_ms is None:
            return self._ask(calls.GET_CUT)
        from slackwater.owner.served.wire.queries import CutQuery

        return self._ask(calls.GET_PAST_CUT, query=CutQuery.sent(timestamp_ms=timestamp_ms))

    def narrow(self, request: TimeRequest) -> TimestampRange:
        """See CommitOwner."""
        self._most_ahead_s = max(self._most_ahead_s, request.ahead_ms / 1000)
        return self._ask(calls.GET_TIME, request, txn_id=request.txn_id)

    def lock(self, request: LockRequest) -> None:
        """See CommitOwner. A long wait is split into several requests."""
        total_s = checked(Timeout, "timeout", request.timeout_s)

        def ask(timeout_s: float) -> None:
            self._ask(calls.LOCK, replace(request, timeout_s=timeout_s), wait_s=timeout_s, txn_id=request.txn_id)

        in_shares(ask, total_s, LONGEST_LOCK_WAIT_S, self._clock)

    def keep_alive(self, txn_id: str) -> None:
        """See CommitOwner."""
        self._ask(calls.KEEP_ALIVE, txn_id=txn_id)

    def commit_transaction(self, request: TransactionRequest) -> TransactionResponse | TransactionConflict:
        """See CommitOwner. Also raises CommitUnknown if the response is lost permanently."""
        checked(Id, "transaction's id", request.txn_id)
        return self._ask(calls.COMMIT_TRANSACTION, request, wait_s=self._most_ahead_s)

    def end(self, txn_id: str) -> None:
        """See CommitOwner."""
        self._ask(calls.END, txn_id=txn_id)

    def prepare(self, request: TransactionRequest, coordinator_id: str) -> Vote | TransactionConflict:
        """See CommitOwner. After CommitOwnerUnavailable the owner may have voted. `finish` ends the vote."""
        asked = calls.prepare_request(request, checked(Id, "coordinator's id", coordinator_id))
        return self._ask(calls.PREPARE, asked, wait_s=LONGEST_PREPARE_WAIT_S, txn_id=request.txn_id)

    def decide(self, txn_id: str, timestamp_ms: int | None, participants: Sequence[str]) -> int | None:
        """See CommitOwner. Raises CommitUnknown if the response is lost permanently: the decision may be recorded."""
        ids = [checked(Id, "participant's id", participant_id) for participant_id in participants]
        return self._ask(calls.DECIDE, calls.DecisionRequest(_instant(timestamp_ms), ids), txn_id=txn_id).timestamp_ms

    def decision(self, txn_id: str) -> int | None:
        """See CommitOwner."""
        return self._ask(calls.ASK_DECISION, txn_id=txn_id).timestamp_ms

    def finish(self, txn_id: str, timestamp_ms: int | None) -> TransactionResponse | None:
        """See CommitOwner."""
        return self._ask(calls.FINISH, calls.FinishRequest(_instant(timestamp_ms)), txn_id=txn_id).transaction

    def acknowledge(self, txn_id: str, participant_id: str) -> None:
        """See CommitOwner."""
        asked = calls.AcknowledgeRequest(checked(Id, "participant's id", participant_id))
        self._ask(calls.ACKNOWLEDGE, asked, txn_id=txn_id)

    def in_doubt(self) -> list[InDoubt]:
        """See CommitOwner."""
        return list(self._ask(calls.GET_IN_DOUBT).transactions)

    def activity(self) -> Activity:
        """See CommitOwner."""
        return self._ask(calls.GET_ACTIVITY)

    def recent_commits(self, limit: int = 50) -> list[RecentCommit]:
        """See CommitOwner."""
        from slackwater.owner.served.wire.queries import RecentCommitsQuery

        return list(self._ask(calls.GET_RECENT_COMMITS, query=RecentCommitsQuery.sent(limit=limit)).commits)

    def close(self) -> None:
        """Close the connections. The server's owner backfills on its own."""
        self._session.close()

    def _ratify(self, call: Call[A], request: CommitRequest) -> A:
        checked(Id, "commit's id", request.commit_id)
        checked(Version, "version", request.version)
        return self._ask(call, request, table_id=request.table_id)

    def _ask(
        self,
        call: Call[A],
        body: RequestModel | None = None,
        *,
        query: Mapping[str, str] | None = None,
        wait_s: float = 0.0,
        **named: str,
    ) -> A:
        """Return the response to `call`, at most `wait_s` of the owner's waiting after the timeout."""
        patience_s = self._timeout_s * (_LONG if call.is_long else 1) + _MORE * wait_s
        path, content = call.at(**named), None if body is None else body.to_json()
        reply = self._exchange.ask(OwnerRequest(call.method, path, content, query, call.is_commit, patience_s))
        try:
            return call.response(reply.value, reply.is_conflict)
        except ValueError as error:
            if call is calls.DECIDE:
                remedy = "Request the decision again"
                raise CommitUnknown(f"the response to a decision is not valid: {error}. {remedy}") from error
            if call.is_commit:
                raise CommitUnknown(f"the response to a commit is not valid: {error}. Read the log") from error
            raise CommitOwnerUnavailable(
                f"{self._url} does not respond as a commit owner does: {error}. Compare the versions of client and "
                "server"
            ) from error

    def _send(self, question: OwnerRequest, content: bytes | None, timeout_s: float) -> httpx.Response:
        return self._session.send(question.method, question.path, question.query, content, timeout_s)


def _instant(timestamp_ms: int | None) -> int | None:
    return None if timestamp_ms is None else checked(Instant, "timestamp", timestamp_ms)


def _opened(url: str, token: str | None, timeout_s: float, ca_file: str | None) -> HttpOwner:
    # `allow_http`, because the original client has already checked the URL for its token.
    return HttpOwner(url, token, timeout_s, allow_http=True, ca_file=ca_file)
