"""Tables written without Spark, read by the engines of this process; their tables take our writes."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import slackwater

from .peers import PEERS, require_same_rows, why_absent
from .rows import rows_of

_ROWS = pa.table(
    {
        "id": pa.array(range(6), pa.int64()),
        "day": pa.array([dt.date(2026, 1, 1 + n % 3) for n in range(6)], pa.date32()),
        "name": ["a", None, "ü", "", "b", "c"],
        "small": pa.array([1, None, -3, 4, 5, 6], pa.int16()),
        "ratio": [0.5, None, -0.0, 1e300, 2.0, 3.0],
        "amount": pa.array([Decimal("1.25"), None] * 3, pa.decimal128(9, 2)),
        "flag": [True, None, False] * 2,
        "at": pa.array(
            [dt.datetime(2026, 1, 1, n, tzinfo=dt.timezone.utc) for n in range(6)], pa.timestamp("us", "UTC")
        ),
        "list": pa.array([[1], None, [], [2, None], [3], [4]], pa.list_(pa.int32())),
        "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}] * 2),
    }
)

pytestmark = pytest.mark.interop


def _require(peer: str) -> None:
    if (reason := why_absent(peer)) is not None:
        pytest.skip(reason)


# Of tables with column mapping or deletion vectors, some engines read other rows or none.
CASES = {
    "plain": ({}, [], {}),
    "partitioned": ({}, ["day"], {}),
    "mapped": (
        {"delta.columnMapping.mode": "name"},
        [],
        {"deltalake-pyarrow": "it reads no mapped columns", "polars": "it reads no mapped columns"},
    ),
    "vectors": ({"delta.enableDeletionVectors": "true"}, ["day"], {"deltalake-pyarrow": "it reads no vectors"}),
}


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("case", CASES)
def test_other_engines_read_the_rows(peer: str, case: str, tmp_path: Path) -> None:
    _require(peer)
    properties, partition_by, unreadable = CASES[case]
    at = str(tmp_path / "table")
    slackwater.write(at, _ROWS.slice(0, 4), partition_by=partition_by, properties=properties)
    slackwater.write(at, _ROWS.slice(4), "append")
    slackwater.delete(at, "id = 3 OR day = DATE '2026-01-03'")
    slackwater.write(at, _ROWS.slice(1, 1), "overwrite", predicate="id = 1")
    expected = pa.concat_tables([_ROWS.slice(0, 2), _ROWS.slice(4, 1)])
    assert rows_of(slackwater.Snapshot.load(at).to_arrow()) == rows_of(expected)
    require_same_rows(lambda: PEERS[peer](at), expected, unreadable.get(peer))


def test_tables_of_deltalake_take_our_writes_and_deletes(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    at = str(tmp_path / "table")
    deltalake.write_deltalake(at, _ROWS.slice(0, 3), partition_by=["day"])
    slackwater.write(at, _ROWS.slice(3), "append")
    slackwater.delete(at, "id = 0")
    deltalake.write_deltalake(at, _ROWS.slice(0, 1), mode="append")
    expected = rows_of(_ROWS)
    assert rows_of(slackwater.Snapshot.load(at).to_arrow()) == expected
    assert rows_of(deltalake.DeltaTable(at).to_pyarrow_table().select(_ROWS.column_names)) == expected
