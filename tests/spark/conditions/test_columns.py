"""Conditions as Spark knows them, and what they say about files; the same in classic and in Connect sessions."""

from __future__ import annotations

import datetime as dt
import functools
import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

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
from slackwater.protocol.schema.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)
from slackwater.scan.pruning.file_pruning import prune
from slackwater.spark.conditions.predicates import predicate_of
from slackwater.spark.session.types import to_spark_schema

pytestmark = [pytest.mark.spark, pytest.mark.modes]

UTC = dt.timezone.utc
ZONE = "UTC"
SCHEMA = StructType(
    (
        StructField("x", LONG),
        StructField("i", INTEGER),
        StructField("s", STRING),
        StructField("d", DATE),
        StructField("ts", TIMESTAMP),
        StructField("ntz", TIMESTAMP_NTZ),
        StructField("f", DOUBLE),
        StructField("fl", FLOAT),
        StructField("dec", DecimalType(10, 2)),
        StructField("b", BOOLEAN),
        StructField("bin", BINARY),
        StructField("a", StructType((StructField("B", LONG), StructField("x.y", LONG)))),
        StructField("odd, name`", LONG),
        StructField("arr", ArrayType(LONG)),
        StructField("m", MapType(STRING, LONG)),
    )
)
PRUNABLE = [("x",), ("i",), ("s",), ("d",), ("ts",), ("ntz",), ("f",), ("dec",), ("b",), ("a", "B"), ("odd, name`",)]
Write = Callable[[DataFrame], Column]


def _row(**values: Any) -> dict[str, Any]:
    return {field.name: values.get(field.name) for field in SCHEMA}


FILES: list[list[dict[str, Any]]] = [
    [
        _row(x=n, i=n, s=s, d=dt.date(2020, 1, day), f=n / 2, fl=n / 2, dec=Decimal(n), b=n > 1)
        | {
            "ts": dt.datetime(2020, 1, day, 10, tzinfo=UTC),
            "ntz": dt.datetime(2020, 1, day, 10),
            "bin": bytes([n % 256]),
            "a": {"B": n, "x.y": -n},
            "odd, name`": n,
            "arr": [n],
            "m": {"k": n},
        }
        for n, s, day in rows
    ]
    for rows in (
        [(1, "apple", 1), (2, "avocado", 2)],
        [(5, "b%c_d", 5), (6, 'it\'s \\ "it"', 6)],
        [(-3, "", 20), (16_777_217, "zebra", 25)],
    )
] + [
    [_row(), _row(s="nulls")],
    [_row(x=5, s="é\n", f=math.nan, fl=math.nan, b=False, dec=Decimal("1.25"))],
    [_row(f=math.inf, x=2**62, i=-5, dec=Decimal("-12345678.90"), b=True)],
]
ROWS = [row for file in FILES for row in file]


def _at(*path: str, op: Any = "=", value: Any) -> Comparison:
    return Comparison(path, op, value)


def _said(name: str, expected: Predicate, write: Write) -> Any:
    return pytest.param(write, expected, id=name)


