"""Requests of a client that are sent until they are answered, and what an answer means.

A request whose answer was lost may have been carried out: it is sent again, marked as a replay, and only then can
anybody say what became of it.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
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
from slackwater.owner.served.client.deadline import ClientClock, Deadline
from slackwater.owner.served.wire.errors import error_from_json, is_known_error

_BUSY_WAIT_S = 1.0
_CONFLICTS = frozenset(camel(each.name) for kind in (CommitConflict, TransactionConflict) for each in fields(kind))


@dataclass(frozen=True, slots=True)
class OwnerRequest:
    """One request: `body` makes its content, told whether an earlier attempt may have been carried out.

    `is_commit`: what it does counts once, and it has to be known whether it does. `is_replay`: it was asked before.
    """

    method: str
    path: str
    body: Callable[[bool], Mapping[str, Any]] | None = None
    query: Mapping[str, str] | None = None
    is_commit: bool = False
    is_replay: bool = False
    patience_s: float = 30.0


@dataclass(frozen=True, slots=True)
class OwnerReply:
    """An answer of the owner: `is_conflict` where the version is another commit's, or those of several tables."""

    value: dict[str, Any]
    is_conflict: bool = False


class Sender(Protocol):
    """Sends a request once; errors are those of httpx."""

    def __call__(self, question: OwnerRequest, content: bytes | None, timeout_s: float) -> httpx.Response:
        """The answer to `question` with the body `content`, whatever its status."""
        ...


@dataclass(frozen=True, slots=True)
class _NoAnswer:
    """Nothing that decides: `error` stands where nothing better comes, `is_doubtful` where it may have been done."""

    error: SlackwaterError
    is_doubtful: bool
    wait_s: float | None = None


class RetryingTransport:
    """Asks one served owner."""

    def __init__(self, endpoint: str, send: Sender, clock: ClientClock) -> None:
        self._endpoint = endpoint
        self._send = send
        self._clock = clock
        # A server that was there once may be started again; before that, nobody listens at a wrong address either.
        self._was_there = False

    def ask(self, question: OwnerRequest) -> OwnerReply:
        """The owner's answer. Raises what the owner raised, as the same class.

        Where nothing listens before the server has answered once: CommitOwnerUnavailable, immediately. Where no answer
        comes in time: CommitUnknown if a commit may have been carried out, else CommitOwnerUnavailable, or
        CommitOwnerBusy where the server said so.
        """
        patience = Deadline(question.patience_s, self._clock)
        in_doubt = question.is_replay
        while True:
            found = self._attempt(question, in_doubt, patience.attempt_s())
            if isinstance(found, OwnerReply):
                return found
            in_doubt = in_doubt or found.is_doubtful
            if not patience.wait(found.wait_s):
                raise self._given_up(question, in_doubt, found.error)

    def _attempt(self, question: OwnerRequest, in_doubt: bool, timeout_s: float) -> OwnerReply | _NoAnswer:
        content = None if question.body is None else _dumped(question.body(in_doubt))
        try:
            response = self._send(question, content, timeout_s)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError) as error:
            unavailable = CommitOwnerUnavailable(f"the commit owner at {self._endpoint} cannot be reached: {error}")
            if _is_caused_by(error, ssl.SSLCertVerificationError):
                unavailable = CommitOwnerUnavailable(
                    f"{unavailable}; its certificate is of nobody that is trusted here, or for another name: give "
                    "ca_file (--ca-file), or name the file of certificates by SSL_CERT_FILE"
                )
                raise self._given_up(question, in_doubt, unavailable) from error
            if not self._was_there and _is_caused_by(error, ConnectionRefusedError):
                unavailable = CommitOwnerUnavailable(
                    f"{unavailable}. Nothing listens there: start `slackwater serve`, or correct the address"
                )
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
            return self._lost("an answer that is no JSON object") if found is None else OwnerReply(found)
        if status == httpx.codes.CONFLICT and found is not None and not _CONFLICTS.isdisjoint(found):
            return OwnerReply(found, is_conflict=True)
        error = error_from_json(found)
        if error is None:
            return self._foreign(question, in_doubt, response)
        if isinstance(error, CommitOwnerBusy):
            return _NoAnswer(error, is_doubtful=False, wait_s=_retry_after_s(response))
        if isinstance(error, CommitOwnerUnavailable):
            return _NoAnswer(error, is_doubtful=False)
        is_server_error = status >= httpx.codes.INTERNAL_SERVER_ERROR
        if isinstance(error, CommitUnknown) or (is_server_error and not is_known_error(found)):
            return _NoAnswer(error, is_doubtful=True)
        if isinstance(error, NotAuthorized) or status == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
            # The server did not ask its owner: an earlier attempt may have been carried out.
            raise self._given_up(question, in_doubt, error)
        raise error

    def _foreign(self, question: OwnerRequest, in_doubt: bool, response: httpx.Response) -> _NoAnswer:
        """What an answer means that is none of a commit owner's: of a proxy in between, or of another server."""
        status = response.status_code
        if status == httpx.codes.TOO_MANY_REQUESTS:
            busy = CommitOwnerBusy(f"what stands before the commit owner at {self._endpoint} takes no more requests")
            return _NoAnswer(busy, is_doubtful=False, wait_s=_retry_after_s(response))
        if status >= httpx.codes.INTERNAL_SERVER_ERROR or status == httpx.codes.REQUEST_TIMEOUT:
            return self._lost(f"HTTP {status}")
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            refused: SlackwaterError = NotAuthorized(f"{self._endpoint} answers HTTP {status}: use another token")
        elif status == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
            refused = InvalidArgument(f"{self._endpoint} answers HTTP {status}: the commit is too large, commit less")
        else:
            hint = "a redirect, which is not followed" if response.is_redirect else "not as a commit owner does"
            refused = CommitOwnerUnavailable(
                f"{self._endpoint} answers HTTP {status}, {hint}: give the address of `slackwater serve`"
            )
        raise self._given_up(question, in_doubt, refused)

    def _lost(self, what: str) -> _NoAnswer:
        message = f"the commit owner at {self._endpoint} gave no answer: {what}"
        return _NoAnswer(CommitOwnerUnavailable(message), is_doubtful=True)

    def _given_up(self, question: OwnerRequest, in_doubt: bool, last: SlackwaterError) -> SlackwaterError:
        if not question.is_commit or not in_doubt or isinstance(last, CommitUnknown):
            return last
        unknown = CommitUnknown(
            f"whether the commit counts is not known, for the answer of {self._endpoint} was lost; ask again with the "
            f"same commit id, or read the log. Last: {last}"
        )
        unknown.__cause__ = last
        return unknown


def _dumped(body: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(body)
    except TypeError as error:
        raise InvalidArgument(f"the request cannot be written as JSON: {error}") from error


def _parsed(response: httpx.Response) -> dict[str, Any] | None:
    try:
        found = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def _retry_after_s(response: httpx.Response) -> float:
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else _BUSY_WAIT_S


def _is_caused_by(error: BaseException | None, kind: type[Exception]) -> bool:
    """Whether an error of this kind is the reason, as one of a certificate, which waiting does not change."""
    while error is not None:
        if isinstance(error, kind):
            return True
        error = error.__cause__ or error.__context__
    return False
