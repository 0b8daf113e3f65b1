"""No file with a matching row is ever pruned, whatever the writer of its statistics did."""

from __future__ import annotations

import datetime as dt
import json
import math
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.predicate.predicate import (
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    Unprunable,
)
from slackwater.protocol.schema.schema import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DecimalType,
    StructField,
    StructType,
)
from slackwater.scan.pruning.file_pruning import prune
from tests.examples import examples

UTC = dt.timezone.utc
Row = dict[tuple[str, ...], Any]
OPERATORS: tuple[Any, ...] = ("=", "<=>", "!=", "<", "<=", ">", ">=")
EPOCH = dt.datetime(1970, 1, 1)
SCHEMA = StructType(
    (
        StructField("i", INTEGER),
        StructField("n", StructType((StructField("l", LONG),))),
        StructField("f", DOUBLE),
        StructField("g", FLOAT),
        StructField("s", STRING),
        StructField("t", TIMESTAMP),
        StructField("z", TIMESTAMP_NTZ),
        StructField("b", BOOLEAN),
        StructField("d", DATE),
        StructField("m", DecimalType(20, 2)),
        StructField("p", STRING),
        StructField("q", LONG),
        StructField("r", DOUBLE),
    )
)
PARTITIONS = ("p", "q", "r")
PHYSICAL = {("n", "l"): ("col-1", "col-2"), ("s",): ("col-s",), ("p",): ("col-p",)}

_characters = st.sampled_from("ab?~\x7fé\ud7ff\ue000\ufffd\uffff😀\U0010ffff")
_texts = st.builds(
    lambda stem, tail: stem + tail, st.sampled_from(["", "", "a" * 29, "a" * 30, "a" * 31, "b" * 32]),
    st.text(_characters, max_size=5),
)  # fmt: skip
_micros = st.sampled_from([-1_000_001, -1500, -1000, -999, -1, 0, 1, 500, 999, 1000, 1001, 1_500_000, 1_500_999])
_doubles = st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.0, 0.1, -0.1, 1.0, 2.5, 1e300, -1e-300])
VALUES: dict[tuple[str, ...], st.SearchStrategy[Any]] = {
    ("i",): st.integers(-3, 3),
    ("n", "l"): st.sampled_from([-(2**63), -(2**53), -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1]),
    ("f",): _doubles,
    ("g",): st.sampled_from([math.nan, math.inf, -0.0, 0.0, 0.5, 0.10000000149011612, -2.5, 16777216.0]),
    ("s",): _texts,
    ("t",): _micros.map(lambda us: EPOCH.replace(tzinfo=UTC) + dt.timedelta(microseconds=us)),
    ("z",): _micros.map(lambda us: EPOCH + dt.timedelta(microseconds=us)),
    ("b",): st.booleans(),
    ("d",): st.sampled_from([dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]),
    ("m",): st.sampled_from(
        [Decimal(t) for t in ("-1.25", "0.00", "1.10", "1.11", "123456789012345678.91", "-123456789012345678.91")]
    ),
    ("p",): st.sampled_from(["x", "y", "Zürich"]),
    ("q",): st.integers(-1, 1),
    ("r",): st.sampled_from([math.nan, 0.0, -0.0, 1.5]),
}
LITERALS = {
    **VALUES,
    ("i",): st.one_of(VALUES[("i",)], st.sampled_from([Decimal("0.5"), -1.5, math.nan, 2**70, -(2**70)])),
    ("n", "l"): st.one_of(
        VALUES[("n", "l")], st.sampled_from([2.5, -0.5, math.inf, -math.inf, Decimal("-1.5"), 2**64])
    ),
    ("m",): st.one_of(VALUES[("m",)], st.sampled_from([Decimal("1.105"), 1, Decimal("1E+19"), Decimal("-1E+19")])),
}


