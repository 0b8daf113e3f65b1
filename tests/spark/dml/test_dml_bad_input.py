"""Conditions, values, sources and tables that DELETE, UPDATE and MERGE cannot work with.

Each is a clear error, and the table's directory is what it was, hidden files included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import slackwater
from slackwater import DeltaTable, Snapshot, errors
from slackwater.log.table import Table
from slackwater.spark.session.temporary_settings import with_settings
from tests.spark.written import listing, read, rows

pytestmark = [pytest.mark.spark, pytest.mark.shared, pytest.mark.usefixtures("enabled")]

VECTORS, FEED = "delta.enableDeletionVectors", "delta.enableChangeDataFeed"
ANSI = "spark.sql.ansi.enabled"


@pytest.fixture(scope="module")
def shared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A table that no test may change, which is looked at when all are through."""
    slackwater.enable(spark)
    path = str(tmp_path_factory.mktemp("shared") / "t")
    sql = "select id, 'x' v, struct(id as a, 'b' as b) st, array(id) l, cast(id as byte) small from range(6)"
    spark.sql(sql).coalesce(1).write.format("delta").options(**{FEED: "true"}).save(path)
    before = _files(path)
    yield path
    assert _files(path) == before
    assert Snapshot.load(path).version == 0


@pytest.fixture(params=["false", "true"], ids=["rewritten", "vectors"])
def made(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> DeltaTable:
    """A table of two files with the rows 0 to 5, which writes in either way."""
    path = str(tmp_path / "t")
    frame = spark.range(0, 6, 1, 2).select("id", F.col("id").alias("n"), F.col("id").cast("byte").alias("small"))
    frame.write.format("delta").options(**{VECTORS: request.param, FEED: "true"}).save(path)
    return DeltaTable.forPath(spark, path)


def _files(path: str) -> dict[str, bytes]:
    return {name: (Path(path) / name).read_bytes() for name in listing(path) if (Path(path) / name).is_file()}


def _refused(change: Callable[[], object], says: str, *kinds: type[Exception]) -> None:
    with pytest.raises(kinds or errors.InvalidArgument, match=says) as raised:
        change()
    assert "__slackwater" not in str(raised.value), "a name that users never gave"


# What is no condition.

SUBQUERY, ROW = "sub-queries are not supported", "are not supported. Use the values of one row"
CONDITIONS = [
    ("id", "expected a condition, found a value of type bigint"),
    ("'true'", "expected a condition, found a value of type string"),
    ("st", "expected a condition"),
    ("nope = 1", "nope"),
    ("st.nope = 1", "nope"),
    ("other.id = 1", "other"),
    ("id = ", "[Ss]yntax"),
    ("id = array(1)", "type mismatch"),
    ("no_such_function(id)", "no_such_function"),
    ("rand() > 0.5", "the expression is not deterministic"),
    ("uuid() = v", "the expression is not deterministic"),
    ("max(id) = 1", ROW),
    ("row_number() over (order by id) = 1", "window functions"),
    ("explode(l) = 1", "functions that return several rows|generator"),
]


@pytest.mark.parametrize(("condition", "says"), CONDITIONS)
def test_what_is_no_condition_is_refused_before_anything_is_read(
    spark: SparkSession, shared: str, condition: str, says: str
) -> None:
    table = DeltaTable.forPath(spark, shared)
    _refused(lambda: table.delete(condition), f"(?s)the condition of DELETE.*{says}")
    _refused(lambda: table.update(condition, {"v": "'y'"}), f"(?s)the condition of UPDATE.*{says}")
    source = spark.range(3).toDF("k")
    on = table.merge(source, condition).whenMatchedDelete()
    _refused(on.execute, f"(?s)the ON condition of MERGE.*{says}")
    clause = table.merge(source, "id = k").whenMatchedDelete(condition)
    _refused(clause.execute, f"(?s)the condition of MERGE WHEN MATCHED THEN DELETE.*{says}")


@pytest.mark.parametrize(
    "condition",
    [
        "id in (select 1)",
        "exists (select 1)",
        "id = (select max(id) from range(3))",
        "id = 1 or not id in (select id from range(3))",
    ],
)
def test_a_merge_takes_no_sub_query(spark: SparkSession, shared: str, condition: str) -> None:
    table = DeltaTable.forPath(spark, shared)
    source = spark.range(3).toDF("k")
    _refused(table.merge(source, condition).whenMatchedDelete().execute, SUBQUERY)
    _refused(table.merge(source, "id = k").whenMatchedDelete(condition).execute, SUBQUERY)


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("id in (select nope from range(3))", "nope"),
        ("nope in (select id from range(3))", "nope"),
        ("id in (select id from nowhere)", "nowhere"),
        ("id in (select id, id from range(3))", "[Cc]olumn|MISMATCH"),
        ("(select id from range(3))", "[Cc]ondition|BOOLEAN|type"),
        ("exists (select", "[Ss]yntax"),
    ],
)
def test_a_sub_query_that_spark_does_not_understand_is_refused(
    spark: SparkSession, shared: str, condition: str, says: str
) -> None:
    table = DeltaTable.forPath(spark, shared)
    _refused(lambda: table.delete(condition), f"(?s)the condition of DELETE.*{says}")
    _refused(lambda: table.update(condition, {"v": "'y'"}), f"(?s)the condition of UPDATE.*{says}")


