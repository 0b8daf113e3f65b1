"""The columns of a Parquet file are those that Spark's reader finds in it."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.data_files.footer_schema import schema_of_footer
from slackwater.errors import UnsupportedFeature
from slackwater.protocol.schema.schema import PrimitiveType, StructType
from slackwater.storage.parquet_footer import read_footer
from tests.storage.footers import BYTE_ARRAY, VARIANT, Fields, column, element, footer

_NOTE = b"org.apache.spark.sql.parquet.row.metadata"


def _schema(rows: pa.Table, **options: Any) -> StructType:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, **options)
    return schema_of_footer(read_footer(pa.BufferReader(sink.getvalue())))


def _type(kind: pa.DataType, **options: Any) -> str:
    return str(_schema(pa.table({"c": pa.array([None], kind)}), **options)).removeprefix("struct<c:").removesuffix(">")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.int8(), "byte"),
        (pa.int16(), "short"),
        (pa.int32(), "integer"),
        (pa.int64(), "long"),
        (pa.uint8(), "short"),
        (pa.uint16(), "integer"),
        (pa.uint32(), "long"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.bool_(), "boolean"),
        (pa.float32(), "float"),
        (pa.float64(), "double"),
        (pa.decimal128(20, 2), "decimal(20,2)"),
        (pa.string(), "string"),
        (pa.large_string(), "string"),
        (pa.dictionary(pa.int32(), pa.string()), "string"),
        (pa.binary(), "binary"),
        (pa.binary(4), "binary"),
        (pa.json_(), "string"),
        (pa.null(), "integer"),
        (pa.duration("us"), "long"),
        (pa.date32(), "date"),
        (pa.timestamp("ms", "Europe/Berlin"), "timestamp"),
        (pa.timestamp("us", "UTC"), "timestamp"),
        (pa.timestamp("us"), "timestamp_ntz"),
        (pa.list_(pa.int32()), "array<integer>"),
        (pa.list_(pa.int32(), 2), "array<integer>"),
        (
            pa.large_list(pa.struct([("a", pa.uint8()), ("b", pa.list_(pa.date32()))])),
            "array<struct<a:short,b:array<date>>>",
        ),
        (pa.map_(pa.string(), pa.struct([("x", pa.int64())])), "map<string,struct<x:long>>"),
    ],
    ids=str,
)
def test_types_are_those_of_spark(kind: pa.DataType, expected: str) -> None:
    assert _type(kind) == expected


def test_times_of_96_bits_are_instants() -> None:
    moment = pa.table({"c": pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("ns"))})
    assert str(_schema(moment, use_deprecated_int96_timestamps=True)) == "struct<c:timestamp>"


@pytest.mark.parametrize(
    "kind",
    [pa.time32("ms"), pa.time64("us"), pa.timestamp("ns"), pa.float16(), pa.uuid(), pa.decimal256(50, 2)],
    ids=str,
)
def test_types_that_spark_refuses_are_refused_with_the_columns_name(kind: pa.DataType) -> None:
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, pa.schema([("s", pa.struct([("c", kind)]))])).close()
    with pytest.raises(UnsupportedFeature, match=r"column s\.c is .*write it as another type"):
        schema_of_footer(read_footer(pa.BufferReader(sink.getvalue())))


def _noted(note: str, rows: pa.Table) -> StructType:
    return _schema(rows.replace_schema_metadata({_NOTE: note}))


def _note(kind: Any, **metadata: Any) -> str:
    return json.dumps(
        {"type": "struct", "fields": [{"name": "c", "type": kind, "nullable": False, "metadata": metadata}]}
    )


def test_what_spark_noted_goes_before_the_types() -> None:
    found = _noted(
        _note("short", comment="small", **{"delta.identity.start": 1}), pa.table({"c": pa.array([1], pa.int32())})
    )
    (column,) = found
    assert (str(column.type), column.nullable, dict(column.metadata)) == ("short", True, {"comment": "small"})


def test_a_note_that_is_no_json_is_passed_over() -> None:
    assert str(_noted("StructType(c)", pa.table({"c": [1]}))) == "struct<c:long>"


@pytest.mark.parametrize("kind", ["time(6)", "interval day to second", {"type": "udt", "class": "x"}], ids=str)
def test_types_of_spark_that_tables_lack_are_refused(kind: Any) -> None:
    with pytest.raises(UnsupportedFeature, match="a column that a table cannot contain: column c"):
        _noted(_note(kind), pa.table({"c": [1]}))


def test_text_keeps_its_collation() -> None:
    found = _noted(_note("string", __COLLATIONS={"c": "icu.UNICODE_CI"}), pa.table({"c": ["x"]}))
    assert [column.type for column in found] == [PrimitiveType("string", "icu.UNICODE_CI")]


def test_decimals_have_38_digits_at_most() -> None:
    assert _type(pa.decimal128(38, 38)) == "decimal(38,38)"
    assert (
        str(_schema(pa.table({"c": [decimal.Decimal("1.50")]}), store_decimal_as_integer=True))
        == "struct<c:decimal(3,2)>"
    )


# Variants of writers other than Spark.

_BINARY = {"type": BYTE_ARRAY}


def _variant(name: str, *more: str) -> list[Fields]:
    """A group with the annotation."""
    leaves = ["metadata", "value", *more]
    return [element(name, children=len(leaves), logical=VARIANT), *(element(leaf, **_BINARY) for leaf in leaves)]


def _of(*elements: Fields, columns: int) -> StructType:
    leaves = sum(1 for each in elements if 5 not in each)
    schema = [element("root", children=columns), *elements]
    return schema_of_footer(read_footer(footer(*[column(**_BINARY)] * leaves, schema=schema, is_ordered=False)))


def test_annotated_groups_are_variants() -> None:
    found = _of(*_variant("v"), element("b", **_BINARY), *_variant("shredded", "typed_value"), columns=3)
    assert str(found) == "struct<v:variant,b:binary,shredded:variant>"


def test_groups_without_the_annotation_are_structs() -> None:
    kind = pa.struct([pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary())])
    assert _type(kind) == "struct<metadata:binary,value:binary>"


@pytest.mark.parametrize("name", ["value", "metadata", "q"])
def test_annotated_groups_inside_other_columns_are_variants(name: str) -> None:
    """A struct with nothing but a variant has the same leaves."""
    found = _of(
        element("b", **_BINARY),
        element("s", children=1),
        *_variant(name),
        element("l", children=1, is_list=True),
        element("list", children=1, is_repeated=True),
        *_variant("element"),
        element("t", children=2),
        element("metadata", **_BINARY),
        element("value", **_BINARY),
        columns=4,
    )
    plain = "t:struct<metadata:binary,value:binary>"
    assert str(found) == f"struct<b:binary,s:struct<{name}:variant>,l:array<variant>,{plain}>"


def test_footer_locates_variants_and_tells_which_are_shredded() -> None:
    schema = [element("root", children=3), element("b", **_BINARY), *_variant("v"), *_variant("w", "typed_value")]
    found = read_footer(footer(*[column(**_BINARY)] * 6, schema=schema, is_ordered=False)).variants
    assert [(each.first_leaf, each.num_leaves, each.is_shredded) for each in found] == [(1, 2, False), (3, 3, True)]


def test_field_of_a_shredded_object_is_no_typed_value_of_its_own() -> None:
    """Only the child of the annotated group tells whether the variant is shredded."""
    schema = [
        element("root", children=1),
        element("v", children=2, logical=VARIANT),
        element("metadata", **_BINARY),
        element("o", children=1),
        element("typed_value", **_BINARY),
    ]
    (found,) = read_footer(footer(*[column(**_BINARY)] * 2, schema=schema, is_ordered=False)).variants
    assert not found.is_shredded
