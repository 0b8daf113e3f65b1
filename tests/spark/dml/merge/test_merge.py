"""`DeltaTable.merge`: which clause takes which row, how sources and targets are named, and what the commit says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater import DeltaTable, Snapshot, errors
from slackwater.spark.dml.dml_command import DmlCommand
from tests.spark.changed import FEED, MAPPING, VECTORS, WRITTEN_ALIKE, counts, info, make
from tests.spark.written import actions, changes, data_files, listing, read, rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]


def values(spark: SparkSession, text: str, names: str) -> DataFrame:
    return spark.sql(f"select * from values {text} as ({names})")


# Clauses.


def test_the_first_clause_whose_condition_is_true_takes_a_row(spark: SparkSession, path: str, vectors: str) -> None:
    table = make(spark, path, "select id, 'old' v from range(10)", **{VECTORS: vectors, FEED: "true"})
    source = spark.range(4, 14).select("id", F.lit("new").alias("v"))
    merge = (
        table.alias("t")
        .merge(source.alias("s"), "t.id = s.id")
        .whenMatchedDelete("t.id = 4")
        .whenMatchedUpdate("t.id <= 5", {"v": "'first'"})
        .whenMatchedDelete("s.id = 6")
        .whenMatchedUpdate("s.id > 8", {"v": "concat(t.v, s.v)"})
        .whenNotMatchedInsert("s.id = 10", {"id": "-s.id"})
        .whenNotMatchedInsert("s.id <= 12", {"ID": "id", "V": "concat(v, '!')"})
        .whenNotMatchedBySourceDelete("id = 0")
        .whenNotMatchedBySourceUpdate("id <= 1", {"v": "'lonely'"})
        .whenNotMatchedBySourceUpdate("t.id = 2", {"t.v": "concat(t.v, '?')"})
        .whenNotMatchedBySourceDelete()
    )
    assert counts(merge) == (11, 4, 4, 3)
    assert rows(read(spark, path)) == [
        (-10, None),
        (1, "lonely"),
        (11, "new!"),
        (12, "new!"),
        (2, "old?"),
        (5, "first"),
        (7, "old"),
        (8, "old"),
        (9, "oldnew"),
    ]
    assert sorted(change[:2] for change in changes(spark, path, 1, "id")) == [
        *(("delete", i) for i in (0, 3, 4, 6)),
        *(("insert", i) for i in (-10, 11, 12)),
        *(("update_postimage", i) for i in (1, 2, 5, 9)),
        *(("update_preimage", i) for i in (1, 2, 5, 9)),
    ]
    done = info(path)
    assert done["operation"] == "MERGE"
    said = done["operationParameters"]
    assert json.loads(said["predicate"]) == ["t.id = s.id"]
    assert [c["actionType"] for c in json.loads(said["matchedPredicates"])] == ["delete", "update", "delete", "update"]
    assert json.loads(said["notMatchedBySourcePredicates"])[-1] == {"actionType": "delete"}
    metrics = {key: int(value) for key, value in done["operationMetrics"].items()}
    assert metrics["numSourceRows"] == 10
    assert metrics["numTargetRowsMatchedUpdated"] == 2
    assert metrics["numTargetRowsMatchedDeleted"] == 2
    assert metrics["numTargetRowsNotMatchedBySourceUpdated"] == 2
    assert metrics["numTargetRowsNotMatchedBySourceDeleted"] == 2
    assert metrics["numTargetRowsInserted"] == 3


@WRITTEN_ALIKE
def test_conditions_that_are_null_take_no_row(spark: SparkSession, path: str, vectors: str) -> None:
    table = make(spark, path, "select id, nullif(id, 1) v from range(4)", **{VECTORS: vectors})
    source = values(spark, "(1, null), (2, 7), (8, null), (9, 9)", "id, n").alias("s")
    merge = (
        table.alias("t")
        .merge(source, "t.id = s.id")
        .whenMatchedDelete("n > 0 and v is null")
        .whenMatchedUpdate("n > 0", {"v": "n"})
        .whenNotMatchedInsert("n > 0", {"id": "s.id", "v": "null"})
        .whenNotMatchedBySourceDelete("null")
        .whenNotMatchedBySourceDelete("v > null")
    )
    assert counts(merge) == (2, 1, 0, 1)
    assert rows(read(spark, path)) == [(0, 0), (1, None), (2, 7), (3, 3), (9, None)]


@WRITTEN_ALIKE
def test_star_takes_columns_by_name(spark: SparkSession, path: str, vectors: str) -> None:
    table = make(spark, path, "select id, 'old' v, 1 Rest from range(3)", **{VECTORS: vectors})
    source = spark.sql("select 'more' other, 'new' V, id + 1 as ID, 2 rest from range(3)")
    merge = table.merge(source.alias("s"), "s.other = 'none'")
    assert counts(merge.whenMatchedUpdateAll()) == (0, 0, 0, 0)
    assert Snapshot.load(path).version == 0, "nothing matched, so there is nothing to commit"
    merge = table.alias("t").merge(source.alias("s"), "t.ID = s.id").whenMatchedUpdateAll("s.id = 2")
    assert counts(merge.whenNotMatchedInsertAll()) == (2, 1, 0, 1)
    assert rows(read(spark, path)) == [(0, "old", 1), (1, "old", 1), (2, "new", 2), (3, "new", 2)]
    few = source.drop("V")
    for incomplete in (
        table.alias("t").merge(few.alias("s"), "t.id = s.id").whenMatchedUpdateAll(),
        table.alias("t").merge(few.alias("s"), "t.id = s.id").whenNotMatchedInsertAll(),
    ):
        with pytest.raises(errors.InvalidArgument, match="the source has no column v"):
            incomplete.execute()


def test_an_insert_leaves_out_columns_which_become_null(spark: SparkSession, path: str) -> None:
    table = make(spark, path, "select 1L id, 'old' v, struct(1 as a, 2 as b) st")
    source = spark.range(1, 3)
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id").whenNotMatchedInsert(values={"id": "s.id"})
    assert counts(merge) == (1, 0, 0, 1)
    assert rows(read(spark, path)) == [(1, "old", (1, 2)), (2, None, None)]


@WRITTEN_ALIKE
def test_an_update_sets_fields_of_structs(spark: SparkSession, path: str, vectors: str) -> None:
    sql = "select id, struct(id as a, struct('x' as c, id as d) as b) st from range(3)"
    table = make(spark, path, sql, **{VECTORS: vectors})
    source = spark.sql("select id k, struct(id + 5 as n) s from range(1, 3)")
    merge = (
        table.alias("t")
        .merge(source, "t.st.b.d = k")
        .whenMatchedUpdate("st.a = 1", {"t.st.b.c": "concat(st.b.c, s.n)", "st.a": F.col("s.n")})
        .whenMatchedUpdate("s.n = 7", {"st": "named_struct('b', t.st.b, 'a', null)"})
        .whenNotMatchedBySourceUpdate(set={"st.b.d": "null"})
    )
    with pytest.raises(errors.InvalidArgument, match="nope"):
        merge.whenMatchedUpdate(set={"st.b.nope": "1"}).execute()
    assert counts(merge) == (3, 3, 0, 0)
    assert rows(read(spark, path)) == [(0, (0, ("x", None))), (1, (6, ("x6", 1))), (2, (None, ("x", 2)))]


@pytest.mark.parametrize("kind", ["whenMatchedDelete", "whenNotMatchedInsertAll", "whenNotMatchedBySourceDelete"])
def test_only_the_last_clause_of_a_kind_has_no_condition(spark: SparkSession, path: str, kind: str) -> None:
    table = make(spark, path, "select id from range(3)")
    before = listing(path)
    merge = table.alias("t").merge(spark.range(1).alias("s"), "t.id = s.id")
    twice = getattr(getattr(merge, kind)(), kind)("id = 1")
    with pytest.raises(errors.InvalidArgument, match="Only the last WHEN"):
        twice.execute()
    with pytest.raises(errors.InvalidArgument, match="at least one WHEN clause"):
        merge.execute()
    assert listing(path) == before


# Which rows match.


@WRITTEN_ALIKE
def test_null_keys_match_nothing_unless_nulls_are_said_to_be_equal(
    spark: SparkSession, path: str, vectors: str
) -> None:
    table = make(spark, path, "select nullif(id, 0) id, 'old' v from range(3)", **{VECTORS: vectors})
    source = values(spark, "(null, 'n'), (2, 'n')", "k, w")
    merge = table.merge(source, "id <=> k and id is null").whenMatchedUpdate(set={"v": "'null-safe'"})
    assert counts(merge) == (1, 1, 0, 0)
    merge = table.merge(source, "id = k").whenMatchedDelete()
    assert counts(merge.whenNotMatchedInsert(values={"id": "k", "v": "w"})) == (2, 0, 1, 1)
    assert rows(read(spark, path)) == [(1, "old"), (None, "n"), (None, "null-safe")]
    assert counts(table.merge(source.where("k is null"), "id = k").whenNotMatchedBySourceDelete("v = 'n'")) == (
        1,
        0,
        1,
        0,
    )


@WRITTEN_ALIKE
def test_rows_match_by_any_condition(spark: SparkSession, path: str, vectors: str) -> None:
    table = make(spark, path, "select id, 'old' v from range(10)", **{VECTORS: vectors})
    ranges = values(spark, "(0, 2, 'low'), (8, 20, 'high'), (30, 40, 'none')", "a, b, w")
    merge = table.merge(ranges, "id between a and b and id % 2 = 0").whenMatchedUpdate(set={"v": "w"})
    assert counts(merge.whenNotMatchedInsert(values={"id": "a", "v": "w"})) == (4, 3, 0, 1)
    changed = rows(read(spark, path).where("v <> 'old'"))
    assert changed == [(0, "low"), (2, "low"), (30, "none"), (8, "high")]
    is_any = values(spark, "(1)", "one")
    assert counts(table.merge(is_any, "true").whenMatchedDelete("id > 5")) == (5, 0, 5, 0)
    assert counts(table.merge(is_any, "false").whenNotMatchedBySourceDelete("id > 4")) == (1, 0, 1, 0)
    assert counts(table.merge(is_any, F.lit(False)).whenNotMatchedInsert(values={"id": "one"})) == (1, 0, 0, 1)
    assert sorted(row[0] for row in read(spark, path).collect()) == [0, 1, 1, 2, 3, 4]


@WRITTEN_ALIKE
def test_two_source_rows_must_not_modify_one_target_row(spark: SparkSession, path: str, vectors: str) -> None:
    table = make(spark, path, "select id, 'old' v from range(4)", **{VECTORS: vectors})
    before = listing(path)
    twice = values(spark, "(1, 'a'), (1, 'b'), (9, 'c'), (9, 'c')", "k, w")
    for ambiguous in (
        table.merge(twice, "id = k").whenMatchedUpdate(set={"v": "w"}),
        table.merge(twice, "id = k").whenMatchedDelete("id = 1"),
        table.merge(twice, "id = k").whenMatchedUpdate("w = 'a'", {"v": "w"}).whenMatchedDelete(),
    ):
        with pytest.raises(errors.MergeCardinalityViolation, match="2 matching pairs of rows modify 1 target rows"):
            ambiguous.execute()
    assert listing(path) == before
    narrowed = table.merge(twice, "id = k").whenMatchedUpdate("w = 'b'", {"v": "w"})
    assert counts(narrowed.whenNotMatchedInsert(values={"id": "k", "v": "w"})) == (3, 1, 0, 2)
    assert counts(table.merge(twice.where("k = 1"), "id = k").whenMatchedDelete()) == (1, 0, 1, 0)
    assert rows(read(spark, path)) == [(0, "old"), (2, "old"), (3, "old"), (9, "c"), (9, "c")]


@WRITTEN_ALIKE
def test_one_source_row_may_modify_many_target_rows(spark: SparkSession, path: str, vectors: str) -> None:
    table = make(spark, path, "select id % 2 k, id from range(6)", **{VECTORS: vectors, FEED: "true"})
    source = values(spark, "(1, 10)", "s, add")
    assert counts(table.merge(source, "k = s").whenMatchedUpdate(set={"id": "id + add"})) == (3, 3, 0, 0)
    assert rows(read(spark, path)) == [(0, 0), (0, 2), (0, 4), (1, 11), (1, 13), (1, 15)]


@WRITTEN_ALIKE
def test_an_empty_source_or_target_is_no_error(spark: SparkSession, path: str, vectors: str) -> None:
    table = make(spark, path, "select id, 'old' v from range(2)", **{VECTORS: vectors})
    none = spark.range(0).select("id", F.lit("n").alias("v")).alias("s")
    full = spark.range(2).select("id", F.lit("n").alias("v")).alias("s")
    on, aliased = "t.id = s.id", table.alias("t")
    nothing = aliased.merge(none, on).whenMatchedUpdateAll().whenNotMatchedInsertAll()
    assert counts(nothing) == (0, 0, 0, 0)
    assert Snapshot.load(path).version == 0
    assert counts(nothing.whenNotMatchedBySourceDelete()) == (2, 0, 2, 0)
    assert counts(aliased.merge(full, on).whenMatchedDelete().whenNotMatchedInsertAll()) == (2, 0, 0, 2)
    assert rows(read(spark, path)) == [(0, "n"), (1, "n")]


def test_inserts_alone_rewrite_nothing(spark: SparkSession, path: str, vectors: str) -> None:
    table = make(spark, path, "select id from range(3)", **{VECTORS: vectors, FEED: "true"})
    merge = table.alias("t").merge(spark.range(1, 5).alias("s"), "t.id = s.id").whenNotMatchedInsertAll()
    assert counts(merge) == (2, 0, 0, 2)
    assert actions(path, 1, "remove") == actions(path, 1, "cdc") == []
    assert sum(json.loads(add["stats"])["numRecords"] for add in actions(path, 1, "add")) == 2
    assert changes(spark, path, 1, "id") == [("insert", 3), ("insert", 4)]
    assert rows(read(spark, path)) == [(i,) for i in range(5)]


# Who is who.


@pytest.mark.long
def test_columns_of_both_sides_are_named_in_any_way(spark: SparkSession, path: str) -> None:
    table = make(spark, path, "select id, 'old' v from range(10)").alias("t")
    source = spark.sql("select id, concat('n', id) v from range(20)")

    def one(number: int) -> DataFrame:
        return source.where(f"id = {number}")

    table.merge(one(1).alias("s"), F.col("t.id") == F.col("s.id")).whenMatchedUpdate(set={"v": F.col("s.v")}).execute()
    table.merge(one(2).alias("S"), "T.Id = s.ID").whenMatchedUpdate(set={"T.V": "S.V"}).execute()
    third = one(3)
    merge = table.merge(third, F.col("t.id") == third["id"])
    merge.whenMatchedUpdate(third["v"].isNotNull(), {"v": third["v"]}).execute()
    fourth = one(4).toDF("k", "w")
    table.merge(fourth, "id = k").whenMatchedUpdate(F.col("w") != "x", {"v": "w"}).execute()
    fifth = one(15).alias("s")
    merge = table.merge(fifth, "t.id = s.id")
    merge.whenNotMatchedInsert(fifth["id"] > 1, {"id": fifth["id"], "t.v": "s.v"}).execute()
    found = [(i, f"n{i}") for i in (1, 15, 2, 3, 4)]
    assert sorted(rows(read(spark, path).where("v <> 'old'")), key=repr) == sorted(found, key=repr)


def test_a_source_without_an_alias_does_not_hide_the_target(spark: SparkSession, path: str) -> None:
    table = make(spark, path, "select id, 'old' v from range(3)")
    source = spark.range(1, 2).select("id", F.lit("new").alias("v"))
    with pytest.raises(errors.InvalidArgument, match="ambiguous"):
        table.merge(source, "id = id").whenMatchedDelete().execute()
    with pytest.raises(errors.InvalidArgument, match="ambiguous"):
        table.merge(source, F.col("id") == source["id"]).whenMatchedDelete().execute()
    with pytest.raises(errors.InvalidArgument, match="ambiguous"):
        table.alias("t").merge(source, "t.id = 1").whenMatchedUpdate(set={"v": "concat(v, 'x')"}).execute()
    assert Snapshot.load(path).version == 0
    table.alias("t").merge(source, F.col("t.id") == source["id"]).whenMatchedUpdateAll().execute()
    assert rows(read(spark, path)) == [(0, "old"), (1, "new"), (2, "old")]


@WRITTEN_ALIKE
def test_a_table_is_merged_with_rows_of_its_own(spark: SparkSession, path: str, vectors: str) -> None:
    table = make(spark, path, "select id, id v from range(6)", **{VECTORS: vectors})
    frame = table.toDF()
    source = frame.where("id >= 3").withColumn("id", frame["id"] + 1)
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"v": "t.v * 10 + s.v"})
    assert counts(merge.whenNotMatchedInsertAll()) == (3, 2, 0, 1)
    assert rows(read(spark, path)) == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 43), (5, 54), (6, 5)]
    own = table.toDF()
    assert counts(table.alias("t").merge(own, F.col("t.id") == own["id"]).whenMatchedDelete("t.id > 2")) == (4, 0, 4, 0)
    assert rows(read(spark, path)) == [(0, 0), (1, 1), (2, 2)]


@WRITTEN_ALIKE
def test_another_table_is_a_source_as_any_frame(spark: SparkSession, path: str, tmp_path: Path, vectors: str) -> None:
    table = make(spark, path, "select id, 'old' v from range(3)", **{VECTORS: vectors, MAPPING: "name"})
    other = make(spark, str(tmp_path / "s"), "select id, 'new' v from range(4)", **{VECTORS: "true"})
    other.delete("id = 1")
    merge = table.alias("t").merge(other.toDF().alias("s"), "t.id = s.id")
    assert counts(merge.whenMatchedUpdateAll().whenNotMatchedInsertAll()) == (3, 2, 0, 1)
    assert rows(read(spark, path)) == [(0, "new"), (1, "old"), (2, "new"), (3, "new")]


@WRITTEN_ALIKE
def test_names_of_columns_may_be_anything(spark: SparkSession, path: str, vectors: str) -> None:
    sql = "select id `a.b`, id `c d`, struct(id as `x.y`, id as z) `s t` from range(3)"
    table = make(spark, path, sql, **{VECTORS: vectors, MAPPING: "name"})
    source = spark.sql("select id `a.b`, id * 10 `C d`, struct(id * 10 as `x.y`, 7L as z) `s t` from range(1, 4)")
    merge = table.alias("größe").merge(source.alias("a.b"), "`größe`.`a.b` = `a.b`.`a.b`")
    merge = merge.whenMatchedUpdate("`a.b`.`a.b` = 1", {"`größe`.`c d`": "`a.b`.`C d`", "`s t`.`x.y`": "-1"})
    assert counts(merge.whenMatchedUpdateAll().whenNotMatchedInsertAll()) == (3, 2, 0, 1)
    assert rows(read(spark, path)) == [(0, 0, (0, 0)), (1, 10, (-1, 1)), (2, 20, (20, 7)), (3, 30, (30, 7))]


@WRITTEN_ALIKE
def test_a_source_that_is_made_by_chance_is_read_once(spark: SparkSession, path: str, vectors: str) -> None:
    table = make(spark, path, "select id, uuid() v from range(4)", **{VECTORS: vectors, FEED: "true"})
    source = spark.range(2, 8).select("id", F.expr("uuid()").alias("v"), F.rand().alias("r")).where("r >= 0")
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id and s.r < 2")
    assert counts(
        merge.whenMatchedUpdate(set={"v": "s.v"}).whenNotMatchedInsert(values={"id": "s.id", "v": "s.v"})
    ) == (
        6,
        2,
        0,
        4,
    )
    recorded = {c[1]: c[2] for c in changes(spark, path, 1, "id", "v") if c[0] != "update_preimage"}
    assert recorded == dict(rows(read(spark, path).where("id > 1")))


# The builder.


def test_a_builder_is_never_changed(spark: SparkSession, path: str) -> None:
    table = make(spark, path, "select id, 'old' v from range(3)")
    merge = table.alias("t").merge(spark.range(1, 5).select("id", F.lit("n").alias("v")).alias("s"), "t.id = s.id")
    given = {"v": "'a'"}
    updating = merge.whenMatchedUpdate(set=given)
    inserting = updating.whenNotMatchedInsertAll()
    evolving = merge.withSchemaEvolution()
    given["v"] = "'b'"
    assert [len(b.clauses) for b in (merge, updating, inserting, evolving)] == [0, 1, 2, 0]
    assert (merge.evolves_schema, evolving.evolves_schema) == (False, True)
    result = inserting.execute()
    assert result.columns == ["num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows"]
    assert [kind for _, kind in result.dtypes] == ["bigint"] * 4
    assert [tuple(row) for row in result.collect()] == [(4, 2, 0, 2)]
    assert rows(read(spark, path)) == [(0, "old"), (1, "a"), (2, "a"), (3, "n"), (4, "n")]
    assert counts(updating) == (4, 4, 0, 0), "a builder may be executed again, on the table as it is then"


def test_the_arguments_are_those_of_delta_spark(spark: SparkSession, path: str) -> None:
    table: Any = make(spark, path, "select id from range(3)")
    source: Any = spark.range(1)
    merge: Any = table.merge(source, "true")
    condition = "'condition' must be a Spark SQL Column or a string"
    cases: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: table.merge(None, "true"), ValueError, "'source' in merge cannot be None"),
        (lambda: table.merge("source", "true"), TypeError, "Type of 'source' in merge must be DataFrame"),
        (lambda: table.merge(source, None), ValueError, "'condition' in merge cannot be None"),
        (lambda: table.merge(source, 1), TypeError, condition),
        (lambda: merge.whenMatchedUpdate("true"), ValueError, "'set' cannot be None"),
        (lambda: merge.whenMatchedUpdate(set=["a"]), TypeError, "'set' must be a dict"),
        (lambda: merge.whenMatchedUpdate(set={1: "a"}), TypeError, "Keys of dict in 'set' must contain only strings"),
        (lambda: merge.whenMatchedUpdate(set={"id": 1}), TypeError, "Values of dict in 'set' must contain only"),
        (lambda: merge.whenMatchedUpdate(1, {}), TypeError, condition),
        (lambda: merge.whenMatchedUpdateAll(1), TypeError, condition),
        (lambda: merge.whenMatchedDelete(1), TypeError, condition),
        (lambda: merge.whenNotMatchedInsert("true"), ValueError, "'values' cannot be None"),
        (lambda: merge.whenNotMatchedInsert(values=["a"]), TypeError, "'values' must be a dict"),
        (lambda: merge.whenNotMatchedInsert(values={"id": 1}), TypeError, "Values of dict in 'values' must contain"),
        (lambda: merge.whenNotMatchedInsertAll([]), TypeError, condition),
        (lambda: merge.whenNotMatchedBySourceUpdate("true"), ValueError, "'set' cannot be None"),
        (lambda: merge.whenNotMatchedBySourceUpdate(set=1), TypeError, "'set' must be a dict"),
        (lambda: merge.whenNotMatchedBySourceDelete(1), TypeError, condition),
    ]
    for call, kind, says in cases:
        with pytest.raises(kind, match=says):
            call()
    assert len(data_files(path)) == 1


@pytest.mark.parametrize(
    ("clauses", "reads", "rows_of_1_3_and_4"),
    [
        (lambda m: m.whenMatchedUpdateAll(), 1, [(1, 21, "a"), (3, 23, "b"), (4, 34, "c")]),
        (
            lambda m: m.whenMatchedUpdateAll("s.v > 25").whenMatchedUpdateAll(),
            1,
            [(1, 21, "a"), (3, 23, "b"), (4, 34, "c")],
        ),
        (
            lambda m: m.whenMatchedUpdateAll("t.v = 3").whenMatchedDelete("t.v = 4"),
            1,
            [(1, 1, "old"), (3, 23, "b")],
        ),
        (
            lambda m: m.whenMatchedUpdateAll("s.v > 25").whenMatchedUpdate(set={"v": "t.v + s.v"}),
            2,
            [(1, 22, "old"), (3, 26, "old"), (4, 34, "c")],
        ),
        (lambda m: m.whenMatchedUpdate(set={"v": "s.v"}), 2, [(1, 21, "old"), (3, 23, "old"), (4, 34, "old")]),
    ],
    ids=["all", "two clauses", "with a delete", "with an old value", "one column"],
)
def test_rows_that_come_from_the_source_are_read_once(
    spark: SparkSession,
    path: str,
    clauses: Callable[[Any], Any],
    reads: int,
    rows_of_1_3_and_4: list[tuple[Any, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = spark.range(6).selectExpr("id", "id AS v", "'old' AS text").coalesce(1)
    table.write.format("delta").options(**{VECTORS: "true"}).save(path)
    told = [(1, 21, "a"), (3, 23, "b"), (4, 34, "c"), (9, 39, "d")]
    source = spark.createDataFrame(told, "id LONG, v LONG, text STRING")
    located: list[int] = []
    original = DmlCommand.located

    def counted(self: DmlCommand, files: pa.Table, *more: Any) -> Any:
        located.append(files.num_rows)
        return original(self, files, *more)

    monkeypatch.setattr(DmlCommand, "located", counted)
    merge = DeltaTable.forPath(spark, path).alias("t").merge(source.alias("s"), "t.id = s.id")
    clauses(merge).whenNotMatchedInsertAll().execute()
    assert len(located) == reads
    others = [(0, 0, "old"), (2, 2, "old"), (5, 5, "old"), (9, 39, "d")]
    assert rows(read(spark, path)) == sorted([*others, *rows_of_1_3_and_4])
