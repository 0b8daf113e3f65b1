from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow as pa
import pytest

from slackwater.protocol.schema.schema import (
    DATE,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
    StructField,
    StructType,
)
from slackwater.stats.file_stats import ColumnStats, StatsColumns

UTC = dt.timezone.utc


def _files(stats: list[Any], **columns: Any) -> pa.Table:
    texts = [s if s is None or isinstance(s, str) else json.dumps(s) for s in stats]
    return pa.table({"path": [str(i) for i in range(len(texts))], "stats": pa.array(texts, pa.string()), **columns})


def _column(stats: list[Any], data_type: DataType, **columns: Any) -> ColumnStats:
    found = StatsColumns(_files(stats, **columns), StructType((StructField("c", data_type),))).column(("c",))
    assert found is not None
    return found


def _bounds(low: Any, high: Any) -> dict[str, Any]:
    return {"numRecords": 3, "minValues": {"c": low}, "maxValues": {"c": high}, "nullCount": {"c": 1}}


def test_statistics_line_up_with_files_that_have_none() -> None:
    column = _column([_bounds(1, 2), None, {}, _bounds(3, 4) | {"tightBounds": False}], LONG)
    assert column.min.to_pylist() == [1, None, None, 3]
    assert column.max.to_pylist() == [2, None, None, 4]
    assert column.null_count.to_pylist() == [1, None, None, 1]
    assert column.num_records.to_pylist() == [3, None, None, 3]
    assert column.tight.to_pylist() == [True, True, True, False]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "}",
        "null",
        "[]",
        "5",
        '{"numRecords":1} {}',
        '{}},{"s":{}',
        '{"numRecords":"1"}',
        '{"minValues":[1]}',
        "{}\n{}",
    ],
)
def test_malformed_statistics_cost_their_own_file_only(text: str) -> None:
    column = _column([_bounds(1, 2), text, _bounds(3, 4)], LONG)
    assert column.min.to_pylist() == [1, None, 3]
    assert column.num_records.to_pylist() == [3, None, 3]


def test_one_odd_value_costs_its_own_field_only() -> None:
    column = _column([_bounds("NaN", "Infinity"), _bounds("seven", 7.5)], DOUBLE)
    assert str(column.min.to_pylist()) == "[nan, None]"
    assert column.max.to_pylist() == [float("inf"), 7.5]


def test_bounds_have_the_arrow_type_of_the_column() -> None:
    schema = StructType((StructField("i", INTEGER), StructField("m", DecimalType(38, 2)), StructField("d", DATE)))
    text = (
        '{"minValues":{"i":3000000000,"m":123456789012345678901234567890.12,"d":"2020-01-01"},'
        '"maxValues":{"i":7,"m":"1.5","d":"yesterday"}}'
    )
    columns = StatsColumns(_files([text]), schema)
    columns.load([("i",), ("m",), ("d",)])
    found = {name: columns.column((name,)) for name in "imd"}
    assert {name: c.min.type for name, c in found.items() if c} == {
        "i": pa.int32(),
        "m": pa.decimal128(38, 2),
        "d": pa.date32(),
    }
    assert [(c.min[0].as_py(), str(c.max[0].as_py())) for c in found.values() if c] == [
        (None, "7"),
        (found["m"].min[0].as_py(), "1.50"),  # type: ignore[union-attr]
        (dt.date(2020, 1, 1), "None"),
    ]
    assert str(found["m"].min[0]) == "123456789012345678901234567890.12"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("2020-01-01T10:00:00.123Z", (10, 0), (10, 0)),
        ("2020-01-01T10:00:00.123+02:00", (8, 0), (8, 0)),
        ("2020-01-01 10:00:00.123456789Z", (10, 0), (10, 0)),
        ("2020-01-01T10:00:00.123", (10, -18), (10, 18)),
    ],
)
def test_a_timestamp_without_a_zone_is_somewhere_on_earth(text: str, low: Any, high: Any) -> None:
    column = _column([_bounds(text, text), _bounds("+10000-01-01T00:00:00.000Z", "2020-02-30T00:00:00Z")], TIMESTAMP)
    expected = []
    for hour, offset in (low, high):
        moment = dt.datetime(2020, 1, 1, hour, tzinfo=UTC) + dt.timedelta(hours=offset)
        expected.append(moment)
    found = [column.min[0].as_py(), column.max[0].as_py()]
    assert [moment.replace(microsecond=0) for moment in found] == expected
    assert (column.min[1].as_py(), column.max[1].as_py()) == (None, None)


