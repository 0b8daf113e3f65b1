"""Statistics of files from JSON to columns and back."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.protocol.schema.schema import (
    ArrayType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from slackwater.stats.stats_parsed import conform_stats, parse_stats, stats_to_json, stats_type
from tests.examples import examples

UTC = dt.timezone.utc


def _schema(**columns: Any) -> StructType:
    types = {name: PrimitiveType(kind) if isinstance(kind, str) else kind for name, kind in columns.items()}
    return StructType(tuple(StructField(name, kind) for name, kind in types.items()))


def _round_trip(kind: Any, low: Any) -> Any:
    """What becomes of the least value `low` (as JSON) of a column: from JSON to a column and to JSON again."""
    wanted = stats_type(_schema(c=kind))
    parsed = parse_stats(pa.array([json.dumps({"minValues": {"c": low}})]), wanted)
    text = stats_to_json(parsed)[0].as_py()
    assert stats_to_json(parse_stats(pa.array([text]), wanted))[0].as_py() == text
    return None if text is None else json.loads(text, parse_float=Decimal)["minValues"]["c"]


def test_the_type_mirrors_the_columns_and_calls_the_counts_null_count() -> None:
    inner = _schema(x="string", y=ArrayType(PrimitiveType("long")))
    found = stats_type(
        _schema(a="long", s=inner, b="binary", m=MapType(PrimitiveType("string"), PrimitiveType("long")))
    )
    bounds = pa.struct([("a", pa.int64()), ("s", pa.struct([("x", pa.string())]))])
    counts = pa.struct(
        [
            ("a", pa.int64()),
            ("s", pa.struct([("x", pa.int64()), ("y", pa.int64())])),
            ("b", pa.int64()),
            ("m", pa.int64()),
        ]
    )
    assert found == pa.struct(
        [
            ("numRecords", pa.int64()),
            ("minValues", bounds),
            ("maxValues", bounds),
            ("nullCount", counts),
            ("tightBounds", pa.bool_()),
        ]
    )


def test_only_the_first_leaf_columns_count_where_there_is_a_limit() -> None:
    schema = _schema(a="long", s=_schema(x="long", y="long"), b="long")
    found = stats_type(schema, 2).field("nullCount").type
    assert found == pa.struct([("a", pa.int64()), ("s", pa.struct([("x", pa.int64())]))])
    assert [field.name for field in stats_type(schema, 0)] == ["numRecords", "tightBounds"]


@pytest.mark.parametrize(
    ("kind", "low"),
    [
        ("long", -(2**63)),
        ("long", 2**63 - 1),
        ("integer", 7),
        ("short", -7),
        ("byte", 127),
        ("double", Decimal("1.5")),
        ("double", Decimal("0.1")),
        ("double", "NaN"),
        ("double", "-Infinity"),
        ("float", Decimal("0.1")),
        ("float", "Infinity"),
        ("boolean", False),
        (DecimalType(38, 2), Decimal("-123456789012345678901234567890123456.78")),
        ("string", 'a"b\\c\n\u0001é😀/'),
        ("string", ""),
        ("date", "2026-02-28"),
        ("date", "0001-01-01"),
        ("timestamp", "2026-01-01T00:00:00.123Z"),
        ("timestamp", "9999-12-31T23:59:59.999999Z"),
        ("timestamp_ntz", "2026-01-01T00:00:00.000"),
        ("timestamp_ntz", "2026-01-01T00:00:00.123456"),
    ],
)
def test_a_bound_goes_there_and_back_unchanged(kind: Any, low: Any) -> None:
    if isinstance(low, Decimal):
        wanted = stats_type(_schema(c=kind))
        parsed = parse_stats(pa.array([f'{{"minValues":{{"c":{low}}}}}']), wanted)
        assert json.loads(stats_to_json(parsed)[0].as_py(), parse_float=Decimal) == {"minValues": {"c": low}}
    else:
        assert _round_trip(kind, low) == low


@pytest.mark.parametrize(
    ("kind", "written", "read"),
    [
        ("timestamp", "2026-01-01T00:00:00.000-08:00", "2026-01-01T08:00:00.000Z"),
        ("timestamp", "2026-01-01 00:00:00Z", "2026-01-01T00:00:00.000Z"),
        ("timestamp", "2026-01-01T00:00:00.123456789Z", "2026-01-01T00:00:00.123456Z"),
        ("timestamp_ntz", "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000"),
        ("timestamp_ntz", "2026-01-01", "2026-01-01T00:00:00.000"),
        ("long", "7", None),
        ("long", 2**63, None),
        ("short", 40_000, None),
        ("double", True, None),
        ("string", 7, None),
        (DecimalType(4, 2), 1.234, None),
        ("date", "2026-02-30", None),
        ("timestamp", "2026-01-01T00:00:00", None),
        ("timestamp_ntz", "2026-01-01T00:00:00+02:00", None),
    ],
)
def test_other_spellings_are_read_and_what_has_no_exact_value_is_null(kind: Any, written: Any, read: Any) -> None:
    wanted = stats_type(_schema(c=kind))
    parsed = parse_stats(pa.array([json.dumps({"numRecords": 1, "minValues": {"c": written}})]), wanted)
    found = json.loads(stats_to_json(parsed)[0].as_py())
    assert found == ({"numRecords": 1} if read is None else {"numRecords": 1, "minValues": {"c": read}})


def test_one_malformed_text_costs_only_its_own_statistics() -> None:
    wanted = stats_type(_schema(a="long"))
    texts = ['{"numRecords":1}', "{", None, "null", "[]", "7", '{"numRecords":2}\n{"numRecords":3}', '{"numRecords":4}']
    parsed = parse_stats(pa.array(texts), wanted)
    assert [row and row["numRecords"] for row in parsed.to_pylist()] == [1, None, None, None, None, None, None, 4]
    assert stats_to_json(parsed).to_pylist() == ['{"numRecords":1}', *[None] * 6, '{"numRecords":4}']


def test_a_row_in_which_all_is_null_does_not_shift_the_others() -> None:
    wanted = stats_type(_schema(a="long", b="string"))
    texts = [None, '{"maxValues":{"b":"x"}}', "{}", '{"minValues":{}}', '{"nullCount":{"a":1}}']
    parsed = parse_stats(pa.array(texts), wanted)
    assert stats_to_json(parsed).to_pylist() == [None, texts[1], None, None, texts[4]]


def test_nothing_is_turned_into_nothing() -> None:
    wanted = stats_type(_schema(a="long"))
    parsed = parse_stats(pa.array([], pa.string()), wanted)
    assert (len(parsed), parsed.type) == (0, wanted)
    assert stats_to_json(parsed).type == pa.string()


def test_columns_of_another_writer_are_cast_and_cut_to_the_wanted_type() -> None:
    wanted = stats_type(_schema(t="timestamp", n="integer", new="string"))
    nanos = dt.datetime(2026, 1, 1, 0, 0, 0, 123456)
    theirs = pa.array(
        [
            {"numRecords": 1, "minValues": {"t": nanos, "n": 2**40, "dropped": 1}, "nullCount": 7},
            None,
            {"numRecords": 2, "minValues": {"t": None, "n": 5, "dropped": 1}, "nullCount": 7},
        ],
        pa.struct(
            [
                ("numRecords", pa.int32()),
                ("minValues", pa.struct([("t", pa.timestamp("ns")), ("n", pa.int64()), ("dropped", pa.int8())])),
                ("nullCount", pa.int64()),
            ]
        ),
    )
    found = conform_stats(theirs, wanted).to_pylist()
    assert [row and row["numRecords"] for row in found] == [1, None, 2]
    assert [row and row["minValues"]["n"] for row in found] == [None, None, 5]
    assert found[0]["minValues"]["t"] == nanos.replace(tzinfo=UTC)
    assert found[0]["nullCount"] is None


def test_values_without_a_form_in_json_are_left_out() -> None:
    far_us = 10**18
    struct = pa.array(
        [{"minValues": {"b": b"x", "far": far_us, "n": 1}}, {"minValues": {"b": b"x", "far": -far_us, "n": None}}],
        pa.struct([("minValues", pa.struct([("b", pa.binary()), ("far", pa.timestamp("us")), ("n", pa.int64())]))]),
    )
    assert stats_to_json(struct).to_pylist() == ['{"minValues":{"n":1}}', None]


STATS = st.fixed_dictionaries(
    {},
    optional={
        "numRecords": st.integers(0, 2**40),
        "tightBounds": st.booleans(),
        **{
            group: st.fixed_dictionaries(
                {},
                optional={
                    "a": st.integers(-(2**63), 2**63 - 1),
                    "d": st.floats(allow_nan=False, allow_infinity=False),
                    's "q\\': st.text(st.characters(codec="utf-8"), max_size=6),
                },
            )
            for group in ("minValues", "maxValues")
        },
        "nullCount": st.fixed_dictionaries({}, optional={"a": st.integers(0, 9)}),
    },
)


def _without_empty(stats: Any) -> Any:
    return {k: v for k, v in stats.items() if v != {}} or None


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.none() | STATS, max_size=8))
def test_statistics_of_many_files_go_there_and_back_unchanged(stats: list[Any]) -> None:
    wanted = stats_type(_schema(a="long", d="double", **{'s "q\\': "string"}))
    texts = pa.array([None if s is None else json.dumps(s) for s in stats], pa.string())
    back = stats_to_json(parse_stats(texts, wanted)).to_pylist()
    assert [t and json.loads(t) for t in back] == [None if s is None else _without_empty(s) for s in stats]
