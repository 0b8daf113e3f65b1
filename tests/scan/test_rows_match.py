"""Conditions on rows without Spark mean what they mean in SQL: DuckDB says so of the same rows."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from slackwater import Snapshot
from slackwater.data_files.row_filter import require_decidable, truth
from slackwater.errors import InvalidArgument
from slackwater.predicate.sql import parse_predicate

duckdb = pytest.importorskip("duckdb")
deltalake = pytest.importorskip("deltalake")

_DAY = dt.date(2026, 1, 1)
_NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.timezone.utc)
_TEXTS = ["", "a", "ab", "b", "é", "\U0001f600", "\uffff", "a%", "a_b", "it's", None]
_NUMBERS = [-3, 0, 1, 2, 7, 127, None]
_FLOATS = [-1.5, -0.0, 0.0, 0.1, 2.0, math.inf, -math.inf, math.nan, None]
_ROWS = 120


def _cycled(values: list[Any], step: int) -> list[Any]:
    return [values[(at * step) % len(values)] for at in range(_ROWS)]


def _rows() -> pa.Table:
    days = [None if n is None else _DAY + dt.timedelta(days=n) for n in _NUMBERS]
    moments = [None if n is None else _NOON + dt.timedelta(microseconds=n) for n in _NUMBERS]
    decimals = [None if n is None else Decimal(n) / 4 for n in _NUMBERS]
    return pa.table(
        {
            "id": pa.array(range(_ROWS), pa.int64()),
            "part": pa.array(_cycled([1, 2, None], 1), pa.int32()),
            "small": pa.array(_cycled(_NUMBERS, 2), pa.int8()),
            "number": pa.array(_cycled(_NUMBERS, 3), pa.int64()),
            "amount": pa.array(_cycled(decimals, 5), pa.decimal128(9, 2)),
            "ratio": pa.array(_cycled(_FLOATS, 2), pa.float64()),
            "single": pa.array(_cycled(_FLOATS, 4), pa.float32()),
            "text": pa.array(_cycled(_TEXTS, 3), pa.string()),
            "flag": pa.array(_cycled([True, False, None], 2), pa.bool_()),
            "day": pa.array(_cycled(days, 2), pa.date32()),
            "moment": pa.array(_cycled(moments, 4), pa.timestamp("us", "UTC")),
            "within": pa.array(
                [None if n == 0 else {"x": n} for n in _cycled(_NUMBERS, 2)], pa.struct([("x", pa.int64())])
            ),
        }
    )


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[Snapshot, Any]:
    root: Path = tmp_path_factory.mktemp("rows") / "table"
    rows = _rows()
    for at in range(0, _ROWS, 40):
        deltalake.write_deltalake(root, rows.slice(at, 40), partition_by=["part"], mode="append")
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("given", rows)
    connection.execute("CREATE TABLE t AS SELECT * FROM given")
    return Snapshot.load(root), connection


_WHOLE = ["-129", "-3", "0", "1", "7", "127", "128", "40000000000", "0.5", "2.0", "-0.25", "1e0", "1.5e0"]
_DECIMAL = ["-3", "0", "0.25", "1.75", "1.751", "99999999", "2"]
_DOUBLE = ["-1.5e0", "0e0", "-0e0", "1e-1", "2", "0.1", "1e308"]
_SINGLE = ["-1.5e0", "0e0", "2e0", "1e-1", "1e300"]
_TEXT = ["''", "'a'", "'ab'", "'é'", "'\U0001f600'", "'\uffff'", "'a%'", "'zz'"]
_DAYS = ["DATE '2025-12-29'", "DATE '2026-01-01'", "DATE '2026-01-02'", "DATE '2027-01-01'"]
_TIMES = [
    "TIMESTAMP '2026-01-01 12:00:00Z'",
    "TIMESTAMP '2026-01-01 12:00:00.000002Z'",
    "TIMESTAMP '2020-01-01 00:00:00Z'",
]
_COLUMNS = {
    "part": _WHOLE,
    "small": _WHOLE,
    "number": _WHOLE,
    "within.x": _WHOLE,
    "amount": _DECIMAL,
    "ratio": _DOUBLE,
    "single": _SINGLE,
    "text": _TEXT,
    "flag": ["TRUE", "FALSE"],
    "day": _DAYS,
    "moment": _TIMES,
}


@st.composite
def _leaf(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from(sorted(_COLUMNS)))
    literals = st.sampled_from(_COLUMNS[column])
    shape = draw(st.integers(0, 6))
    if shape == 0:
        return f"{column} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
    if shape == 1:
        listed = draw(st.lists(literals, min_size=1, max_size=7))
        negated = draw(st.sampled_from(["", "NOT "]))
        return f"{column} {negated}IN ({', '.join(listed + draw(st.sampled_from([[], ['NULL']])))})"
    if shape == 2 and column != "flag":
        return f"{column} BETWEEN {draw(literals)} AND {draw(literals)}"
    if shape == 3:
        return f"{column} IS {draw(st.sampled_from(['', 'NOT ']))}DISTINCT FROM {draw(literals)}"
    if shape == 4 and column == "text":
        return f"text {draw(st.sampled_from(['', 'NOT ']))}LIKE '{draw(st.sampled_from(['a', '', 'é', 'ab']))}%'"
    return f"{column} {draw(st.sampled_from(['=', '<>', '<', '<=', '>', '>=']))} {draw(literals)}"


_CONDITIONS = st.recursive(
    _leaf(),
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=5,
)


def _each_comparison() -> Iterator[str]:
    for column, literals in _COLUMNS.items():
        for literal in literals:
            for operator in ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"):
                yield f"{column} {operator} {literal}"
        yield f"{column} IS NULL"
        for listed in (literals, literals[:2], [*literals, "NULL"], [literals[0], "NULL"]):
            yield f"{column} IN ({', '.join(listed)})"


def test_each_comparison_and_its_negation_is_true_of_the_rows_that_duckdb_gives(
    table: tuple[Snapshot, Any],
) -> None:
    snapshot, connection = table
    rows = _rows()
    refused = []
    for condition in _each_comparison():
        asked = condition.replace("TIMESTAMP '", "TIMESTAMPTZ '")
        predicate = parse_predicate(condition, snapshot.schema)
        try:
            require_decidable(predicate)
        except InvalidArgument:
            refused.append(condition)
            continue
        found = truth(predicate, snapshot.schema, lambda name: rows[name].combine_chunks())
        expected = connection.execute(f"SELECT {asked} FROM t ORDER BY id").fetchall()
        assert found.to_pylist() == [row[0] for row in expected], condition
    # Only lists that Spark compares as texts or doubles.
    assert [condition for condition in refused if " IN " not in condition] == []
    assert len(refused) < 20


@given(condition=_CONDITIONS)
@settings(max_examples=100, deadline=None)
def test_the_rows_for_which_a_condition_is_true_are_those_that_duckdb_gives(
    table: tuple[Snapshot, Any], condition: str
) -> None:
    snapshot, connection = table
    asked = condition.replace("TIMESTAMP '", "TIMESTAMPTZ '")
    expected = [row[0] for row in connection.execute(f"SELECT id FROM t WHERE {asked} ORDER BY id").fetchall()]
    try:
        ours = snapshot.to_arrow(["id"], where=condition)["id"].to_pylist()
    except InvalidArgument:
        # What Spark compares inexactly is refused; this must not be the rule.
        reject()
    assert sorted(ours) == expected
