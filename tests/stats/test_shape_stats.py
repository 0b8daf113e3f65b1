"""Bounding boxes of shapes: from the footers of files, as points in WKT."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from slackwater import Snapshot
from slackwater.stats.footers import parquet_footer, stats_leaves, stats_of_footer
from slackwater.storage.open import open_store
from slackwater.storage.parquet_footer import ParquetFooter

_TABLE = Path(__file__).parents[1] / "data" / "tables" / "nested-geometry"
_Box = tuple[float, float, float, float]


def _footer() -> tuple[Snapshot, ParquetFooter]:
    snapshot = Snapshot.load(_TABLE)
    (path,) = snapshot.files()["path"].to_pylist()
    return snapshot, parquet_footer(open_store(str(_TABLE)), unquote(path))[0]


def _points(stats: Any) -> Any:
    if isinstance(stats, dict):
        return {name: _points(inner) for name, inner in stats.items()}
    is_point = isinstance(stats, str) and stats.startswith("POINT(")
    return tuple(map(float, stats[6:-1].split())) if is_point else stats


def _stats(footer: ParquetFooter, snapshot: Snapshot) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(stats_of_footer(footer, stats_leaves(snapshot.schema, "none", (), {})))
    return found


def test_boxes_are_those_that_the_writer_of_the_file_recorded() -> None:
    snapshot, footer = _footer()
    (recorded,) = snapshot.files()["stats"].to_pylist()
    assert _points(_stats(footer, snapshot)) == _points(json.loads(recorded))


@pytest.mark.parametrize(
    ("boxes", "nulls", "corners"),
    [
        ([(1.0, 2.0, 3.0, 4.0), (-1.5, 0.0, 9.0, 9.0)], [0, 0], ("POINT(-1.5 3.0)", "POINT(2.0 9.0)")),
        ([(1.0, 2.0, 3.0, 4.0), None], [0, 2], ("POINT(1.0 3.0)", "POINT(2.0 4.0)")),
        ([(1.0, 2.0, 3.0, 4.0), None], [0, 1], None),
        ([(170.0, -170.0, 3.0, 4.0)], [0], None),
        ([None], [2], None),
    ],
    ids=[
        "two row groups",
        "a row group of nulls",
        "a row group without a box",
        "across the antimeridian",
        "only nulls",
    ],
)
def test_boxes_of_row_groups(boxes: list[_Box | None], nulls: list[int], corners: tuple[str, str] | None) -> None:
    snapshot, footer = _footer()
    (group,) = footer.row_groups
    at = next(number for number, column in enumerate(group.columns) if column.box is not None)
    groups = tuple(
        replace(
            group,
            columns=tuple(
                replace(column, box=box, null_count=count) if number == at else column
                for number, column in enumerate(group.columns)
            ),
        )
        for box, count in zip(boxes, nulls, strict=True)
    )
    stats = _stats(replace(footer, num_rows=group.num_rows * len(groups), row_groups=groups), snapshot)
    found = [stats[side]["str"].get("geo1") for side in ("minValues", "maxValues")]
    assert found == ([None, None] if corners is None else list(corners))