def test_conditions_as_columns_are_refused_as_text_is(spark: SparkSession, shared: str) -> None:
    table = DeltaTable.forPath(spark, shared)
    window = Window.partitionBy("v").orderBy("id")
    chance = F.udf(lambda: True, "boolean").asNondeterministic()
    for condition, says in [
        (F.col("id"), "expected a condition"),
        (F.col("nope") == 1, "nope"),
        (F.rand() > 0.5, "is not deterministic"),
        (chance(), "is not deterministic"),
        (F.max("id") == 1, "one row"),
        (F.row_number().over(window) == 1, "one row|window"),
        (F.explode("l") == 1, "several rows"),
        (F.expr("id in (select 1)"), SUBQUERY),
    ]:
        _refused(lambda c=condition: table.delete(c), says)  # type: ignore[misc]
        _refused(lambda c=condition: table.update(c, {"v": "v"}), says)  # type: ignore[misc]


def test_clauses_see_only_the_side_that_they_are_about(spark: SparkSession, shared: str) -> None:
    table = DeltaTable.forPath(spark, shared).alias("t")
    merge = table.merge(spark.range(9).select("id", F.col("id").alias("w")).alias("s"), "t.id = s.id")
    for clause, says in [
        (merge.whenNotMatchedInsert("t.v = 'x'", {"id": "s.id"}), "WHEN NOT MATCHED THEN INSERT"),
        (merge.whenNotMatchedInsert(values={"id": "t.id"}), "WHEN NOT MATCHED THEN INSERT"),
        (merge.whenNotMatchedInsert(values={"v": "v"}), "v"),
        (merge.whenNotMatchedBySourceDelete("s.w = 1"), "WHEN NOT MATCHED BY SOURCE THEN DELETE"),
        (merge.whenNotMatchedBySourceUpdate(set={"small": "w"}), "WHEN NOT MATCHED BY SOURCE THEN UPDATE"),
        (merge.whenMatchedUpdate("id = 1", {"v": "'y'"}), "ambiguous"),
        (merge.whenMatchedUpdate(set={"small": "id"}), "ambiguous"),
        (merge.whenMatchedUpdate(set={"s.w": "1"}), "s"),
        (merge.whenNotMatchedInsert(values={"st.a": "w"}), "an insert sets whole columns"),
    ]:
        _refused(clause.execute, says)


# What cannot be set.

SETS = [
    ({"nope": "1"}, "nope"),
    ({"st.nope": "1"}, "nope"),
    ({"other.v": "'y'"}, "other"),
    ({"": "1"}, "not a column"),
    ({"st.": "1"}, "not a column"),
    ({"v.a": "1"}, "v"),
    ({"l.element": "1"}, "a part of l"),
    ({"v": "'y'", "V": "'z'"}, "column v is set twice"),
    ({"st": "st", "st.a": "1"}, "column st and its part st.a are both set"),
    ({"v": "nope"}, "the value of column v.*nope"),
    ({"v": "max(v)"}, "the value of column v.*one row"),
    ({"v": "(select id)"}, "the value of column v.*cannot use columns of the row"),
    ({"v": "(select id from range(3))"}, "the value of column v.*more than one row"),
    ({"v": "(select id, id from range(1))"}, "the value of column v.*column"),
    ({"v": "(select array(id) from range(1))"}, "the value of column v.*array<bigint>"),
    ({"v": "id in (select id from range(3))"}, "the value of column v.*sub-queries are not supported"),
    ({"v": "'y"}, "the value of column v"),
    ({"v": "first_value(v) over (order by id)"}, "the value of column v.*(one row|window)"),
    ({"small": "array(1)"}, "small"),
    ({"l": "1"}, "column l|l:|l "),
    ({"st": "struct(1 as a)"}, "st"),
    ({"st": "struct(1 as a, 'b' as b, 2 as c)"}, "st"),
    ({"l": "map(1, 2)"}, "l"),
]


