"""`DeltaTable.update`: which rows get which values, and what the commit says of it."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slackwater import Snapshot, errors
from tests.spark.changed import FEED, MAPPING, VECTORS, WRITTEN_ALIKE, info, make
from tests.spark.written import changes, collected, listing, read, rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]


def test_values_are_of_the_row_as_it_was(spark: SparkSession, path: str, vectors: str) -> None:
    properties = {VECTORS: vectors, FEED: "true"}
    table = make(spark, path, "select id a, id * 10 b, nullif(id, 2) c from range(4)", **properties)
    assert cast("Any", table).update("c > 0", {"a": "b", "b": F.col("a") + F.col("b"), "C": "null"}) is None
    assert rows(read(spark, path)) == [(0, 0, 0), (10, 11, None), (2, 20, None), (30, 33, None)]
    assert changes(spark, path, 1, "a", "b", "c") == [
        ("update_postimage", 10, 11, None),
        ("update_postimage", 30, 33, None),
        ("update_preimage", 1, 10, 1),
        ("update_preimage", 3, 30, 3),
    ]
    done = info(path)
    assert done["operation"] == "UPDATE"
    assert json.loads(done["operationParameters"]["predicate"]) == ["c > 0"]
    assert done["operationMetrics"]["numUpdatedRows"] == "2"
    table.update(set={"c": "a"})
    assert rows(read(spark, path)) == [(0, 0, 0), (10, 11, 10), (2, 20, 2), (30, 33, 30)]
    assert info(path)["operationMetrics"]["numUpdatedRows"] == "4"


@WRITTEN_ALIKE
def test_a_condition_that_is_true_for_no_row_makes_no_commit(spark: SparkSession, path: str, vectors: str) -> None:
    table = make(spark, path, "select id, 'x' v from range(3)", **{VECTORS: vectors})
    before = listing(path)
    for condition in ("false", "null", "id > 100", "v is null", "id = 1 and v <> 'x'"):
        table.update(condition, {"v": "'y'"})
    assert listing(path) == before


def test_columns_are_named_with_and_without_the_alias(spark: SparkSession, path: str) -> None:
    table = make(spark, path, "select id, 'o' v, struct(0 as a, 'b' as b) st from range(5)").alias("t")
    table.update("t.id = 1", {"t.st.a": "t.st.a + 1", "t.v": "'n'"})
    table.update("ID = 2", {"ST.A": "St.a + 2", "V": "'n'"})
    table.update(F.col("t.id") == 3, {"st.`a`": F.col("t.st.a") + 3, "`v`": F.lit("n")})
    table.update(F.col("st")["a"] + F.col("id") * 10 == 40, {"st": "struct(st.a + 4 as a, st.b as b)", "T.V": "'n'"})
    found = [(i, "n", (i, "b")) for i in range(1, 5)]
    assert rows(read(spark, path)) == [(0, "o", (0, "b")), *found]


def test_the_alias_is_meant_before_a_struct_of_its_name(spark: SparkSession, path: str) -> None:
    """As in Spark and delta-spark."""
    table = make(spark, path, "select 1 a, struct(2 as a, 3 as b) t")
    table.alias("t").update(set={"t.a": "9", "t.b": "8"})
    assert rows(read(spark, path)) == [(9, (2, 8))]


@WRITTEN_ALIKE
def test_names_of_columns_may_be_anything(spark: SparkSession, path: str, vectors: str) -> None:
    sql = "select id, id `a.b`, id `c d`, id `tick``s`, id `größe;=`, struct(id as `x.y`, id as z) st from range(2)"
    table = make(spark, path, sql, **{VECTORS: vectors, MAPPING: "name"})
    table.alias("t").update(
        "`a.b` = 1",
        {
            "`a.b`": "`c d` + 1",
            "t.`c d`": F.col("t.`tick``s`") + 2,
            "`tick``s`": "`größe;=` + 3",
            "`größe;=`": "st.`x.y` + 4",
            "t.st.`x.y`": "t.st.z + 5",
        },
    )
    assert rows(read(spark, path)) == [(0, 0, 0, 0, 0, (0, 0)), (1, 2, 3, 4, 5, (6, 1))]


@WRITTEN_ALIKE
def test_values_of_every_kind_are_stored(spark: SparkSession, path: str, vectors: str) -> None:
    sql = """
        select id, date'2024-01-01' d, timestamp'2024-01-01 00:00:00' at, timestamp_ntz'2024-01-01 00:00:00' n,
               cast(1 as decimal(9, 2)) c, X'01' b, array(struct(1 as x)) l, map('k', 1L) m, 1Y s, 'x' v
        from range(2)
    """
    table = make(spark, path, sql, **{VECTORS: vectors})
    table.update(
        "id = 1",
        {
            "d": "date'1582-10-04'",
            "at": "timestamp'1712-02-28 01:02:03.000004'",
            "n": F.expr("timestamp_ntz'0001-01-01 00:00:00'"),
            "c": "-1234567.891BD + 0.001BD",
            "b": "cast('ü' as binary)",
            "l": "array(l[0], null, named_struct('x', null))",
            "m": "map_concat(m, map('n', null))",
            "s": "-128",
            "v": "42",
        },
    )
    new, old = rows(read(spark, path).where("id = 1")), rows(read(spark, path).where("id = 0"))
    assert new == [
        (
            1,
            dt.date(1582, 10, 4),
            collected(dt.datetime(1712, 2, 28, 1, 2, 3, 4)),
            dt.datetime(1, 1, 1),
            Decimal("-1234567.89"),
            bytearray("ü".encode()),
            [(1,), None, (None,)],
            {"k": 1, "n": None},
            -128,
            "42",
        )
    ]
    day = dt.datetime(2024, 1, 1)
    assert old == [(0, day.date(), collected(day), day, Decimal("1.00"), bytearray(b"\x01"), [(1,)], {"k": 1}, 1, "x")]


@WRITTEN_ALIKE
def test_values_and_conditions_may_ask_for_the_time(spark: SparkSession, path: str, vectors: str) -> None:
    sql = "select id, current_timestamp() + make_dt_interval(id - 1) at, cast(null as timestamp) seen from range(4)"
    table = make(spark, path, sql, **{VECTORS: vectors, FEED: "true"})
    table.update("at <= now()", {"seen": "current_timestamp()"})
    found = read(spark, path).where("seen is not null").agg(F.count("*"), F.countDistinct("seen"), F.min("id"))
    assert rows(found) == [(2, 1, 0)], "the time is one for all rows"
    assert rows(read(spark, path).where("seen is null").select("id")) == [(2,), (3,)]
    kinds = [change[0] for change in changes(spark, path, 1, "id")]
    assert kinds == ["update_postimage"] * 2 + ["update_preimage"] * 2


@WRITTEN_ALIKE
def test_values_may_be_made_by_chance(spark: SparkSession, path: str, vectors: str) -> None:
    table = make(spark, path, "select id, 0.0D v, '' u from range(20)", **{VECTORS: vectors, FEED: "true"})
    table.update("id < 10", {"v": "rand()", "u": F.expr("uuid()")})
    found = {row["id"]: (row["v"], row["u"]) for row in read(spark, path).collect()}
    assert len({found[i] for i in range(10)}) == 10
    assert {found[i] for i in range(10, 20)} == {(0.0, "")}
    recorded = changes(spark, path, 1, "id", "v", "u")
    assert {c[1]: c[2:] for c in recorded if c[0] == "update_postimage"} == {i: found[i] for i in range(10)}


def test_rows_move_to_the_partition_of_their_new_value(spark: SparkSession, path: str, vectors: str) -> None:
    sql = "select id, concat('p', id % 2) p, date'2024-01-01' d from range(4)"
    table = make(spark, path, sql, "p", "d", **{VECTORS: vectors})
    table.update("id = 1", {"p": "null", "d": "date'1899-12-31'"})
    table.update(F.col("id") == 2, {"p": F.lit("a/b =%")})
    table.update("p = 'p0'", {"p": "''"})
    day = dt.date(2024, 1, 1)
    assert rows(read(spark, path)) == [
        (0, None, day),
        (1, None, dt.date(1899, 12, 31)),
        (2, "a/b =%", day),
        (3, "p1", day),
    ]
    assert rows(read(spark, path).where("p = 'a/b =%'").select("id")) == [(2,)]
    assert rows(read(spark, path).where("p is null and d < '1900-01-01'").select("id")) == [(1,)]
    values = {tuple(sorted(v)) for v in Snapshot.load(path).files()["partitionValues"].to_pylist()}
    assert (("d", "1899-12-31"), ("p", None)) in values


def test_the_arguments_are_those_of_delta_spark(spark: SparkSession, path: str) -> None:
    table = make(spark, path, "select id, 'x' v from range(3)")
    wrong: Any
    for wrong, kind, says in [
        ({"condition": "id = 1"}, ValueError, "'set' cannot be None"),
        ({"set": None}, ValueError, "'set' cannot be None"),
        ({"set": [("v", "'y'")]}, TypeError, "'set' must be a dict"),
        ({"set": "v = 1"}, TypeError, "'set' must be a dict"),
        ({"set": {1: "'y'"}}, TypeError, "Keys of dict in 'set' must contain only strings"),
        ({"set": {"v": 1}}, TypeError, "Values of dict in 'set' must contain only Spark SQL Columns or strings"),
        ({"set": {"v": None}}, TypeError, "Values of dict in 'set' must contain only Spark SQL Columns or strings"),
        ({"condition": 1, "set": {"v": "1"}}, TypeError, "'condition' must be a Spark SQL Column or a string"),
    ]:
        with pytest.raises(kind, match=says):
            table.update(**wrong)
    assert Snapshot.load(path).version == 0
    table.update("id = 1", {"v": "'y'"})
    table.update(set={"v": "'z'"}, condition=F.col("id") == 2)
    assert rows(read(spark, path)) == [(0, "x"), (1, "y"), (2, "z")]


@WRITTEN_ALIKE
def test_nothing_to_set_changes_no_value(spark: SparkSession, path: str, vectors: str) -> None:
    table = make(spark, path, "select id, 'x' v from range(3)", **{VECTORS: vectors})
    table.update("id = 1", {})
    assert rows(read(spark, path)) == [(0, "x"), (1, "x"), (2, "x")]


def test_a_value_that_does_not_fit_its_rows_is_seen_only_where_it_is_used(spark: SparkSession, path: str) -> None:
    table = make(spark, path, "select id, cast(id as byte) v from range(100, 102)")
    table.update("id = 100", {"v": "id + 27"})
    assert rows(read(spark, path)) == [(100, 127), (101, 101)]
    with pytest.raises((PySparkException, errors.SlackwaterError), match="128"):
        table.update("id = 101", {"v": "id + 27"})
    assert rows(read(spark, path)) == [(100, 127), (101, 101)]
