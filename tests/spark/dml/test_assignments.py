"""What SET clauses say: which columns, which values, in which types; and which expressions are of one row."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater import errors
from slackwater.protocol.features.identity_columns import IdentityColumn
from slackwater.protocol.features.write_expressions import DefaultColumn, GeneratedColumn, WriteExpressions
from slackwater.protocol.schema.schema import LONG, StructType
from slackwater.spark.dml.assignments import (
    assigned_columns,
    parse_assignments,
    validate_expression,
    validate_set_argument,
)
from slackwater.spark.session.types import from_spark_schema, to_spark_schema
from tests.spark.written import struct_of

pytestmark = [pytest.mark.spark, pytest.mark.shared]

WHAT = "UPDATE SET"
NONE = WriteExpressions()


@pytest.fixture(params=["true", "false"], ids=["ansi", "not ansi"])
def both(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    """The session with Spark's ANSI mode on, and off."""
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield spark
    spark.conf.unset("spark.sql.ansi.enabled")


def table(spark: SparkSession, ddl: str, *rows: tuple[Any, ...]) -> tuple[DataFrame, StructType]:
    frame = spark.createDataFrame(list(rows), ddl)
    return frame.alias("t"), from_spark_schema(frame.schema)


def assigned(
    frame: DataFrame, schema: StructType, given: dict[str, Column | str], rules: WriteExpressions = NONE
) -> DataFrame:
    parsed = parse_assignments(given, schema, rules, WHAT)
    found = assigned_columns(frame, parsed, schema, lambda c: F.col(f"t.`{c.name}`"), WHAT)
    return frame.select(*(value.alias(name) for name, value in found.items()))


def store(spark: SparkSession, values: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """What columns hold, by name, after each of the (type, value) was assigned; they are of those very types."""
    columns = [F.lit(None).cast(data_type).alias(name) for name, (data_type, _) in values.items()]
    frame = spark.range(1, 2, 1, 1).select(F.col("id").cast("int"), *columns).alias("t")
    schema = from_spark_schema(frame.schema)
    result = assigned(frame, schema, {name: value for name, (_, value) in values.items()})
    for name in values:
        assert nullable(result.schema[name].dataType) == nullable(to_spark_schema(schema)[name].dataType), name
    return result.collect()[0].asDict()


def nullable(data_type: spark_types.DataType) -> spark_types.DataType:
    if isinstance(data_type, spark_types.StructType):
        return spark_types.StructType([spark_types.StructField(f.name, nullable(f.dataType)) for f in data_type])
    if isinstance(data_type, spark_types.ArrayType):
        return spark_types.ArrayType(nullable(data_type.elementType))
    if isinstance(data_type, spark_types.MapType):
        return spark_types.MapType(nullable(data_type.keyType), nullable(data_type.valueType))
    return data_type


# Which columns.


def schema_of(ddl: str) -> StructType:
    return from_spark_schema(struct_of(ddl))


NESTED = "a int, s struct<x: int, y: struct<z: string>>, `d.t` int, l array<struct<x: int>>, m map<string, int>"


def test_columns_are_found_in_any_case_and_spelled_as_the_schema_has_them(spark: SparkSession) -> None:
    given: dict[str, Column | str] = {"A": "1", "S.Y.z": F.lit("b"), "`D.t`": "2"}
    assert list(parse_assignments(given, schema_of(NESTED), NONE, WHAT)) == [("a",), ("s", "y", "z"), ("d.t",)]


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        (["b"], "UPDATE SET: no column b: the columns are a, s, d.t, l, m"),
        (["s.q"], "no column s.q"),
        (["a.x"], "a has the type integer"),
        (["d.t"], "no column d.t"),
        (["a", "A"], "column a is set twice"),
        (["s.x", "s"], r"column s and its part s\.x are both set"),
        (["s.y", "S.Y.Z"], r"column s\.y and its part s\.y\.z are both set"),
        (["l.element"], "only fields of structs"),
        (["l.x"], "only fields of structs"),
        (["l.element.x"], "only fields of structs"),
        (["m.key"], "only fields of structs"),
        (["`a"], "not a column"),
        ([""], "not a column"),
    ],
)
def test_a_column_that_cannot_be_set_is_refused_by_name(spark: SparkSession, keys: list[str], says: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=says):
        parse_assignments(dict.fromkeys(keys, "1"), schema_of(NESTED), NONE, WHAT)


def test_a_new_row_has_whole_columns(spark: SparkSession) -> None:
    with pytest.raises(errors.InvalidArgument, match=r"MERGE INSERT: s\.x is a part of a column"):
        parse_assignments({"s.x": "1"}, schema_of(NESTED), NONE, "MERGE INSERT", insert=True)


