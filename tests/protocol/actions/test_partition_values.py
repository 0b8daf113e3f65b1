import datetime as dt
import json
import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import CorruptLog, InvalidArgument, UnsupportedFeature
from slackwater.protocol.actions.partition_values import (
    hive_directory,
    hive_escape,
    hive_unescape,
    parse_partition_column,
    parse_partition_value,
    serialize_partition_value,
)
from slackwater.protocol.schema import schema
from slackwater.protocol.schema.arrow_schema import to_arrow_type
from slackwater.protocol.schema.schema import ArrayType, DataType, DecimalType, PrimitiveType

VECTORS = json.loads((Path(__file__).parents[2] / "data/vectors/partition_values.json").read_text())
UTC = dt.timezone.utc
NAMES: dict[str, DataType] = {
    "INT": schema.INTEGER,
    "BIGINT": schema.LONG,
    "TINYINT": schema.BYTE,
    "SMALLINT": schema.SHORT,
    "DOUBLE": schema.DOUBLE,
    "FLOAT": schema.FLOAT,
    "BOOLEAN": schema.BOOLEAN,
    "DECIMAL(38,18)": DecimalType(38, 18),
    "DATE": schema.DATE,
    "TIMESTAMP": schema.TIMESTAMP,
    "TIMESTAMP_NTZ": schema.TIMESTAMP_NTZ,
    "STRING or BINARY": schema.BINARY,
}
TYPES = [*(PrimitiveType(name) for name in sorted(schema.PRIMITIVE_NAMES)), DecimalType(10, 2)]
VALUES: dict[DataType, st.SearchStrategy[Any]] = {
    schema.LONG: st.integers(-(2**63), 2**63 - 1),
    schema.BYTE: st.integers(-128, 127),
    schema.DOUBLE: st.floats(allow_nan=False),
    schema.FLOAT: st.floats(allow_nan=False, width=32),
    schema.BOOLEAN: st.booleans(),
    schema.STRING: st.text(min_size=1),
    schema.BINARY: st.binary(min_size=1) | st.just(b"\\u0041"),
    schema.DATE: st.dates(),
    schema.TIMESTAMP: st.datetimes(timezones=st.just(UTC)),
    schema.TIMESTAMP_NTZ: st.datetimes(),
    DecimalType(12, 3): st.decimals(-(10**8), 10**8, places=3),
}


def text_of(row: dict[str, Any]) -> str | None:
    """The partition value that a row of the table of observations shows; None for null."""
    shown = row["partitionValues"].rstrip("*")
    text: str | None = json.loads(re.sub(r"\\u\{(\w+)\}", r"\\u\1", shown))
    return text


def readable(row: dict[str, Any]) -> bool:
    shown: str = row["partitionValues"]
    return shown.startswith('"') or shown == "null"


@pytest.mark.parametrize("row", [r for r in VECTORS["rows"] if readable(r)], ids=lambda r: f"{r['row']}-{r['type']}")
def test_values_that_engines_write_are_read_and_written_back(row: dict[str, Any]) -> None:
    data_type, text = NAMES[row["type"]], text_of(row)
    value = parse_partition_value(text, data_type)
    assert (value is None) == (text is None)
    written = serialize_partition_value(value, data_type)
    differs = {16: "0.0", 44: "2024-06-15 12:30:45", 45: "1970-01-01 00:00:00"}
    assert written == differs.get(row["row"], text)


@pytest.mark.parametrize("data_type", TYPES, ids=str)
def test_null_and_the_empty_string_are_null_for_every_type(data_type: DataType) -> None:
    parsed = parse_partition_column(pa.array([None, "", None]), data_type)
    assert parsed.type == to_arrow_type(data_type)
    assert parsed.to_pylist() == [None, None, None]
    assert len(parse_partition_column(pa.array([], pa.string()), data_type)) == 0
    assert parse_partition_column(pa.nulls(2), data_type).null_count == 2


