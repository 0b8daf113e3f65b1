from __future__ import annotations

import pytest

from slackwater.errors import CorruptTable
from slackwater.protocol.properties import TableProperties


def test_keys_are_found_in_any_case_and_kept_as_they_are() -> None:
    properties = TableProperties({"delta.appendOnly": "true", "Owner": "me"})
    assert properties["DELTA.APPENDONLY"] == "true"
    assert properties.get("owner") == "me"
    assert "delta.APPENDonly" in properties
    assert dict(properties) == {"delta.appendOnly": "true", "Owner": "me"}
    assert len(properties) == 2
    assert "delta.other" not in properties
    with pytest.raises(KeyError):
        properties["delta.other"]


def test_of_two_keys_that_differ_by_case_the_exact_one_is_found() -> None:
    properties = TableProperties({"a.B": "1", "A.b": "2"})
    assert (properties["a.B"], properties["A.b"]) == ("1", "2")


def test_properties_do_not_change_with_the_map_they_were_made_of() -> None:
    source = {"a": "1"}
    properties = TableProperties(source)
    source["a"] = "2"
    assert properties["a"] == "1"


@pytest.mark.parametrize(("text", "value"), [("true", True), ("TRUE", True), ("false", False), ("False", False)])
def test_a_flag_is_true_or_false_in_any_case(text: str, value: bool) -> None:
    assert TableProperties({"f": text}).flag("F", default=not value) is value


def test_a_flag_that_is_not_set_is_its_default() -> None:
    assert TableProperties({}).flag("f") is False
    assert TableProperties({}).flag("f", default=True) is True


@pytest.mark.parametrize("text", ["", "yes", "1", " true"])
def test_a_flag_that_is_neither_is_named(text: str) -> None:
    with pytest.raises(CorruptTable, match=r"property delta\.f must be true or false"):
        TableProperties({"delta.f": text}).flag("delta.f")


def test_a_whole_number_is_read_and_none_where_it_is_not_set() -> None:
    properties = TableProperties({"n": "9223372036854775807", "m": "-1"})
    assert properties.integer("N") == 2**63 - 1
    assert properties.integer("m") == -1
    assert properties.integer("k") is None


@pytest.mark.parametrize("text", ["", "ten", "1.5", "0x10"])
def test_a_whole_number_that_is_none_is_named(text: str) -> None:
    with pytest.raises(CorruptTable, match=r"property delta\.n must be a whole number"):
        TableProperties({"delta.n": text}).integer("delta.n")
