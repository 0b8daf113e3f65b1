"""Mistakes of people who change rows, or what a table is: DELETE, UPDATE, MERGE, properties, columns, creation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

from slackwater import DeltaTable
from tests.people.mistakes import Mistake, named, require_sentence, sql
from tests.people.test_mistakes_of_reads import GONE
from tests.spark.error_cases import CHECKED, MAPPED, Work, made, merge, nothing, of, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]


def merged(source: Any, condition: str, clauses: Any) -> Work:
    def run(spark: SparkSession, path: str) -> None:
        given = source(spark, path)
        clauses(DeltaTable.forPath(spark, path).alias("t").merge(given, condition)).execute()

    return run


def ids(spark: SparkSession, path: str) -> Any:
    return spark.range(2).selectExpr("id", "'s' AS s", "1 AS p").alias("s")


def only_ids(spark: SparkSession, path: str) -> Any:
    return spark.range(9).selectExpr("id", "'s' AS extra").alias("s")


def update_all(m: Any) -> Any:
    return m.whenMatchedUpdateAll()


def insert_all(m: Any) -> Any:
    return m.whenNotMatchedInsertAll()


def builder(build: Any) -> Work:
    return lambda spark, path: build(DeltaTable.create(spark)).execute()


MISTAKES = [
    Mistake("typo in delete", of(), table(lambda t: t.delete("idd = 1")), ("idd", "id")),
    Mistake("typo in delete: Column", of(), table(lambda t: t.delete(F.col("idd") == 1)), ("idd", "id")),
    Mistake("delete that is no SQL", of(), table(lambda t: t.delete("id = = 1")), ("id = = 1",), "ParseException"),
    Mistake("delete by SQL with a typo", of(), sql("DELETE FROM {t} WHERE idd = 1"), ("idd", "id")),
    Mistake("delete(True)", of(), table(lambda t: t.delete(True)), ("condition", "bool"), "TypeError"),
    Mistake("delete by a number", of(), table(lambda t: t.delete("id")), ("id",)),
    Mistake("delete while a file is gone", GONE, table(lambda t: t.delete("id = 1")), ("{path}",), "PySparkException"),
    Mistake("typo in update set", of(), table(lambda t: t.update(set={"idd": "1"})), ("idd", "id")),
    Mistake("typo in update value", of(), table(lambda t: t.update(set={"id": "idd + 1"})), ("idd",)),
    Mistake("update value is a Python literal", of(), table(lambda t: t.update(set={"id": 7})), ("7",), "TypeError"),
    Mistake("update value is None", of(), table(lambda t: t.update(set={"id": None})), ("None",), "TypeError"),
    Mistake(
        "update value: text that is not quoted",
        of(),
        table(lambda t: t.update(set={"s": "hello"})),
        ("hello", "quoted"),
    ),
    Mistake(
        "update value: words that are not quoted",
        of(),
        table(lambda t: t.update(set={"s": "hello world"})),
        ("hello", "quoted"),
    ),
    Mistake(
        "update with where=", of(), table(lambda t: t.update(where="id = 1", set={"id": "2"})), ("where",), "TypeError"
    ),
    Mistake("update without set", of(), table(lambda t: t.update("id = 1")), ("set",), "ValueError"),
    Mistake("update set is a text", of(), table(lambda t: t.update("id = 1", "id = 2")), ("dict",), "TypeError"),
    Mistake(
        "update: a text that is no number",
        of(),
        table(lambda t: t.update("id = 1", {"p": "'x'"})),
        ("column p", ": x."),
        "NumberFormatException",
    ),
    Mistake(
        "update: a number too large",
        of(),
        table(lambda t: t.update("id = 1", {"p": "id + 3000000000"})),
        ("column p", "3000000001"),
        "ArithmeticException",
    ),
    Mistake("merge: ambiguous columns", of(), merged(ids, "id = id", update_all), ("id", "mbiguous")),
    Mistake("merge: typo in the condition", of(), merged(ids, "t.id = s.idd", update_all), ("idd",)),
    Mistake("merge: no clause", of(), merge(lambda m: m), ("whenMatched",)),
    Mistake(
        "merge: source is a DeltaTable",
        of(),
        merged(DeltaTable.forPath, "t.id = s.id", update_all),
        ("DataFrame", "toDF"),
        "TypeError",
    ),
    Mistake(
        "merge: source is a list",
        of(),
        merged(lambda s, p: [1], "t.id = s.id", update_all),
        ("DataFrame",),
        "TypeError",
    ),
    Mistake("merge: insertAll with missing columns", of(), merged(only_ids, "t.id = s.id", insert_all), ("s",)),
    Mistake(
        "merge: two unconditional clauses",
        of(),
        merge(lambda m: m.whenMatchedDelete().whenMatchedUpdateAll()),
        ("condition",),
    ),
    Mistake(
        "merge: one row matched twice",
        of(),
        merge(lambda m: m.whenMatchedUpdate(set={"s": "'x'"}), twice=True),
        ("{path}", "match"),
        "PySparkException",
    ),
    Mistake(
        "merge: insert of a column that is not there",
        of(),
        merge(lambda m: m.whenNotMatchedInsert(values={"idd": "s.id"})),
        ("idd",),
    ),
    Mistake(
        "merge: a constraint is broken",
        CHECKED,
        merge(lambda m: m.whenMatchedUpdate(set={"id": "s.id + 90"})),
        ("{path}", "small"),
        "SparkRuntimeException",
    ),
    Mistake("unknown property", of(), table(lambda t: t.setProperties({"delta.noSuch": "1"})), ("delta.noSuch",)),
    Mistake(
        "property with a typo",
        of(),
        table(lambda t: t.setProperties({"delta.appendOnli": "true"})),
        ("delta.appendOnli", "delta.appendOnly"),
    ),
    Mistake(
        "property wrong value",
        of(),
        table(lambda t: t.setProperties({"delta.appendOnly": "perhaps"})),
        ("delta.appendOnly", "perhaps"),
    ),
    Mistake(
        "property wrong interval",
        of(),
        table(lambda t: t.setProperties({"delta.logRetentionDuration": "soon"})),
        ("delta.logRetentionDuration", "soon"),
    ),
    Mistake("constraint that rows break", of(), table(lambda t: t.addConstraint("c", "id < 2")), ("{path}", "id < 2")),
    Mistake("constraint with unknown column", of(), table(lambda t: t.addConstraint("c", "idd < 2")), ("idd",)),
    Mistake("constraint twice", CHECKED, table(lambda t: t.addConstraint("small", "id < 99")), ("small",)),
    Mistake("constraint that is not there", of(), table(lambda t: t.dropConstraint("c")), ("c",)),
    Mistake("rename without mapping", of(), table(lambda t: t.renameColumn("s", "x")), ("delta.columnMapping.mode",)),
    Mistake("drop without mapping", of(), table(lambda t: t.dropColumns("s")), ("delta.columnMapping.mode",)),
    Mistake("drop a partition column", of(rows=0, by="p", **MAPPED), table(lambda t: t.dropColumns("p")), ("p",)),
    Mistake("drop a column that is not there", of(**MAPPED), table(lambda t: t.dropColumns("x")), ("x",)),
    Mistake("add a column twice", of(), sql("ALTER TABLE {t} ADD COLUMN s STRING"), ("s",)),
    Mistake("add a NOT NULL column", of(), sql("ALTER TABLE {t} ADD COLUMN n INT NOT NULL"), ("n", "NOT NULL")),
    Mistake("narrow a column", of(), sql("ALTER TABLE {t} ALTER COLUMN id TYPE INT"), ("id",)),
    Mistake("create: no location", nothing, builder(lambda b: b.addColumn("id", "INT")), ("location", "tableName")),
    Mistake(
        "create: bad type",
        nothing,
        lambda s, p: DeltaTable.create(s).location(p).addColumn("id", "INTT").execute(),
        ("INTT",),
    ),
    Mistake("create: exists", of(), made(lambda b: b.addColumn("id", "INT")), ("{path}",)),
    Mistake(
        "create: partition column missing",
        nothing,
        made(lambda b: b.addColumn("id", "INT").partitionedBy("day")),
        ("day",),
    ),
    Mistake(
        "create: duplicate column", nothing, made(lambda b: b.addColumn("id", "INT").addColumn("ID", "INT")), ("id",)
    ),
    Mistake(
        "optimize by data columns", of(), table(lambda t: t.optimize().where("id = 1").executeCompaction()), ("id",)
    ),
    Mistake("z-order by a column that is not there", of(), table(lambda t: t.optimize().executeZOrderBy("x")), ("x",)),
    Mistake(
        "a feature that is none", of(), table(lambda t: t.addFeatureSupport("vectors")), ("vectors", "deletionVectors")
    ),
    Mistake("deep clone", of(), lambda s, p: DeltaTable.forPath(s, p).clone(p + "2"), ("isShallow",)),
    Mistake(
        "generate something else",
        of(),
        table(lambda t: t.generate("manifest")),
        ("manifest", "symlink_format_manifest"),
    ),
    Mistake("convert what is a table", of(), DeltaTable.convertToDelta, ("{path}",), "PySparkException"),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=named)
def test_a_mistake_of_a_change_is_answered_by_one_sentence(spark: SparkSession, path: str, mistake: Mistake) -> None:
    require_sentence(spark, path, mistake)
