"""Statistics from the footers of files that Arrow wrote: exact, sound for every reader, or left out."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.errors import CorruptTable, InvalidArgument, ObjectNotFound
from slackwater.predicate.predicate import Comparison, In, IsNull, Not, Predicate, StartsWith
from slackwater.protocol.schema.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)
from slackwater.scan.pruning.file_pruning import prune
from slackwater.stats.footer_bounds import Writer, json_bounds
from slackwater.stats.footers import StatsLeaves, parquet_footer, stats_leaves, stats_of_footer
from slackwater.stats.stats_columns import parse_stats_columns, validate_stats_columns
from slackwater.storage.open import open_store
from slackwater.storage.parquet_footer import ParquetFooter, read_footer
from tests.examples import examples

UTC = dt.timezone.utc
SPARK = "parquet-mr version 1.17.0 (build x)"


def _schema(**columns: DataType) -> StructType:
    return StructType(tuple(StructField(name, data_type) for name, data_type in columns.items()))


def _leaves(schema: StructType, **properties: str) -> StatsLeaves:
    return stats_leaves(schema, "none", (), {f"delta.{key}": value for key, value in properties.items()})


def _footer(table: pa.Table, **options: Any) -> ParquetFooter:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return read_footer(pa.BufferReader(sink.getvalue()))


def _stats(table: pa.Table, schema: StructType, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(stats_of_footer(_footer(table, **options), _leaves(schema)))
    return found


def _bounds(array: pa.Array, data_type: DataType, **options: Any) -> tuple[Any, Any]:
    stats = _stats(pa.table({"c": array}), _schema(c=data_type), **options)
    return stats.get("minValues", {}).get("c"), stats.get("maxValues", {}).get("c")


def test_counts_bounds_and_nulls_mirror_the_schema() -> None:
    rows = [{"i": 1, "s": {"a": "x", "t": {"b": 2}}}, {"i": None, "s": {"a": None, "t": None}}, {"i": 3, "s": None}]
    inner = StructType((StructField("b", LONG),))
    schema = _schema(i=LONG, s=_schema(a=STRING, t=inner))
    assert _stats(pa.Table.from_pylist(rows), schema) == {
        "numRecords": 3,
        "minValues": {"i": 1, "s": {"a": "x", "t": {"b": 2}}},
        "maxValues": {"i": 3, "s": {"a": "x", "t": {"b": 2}}},
        "nullCount": {"i": 1, "s": {"a": 2, "t": {"b": 2}}},
        "tightBounds": True,
    }


@pytest.mark.parametrize(
    ("array", "data_type", "expected"),
    [
        (pa.array([-128, 127], pa.int8()), BYTE, (-128, 127)),
        (pa.array([-5, 5], pa.int16()), SHORT, (-5, 5)),
        (pa.array([-5, 5], pa.int32()), INTEGER, (-5, 5)),
        (pa.array([-(2**63), 2**63 - 1]), LONG, (-(2**63), 2**63 - 1)),
        (pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31)]), DATE, ("0001-01-01", "9999-12-31")),
        (pa.array([-1, 2_000_000, 1_999_001], pa.timestamp("us")), TIMESTAMP_NTZ,
         ("1969-12-31T23:59:59.999", "1970-01-01T00:00:02.000")),
        (pa.array([1_000, 1_999_001], pa.timestamp("us", "UTC")), TIMESTAMP,
         ("1970-01-01T00:00:00.001Z", "1970-01-01T00:00:02.000Z")),
        (pa.array([1, 2], pa.timestamp("ms", "UTC")), TIMESTAMP,
         ("1970-01-01T00:00:00.001Z", "1970-01-01T00:00:00.002Z")),
        (pa.array([999_999, 1_000_001], pa.timestamp("ns", "UTC")), TIMESTAMP,
         ("1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.002Z")),
        (pa.array(["", "é"]), STRING, ("", "é")),
        (pa.array([0, 3], pa.int32()), DOUBLE, (0.0, 3.0)),
        (pa.array([dt.date(2024, 2, 29)]), TIMESTAMP_NTZ, ("2024-02-29T00:00:00.000",) * 2),
    ],
)  # fmt: skip
def test_bounds_are_in_the_form_of_their_type(array: pa.Array, data_type: DataType, expected: tuple[Any, Any]) -> None:
    assert _bounds(array, data_type) == expected


@pytest.mark.parametrize(
    ("array", "data_type"),
    [
        (pa.array([True, False]), BOOLEAN),
        (pa.array([b"a", b"b"]), BINARY),
        (pa.array([1, 2**32 - 1], pa.uint32()), LONG),
        (pa.array([1, 200], pa.uint8()), SHORT),
        (pa.array([1, 300]), BYTE),
        (pa.array([1, 2**40]), INTEGER),
        (pa.array([1.0, 2.0]), FLOAT),
        (pa.array([1, 2], pa.timestamp("us")), TIMESTAMP),
        (pa.array([1, 2], pa.timestamp("us", "UTC")), TIMESTAMP_NTZ),
        (pa.array([1, 2]), TIMESTAMP),
        (pa.array([1, 2]), STRING),
        (pa.array(["1", "2"]), LONG),
        (pa.array([1, 2]), DOUBLE),
        (pa.array([1, 2], pa.time64("us")), LONG),
        (pa.array([b"\xff\xfe"]), STRING),
        (pa.array([Decimal("1.25")], pa.decimal128(5, 2)), DecimalType(5, 1)),
        (pa.array([Decimal("123.25")], pa.decimal128(5, 2)), DecimalType(4, 2)),
        (pa.array([Decimal("10.0")], pa.decimal128(3, 1)), DecimalType(3, 2)),
        (pa.array([Decimal("-10.0")], pa.decimal128(3, 1)), DecimalType(3, 2)),
        (pa.array([None, None], pa.int64()), LONG),
    ],
)
def test_what_a_reader_may_see_in_another_way_has_no_bounds(array: pa.Array, data_type: DataType) -> None:
    stats = _stats(pa.table({"c": array}), _schema(c=data_type))
    assert stats == {"numRecords": len(array), "nullCount": {"c": array.null_count}, "tightBounds": True}


@pytest.mark.parametrize("kept_as", [{}, {"store_decimal_as_integer": True}])
@pytest.mark.parametrize(("precision", "scale"), [(5, 2), (15, 2), (38, 2), (38, 37), (18, 18), (9, 0)])
def test_decimals_keep_every_digit(precision: int, scale: int, kept_as: dict[str, bool]) -> None:
    most = Decimal((0, (9,) * precision, -scale))
    values = [most.copy_negate(), Decimal((0, (0,), -scale)), most, None]
    table = pa.table({"c": pa.array(values, pa.decimal128(precision, scale))})
    text = stats_of_footer(_footer(table, **kept_as), _leaves(_schema(c=DecimalType(precision, scale))))
    stats = json.loads(text, parse_float=str, parse_int=str)
    assert (stats["minValues"]["c"], stats["maxValues"]["c"]) == (f"-{most:f}", f"{most:f}")


def test_decimals_of_a_narrower_file_have_the_scale_of_the_table() -> None:
    table = pa.table({"c": pa.array([Decimal("1.5")], pa.decimal128(3, 1)), "i": pa.array([7], pa.int32())})
    schema = _schema(c=DecimalType(10, 4), i=DecimalType(12, 2))
    assert '"minValues":{"c":1.5000,"i":7.00}' in stats_of_footer(_footer(table), _leaves(schema))


def test_a_max_of_numbers_is_not_given_where_the_writer_hides_nan() -> None:
    assert _bounds(pa.array([1.5, math.nan]), DOUBLE) == (1.5, None)
    assert _bounds(pa.array([1.5, 2.5], pa.float32()), FLOAT) == (1.5, None)
    assert _bounds(pa.array([math.nan, math.nan]), DOUBLE) == (None, None)


def _of_numbers(lows: Sequence[float], highs: Sequence[float], created_by: str) -> tuple[Any, Any]:
    column = _footer(pa.table({"c": [1.0]})).metadata.schema.column(0)
    trusted = Writer(created_by.startswith("parquet-mr version 1.17"), True, False)
    return json_bounds(lows, highs, column, DOUBLE, trusted, 32)


def test_nan_and_infinity_are_no_bounds_and_a_zero_stands_for_both_zeros() -> None:
    assert _of_numbers([1.0], [3.0], SPARK) == (1.0, 3.0)
    assert _of_numbers([1.0, math.nan], [3.0, math.nan], SPARK) == (1.0, None)
    assert _of_numbers([math.nan], [math.nan], SPARK) == (None, None)
    assert _of_numbers([-math.inf], [math.inf], SPARK) == (None, None)
    assert _of_numbers([1.0], [math.inf], SPARK) == (1.0, None)
    low, high = _of_numbers([0.0], [-0.0], SPARK)
    assert (math.copysign(1, low), math.copysign(1, high)) == (-1.0, 1.0)


@pytest.mark.parametrize(
    ("created_by", "counts_nan", "keeps_text_whole"),
    [
        (SPARK, True, True),
        ("parquet-mr version 1.10.1 (build x)", True, True),
        ("parquet-mr version 1.8.2 (build x)", False, True),
        ("parquet-mr version 1.18.0", False, True),
        ("parquet-mr version 1.100.0", False, True),
        ("parquet-cpp-arrow version 26.0.1", False, True),
        ("parquet-rs version 55.0.0", False, False),
        ("", False, False),
    ],
)
def test_a_writer_is_trusted_as_far_as_it_is_known(created_by: str, counts_nan: bool, keeps_text_whole: bool) -> None:
    assert Writer.of(created_by, {}) == Writer(counts_nan, keeps_text_whole, False)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["a" * 32], ("a" * 32, "a" * 32)),
        (["a" * 33], ("a" * 32, "a" * 32 + "\ufffd")),
        (["a" * 32 + "\ufffd"], ("a" * 32, "a" * 31 + "b")),
        (["a" * 31 + "\ud7ff" + "😀"], ("a" * 31 + "\ud7ff", "a" * 31 + "\ue000")),
        (["a" * 30 + "\uffff\uffff\uffff"], (None, "a" * 29 + "b")),
        (["\uffff" * 40], (None, None)),
        (["\U0010ffff" * 40], ("\U0010ffff" * 32, None)),
        (["😀"], ("😀", None)),
        (["\ufffd", "a"], ("a", "\ufffd")),
        (["\ufffd", "😀"], (None, None)),
        (["é" * 40], ("é" * 32, "é" * 32 + "\ufffd")),
    ],
)
def test_text_is_cut_such_that_it_is_a_bound_in_either_order(
    values: list[str], expected: tuple[str | None, str | None]
) -> None:
    assert _bounds(pa.array(values), STRING) == expected


def test_the_length_of_text_in_statistics_is_a_property() -> None:
    table, schema = pa.table({"c": ["abcdef"]}), _schema(c=STRING)
    stats = json.loads(stats_of_footer(_footer(table), _leaves(schema, dataSkippingStringPrefixLength="2")))
    assert (stats["minValues"]["c"], stats["maxValues"]["c"]) == ("ab", "ab\ufffd")
    stats = json.loads(stats_of_footer(_footer(table), _leaves(schema, dataSkippingStringPrefixLength="100")))
    assert (stats["minValues"]["c"], stats["maxValues"]["c"]) == ("abcdef", "abcdef")
    with pytest.raises(CorruptTable, match="must not be negative"):
        _leaves(schema, dataSkippingStringPrefixLength="-1")


def test_text_that_its_writer_may_have_cut_is_no_tight_bound() -> None:
    column = _footer(pa.table({"c": ["a"]})).metadata.schema.column(0)
    unknown = Writer(counts_nan=False, keeps_text_whole=False, old_calendar=False)
    long, short = "é".encode() * 20, "é".encode() * 10
    assert json_bounds([long], [long], column, STRING, unknown, 32) == (None, None)
    assert json_bounds([short], [short], column, STRING, unknown, 32) == (short.decode(), short.decode())
    assert json_bounds([b"a" * 64], [b"a" * 64], column, STRING, unknown, 32) == ("a" * 32, "a" * 32 + "\ufffd")


def test_old_days_of_an_old_calendar_are_left_out() -> None:
    days, times = pa.array([dt.date(1500, 1, 1), dt.date(2000, 1, 1)]), pa.array([dt.datetime(1890, 1, 1)] * 2)
    notes = {"org.apache.spark.legacyDateTime": "", "org.apache.spark.version": "3.5.0"}
    schema = _schema(d=DATE, t=TIMESTAMP_NTZ)
    table = pa.table({"d": days, "t": times})
    new = json.loads(stats_of_footer(_footer(table), _leaves(schema)))
    old = json.loads(stats_of_footer(_footer(table.replace_schema_metadata(notes)), _leaves(schema)))
    assert new["minValues"] == {"d": "1500-01-01", "t": "1890-01-01T00:00:00.000"}
    assert "minValues" not in old
    assert old["maxValues"] == {"d": "2000-01-01"}


def test_times_beyond_the_year_9999_are_left_out() -> None:
    late = 253_402_300_799_999_999
    assert _bounds(pa.array([0, late], pa.timestamp("us")), TIMESTAMP_NTZ) == ("1970-01-01T00:00:00.000", None)
    assert _bounds(pa.array([-(2**62), 0], pa.timestamp("us")), TIMESTAMP_NTZ) == (None, "1970-01-01T00:00:00.000")
    assert _bounds(pa.array([-800_000, 3_000_000], pa.date32()), DATE) == (None, None)


def test_int96_times_have_no_bounds() -> None:
    table = pa.table({"c": pa.array([1, None], pa.timestamp("us")), "i": [1, 2]})
    stats = _stats(table, _schema(c=TIMESTAMP, i=LONG), use_deprecated_int96_timestamps=True)
    assert stats["minValues"] == {"i": 1}
    assert stats["maxValues"] == {"i": 2}


def test_row_groups_are_put_together() -> None:
    table = pa.table({"a": [5, 1, None, None, 9, 2], "s": ["b", "a", "z", None, "c", "d"]})
    stats = _stats(table, _schema(a=LONG, s=STRING), row_group_size=2)
    assert stats["minValues"] == {"a": 1, "s": "a"}
    assert stats["maxValues"] == {"a": 9, "s": "z"}
    assert stats["nullCount"] == {"a": 2, "s": 1}


def test_a_row_group_without_statistics_leaves_the_column_out(tmp_path: Path) -> None:
    parts = []
    for number, wanted in enumerate([True, ["b"]]):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"a": [1, 2], "b": [3, 4]}), path, write_statistics=wanted)
        parts.append(pq.read_metadata(path))
    parts[0].append_row_groups(parts[1])
    parts[0].write_metadata_file(tmp_path / "both")
    stats = json.loads(
        stats_of_footer(read_footer(pa.OSFile(str(tmp_path / "both"))), _leaves(_schema(a=LONG, b=LONG)))
    )
    assert stats == {
        "numRecords": 4,
        "minValues": {"b": 3},
        "maxValues": {"b": 4},
        "nullCount": {"b": 0},
        "tightBounds": True,
    }


def test_a_required_column_has_no_nulls_whatever_the_footer_says() -> None:
    table = pa.table({"a": [1, 2]}, schema=pa.schema([pa.field("a", pa.int64(), nullable=False)]))
    stats = _stats(table, _schema(a=LONG), write_statistics=False)
    assert stats == {"numRecords": 2, "nullCount": {"a": 0}, "tightBounds": True}


@pytest.mark.parametrize("options", [{}, {"row_group_size": 1}])
def test_a_file_without_rows_says_so(options: dict[str, int]) -> None:
    stats = _stats(pa.table({"a": pa.array([], pa.int64())}), _schema(a=LONG, later=STRING), **options)
    assert stats == {"numRecords": 0, "nullCount": {"a": 0, "later": 0}, "tightBounds": True}


def test_a_column_that_the_file_lacks_is_null_in_every_row() -> None:
    table = pa.table({"a": [1, 2], "s": [{"x": 1}, None], "i": [1, 2]})
    inner = _schema(x=LONG, y=LONG)
    schema = _schema(a=LONG, s=inner, n=STRING, l=ArrayType(LONG), i=inner)
    # Of `i`, a number where the table has a struct, nothing can be said.
    assert _stats(table, schema)["nullCount"] == {"a": 0, "s": {"x": 1, "y": 2}, "n": 2, "l": 2}


def test_a_column_in_another_case_is_not_taken_for_a_missing_one() -> None:
    table = pa.table({"A": [1, 2], "S": [{"X": 1}, {"X": 2}]})
    stats = _stats(table, _schema(a=LONG, s=_schema(x=LONG)))
    assert stats == {"numRecords": 2, "tightBounds": True}


def test_dots_in_names_do_not_mislead() -> None:
    table = pa.table({"s.a": [7], "s": [{"a": 1}], "t.u": [3]})
    stats = _stats(table, StructType((StructField("s", _schema(a=LONG)), StructField("t", _schema(u=LONG)))))
    assert stats["minValues"] == {"s": {"a": 1}}
    assert stats["nullCount"] == {"s": {"a": 0}, "t": {"u": 1}}
    dotted = _stats(table, StructType((StructField("s.a", LONG),)))
    assert dotted["minValues"] == {"s.a": 7}


def test_of_columns_that_are_there_twice_nothing_is_said() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    assert _stats(table, _schema(a=LONG)) == {"numRecords": 1, "tightBounds": True}


def test_nothing_is_said_of_what_is_inside_arrays_and_maps() -> None:
    table = pa.table(
        {
            "l": pa.array([[1, None], None], pa.list_(pa.int64())),
            "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
            "ls": pa.array([[{"x": 1}], []]),
            "fixed": pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)),
            "after": [5, 6],
        }
    )
    schema = _schema(l=ArrayType(LONG), m=MapType(STRING, LONG), ls=ArrayType(_schema(x=LONG)), fixed=ArrayType(LONG))
    schema = StructType((*schema.fields, StructField("after", LONG)))
    stats = _stats(table, schema)
    assert stats["minValues"] == {"after": 5}
    assert stats["nullCount"] == {"after": 0}


def test_columns_of_other_arrow_kinds_do_not_shift_the_rest() -> None:
    table = pa.table(
        {
            "d": pa.array(["x", "y"]).dictionary_encode(),
            "ld": pa.array([["x"], []]).cast(pa.list_(pa.dictionary(pa.int32(), pa.string()))),
            "u": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16] * 2, pa.binary(16))),
            "n": pa.nulls(2),
            "after": [5, 6],
        }
    )
    stats = _stats(table, _schema(d=STRING, after=LONG, n=LONG))
    assert stats["minValues"] == {"d": "x", "after": 5}
    assert stats["nullCount"]["after"] == 0


def test_collated_and_char_columns_have_no_bounds() -> None:
    schema = StructType(
        (
            StructField("c", STRING, metadata={"__COLLATIONS": {"c": "spark.UNICODE_CI"}}),
            StructField("h", STRING, metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}),
            StructField("v", STRING, metadata={"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}),
        )
    )
    stats = _stats(pa.table({"c": ["a"], "h": ["a  "], "v": ["a"]}), schema)
    assert stats["minValues"] == {"v": "a"}
    assert stats["nullCount"] == {"c": 0, "h": 0, "v": 0}


def _mapped(mode: str) -> StatsLeaves:
    def column(name: str, data_type: DataType, number: int) -> StructField:
        metadata = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
        return StructField(name, data_type, metadata=metadata)

    inner = StructType((column("x", LONG, 3),))
    return stats_leaves(
        StructType((column("a", LONG, 1), column("s", inner, 2), column("p", LONG, 4))), mode, ["p"], {}
    )


def _with_ids(names: Sequence[str], ids: Sequence[int | None]) -> pa.Table:
    """Columns as of `_mapped`, the second a struct with the third in it."""

    def column(name: str, kind: pa.DataType, number: int | None) -> pa.Field:
        return pa.field(name, kind, metadata=None if number is None else {"PARQUET:field_id": str(number)})

    inner = pa.struct([column(names[2], pa.int64(), ids[2])])
    schema = pa.schema([column(names[0], pa.int64(), ids[0]), column(names[1], inner, ids[1])])
    return pa.Table.from_pylist([{names[0]: 5, names[1]: {names[2]: 6}}], schema)


def test_mapped_columns_stand_under_their_physical_names() -> None:
    footer = _footer(_with_ids(["col-1", "col-2", "col-3"], [1, 2, 3]))
    for mode in ("name", "id"):
        stats = json.loads(stats_of_footer(footer, _mapped(mode)))
        assert stats["minValues"] == {"col-1": 5, "col-2": {"col-3": 6}}


def test_where_columns_go_by_ids_names_in_the_file_do_not_count() -> None:
    stats = json.loads(stats_of_footer(_footer(_with_ids(["x", "y", "col-1"], [1, 2, 3])), _mapped("id")))
    assert stats["minValues"] == {"col-1": 5, "col-2": {"col-3": 6}}
    lacking = json.loads(stats_of_footer(_footer(_with_ids(["col-1", "y", "z"], [7, 2, 3])), _mapped("id")))
    assert lacking["nullCount"] == {"col-1": 1, "col-2": {"col-3": 0}}
    without = json.loads(stats_of_footer(_footer(_with_ids(["col-1", "y", "z"], [None] * 3)), _mapped("id")))
    assert without == {"numRecords": 1, "tightBounds": True}


def _paths(found: StatsLeaves) -> list[str]:
    return [".".join(leaf.path) for leaf in found.leaves]


WIDE = _schema(
    a=LONG, s=_schema(x=LONG, y=_schema(z=STRING)), l=ArrayType(LONG), v=VOID, b=LONG, p=LONG, **{"odd.name": LONG}
)


def test_the_number_of_indexed_columns_counts_leaves_without_partition_columns() -> None:
    assert _paths(stats_leaves(WIDE, "none", ["p"], {})) == ["a", "s.x", "s.y.z", "l", "b", "odd.name"]
    many = _schema(**{f"c{i}": LONG for i in range(40)})
    assert len(stats_leaves(many, "none", (), {}).leaves) == 32
    for number, expected in [("0", 0), ("3", 3), ("-1", 40), ("100", 40)]:
        assert len(_leaves(many, dataSkippingNumIndexedCols=number).leaves) == expected
    assert _paths(stats_leaves(WIDE, "none", ["a"], {"delta.dataSkippingNumIndexedCols": "2"})) == ["s.x", "s.y.z"]
    with pytest.raises(CorruptTable, match="whole number"):
        _leaves(many, dataSkippingNumIndexedCols="ten")


def test_named_columns_go_before_their_number() -> None:
    def chosen(text: str) -> list[str]:
        properties = {"delta.dataSkippingStatsColumns": text, "delta.dataSkippingNumIndexedCols": "1"}
        return _paths(stats_leaves(WIDE, "none", ["p"], properties))

    assert chosen("b") == ["b"]
    assert chosen(" B , s ") == ["s.x", "s.y.z", "b"]
    assert chosen("`odd.name`,s.y.z,l") == ["s.y.z", "l", "odd.name"]
    assert chosen("s.y, s.y.z") == ["s.y.z"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nope", "'nope'"),
        ("a.x", "no column a.x: a has the type long"),
        ("odd.name", "no column odd.name: the columns are "),
        ("p", "p is a partition column"),
        ("l.element", "not a column"),
        ("l", "array"),
        ("a,,b", "separated by commas"),
        ("a,", "separated by commas"),
        ("`a", "separated by commas"),
    ],
)
def test_names_that_lead_nowhere_are_refused_when_they_are_set(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        validate_stats_columns(WIDE, ["p"], {"DELTA.dataskippingstatscolumns": text})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" ", []),
        ("nope,b,l.element,p,a.x", ["b"]),
        ("l", ["l"]),
        ("a,,b", ["a"]),
        ("`a", ["a"]),
    ],
)
def test_names_that_another_writer_left_do_not_stop_a_write(text: str, expected: list[str]) -> None:
    properties = {"delta.dataSkippingStatsColumns": text, "delta.dataSkippingNumIndexedCols": "1"}
    assert _paths(stats_leaves(WIDE, "none", ["p"], properties)) == expected


def test_names_may_hold_commas_dots_and_backticks() -> None:
    assert parse_stats_columns("`a,b`.c, `x``y` ,z") == [("a,b", "c"), ("x`y",), ("z",)]


def test_clustering_columns_always_have_statistics() -> None:
    found = stats_leaves(WIDE, "none", (), {"delta.dataSkippingNumIndexedCols": "0"}, [["s", "y", "z"], ("b",)])
    assert _paths(found) == ["s.y.z", "b"]


def test_named_columns_are_display_names_and_statistics_physical_ones() -> None:
    metadata = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
    schema = StructType((StructField("shown", LONG, metadata=metadata),))
    found = stats_leaves(schema, "name", (), {"delta.dataSkippingStatsColumns": "shown"})
    assert _paths(found) == ["col-1"]
    assert _paths(stats_leaves(schema, "name", (), {"delta.dataSkippingNumIndexedCols": "0"}, [("col-1",)])) == [
        "col-1"
    ]


def test_a_footer_is_read_from_a_store(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"no Parquet at all")
    store = open_store(str(tmp_path))
    footer, size_bytes = parquet_footer(store, "a.parquet")
    assert (footer.num_rows, size_bytes) == (2, (tmp_path / "a.parquet").stat().st_size)
    (tmp_path / "d.parquet").write_bytes(b"PAR1" + b"\x15\x04\x19\xfc\xff\xff\xff\xff\x07" + b"\x09\0\0\0PAR1")
    for name in ("b.parquet", "d.parquet"):
        with pytest.raises(InvalidArgument, match=f"{name} is not a Parquet file"):
            parquet_footer(store, name)
    with pytest.raises(ObjectNotFound):
        parquet_footer(store, "c.parquet")


PRUNED = _schema(
    i=INTEGER,
    n=_schema(l=LONG),
    f=DOUBLE,
    g=FLOAT,
    s=STRING,
    t=TIMESTAMP,
    z=TIMESTAMP_NTZ,
    d=DATE,
    m=DecimalType(20, 2),
)
ARROW = pa.schema(
    {
        "i": pa.int32(), "n": pa.struct([("l", pa.int64())]), "f": pa.float64(), "g": pa.float32(), "s": pa.string(),
        "t": pa.timestamp("us", "UTC"), "z": pa.timestamp("us"), "d": pa.date32(), "m": pa.decimal128(20, 2),
    }
)  # fmt: skip
_stems = st.sampled_from(["", "a" * 29, "a" * 31, "a" * 32, "\U0010ffff" * 33, "\uffff" * 32])
_texts = st.builds(
    lambda stem, tail: stem + tail,
    _stems,
    st.text(st.sampled_from("ab\ud7ff\ue000\ufffd\uffff😀\U0010ffff"), max_size=3),
)
_micros = st.sampled_from([-1_000_001, -1500, -1000, -999, -1, 0, 1, 999, 1000, 1001, 1_500_999])
VALUES: dict[tuple[str, ...], st.SearchStrategy[Any]] = {
    ("i",): st.integers(-3, 3),
    ("n", "l"): st.sampled_from([-(2**63), -(2**53), -1, 0, 2**53 + 1, 2**63 - 1]),
    ("f",): st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.0, 0.1, 1.0, 1e300, -1e-300]),
    ("g",): st.sampled_from([math.nan, math.inf, -0.0, 0.0, 0.10000000149011612, -2.5, 16777216.0]),
    ("s",): _texts,
    ("t",): _micros.map(lambda us: dt.datetime(1970, 1, 1, tzinfo=UTC) + dt.timedelta(microseconds=us)),
    ("z",): _micros.map(lambda us: dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=us)),
    ("d",): st.sampled_from([dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)]),
    ("m",): st.sampled_from([Decimal(t) for t in ("-1.25", "0.00", "1.10", "123456789012345678.91")]),
}


@st.composite
def _rows(draw: st.DrawFn) -> list[dict[tuple[str, ...], Any]]:
    row = st.fixed_dictionaries({column: st.none() | values for column, values in VALUES.items()})
    return draw(st.lists(row, max_size=5))


@st.composite
def _predicates(draw: st.DrawFn) -> Predicate:
    column = draw(st.sampled_from(list(VALUES)))
    value = draw(VALUES[column])
    kind = draw(st.sampled_from(["compare"] * 5 + ["in", "null", "prefix"]))
    if kind == "null":
        leaf: Predicate = IsNull(column)
    elif kind == "in":
        leaf = In(column, (value, draw(VALUES[column])), has_null=False)
    elif kind == "prefix":
        leaf = StartsWith(("s",), draw(_texts))
    else:
        leaf = Comparison(column, draw(st.sampled_from(["=", "<=>", "!=", "<", "<=", ">", ">="])), value)
    return Not(leaf) if draw(st.booleans()) else leaf


def _rank(value: Any) -> Any:
    """A key in Spark's order."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