@pytest.mark.parametrize(
    ("given", "kind", "says"),
    [
        (None, ValueError, "'set' cannot be None"),
        (["a"], TypeError, "'set' must be a dict"),
        ({1: "1"}, TypeError, "Keys of dict in 'set' must contain only strings"),
        ({"a": 1}, TypeError, "Values of dict in 'set' must contain only Spark SQL Columns or strings"),
        ({"a": None}, TypeError, "Values of dict in 'set'"),
    ],
)
def test_the_argument_is_refused_as_delta_spark_does(given: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        validate_set_argument(given)


def test_a_dict_of_texts_and_columns_passes(spark: SparkSession) -> None:
    validate_set_argument({"a": "1", "b": F.lit(1)})


def test_identity_columns_cannot_be_updated(spark: SparkSession) -> None:
    schema = schema_of("i bigint, a int")
    for explicit in (True, False):
        rules = WriteExpressions(identity=(IdentityColumn("i", allow_explicit_insert=explicit),))
        for value in ("1", "DEFAULT"):
            with pytest.raises(errors.InvalidArgument, match="identity column i cannot be set"):
                parse_assignments({"I": value}, schema, rules, WHAT)


def test_new_rows_bring_identity_values_only_where_the_table_lets_them(spark: SparkSession) -> None:
    schema = schema_of("i bigint, a int")
    by_default, always = (
        WriteExpressions(identity=(IdentityColumn("i", allow_explicit_insert=e),)) for e in (True, False)
    )
    assert ("i",) in parse_assignments({"i": "1"}, schema, by_default, WHAT, insert=True)
    with pytest.raises(errors.InvalidArgument, match="identity column i is GENERATED ALWAYS"):
        parse_assignments({"i": "1"}, schema, always, WHAT, insert=True)
    for rules in (by_default, always):
        assert not parse_assignments({"i": "DEFAULT"}, schema, rules, WHAT, insert=True)


def test_the_word_default_is_the_default_of_the_column(spark: SparkSession) -> None:
    frame, schema = table(spark, "a int, b bigint, g bigint, `default` int", (1, 2, 3, 4))
    rules = WriteExpressions(defaults=(DefaultColumn("b", "40 + 2"),), generated=(GeneratedColumn("g", LONG, "b + 1"),))
    given: dict[str, Column | str] = {"a": "default", "b": " Default ", "g": "DEFAULT", "default": "`default` + 1"}
    found = assigned(frame, schema, given, rules)
    assert found.columns == ["a", "b", "default"]
    assert tuple(found.collect()[0]) == (None, 42, 5)
    assert found.schema["b"].dataType == spark_types.LongType()


def test_text_that_is_no_sql_is_refused(spark: SparkSession) -> None:
    frame, schema = table(spark, "a int", (1,))
    for text in ("a +", "", "1, 2"):
        with pytest.raises(errors.InvalidArgument, match="UPDATE SET"):
            assigned(frame, schema, {"a": text})


def test_nothing_assigned_is_nothing_changed(spark: SparkSession) -> None:
    frame, schema = table(spark, "a int", (1,))
    assert parse_assignments({}, schema, NONE, WHAT) == {}
    assert assigned_columns(frame, {}, schema, lambda c: F.col(c.name), WHAT) == {}


# Parts of structs.


def test_a_part_of_a_struct_is_set_and_the_rest_stays(spark: SparkSession) -> None:
    ddl = "s struct<X: int, y: struct<`z.z`: string, w: int>, v: array<int>>, a int"
    frame, schema = table(spark, ddl, ((1, ("b", 2), [3]), 7))
    found = assigned(frame, schema, {"s.y.w": "s.X + a", "S.x": "a"})
    assert found.collect()[0]["s"].asDict(recursive=True) == {"X": 7, "y": {"z.z": "b", "w": 8}, "v": [3]}
    assert nullable(found.schema["s"].dataType) == to_spark_schema(schema)["s"].dataType


def test_a_struct_that_is_null_becomes_one_of_nulls_where_a_part_is_set(spark: SparkSession) -> None:
    frame, schema = table(spark, "s struct<x: int, y: struct<z: string, w: int>>", (None,), ((1, None),))
    found = [row["s"].asDict(recursive=True) for row in assigned(frame, schema, {"s.y.z": "'n'"}).collect()]
    assert found == [{"x": None, "y": {"z": "n", "w": None}}, {"x": 1, "y": {"z": "n", "w": None}}]


def test_values_come_from_either_side_of_a_join(spark: SparkSession) -> None:
    target, schema = table(spark, "id int, v string", (1, "old"))
    source = spark.createDataFrame([(1, "new")], "id int, v string").alias("s")
    joined = target.join(source, F.expr("t.id = s.id"))
    assert assigned(joined, schema, {"v": "concat(t.v, s.v)"}).collect()[0]["v"] == "oldnew"
    with pytest.raises(errors.InvalidArgument, match=r"UPDATE SET: the value of column v: .*ambiguous"):
        assigned(joined, schema, {"id": "1", "v": "v"})


# Types.


def test_a_value_that_fits_is_stored_in_the_type_of_its_column(both: SparkSession) -> None:
    cases: list[tuple[str, str, Any]] = [
        ("int", "null", None),
        ("struct<a: int>", "null", None),
        ("bigint", "cast(3 as tinyint)", 3),
        ("tinyint", "100", 100),
        ("int", "-3.99", -3),
        ("int", "-3.99D", -3),
        ("double", "7", 7.0),
        ("float", "1.5D", 1.5),
        ("decimal(4,1)", "12.34", Decimal("12.3")),
        ("decimal(4,1)", "7", Decimal("7.0")),
        ("string", "12", "12"),
        ("string", "true", "true"),
        ("string", "date '2024-02-29'", "2024-02-29"),
        ("string", "cast('a' as binary)", "a"),
        ("date", "timestamp '2024-02-29 23:00:00'", date(2024, 2, 29)),
        ("timestamp_ntz", "date '2024-02-29'", datetime(2024, 2, 29)),
        ("array<string>", "array(1, null)", ["1", None]),
        ("array<int>", "array()", []),
        ("array<tinyint>", "array(1, 2)", [1, 2]),
        ("map<string, double>", "map('a', 1)", {"a": 1.0}),
        ("map<bigint, string>", "map(1, 2)", {1: "2"}),
        ("map<int, int>", "cast(null as map<bigint, int>)", None),
        ("struct<a: int, B: string>", "struct(1 as A, 'b' as b)", (1, "b")),
        ("struct<a: int, B: string>", "struct(2 as b, 1 as A)", (1, "2")),
        ("struct<a: int, b: string>", "cast(null as struct<b: string, a: int>)", None),
        ("struct<a: tinyint, b: int>", "cast(null as struct<b: int, a: int>)", None),
        ("array<struct<a: int, b: int>>", "array(struct(2 as b, 1 as a), null)", [(1, 2), None]),
        ("map<string, struct<a: int, b: int>>", "map('k', struct(2Y as b, 1 as a))", {"k": (1, 2)}),
    ]
    values = {f"c{at}": (data_type, value) for at, (data_type, value, _) in enumerate(cases)}
    assert store(both, values) == {f"c{at}": held for at, (_, _, held) in enumerate(cases)}


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        ("tinyint", "id + 299"),
        ("smallint", "id * 70000"),
        ("int", "id * 3000000000"),
        ("int", "id * 1e10D"),
        ("bigint", "id * 1e30D"),
        ("int", "id * double('NaN')"),
        ("decimal(3,1)", "id * 100"),
        ("decimal(3,1)", "id * 99.95"),
        ("decimal(3,1)", "id * 1e5D"),
        ("int", "id * 9999999999BD"),
        ("array<tinyint>", "array(id, id * 300)"),
        ("map<tinyint, int>", "map(id * 300, 1)"),
        ("map<int, tinyint>", "map(1, id * 300)"),
        ("struct<a: tinyint, b: int>", "struct(1 as b, id * 300 as a)"),
        ("date", "concat(id, ' is no date')"),
        ("int", "concat(id, '.5')"),
        ("boolean", "concat(id, 'x')"),
        ("timestamp", "concat(id, ' is no time')"),
        ("struct<a: date, b: int>", "struct(1 as b, concat(id, 'x') as a)"),
        ("smallint", "timestamp_seconds(id * 100000)"),
        ("timestamp", "id * 1e300D"),
        ("array<struct<a: tinyint>>", "array(struct(id * 300 as a))"),
    ],
)
def test_a_value_that_does_not_fit_fails_the_job(both: SparkSession, data_type: str, value: str) -> None:
    with pytest.raises(Exception, match=r"OVERFLOW|OUT_OF_RANGE|INVALID_INPUT|does not fit|overflow") as raised:
        store(both, {"c": (data_type, value)})
    assert not isinstance(raised.value, errors.SlackwaterError)