def test_a_timestamp_ntz_takes_a_z_as_decoration_and_a_bare_date_as_midnight() -> None:
    column = _column(
        [_bounds("2020-01-01", "2020-01-02T03:04:05.678Z"), _bounds("2020-01-01T00:00:00+01:00", 5)], TIMESTAMP_NTZ
    )
    assert column.min.to_pylist() == [dt.datetime(2020, 1, 1), None]
    assert column.max.to_pylist() == [dt.datetime(2020, 1, 2, 3, 4, 5, 678000), None]


def test_parsed_statistics_go_before_the_text() -> None:
    parsed = pa.array([{"numRecords": 9, "minValues": {"c": 5}, "maxValues": {"c": 6}}, None])
    column = _column([_bounds(1, 2), _bounds(3, 4)], LONG, stats_parsed=parsed)
    assert column.min.to_pylist() == [5, 3]
    assert column.num_records.to_pylist() == [9, 3]
    assert column.null_count.to_pylist() == [None, 1]


def test_nested_columns_are_found_under_their_physical_names() -> None:
    schema = StructType((StructField("a", StructType((StructField("b", LONG),))),))
    files = _files([{"minValues": {"col-1": {"col-2": 7}, "a": {"b": 8}}}])
    column = StatsColumns(files, schema, physical_names={("a", "b"): ("col-1", "col-2")}).column(("a", "b"))
    assert column is not None
    assert column.min.to_pylist() == [7]


def test_what_is_no_leaf_column_has_no_statistics() -> None:
    columns = StatsColumns(_files([None]), StructType((StructField("a", StructType((StructField("b", LONG),))),)))
    assert columns.column(("a",)) is None
    assert columns.column(("z",)) is None


def test_a_partition_value_is_both_bounds_and_a_key_that_is_missing_says_nothing() -> None:
    values = pa.array([[("col-p", "5")], [("col-p", None)], [("other", "1")]], pa.map_(pa.string(), pa.string()))
    columns = StatsColumns(
        _files([None] * 3, partitionValues=values), StructType((StructField("p", LONG),)), ["p"], {("p",): ("col-p",)}
    )
    column = columns.column(("p",))
    assert column is not None
    assert column.exact
    assert column.min.to_pylist() == column.max.to_pylist() == [5, None, None]
    assert column.null_count.to_pylist() == [0, 1, None]
    assert columns.num_records is None


def test_bounds_of_collated_text_are_not_used() -> None:
    schema = StructType((StructField("c", STRING, True, {"__COLLATIONS": {"c": "spark.UTF8_LCASE"}}),))
    column = StatsColumns(_files([_bounds("a", "b")]), schema).column(("c",))
    assert column is not None
    assert (column.min.to_pylist(), column.null_count.to_pylist()) == ([None], [1])


def test_many_batches_keep_their_order() -> None:
    count = 300_000
    texts = [f'{{"numRecords":{i},"minValues":{{"c":{i}}},"x":"{"y" * (i % 7)}"}}' for i in range(count)]
    texts[200_000] = "{"
    column = _column(texts, LONG)
    assert column.min.null_count == 1
    assert column.min[200_000].as_py() is None
    assert column.min[199_999].as_py() == 199_999
    assert column.min[count - 1].as_py() == count - 1
