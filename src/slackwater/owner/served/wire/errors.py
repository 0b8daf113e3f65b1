"""Errors in HTTP responses. Each class of the error tree has a status. The client raises the same class."""

from __future__ import annotations

from typing import Any

from slackwater import errors
from slackwater.errors import (
    ChangeFeedNotEnabled,
    CommitError,
    CommitOwnerBusy,
    CommitOwnerUnavailable,
    CommitUnknown,
    CorruptTable,
    DeltaConcurrentModificationException,
    InvalidArgument,
    InvariantViolationException,
    NotAuthorized,
    OperationNotAllowed,
    PathNotAllowed,
    SlackwaterError,
    TableAlreadyExists,
    TableNotFound,
    TimestampOutOfRange,
    UnsupportedFeature,
    VersionNotFound,
)
from slackwater.html.redaction import without_secrets
from slackwater.owner.api.wire_model import Json
from slackwater.owner.served.wire.calls import ErrorAnswer

INTERNAL = 500

# The nearest base class of an error decides.
_STATUS: dict[type[SlackwaterError], int] = {
    SlackwaterError: INTERNAL,
    InvalidArgument: 400,
    ChangeFeedNotEnabled: 400,
    PathNotAllowed: 400,
    InvariantViolationException: 400,
    NotAuthorized: 403,
    TableNotFound: 404,
    VersionNotFound: 404,
    TimestampOutOfRange: 404,
    TableAlreadyExists: 409,
    DeltaConcurrentModificationException: 409,
    # The state of the table forbids the operation, so a retry is useless.
    OperationNotAllowed: 409,
    CorruptTable: 409,
    UnsupportedFeature: 501,
    CommitOwnerBusy: 429,
    CommitOwnerUnavailable: 503,
    CommitUnknown: 504,
}


def status_of(error: SlackwaterError) -> int:
    """Return the HTTP status of `error`."""
    return next(_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)


def error_to_json(error: SlackwaterError) -> Json:
    """Return `error` (the class), `message`, `errorClass`, `retryable` and `conflict`."""
    return ErrorAnswer(
        error=_public_name(type(error)),
        message=without_secrets(str(error)),
        retryable=error.retryable,
        conflict=isinstance(error, CommitError) and error.conflict,
        error_class=error.error_class,
    ).to_json()


def error_from_json(found: Any) -> SlackwaterError | None:
    """Return the error written by `error_to_json`, None for foreign content.

    A class unknown to this version becomes SlackwaterError, with its name in the message.
    """
    if not isinstance(found, dict):
        return None
    name, message, error_class = found.get("error"), found.get("message"), found.get("errorClass")
    if not isinstance(name, str) or not isinstance(message, str):
        return None
    kind = _named(name)
    named = error_class if isinstance(error_class, str) else None
    return (
        SlackwaterError(f"{name}: {message}", error_class=named) if kind is None else kind(message, error_class=named)
    )


def is_known_error(found: Any) -> bool:
    """Return whether this version has the class of the error in `found`."""
    return isinstance(found, dict) and isinstance(found.get("error"), str) and _named(found["error"]) is not None


def _named(name: str) -> type[SlackwaterError] | None:
    kind = getattr(errors, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, SlackwaterError) else None


def _public_name(kind: type[SlackwaterError]) -> str:
    """Return the nearest class in the error tree, because the client does not know classes derived elsewhere."""
    return next(parent.__name__ for parent in kind.__mro__ if parent.__module__ == errors.__name__)