@pytest.mark.parametrize(
    ("text", "data_type", "value"),
    [
        ("+7", schema.INTEGER, 7),
        ("007", schema.BYTE, 7),
        ("TRUE", schema.BOOLEAN, True),
        ("False", schema.BOOLEAN, False),
        ("1.0E10", schema.DOUBLE, 1e10),
        ("4.9E-324", schema.DOUBLE, 5e-324),
        ("3", schema.FLOAT, 3.0),
        ("-Infinity", schema.FLOAT, -math.inf),
        ("-12.30", DecimalType(5, 2), Decimal("-12.30")),
        ("1.5E+3", DecimalType(10, 2), Decimal("1500.00")),
        ("-1.23000", DecimalType(3, 2), Decimal("-1.23")),
        ("2024-1-5", schema.DATE, dt.date(2024, 1, 5)),
        ("2000-02-29", schema.DATE, dt.date(2000, 2, 29)),
        (" x ", schema.STRING, " x "),
        ("\u0001\u0002\u0003", schema.BINARY, b"\x01\x02\x03"),
        ("München", schema.BINARY, "München".encode()),
        ("\\u0041\\u0042\\u00fF", schema.BINARY, b"AB\xff"),
        ("\\u0041x", schema.BINARY, b"\\u0041x"),
        ("1970-01-01 00:00:00", schema.TIMESTAMP_NTZ, dt.datetime(1970, 1, 1)),
        ("1970-01-01T00:00:00.5", schema.TIMESTAMP_NTZ, dt.datetime(1970, 1, 1, microsecond=500_000)),
        ("1969-12-31 23:59:59.999999", schema.TIMESTAMP_NTZ, dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)),
        ("1970-01-01 00:00:00.1234567", schema.TIMESTAMP_NTZ, dt.datetime(1970, 1, 1, microsecond=123_456)),
    ],
)
def test_forms_of_values(text: str, data_type: DataType, value: Any) -> None:
    assert parse_partition_value(text, data_type) == value


def test_a_value_that_is_not_a_number_is_read() -> None:
    assert math.isnan(parse_partition_value("NaN", schema.DOUBLE))


@pytest.mark.parametrize(
    ("text", "zone", "utc"),
    [
        ("1970-01-01 00:00:00", None, "1970-01-01T00:00:00"),
        ("1970-01-01 00:00:00", "+02:00", "1969-12-31T22:00:00"),
        ("1970-01-01 00:00:00", "GMT-7", "1970-01-01T07:00:00"),
        ("2024-07-01 12:00:00.000001", "America/New_York", "2024-07-01T16:00:00.000001"),
        ("2024-03-10 02:30:00", "America/New_York", "2024-03-10T07:30:00"),
        ("2024-11-03 01:30:00", "America/New_York", "2024-11-03T05:30:00"),
        ("1970-01-01T00:00:00.123456Z", "America/New_York", "1970-01-01T00:00:00.123456"),
        ("1970-01-01T00:00:00-05:30", "Asia/Tokyo", "1970-01-01T05:30:00"),
        ("1970-01-01 00:00:00+0200", "Asia/Tokyo", "1969-12-31T22:00:00"),
        ("2024-01-01", "Europe/Berlin", "2023-12-31T23:00:00"),
        ("2048-07-01 12:00:00", "America/New_York", "2048-07-01T16:00:00"),
        ("9999-07-01 12:00:00", "Europe/Berlin", "9999-07-01T10:00:00"),
    ],
)
def test_a_timestamp_is_local_unless_it_tells_its_offset(text: str, zone: str | None, utc: str) -> None:
    assert parse_partition_value(text, schema.TIMESTAMP, zone) == dt.datetime.fromisoformat(utc).replace(tzinfo=UTC)


@given(
    st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(9999, 12, 30)), st.sampled_from(["Europe/Paris", "Asia/Kolkata"])
)
def test_local_times_become_the_instants_that_python_gives(wall: dt.datetime, zone: str) -> None:
    parsed = parse_partition_value(wall.isoformat(sep=" "), schema.TIMESTAMP, zone)
    assert parsed == wall.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