UNKNOWN = Unprunable()
JAN_5 = dt.datetime(2020, 1, 5, 10, tzinfo=UTC)
UNDERSTOOD = [
    _said("attribute", _at("x", value=5), lambda df: df.x == 5),
    _said("item", _at("x", op="<", value=5), lambda df: df["x"] < 5),
    _said("col in another case", _at("x", op=">=", value=5), lambda df: F.col("X") >= 5),
    _said("literal first", _at("x", op=">", value=5), lambda df: F.lit(5) < F.col("x")),
    _said("python literal first", _at("x", op="<=", value=5), lambda df: 5 >= df.x),  # noqa: SIM300
    _said("not equal", Not(_at("x", value=5)), lambda df: df.x != 5),
    _said("null-safe", _at("x", op="<=>", value=5), lambda df: df.x.eqNullSafe(5)),
    _said("null-safe null", IsNull(("x",)), lambda df: df.x.eqNullSafe(cast("Any", None))),
    _said("equal_null", _at("x", op="<=>", value=5), lambda df: F.equal_null("x", F.lit(5))),
    _said("equal to null", Constant(None), lambda df: df.x == F.lit(None)),
    _said("beyond int", _at("x", op=">", value=2**40), lambda df: df.x > 2**40),
    _said("negative", _at("x", op=">", value=-5), lambda df: df.x > -F.lit(5)),
    _said("decimal for a whole number", _at("x", op="<", value=Decimal("5.5")), lambda df: df.x < Decimal("5.5")),
    _said("double for a whole number", _at("x", op="<", value=5.5), lambda df: df.x < 5.5),
    _said("text for a whole number", _at("i", value=5), lambda df: df.i == "5"),
    _said(
        "and",
        And((_at("x", op=">", value=1), _at("a", "B", op="<", value=5), StartsWith(("s",), "a'\\"))),
        lambda df: (df.x > 1) & (F.col("a.b") < 5) & df.s.startswith("a'\\"),
    ),
    _said("or, not", Or((Not(_at("b", value=True)), IsNull(("x",)))), lambda df: ~df.b | F.isnull("x")),
    _said("boolean column", _at("b", value=True), lambda df: F.col("b")),
    _said("boolean comparison", _at("b", value=False), lambda df: df.b == False),  # noqa: E712
    _said("is null", IsNull(("s",)), lambda df: df.s.isNull()),
    _said("is not null", Not(IsNull(("a", "B"))), lambda df: df.a.B.isNotNull()),
    _said("isnotnull", Not(IsNull(("x",))), lambda df: F.isnotnull("x")),
    _said("in", In(("x",), (1, 5)), lambda df: df.x.isin(1, 5)),
    _said("in with null", In(("x",), (1,), True), lambda df: df.x.isin([1, None])),
    _said("not in", Not(In(("s",), ("apple", "b%c_d"))), lambda df: ~df.s.isin(["apple", "b%c_d"])),
    _said("in nothing", And((Constant(False), UNKNOWN)), lambda df: df.x.isin([])),
    _said(
        "between", And((_at("x", op=">=", value=1), _at("x", op="<=", value=3))), lambda df: df.x.between(1, 3)
    ),
    _said("like prefix", StartsWith(("s",), "a"), lambda df: df.s.like("a%")),
    _said("like escaped", _at("s", value="b%c_d"), lambda df: df.s.like("b\\%c\\_d")),
    _said("like quotes", StartsWith(("s",), "it's \\ \""), lambda df: df.s.like("it's \\\\ \"%")),
    _said("like escape", StartsWith(("s",), "b%"), lambda df: F.like("s", F.lit("b/%%"), F.lit("/"))),
    _said("startswith function", StartsWith(("s",), "ap"), lambda df: F.startswith(df.s, F.lit("ap"))),
    _said("call_function", StartsWith(("s",), "ap"), lambda df: F.call_function("startswith", df.s, F.lit("ap"))),
    _said("text", _at("s", value="it's \\ \"it\""), lambda df: df.s == "it's \\ \"it\""),
    _said("text beyond ascii", _at("s", value="é\n"), lambda df: df.s == "é\n"),
    _said("date", _at("d", op=">=", value=dt.date(2020, 1, 5)), lambda df: df.d >= dt.date(2020, 1, 5)),
    _said("text for a date", _at("d", value=dt.date(2020, 1, 5)), lambda df: df.d == "2020-01-05"),
    _said("timestamp", _at("ts", value=JAN_5), lambda df: df.ts == JAN_5),
    _said(
        "timestamp in micros",
        _at("ts", op="<", value=dt.datetime(1969, 12, 31, 23, 59, 59, 123456, tzinfo=UTC)),
        lambda df: df.ts < dt.datetime(1969, 12, 31, 23, 59, 59, 123456, tzinfo=UTC),
    ),
    _said("timestamps", In(("ts",), (JAN_5,)), lambda df: df.ts.isin([JAN_5])),
    _said("date for a timestamp", _at("ts", op=">", value=dt.datetime(2020, 1, 5, tzinfo=UTC)),
          lambda df: df.ts > dt.date(2020, 1, 5)),
    _said("cast to timestamp", _at("ts", value=JAN_5),
          lambda df: df.ts == F.lit("2020-01-05 10:00:00").cast("timestamp")),
    _said("cast to ntz", _at("ntz", value=dt.datetime(2020, 1, 5, 10)),
          lambda df: df.ntz == F.lit("2020-01-05 10:00:00").cast("timestamp_ntz")),
    _said("double", _at("f", op="<", value=1e-300), lambda df: df.f < 1e-300),
    _said("infinity", _at("f", value=math.inf), lambda df: df.f == math.inf),
    _said("whole number for a double", _at("f", op="<", value=3.0), lambda df: df.f < 3),
    _said("float for a float", _at("fl", value=2.5), lambda df: df.fl == F.lit(2.5).cast("float")),
    _said("decimal", _at("dec", op="<", value=Decimal("1.25")), lambda df: df.dec < Decimal("1.25")),
    _said("cast to decimal", _at("dec", value=Decimal("1.25")),
          lambda df: df.dec == F.lit("1.25").cast("decimal(5,2)")),
    _said("binary", _at("bin", value=b"\x05"), lambda df: df.bin == F.lit(bytearray(b"\x05"))),
    _said("cast", _at("x", value=5), lambda df: df.x == F.lit("5").cast("int")),
    _said("try_cast", _at("x", value=5), lambda df: df.x == F.lit("5").try_cast("bigint")),
    _said("column cast to its type", _at("x", value=5), lambda df: df.x.cast("bigint") == 5),
    _said("dotted path", _at("a", "B", value=5), lambda df: F.col("a.b") == 5),
    _said("attribute path", _at("a", "B", value=5), lambda df: df.a.B == 5),
    _said("frame path", _at("a", "B", value=5), lambda df: df["a.B"] == 5),
    _said("field", _at("a", "B", value=5), lambda df: F.col("a").getField("B") == 5),
    _said("field with a dot", _at("a", "x.y", value=-5), lambda df: F.col("a").getItem("x.y") == -5),
    _said("backticks", _at("a", "x.y", op="<", value=-4), lambda df: F.col("a.`x.y`") < -4),
    _said("frame backticks", _at("a", "x.y", op="<", value=-4), lambda df: df["a.`x.y`"] < -4),
    _said("odd name", _at("odd, name`", value=5), lambda df: F.col("`odd, name```") == 5),
    _said("alias", _at("x", value=5), lambda df: (df.x.alias("y") == F.lit(5).alias("z")).alias("w")),
    _said("lit true", Constant(True), lambda df: F.lit(True)),
    _said("lit null", Constant(None), lambda df: F.lit(None).cast("boolean")),
    _said("expr", And((_at("x", op=">", value=1), _at("s", value="it's \\ \"it\""))),
          lambda df: F.expr("x > 1 and s = 'it\\'s \\\\ \"it\"'")),
    _said("expr inside", Or((_at("x", value=5), StartsWith(("s",), "a"))),
          lambda df: (df.x == 5) | F.expr("s like 'a%'")),
    _said("unknown among known", And((_at("x", value=5), UNKNOWN)), lambda df: (df.x == 5) & df.s.rlike("^b")),
    _said("case among known", And((_at("x", value=5), UNKNOWN)),
          lambda df: (df.x == 5) & F.when(df.i > 1, True).otherwise(False)),
    _said("subquery among known", Or((Not(_at("x", value=6)), UNKNOWN)),
          lambda df: ~(df.x == 6) | (df.x == df.sparkSession.range(3).select(F.max("id")).scalar())),
]  # fmt: skip
NOT_UNDERSTOOD = {
    "other column": lambda df: df.x > df.i,
    "arithmetic": lambda df: df.x + 1 > 5,
    "cast column": lambda df: df.x.cast("string") == "5",
    "contains": lambda df: df.s.contains("a"),
    "endswith": lambda df: df.s.endswith("e"),
    "rlike": lambda df: df.s.rlike("^a"),
    "ilike": lambda df: df.s.ilike("A%"),
    "like inside": lambda df: df.s.like("%a%"),
    "isnan": lambda df: F.isnan("f"),
    "in column": lambda df: df.x.isin(1, df.i),
    "literals": lambda df: F.lit(1) == F.lit(1),
    "map": lambda df: df.m["k"] == 5,
    "array": lambda df: df.arr[0] == 5,
    "struct": lambda df: df.a.isNotNull(),
    "when": lambda df: F.when(df.x > 1, True).otherwise(False),
    "udf": lambda df: F.udf(lambda v: v is None, "boolean")("x"),
    "random": lambda df: F.rand(3) > 0.5,
    "lambda": lambda df: F.exists("arr", lambda item: item > 1),
    "collation": lambda df: F.collate("s", "UTF8_LCASE") == "APPLE",
    "float for a whole number": lambda df: df.x == F.lit(16_777_217).cast("float"),
    "decimal beyond whole numbers": lambda df: df.x < Decimal(12345678901234567890),
    "text among numbers": lambda df: df.x.isin(5, "6"),
    "double for a decimal": lambda df: df.dec == 1.25,
    "interval": lambda df: F.col("ts") - JAN_5 > cast("Any", dt.timedelta(days=1)),
    "comparison of comparisons": lambda df: (df.x > 1) == (df.i > 1),
    "subquery": lambda df: F.expr("x in (select 5)"),
    "current user": lambda df: F.expr("s = current_user() or s like '_b%'"),
}  # fmt: skip
NEVER_VALID = {
    "no such column": lambda df: F.col("nothing") == 5,
    "no such field": lambda df: F.col("a.nothing") == 5,
    "field of no struct": lambda df: F.col("x.y").isNull(),
    "number for text": lambda df: df.s == 5,
    "bad SQL": lambda df: F.expr("x = = 5"),
    "no condition": lambda df: F.lit(5),
    "text column": lambda df: F.col("s"),
    "window": lambda df: F.row_number().over(Window.orderBy("x")) > 1,
    "star": lambda df: F.col("*"),
    "aggregate": lambda df: F.max("x") > 1,
}


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([tuple(row.values()) for row in ROWS], to_spark_schema(SCHEMA)).coalesce(1)


