from __future__ import annotations

import orjson
import pytest

from slackwater import errors
from slackwater.errors import (
    CommitFailed,
    CommitOwnerBusy,
    CommitUnknown,
    DeadlockDetected,
    InvalidArgument,
    LockTimeout,
    NotAuthorized,
    PathNotAllowed,
    SlackwaterError,
    TableNotFound,
    TimestampConflict,
    TransactionEnded,
)
from slackwater.owner.served.wire.errors import error_from_json, error_to_json, is_known_error, status_of

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SlackwaterError)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_comes_back_as_itself(kind: type[SlackwaterError]) -> None:
    error = kind("what went wrong: 'näher'")
    sent = orjson.loads(orjson.dumps(error_to_json(error)))
    back = error_from_json(sent)
    assert type(back) is kind
    assert str(back) == str(error)
    assert back.error_class == error.error_class
    assert (sent["retryable"], sent["conflict"]) == (
        getattr(error, "retryable", False),
        getattr(error, "conflict", False),
    )
    assert is_known_error(sent)


def test_an_error_class_that_was_given_to_an_error_comes_back_with_it() -> None:
    sent = error_to_json(InvalidArgument("no", error_class="DELTA_ILLEGAL_OPTION"))
    back = error_from_json(sent)
    assert back is not None
    assert (back.error_class, back.sqlstate) == ("DELTA_ILLEGAL_OPTION", "42616")
    of_an_older_server = error_from_json({key: value for key, value in sent.items() if key != "errorClass"})
    assert of_an_older_server is not None
    assert of_an_older_server.error_class is None


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_has_a_status_that_says_failure(kind: type[SlackwaterError]) -> None:
    assert 400 <= status_of(kind("x")) < 600


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (InvalidArgument, 400),
        (PathNotAllowed, 400),
        (NotAuthorized, 403),
        (TableNotFound, 404),
        (CommitOwnerBusy, 429),
        (CommitFailed, 500),
        (CommitUnknown, 504),
        (TransactionEnded, 400),
        (TimestampConflict, 409),
        (LockTimeout, 409),
        (DeadlockDetected, 409),
    ],
)
def test_the_status_fits_the_error(kind: type[SlackwaterError], status: int) -> None:
    assert status_of(kind("x")) == status


def test_an_error_derived_elsewhere_travels_as_the_one_it_is() -> None:
    class Own(TableNotFound):
        pass

    assert type(error_from_json(error_to_json(Own("x")))) is TableNotFound
    assert status_of(Own("x")) == 404


def test_an_error_of_a_newer_version_is_an_error_and_keeps_its_name() -> None:
    found = {"error": "TableIsOnTheMoon", "message": "look up"}
    assert type(error_from_json(found)) is SlackwaterError
    assert str(error_from_json(found)) == "TableIsOnTheMoon: look up"
    assert not is_known_error(found)


@pytest.mark.parametrize("name", ["CheckpointFallbackWarning", "annotations", "__doc__"])
def test_a_name_that_is_no_error_of_the_tree_makes_none(name: str) -> None:
    assert type(error_from_json({"error": name, "message": "x"})) is SlackwaterError


@pytest.mark.parametrize(
    "found", [None, [], {}, {"error": "TableNotFound"}, {"error": 1, "message": "x"}, {"detail": "x"}]
)
def test_what_is_no_error_of_ours_is_none(found: object) -> None:
    assert error_from_json(found) is None
