"""How the files of a table lie: held to what a scan reads, and to the rule that OPTIMIZE goes by."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater
from slackwater.errors import InvalidArgument
from slackwater.maintenance.layout.bin_packing import BinPackingOptions, bins_of, to_compact
from slackwater.protocol.actions.files import AddFile
from slackwater.scan.snapshot import Snapshot
from slackwater.visualization.layout import Layout, layout_of
from slackwater.visualization.layout_page import layout_page
from tests.examples import examples
from tests.transaction.tables import VECTORS, add, schema, vector

COLUMNS = {"id": "long", "name": "string", "at": "timestamp", "price": "decimal(10,2)"}


def file(path: str, low: Mapping[str, Any], high: Mapping[str, Any], rows: int = 10, **more: Any) -> AddFile:
    nulls = dict.fromkeys(COLUMNS, 0)
    stats = {"numRecords": rows, "minValues": dict(low), "maxValues": dict(high), "nullCount": nulls}
    return replace(add(path, partition=more.pop("partition", None)), stats=json.dumps(stats), **more)


def table(path: Path, files: Sequence[AddFile], **more: Any) -> Snapshot:
    transaction = slackwater.Transaction.create(path, schema(COLUMNS), **more)
    transaction.add(*files)
    transaction.commit("WRITE")
    return Snapshot.load(path)


def of(layout: Layout, column: str) -> tuple[float, int, float]:
    found = next(each for each in layout.columns if each.column == column)
    return found.mean_depth, found.max_depth, found.look_up_files


def test_files_one_after_the_other_are_one_deep(tmp_path: Path) -> None:
    files = [file(f"f{at}", {"id": at * 10}, {"id": at * 10 + 9}) for at in range(5)]
    assert of(layout_of(table(tmp_path, files)), "id") == (1.0, 1, 1.0)


def test_files_over_all_values_are_as_deep_as_they_are_many(tmp_path: Path) -> None:
    files = [file(f"f{at}", {"id": 0}, {"id": 9}) for at in range(5)]
    found = layout_of(table(tmp_path, files))
    assert of(found, "id") == (5.0, 5, 5.0)
    assert [each.column for each in found.columns] == ["id"], "of others no bounds are known"


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)), min_size=1, max_size=12))
def test_the_depth_of_a_value_is_the_number_of_files_that_a_scan_for_it_reads(
    tmp_path_factory: pytest.TempPathFactory, ranges: list[tuple[int, int]]
) -> None:
    files = [file(f"f{at}", {"id": low}, {"id": low + wide}, rows=at + 1) for at, (low, wide) in enumerate(ranges)]
    snapshot = table(tmp_path_factory.mktemp("t"), files)
    ends = sorted({end for low, wide in ranges for end in (low, low + wide)})
    read = {end: snapshot.report(f"id = {end}").kept_files for end in ends}
    weights = range(1, len(ranges) + 1)
    rows = sum(weight * (read[low] + read[low + wide]) / 2 for weight, (low, wide) in zip(weights, ranges, strict=True))
    mean, most, look_up = of(layout_of(snapshot), "id")
    assert mean == pytest.approx(sum(read.values()) / len(read))
    assert most == max(read.values())
    assert look_up == pytest.approx(rows / sum(weights))


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("name", ["a", "b", "ö", "zz"]),
        ("at", ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-04T00:00:00Z"]),
        ("price", [1.5, 2.25, 10, 99.99]),
    ],
)
def test_every_type_with_an_order_has_a_depth(tmp_path: Path, column: str, values: Sequence[Any]) -> None:
    apart = [file("a", {column: values[0]}, {column: values[1]}), file("b", {column: values[2]}, {column: values[3]})]
    assert of(layout_of(table(tmp_path / "1", apart)), column) == (1.0, 1, 1.0)
    across = [file("a", {column: values[0]}, {column: values[2]}), file("b", {column: values[1]}, {column: values[3]})]
    assert of(layout_of(table(tmp_path / "2", across)), column) == (1.5, 2, 1.5)


def test_files_without_statistics_are_read_by_every_look_up_and_said(tmp_path: Path) -> None:
    files = [file("a", {"id": 0}, {"id": 1}), file("b", {"id": 2}, {"id": 3}), replace(add("c"), stats=None)]
    found = layout_of(table(tmp_path, files))
    assert of(found, "id") == (2.0, 2, 2.0)
    assert (found.columns[0].unknown, found.rows, found.deleted_share) == (1, None, 0.0)
    assert "1 file without statistics" in layout_page(found)


def test_partition_columns_come_first_and_have_a_depth_of_their_own(tmp_path: Path) -> None:
    files = [file(f"f{at}", {"id": at}, {"id": at}, partition={"name": "ab"[at % 2]}) for at in range(4)]
    found = layout_of(table(tmp_path, files, partition_by=["name"]))
    assert [each.column for each in found.columns] == ["name", "id"]
    assert of(found, "name") == (2.0, 2, 2.0)
    assert found.optimize.files_after == 2


def test_columns_are_chosen_by_name(tmp_path: Path) -> None:
    snapshot = table(tmp_path, [file("a", {"id": 0, "name": "a"}, {"id": 1, "name": "b"})])
    assert [each.column for each in layout_of(snapshot, ["NAME"]).columns] == ["name"]
    with pytest.raises(InvalidArgument, match="nothing"):
        layout_of(snapshot, ["nothing"])


def test_sizes_deleted_rows_and_small_files_are_counted(tmp_path: Path) -> None:
    files = [
        file("a", {"id": 0}, {"id": 1}, size=500),
        file("b", {"id": 0}, {"id": 1}, size=3000, deletion_vector=vector("ab", 4)),
        file("c", {"id": 0}, {"id": 1}, size=17 << 20),
    ]
    found = layout_of(table(tmp_path, files, properties=VECTORS))
    assert (found.files, found.rows, found.small_files, found.median_bytes) == (3, 30, 2, 3000)
    assert (found.files_with_vectors, found.deleted_rows) == (1, 4)
    assert found.deleted_share == pytest.approx(4 / 30)
    told = [(each.label, each.files) for each in found.sizes if each.files]
    assert told == [("below 1 KiB", 1), ("2 KiB – 4 KiB", 1), ("16 MiB – 32 MiB", 1)]
    assert sum(each.bytes for each in found.sizes) == found.bytes


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.integers(1, 120), max_size=20), st.integers(10, 100))
def test_what_optimize_would_do_is_what_its_rule_says(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], target: int
) -> None:
    files = [file(f"f{at}", {"id": 0}, {"id": 1}, size=size) for at, size in enumerate(sizes)]
    snapshot = table(tmp_path_factory.mktemp("t"), files, properties={"delta.targetFileSize": f"{target}b"})
    packing = BinPackingOptions(target, target)
    bins = bins_of(to_compact(snapshot.live_files(), packing), packing)
    found = layout_of(snapshot).optimize
    gone = sum(each.files.num_rows for each in bins)
    assert (found.rewritten, found.written, found.files_after) == (gone, len(bins), len(sizes) - gone + len(bins))


def test_an_empty_table_has_a_layout(tmp_path: Path) -> None:
    found = layout_of(table(tmp_path, []))
    assert (found.files, found.rows, found.sizes, found.columns) == (0, 0, [], [])
    assert "OPTIMIZE has nothing to do" in layout_page(found)


def test_names_in_a_page_are_text(tmp_path: Path) -> None:
    snapshot = table(tmp_path, [file("a", {"id": 0}, {"id": 1})])
    found = replace(layout_of(snapshot), title="<script>x</script>", place='"><script>y</script>')
    assert "<script" not in layout_page(found)