def _rank(value: Any) -> Any:
    """A key in Spark's order: NaN above all numbers, text by its UTF-8 bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return (0, value)
    return value.encode() if isinstance(value, str) else value


def _holds(predicate: Predicate, row: Row) -> bool | None:
    """SQL's three-valued outcome of `predicate` for `row`."""
    match predicate:
        case Constant(value):
            return value
        case Unprunable():
            return True
        case Not(child):
            inner = _holds(child, row)
            return None if inner is None else not inner
        case And(children) | Or(children):
            decisive = isinstance(predicate, Or)
            outcomes = [_holds(child, row) for child in children]
            return decisive if decisive in outcomes else None if None in outcomes else not decisive
        case IsNull(column):
            return row[column] is None
        case StartsWith(column, prefix):
            return None if row[column] is None else row[column].encode().startswith(prefix.encode())
        case In(column, values, has_null):
            if row[column] is None:
                return None
            return any(_rank(row[column]) == _rank(v) for v in values) or (None if has_null else False)
        case Comparison(column, operator, value):
            if row[column] is None:
                return False if operator == "<=>" else None
            left, right = _rank(row[column]), _rank(value)
            order = int(left > right) - int(left < right)
            return {"=": order == 0, "<=>": order == 0, "!=": order != 0, "<": order < 0, "<=": order <= 0}.get(
                operator, order > 0 or (operator == ">=" and order == 0)
            )


@st.composite
def _leaves(draw: st.DrawFn) -> Predicate:
    column = draw(st.sampled_from(list(VALUES)))
    kind = draw(st.sampled_from(["compare"] * 5 + ["in", "in", "null", "prefix", "constant"]))
    if kind == "constant":
        constants: list[Predicate] = [Constant(True), Constant(False), Constant(None), Unprunable("?")]
        return draw(st.sampled_from(constants))
    if kind == "null":
        return IsNull(column)
    if kind == "prefix":
        return StartsWith(("s",), draw(_texts))
    if kind == "in":
        values = draw(st.lists(LITERALS[column], min_size=1, max_size=4))
        values = values * draw(st.sampled_from([1, 1, 8]))
        return In(column, tuple(values), draw(st.booleans()))
    return Comparison(column, draw(st.sampled_from(OPERATORS)), draw(LITERALS[column]))


PREDICATES = st.recursive(
    _leaves(),
    lambda inner: st.one_of(
        inner.map(Not),
        st.lists(inner, min_size=1, max_size=3).map(lambda c: And(tuple(c))),
        st.lists(inner, min_size=1, max_size=3).map(lambda c: Or(tuple(c))),
    ),
    max_leaves=4,
)
ROWS = st.fixed_dictionaries({column: st.one_of(st.none(), values) for column, values in VALUES.items()})
FILES = st.lists(st.lists(ROWS, min_size=1, max_size=4), min_size=1, max_size=3)


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _text_bound(texts: list[str], is_max: bool, rnd: random.Random) -> str | None:
    """A text bound as one of the writers there are would leave it."""
    keys: list[Callable[[str], bytes]] = [_utf16, str.encode]
    key = rnd.choice(keys)
    bound: str = (max if is_max else min)(texts, key=key)
    way = rnd.choice(["code points", "units", "whole"])
    if way == "whole":
        return bound
    if way == "code points":
        if len(bound) <= 32:
            return bound
        return bound[:32] + ("\U0010ffff" if is_max else "")
    raw = _utf16(bound)
    if len(raw) <= 64:
        return bound
    halved = 0xD8 <= raw[62] < 0xDC
    head = raw[: 62 if halved else 64].decode("utf-16-be") + (rnd.choice("?\ufffd") if halved else "")
    if not is_max:
        return head
    tail = raw[64:]
    keep = 0
    while keep < len(tail) and tail[keep : keep + 2] >= b"\xff\xfd":
        keep += 2
    return head + tail[:keep].decode("utf-16-be", "replace") + rnd.choice(["\ufffd", ""])


