from __future__ import annotations

from typing import Any

import pytest

from slackwater.owner.api.granules import ANY, MOST_GRANULES, checked, granule, locked, stamped, written_granules
from slackwater.owner.api.transactions import WHOLE, Item


def added(**values: str | None) -> dict[str, Any]:
    return {"add": {"path": "x", "partitionValues": values, "dataChange": True}}


@pytest.mark.parametrize(
    ("one", "other"),
    [("5", "05"), ("5", "+5"), ("-3", "-03"), ("2026-1-5", "2026-01-05"), ("true", "True"), ("", None)],
)
def test_texts_that_may_be_the_same_value_are_one_granule(one: str, other: str | None) -> None:
    assert granule("p", one) == granule("p", other)


@pytest.mark.parametrize(("one", "other"), [("5", "6"), ("a", "A"), ("2026-01-05", "2026-01-06"), ("a", None)])
def test_other_values_are_others(one: str, other: str | None) -> None:
    assert granule("p", one) != granule("p", other)
    assert granule("p", one) != granule("q", one)


def test_a_long_value_has_a_short_granule_of_its_own() -> None:
    long, longer = granule("p", "x" * 5000), granule("p", "x" * 5001)
    assert long != longer
    assert len(long) <= 512


def test_a_write_is_of_the_partitions_whose_rows_it_changes() -> None:
    found = written_granules(
        [{"commitInfo": {}}, added(p="1"), {"remove": {"path": "y", "partitionValues": {"p": "2"}}}]
    )
    assert found == sorted([granule("p", "1"), granule("p", "2")])


def test_rows_that_are_only_rearranged_are_not_written() -> None:
    action = added(p="1")
    action["add"]["dataChange"] = False
    assert written_granules([action]) == []


@pytest.mark.parametrize(
    "action", [{"metaData": {}}, {"protocol": {}}, {"remove": {"path": "y"}}], ids=["metadata", "protocol", "unknown"]
)
def test_a_write_that_does_not_say_where_is_of_the_whole_table(action: dict[str, Any]) -> None:
    assert written_granules([added(p="1"), action]) is None


def test_a_write_of_many_partitions_is_of_the_whole_table() -> None:
    assert written_granules([added(p=str(n)) for n in range(MOST_GRANULES + 1)]) is None


@pytest.mark.parametrize("read", [(WHOLE,), ("g",), ("g", "h")])
@pytest.mark.parametrize("written", [None, [], ["g"], ["h", "i"]])
def test_a_reader_and_a_writer_of_the_same_rows_always_meet(read: tuple[str, ...], written: list[str] | None) -> None:
    met = set(stamped("t", read)) & set(checked("t", written))
    same = written is None or WHOLE in read or bool(set(read) & set(written))
    assert bool(met) == same


def test_readers_of_partitions_are_known_to_who_writes_anywhere() -> None:
    assert Item("t", ANY) in stamped("t", ["g"])
    assert Item("t", ANY) in checked("t", None)


def test_locks_are_of_the_table_where_the_partitions_are_not_known() -> None:
    assert locked("t", None) == locked("t", []) == locked("t", (WHOLE,)) == [Item("t")]
    assert locked("t", ["g"]) == [Item("t", "g")]