@pytest.fixture(scope="module")
def outcomes(frame: DataFrame) -> dict[Write, list[bool | None]]:
    """What Spark makes of each condition, row by row."""
    writes = [parameters.values[0] for parameters in UNDERSTOOD]
    rows = frame.select(*(write(frame).alias(f"c{number}") for number, write in enumerate(writes))).collect()
    return {write: [row[number] for row in rows] for number, write in enumerate(writes)}


def _without_texts(predicate: Predicate) -> Predicate:
    match predicate:
        case Unprunable():
            return UNKNOWN
        case Not(child):
            return Not(_without_texts(child))
        case And(children):
            return And(tuple(_without_texts(child) for child in children))
        case Or(children):
            return Or(tuple(_without_texts(child) for child in children))
    return predicate


def _plain(predicate: Predicate) -> Predicate:
    """Without texts, and without negation of what is not known."""
    found = _without_texts(predicate)
    return UNKNOWN if found == Not(UNKNOWN) else found


def _prunes(predicate: Predicate) -> bool:
    match predicate:
        case Unprunable():
            return False
        case Not(child):
            return _prunes(child)
        case And(children) | Or(children):
            return any(_prunes(child) for child in children)
    return True


def _kept(predicate: Predicate, files: list[list[dict[str, Any]]]) -> set[int]:
    """The numbers of the files that may hold a match, going by statistics as a writer leaves them."""
    stats = [json.dumps(_stats(file)) for file in files]
    empty = pa.array([[] for _ in files], pa.map_(pa.string(), pa.string()))
    table = pa.table({"number": range(len(files)), "partitionValues": empty, "stats": pa.array(stats)})
    return set(prune(table, predicate, SCHEMA)["number"].to_pylist())


