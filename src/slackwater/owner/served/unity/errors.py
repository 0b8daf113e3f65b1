"""Errors on the routes of Unity Catalog, in the two forms of its API.

The Delta API has `error` with a message, a type and a code. The other routes have `error_code` and a message.
Source: unitycatalog `api/delta.yaml` (DeltaErrorModel, DeltaErrorType).
"""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.errors import (
    CommitFailed,
    CommitOwnerBusy,
    CommitUnknown,
    ConcurrentWriteException,
    CorruptTable,
    DeltaConcurrentModificationException,
    InvalidArgument,
    NotAuthorized,
    OperationNotAllowed,
    SlackwaterError,
    TableAlreadyExists,
    TableNotFound,
    UnsupportedFeature,
)
from slackwater.html.redaction import without_secrets
from slackwater.owner.api.field_types import Listed
from slackwater.owner.api.wire_model import Json, ResponseModel
from slackwater.owner.served.wire.errors import INTERNAL, status_of

PREFIX = "/api/2.1/unity-catalog"
DELTA = f"{PREFIX}/delta/v1"
_OTHER_PREFIX = "/api/2.0"
_NAMES = {"alias_generator": lambda name: name}
_UNAUTHENTICATED = 401


class RequirementFailed(ConcurrentWriteException):
    """A requirement of an update does not hold. The client must load the table again."""


@dataclass(frozen=True, slots=True)
class DeltaError(ResponseModel):
    """An error of the Delta API: its type in the API, and the status of the response."""

    message: str
    type: str
    code: int


@dataclass(frozen=True, slots=True)
class DeltaErrorAnswer(ResponseModel):
    """The response of the Delta API with an error."""

    error: DeltaError


@dataclass(frozen=True, slots=True)
class UnityErrorAnswer(ResponseModel):
    """The response of the other routes of Unity Catalog with an error."""

    __pydantic_config__ = ResponseModel.__pydantic_config__ | _NAMES

    error_code: str
    message: str
    details: Listed[str] = ()


# The nearest base class of an error decides: its type, and its status if the API's differs from ours.
_TYPES: dict[type[SlackwaterError], tuple[str, int | None]] = {
    SlackwaterError: ("InternalServerErrorException", None),
    InvalidArgument: ("InvalidParameterValueException", None),
    NotAuthorized: ("PermissionDeniedException", None),
    TableNotFound: ("NoSuchTableException", None),
    TableAlreadyExists: ("AlreadyExistsException", None),
    DeltaConcurrentModificationException: ("CommitVersionConflictException", None),
    RequirementFailed: ("UpdateRequirementConflictException", None),
    # Not 409, because a client would load the table and try again.
    OperationNotAllowed: ("BadRequestException", 400),
    CorruptTable: ("BadRequestException", 400),
    UnsupportedFeature: ("NotImplementedException", None),
    CommitOwnerBusy: ("TooManyRequestsException", None),
    CommitUnknown: ("CommitStateUnknownException", INTERNAL),
    CommitFailed: ("InternalServerErrorException", None),
}


def is_unity(path: str) -> bool:
    """Return whether the path belongs to the API of Unity Catalog."""
    return path.startswith((f"{PREFIX}/", f"{_OTHER_PREFIX}/"))


def unity_error(path: str, error: SlackwaterError, status: int | None) -> tuple[Json, int]:
    """Return the body and the status of the response with `error`. `status` is that of a rejected request, if any."""
    name, own_status = next(_TYPES[kind] for kind in type(error).__mro__ if kind in _TYPES)
    code = status or own_status or status_of(error)
    if code == _UNAUTHENTICATED:
        name = "NotAuthorizedException"
    message = without_secrets(str(error))
    if path.startswith(f"{DELTA}/"):
        return DeltaErrorAnswer(DeltaError(message, name, code)).to_json(), code
    return UnityErrorAnswer(name, message).to_json(), code
