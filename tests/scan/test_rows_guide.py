"""The lines of the guide to rows in Python, as they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.stores.documents import run_document


def test_the_lines_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pandas", "polars", "duckdb"):
        pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    run_document("docs/guides/python.md", names, {})
    assert names["rows"].to_pylist() == [{"carrier": "AA", "delay": 30}]
    assert names["total"] == 3
    assert pq.read_table("work/december.parquet").num_rows == 2
    assert (len(names["stock"]), names["orders"].to_dicts()) == (2, [{"sku": "B2", "status": "open"}])
