"""The lines of the guide to writes without Spark, as they stand but for places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import slackwater
from slackwater.lake.lake import LogLake
from tests.stores.documents import run_document
from tests.transaction.tables import schema


def _rows(root: Path) -> list[tuple[Any, ...]]:
    found = slackwater.Snapshot.load(root).to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


def test_the_lines_of_the_guide(tmp_path: Path) -> None:
    for name in ("polars", "duckdb"):
        pytest.importorskip(name)
    with LogLake.open(tmp_path / "lake") as lake:
        for name in ("orders", "stock"):
            lake.create_log(name, schema({"sku": "string"}))
            lake.backfill(name)
    run_document("docs/guides/write-without-spark.md", {}, {"/data/": f"{tmp_path}/"})
    assert _rows(tmp_path / "flights") == [(1, "AA", 3, "B7")]
    assert _rows(tmp_path / "delayed") == [("AA", 20)]
    assert _rows(tmp_path / "counts") == [(0, 0), (1, 100), (2, 200)]
    with LogLake.open(tmp_path / "lake") as lake:
        assert lake.snapshot("orders").to_arrow().to_pylist() == [{"sku": "A1"}]
