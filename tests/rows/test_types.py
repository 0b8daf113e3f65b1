"""Arrow types of written rows: read back unchanged, converted without loss, or refused."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater
from slackwater.errors import InvalidArgument, TableNotFound, ValueDoesNotFit
from slackwater.protocol.schema.arrow_schema import ARROW_VARIANT
from tests.transaction.tables import schema, table

_NOON = dt.datetime(2026, 1, 1, 12, 0, 0, 1, tzinfo=dt.timezone.utc)
_PLAIN = _NOON.replace(tzinfo=None)

# The Arrow type, values, the type of the new column, and the values as they are read.
NEW: list[tuple[pa.DataType, list[Any], str, list[Any] | None]] = [
    (pa.bool_(), [True, None, False], "boolean", None),
    (pa.int8(), [-128, None, 127], "byte", None),
    (pa.int16(), [-(2**15), None, 2**15 - 1], "short", None),
    (pa.int32(), [-(2**31), None, 2**31 - 1], "integer", None),
    (pa.int64(), [-(2**63), None, 2**63 - 1], "long", None),
    (pa.uint8(), [0, None, 255], "short", None),
    (pa.uint16(), [0, None, 2**16 - 1], "integer", None),
    (pa.uint32(), [0, None, 2**32 - 1], "long", None),
    (pa.uint64(), [0, None, 2**64 - 1], "decimal(20,0)", [Decimal(0), None, Decimal(2**64 - 1)]),
    (pa.float16(), [0.5, None], "float", None),
    (pa.float32(), [0.5, None, float("inf")], "float", None),
    (pa.float64(), [0.1, None, -0.0], "double", None),
    (pa.string(), ["a", None, ""], "string", None),
    (pa.large_string(), ["a", None], "string", None),
    (pa.string_view(), ["a", None], "string", None),
    (pa.binary(), [b"a", None, b""], "binary", None),
    (pa.large_binary(), [b"a", None], "binary", None),
    (pa.binary_view(), [b"a", None], "binary", None),
    (pa.binary(2), [b"ab", None], "binary", None),
    (pa.date32(), [dt.date(1, 1, 1), None, dt.date(9999, 12, 31)], "date", None),
    (pa.date64(), [dt.date(2026, 1, 1), None], "date", None),
    (pa.timestamp("us", "UTC"), [_NOON, None], "timestamp", None),
    (pa.timestamp("ns", "Europe/Berlin"), [_NOON, None], "timestamp", None),
    (pa.timestamp("s", "UTC"), [_NOON.replace(microsecond=0), None], "timestamp", None),
    (pa.timestamp("us"), [_PLAIN, None], "timestamp_ntz", None),
    (pa.timestamp("ms"), [_PLAIN.replace(microsecond=0), None], "timestamp_ntz", None),
    (pa.decimal128(38, 10), [Decimal("0.1"), None], "decimal(38,10)", None),
    (pa.decimal256(20, 2), [Decimal("1.25"), None], "decimal(20,2)", None),
    (pa.dictionary(pa.int8(), pa.string()), ["a", None, "a"], "string", None),
    (pa.list_(pa.int32()), [[1, None], None, []], "array<integer>", None),
    (pa.large_list(pa.string()), [["a"], None, []], "array<string>", None),
    (pa.list_(pa.int32(), 2), [[1, 2], None, [3, None]], "array<integer>", None),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1)], None, [], [("b", None)]], "map<string,long>", None),
    (
        pa.struct([("a", pa.uint32()), ("b", pa.list_(pa.struct([("c", pa.large_string())])))]),
        [{"a": 1, "b": [{"c": "x"}, None]}, None, {"a": None, "b": None}],
        "struct<a:long,b:array<struct<c:string>>>",
        None,
    ),
]


def place() -> str:
    return f"memory://{uuid.uuid4()}"


@pytest.mark.parametrize(("arrow", "values", "kind", "read"), NEW, ids=lambda each: str(each)[:40])
def test_a_new_column_has_the_type_of_the_arrow_column(
    arrow: pa.DataType, values: list[Any], kind: str, read: list[Any] | None
) -> None:
    at = place()
    # A slice, whose first value is not the first of its buffers.
    column = pa.array([None, *values], arrow).slice(1)
    slackwater.write(at, pa.table({"x": column, "id": range(len(values))}))
    snapshot = slackwater.Snapshot.load(at)
    assert str(snapshot.schema.fields[0].type) == kind
    assert snapshot.to_arrow()["x"].to_pylist() == (values if read is None else read)


@pytest.mark.parametrize("layout", ["list_view", "run_end"])
def test_unusual_layouts_are_read_back(layout: str) -> None:
    plain: list[Any] = [[1], None, [2, 3]] if layout == "list_view" else ["a", "a", None]
    if layout == "list_view":
        column = pa.array(plain, pa.list_view(pa.int32()))
    else:
        column = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", None]))
    at = place()
    slackwater.write(at, pa.table({"x": column}))
    assert slackwater.Snapshot.load(at).to_arrow()["x"].to_pylist() == plain


@pytest.mark.parametrize(
    "arrow",
    [
        pa.time32("s"),
        pa.time64("us"),
        pa.duration("s"),
        pa.decimal256(39, 0),
        pa.decimal128(5, -2),
        pa.decimal128(3, 5),
        pa.month_day_nano_interval(),
    ],
    ids=str,
)
def test_types_without_a_counterpart_are_refused(arrow: pa.DataType) -> None:
    at = place()
    with pytest.raises(InvalidArgument, match=r"column s\.x is of the Arrow type"):
        slackwater.write(at, pa.table({"s": pa.nulls(1, pa.struct([("x", arrow)]))}))
    with pytest.raises(TableNotFound):
        slackwater.Snapshot.load(at)


# A column of a table, values of an Arrow type, and the values as they are read; None where one does not fit.
STORED: list[tuple[str, pa.DataType, list[Any], list[Any] | None]] = [
    ("integer", pa.int64(), [1, -(2**31)], [1, -(2**31)]),
    ("integer", pa.int64(), [2**31], None),
    ("byte", pa.uint64(), [127], [127]),
    ("byte", pa.uint64(), [128], None),
    ("long", pa.uint64(), [2**63], None),
    ("integer", pa.float64(), [1.0, None, -3.0], [1, None, -3]),
    ("integer", pa.float64(), [1.5], None),
    ("integer", pa.float64(), [float("nan")], None),
    ("float", pa.float64(), [0.5, None, float("inf")], [0.5, None, float("inf")]),
    ("float", pa.float64(), [0.1], None),
    ("double", pa.int64(), [2**53], [2.0**53]),
    ("double", pa.int64(), [2**53 + 1], None),
    ("decimal(5,2)", pa.int64(), [999], [Decimal("999.00")]),
    ("decimal(5,2)", pa.int64(), [1000], None),
    ("decimal(5,2)", pa.decimal128(10, 4), [Decimal("1.2500")], [Decimal("1.25")]),
    ("decimal(5,2)", pa.decimal128(10, 4), [Decimal("1.2345")], None),
    ("decimal(5,2)", pa.decimal128(10, 2), [Decimal("1000.00")], None),
    ("integer", pa.decimal128(5, 1), [Decimal("2.0")], [2]),
    ("integer", pa.decimal128(5, 1), [Decimal("2.5")], None),
    (
        "timestamp",
        pa.timestamp("ns", "UTC"),
        [1_500_000_000],
        [dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, dt.timezone.utc)],
    ),
    ("timestamp", pa.timestamp("ns", "UTC"), [1], None),
    ("timestamp", pa.timestamp("s", "UTC"), [2**62], None),
    ("timestamp_ntz", pa.date32(), [dt.date(2026, 1, 1)], [dt.datetime(2026, 1, 1)]),
    ("date", pa.date64(), [1], None),
    ("string", pa.null(), [None], [None]),
]


@pytest.mark.parametrize(("kind", "arrow", "values", "read"), STORED, ids=lambda each: str(each)[:30])
def test_a_value_is_converted_exactly_or_refused(
    kind: str, arrow: pa.DataType, values: list[Any], read: list[Any] | None
) -> None:
    base = table(schema({"id": "long", "x": kind}), path=place())
    is_raw = pa.types.is_timestamp(arrow) or arrow == pa.date64()
    column = pa.array(values, pa.int64()).view(arrow) if is_raw else pa.array(values, arrow)
    rows = pa.table({"id": range(len(values)), "x": column})
    if read is None:
        with pytest.raises(ValueDoesNotFit, match=f"column x is of type {kind.replace('(', '.').replace(')', '.')}"):
            slackwater.write(base, rows, "append")
        left = [meta.path for meta in base.store.list_from("", recursive=True)]
        assert [path for path in left if path.endswith(".parquet")] == []
        return
    slackwater.write(base, rows, "append")
    assert base.update().to_arrow()["x"].to_pylist() == read


@pytest.mark.parametrize(
    ("kind", "arrow"),
    [
        ("timestamp", pa.timestamp("us")),
        ("timestamp_ntz", pa.timestamp("us", "UTC")),
        ("timestamp", pa.date32()),
        ("date", pa.string()),
        ("string", pa.int64()),
        ("decimal(5,2)", pa.float64()),
        ("double", pa.decimal128(5, 2)),
        ("boolean", pa.int8()),
    ],
    ids=str,
)
def test_types_whose_conversion_is_a_choice_are_refused(kind: str, arrow: pa.DataType) -> None:
    base = table(schema({"x": kind}), path=place())
    with pytest.raises(InvalidArgument, match="column x is of type"):
        slackwater.write(base, pa.table({"x": pa.nulls(1, arrow)}), "append")


def test_nested_values_are_converted_and_missing_fields_are_null() -> None:
    kind = {
        "type": "struct",
        "fields": [
            {"name": "A", "type": "integer", "nullable": True, "metadata": {}},
            {"name": "b", "type": "string", "nullable": True, "metadata": {}},
        ],
    }
    base = table(schema({"s": kind}), path=place())
    slackwater.write(base, pa.table({"s": pa.array([{"a": 5}, None], pa.struct([("a", pa.int64())]))}), "append")
    assert base.update().to_arrow()["s"].to_pylist() == [{"A": 5, "b": None}, None]
    with pytest.raises(ValueDoesNotFit, match=r"column s\.A is of type integer"):
        slackwater.write(base, pa.table({"s": [{"a": 2**40}]}), "append")


def test_variants_are_read_back() -> None:
    rows = pa.table({"v": pa.array([{"value": b"\x0c\x05", "metadata": b"\x01\x00\x00"}, None], ARROW_VARIANT)})
    at = place()
    slackwater.write(at, rows)
    slackwater.write(at, rows, "append")
    snapshot = slackwater.Snapshot.load(at)
    assert str(snapshot.schema.fields[0].type) == "variant"
    assert snapshot.to_arrow()["v"].to_pylist() == rows["v"].to_pylist() * 2


def test_lists_whose_null_entries_have_values_are_written() -> None:
    # Arrow permits values below a null list.
    offsets, mask = pa.array([0, 1, 3], pa.int32()), pa.array([False, True])
    column = pa.ListArray.from_arrays(offsets, pa.array([1, 2, 3], pa.int64()), mask=mask)
    at = place()
    slackwater.write(at, pa.table({"x": column}))
    assert slackwater.Snapshot.load(at).to_arrow()["x"].to_pylist() == [[1], None]


_leaves = st.sampled_from(
    [pa.int8(), pa.int64(), pa.uint32(), pa.float64(), pa.string(), pa.large_binary(), pa.bool_(), pa.date32()]
)
_types = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(pa.large_list),
        st.lists(inner, min_size=1, max_size=3).map(lambda each: pa.struct([(f"f{n}", t) for n, t in enumerate(each)])),
        inner.map(lambda value: pa.map_(pa.string(), value)),
    ),
    max_leaves=4,
)
_values: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint32(): st.integers(0, 2**32 - 1),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(st.characters(codec="utf-8"), max_size=3),
    pa.large_binary(): st.binary(max_size=3),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
}


def _of(arrow: pa.DataType) -> st.SearchStrategy[Any]:
    if arrow in _values:
        found = _values[arrow]
    elif pa.types.is_struct(arrow):
        found = st.fixed_dictionaries({field.name: _of(field.type) for field in arrow})
    elif pa.types.is_map(arrow):
        found = st.dictionaries(_values[pa.string()], _of(arrow.item_type), max_size=2).map(lambda d: list(d.items()))
    else:
        found = st.lists(_of(arrow.value_type), max_size=3)
    return st.none() | found


@given(st.data())
def test_rows_of_any_type_are_read_back(data: st.DataObject) -> None:
    arrow = data.draw(_types)
    values = data.draw(st.lists(_of(arrow), min_size=1, max_size=6))
    cut = data.draw(st.integers(0, len(values)))
    column = pa.array(values, arrow)
    rows = pa.table({"x": pa.chunked_array([column.slice(0, cut), column.slice(cut)], arrow)})
    at = place()
    mode = data.draw(st.sampled_from(["none", "name", "id"]))
    slackwater.write(at, rows, properties={"delta.columnMapping.mode": mode})
    assert slackwater.Snapshot.load(at).to_arrow()["x"].to_pylist() == values


@pytest.mark.parametrize(
    ("arrow", "values"),
    [
        (pa.int8(), [-1, None]),
        (pa.bool_(), [True, False]),
        (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
        (pa.timestamp("us", "UTC"), [_NOON, dt.datetime(1, 1, 1, tzinfo=dt.timezone.utc)]),
        (pa.timestamp("us"), [_PLAIN, None]),
        (pa.decimal128(9, 2), [Decimal("-1.50"), Decimal("0.00")]),
        (pa.float32(), [0.1, float("inf")]),
        (pa.binary(), [b"\xff/", b"a b"]),
        (pa.string(), ["a/b=c %", "__HIVE_DEFAULT_PARTITION__x"]),
        (pa.dictionary(pa.int8(), pa.string()), ["a", "b"]),
    ],
    ids=lambda each: str(each)[:30],
)
def test_partition_values_are_read_back(arrow: pa.DataType, values: list[Any]) -> None:
    at = place()
    column = pa.array(values, arrow)
    slackwater.write(at, pa.table({"id": range(len(values)), "x": column}), partition_by=["x"])
    found = slackwater.Snapshot.load(at).to_arrow().sort_by("id")["x"]
    assert found.to_pylist() == column.to_pylist()


def test_a_time_beyond_the_year_9999_is_no_partition_value() -> None:
    at = place()
    late = pa.array([2**61], pa.int64()).view(pa.timestamp("us", "UTC"))
    with pytest.raises(slackwater.errors.UnsupportedFeature, match="must be in the years 1 to 9999"):
        slackwater.write(at, pa.table({"id": [1], "x": late}), partition_by=["x"])
    slackwater.write(at, pa.table({"id": [1], "x": late}))
    assert slackwater.Snapshot.load(at).to_arrow()["x"].cast(pa.int64()).to_pylist() == [2**61]


def _shapes(metadata: bytes) -> pa.Table:
    field = pa.field(
        "g", pa.binary(), metadata={"ARROW:extension:name": "geoarrow.wkb", "ARROW:extension:metadata": metadata}
    )
    return pa.table({"g": [_POINT, None]}, schema=pa.schema([field]))


_POINT = bytes.fromhex("0101000000000000000000F03F0000000000000040")


@pytest.mark.parametrize(
    ("metadata", "kind"),
    [
        (b"", "geometry(SRID:0)"),
        (b'{"crs": "OGC:CRS84"}', "geometry(OGC:CRS84)"),
        (b'{"crs": "OGC:CRS84", "edges": "spherical"}', "geography(OGC:CRS84, SPHERICAL)"),
        (b'{"crs": {"id": {"authority": "EPSG", "code": 3857}}}', "geometry(EPSG:3857)"),
    ],
)
def test_shapes_of_geoarrow_are_shapes_of_the_table(tmp_path: Path, metadata: bytes, kind: str) -> None:
    slackwater.write(tmp_path / "t", _shapes(metadata))
    snapshot = slackwater.Snapshot.load(tmp_path / "t")
    assert str(snapshot.schema.fields[0].type) == kind
    assert snapshot.protocol.reader_features == ("geospatial",)
    slackwater.write(tmp_path / "t", snapshot.to_arrow(), mode="append")
    assert snapshot.update().to_arrow()["g"].to_pylist() == [_POINT, None] * 2


def test_shapes_of_another_system_are_refused(tmp_path: Path) -> None:
    slackwater.write(tmp_path / "t", _shapes(b'{"crs": "OGC:CRS84"}'))
    with pytest.raises(InvalidArgument, match="g"):
        slackwater.write(tmp_path / "t", _shapes(b'{"crs": "EPSG:3857"}'), mode="append")
    with pytest.raises(InvalidArgument, match="without a name such as OGC:CRS84"):
        slackwater.write(tmp_path / "t", _shapes(b'{"crs": "GEOGCS[...]"}'), mode="append")
    assert slackwater.Snapshot.load(tmp_path / "t").version == 0
