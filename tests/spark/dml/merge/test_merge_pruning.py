"""What is known of a MERGE's matches before its target is read; files with a match are never left out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import slackwater
from slackwater.predicate.predicate import And, Comparison, Constant, In, Predicate
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.dml.merge.pruning import JoinConditions, join_conditions, source_bounds
from slackwater.spark.read.table_scan import TableScan
from tests.spark.tables import write_table
from tests.spark.written import actions

pytestmark = [pytest.mark.spark, pytest.mark.modes]

Row = dict[str, Any]
UTC = dt.timezone.utc
TARGET_SCHEMA = (
    "id long, i int, s string, d date, ts timestamp, ntz timestamp_ntz, dec decimal(10,2), b boolean, f double, "
    "a struct<k: int, `x.y`: string>, part string, tail int"
)
SOURCE_SCHEMA = (
    "id long, small short, s string, d date, ts timestamp, ntz timestamp_ntz, dec decimal(10,2), wide decimal(38,20), "
    "b boolean, f double, n struct<k: int>, part string, other int"
)
DAY = dt.date(2024, 1, 1)


def _target_row(key: int | None, part: str | None) -> Row:
    if key is None:
        nothing = dict.fromkeys(("id", "i", "s", "d", "ts", "ntz", "dec", "b", "f", "a"))
        return {**nothing, "part": part, "tail": 0}
    day = DAY + dt.timedelta(days=key)
    return {
        "id": key,
        "i": key,
        "s": f"k{key:04d}",
        "d": day,
        "ts": dt.datetime(day.year, day.month, day.day, 10, 0, 0, 999, tzinfo=UTC),
        "ntz": dt.datetime(day.year, day.month, day.day, 10, 0, 0, 999),
        "dec": Decimal(key),
        "b": key % 2 == 0,
        "f": float(key),
        "a": (key, f"t{key:04d}"),
        "part": part,
        "tail": key,
    }


def _source_row(key: int | None, part: str | None) -> Row:
    row = _target_row(key, part)
    nested = None if key is None else (key,)
    del row["i"], row["a"], row["tail"]
    return {**row, "small": key, "wide": row["dec"], "n": nested, "other": key}


FILES: list[list[Row]] = [
    [_target_row(key, part) for key in keys]
    for keys, part in (
        ((0, 1, 2, 3), "p0"),
        ((4, 5, 6, 7), "p1"),
        ((20, 21), "p1"),
        ((100, None, 101), None),
        ((None, None), "p2"),
        ((-5, -4), "p3"),
    )
]


class Target:
    """A table whose files are known by number."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        slackwater.enable(spark)
        for file in FILES:
            frame = spark.createDataFrame([tuple(row.values()) for row in file], TARGET_SCHEMA)
            writer = frame.coalesce(1).write.format("delta").mode("append")
            writer.partitionBy("part").save(str(path))
        self.scan = TableScan(spark, Snapshot.load(str(path)))
        self.numbers = {actions(path, number, "add")[0]["path"]: number for number in range(len(FILES))}

    def files(self, predicate: Predicate) -> list[int]:
        found = self.scan.snapshot.files(predicate, ["path"], self.scan.zone)
        return sorted(self.numbers[path] for path in found["path"].to_pylist())