def _field(value: Any, name: str) -> Any:
    return None if value is None else value[name]


def _stats(file: list[dict[str, Any]]) -> dict[str, Any]:
    stats: dict[str, Any] = {"numRecords": len(file), "minValues": {}, "maxValues": {}, "nullCount": {}}
    for path in PRUNABLE:
        values: list[Any] = [functools.reduce(_field, path, row) for row in file]
        known = [v for v in values if v is not None and not (isinstance(v, float) and math.isnan(v))]
        found: dict[str, Any] = {"nullCount": sum(value is None for value in values)}
        if known and not any(isinstance(v, float) and math.isinf(v) for v in known):
            found |= {"minValues": _wire(min(known)), "maxValues": _wire(max(known))}
        for key, value in found.items():
            target = stats[key]
            for name in path[:-1]:
                target = target.setdefault(name, {})
            target[path[-1]] = value
    return stats


def _wire(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.000") + ("Z" if value.tzinfo else "")
    if isinstance(value, dt.date):
        return value.isoformat()
    return float(value) if isinstance(value, Decimal) else value


@pytest.mark.parametrize(("write", "expected"), UNDERSTOOD)
def test_a_condition_is_said_as_spark_means_it(
    frame: DataFrame, outcomes: dict[Write, list[bool | None]], write: Write, expected: Predicate
) -> None:
    found = predicate_of(write(frame), SCHEMA, ZONE)
    assert _without_texts(found) == expected
    for files in (FILES, [[row] for row in ROWS]):
        numbers = [number for number, file in enumerate(files) for _ in file]
        for said, outcome in ((found, True), (Not(found), False)):
            matching = {number for number, each in zip(numbers, outcomes[write], strict=True) if each is outcome}
            assert matching <= _kept(said, files)


@pytest.mark.parametrize("write", NOT_UNDERSTOOD.values(), ids=NOT_UNDERSTOOD.keys())
def test_what_cannot_be_said_prunes_nothing(frame: DataFrame, write: Write) -> None:
    assert not _prunes(predicate_of(write(frame), SCHEMA, ZONE))
    assert frame.filter(write(frame)).columns == frame.columns


@pytest.mark.parametrize("write", NEVER_VALID.values(), ids=NEVER_VALID.keys())
def test_what_spark_would_refuse_is_left_for_spark_to_refuse(frame: DataFrame, write: Write) -> None:
    assert not _prunes(predicate_of(write(frame), SCHEMA, ZONE))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x > 5 AND s LIKE 'a%'", And((_at("x", op=">", value=5), StartsWith(("s",), "a")))),
        ("_metadata.file_path = 'a' AND x = 5", And((UNKNOWN, _at("x", value=5)))),
        ("s = '${word}' AND x = 5", UNKNOWN),
        ("x >", UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_sql_text_is_read_or_left_to_spark(text: str, expected: Predicate) -> None:
    assert _without_texts(predicate_of(text, SCHEMA, ZONE)) == expected


@pytest.mark.parametrize(
    ("text", "write"),
    [
        ("x = - -1", lambda df: df.x == -F.lit(-1)),
        ("i > - -2147483648", lambda df: df.i > -F.lit(-(2**31))),
        ("x = -CAST(NULL AS INT)", lambda df: df.x == -F.lit(None).cast("int")),
        ("x IN (1, '5')", lambda df: df.x.isin(1, "5")),
        ("x NOT IN (1, NULL)", lambda df: ~df.x.isin([1, None])),
        ("fl IN (2.5F, 1)", lambda df: df.fl.isin(F.lit(2.5).cast("float"), 1)),
        ("x = CAST(16777217 AS FLOAT)", lambda df: df.x == F.lit(16_777_217).cast("float")),
        ("s LIKE NULL", lambda df: F.like("s", F.lit(None))),
        ("s NOT LIKE 'b!%%' ESCAPE '!'", lambda df: ~F.like("s", F.lit("b!%%"), F.lit("!"))),
        ("s LIKE 'it\\'s%'", lambda df: df.s.like("it's%")),
        ("s IS NOT DISTINCT FROM NULL", lambda df: df.s.eqNullSafe(None)),
        ("equal_null(x, 5)", lambda df: F.equal_null("x", F.lit(5))),
        ("d BETWEEN '2020-01-01' AND DATE '2020-01-05'", lambda df: df.d.between("2020-01-01", dt.date(2020, 1, 5))),
        ("dec < 1.25BD", lambda df: df.dec < Decimal("1.25")),
        ("dec < CAST('1.25' AS DECIMAL(5))", lambda df: df.dec < F.lit("1.25").cast("decimal(5)")),
        ("b IS NOT TRUE", lambda df: ~df.b.eqNullSafe(True)),
        ("startswith(s, 'a') OR a.b IS NULL", lambda df: df.s.startswith("a") | df.a.B.isNull()),
    ],
)
def test_text_and_a_column_say_the_same(frame: DataFrame, text: str, write: Write) -> None:
    found = _plain(predicate_of(text, SCHEMA, ZONE))
    assert found == _plain(predicate_of(write(frame), SCHEMA, ZONE))
    assert found == _plain(predicate_of(F.expr(text), SCHEMA, ZONE))


def test_a_variable_in_text_is_sparks_to_replace(spark: SparkSession, frame: DataFrame) -> None:
    spark.conf.set("slackwater.test.word", "apple")
    try:
        condition = F.expr("s = '${slackwater.test.word}'")
        assert frame.filter(condition).count() == 1
        assert _without_texts(predicate_of(condition, SCHEMA, ZONE)) in (_at("s", value="apple"), UNKNOWN)
    finally:
        spark.conf.unset("slackwater.test.word")


def test_without_ansi_null_is_not_outside_of_an_empty_list(spark: SparkSession, frame: DataFrame) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        outcomes = {row[0] for row in frame.filter("x IS NULL").select(~F.col("x").isin([])).collect()}
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert outcomes == {None}


def test_a_name_that_spark_cannot_take_apart_is_left_to_spark() -> None:
    try:
        condition = F.col("nothing`") == 5
    except AnalysisException:
        return  # A classic session refuses it on the spot.
    assert not _prunes(predicate_of(condition, SCHEMA, ZONE))


def test_some_conditions_do_prune(frame: DataFrame) -> None:
    assert _kept(predicate_of(frame.x == 5, SCHEMA, ZONE), FILES) == {1, 2, 4}
    assert _kept(predicate_of(frame["ts"] > JAN_5, SCHEMA, ZONE), FILES) == {1, 2}


def test_a_column_that_hides_behind_the_name_of_a_metadata_column_is_not_the_tables() -> None:
    schema = StructType((StructField("_metadata", StructType((StructField("file_name", STRING),))),))
    assert not _prunes(predicate_of(F.col("_metadata.file_name") == "a", SCHEMA, ZONE))
    assert _prunes(predicate_of(F.col("_metadata.file_name") == "a", schema, ZONE))


def test_long_chains_of_or_are_one_or(frame: DataFrame) -> None:
    chain = functools.reduce(lambda left, right: left | right, [frame.x == n for n in range(250)])
    found = predicate_of(chain, SCHEMA, ZONE)
    assert found == Or(tuple(_at("x", value=n) for n in range(250)))


def test_conditions_nested_in_cases_end(frame: DataFrame) -> None:
    nested = F.lit(0)
    for n in range(40):
        nested = F.when(frame.x == n, n).otherwise(nested)
    found = predicate_of((frame.x == 5) & (nested == 5), SCHEMA, ZONE)
    assert _without_texts(found) == And((_at("x", value=5), UNKNOWN))


def test_both_hours_of_a_clock_put_back_are_told_apart(spark: SparkSession, frame: DataFrame) -> None:
    first, second = (dt.datetime(2020, 10, 25, hour, 30, tzinfo=UTC) for hour in (0, 1))
    spark.conf.set("spark.sql.session.timeZone", "Europe/Zurich")
    try:
        assert predicate_of(frame.ts == first, SCHEMA, "Europe/Zurich") == _at("ts", value=first)
        assert predicate_of(frame.ts == second, SCHEMA, "Europe/Zurich") == _at("ts", value=second)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_names_are_whole_however_short_spark_prints_them(spark: SparkSession) -> None:
    before = cast("str", spark.conf.get("spark.sql.debug.maxToStringFields", "25"))
    spark.conf.set("spark.sql.debug.maxToStringFields", "1")
    try:
        assert predicate_of(F.col("a.B") == 5, SCHEMA, ZONE) == _at("a", "B", value=5)
    finally:
        spark.conf.set("spark.sql.debug.maxToStringFields", before)
