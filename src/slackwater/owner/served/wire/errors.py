"""Errors as HTTP answers: each class of the tree has a status, and comes back on the other side as the same class."""

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

# The nearest class of an error's line of descent decides.
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
    # What the table is like forbids it: to ask again changes nothing.
    OperationNotAllowed: 409,
    CorruptTable: 409,
    UnsupportedFeature: 501,
    CommitOwnerBusy: 429,
    CommitOwnerUnavailable: 503,
    CommitUnknown: 504,
}


def status_of(error: SlackwaterError) -> int:
    """The HTTP status of `error`."""
    return next(_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)


def error_to_json(error: SlackwaterError) -> Json:
    """`error` (the class), `message`, `errorClass`, `retryable` and `conflict`, as the commit errors have them."""
    return ErrorAnswer(
        error=_public_name(type(error)),
        message=without_secrets(str(error)),
        retryable=isinstance(error, CommitError) and error.retryable,
        conflict=isinstance(error, CommitError) and error.conflict,
        error_class=error.error_class,
    ).to_json()


def error_from_json(found: Any) -> SlackwaterError | None:
    """The error that `error_to_json` wrote; None for what is no error of ours.

    A class that this version does not know becomes SlackwaterError, with its name in the message.
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
    """Whether this version has the class of the error in `found`."""
    return isinstance(found, dict) and isinstance(found.get("error"), str) and _named(found["error"]) is not None


def _named(name: str) -> type[SlackwaterError] | None:
    kind = getattr(errors, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, SlackwaterError) else None


def _public_name(kind: type[SlackwaterError]) -> str:
    """The nearest class that stands in the tree: one that somebody derived elsewhere is not known on the other side."""
    return next(parent.__name__ for parent in kind.__mro__ if parent.__module__ == errors.__name__)
