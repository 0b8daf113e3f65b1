from __future__ import annotations

from collections.abc import Sequence

import pytest

from slackwater.owner.api.granules import MOST_GRANULES, granule
from slackwater.owner.api.transactions import WHOLE
from slackwater.predicate.sql import parse_predicate
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.conflicts.granule_reads import granules_read, granules_where
from slackwater.transaction.row_reads import ConditionRead
from slackwater.transaction.staged import ReadSet
from tests.transaction.tables import table

_TYPES = {
    "s": "string", "y": "byte", "h": "short", "i": "integer", "l": "long", "d": "date", "b": "boolean",
    "t": "timestamp", "f": "double",
}  # fmt: skip


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    return table({**_TYPES, "v": "long"}, tuple(_TYPES))


@pytest.mark.parametrize(
    ("condition", "granules"),
    [
        ("s = 'a'", [("s", "a")]),
        ("S = 'a' AND v > 3", [("s", "a")]),
        ("i = 5", [("i", "5")]),
        ("y = 3", [("y", "3")]),
        ("h = 4", [("h", "4")]),
        ("l IN (1, 2)", [("l", "1"), ("l", "2")]),
        ("d = DATE '2026-11-21'", [("d", "2026-11-21")]),
        ("b = true", [("b", "true")]),
        ("s IS NULL", [("s", None)]),
        ("s = 'a' OR i = 5", [("s", "a"), ("i", "5")]),
        ("s IN ('a', 'b') AND i = 5", [("i", "5")]),
        ("v = 1 AND v = 2 AND s = 'a'", [("s", "a")]),
        ("false", []),
    ],
)
def test_a_condition_that_pins_partition_columns_reads_these_partitions(
    snapshot: Snapshot, condition: str, granules: list[tuple[str, str | None]]
) -> None:
    expected = sorted(granule(column, value) for column, value in granules)
    assert granules_where(snapshot, parse_predicate(condition, snapshot.schema)) == expected


@pytest.mark.parametrize(
    "condition",
    [
        "v = 1", "true", "s > 'a'", "s = 'a' OR v = 1", "NOT s = 'a'", "s LIKE 'a%'", "s = ''",
        "t = TIMESTAMP '2026-11-21 00:00:00'", "f = 1.5", "upper(s) = 'A'",
    ],
)  # fmt: skip
def test_any_other_condition_reads_the_whole_table(snapshot: Snapshot, condition: str) -> None:
    assert granules_where(snapshot, parse_predicate(condition, snapshot.schema)) == (WHOLE,)


def test_many_partitions_are_the_whole_table(snapshot: Snapshot) -> None:
    def read(number: int) -> list[Sequence[str]]:
        each = [parse_predicate(f"i = {value}", snapshot.schema) for value in range(number)]
        together = parse_predicate(f"i IN ({', '.join(map(str, range(number)))})", snapshot.schema)
        return [
            granules_read(snapshot, ReadSet([ConditionRead(one) for one in each])),
            granules_where(snapshot, together),
        ]

    most = sorted(granule("i", str(value)) for value in range(MOST_GRANULES))
    assert read(MOST_GRANULES) == [most, most]
    assert read(MOST_GRANULES + 1) == [(WHOLE,), (WHOLE,)]


def test_all_conditions_together_read_what_each_does(snapshot: Snapshot) -> None:
    reads = ReadSet()
    for condition in ("s = 'a'", "i = 5"):
        reads.read(parse_predicate(condition, snapshot.schema))
    assert granules_read(snapshot, reads) == sorted([granule("s", "a"), granule("i", "5")])
    reads.read_all()
    assert granules_read(snapshot, reads) == (WHOLE,)


def test_the_progress_of_an_application_is_nobody_s_partition(snapshot: Snapshot) -> None:
    assert granules_read(snapshot, ReadSet(app_ids={"loader"})) == (WHOLE,)
    assert granules_read(snapshot, ReadSet()) == []
