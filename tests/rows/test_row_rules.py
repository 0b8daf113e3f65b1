"""Rules of a table for its rows, kept by writes without Spark."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest

import slackwater
from slackwater.errors import InvalidArgument, InvariantViolationException, UnsupportedFeature
from slackwater.rows.request import write_request
from slackwater.rows.sources import RowSource, row_source
from slackwater.rows.write import write_rows
from slackwater.scan.snapshot import Snapshot
from tests.transaction.tables import schema, table


def _table(columns: dict[str, Any], not_null: tuple[str, ...] = (), **options: Any) -> Snapshot:
    metadata = options.pop("metadata", {})
    properties = {f"delta.feature.{name}": "supported" for name in options.pop("features", ())}
    properties |= options.pop("properties", {})
    text = schema(columns, not_null, **metadata)
    return table(text, properties=properties, path=f"memory://{uuid.uuid4()}", **options)


def _rows(base: Snapshot) -> list[dict[str, Any]]:
    return sorted(base.update().to_arrow().to_pylist(), key=repr)


def _files(base: Snapshot) -> list[str]:
    return [m.path for m in base.store.list_from("", recursive=True) if m.path.endswith(".parquet")]


def _append(base: Snapshot, **columns: Any) -> None:
    slackwater.write(base, pa.table(columns), "append")


def _refused(base: Snapshot, says: str, **columns: Any) -> None:
    with pytest.raises(InvariantViolationException, match=says):
        _append(base, **columns)
    assert (_files(base), base.update().version) == ([], 0)


STRUCT = {
    "type": "struct",
    "fields": [{"name": "a", "type": "long", "nullable": False, "metadata": {}}],
}


def test_not_null_columns_take_no_null() -> None:
    base = _table({"id": "long", "x": "string"}, ("x",))
    _refused(
        base,
        r'NOT NULL constraint of column x is broken by a row with the values \{"x":null\}',
        id=[1, 2],
        x=["a", None],
    )
    _refused(base, "NOT NULL constraint of column x", id=[1])
    _append(base, id=[1], x=["a"])


def test_not_null_fields_may_be_missing_only_in_a_null_struct() -> None:
    base = _table({"s": STRUCT})
    kind = pa.struct([("a", pa.int64())])
    _refused(base, "NOT NULL constraint of column s.a", s=pa.array([None, {"a": None}], kind))
    _append(base, s=pa.array([None, {"a": 1}], kind))


@pytest.mark.parametrize(
    ("kind", "good", "bad", "says"),
    [
        (
            {"type": "array", "elementType": "long", "containsNull": False},
            [[1], None, []],
            [[1], [2, None]],
            "x.element",
        ),
        (
            {"type": "array", "elementType": STRUCT, "containsNull": True},
            [[{"a": 1}, None]],
            [[{"a": None}]],
            "x.element.a",
        ),
    ],
)
def test_parts_of_arrays_take_no_null(kind: Any, good: list[Any], bad: list[Any], says: str) -> None:
    base = _table({"x": kind})
    inner = pa.struct([("a", pa.int64())]) if "a" in says.split(".") else pa.int64()
    _refused(base, f"NOT NULL constraint of column {says}", x=pa.array(bad, pa.list_(inner)))
    _append(base, x=pa.array(good, pa.list_(inner)))


def test_values_of_maps_take_no_null() -> None:
    base = _table({"x": {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": False}})
    kind = pa.map_(pa.string(), pa.int64())
    _refused(base, "NOT NULL constraint of column x.value", x=pa.array([[("k", 1)], [("k", None)]], kind))
    _append(base, x=pa.array([[("k", 1)], None], kind))


def test_check_constraints_must_be_true_and_not_null() -> None:
    base = _table({"id": "long", "x": "double"}, properties={"delta.constraints.positive": "x > 0 AND id != 7"})
    _refused(base, r'CHECK constraint positive \(x > 0 AND id != 7\).*\{"id":1,"x":-1.0\}', id=[1], x=[-1.0])
    _refused(base, "CHECK constraint positive", id=[1], x=pa.array([None], pa.float64()))
    _append(base, id=[1, 2], x=[0.5, float("nan")])


def test_a_constraint_that_only_spark_evaluates_is_refused_by_name() -> None:
    base = _table({"id": "long", "x": "string"}, properties={"delta.constraints.short": "length(x) < 3"})
    with pytest.raises(
        UnsupportedFeature, match=r"CHECK constraint short \(length\(x\) < 3\) is not evaluated.*with Spark"
    ):
        _append(base, id=[1], x=["a"])
    assert _files(base) == []


def test_invariants_must_be_true() -> None:
    invariant = {"delta.invariants": orjson.dumps({"expression": {"expression": "x < 10"}}).decode()}
    base = _table({"x": "integer"}, metadata={"x": invariant})
    _refused(base, r"invariant of column x \(x < 10\)", x=[10])
    _append(base, x=[9])


def test_texts_longer_than_their_type_are_refused() -> None:
    metadata = {
        "x": {"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"},
        "y": {"__CHAR_VARCHAR_TYPE_STRING": "array<char(1)>"},
    }
    kind = {"type": "array", "elementType": "string", "containsNull": True}
    base = _table({"x": "string", "y": kind}, metadata=metadata)
    # Characters count, not bytes.
    _append(base, x=["äöü", None], y=[["é", None], None])
    with pytest.raises(InvariantViolationException, match=r"the length of column x, varchar\(3\),"):
        _append(base, x=["abcd"], y=[[]])
    with pytest.raises(InvariantViolationException, match=r"the length of column y.element, array<char\(1\)>,"):
        _append(base, x=["a"], y=[["ab"]])


def test_an_empty_text_in_a_not_null_partition_column_is_a_null() -> None:
    base = _table({"id": "long", "day": "string"}, ("day",), partition_by=["day"])
    _refused(base, "NOT NULL constraint of column day", id=[1], day=[""])


# Values that the writer computes.


def _generated(sql: str, kind: str, source: str = "date") -> Snapshot:
    return _table(
        {"at": source, "part": kind},
        metadata={"part": {"delta.generationExpression": sql}},
        features=["generatedColumns"],
    )


@pytest.mark.parametrize(
    ("sql", "kind", "source", "given", "value"),
    [
        ("year(at)", "integer", "date", dt.date(2026, 3, 4), 2026),
        ("MONTH(at)", "long", "timestamp_ntz", dt.datetime(2026, 3, 4), 3),
        ("day(at)", "byte", "date", dt.date(2026, 3, 4), 4),
        ("hour(at)", "integer", "timestamp", dt.datetime(2026, 3, 4, 5, tzinfo=dt.timezone.utc), 5),
        (
            "CAST(at AS DATE)",
            "date",
            "timestamp",
            dt.datetime(1969, 12, 31, 23, tzinfo=dt.timezone.utc),
            dt.date(1969, 12, 31),
        ),
        ("date(at)", "date", "timestamp_ntz", dt.datetime(2026, 3, 4, 5), dt.date(2026, 3, 4)),
        ("at", "long", "integer", 7, 7),
        ("CAST(at AS STRING)", "string", "long", 7, "7"),
        ("5", "short", "date", dt.date(2026, 3, 4), 5),
        ("'x'", "string", "date", dt.date(2026, 3, 4), "x"),
        ("CAST(at AS BIGINT)", "long", "integer", -1, -1),
    ],
)
def test_generated_columns_are_computed_or_checked(sql: str, kind: str, source: str, given: Any, value: Any) -> None:
    base = _generated(sql, kind, source)
    _append(base, at=[given, None])
    constant = value if sql in ("5", "'x'") else None
    assert _rows(base)[0]["part"] in (value, constant)
    assert {row["part"] for row in _rows(base)} == {value, constant}
    arrow = base.to_arrow().schema
    again = pa.table({"at": [given], "part": [value]}, schema=arrow)
    slackwater.write(base, again, "append")
    if constant is None:
        slackwater.write(base, pa.table({"at": [None], "part": [None]}, schema=arrow), "append")
    wrong = pa.table({"at": [given], "part": [None]}, schema=arrow)
    with pytest.raises(InvariantViolationException, match=r"generated column part \(<value> <=> "):
        slackwater.write(base, wrong, "append")


@pytest.mark.parametrize("sql", ["date_format(at, 'yyyy')", "at + 1", "CAST(at AS STRING)", "upper(at)"])
def test_a_generation_expression_that_only_spark_evaluates_is_refused_by_name(sql: str) -> None:
    base = _generated(sql, "string", "double")
    with pytest.raises(UnsupportedFeature, match=r"the generation expression of column part .* is not evaluated"):
        _append(base, at=[1.0])
    assert _files(base) == []


def _defaulted(sql: str, kind: str) -> Snapshot:
    return _table({"id": "long", "x": kind}, metadata={"x": {"CURRENT_DEFAULT": sql}}, features=["allowColumnDefaults"])


@pytest.mark.parametrize(
    ("sql", "kind", "value"),
    [
        ("5", "integer", 5),
        ("-5", "byte", -5),
        ("CAST(-5 AS TINYINT)", "byte", -5),
        ("-1.25BD", "decimal(5,2)", Decimal("-1.25")),
        ("'a'", "string", "a"),
        ("NULL", "string", None),
        ("TRUE", "boolean", True),
        ("1.5", "double", 1.5),
        ("DATE '2026-01-02'", "date", dt.date(2026, 1, 2)),
        ("CAST('2026-01-02' AS DATE)", "date", dt.date(2026, 1, 2)),
        ("'2026-01-02'", "date", dt.date(2026, 1, 2)),
    ],
)
def test_a_missing_column_has_its_default_value(sql: str, kind: str, value: Any) -> None:
    base = _defaulted(sql, kind)
    _append(base, id=[1])
    assert _rows(base) == [{"id": 1, "x": value}]
    _append(base, id=[2], x=pa.nulls(1, base.to_arrow().schema.field("x").type))
    assert _rows(base)[1] == {"id": 2, "x": None}


@pytest.mark.parametrize(("sql", "kind"), [("current_timestamp()", "timestamp"), ("current_date()", "date")])
def test_a_default_may_be_the_current_time(sql: str, kind: str) -> None:
    base = _defaulted(sql, kind)
    before = dt.datetime.now(dt.timezone.utc) - dt.timedelta(seconds=1)
    _append(base, id=[1, 2])
    found = {row["x"] for row in _rows(base)}
    assert len(found) == 1
    (value,) = found
    assert value >= (before if kind == "timestamp" else before.date())


def test_a_default_that_only_spark_evaluates_is_refused_by_name() -> None:
    base = _defaulted("upper('a')", "string")
    with pytest.raises(UnsupportedFeature, match=r"the default value of column x \(upper\('a'\)\) is not evaluated"):
        _append(base, id=[1])
    _append(base, id=[1], x=["given"])


@pytest.mark.parametrize(("sql", "kind"), [("'abc'", "integer"), ("300", "byte")])
def test_a_default_that_does_not_fit_its_column_is_refused(sql: str, kind: str) -> None:
    base = _defaulted(sql, kind)
    with pytest.raises(UnsupportedFeature, match="the default value of column x"):
        _append(base, id=[1])
    assert _files(base) == []


def _identity(explicit: bool = False, step: int = 10) -> Snapshot:
    settings = {
        "delta.identity.start": 100,
        "delta.identity.step": step,
        "delta.identity.allowExplicitInsert": explicit,
    }
    return _table({"id": "long", "x": "string"}, metadata={"id": settings}, features=["identityColumns"])


@pytest.mark.parametrize("step", [10, -10])
def test_identity_values_go_on_from_the_high_water_mark(step: int) -> None:
    base = _identity(step=step)
    _append(base, x=["a", "b"])
    _append(base, x=["c"])
    assert sorted((row["x"], row["id"]) for row in _rows(base)) == [
        ("a", 100),
        ("b", 100 + step),
        ("c", 100 + 2 * step),
    ]
    (column,) = [c for c in base.update().schema if c.name == "id"]
    assert column.metadata["delta.identity.highWaterMark"] == 100 + 2 * step


def test_identity_values_go_on_from_batch_to_batch() -> None:
    base = _identity()
    slackwater.write(base, [pa.record_batch({"x": [text] * 3}) for text in "ab"], "append")
    assert sorted(row["id"] for row in _rows(base)) == list(range(100, 160, 10))


def test_values_for_an_identity_column_need_by_default() -> None:
    with pytest.raises(InvalidArgument, match="identity column id is GENERATED ALWAYS"):
        _append(_identity(), id=[1], x=["a"])
    base = _identity(explicit=True)
    _append(base, id=[1], x=["a"])
    assert _rows(base) == [{"id": 1, "x": "a"}]


def test_identity_values_of_concurrent_writes_never_repeat() -> None:
    base = _identity()
    inner = iter([True])

    rows = pa.table({"x": ["a", "b"]})
    plain = row_source(rows)

    def raced() -> Any:
        if next(inner, False):
            _append(base, x=["other"])
        return plain.open()

    source = RowSource(plain.schema, raced, replayable=True)
    result = write_rows(base.table, source, write_request("append"))
    assert result is not None
    assert result.version == 2
    assert sorted(row["id"] for row in _rows(base)) == [100, 110, 120]


def test_rows_that_are_read_once_lose_a_race_for_identity_values() -> None:
    base = _identity()

    def batches() -> Any:
        yield pa.record_batch({"x": ["a"]})
        _append(base, x=["other"])

    with pytest.raises(slackwater.errors.MetadataChangedException):
        slackwater.write(base, batches(), "append")
    assert [row["id"] for row in _rows(base)] == [100]
