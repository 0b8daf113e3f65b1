"""Shredded variants of a file become binary variants."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from slackwater.data_files.variant_encoding import VARIANT_NULL, encode_text, variant_to_json
from slackwater.data_files.variant_shredding import variant_conversion
from slackwater.errors import CorruptTable
from slackwater.protocol.schema.arrow_schema import ARROW_VARIANT, is_arrow_variant

from .test_variant_encoding import encoded, metadata_of

_BINARY = pa.binary()


def _group(typed: pa.DataType) -> pa.DataType:
    return pa.struct([("value", _BINARY), ("typed_value", typed)])


def _column(rows: list[dict[str, Any] | None], typed: pa.DataType, names: list[str]) -> pa.Array:
    """A shredded column: each row has `value` (JSON, or bytes) and `typed_value`."""
    ids = {name: number for number, name in enumerate(names)}
    kind = pa.struct([("metadata", _BINARY), ("value", _BINARY), ("typed_value", typed)])

    def binary(value: Any) -> Any:
        if isinstance(value, dict) and set(value) <= {"value", "typed_value"} and value:
            return {
                key: binary(inner) if key == "typed_value" else _as_bytes(inner, ids) for key, inner in value.items()
            }
        if isinstance(value, dict):
            return {key: binary(inner) for key, inner in value.items()}
        return [binary(inner) for inner in value] if isinstance(value, list) else value

    content = [None if row is None else {"metadata": metadata_of(names), **binary(row)} for row in rows]
    return pa.array(content, kind)


def _as_bytes(value: Any, ids: dict[str, int]) -> Any:
    return value if value is None or isinstance(value, bytes) else encoded(value, ids)


def _json(column: pa.Array) -> list[Any]:
    found = variant_conversion(column.type, "file", "v")(column)
    found.validate(full=True)
    assert found.type == ARROW_VARIANT
    return [
        None if row is None else json.loads(variant_to_json(row["metadata"], row["value"])) for row in found.to_pylist()
    ]


def test_plain_variants_are_taken_as_they_are() -> None:
    kind = pa.struct([("metadata", pa.large_binary()), ("value", pa.binary_view())])
    column = pa.array([{"metadata": metadata_of([]), "value": encode_text(b"a")}, None], kind)
    found = variant_conversion(kind, "file", "v")(column)
    assert found.to_pylist() == [{"value": encode_text(b"a"), "metadata": metadata_of([])}, None]
    assert is_arrow_variant(ARROW_VARIANT)
    assert not is_arrow_variant(kind)


def test_typed_values_with_binary_values_beside_them() -> None:
    column = _column([{"typed_value": 5}, {"value": {"a": "x"}}, None, {}, {"value": None}], pa.int64(), ["a"])
    # Neither of both is the null of JSON, as the format asks of readers.
    assert _json(column) == [5, {"a": "x"}, None, None, None]
    assert variant_conversion(column.type, "f", "v")(column).is_null().to_pylist() == [False, False, True, False, False]


def test_objects_with_typed_fields_missing_fields_and_a_rest() -> None:
    typed = pa.struct([("id", _group(pa.int32())), ("name", _group(pa.string()))])
    rows: list[dict[str, Any] | None] = [
        {"typed_value": {"id": {"typed_value": 1}, "name": {"typed_value": "a"}}},
        {"typed_value": {"id": {"typed_value": 2}, "name": {"value": [1, None]}}},
        {"typed_value": {"id": {"value": None}, "name": {"value": None}}},
        {"value": {"extra": True}, "typed_value": {"id": {"typed_value": 3}, "name": {"value": None}}},
        {"value": "no object", "typed_value": None},
        {"typed_value": {"id": {"value": VARIANT_NULL}, "name": {"value": None}}},
    ]
    assert _json(_column(rows, typed, ["id", "name", "extra"])) == [
        {"id": 1, "name": "a"},
        {"id": 2, "name": [1, None]},
        {},
        {"id": 3, "extra": True},
        "no object",
        {"id": None},
    ]


def test_arrays_of_objects_of_arrays() -> None:
    element = _group(pa.struct([("tags", _group(pa.list_(_group(pa.string()))))]))
    rows: list[dict[str, Any] | None] = [
        {
            "typed_value": [
                {"typed_value": {"tags": {"typed_value": [{"typed_value": "a"}, {"value": 1}, {"value": None}]}}}
            ]
        },
        {"value": 7},
        {"typed_value": []},
        None,
        {"typed_value": [{"value": None}, {"typed_value": {"tags": {"value": None}}}]},
    ]
    column = _column(rows, pa.list_(element), ["tags"])
    expected = [[{"tags": ["a", 1, None]}], 7, [], None, [None, {}]]
    assert _json(column) == expected
    assert _json(column.slice(1, 3)) == expected[1:4]
    # Large lists, as other writers note them.
    assert _json(column.cast(pa.struct([*list(column.type)[:2], ("typed_value", pa.large_list(element))]))) == expected


@pytest.mark.parametrize(
    ("typed", "value", "expected"),
    [
        (pa.bool_(), True, True),
        (pa.int8(), -1, -1),
        (pa.int16(), 300, 300),
        (pa.float32(), 0.5, 0.5),
        (pa.float64(), 1e300, 1e300),
        (pa.decimal128(38, 3), Decimal("12345678901234567890123456789012345.678"), 1.2345678901234568e34),
        (pa.decimal128(4, 2), Decimal("-0.05"), -0.05),
        (pa.date32(), dt.date(2026, 11, 27), "2026-11-27"),
        (
            pa.timestamp("us", "UTC"),
            dt.datetime(1960, 1, 1, 0, 0, 0, 1, dt.timezone.utc),
            "1960-01-01 00:00:00.000001+00:00",
        ),
        (pa.timestamp("us"), dt.datetime(2026, 1, 1, 1), "2026-01-01 01:00:00"),
        (pa.timestamp("ns"), 1, "1970-01-01 00:00:00.000000001"),
        (pa.time64("us"), dt.time(1, 2, 3), "01:02:03"),
        (pa.string(), "é" * 40, "é" * 40),
        (pa.binary(), b"\x00", "AA=="),
        (pa.binary(16), uuid.UUID(int=7).bytes, str(uuid.UUID(int=7))),
    ],
    ids=str,
)
def test_types_of_typed_columns(typed: pa.DataType, value: Any, expected: Any) -> None:
    assert _json(_column([{"typed_value": value}], typed, [])) == [expected]


@pytest.mark.parametrize(
    ("rows", "typed", "message"),
    [
        ([{"value": 1, "typed_value": 5}], pa.int64(), "both in a typed column and in binary form"),
        (
            [{"value": 1, "typed_value": {"a": {"typed_value": 5}}}],
            pa.struct([("a", _group(pa.int64()))]),
            "a rest that is no object",
        ),
        (
            [{"value": {"a": 1}, "typed_value": {"a": {"typed_value": 5}}}],
            pa.struct([("a", _group(pa.int64()))]),
            "a field is stored both",
        ),
        (
            [{"typed_value": {"b": {"typed_value": 5}}}],
            pa.struct([("b", _group(pa.int64()))]),
            "lacks the field 'b'",
        ),
        ([{"typed_value": dt.timedelta(1)}], pa.duration("us"), "of type duration"),
        ([{"typed_value": 5}], pa.uint64(), "of type uint64"),
    ],
)
def test_contradictions_are_errors_with_the_file_and_the_column(
    rows: list[dict[str, Any] | None], typed: pa.DataType, message: str
) -> None:
    with pytest.raises(CorruptTable, match=message) as caught:
        _json(_column(rows, typed, ["a"]))
    assert str(caught.value).startswith("file: column v: ")


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.struct([("value", _BINARY)]),
        pa.struct([("metadata", _BINARY)]),
        pa.struct([("metadata", pa.string()), ("value", _BINARY)]),
        pa.struct([("metadata", _BINARY), ("value", _BINARY), ("other", _BINARY)]),
    ],
    ids=str,
)
def test_a_column_of_another_type_is_no_variant(kind: pa.DataType) -> None:
    with pytest.raises(CorruptTable, match=r"file: column v is of type .*, which is no variant"):
        variant_conversion(kind, "file", "v")
