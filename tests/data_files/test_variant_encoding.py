"""The binary encoding of variants, compared with PySpark's own decoder."""

from __future__ import annotations

import json
import struct
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.data_files.variant_encoding import (
    VARIANT_NULL,
    VariantTypeId,
    dictionary_of,
    encode_array,
    encode_bytes,
    encode_decimal,
    encode_object,
    encode_primitive,
    encode_text,
    object_fields,
    variant_to_json,
)
from slackwater.errors import CorruptTable

NO_NAMES = b"\x01\x00\x00"


def metadata_of(names: list[str]) -> bytes:
    """The metadata of a variant with the field `names`, with offsets of four bytes."""
    texts = [name.encode() for name in names]
    ends = accumulate(map(len, texts), initial=0)
    return b"\xc1" + b"".join(number.to_bytes(4, "little") for number in (len(texts), *ends)) + b"".join(texts)


def encoded(value: Any, ids: dict[str, int]) -> bytes:
    """The encoding of a JSON value, written with the functions under test."""
    if value is None:
        return VARIANT_NULL
    if isinstance(value, bool):
        return encode_primitive(VariantTypeId.TRUE if value else VariantTypeId.FALSE)
    if isinstance(value, int):
        return encode_primitive(VariantTypeId.INT64, struct.pack("<q", value))
    if isinstance(value, float):
        return encode_primitive(VariantTypeId.DOUBLE, struct.pack("<d", value))
    if isinstance(value, str):
        return encode_text(value.encode())
    if isinstance(value, list):
        return encode_array([encoded(element, ids) for element in value])
    return encode_object((name.encode(), ids[name], encoded(inner, ids)) for name, inner in value.items())


def names_in(value: Any) -> list[str]:
    """All field names in a JSON value, each once."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = list(value) if isinstance(value, dict) else []
    return list(dict.fromkeys([*own, *(name for each in inner for name in names_in(each))]))


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
_LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
_VALUES = st.recursive(
    _LEAVES | _TEXTS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(_TEXTS, inner, max_size=5)
)


@given(_VALUES)
def test_json_of_an_encoded_value_is_the_value(value: Any) -> None:
    names = names_in(value)
    ids = {name: number for number, name in enumerate(names)}
    assert json.loads(variant_to_json(metadata_of(names), encoded(value, ids))) == value


@given(_VALUES)
def test_pyspark_decodes_the_same_value(value: Any) -> None:
    types = pytest.importorskip("pyspark.sql.types")
    names = names_in(value)
    found = types.VariantVal(encoded(value, {n: i for i, n in enumerate(names)}), metadata_of(names))
    assert found.toPython() == value


@pytest.mark.parametrize("count", [255, 256, 70_000])
def test_large_arrays_and_objects(count: int) -> None:
    numbers = list(range(count))
    assert json.loads(variant_to_json(NO_NAMES, encoded(numbers, {}))) == numbers
    names = [f"n{number:06}" for number in numbers]
    value = dict(zip(names, numbers, strict=True))
    ids = {name: number for number, name in enumerate(names)}
    assert json.loads(variant_to_json(metadata_of(names), encoded(value, ids))) == value
    assert len(list(object_fields(encoded(value, ids)))) == count


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (encode_decimal(-12345, 9, 2), "-123.45"),
        (encode_decimal(10**17, 18, 18), "0.100000000000000000"),
        (encode_decimal(-(10**37) - 1, 38, 3), "-10000000000000000000000000000000000.001"),
        (encode_bytes(b"\x00\xff"), '"AP8="'),
        (encode_text(b"x" * 64), f'"{"x" * 64}"'),
        (encode_primitive(VariantTypeId.DATE, struct.pack("<i", -1)), '"1969-12-31"'),
        (encode_primitive(VariantTypeId.TIMESTAMP, struct.pack("<q", -1)), '"1969-12-31 23:59:59.999999+00:00"'),
        (encode_primitive(VariantTypeId.TIMESTAMP_NTZ, struct.pack("<q", 0)), '"1970-01-01 00:00:00"'),
        (encode_primitive(VariantTypeId.TIME_NTZ, struct.pack("<q", 1)), '"00:00:00.000001"'),
        (
            encode_primitive(VariantTypeId.TIMESTAMP_NANOS, struct.pack("<q", -1)),
            '"1969-12-31 23:59:59.999999999+00:00"',
        ),
        (encode_primitive(VariantTypeId.UUID, bytes(range(16))), '"00010203-0405-0607-0809-0a0b0c0d0e0f"'),
        (encode_primitive(VariantTypeId.DOUBLE, struct.pack("<d", float("nan"))), '"NaN"'),
        (encode_primitive(VariantTypeId.FLOAT, struct.pack("<f", float("-inf"))), '"-Infinity"'),
        (encode_primitive(VariantTypeId.INT8, b"\xff"), "-1"),
    ],
)
def test_json_of_primitive_types(value: bytes, expected: str) -> None:
    assert variant_to_json(NO_NAMES, value) == expected


@pytest.mark.parametrize(
    ("metadata", "value"),
    [
        (b"", VARIANT_NULL),
        (b"\x02\x00\x00", VARIANT_NULL),
        (b"\x01\x01\x00\x05ab", VARIANT_NULL),
        (NO_NAMES, b""),
        (NO_NAMES, encode_text(b"abc")[:-1]),
        (NO_NAMES, encode_primitive(VariantTypeId.INT64, b"\x00")),
        (NO_NAMES, encode_array([encode_text(b"abc")])[:-1]),
        (NO_NAMES, encode_object([(b"a", 3, VARIANT_NULL)])),
        (NO_NAMES, bytes([63 << 2])),
        (NO_NAMES, b"\x05\xff"),
        (NO_NAMES, encode_primitive(VariantTypeId.DATE, struct.pack("<i", 2**31 - 1))),
    ],
)
def test_a_damaged_variant_is_an_error_of_ours(metadata: bytes, value: bytes) -> None:
    with pytest.raises(CorruptTable, match="a variant is damaged"):
        variant_to_json(metadata, value)


def test_an_array_inside_itself_many_times_is_refused() -> None:
    value = VARIANT_NULL
    for _ in range(600):
        value = encode_array([value])
    with pytest.raises(CorruptTable, match="nested"):
        variant_to_json(NO_NAMES, value)


def test_names_of_metadata() -> None:
    assert dictionary_of(metadata_of(["b", "a", "é"])) == (b"b", b"a", "é".encode())
