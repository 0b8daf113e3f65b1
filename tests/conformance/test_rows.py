"""The rows of every golden table without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pytest

from slackwater import Snapshot
from slackwater.stats.footers import parquet_footer, stats_leaves, stats_of_footer

from .golden import EXPECTATIONS, ExpectedContent, GoldenTable, each, expected_contents, is_readable, table_hash, tables

_OTHER_CONTENT = EXPECTATIONS["expected_contents_unlike_the_truth"]


@pytest.mark.parametrize("table", each(t for t in tables() if is_readable(t)))
def test_rows_are_those_of_the_index(table: GoldenTable) -> None:
    snapshot = Snapshot.load(table.root)
    rows = snapshot.to_arrow()
    rows.validate(full=True)
    table.require_content(table_hash()(rows))
    assert rows.column_names == list(snapshot.schema.names)


@pytest.mark.parametrize("content", each(c for c in expected_contents() if c.version is not None))
def test_rows_of_a_version_are_what_upstream_says(content: ExpectedContent) -> None:
    expected = table_hash()(content.rows())
    ours = table_hash()(Snapshot.load(content.table.root, content.version).to_arrow())
    assert (ours["hash"] == expected["hash"]) == (content.table.id not in _OTHER_CONTENT)


@pytest.mark.parametrize("table", each(t for t in tables() if is_readable(t) and t.record["features"].get("geo")))
def test_bounding_boxes_are_those_of_the_writer(table: GoldenTable) -> None:
    snapshot = Snapshot.load(table.root)
    columns = stats_leaves(snapshot.schema, "none", (), {})
    for path, recorded in zip(*(snapshot.files()[name].to_pylist() for name in ("path", "stats")), strict=True):
        footer, _ = parquet_footer(snapshot.store, unquote(path))  # type: ignore[attr-defined]
        found = json.loads(stats_of_footer(footer, columns))
        for side in ("minValues", "maxValues"):
            theirs = dict(_points(json.loads(recorded).get(side, {})))
            assert {name: point for name, point in _points(found.get(side, {})) if name in theirs} == theirs


def _points(values: dict[str, Any], path: str = "") -> Iterator[tuple[str, list[float]]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _points(value, f"{path}{name}.")
        elif isinstance(value, str) and value.startswith("POINT("):
            yield path + name, list(map(float, value[6:-1].split()))
