from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any, cast, get_args, get_type_hints

import pytest

from slackwater.errors import InvalidArgument
from slackwater.owner.api.commits import CommitConflict, CommitResponse, GetCommitsResponse
from slackwater.owner.api.field_types import Id, Instant, Known, Name, Version
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import Item, LockRequest, Timeout, TransactionConflict
from slackwater.owner.api.wire_model import RequestModel, ResponseModel, WireModel, WireType, camel, checked, read
from slackwater.owner.served.wire import calls

ID = "11111111-2222-4333-8444-555555555555"


@dataclasses.dataclass(frozen=True, slots=True)
class _Pair(RequestModel):
    one: TimestampRange
    other: TimestampRange


def _values(kind: type[WireModel]) -> set[type[WireModel]]:
    return {kind, *(each for below in kind.__subclasses__() for each in _values(below))} - {
        WireModel,
        RequestModel,
        ResponseModel,
    }


VALUES = sorted(_values(WireModel), key=lambda kind: kind.__name__)


def _rules(hint: Any) -> list[int]:
    """How many `WireType` the annotations in `hint` have, each."""
    found = [sum(isinstance(each, WireType) for each in getattr(hint, "__metadata__", ()))]
    return found + [count for each in get_args(hint) for count in _rules(each)]


@pytest.mark.parametrize("kind", VALUES)
def test_each_field_is_said_once_what_it_is_on_the_wire(kind: Any) -> None:
    """Of two that stand side by side only the last would be heard."""
    is_dataclass: bool = dataclasses.is_dataclass(kind)
    assert is_dataclass
    hints = get_type_hints(kind, include_extras=True)
    assert [field.name for field in dataclasses.fields(kind) if max(_rules(hints[field.name])) > 1] == []
    assert {kind.in_path, *kind.always_sent} - {""} <= {field.name for field in dataclasses.fields(kind)}


def test_the_values_of_the_contract_and_of_calls_are_looked_at() -> None:
    assert {LockRequest, GetCommitsResponse, calls.PrepareRequest} <= set(VALUES)


@pytest.mark.parametrize("kind", [Id, Name, Version, Known, Instant, Timeout])
def test_what_is_checked_before_it_is_sent_is_told_in_words(kind: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^the field is (a|1) .*[0-9].*, found \[\]$"):
        checked(kind, "field", [])


@pytest.mark.parametrize(("name", "key"), [("version", "version"), ("table_id", "tableId"), ("a_b_ms", "aBMs")])
def test_keys_are_in_camel_case(name: str, key: str) -> None:
    assert camel(name) == key


@pytest.mark.parametrize(
    ("kind", "found", "message"),
    [
        (CommitConflict, {"latestVersion": True}, "latestVersion: Input should be a valid integer"),
        (CommitConflict, {"latestVersion": "7"}, "latestVersion: Input should be a valid integer"),
        (CommitConflict, {"latestVersion": -2}, "latestVersion: Input should be greater than or equal to -1"),
        (CommitResponse, {"commit": None, "latestVersion": 1}, "commit: Input should be a dictionary"),
        (TransactionConflict, {"latestVersions": {ID: 1.5}}, f"latestVersions.{ID}: Input should be a valid integer"),
        (Item, {"tableId": ID, "granule": None}, "granule: Input should be a valid string"),
        (Item, [], "all of it: Input should be a dictionary"),
    ],
)
def test_what_is_no_such_value_is_refused_and_where_is_said(kind: type[WireModel], found: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^expected {kind.__name__}, found otherwise: {message}"):
        kind.from_json(found)


def test_a_whole_number_may_be_written_with_a_point() -> None:
    assert CommitConflict.from_json({"latestVersion": 7.0}) == CommitConflict(7)


def test_a_value_that_stands_twice_in_another_is_the_same_both_times() -> None:
    found = {"lowMs": 4, "highMs": None}
    both = read(dict[str, TimestampRange], {"one": found, "other": found}, "two ranges")
    assert both == {"one": TimestampRange(4), "other": TimestampRange(4)}
    with pytest.raises(ValueError, match=r"expected two ranges, found otherwise: other.highMs: Field required"):
        read(dict[str, TimestampRange], {"one": found, "other": {"lowMs": 4}}, "two ranges")
    pair = read(dict[str, _Pair], {"x": {"one": found, "other": found}}, "a pair")
    assert pair == {"x": _Pair(TimestampRange(4), TimestampRange(4))}


def test_an_answer_that_cannot_be_written_is_no_refusal_of_what_was_asked() -> None:
    with pytest.raises(ValueError, match="Expected `int`") as raised:
        CommitConflict(cast(int, "7")).to_json()
    assert not isinstance(raised.value, InvalidArgument)


def test_this_process_makes_values_without_a_check_and_without_pydantic() -> None:
    program = (
        "import sys, slackwater, slackwater.owner.embedded\n"
        "from slackwater.owner.api.transactions import Item\n"
        "assert Item('of any form').table_id == 'of any form'\n"
        "assert not {'pydantic', 'fastapi'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