def _bound(values: list[Any], is_max: bool, column: tuple[str, ...], rnd: random.Random) -> Any:
    """The JSON form of the smallest or greatest of `values`, with the liberties that writers take."""
    if column == ("s",):
        return _text_bound(values, is_max, rnd)
    if isinstance(values[0], float):
        numbers = [v for v in values if not math.isnan(v)]
        if len(numbers) < len(values) and is_max and rnd.random() < 0.5:
            return "NaN"
        if not numbers:
            return None
        number = (max if is_max else min)(numbers)
        if math.isinf(number):
            return rnd.choice([None, "Infinity" if number > 0 else "-Infinity"])
        if column == ("g",) and number == 0.10000000149011612:
            return 0.1
        return -0.0 if number == 0 and rnd.random() < 0.5 else number
    value = (max if is_max else min)(values)
    if isinstance(value, dt.datetime):
        micros = (value.replace(tzinfo=None) - EPOCH) // dt.timedelta(microseconds=1)
        millis = rnd.choice([micros // 1000, int(micros / 1000)])
        text = (EPOCH + dt.timedelta(milliseconds=millis)).isoformat(timespec="milliseconds")
        return text if column == ("z",) and rnd.random() < 0.5 else text + "Z"
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value) if rnd.random() < 0.5 else _RawNumber(value)
    return value


class _RawNumber(float):
    """A decimal printed with all its digits."""

    text: str

    def __new__(cls, value: Decimal) -> _RawNumber:
        self = super().__new__(cls, value)
        self.text = str(value)
        return self

    def __repr__(self) -> str:
        return self.text


def _stats(rows: list[Row], deleted: int, rnd: random.Random) -> str | None:
    if rnd.random() < 0.1:
        return rnd.choice([None, "", "{", "null", "[1]", '{"numRecords":"many","minValues":3}'])
    groups: dict[str, Any] = {"minValues": {}, "maxValues": {}, "nullCount": {}}
    for column in VALUES:
        if column[0] in PARTITIONS:
            continue
        path = PHYSICAL.get(column, column)
        present = [row[column] for row in rows if row[column] is not None]
        said = {"nullCount": len(rows) - len(present)}
        if present:
            said |= {"minValues": _bound(present, False, column, rnd), "maxValues": _bound(present, True, column, rnd)}
        for group, value in said.items():
            if rnd.random() < 0.9 and value is not None:
                node = groups[group]
                for name in path[:-1]:
                    node = node.setdefault(name, {})
                node[path[-1]] = value
    record = {**groups, **({"numRecords": len(rows)} if deleted or rnd.random() < 0.9 else {})}
    if deleted:
        record["tightBounds"] = False
    return _dump(record)


def _dump(node: Any) -> str:
    if isinstance(node, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{_dump(v)}" for k, v in node.items()) + "}"
    return repr(node) if isinstance(node, _RawNumber) else json.dumps(node, ensure_ascii=bool(len(str(node)) % 2))


def _partition_values(row: Row) -> list[tuple[str, str | None]]:
    values = [(PHYSICAL.get((name,), (name,))[0], row[(name,)]) for name in PARTITIONS]
    return [(key, None if value is None else str(value)) for key, value in values]


@settings(
    max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(FILES, PREDICATES, st.integers(0, 2), st.randoms(use_true_random=True))
def test_no_file_with_a_matching_row_is_pruned(
    files: list[list[Row]], predicate: Predicate, deleted: int, rnd: random.Random
) -> None:
    for rows in files:
        for row in rows:
            row.update({(name,): rows[0][(name,)] for name in PARTITIONS})
    _check(files, predicate, deleted, rnd)


@pytest.mark.parametrize("column", [("s",), ("t",), ("z",), ("m",), ("f",), ("g",), ("n", "l")])
@settings(max_examples=examples(30), deadline=None)
@given(st.data(), st.integers(0, 1), st.randoms(use_true_random=True))
def test_no_file_that_holds_a_value_is_pruned_by_a_condition_on_that_value(
    column: tuple[str, ...], data: st.DataObject, deleted: int, rnd: random.Random
) -> None:
    files = data.draw(st.lists(st.lists(VALUES[column], min_size=1, max_size=2), min_size=20, max_size=20))
    value = data.draw(st.sampled_from([value for values in files for value in values]))
    rows: list[list[Row]] = [[{**dict.fromkeys(VALUES), column: v} for v in values] for values in files]
    conditions: list[Predicate] = [Comparison(column, operator, value) for operator in OPERATORS]
    conditions += [In(column, (value,)), In(column, (value,) * 20)]
    if column == ("s",):
        conditions += [StartsWith(column, value), StartsWith(column, value[:-1])]
    for condition in conditions:
        _check(rows, condition, deleted, rnd)
        _check(rows, Not(condition), deleted, rnd)


def _check(files: list[list[Row]], predicate: Predicate, deleted: int, rnd: random.Random) -> None:
    stats = [_stats(rows, deleted, rnd) for rows in files]
    maps = pa.array([_partition_values(rows[0]) for rows in files], pa.map_(pa.string(), pa.string()))
    table = pa.table(
        {"path": [str(i) for i in range(len(files))], "partitionValues": maps, "stats": pa.array(stats, pa.string())}
    )
    kept = set(prune(table, predicate, SCHEMA, PARTITIONS, PHYSICAL).column("path").to_pylist())
    for i, rows in enumerate(files):
        matching = [row for row in rows[deleted:] if _holds(predicate, row) is True]
        assert str(i) in kept or not matching, (predicate, matching, stats[i])