def test_without_ansi_the_error_names_the_column_and_the_value(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(PySparkException, match=r"column c .* type int does not fit into it: 300"):
            store(spark, {"c": ("tinyint", "id + 299")})
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def test_keys_of_a_map_that_become_equal_are_no_silent_loss(both: SparkSession) -> None:
    with pytest.raises(Exception, match="DUPLICATED_MAP_KEY"):
        store(both, {"c": ("map<int, int>", "map(id + 0.2D, 1, id + 0.4D, 2)")})


def test_a_value_that_is_made_by_chance_is_evaluated_once(both: SparkSession) -> None:
    frame = both.range(0, 200, 1, 1).select(F.col("id").cast("tinyint").alias("c")).alias("t")
    schema = from_spark_schema(frame.schema)
    chance = F.when(F.rand(3) < F.lit(0.5), F.lit(None)).otherwise(F.lit(7) + F.spark_partition_id())
    found = {row["c"] for row in assigned(frame, schema, {"c": chance}).collect()}
    assert found == {None, 7}


@pytest.mark.parametrize(
    ("data_type", "value", "says"),
    [
        ("int", "X'31'", "column c is of type int, and a value of type binary"),
        ("boolean", "date '2024-01-01'", "column c is of type boolean"),
        ("date", "1", "value of type int"),
        ("date", "true", "value of type boolean"),
        ("timestamp_ntz", "1", "value of type int"),
        ("bigint", "timestamp_ntz '2024-01-01 00:00:00'", "value of type timestamp_ntz"),
        ("binary", "1", "value of type int"),
        ("double", "interval 1 day", "value of type interval day"),
        ("array<int>", "array(date '2024-01-01')", r"column c\.element is of type int"),
        ("map<int, int>", "map(X'31', 1)", r"column c\.key is of type int"),
        ("map<int, int>", "map(1, X'31')", r"column c\.value is of type int"),
        ("struct<a: int>", "1", "value of type int"),
        ("struct<a: int, b: int>", "struct(1 as a)", "has the fields"),
        ("struct<a: int>", "struct(1 as a, 2 as b)", "has the fields"),
        ("struct<a: int>", "struct(1 as x)", "has the fields"),
        ("struct<a: int>", "struct(1 as a, 2 as A)", "has the fields"),
        ("struct<a: struct<b: int>>", "struct(struct(X'31' as B) as a)", r"column c\.a\.b is of type int"),
    ],
)
def test_a_value_of_another_kind_is_refused_before_any_job(
    spark: SparkSession, data_type: str, value: str, says: str
) -> None:
    with pytest.raises(errors.InvalidArgument, match=f"UPDATE SET: .*{says}"):
        store(spark, {"c": (data_type, value)})


def test_a_nested_value_of_another_kind_is_refused_with_its_path(spark: SparkSession) -> None:
    frame, schema = table(spark, "s struct<x: int>", ((1,),))
    with pytest.raises(errors.InvalidArgument, match=r"column s\.x is of type int"):
        assigned(frame, schema, {"s.x": "X'31'"})


# Expressions.


def is_odd() -> Any:
    """Made anew, once the mode of the session is known."""
    return F.udf(lambda number: number % 2 == 1, "boolean")


NOT_OF_ONE_ROW = [
    ("a = (select max(id) from range(3))", "sub-queries are not supported"),
    ("a in (select id from range(3))", "sub-queries are not supported"),
    ("exists (select 1 from range(3) r where r.id = a)", "sub-queries are not supported"),
    ("sum(a) > 1", "aggregates and window functions are not supported"),
    ("count(*) > 1", "aggregates and window functions are not supported"),
    ("row_number() over (order by a) > 1", "window functions are not supported"),
    ("explode(array(true))", "that return several rows are not supported"),
    ("zz > 1", "UNRESOLVED_COLUMN"),
    ("a >", "PARSE_SYNTAX_ERROR"),
    ("no_such_function(a)", "UNRESOLVED_ROUTINE"),
    ("a > named_struct('x', 1)", "DATATYPE_MISMATCH"),
    ("case when s then true end", "DATATYPE_MISMATCH"),
]


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize(("text", "says"), NOT_OF_ONE_ROW)
def test_what_is_not_of_one_row_is_no_condition(spark: SparkSession, text: str, says: str, deterministic: bool) -> None:
    frame, _ = table(spark, "a int, s string")
    with pytest.raises(errors.InvalidArgument, match="DELETE condition ") as raised:
        validate_expression(frame, text, "DELETE condition", boolean=True, deterministic=deterministic)
    assert says in raised.value.getMessage()


@pytest.mark.parametrize(("text", "says"), NOT_OF_ONE_ROW)
def test_what_is_not_of_one_row_is_no_value_and_the_column_is_named(spark: SparkSession, text: str, says: str) -> None:
    frame, schema = table(spark, "a int, s string, b boolean")
    with pytest.raises(errors.InvalidArgument, match="UPDATE SET: the value of column b: ") as raised:
        assigned(frame, schema, {"a": "1", "b": text})
    assert says in raised.value.getMessage()


def test_a_star_is_no_value(spark: SparkSession) -> None:
    for ddl in ("b int", "a int, b int"):
        frame, schema = table(spark, ddl)
        with pytest.raises(errors.InvalidArgument, match="UPDATE SET: the value of column b"):
            assigned(frame, schema, {"b": "*"})


@pytest.mark.parametrize(
    ("text", "found"), [("a", "int"), ("s", "string"), ("'true'", "string"), ("struct(a)", "struct<a:int>")]
)
def test_a_condition_is_boolean(spark: SparkSession, text: str, found: str) -> None:
    frame, _ = table(spark, "a int, s string")
    with pytest.raises(errors.InvalidArgument, match=f"expected a condition, found a value of type {found}"):
        validate_expression(frame, text, "condition", boolean=True, deterministic=True)


def test_null_is_a_condition_that_no_row_satisfies(spark: SparkSession) -> None:
    frame, _ = table(spark, "a int", (1,))
    for value in ("null", F.lit(None)):
        condition = validate_expression(frame, value, "condition", boolean=True, deterministic=True)
        assert frame.filter(condition | F.lit(False)).count() == 0


def test_a_condition_is_given_back_as_it_is(spark: SparkSession) -> None:
    frame, _ = table(spark, "a int", (1,), (2,), (3,))
    for value in ("t.a > 1", F.col("a") > F.lit(1), "exists(array(1, 2), x -> x < a)"):
        condition = validate_expression(frame, value, "condition", boolean=True, deterministic=True)
        assert [row["a"] for row in frame.filter(condition).collect()] == [2, 3]


@pytest.mark.parametrize("text", ["rand() < 2", "uuid() > ''", "monotonically_increasing_id() >= 0", "random() < 2"])
def test_what_differs_at_each_evaluation_is_refused_only_where_it_matters(spark: SparkSession, text: str) -> None:
    frame, _ = table(spark, "a int", (1,))
    with pytest.raises(errors.InvalidArgument, match="the expression is not deterministic"):
        validate_expression(frame, text, "condition", boolean=True, deterministic=True)
    assert frame.filter(validate_expression(frame, text, "condition", boolean=True)).count() == 1


def test_python_functions_are_conditions_unless_they_differ_at_each_evaluation(spark: SparkSession) -> None:
    frame, _ = table(spark, "a int", (1,), (2,))
    condition = validate_expression(frame, is_odd()("a"), "condition", boolean=True, deterministic=True)
    assert [row["a"] for row in frame.filter(condition).collect()] == [1]
    chance = is_odd().asNondeterministic()
    with pytest.raises(errors.InvalidArgument, match="the expression is not deterministic"):
        validate_expression(frame, chance("a"), "condition", boolean=True, deterministic=True)
    validate_expression(frame, chance("a"), "condition", boolean=True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a in (select id from range(3))", "sub-queries are not supported"),
        ("sum(a) > 1", "aggregates"),
        ("row_number() over (order by a) > 1", "window functions"),
    ],
)
def test_a_python_function_hides_nothing_else(spark: SparkSession, text: str, says: str) -> None:
    frame, schema = table(spark, "a int, b boolean")
    value = is_odd()("a") & F.expr(text)
    for deterministic in (True, False):
        with pytest.raises(errors.InvalidArgument, match=says):
            validate_expression(frame, value, "condition", boolean=True, deterministic=deterministic)
    with pytest.raises(errors.InvalidArgument, match=says):
        assigned(frame, schema, {"b": value})


def test_python_functions_are_values_in_any_type_they_fit(both: SparkSession) -> None:
    frame, schema = table(both, "a int, c tinyint, b boolean", (3, None, None))
    number = F.udf(lambda a: a + 1, "int")
    assert tuple(assigned(frame, schema, {"c": number("a"), "b": is_odd()("a")}).collect()[0]) == (4, True)


def test_an_expression_is_a_text_or_a_column(spark: SparkSession) -> None:
    frame, _ = table(spark, "a int")
    with pytest.raises(TypeError, match="must be a Spark SQL Column or a string"):
        validate_expression(frame, True, "condition")  # type: ignore[arg-type]
