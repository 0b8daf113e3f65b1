"""Client transport with retries, and interpretation of responses.

After a lost response, the owner may have processed the request. The transport retries with a replay mark, because only
the response to the retry reports the outcome.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol

import httpx
import orjson

from slackwater.errors import (
    CommitOwnerBusy,
    CommitOwnerUnavailable,
    CommitUnknown,
    InvalidArgument,
    NotAuthorized,
    SlackwaterError,
)
from slackwater.owner.api.commits import CommitConflict
from slackwater.owner.api.transactions import TransactionConflict
from slackwater.owner.api.wire_model import camel
from slackwater.owner.served.client.deadline import FIRST_WAIT_S, LONGEST_ASKED_WAIT_S, LONGEST_WAIT_S, ClientClock
from slackwater.owner.served.wire.errors import error_from_json, is_known_error
from slackwater.waiting import Deadline, backoff

_BUSY_WAIT_S = 1.0
_SHORTEST_ATTEMPT_S = 1.0
_REPLAY = "isReplay"
_CONFLICTS = frozenset(camel(each.name) for kind in (CommitConflict, TransactionConflict) for each in fields(kind))


@dataclass(frozen=True, slots=True)
class OwnerRequest:
    """A request with a JSON body.

    `is_commit`: the request has an effect at most once, and its outcome must be known. The field `isReplay` of its body
    marks a retry, because an earlier attempt may have been processed.
    """

    method: str
    path: str
    body: Mapping[str, Any] | None
    query: Mapping[str, str] | None
    is_commit: bool
    patience_s: float

    @property
    def is_replay(self) -> bool:
        """True if the caller retries an earlier request."""
        return self.is_commit and self.body is not None and bool(self.body.get(_REPLAY))

    def content(self, in_doubt: bool) -> bytes | None:
        """Return the body. `in_doubt`: an earlier attempt may have been processed. Raises InvalidArgument."""
        body = self.body
        if body is None:
            return None
        if self.is_commit and _REPLAY in body:
            body = {**body, _REPLAY: in_doubt}
        try:
            return orjson.dumps(body)
        except TypeError as error:
            raise InvalidArgument(f"the request cannot be written as JSON: {error}") from error


@dataclass(frozen=True, slots=True)
class OwnerReply:
    """A response of the owner. `is_conflict` is true if the version belongs to another commit."""

    value: dict[str, Any]
    is_conflict: bool = False


class Sender(Protocol):
    """Function that sends a request once. Raises the errors of httpx."""

    def __call__(self, question: OwnerRequest, content: bytes | None, timeout_s: float) -> httpx.Response:
        """Return the response to `question` with the body `content`, for any status."""
        ...


@dataclass(frozen=True, slots=True)
class ReportedError:
    """An error in a response. `is_final`: the request failed without effect, although the server failed (5xx).

    `ends_doubt`: the error also tells that an earlier, equal request had no effect.
    """

    error: SlackwaterError
    is_final: bool
    ends_doubt: bool = True


ErrorReader = Callable[[int, "dict[str, Any] | None"], "ReportedError | None"]
"""Returns the error in a response with a status and JSON object. None if the server does not write such errors."""


def owner_error(status: int, found: dict[str, Any] | None) -> ReportedError | None:
    """Return the error of a served commit owner."""
    del status
    error = error_from_json(found)
    return None if error is None else ReportedError(error, is_known_error(found))


@dataclass(frozen=True, slots=True)
class _NoAnswer:
    """An attempt without a final response. `error` is raised at the deadline.

    `is_doubtful`: the request may have been processed.
    """

    error: SlackwaterError
    is_doubtful: bool
    wait_s: float | None = None


class RetryingTransport:
    """Transport for one served owner."""

    def __init__(self, endpoint: str, send: Sender, clock: ClientClock, read_error: ErrorReader = owner_error) -> None:
        self._endpoint = endpoint
        self._send = send
        self._clock = clock
        self._read_error = read_error
        # A refused connection and an unknown host are retried only after a first response: the address may be wrong.
        self._was_there = False

    def ask(self, question: OwnerRequest) -> OwnerReply:
        """Return the owner's response. Raises errors of the owner in the same class.

        Raises:
            CommitOwnerUnavailable: Immediately if the certificate is not trusted, or if the server never responded and
                refuses connections or has an unknown name. At the deadline if there is no response.
            CommitOwnerBusy: At the deadline if the server was busy.
            CommitUnknown: If a commit may have been processed and there is no final response.
        """
        clock, delays = self._clock, backoff(FIRST_WAIT_S, LONGEST_WAIT_S)
        deadline = Deadline(question.patience_s, delays, clock.sleep, clock.monotonic)
        in_doubt = question.is_replay
        while True:
            # Two thirds of the remaining time, so that a further attempt has time.
            found = self._attempt(question, in_doubt, max(_SHORTEST_ATTEMPT_S, deadline.left_s * 2 / 3))
            if isinstance(found, OwnerReply):
                return found
            in_doubt = in_doubt or found.is_doubtful
            if found.wait_s is None:
                # Half of the delay is random, so that clients do not retry simultaneously.
                wait_s = next(delays) * (0.5 + 0.5 * clock.jitter())
            else:
                wait_s = min(max(found.wait_s, FIRST_WAIT_S), LONGEST_ASKED_WAIT_S)
            if wait_s >= deadline.left_s:
                raise self._given_up(question, in_doubt, found.error)
            deadline.sleep(wait_s)

    def _attempt(self, question: OwnerRequest, in_doubt: bool, timeout_s: float) -> OwnerReply | _NoAnswer:
        content = question.content(in_doubt)
        try:
            response = self._send(question, content, timeout_s)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError) as error:
            unavailable = CommitOwnerUnavailable(f"the commit owner at {self._endpoint} cannot be reached: {error}")
            if _is_caused_by(error, ssl.SSLCertVerificationError):
                unavailable = CommitOwnerUnavailable(
                    f"{unavailable}. Its certificate is not trusted here, or is for another name. Pass ca_file "
                    "(--ca-file), or name the file of certificates by SSL_CERT_FILE"
                )
                raise self._given_up(question, in_doubt, unavailable) from error
            hint = None if self._was_there else _wrong_address(error)
            if hint is not None:
                unavailable = CommitOwnerUnavailable(f"{unavailable}. {hint}")
                unavailable.changed_nothing = True
                raise self._given_up(question, in_doubt, unavailable) from error
            return _NoAnswer(unavailable, is_doubtful=False)
        except httpx.RequestError as error:
            return self._lost(f"{type(error).__name__} {error}".strip())
        self._was_there = True
        return self._judged(question, in_doubt, response)

    def _judged(self, question: OwnerRequest, in_doubt: bool, response: httpx.Response) -> OwnerReply | _NoAnswer:
        status, found = response.status_code, _parsed(response)
        if status == httpx.codes.OK:
            return self._lost("a response that is not a JSON object") if found is None else OwnerReply(found)
        if status == httpx.codes.CONFLICT and found is not None and not _CONFLICTS.isdisjoint(found):
            return OwnerReply(found, is_conflict=True)
        reported = self._read_error(status, found)
        if reported is None:
            return self._foreign(question, in_doubt, response)
        error = reported.error
        if isinstance(error, CommitOwnerBusy):
            return _NoAnswer(error, is_doubtful=False, wait_s=_retry_after_s(response))
        if isinstance(error, CommitOwnerUnavailable):
            return _NoAnswer(error, is_doubtful=False)
        is_server_error = status >= httpx.codes.INTERNAL_SERVER_ERROR
        if isinstance(error, CommitUnknown) or (is_server_error and not reported.is_final):
            return _NoAnswer(error, is_doubtful=True)
        if isinstance(error, NotAuthorized) or status == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
            # The server did not call its owner, so an earlier attempt may have been processed.
            raise self._given_up(question, in_doubt, error)
        raise error if reported.ends_doubt else self._given_up(question, in_doubt, error)

    def _foreign(self, question: OwnerRequest, in_doubt: bool, response: httpx.Response) -> _NoAnswer:
        """Interpret a response not sent by a commit owner, but by a proxy or another server."""
        status = response.status_code
        if status == httpx.codes.TOO_MANY_REQUESTS:
            busy = CommitOwnerBusy(f"the proxy of the commit owner at {self._endpoint} accepts no more requests")
            return _NoAnswer(busy, is_doubtful=False, wait_s=_retry_after_s(response))
        if status >= httpx.codes.INTERNAL_SERVER_ERROR or status == httpx.codes.REQUEST_TIMEOUT:
            return self._lost(f"HTTP {status}")
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            refused: SlackwaterError = NotAuthorized(f"{self._endpoint} returned HTTP {status}. Use another token")
        elif status == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
            refused = InvalidArgument(
                f"{self._endpoint} returned HTTP {status}: the commit is too large. Commit less at a time"
            )
        else:
            hint = (
                "a redirect, which is not followed"
                if response.is_redirect
                else "which is not a response of a commit owner"
            )
            refused = CommitOwnerUnavailable(
                f"{self._endpoint} returned HTTP {status}, {hint}. Use the address of `slackwater serve`"
            )
        raise self._given_up(question, in_doubt, refused)

    def _lost(self, what: str) -> _NoAnswer:
        message = f"the commit owner at {self._endpoint} sent no valid response: {what}"
        return _NoAnswer(CommitOwnerUnavailable(message), is_doubtful=True)

    def _given_up(self, question: OwnerRequest, in_doubt: bool, last: SlackwaterError) -> SlackwaterError:
        if not question.is_commit or not in_doubt or isinstance(last, CommitUnknown):
            return last
        unknown = CommitUnknown(
            f"the outcome of the commit is unknown, because the response of {self._endpoint} was lost. Retry with "
            f"the same commit id, or read the log. Last error: {last}"
        )
        unknown.__cause__ = last
        return unknown


def _parsed(response: httpx.Response) -> dict[str, Any] | None:
    try:
        found = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def _retry_after_s(response: httpx.Response) -> float:
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else _BUSY_WAIT_S


def _wrong_address(error: BaseException) -> str | None:
    """Return what to do about an address without a server. None if a later attempt may succeed."""
    if _is_caused_by(error, ConnectionRefusedError):
        return "No server listens there. Start `slackwater serve`, or correct the address"
    # Other errors of name resolution, such as EAI_AGAIN, are temporary.
    if any(isinstance(each, socket.gaierror) and each.errno == socket.EAI_NONAME for each in _causes(error)):
        return "No host has this name. Correct the address"
    return None


def _is_caused_by(error: BaseException, kind: type[Exception]) -> bool:
    """Return whether an error of `kind` is the cause, such as a certificate error. Waiting does not change it."""
    return any(isinstance(each, kind) for each in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
