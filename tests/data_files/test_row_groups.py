"""Row groups that a condition leaves out: with them or without, the same rows match."""

from __future__ import annotations

import datetime as dt
import math
import pickle
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from slackwater.data_files.reader import ReadProjection, Split, read_splits
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
from slackwater.protocol.features.column_mapping import FIELD_ID, ID, NAME, NONE, PHYSICAL_NAME, physical_name
from slackwater.protocol.schema.arrow_schema import to_arrow_type
from slackwater.protocol.schema.schema import (
    BINARY,
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    DataType,
    DecimalType,
    StructField,
    StructType,
)
from slackwater.stats.footer_bounds import LEGACY_DATES_KEY
from slackwater.stats.row_groups import RowGroupTest
from slackwater.storage import open_store
from slackwater.storage.parquet_footer import FIELD_ID_KEY
from tests.examples import examples

UTC = dt.timezone.utc
CHARACTERS = ("a", "b", "é", "\ud7ff", "\ue000", "\ufffd", "\U0001f600")
MODES = (NONE, NAME, ID)
MOST = 12
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Kind:
    """A column's type, the types in which files may have it, and its values by small numbers."""

    type: DataType
    in_files: tuple[pa.DataType, ...]
    value: Callable[[int], Any]


def _moment(number: int) -> dt.datetime:
    return dt.datetime(2020, 1, 1, tzinfo=UTC) + dt.timedelta(microseconds=number * 400)


def _text(number: int) -> str:
    return "z" * (number % 3 * 20) + CHARACTERS[number % 7] + "q" * (number % 2)


