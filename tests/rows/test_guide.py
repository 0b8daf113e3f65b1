"""The lines of the guide to writes without Spark, as they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import slackwater
from slackwater.lake.lake import LogLake
from tests.stores.documents import run_document


def _rows(root: str) -> list[tuple[Any, ...]]:
    found = slackwater.Snapshot.load(root).to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


def test_the_lines_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("polars", "duckdb"):
        pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    run_document("docs/guides/write-without-spark.md", {}, {})
    assert _rows("work/flights") == [(1, "AA", 3, "B7")]
    assert _rows("work/delayed") == [("AA", 20)]
    assert _rows("work/counts") == [(0, 0), (1, 100), (2, 200)]
    with LogLake.open("work/lake") as lake:
        found = [lake.snapshot(name).to_arrow()["sku"].to_pylist() for name in ("orders", "stock")]
    assert [sorted(skus) for skus in found] == [["A1", "B2"], ["B2"]]