@pytest.mark.parametrize(("values", "says"), SETS, ids=[str(values) for values, _ in SETS])
def test_what_cannot_be_set_is_refused_before_anything_is_read(
    spark: SparkSession, shared: str, values: dict[str, str], says: str
) -> None:
    table = DeltaTable.forPath(spark, shared)
    _refused(lambda: table.update("id = 1", values), f"(?s)UPDATE SET.*{says}")
    merge = table.merge(spark.range(3).toDF("k"), "id = k")
    _refused(
        merge.whenMatchedUpdate(set=values).execute,
        f"(?s)MERGE WHEN MATCHED THEN UPDATE.*{says.rsplit('.*', maxsplit=1)[-1]}",
    )
    _refused(merge.whenNotMatchedBySourceUpdate(set=values).execute, "MERGE WHEN NOT MATCHED BY SOURCE THEN UPDATE")
    _refused(merge.whenNotMatchedInsert(values=values).execute, "MERGE WHEN NOT MATCHED THEN INSERT")


def test_no_name_is_taken_apart_where_a_source_has_a_column_twice(spark: SparkSession, shared: str) -> None:
    table = DeltaTable.forPath(spark, shared).alias("t")
    twice = spark.sql("select 1L id, 'a' v, 'b' v, struct(1L as a, 'b' as b) st, array(1L) l, 1Y small").alias("s")
    merge = table.merge(twice, "t.id = s.id")
    _refused(merge.whenMatchedUpdateAll().execute, "v")
    _refused(merge.whenNotMatchedInsertAll().execute, "v")
    _refused(merge.whenMatchedUpdate(set={"v": "s.v"}).execute, "ambiguous")


# What fails on the way.


def test_a_source_that_fails_halfway_leaves_no_file(spark: SparkSession, made: DeltaTable) -> None:
    before = _files(made._table.location)
    stop = F.udf(lambda value: value if value != 4 else int("no more of it"), "bigint")
    numbers = spark.range(0, 8, 1, 4)
    sources: list[DataFrame] = [
        numbers.selectExpr("id k", "if(id = 4, raise_error('no more of it'), id) w"),
        numbers.select(F.col("id").alias("k"), stop("id").alias("w")),
    ]
    for source in sources:
        merge = made.merge(source, "id = k").whenMatchedUpdate(set={"n": "w"})
        _refused(merge.execute, "no more of it", PySparkException, errors.SlackwaterError)
        merge = made.merge(source, "id = k - 4 and w > -1").whenNotMatchedInsert(values={"id": "w"})
        _refused(merge.execute, "no more of it", PySparkException, errors.SlackwaterError)
    assert _files(made._table.location) == before


def test_a_condition_or_a_value_that_fails_halfway_leaves_no_file(spark: SparkSession, made: DeltaTable) -> None:
    before = _files(made._table.location)
    stop = F.udf(lambda value: value if value != 4 else int("no more of it"), "bigint")
    failed = (PySparkException, errors.SlackwaterError)
    _refused(lambda: made.delete("if(id = 4, raise_error('no more of it'), id > 1)"), "no more of it", *failed)
    _refused(lambda: made.delete(stop("id") > 1), "no more of it", *failed)
    _refused(lambda: made.update("id > 2", {"n": stop("id")}), "no more of it", *failed)
    _refused(lambda: made.update("1 / (id - 4) < 0.1", {"n": "1"}), "DIVIDE_BY_ZERO", *failed)
    merge = made.merge(spark.range(8).toDF("k"), "id = k")
    _refused(merge.whenMatchedUpdate(set={"n": stop("k")}).execute, "no more of it", *failed)
    late = merge.whenMatchedDelete().whenNotMatchedInsert(values={"id": "if(k = 7, raise_error('no more of it'), k)"})
    _refused(late.execute, "no more of it", *failed)
    assert _files(made._table.location) == before


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_value_that_does_not_fit_is_never_cut(spark: SparkSession, made: DeltaTable, ansi: str) -> None:
    before = _files(made._table.location)
    failed = (PySparkException, errors.SlackwaterError)
    with with_settings(spark, {ANSI: ansi}):
        _refused(lambda: made.update("id > 3", {"small": "id + 123"}), "128", *failed)
        merge = made.merge(spark.range(3, 8).toDF("k"), "id = k")
        _refused(merge.whenMatchedUpdate(set={"small": "k * 1000"}).execute, "[345]000", *failed)
        _refused(merge.whenNotMatchedInsert(values={"id": "k", "small": "k - 200"}).execute, "-19[34]", *failed)
    assert _files(made._table.location) == before


