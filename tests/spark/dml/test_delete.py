"""`DeltaTable.delete`: which rows go, which stay, and what the commit says of it."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slackwater import Snapshot, errors
from tests.spark.changed import FEED, MAPPING, VECTORS, WRITTEN_ALIKE, ids, info, make
from tests.spark.written import actions, changes, data_files, listing, read, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]


def test_rows_for_which_the_condition_is_true_go_and_others_stay(spark: SparkSession, path: str, vectors: str) -> None:
    table = make(spark, path, "select id, nullif(id % 4, 0) v from range(10)", **{VECTORS: vectors, FEED: "true"})
    assert cast("Any", table).delete("v > 2 or id = 1") is None
    assert ids(spark, path) == [0, 2, 4, 5, 6, 8, 9]
    assert changes(spark, path, 1, "id", "v") == [("delete", 1, 1), ("delete", 3, 3), ("delete", 7, 3)]
    done = info(path)
    assert done["operation"] == "DELETE"
    assert json.loads(done["operationParameters"]["predicate"]) == ["v > 2 or id = 1"]
    assert done["operationMetrics"]["numDeletedRows"] == "3"
    table.delete((F.col("v") != 1) | (F.col("id") == 0))
    assert ids(spark, path) == [4, 5, 8, 9], "rows for which a condition is NULL stay"
    assert bool(actions(path, 2, "add")[0].get("deletionVector")) is (vectors == "true")


def test_a_condition_that_is_true_for_no_row_makes_no_commit(spark: SparkSession, path: str, vectors: str) -> None:
    table = make(spark, path, "select id, 'x' v from range(3)", **{VECTORS: vectors})
    before = listing(path)
    for condition in ("false", "null", "id > 100", "v is null", "v = null", "id = 1 and v <> 'x'", F.lit(None) == 1):
        table.delete(condition)
    assert listing(path) == before


def test_without_a_condition_every_row_goes_and_no_data_is_read(spark: SparkSession, path: str, vectors: str) -> None:
    table = make(spark, path, "select id from range(3)", **{VECTORS: vectors, FEED: "true"})
    for file in data_files(path):
        file.unlink()
    table.delete()
    assert Snapshot.load(path).files().num_rows == 0
    assert info(path)["operationMetrics"]["numDeletedRows"] == "3"
    assert [kind for kind in actions(path, 1) if "add" in kind or "cdc" in kind] == []
    save(spark.range(7, 8), path)
    table.delete("true")
    assert ids(spark, path) == []
    table.delete()
    assert Snapshot.load(path).version == 3, "there was nothing left to delete"


@WRITTEN_ALIKE
def test_whole_partitions_go_by_the_log_alone(spark: SparkSession, path: str, vectors: str) -> None:
    sql = "select id, nullif(concat('p ', id % 3), 'p 2') p from range(9)"
    table = make(spark, path, sql, "p", **{VECTORS: vectors})
    files = data_files(path)
    for file in files:
        if "p=p" in file.parent.name:
            file.unlink()
    table.delete("p = 'p 0'")
    table.delete(F.upper("p").like("% 1"))
    assert ids(spark, path) == [2, 5, 8]
    table.delete("p is null and id = 5")
    assert ids(spark, path) == [2, 8]
    table.delete("p is null")
    assert Snapshot.load(path).files().num_rows == 0


def test_columns_are_named_with_and_without_the_alias(spark: SparkSession, path: str) -> None:
    table = make(spark, path, "select id, struct(id as a) st from range(9)").alias("t")
    table.delete("t.id = 1")
    table.delete("T.ID = 2")
    table.delete("id = 3")
    table.delete(F.col("t.id") == 4)
    table.delete("`t`.`st`.`a` = 5L")
    table.delete(F.col("st.A") == 6)
    table.delete((F.col("t.st")["a"] == F.col("id")) & (F.col("ID") == 7))
    assert ids(spark, path) == [0, 8]


@WRITTEN_ALIKE
def test_names_of_columns_may_be_anything(spark: SparkSession, path: str, vectors: str) -> None:
    sql = "select id, id `a.b`, id `c d`, id `tick``s`, id `größe;=`, id `日本`, struct(id as `x.y`) st from range(8)"
    table = make(spark, path, sql, **{VECTORS: vectors, MAPPING: "name"}).alias("t")
    table.delete("`a.b` = 1 or `t`.`c d` = 2 or `tick``s` = 3 or t.st.`x.y` = 4")
    table.delete((F.col("t.`größe;=`") == 5) | (F.col("日本") == 6))
    assert rows(read(spark, path)) == [(i, i, i, i, i, i, (i,)) for i in (0, 7)]


@WRITTEN_ALIKE
def test_a_condition_may_ask_for_the_time(spark: SparkSession, path: str, vectors: str) -> None:
    sql = "select id, current_timestamp() + make_dt_interval(id - 2) at from range(5)"
    table = make(spark, path, sql, **{VECTORS: vectors, FEED: "true"})
    table.delete("at <= current_timestamp()")
    assert ids(spark, path) == [3, 4]
    assert [change[:2] for change in changes(spark, path, 1, "id")] == [("delete", i) for i in range(3)]
    table.delete((F.col("at") < F.current_timestamp() + F.expr("interval 36 hours")) & (F.col("at") > F.now()))
    assert ids(spark, path) == [4]


@WRITTEN_ALIKE
def test_values_of_every_kind_decide(spark: SparkSession, path: str, vectors: str) -> None:
    sql = """
        select 1 id, date'1582-10-04' d, timestamp_ntz'1712-01-01 00:00:00' n, 1.5BD c, X'00ff' b, array(1, null) l,
               map('k', 1) m, double('NaN') f
        union all
        select 2, date'0001-01-01', timestamp_ntz'2024-01-01 00:00:00.000001', -1.5BD, X'', array(), map(), -0.0D
        union all select 3, null, null, null, null, null, null, null
    """
    table = make(spark, path, sql, **{VECTORS: vectors})
    table.delete("d < date'0001-01-01' or n < timestamp_ntz'1712-01-01' or c > 1.5BD or b > X'00ff' or f < 0.0D")
    table.delete("get(l, 0) = 2")
    assert ids(spark, path) == [1, 2, 3]
    assert Snapshot.load(path).version == 0
    table.delete("f = double('NaN') and b = X'00ff' and m['k'] = 1 and l[1] is null and d = date'1582-10-04'")
    assert ids(spark, path) == [2, 3]
    table.delete("n = timestamp_ntz'2024-01-01 00:00:00.000001' and f = 0.0D and size(m) = 0")
    assert ids(spark, path) == [3]
    table.delete("d is null")
    assert ids(spark, path) == []


def test_a_python_function_may_decide(spark: SparkSession, path: str, vectors: str) -> None:
    is_odd = F.udf(lambda value: value % 2 == 1, "boolean")
    table = make(spark, path, "select id from range(6)", **{VECTORS: vectors})
    table.delete(is_odd(F.col("id")) & (F.col("id") > 1))
    assert ids(spark, path) == [0, 1, 2, 4]


@pytest.mark.parametrize("condition", [1, True, ["id = 1"], b"id = 1"], ids=repr)
def test_what_is_neither_text_nor_a_column_is_no_condition(spark: SparkSession, path: str, condition: Any) -> None:
    table = make(spark, path, "select id from range(3)")
    with pytest.raises(TypeError, match="'condition' must be a Spark SQL Column or a string"):
        table.delete(condition)
    with pytest.raises(TypeError, match="takes from 1 to 2 positional arguments"):
        table.delete("id = 1", {})  # type: ignore[call-arg]
    assert Snapshot.load(path).version == 0


def test_an_empty_text_is_no_condition(spark: SparkSession, path: str) -> None:
    table = make(spark, path, "select id from range(3)")
    with pytest.raises(errors.InvalidArgument, match="the condition of DELETE"):
        table.delete("")
    table.delete(condition="id = 0")
    assert ids(spark, path) == [1, 2]


def test_null_is_neither_in_an_empty_list_nor_outside_of_it_without_ansi(
    spark: SparkSession, path: str, vectors: str
) -> None:
    table = make(spark, path, "select id, nullif(id, 1) v from range(3)", **{VECTORS: vectors})
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        expected = [row.id for row in read(spark, path).filter(F.col("v").isin([])).collect()]
        kept = {row.id for row in read(spark, path).filter(~F.col("v").isin([])).collect()}
        table.delete(~F.col("v").isin([]))
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert expected == []
    assert ids(spark, path) == sorted({0, 1, 2} - kept)
    assert kept == {0, 2}