@pytest.mark.parametrize(
    ("text", "data_type"),
    [
        ("x", schema.LONG),
        ("1.5", schema.INTEGER),
        ("0x10", schema.INTEGER),
        ("128", schema.BYTE),
        ("-9223372036854775809", schema.LONG),
        ("1,5", schema.DOUBLE),
        ("yes", schema.BOOLEAN),
        ("1.234", DecimalType(5, 2)),
        ("1000", DecimalType(5, 2)),
        ("NaN", DecimalType(5, 2)),
        ("1_0", DecimalType(5, 2)),
        ("1E999999999999999999999", DecimalType(5, 2)),
        ("2023-02-29", schema.DATE),
        ("2023-13-01", schema.DATE),
        ("2023-01-01 00:00:00", schema.DATE),
        ("2023-01-01 24:00:00", schema.TIMESTAMP),
        ("2023-01-01 00:00:60", schema.TIMESTAMP_NTZ),
        ("2023-01-01T00:00:00Z", schema.TIMESTAMP_NTZ),
        ("2023-01-01T00:00:00+19:00", schema.TIMESTAMP),
        ("2023-01-01 00:00:00\n", schema.TIMESTAMP),
        ("x", schema.VOID),
    ],
)
def test_a_text_that_is_no_value_is_named_with_its_type(text: str, data_type: DataType) -> None:
    with pytest.raises(CorruptLog) as raised:
        parse_partition_column(pa.array(["", text, None]), data_type)
    assert repr(text) in str(raised.value)
    assert str(data_type) in str(raised.value)


def test_years_of_five_digits_have_the_summer_times_of_their_zone() -> None:
    texts = ["2048-07-01 12:00:00", "12048-07-01 12:00:00", "2048-01-01 12:00:00"]
    found = parse_partition_column(pa.array(texts), schema.TIMESTAMP, "America/New_York").cast(pa.int64()).to_pylist()
    noons = parse_partition_column(pa.array(texts), schema.TIMESTAMP_NTZ).cast(pa.int64()).to_pylist()
    assert [(a - b) // 3_600_000_000 for a, b in zip(found, noons, strict=True)] == [4, 4, 5]


def test_types_and_zones_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="array<long>"):
        parse_partition_value("1", ArrayType(schema.LONG))
    for zone in ("Mars/Olympus", "+25:00", "5"):
        with pytest.raises(InvalidArgument, match="time zone"):
            parse_partition_value("2024-01-01 00:00:00", schema.TIMESTAMP, zone)


def test_dates_beyond_python_stay_dates_in_arrow() -> None:
    assert parse_partition_column(pa.array(["+10000-01-01"]), schema.DATE).cast(pa.int32()).to_pylist() == [2_932_897]
    with pytest.raises(UnsupportedFeature, match="10000"):
        parse_partition_value("10000-01-01", schema.DATE)


@pytest.mark.parametrize("data_type", [schema.STRING, schema.INTEGER], ids=str)
def test_chunks_and_dictionaries_are_read_in_their_order(data_type: DataType) -> None:
    texts = ["2", None, "1", "2", ""]
    expected = parse_partition_column(pa.array(texts), data_type).to_pylist()
    assert [value and int(value) for value in expected] == [2, None, 1, 2, None]
    for column in (
        pa.chunked_array([texts[:2], [], texts[2:]], pa.string()),
        pa.array(texts).dictionary_encode(),
        pa.chunked_array([pa.array(texts[:3]).dictionary_encode(), pa.array(texts[3:]).dictionary_encode()]),
        pa.array(texts, pa.large_string()),
    ):
        parsed = parse_partition_column(column, data_type)
        assert isinstance(parsed, pa.Array)
        assert parsed.type == to_arrow_type(data_type)
        assert parsed.to_pylist() == expected