KINDS = {
    "Whole": Kind(LONG, (pa.int64(), pa.int32(), pa.int8()), lambda n: n),
    "real": Kind(DOUBLE, (pa.float64(), pa.float32()), lambda n: math.nan if n % 7 == 3 else n / 2 or -0.0),
    "text": Kind(STRING, (pa.string(), pa.large_string()), _text),
    "day": Kind(DATE, (pa.date32(),), lambda n: dt.date(1582, 10, 15) + dt.timedelta(days=n)),
    "time": Kind(TIMESTAMP, (pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC")), _moment),
    "price": Kind(DecimalType(12, 2), (pa.decimal128(12, 2), pa.decimal128(5, 1)), lambda n: Decimal(n) / 2),
    "raw": Kind(BINARY, (pa.binary(),), lambda n: bytes([128 + n])),
}
PATHS = (*((name,) for name in KINDS), ("s", "Whole"), ("gone",), ("p",))


def _field(name: str, kind: DataType, number: int) -> StructField:
    return StructField(name, kind, metadata={FIELD_ID: number, PHYSICAL_NAME: f"col-{number}"})


INSIDE = StructType((_field("Whole", LONG, 100), _field("other", DOUBLE, 101)))
SCHEMA = StructType(
    (
        *(_field(name, kind.type, number) for number, (name, kind) in enumerate(KINDS.items())),
        _field("s", INSIDE, 50),
        _field("gone", LONG, 51),
        _field("p", LONG, 52),
    )
)


def _literal(path: tuple[str, ...], number: int) -> Any:
    return KINDS[path[-1]].value(number) if path[-1] in KINDS else number


NUMBERS = st.integers(-MOST, MOST)


@st.composite
def leaves(draw: st.DrawFn) -> Predicate:
    path = draw(st.sampled_from(PATHS))
    kind = draw(st.sampled_from(["compare", "compare", "in", "null", "starts", "constant"]))
    if kind == "compare":
        operator: Any = draw(st.sampled_from(["=", "<=>", "!=", "<", "<=", ">", ">="]))
        return Comparison(path, operator, _literal(path, draw(NUMBERS)))
    if kind == "in":
        values = tuple(_literal(path, number) for number in draw(st.lists(NUMBERS, min_size=1, max_size=20)))
        return In(path, values, draw(st.booleans()))
    if kind == "starts":
        return StartsWith(("text",), _text(draw(NUMBERS))[: draw(st.integers(0, 45))])
    steady: list[Predicate] = [Constant(True), Constant(None), Unprunable()]
    return IsNull(path) if kind == "null" else draw(st.sampled_from(steady))


PREDICATES = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=4,
)


def holds(predicate: Predicate, row: Row) -> bool | None:
    """What the predicate is for a row, as Spark has it; what nobody knows depends on the row in some way."""
    if isinstance(predicate, Not):
        found = holds(predicate.child, row)
        return None if found is None else not found
    if isinstance(predicate, (And, Or)):
        found_all = [holds(child, row) for child in predicate.children]
        decided = isinstance(predicate, Or)
        return decided if decided in found_all else None if None in found_all else not decided
    if isinstance(predicate, Constant):
        return predicate.value
    if isinstance(predicate, Unprunable):
        return bool(row["row"] % 2)
    value: Any = row
    for name in predicate.column:
        value = None if value is None else value[name]
    return _of_leaf(predicate, value)


def _of_leaf(leaf: Comparison | In | IsNull | StartsWith, value: Any) -> bool | None:
    if isinstance(leaf, IsNull):
        return value is None
    if isinstance(leaf, Comparison) and leaf.operator == "<=>":
        return value is not None and bool(_key(value) == _key(leaf.value))
    if value is None:
        return None
    if isinstance(leaf, StartsWith):
        return bool(value.startswith(leaf.prefix))
    if isinstance(leaf, In):
        return True if _key(value) in [_key(v) for v in leaf.values] else None if leaf.has_null else False
    left, right = _key(value), _key(leaf.value)
    outcomes = {"=": left == right, "!=": left != right, "<": left < right, "<=": left <= right, ">": left > right}
    return bool(outcomes.get(leaf.operator, left >= right))


def _key(value: Any) -> Any:
    """Values in the order of Spark: NaN above all numbers, text by its UTF-8 bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def _in_file(column: StructField, mode: str, is_folded: bool) -> str:
    """What a file calls the column: any name where columns go by ids, in any case where they go by names."""
    if mode == ID:
        return f"x{column.metadata[FIELD_ID]}"
    name = physical_name(column, mode)
    return name.lower() if is_folded else name


def _stored(column: StructField, arrow: pa.DataType, mode: str, name: str) -> pa.Field:
    number = str(column.metadata[FIELD_ID]).encode()
    return pa.field(name, arrow, metadata={FIELD_ID_KEY: number} if mode == ID else None)


def _write(seed: int, root: Path, mode: str) -> None:
    """A file with values near each other in a row group, in types and with statistics as writers differ in."""
    rng = random.Random(seed)  # noqa: S311 - the same one for the same seed
    rows, is_folded = rng.choice([0, 7, 40]), rng.random() < 0.3

    def numbers() -> list[int | None]:
        start, share = rng.randint(-MOST, 4), rng.choice([0.0, 0.3, 1.0])
        near = (min(MOST, max(-MOST, start + at // 5 + rng.randint(-1, 1))) for at in range(rows))
        return [None if rng.random() < share else number for number in near]

    columns: list[tuple[pa.Field, pa.Array]] = []
    for column in SCHEMA.fields[: len(KINDS)]:
        kind = KINDS[column.name]
        values = pa.array([None if n is None else kind.value(n) for n in numbers()], to_arrow_type(column.type))
        arrow = rng.choice(kind.in_files)
        columns.append((_stored(column, arrow, mode, _in_file(column, mode, is_folded)), values.cast(arrow)))
    inner = [_in_file(column, mode, is_folded) for column in INSIDE]
    whole = [None if n is None else {inner[0]: n if n % 5 else None, inner[1]: 0.5} for n in numbers()]
    fields = zip(INSIDE, (pa.int32(), pa.float64()), inner, strict=True)
    struct = pa.struct([_stored(column, arrow, mode, name) for column, arrow, name in fields])
    outer = SCHEMA.fields[len(KINDS)]
    columns.append((_stored(outer, struct, mode, _in_file(outer, mode, is_folded)), pa.array(whole, struct)))
    rng.shuffle(columns)
    pq.write_table(
        pa.Table.from_arrays([values for _, values in columns], schema=pa.schema([found for found, _ in columns])),
        root / "f.parquet",
        row_group_size=rng.choice([3, 5, 100]),
        use_deprecated_int96_timestamps=rng.random() < 0.2,
        write_statistics=rng.random() < 0.9,
        use_dictionary=rng.random() < 0.5,
        compression="none",
    )


def _wanted(mode: str) -> ReadProjection:
    columns = pa.schema([_to_read(column, mode) for column in SCHEMA if column.name != "p"])
    return ReadProjection(columns, mode == ID, pa.schema({"p": pa.int64()}), "row")


def _to_read(column: StructField, mode: str) -> pa.Field:
    inside = column.type.fields if isinstance(column.type, StructType) else ()
    arrow = pa.struct([_to_read(found, mode) for found in inside]) if inside else to_arrow_type(column.type)
    return _stored(column, arrow, mode, physical_name(column, mode))


def _rows(root: Path, wanted: ReadProjection, mode: str, split: Split) -> list[dict[str, Any]]:
    """The rows that are read, by display names."""
    rows = [row for batch in read_splits(open_store(root), [split], wanted) for row in batch.to_pylist()]
    for row in rows:
        for column in SCHEMA:
            if column.name != "p":
                row[column.name] = row.pop(physical_name(column, mode))
        if row["s"] is not None:
            row["s"] = {column.name: row["s"][physical_name(column, mode)] for column in INSIDE}
    return rows


@settings(max_examples=examples(300))
@given(PREDICATES, st.integers(0, 1 << 30), st.sampled_from(MODES))
def test_the_same_rows_match_with_row_groups_left_out(predicate: Predicate, seed: int, mode: str) -> None:
    with TemporaryDirectory() as directory:
        root = Path(directory)
        _write(seed, root, mode)
        split = Split("f.parquet", deleted=BitMap64([1, 2, 3, 11]), constants={"p": pa.scalar(3)})
        whole = _rows(root, _wanted(mode), mode, split)
        test = RowGroupTest.of(predicate, SCHEMA, mode, ["p"])
        fewer = _rows(root, replace(_wanted(mode), matching=test), mode, split)
    assert repr([row for row in fewer if holds(predicate, row)]) == repr(
        [row for row in whole if holds(predicate, row)]
    )


def _indexes(root: Path, predicate: Predicate, schema: StructType, split: Split | None = None) -> list[int]:
    wanted = ReadProjection(pa.schema({}), row="row", matching=RowGroupTest.of(predicate, schema, NONE, []))
    batches = list(read_splits(open_store(root), [split or Split("f.parquet")], wanted))
    return [row for batch in batches for row in batch.column("row").to_pylist()]


COUNTED = StructType((StructField("a", LONG), StructField("s", StructType((StructField("b", DOUBLE),)))))


@pytest.fixture
def counted(tmp_path: Path) -> Path:
    """Ten row groups of ten rows: a counts, s.b is a third of it and null in the last group."""
    inside = pa.struct({"b": pa.float32()})
    structs = [None if n >= 90 else {"b": n / 3} for n in range(100)]
    table = pa.table({"a": pa.array(range(100), pa.int32()), "s": pa.array(structs, inside)})
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=10)
    return tmp_path


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (Comparison(("a",), "=", 42), range(40, 50)),
        (In(("a",), (3, 5, 95)), [*range(10), *range(90, 100)]),
        (And((Comparison(("a",), ">=", 75), Not(Comparison(("a",), ">", 83)))), range(70, 90)),
        (Comparison(("s", "b"), "<=", 4.0), range(20)),
        (IsNull(("s", "b")), range(90, 100)),
        (Comparison(("a",), "<", 0), []),
        (Or((Comparison(("a",), "<", 5), Unprunable())), range(100)),
        (Comparison(("nobody",), "=", 1), range(100)),
    ],
)
def test_row_groups_without_a_match_are_left_out_and_rows_keep_their_indexes(
    predicate: Predicate, expected: Any, counted: Path
) -> None:
    assert _indexes(counted, predicate, COUNTED) == list(expected)


def test_ranges_of_a_file_leave_out_what_all_of_it_leaves_out(counted: Path) -> None:
    size = (counted / "f.parquet").stat().st_size
    cuts = range(0, size, 100)
    predicate = In(("a",), (3, 42, 99))
    splits = [Split("f.parquet", start, start + 100, BitMap64([45])) for start in cuts]
    found = [row for split in splits for row in _indexes(counted, predicate, COUNTED, split)]
    assert found == [n for n in range(100) if n // 10 in (0, 4, 9) and n != 45]


def test_a_row_group_that_is_left_out_costs_no_request(tmp_path: Path) -> None:
    table = pa.table({"a": range(300_000)})
    options: Any = {"compression": "none", "use_dictionary": False}
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=30_000, **options)
    store = open_store(tmp_path)
    fetched: list[Any] = []

    class Noting:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def read_ranges(self, path: str, ranges: Any) -> Any:
            fetched.append(ranges)
            return store.read_ranges(path, ranges)

    test = RowGroupTest.of(Comparison(("a",), ">", 209_999), COUNTED, NONE, [])
    wanted = ReadProjection(pa.schema({"a": pa.int64()}), matching=test)
    noting: Any = Noting()
    assert sum(batch.num_rows for batch in read_splits(noting, [Split("f.parquet")], wanted)) == 90_000
    # The footer, then a range of each row group.
    assert len(fetched) == 4


def test_days_that_may_be_of_another_calendar_prove_nothing(tmp_path: Path) -> None:
    days = pa.table({"d": pa.array([dt.date(1500, 1, 1), dt.date(2020, 1, 1)])})
    days = days.replace_schema_metadata({LEGACY_DATES_KEY: b""})
    pq.write_table(
        days,
        tmp_path / "f.parquet",
        row_group_size=1,
    )
    schema = StructType((StructField("d", DATE),))
    late = Comparison(("d",), "<", dt.date(1400, 1, 1))
    assert _indexes(tmp_path, late, schema) == [0]


def test_a_test_goes_into_tasks_whatever_the_schema_says(counted: Path) -> None:
    """Fields that have no metadata share one mapping that cannot be pickled."""
    test = RowGroupTest.of(IsNull(("s", "b")), COUNTED, NONE, [])
    assert pickle.loads(pickle.dumps(test)) == test  # noqa: S301 - our own bytes
    assert RowGroupTest.of(IsNull(("s",)), COUNTED, NONE, []) is None
    assert RowGroupTest.of(Comparison(("a",), "=", 1), COUNTED, NONE, ["a"]) is None