# Tables that are not there, or that cannot be changed.


def test_a_table_that_is_not_there_is_not_made(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    _refused(lambda: DeltaTable.forPath(spark, path).delete(), "is not a Delta table", errors.TableNotFound)
    gone = DeltaTable(spark, Table.at(path))
    says = "is not a Delta table: its _delta_log directory is missing or holds no commit"
    _refused(gone.delete, says, errors.TableNotFound)
    _refused(lambda: gone.update(set={"v": "1"}), says, errors.TableNotFound)
    _refused(gone.merge(spark.range(1), "true").whenMatchedDelete().execute, says, errors.TableNotFound)
    assert listing(tmp_path) == []


def test_a_table_of_an_unknown_feature_is_not_changed(spark: SparkSession, made: DeltaTable) -> None:
    log = Path(made._table.location) / "_delta_log"
    protocol = (
        '{"protocol":{"minReaderVersion":3,"minWriterVersion":7,'
        '"readerFeatures":["deletionVectors"],"writerFeatures":["deletionVectors","ofTomorrow"]}}'
    )
    (log / f"{1:020d}.json").write_text(protocol + "\n")
    before = _files(made._table.location)
    merge: Any = made.merge(spark.range(1).toDF("k"), "id = k").whenMatchedDelete()
    for change in (made.delete, lambda: made.update(set={"n": "1"}), merge.execute):
        _refused(change, "ofTomorrow", errors.UnsupportedFeature)
    assert _files(made._table.location) == before


def test_a_data_file_that_is_gone_is_named_and_nothing_is_lost(spark: SparkSession, made: DeltaTable) -> None:
    victim = next(p for p in sorted(Path(made._table.location).glob("*.parquet")))
    content = victim.read_bytes()
    victim.unlink()
    before = _files(made._table.location)
    merge = made.merge(spark.range(6).toDF("k"), "id = k").whenMatchedUpdate(set={"n": "-1"})
    failed = (PySparkException, errors.SlackwaterError)
    for change in (lambda: made.delete("n % 2 = 0"), lambda: made.update("n % 2 = 0", {"n": "1"}), merge.execute):
        _refused(change, victim.name.split("-c000")[0], *failed)
    assert _files(made._table.location) == before
    victim.write_bytes(content)
    assert rows(read(spark, made._table.location)) == [(i, i, i) for i in range(6)]


def test_a_directory_that_is_read_only_is_named(
    spark: SparkSession, made: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, root = _files(made._table.location), Path(made._table.location)
    plain = Path.mkdir

    def mkdir(self: Path, *args: Any, **options: Any) -> None:
        # Permissions do not stop the administrator, as whom the tests may run.
        if root in self.parents:
            raise PermissionError(13, "Permission denied", str(self))
        plain(self, *args, **options)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    merge = made.merge(spark.range(4, 8).toDF("k"), "id = k").whenNotMatchedInsert(values={"id": "k"})
    for change in (lambda: made.delete("id = 1"), lambda: made.update("id = 1", {"n": "7"}), merge.execute):
        _refused(change, "Permission denied", errors.StorageRefused)
    assert _files(made._table.location) == before


def test_of_few_columns_only_those_of_the_table_are_suggested(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "few")
    spark.sql("SELECT 1L AS id, 2 AS cola").write.format("delta").partitionBy("cola").save(path)
    table = DeltaTable.forPath(spark, path)
    suggested = r"following\? \[`cola`, `id`\]"
    _refused(lambda: table.delete("colx = 1"), suggested)
    _refused(lambda: table.update("colx = 1", {"id": "1"}), suggested)
    _refused(lambda: table.update(None, {"id": "colx"}), suggested)
    _refused(lambda: table.optimize().where("colx = 1").executeCompaction(), suggested)
    writer = spark.sql("SELECT 1L AS id, 2 AS cola").write.format("delta").mode("overwrite")
    _refused(lambda: writer.option("replaceWhere", "colx = 1").save(path), suggested)
    by_name = f"delta.`{path}`"
    _refused(lambda: spark.sql(f"DELETE FROM {by_name} WHERE colx = 1"), "Did you mean one of the following")
