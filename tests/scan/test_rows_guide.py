"""The lines of the guide to rows in Python, as they stand but for places and the moment."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.lake.lake import LogLake
from slackwater.protocol.actions.files import AddFile
from slackwater.protocol.schema.schema import INTEGER, STRING, StructField, StructType
from slackwater.transaction.table.public_transaction import Transaction
from tests.stores.documents import run_document
from tests.transaction.tables import schema


def test_the_lines_of_the_guide(tmp_path: Path) -> None:
    for name in ("pandas", "polars", "duckdb"):
        pytest.importorskip(name)
    root = tmp_path / "flights"
    columns = [("month", INTEGER), ("carrier", STRING), ("delay", INTEGER)]
    Transaction.create(root, StructType(tuple(StructField(*column) for column in columns)), ["month"]).commit("CREATE")
    tx = Transaction(root)
    for month, delays in (("11", [20, None]), ("12", [30, 5])):
        rows = pa.table({"carrier": ["AA", "UA"], "delay": pa.array(delays, pa.int32())})
        path = root / f"{month}.parquet"
        pq.write_table(rows, path)
        tx.add(AddFile(path.name, {"month": month}, path.stat().st_size, 0))
    tx.commit("WRITE")
    with LogLake.open(tmp_path / "lake") as lake:
        for name in ("orders", "stock"):
            lake.create_log(name, schema({"sku": "string", "status": "string"}))
            lake.backfill(name)
    names: dict[str, Any] = {}
    moment = datetime.now(timezone.utc).isoformat()
    told = 'as_of("2026-11-21T10:00:00Z")'
    run_document("docs/guides/python.md", names, {"/data/": f"{tmp_path}/", told: f'as_of("{moment}")'})
    assert names["rows"].to_pylist() == [{"carrier": "AA", "delay": 30}]
    assert names["total"] == 3
    assert pq.read_table(tmp_path / "december.parquet").num_rows == 2
    assert (len(names["stock"]), names["orders"].columns) == (0, ["sku", "status"])
