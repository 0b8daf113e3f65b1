"""Which files become one: what is promised of bins, whatever the files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.log.files.file_actions import ADD_SCHEMA
from slackwater.maintenance.layout.bin_packing import (
    PACKED_BYTES,
    Bin,
    BinPackingOptions,
    bins_of,
    first_fit,
    to_compact,
)
from tests.examples import examples

SIZES = st.lists(st.integers(0, 120), max_size=60)


def files(*given: dict[str, Any]) -> pa.Table:
    rows = []
    for number, row in enumerate(given):
        base = {"path": f"f{number:03}", "partitionValues": [], "size": 10, "modificationTime": number}
        rows.append({**dict.fromkeys(ADD_SCHEMA.names), **base, **row})
    return pa.Table.from_pylist(rows, ADD_SCHEMA)


def vector(deleted: int) -> dict[str, Any]:
    return {"storageType": "u", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 9, "cardinality": deleted}


def paths(bins: Sequence[Bin]) -> list[list[str]]:
    return [each.files["path"].to_pylist() for each in bins]


@settings(max_examples=examples(300), deadline=None)
@given(SIZES, st.integers(1, 100))
def test_everything_is_in_one_bin_that_holds_it_and_no_two_bins_fit_in_one(weights: list[int], capacity: int) -> None:
    bins = first_fit(weights, capacity)
    assert sorted(position for members in bins for position in members) == list(range(len(weights)))
    assert all(members == sorted(members) for members in bins), "in their order"
    full = [sum(weights[at] for at in members) for members in bins]
    assert all(len(members) == 1 or total <= capacity for members, total in zip(bins, full, strict=True))
    assert all(a + b > capacity for at, a in enumerate(full) for b in full[at + 1 :])


@settings(max_examples=examples(100), deadline=None)
@given(SIZES, st.integers(1, 100), st.data())
def test_what_became_of_bins_is_left_alone_in_whatever_order(weights: list[int], most: int, data: Any) -> None:
    packing = BinPackingOptions(most, most)
    bins = bins_of(to_compact(files(*({"size": size} for size in weights)), packing), packing)
    kept = {path for members in paths(bins) for path in members}
    shrunk = [
        {"path": f"new{number}", "size": each.packed_bytes // 3, "tags": [(PACKED_BYTES, str(each.packed_bytes))]}
        for number, each in enumerate(bins)
    ]
    rest = [{"path": f"f{at:03}", "size": size} for at, size in enumerate(weights) if f"f{at:03}" not in kept]
    again = files(*data.draw(st.permutations([*shrunk, *rest])))
    assert bins_of(to_compact(again, packing), packing) == []


def test_small_files_are_taken_and_large_ones_with_many_deleted_rows() -> None:
    stats = json.dumps({"numRecords": 100})
    found = to_compact(
        files(
            {"size": 99},
            {"size": 100},
            {"size": 500, "stats": stats, "deletionVector": vector(5)},
            {"size": 500, "stats": stats, "deletionVector": vector(6)},
            {"size": 20, "tags": [(PACKED_BYTES, "200")]},
            {"size": 20, "tags": [(PACKED_BYTES, "no number")]},
        ),
        BinPackingOptions(100, 1000),
    )
    assert found["path"].to_pylist() == ["f000", "f003", "f005"]


def test_files_go_together_within_their_partition_and_as_they_came() -> None:
    def at(value: str | None, time: int) -> dict[str, Any]:
        return {"partitionValues": [("p", value)], "modificationTime": time}

    found = bins_of(files(at("b", 5), at("a", 4), at("b", 3), at(None, 2), at("", 1), at("c", 0)), BinPackingOptions())
    assert sorted(paths(found)) == [["f002", "f000"], ["f004", "f003"]], "an empty text is a null; c is alone"
    assert {each.partition_values["p"] for each in found} == {"b", None}
    by_row_id = files(*({"baseRowId": base} for base in (30, 10, 20)))
    assert paths(bins_of(by_row_id, BinPackingOptions())) == [["f001", "f002", "f000"]]


def test_a_file_alone_is_rewritten_for_its_deleted_rows_only() -> None:
    alone = files({})
    assert bins_of(alone, BinPackingOptions()) == []
    assert paths(bins_of(alone, BinPackingOptions(), rewrites_single=True)) == [["f000"]]
    assert paths(bins_of(files({"deletionVector": vector(1)}), BinPackingOptions())) == [["f000"]]