def _holds(predicate: Any, row: dict[tuple[str, ...], Any]) -> bool | None:
    if isinstance(predicate, Not):
        inner = _holds(predicate.child, row)
        return None if inner is None else not inner
    value = row[predicate.column]
    if isinstance(predicate, IsNull):
        return value is None
    if value is None:
        return False if isinstance(predicate, Comparison) and predicate.operator == "<=>" else None
    if isinstance(predicate, StartsWith):
        return bool(value.startswith(predicate.prefix))
    if isinstance(predicate, In):
        return any(_rank(value) == _rank(v) for v in predicate.values)
    left, right = _rank(value), _rank(predicate.value)
    outcomes = {"=": left == right, "<=>": left == right, "!=": left != right, "<": left < right, "<=": left <= right}
    return bool(outcomes.get(predicate.operator, left > right or (predicate.operator == ">=" and left == right)))


def _table(rows: list[dict[tuple[str, ...], Any]]) -> pa.Table:
    flat = [{c[0]: v if len(c) == 1 else {c[1]: v} for c, v in row.items()} for row in rows]
    return pa.Table.from_pylist(flat, ARROW)


@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_rows(), st.lists(_predicates(), min_size=4, max_size=8), st.integers(1, 3), st.sampled_from(["2", "32"]))
def test_no_file_with_a_matching_row_is_pruned(
    rows: list[dict[tuple[str, ...], Any]], predicates: list[Predicate], group_rows: int, prefix: str
) -> None:
    footer = _footer(_table(rows), row_group_size=group_rows)
    text = stats_of_footer(footer, _leaves(PRUNED, dataSkippingStringPrefixLength=prefix))
    files = pa.table(
        {
            "path": ["f"],
            "partitionValues": pa.array([[]], pa.map_(pa.string(), pa.string())),
            "stats": pa.array([text]),
        }
    )
    for predicate in predicates:
        if any(_holds(predicate, row) for row in rows):
            assert prune(files, predicate, PRUNED).num_rows == 1, (predicate, text)
    stats = json.loads(text)
    for column in VALUES:
        counts = stats["nullCount"]
        for name in column:
            counts = counts[name]
        assert counts == sum(row[column] is None for row in rows)


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(_texts, min_size=1, max_size=6), st.sampled_from(["2", "32"]))
def test_bounds_of_text_hold_by_bytes_and_by_utf_16_units(values: list[str], prefix: str) -> None:
    leaves = _leaves(_schema(c=STRING), dataSkippingStringPrefixLength=prefix)
    stats = json.loads(stats_of_footer(_footer(pa.table({"c": values})), leaves))
    low, high = stats.get("minValues", {}).get("c"), stats.get("maxValues", {}).get("c")
    for encoding in ("utf-8", "utf-16-be"):
        keys = [value.encode(encoding) for value in values]
        assert low is None or low.encode(encoding) <= min(keys)
        assert high is None or max(keys) <= high.encode(encoding)
    assert low is None or len(low) <= int(prefix)
    assert high is None or len(high) <= int(prefix) + 1


@pytest.mark.parametrize(
    ("data_type", "expected"),
    [
        (pa.int64(), False),
        (pa.struct([("a", pa.int64())]), False),
        (pa.struct([pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "7"})]), True),
        (pa.list_(pa.struct([pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "7"})])), True),
    ],
)
@pytest.mark.parametrize("outside", [False, True])
def test_ids_of_columns_are_found_at_any_depth(data_type: pa.DataType, expected: bool, outside: bool) -> None:
    column = pa.field("c", data_type, metadata={"PARQUET:field_id": "1"} if outside else None)
    table = pa.schema([column, pa.field("plain", pa.string())]).empty_table()
    assert _footer(table).has_field_ids is (expected or outside)
