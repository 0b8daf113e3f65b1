"""Rows of a data file as batches: columns, types, ranges of bytes, deleted rows."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from slackwater.data_files.reader import ReadProjection, Split, read_splits
from slackwater.errors import CorruptTable, DataFileNotFound, UnsupportedFeature
from slackwater.stats.footer_bounds import LEGACY_DATES_KEY, SPARK_VERSION_KEY
from slackwater.storage import open_store
from slackwater.storage.parquet_footer import FIELD_ID_KEY


def read(root: Path, wanted: ReadProjection, split: Split | None = None) -> list[dict[str, Any]]:
    batches = list(read_splits(open_store(root), [split or Split("f.parquet")], wanted))
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema.equals(wanted.schema)
    return [row for batch in batches for row in batch.to_pylist()]


def write(root: Path, table: pa.Table, **options: Any) -> None:
    pq.write_table(table, root / "f.parquet", **options)


def column(found: pa.Array, wanted: pa.DataType, root: Path, **options: Any) -> list[Any]:
    write(root, pa.table({"c": found}), **options)
    return [row["c"] for row in read(root, ReadProjection(pa.schema({"c": wanted})))]


UTC = pa.timestamp("us", "UTC")
DAY = dt.date(2020, 2, 29)
MOMENT = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)


@pytest.mark.parametrize(
    ("found", "wanted", "values"),
    [
        (pa.array([1, None], pa.int32()), pa.int64(), [1, None]),
        (pa.array([200], pa.uint8()), pa.int16(), [200]),
        (pa.array([1, None], pa.int32()), pa.int8(), [1, None]),
        (pa.array([7], pa.int32()), pa.float64(), [7.0]),
        (pa.array([1.5], pa.float32()), pa.float64(), [1.5]),
        (pa.array([7], pa.int32()), pa.decimal128(12, 2), [Decimal("7.00")]),
        (pa.array([Decimal("1.5")], pa.decimal128(4, 1)), pa.decimal128(10, 3), [Decimal("1.500")]),
        (pa.array([DAY], pa.date32()), pa.timestamp("us"), [dt.datetime(2020, 2, 29)]),
        (pa.array([b"\xc3\xbc"], pa.binary()), pa.string(), ["ü"]),
        (pa.array(["ü", None], pa.large_string()), pa.string(), ["ü", None]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), pa.string(), ["a", "b", "a"]),
        (pa.array([b"ab"], pa.binary(2)), pa.binary(), [b"ab"]),
        (pa.array([MOMENT], pa.timestamp("us")), UTC, [MOMENT.replace(tzinfo=dt.timezone.utc)]),
        (pa.array([-1], pa.timestamp("ns", "UTC")), UTC, [MOMENT.replace(tzinfo=dt.timezone.utc)]),
        (pa.array([None, None], pa.null()), pa.int64(), [None, None]),
    ],
)
def test_types_are_read_as_the_tables(found: pa.Array, wanted: pa.DataType, values: list[Any], tmp_path: Path) -> None:
    assert column(found, wanted, tmp_path) == values


def test_times_of_96_bits_are_instants(tmp_path: Path) -> None:
    moment = dt.datetime(9999, 12, 31, 23, 59, 59)
    found = column(pa.array([moment], pa.timestamp("us")), UTC, tmp_path, use_deprecated_int96_timestamps=True)
    assert found == [moment.replace(tzinfo=dt.timezone.utc)]


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (pa.array(["1"]), pa.int64()),
        (pa.array([1], pa.int64()), pa.string()),
        (pa.array([1], pa.int64()), pa.float64()),
        (pa.array([1.5]), pa.float32()),
        (pa.array([[1]]), pa.int64()),
        (pa.array([1]), pa.list_(pa.int64())),
        (pa.array([300], pa.int32()), pa.int8()),
        (pa.array([Decimal("123.45")]), pa.decimal128(3, 0)),
    ],
)
def test_a_type_that_does_not_fit_is_named_with_its_file(found: pa.Array, wanted: pa.DataType, tmp_path: Path) -> None:
    with pytest.raises(CorruptTable, match=r"f\.parquet: column c "):
        column(found, wanted, tmp_path)


NESTED = pa.array(
    [
        {"x": 1, "y": [{"k": "a"}, None], "m": [("p", 1)]},
        None,
        {"x": None, "y": None, "m": None},
        {"x": 4, "y": [], "m": []},
    ],
    pa.struct({"x": pa.int32(), "y": pa.list_(pa.struct({"k": pa.string()})), "m": pa.map_(pa.string(), pa.int32())}),
)


def test_what_is_inside_of_columns_is_found_by_name_too(tmp_path: Path) -> None:
    inner = pa.struct([pa.field("new", pa.int64()), pa.field("K", pa.string())])
    wanted = pa.struct(
        [
            pa.field("m", pa.map_(pa.string(), pa.int64())),
            pa.field("y", pa.list_(pa.field("element", inner))),
            pa.field("x", pa.int64()),
        ]
    )
    # Slices have offsets of their own.
    found = column(pa.concat_arrays([NESTED, NESTED]).slice(1, 5), wanted, tmp_path)
    rows = [
        {"m": [("p", 1)], "y": [{"new": None, "K": "a"}, None], "x": 1},
        None,
        {"m": None, "y": None, "x": None},
        {"m": [], "y": [], "x": 4},
    ]
    assert found == [rows[1], rows[2], rows[3], rows[0], rows[1]]


def test_a_column_of_another_case_is_the_same_and_one_that_is_missing_null(tmp_path: Path) -> None:
    write(tmp_path, pa.table({"Id": [1, 2], "a.b": [3, 4], "a": [5, 6]}))
    wanted = ReadProjection(pa.schema({"a.b": pa.int64(), "id": pa.int64(), "none": pa.string(), "a": pa.int64()}))
    assert read(tmp_path, wanted) == [
        {"a.b": 3, "id": 1, "none": None, "a": 5},
        {"a.b": 4, "id": 2, "none": None, "a": 6},
    ]
    write(tmp_path, pa.table({"id": [1], "ID": [2]}))
    assert read(tmp_path, ReadProjection(pa.schema({"ID": pa.int64()}))) == [{"ID": 2}]
    with pytest.raises(CorruptTable, match="column Id is ambiguous in the file: it may be any of id, ID"):
        read(tmp_path, ReadProjection(pa.schema({"Id": pa.int64()})))


def field(name: str, number: int) -> pa.Field:
    return pa.field(name, pa.int64(), metadata={FIELD_ID_KEY: str(number).encode()})


def test_columns_are_found_by_field_id_where_that_is_the_mode(tmp_path: Path) -> None:
    write(tmp_path, pa.table([[1], [2]], schema=pa.schema([field("x", 7), field("y", 8)])))
    wanted = pa.schema([field("y", 7), field("z", 9)])
    assert read(tmp_path, ReadProjection(wanted, by_id=True)) == [{"y": 1, "z": None}]
    assert read(tmp_path, ReadProjection(wanted)) == [{"y": 2, "z": None}]
    write(tmp_path, pa.table({"y": [1]}))
    with pytest.raises(CorruptTable, match="has no field ids"):
        read(tmp_path, ReadProjection(wanted, by_id=True))


def test_ranges_of_a_file_have_each_row_once_with_its_index(tmp_path: Path) -> None:
    write(tmp_path, pa.table({"a": range(1000), "b": ["x" * 50] * 1000}), row_group_size=90, compression="none")
    size = (tmp_path / "f.parquet").stat().st_size
    wanted = ReadProjection(pa.schema({"a": pa.int64()}), constants=pa.schema({"p": pa.string()}), row="row")
    deleted = BitMap64([0, 89, 90, 500, 999])
    cuts = [0, 100, 5_000, 5_001, 30_000, size + 9]
    found = []
    for start, end in zip(cuts, [*cuts[1:], None], strict=True):
        found += read(tmp_path, wanted, Split("f.parquet", start, end, deleted, {"p": pa.scalar("v")}))
    assert found == [{"a": n, "p": "v", "row": n} for n in range(1000) if n not in deleted]


def test_rows_are_counted_where_no_column_is_wanted(tmp_path: Path) -> None:
    write(tmp_path, pa.table({"a": range(70_000)}))
    batches = read_splits(
        open_store(tmp_path), [Split("f.parquet", deleted=BitMap64([3]))], ReadProjection(pa.schema([]))
    )
    assert sum(batch.num_rows for batch in batches) == 69_999
    assert len(read(tmp_path, ReadProjection(pa.schema({"z": pa.string()})))) == 70_000


class Counting:
    """A store that notes the ranges that are read."""

    def __init__(self, root: Path) -> None:
        self.store = open_store(root)
        self.ranges: list[tuple[int, int]] = []
        self.heads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def head(self, path: str) -> Any:
        self.heads += 1
        return self.store.head(path)

    def read_ranges(self, path: str, ranges: list[tuple[int, int]]) -> list[bytes]:
        self.ranges += ranges
        return self.store.read_ranges(path, ranges)

    def read_range(self, path: str, start: int, length: int) -> bytes:
        self.ranges.append((start, length))
        return self.store.read_range(path, start, length)


def test_only_the_bytes_of_wanted_columns_are_fetched(tmp_path: Path) -> None:
    wide = {f"c{n}": pa.array(range(n, 300_000 + n)) for n in range(8)}
    write(tmp_path, pa.table(wide), row_group_size=150_000, compression="none", use_dictionary=False)
    store = Counting(tmp_path)
    batches = list(read_splits(store, [Split("f.parquet")], ReadProjection(pa.schema({"c3": pa.int64()}))))  # type: ignore[arg-type]
    assert sum(batch.num_rows for batch in batches) == 300_000
    # The footer, and one range of each row group.
    assert len(store.ranges) == 3
    assert sum(length for _, length in store.ranges[1:]) < 300_000 * 8 * 1.05


def counted(root: Path, size_bytes: int | None) -> tuple[int, int, int]:
    """The rows of a file, and how many ranges and sizes were asked for."""
    store = Counting(root)
    split = Split("f.parquet", size_bytes=size_bytes)
    batches = read_splits(store, [split], ReadProjection(pa.schema({"a": pa.int64()})))  # type: ignore[arg-type]
    return sum(batch.num_rows for batch in batches), len(store.ranges), store.heads


def test_a_small_file_is_read_by_one_request_and_its_size_is_not_asked_for(tmp_path: Path) -> None:
    write(tmp_path, pa.table({"a": range(50_000)}), row_group_size=10_000, compression="none", use_dictionary=False)
    size = (tmp_path / "f.parquet").stat().st_size
    assert counted(tmp_path, size) == (50_000, 1, 0)
    assert counted(tmp_path, None) == (50_000, 1, 1)
    write(tmp_path, pa.table({"a": range(400_000)}), row_group_size=200_000, compression="none", use_dictionary=False)
    size = (tmp_path / "f.parquet").stat().st_size
    assert counted(tmp_path, size) == (400_000, 3, 0)


@pytest.mark.parametrize("wrong", [0, 7, 70_000, 1 << 22])
@pytest.mark.parametrize("rows", [100, 400_000])
def test_a_log_that_says_another_size_loses_no_row(rows: int, wrong: int, tmp_path: Path) -> None:
    write(tmp_path, pa.table({"a": range(rows)}), row_group_size=150_000, compression="none", use_dictionary=False)
    assert counted(tmp_path, wrong)[0] == rows
    (tmp_path / "f.parquet").unlink()
    with pytest.raises(DataFileNotFound, match=r"f\.parquet does not exist"):
        counted(tmp_path, wrong)


def test_splits_come_in_their_order_and_the_next_is_fetched_meanwhile(tmp_path: Path) -> None:
    names = []
    for number in range(4):
        names.append(f"{number}.parquet")
        pq.write_table(pa.table({"a": [number]}), tmp_path / names[-1])
    store: Any = Counting(tmp_path)
    rows = read_splits(store, map(Split, names), ReadProjection(pa.schema({"a": pa.int64()})))
    found = [next(rows).to_pylist()]
    assert store.heads <= 2
    found += [batch.to_pylist() for batch in rows]
    assert found == [[{"a": number}] for number in range(4)]
    (tmp_path / "2.parquet").unlink()
    rows = read_splits(store, map(Split, names), ReadProjection(pa.schema({"a": pa.int64()})))
    assert [next(rows).num_rows, next(rows).num_rows] == [1, 1]
    with pytest.raises(DataFileNotFound, match=r"2\.parquet"):
        next(rows)


def test_a_reader_that_stops_early_leaves_no_thread(tmp_path: Path) -> None:
    write(tmp_path, pa.table({"a": range(100)}), row_group_size=10)
    before = threading.active_count()
    rows = read_splits(open_store(tmp_path), [Split("f.parquet")], ReadProjection(pa.schema({"a": pa.int64()})))
    assert next(rows).num_rows == 10
    rows.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


def test_what_is_wrong_with_a_file_is_said_with_its_name(tmp_path: Path) -> None:
    wanted = ReadProjection(pa.schema({"a": pa.int64()}))
    with pytest.raises(DataFileNotFound, match=r"f\.parquet does not exist"):
        read(tmp_path, wanted)
    (tmp_path / "f.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(CorruptTable, match=r"f\.parquet is not a Parquet file"):
        read(tmp_path, wanted)
    write(tmp_path, pa.table({"a": range(5000)}), compression="zstd")
    damaged = bytearray((tmp_path / "f.parquet").read_bytes())
    damaged[4:60] = b"\xff" * 56
    (tmp_path / "f.parquet").write_bytes(damaged)
    with pytest.raises(CorruptTable, match=r"f\.parquet cannot be read"):
        read(tmp_path, wanted)


@pytest.mark.parametrize(
    ("value", "kind", "is_old"),
    [
        (dt.date(1582, 10, 14), pa.date32(), True),
        (dt.date(1582, 10, 15), pa.date32(), False),
        (dt.datetime(1899, 12, 31, tzinfo=dt.timezone.utc), UTC, True),
        (dt.datetime(1900, 1, 1, tzinfo=dt.timezone.utc), UTC, False),
    ],
)
@pytest.mark.parametrize("wrap", [lambda t: t, pa.list_, lambda t: pa.struct({"x": t}), lambda t: pa.map_(t, t)])
def test_days_of_another_calendar_are_refused(
    value: Any, kind: pa.DataType, is_old: bool, wrap: Any, tmp_path: Path
) -> None:
    wanted = wrap(kind)
    nested = {pa.lib.Type_LIST: [value], pa.lib.Type_STRUCT: {"x": value}, pa.lib.Type_MAP: [(value, value)]}
    table = pa.table({"c": pa.array([None, nested.get(wanted.id, value)], wanted)})
    schema = ReadProjection(pa.schema({"c": wanted}))
    write(tmp_path, table)
    assert len(read(tmp_path, schema)) == 2
    assert len(read(tmp_path, schema)) == 2
    for footer in ({LEGACY_DATES_KEY: b""}, {SPARK_VERSION_KEY: b"2.4.8"}):
        write(tmp_path, table.replace_schema_metadata(footer))
        if is_old:
            with pytest.raises(UnsupportedFeature, match="column c has dates before 1582"):
                read(tmp_path, schema)
        else:
            assert len(read(tmp_path, schema)) == 2


@pytest.mark.parametrize(
    ("version", "int96", "is_old"),
    [
        ("3.0.3", True, True),
        ("3.0.3", False, False),
        ("3.1.0", True, False),
        ("4.3.0", True, False),
        ("x", False, True),
    ],
)
def test_the_calendar_is_that_of_the_version_of_spark(tmp_path: Path, version: str, int96: bool, is_old: bool) -> None:
    times = pa.table({"c": pa.array([dt.datetime(1800, 1, 1)], pa.timestamp("us"))})
    keyed = times.replace_schema_metadata({SPARK_VERSION_KEY: version.encode()})
    pq.write_table(keyed, tmp_path / "f.parquet", use_deprecated_int96_timestamps=int96)
    wanted = ReadProjection(pa.schema({"c": pa.timestamp("us", "UTC")}))
    if is_old:
        with pytest.raises(UnsupportedFeature, match="column c has dates before 1582"):
            read(tmp_path, wanted)
    else:
        assert len(read(tmp_path, wanted)) == 1


@pytest.mark.parametrize("name", ["part-00000-5eb2d7e6-8b43-4d5c-9f5c-1a2b3c4d5e6f-c000.snappy.parquet", "f.parquet"])
def test_unmarked_files_are_julian_where_the_session_says_so(tmp_path: Path, name: str) -> None:
    days = pa.table({"c": pa.array([dt.date(1500, 1, 1)])})
    own = "p=1/part-5eb2d7e6-8b43-4d5c-9f5c-1a2b3c4d5e6f-c000.snappy.parquet"
    (tmp_path / "p=1").mkdir()
    for path in (name, own):
        pq.write_table(days, tmp_path / path)
    store, schema = open_store(tmp_path), pa.schema({"c": pa.date32()})
    for path in (name, own):
        assert list(read_splits(store, [Split(path)], ReadProjection(schema)))
    assert list(read_splits(store, [Split(own)], ReadProjection(schema, unmarked_is_julian=True)))
    with pytest.raises(UnsupportedFeature, match="column c has dates before 1582"):
        list(read_splits(store, [Split(name)], ReadProjection(schema, unmarked_is_julian=True)))


_TASK = """
import sys, pyarrow as pa
from slackwater.data_files.reader import ReadProjection, Split, read_splits
from slackwater.storage import open_store
wanted = ReadProjection(pa.schema({"a": pa.int64()}), row="row")
rows = sum(batch.num_rows for batch in read_splits(open_store(sys.argv[1]), [Split("f.parquet")], wanted))
print(rows, [name for name in ("pandas", "sqlglot", "slackwater.log", "slackwater.scan") if name in sys.modules])
"""


def test_a_task_imports_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    """A new worker of Spark imports it all before it reads its first row."""
    write(tmp_path, pa.table({"a": range(10)}))
    done = subprocess.run([sys.executable, "-c", _TASK, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout == "10 []\n"