@pytest.mark.parametrize("data_type", VALUES, ids=str)
def test_values_round_trip_through_their_text(data_type: DataType) -> None:
    @given(VALUES[data_type])
    def check(value: Any) -> None:
        text = serialize_partition_value(value, data_type)
        assert parse_partition_value(text, data_type, "Asia/Tokyo") == value

    check()


@pytest.mark.parametrize(
    ("value", "data_type", "text"),
    [
        (None, schema.LONG, None),
        ("", schema.STRING, None),
        (b"", schema.BINARY, None),
        (True, schema.BOOLEAN, "true"),
        (1e10, schema.DOUBLE, "1.0E10"),
        (9999999.0, schema.DOUBLE, "9999999.0"),
        (0.001, schema.DOUBLE, "0.001"),
        (1.5e-7, schema.DOUBLE, "1.5E-7"),
        (-0.0, schema.DOUBLE, "0.0"),
        (0.1, schema.FLOAT, "0.1"),
        (math.nan, schema.FLOAT, "NaN"),
        (Decimal("1E+2"), DecimalType(5, 1), "100.0"),
        (b"\xde\xff", schema.BINARY, "\\u00DE\\u00FF"),
        (dt.datetime(1, 1, 1), schema.TIMESTAMP_NTZ, "0001-01-01 00:00:00"),
        (dt.datetime(1970, 1, 1, microsecond=1), schema.TIMESTAMP_NTZ, "1970-01-01 00:00:00.000001"),
        (
            dt.datetime(2024, 6, 15, 12, 30, 45, tzinfo=dt.timezone(dt.timedelta(hours=-7))),
            schema.TIMESTAMP,
            "2024-06-15T19:30:45.000000Z",
        ),
    ],
)
def test_values_are_written_as_the_protocol_and_spark_do(value: Any, data_type: DataType, text: str | None) -> None:
    assert serialize_partition_value(value, data_type) == text


@pytest.mark.parametrize(
    ("value", "data_type"),
    [
        (128, schema.BYTE),
        (True, schema.INTEGER),
        ("1", schema.LONG),
        (1, schema.STRING),
        (1, schema.BOOLEAN),
        ("x", schema.BINARY),
        (1e39, schema.FLOAT),
        (10**400, schema.DOUBLE),
        (Decimal("1.234"), DecimalType(5, 2)),
        (1.5, DecimalType(5, 2)),
        (dt.datetime(2024, 1, 1), schema.DATE),
        (dt.datetime(2024, 1, 1), schema.TIMESTAMP),
        (dt.datetime(2024, 1, 1, tzinfo=UTC), schema.TIMESTAMP_NTZ),
        (dt.date(2024, 1, 1), schema.TIMESTAMP),
        (0, schema.VOID),
        ([1], ArrayType(schema.LONG)),
    ],
)
def test_a_value_that_the_type_does_not_hold_is_not_written(value: Any, data_type: DataType) -> None:
    with pytest.raises(InvalidArgument, match="is not a value of the partition column type"):
        serialize_partition_value(value, data_type)


@pytest.mark.parametrize(("text", "escaped"), VECTORS["escape_partition_value"])
def test_directory_names_escape_what_spark_escapes(text: str, escaped: str) -> None:
    assert hive_escape(text) == escaped
    assert hive_unescape(escaped) == text


def test_exactly_the_ascii_characters_of_spark_are_escaped() -> None:
    assert [c for c in range(128) if hive_escape(chr(c)) != chr(c)] == VECTORS["escaped_ascii"]


def test_a_percent_sign_that_escapes_nothing_stays() -> None:
    assert hive_unescape("100%") == "100%"
    assert hive_unescape("%zz%2") == "%zz%2"
    assert hive_unescape("%2f") == "/"


@given(st.text())
def test_escaping_is_undone(text: str) -> None:
    assert hive_unescape(hive_escape(text)) == text


@pytest.mark.parametrize("case", VECTORS["build_path"], ids=lambda case: case["path"])
def test_directories_are_named_as_other_engines_name_them(case: dict[str, Any]) -> None:
    assert hive_directory([(name, text) for name, text in case["columns"]]) == case["path"]