@pytest.fixture(scope="module")
def target(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Target:
    return Target(spark, tmp_path_factory.mktemp("merge") / "t")


def source_of(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    names = [part.split()[0] for part in SOURCE_SCHEMA.replace("decimal(38,20)", "w").replace("(10,2)", "").split(", ")]
    return spark.createDataFrame([tuple(row[name] for name in names) for row in rows], SOURCE_SCHEMA).alias("s")


def read(target: Target, condition: Column | str, source: DataFrame) -> JoinConditions:
    return join_conditions(condition, target.scan, "t", source, None)


def candidates(target: Target, condition: Column | str, source: DataFrame) -> list[int]:
    found = read(target, condition, source)
    return target.files(And((found.target_only, source_bounds(source, found.pairs, target.scan))))


def _equal(left: Any, right: Any) -> bool:
    return left is not None and left == right


def _plus(value: Any, step: Any) -> Any:
    return None if value is None else value + step


def _field(value: Any, place: int) -> Any:
    return None if value is None else value[place]


Matches = Callable[[Row, Row], bool]
CONDITIONS: list[tuple[str, Matches]] = [
    ("t.id = s.id", lambda t, s: _equal(t["id"], s["id"])),
    ("s.id == t.id and true", lambda t, s: _equal(t["id"], s["id"])),
    ("t.id <=> s.id", lambda t, s: t["id"] == s["id"]),
    ("T.ID = S.small", lambda t, s: _equal(t["id"], s["small"])),
    ("t.i = s.id + 1", lambda t, s: _equal(t["i"], _plus(s["id"], 1))),
    ("tail = other", lambda t, s: _equal(t["tail"], s["other"])),
    ("t.s = s.s", lambda t, s: _equal(t["s"], s["s"])),
    ("t.s = concat('k', substr(s.s, 2))", lambda t, s: _equal(t["s"], s["s"])),
    ("(t.d = s.d)", lambda t, s: _equal(t["d"], s["d"])),
    ("date(s.ts) = t.d", lambda t, s: _equal(t["d"], s["d"])),
    ("t.ts = s.ts", lambda t, s: _equal(t["ts"], s["ts"])),
    ("t.ntz = s.ntz", lambda t, s: _equal(t["ntz"], s["ntz"])),
    ("t.dec = s.dec", lambda t, s: _equal(t["dec"], s["dec"])),
    ("t.dec = s.wide", lambda t, s: _equal(t["dec"], s["wide"])),
    ("t.b = s.b", lambda t, s: _equal(t["b"], s["b"])),
    ("t.f = s.f", lambda t, s: _equal(t["f"], s["f"])),
    ("t.s = s.id", lambda t, s: False),
    ("t.a.k = s.n.k", lambda t, s: _equal(_field(t["a"], 0), _field(s["n"], 0))),
    ("t.a.`x.y` <=> concat('t', substr(s.s, 2))", lambda t, s: _field(t["a"], 1) == (s["s"] and "t" + s["s"][1:])),
    ("t.part = s.part", lambda t, s: _equal(t["part"], s["part"])),
    ("t.part <=> s.part and t.id = s.id", lambda t, s: t["part"] == s["part"] and _equal(t["id"], s["id"])),
    ("t.id = s.id and t.part in ('p1', 'p3')", lambda t, s: _equal(t["id"], s["id"]) and t["part"] in ("p1", "p3")),
    ("(t.id = s.id and t.b) and t.tail > 4", lambda t, s: _equal(t["id"], s["id"]) and t["b"] and t["tail"] > 4),
    ("t.id = s.id or t.i = 5", lambda t, s: _equal(t["id"], s["id"]) or t["i"] == 5),
    ("not (t.id = s.id)", lambda t, s: None not in (t["id"], s["id"]) and t["id"] != s["id"]),
    ("t.id between s.id and s.id + 1 and t.b = s.b", lambda t, s: _equal(t["b"], s["b"]) and _near(t["id"], s["id"])),
    ("case when t.b and s.b then t.id = s.id else false end", lambda t, s: t["b"] and _equal(t["id"], s["id"])),
    ("t.id = s.id and s.other > 3", lambda t, s: _equal(t["id"], s["id"]) and s["other"] > 3),
]


def _near(left: int | None, right: int | None) -> bool:
    return left is not None and right is not None and left in (right, right + 1)


ROWS = st.builds(
    _source_row,
    st.sampled_from([None, -5, 0, 3, 5, 7, 12, 20, 100, 101, 300]),
    st.sampled_from([None, "p0", "p1", "p2", "nowhere", ""]),
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.sampled_from(CONDITIONS), st.lists(ROWS, max_size=4))
@example(CONDITIONS[18], [_source_row(None, None)])
@example(CONDITIONS[20], [_source_row(100, None)])
def test_a_file_with_a_match_is_never_left_out(
    spark: SparkSession, target: Target, condition: tuple[str, Matches], rows: list[Row]
) -> None:
    text, matches = condition
    needed = [n for n, file in enumerate(FILES) if any(matches(t, s) for t in file for s in rows)]
    assert set(needed) <= set(candidates(target, text, source_of(spark, rows)))


KEYS = [_source_row(5, "p1"), _source_row(5, "p1"), _source_row(6, "nowhere"), _source_row(None, None)]
PRUNED = [
    ("t.id = s.id", [1]),
    ("s.id = t.id", [1]),
    ("((t.id = s.id) and (t.b = s.b))", [1]),
    ("t.id = s.id and s.other > 0 and t.f = s.f", [1]),
    ("t.id <=> s.id", [1, 3, 4]),
    ("T.ID = S.small", [1]),
    ("t.i = s.id + 14", [2]),
    ("tail = other", [1, 3]),
    ("t.s = s.s", [1]),
    ("t.d = date(s.ts)", [1]),
    ("t.ts = s.ts", [1]),
    ("t.ntz = s.ntz", [1]),
    ("t.dec = s.dec", [1]),
    ("t.dec = s.wide", [1]),
    ("t.a.k = s.n.k", [1]),
    ("t.part = s.part", [1, 2]),
    ("t.part <=> s.part", [1, 2, 3]),
    ("t.part = s.part and t.id = s.id", [1]),
    ("t.id = s.other and t.part = 'p1' and t.tail < 10", [1]),
    ("t.part = 'p3' and tail < 0", [5]),
    ("false", []),
]
LEFT_OUT = [
    "t.f = s.f",
    "t.s = s.id",
    "t.id = s.s",
    "t.id = s.dec",
    "t.d = s.ts",
    "id = s.id",
    "t.id = id",
    "t.id + 1 = s.id",
    "t.id = s.id + t.i",
    "t.id = s.id + rand()",
    "t.id = s.id + unix_timestamp() - unix_timestamp()",
    "t.id = s.nowhere",
    "t.nowhere = s.id",
    "x.id = s.id",
    "t.id > s.id",
    "t.id = s.id or t.b",
    "t.id = (select max(id) from s)",
    "t.id = max(s.id)",
    "t.id = s.id = true",
    "not t.id = s.id",
    "t.id = ",
    "",
]


@pytest.mark.parametrize(("condition", "expected"), PRUNED, ids=[text for text, _ in PRUNED])
def test_files_that_cannot_match_are_left_out(
    spark: SparkSession, target: Target, condition: str, expected: list[int]
) -> None:
    assert candidates(target, condition, source_of(spark, KEYS)) == expected


@pytest.mark.parametrize("condition", LEFT_OUT)
def test_what_is_not_understood_prunes_nothing(spark: SparkSession, target: Target, condition: str) -> None:
    source = source_of(spark, KEYS)
    assert read(target, condition, source).pairs == ()
    assert candidates(target, condition, source) == list(range(len(FILES)))


def test_columns_say_what_text_says(spark: SparkSession, target: Target) -> None:
    source = source_of(spark, KEYS)
    for condition, expected in (
        (F.col("t.id") == F.col("s.id"), [1]),
        (F.col("s.id") == F.col("t.id"), [1]),
        (F.col("t.id").eqNullSafe(F.col("s.id")), [1, 3, 4]),
        (F.col("tail") == source.other, [1, 3]),
        (F.col("t.a.k") == F.col("s.n.k"), [1]),
        ((F.col("t.part") == F.col("s.part")) & (F.col("t.id") == F.col("s.id")) & (F.col("s.id") > 0), [1]),
        ((F.col("t.part") == F.lit("p3")) & (F.col("t.id") > F.col("s.id")), [5]),
        (F.expr("t.id = s.id"), [1]),
        (F.col("t.id") == F.col("id"), list(range(6))),
        (F.col("id") == source.id, list(range(6))),
        ((F.col("t.id") == F.col("s.id")) | F.col("t.b"), list(range(6))),
        (F.col("t.f") == F.col("s.f"), list(range(6))),
    ):
        assert candidates(target, condition, source) == expected, condition


def test_a_source_without_rows_matches_nothing(spark: SparkSession, target: Target) -> None:
    source = source_of(spark, [])
    found = read(target, "t.id = s.id", source)
    assert source_bounds(source, found.pairs, target.scan) == Constant(False)


def test_a_source_whose_keys_are_all_null_matches_nothing_but_null(spark: SparkSession, target: Target) -> None:
    source = source_of(spark, [_source_row(None, None)])
    assert candidates(target, "t.id = s.id", source) == []
    assert candidates(target, "t.id <=> s.id", source) == [3, 4]


def test_few_values_of_a_partition_column_are_listed_and_many_are_not(spark: SparkSession, target: Target) -> None:
    few = spark.createDataFrame([("p0",), ("p3",), (None,)], "part string").alias("s")
    pairs = read(target, "t.part = s.part", few).pairs
    (said,) = source_bounds(few, pairs, target.scan).children  # type: ignore[union-attr]
    assert isinstance(said, In)
    assert set(said.values) == {"p0", "p3"}
    many = spark.range(1_100).select(F.concat(F.lit("p"), F.col("id")).alias("part")).alias("s")
    (said,) = source_bounds(many, pairs, target.scan).children  # type: ignore[union-attr]
    assert said == And((Comparison(("part",), ">=", "p0"), Comparison(("part",), "<=", "p999")))


def test_an_expression_that_fails_for_some_row_leaves_the_other_keys(spark: SparkSession, target: Target) -> None:
    source = source_of(spark, [_source_row(0, "p0"), _source_row(1, "p0")])
    assert candidates(target, "s.id <> 0 and t.id = 1 div s.id and t.part = s.part", source) == [0]


def test_a_source_that_fails_is_an_error(spark: SparkSession, target: Target) -> None:
    from pyspark.errors import PySparkException

    source = source_of(spark, KEYS)
    pairs = read(target, "t.id = s.id", source).pairs
    broken = source.withColumn("id", F.raise_error(F.lit("the disk is gone")).cast("long")).alias("s")
    with pytest.raises(PySparkException, match="the disk is gone"):
        source_bounds(broken, pairs, target.scan)


def test_the_sources_own_alias_may_be_given(spark: SparkSession, target: Target) -> None:
    plain = spark.createDataFrame([(5,)], "id long")
    found = join_conditions("t.id = given.id", target.scan, "t", plain, "given")
    assert len(found.pairs) == 1
    assert target.files(source_bounds(plain.alias("given"), found.pairs, target.scan)) == [1]


def test_a_name_that_both_sides_may_mean_is_not_relied_on(spark: SparkSession, target: Target) -> None:
    same = spark.createDataFrame([(5,)], "id long").alias("t")
    assert join_conditions("t.id = 5", target.scan, "t", same, None) == JoinConditions(Constant(True), ())
    no_alias = spark.createDataFrame([(5,)], "k long")
    assert len(join_conditions("id = k", target.scan, None, no_alias, None).pairs) == 1
    twice = spark.createDataFrame([(5, 6)], "k long, K long").alias("s")
    assert join_conditions("t.id = s.k", target.scan, "t", twice, None).pairs == ()


def test_a_qualifier_goes_before_a_column_of_that_name(spark: SparkSession, target: Target) -> None:
    inner = spark.createDataFrame([((5,), 6)], "t struct<id: long>, k long").alias("s")
    found = join_conditions("t.id = s.k", target.scan, "t", inner, None)
    assert [pair.target for pair in found.pairs] == [("id",)]
    source = source_of(spark, KEYS)
    assert join_conditions("a.id = s.id", target.scan, "a", source, None).pairs[0].target == ("id",)
    assert join_conditions("a.k = s.id", target.scan, "a", source, None).pairs[0].target == ("a", "k")
    assert target.files(join_conditions("a.id = 5", target.scan, "a", source, None).target_only) == [1]


def test_tables_behind_a_source_keep_their_names(spark: SparkSession, target: Target) -> None:
    left = spark.createDataFrame([(5, 1)], "id long, l long").alias("t")
    joined = left.join(spark.createDataFrame([(1, 100)], "r long, k long").alias("u"), F.col("l") == F.col("r"))
    assert join_conditions("t.id = u.k", target.scan, "t", joined, None).pairs == ()
    assert len(join_conditions("x.id = u.k", target.scan, "x", joined, None).pairs) == 1


def test_a_column_that_looks_like_a_function_is_not_overlooked(spark: SparkSession, tmp_path: Path) -> None:
    import pyarrow as pa

    files = [{"id": pa.array([n]), "user": pa.array([f"u{n}"])} for n in range(3)]
    scan = TableScan(spark, Snapshot.load(write_table(tmp_path / "t", files)))
    source = spark.createDataFrame([("u1",)], "k string").alias("s")
    assert join_conditions("t.id = length(concat(s.k, user))", scan, "t", source, None).pairs == ()


def test_times_beyond_pythons_years_bound_nothing(spark: SparkSession, target: Target) -> None:
    source = spark.range(1).select(F.expr("timestamp_micros(9000000000000000000)").alias("ts")).alias("s")
    found = read(target, "t.ts = s.ts", source)
    assert len(found.pairs) == 1
    assert target.files(source_bounds(source, found.pairs, target.scan)) == list(range(len(FILES)))


def test_text_within_a_column_may_name_the_source(spark: SparkSession, target: Target) -> None:
    """The target has a struct that goes by the name of the source: the name of the source goes first."""
    source = spark.sql("select 1 k").alias("a")
    found = read(target, (F.col("t.id") == 5) | F.expr("a.k = 1"), source)
    assert target.files(found.target_only) == list(range(len(FILES)))
    both = read(target, (F.col("t.id") == 5) & F.expr("t.i = 5 or t.i is null"), source)
    assert target.files(both.target_only) == [1]


def test_a_variable_in_text_may_be_more_than_a_word(spark: SparkSession, target: Target) -> None:
    spark.conf.set("slackwater.test.rest", "a' = 'a' OR t.id = 0 OR 'b")
    try:
        found = read(target, "t.id = s.id AND '${slackwater.test.rest}' = 'c'", source_of(spark, KEYS))
    finally:
        spark.conf.unset("slackwater.test.rest")
    assert found.pairs == ()
    assert target.files(found.target_only) == list(range(len(FILES)))


@pytest.mark.filterwarnings("ignore:The SQL config .* has been deprecated")
@pytest.mark.parametrize("switch", ["spark.sql.parser.escapedStringLiterals", "spark.sql.ansi.doubleQuotedIdentifiers"])
def test_text_is_not_read_where_the_session_reads_it_in_another_way(
    spark: SparkSession, target: Target, switch: str
) -> None:
    spark.conf.set(switch, "true")
    try:
        assert not TableScan(spark, target.scan.snapshot).conditions.reads_standard_sql
    finally:
        spark.conf.unset(switch)
    assert TableScan(spark, target.scan.snapshot).conditions.reads_standard_sql
