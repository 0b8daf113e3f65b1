"""An overwrite of the rows that the data matches, by `replaceUsing` and `replaceOn`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slackwater import DeltaTable, Lake, Snapshot, errors
from slackwater.spark.session.settings import SessionSettings
from slackwater.spark.write.options import Matching, write_options
from tests.spark.dml.test_concurrent_dml import meanwhile
from tests.spark.written import actions, changes, data_files, listing, read, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

DDL = "id INT, v STRING"
KINDS: list[dict[str, str]] = [
    {},
    {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"},
    {"delta.enableRowTracking": "true", "delta.columnMapping.mode": "name"},
]


def table(spark: SparkSession, path: Path, **options: str) -> None:
    """One file of four rows."""
    old = spark.createDataFrame([(1, "a"), (2, "b"), (3, "c"), (None, "n")], DDL).coalesce(1)
    save(old, path, "error", **options)


def replaced(spark: SparkSession, path: Path, new: list[Any], ddl: str = DDL, **options: Any) -> list[Any]:
    save(spark.createDataFrame(new, ddl).alias("s"), path, "overwrite", **options)
    return rows(read(spark, path))


@pytest.mark.modes
@pytest.mark.parametrize("kind", KINDS, ids=["plain", "vectors and feed", "row ids and names"])
def test_rows_of_equal_columns_are_replaced_and_null_equals_nothing(
    spark: SparkSession, tmp_path: Path, kind: dict[str, str]
) -> None:
    table(spark, tmp_path / "t", **kind)
    found = replaced(spark, tmp_path / "t", [(2, "B"), (2, "BB"), (9, "z"), (None, "N")], replaceUsing="ID")
    assert found == rows_of((1, "a"), (2, "B"), (2, "BB"), (3, "c"), (9, "z"), (None, "N"), (None, "n"))
    assert Snapshot.load(str(tmp_path / "t")).version == 1


def rows_of(*found: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return sorted(found, key=repr)


@pytest.mark.modes
def test_a_condition_names_the_table_and_the_data(spark: SparkSession, tmp_path: Path) -> None:
    table(spark, tmp_path / "t")
    on = {"replaceOn": "t.id <=> s.id AND t.v < 'o'", "targetAlias": "t"}
    found = replaced(spark, tmp_path / "t", [(2, "B"), (None, "N")], **on)
    assert found == rows_of((1, "a"), (2, "B"), (3, "c"), (None, "N"))
    (info,) = actions(tmp_path / "t", 1, "commitInfo")
    assert (info["operation"], info["operationParameters"]["mode"]) == ("WRITE", "Overwrite")
    assert info["operationParameters"]["replaceOnCond"] == on["replaceOn"]


def test_without_an_alias_columns_that_only_one_side_has_need_none(spark: SparkSession, tmp_path: Path) -> None:
    table(spark, tmp_path / "t")
    new = spark.createDataFrame([(2, "B")], "id INT, v STRING").alias("s")
    with pytest.raises(errors.InvalidArgument, match=r"condition of replaceOn.*ambiguous"):
        save(new, tmp_path / "t", "overwrite", replaceOn="id = id")
    with pytest.raises(errors.InvalidArgument, match=r"condition of replaceOn.*nowhere"):
        save(new, tmp_path / "t", "overwrite", replaceOn="nowhere = s.id")
    assert Snapshot.load(str(tmp_path / "t")).version == 0


def test_data_without_rows_replaces_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table(spark, tmp_path / "t")
    before = rows(read(spark, tmp_path / "t"))
    assert replaced(spark, tmp_path / "t", [], replaceUsing="id") == before


@pytest.mark.long
def test_several_columns_must_all_be_equal(spark: SparkSession, tmp_path: Path) -> None:
    save(spark.createDataFrame([(1, 1, "a"), (1, 2, "b")], "id INT, `a,b` INT, v STRING"), tmp_path / "t", **KINDS[2])
    new = [("B", 2, 1)]
    found = replaced(spark, tmp_path / "t", new, "v STRING, `A,B` INT, id INT", replaceUsing="id, `a,b`")
    assert found == rows_of((1, 1, "a"), (1, 2, "B"))


def test_files_without_a_match_stay_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 40, 1, 1).withColumn("p", (F.col("id") / 10).cast("int"))
    frame.write.format("delta").partitionBy("p").save(str(tmp_path / "t"))
    new = spark.createDataFrame([(3, 0), (50, 0), (10, 1)], "id LONG, p INT")
    save(new, tmp_path / "t", "overwrite", replaceUsing="p,id")
    gone = [remove["partitionValues"]["p"] for remove in actions(tmp_path / "t", 1, "remove")]
    assert sorted(gone) == ["0", "1"]
    assert rows(read(spark, tmp_path / "t")) == rows_of(*((n, n // 10) for n in range(40)), (50, 0))


def test_the_feed_says_which_rows_went_and_which_came(spark: SparkSession, tmp_path: Path) -> None:
    table(spark, tmp_path / "t", **KINDS[1])
    replaced(spark, tmp_path / "t", [(2, "B"), (9, "z")], replaceUsing="id")
    found = changes(spark, tmp_path / "t", 1, "id", "v")
    assert found == rows_of(("delete", 2, "b"), ("insert", 2, "B"), ("insert", 9, "z"))


def test_row_ids_of_rows_that_stay_stay(spark: SparkSession, tmp_path: Path) -> None:
    table(spark, tmp_path / "t", **{"delta.enableRowTracking": "true"})

    def ids() -> dict[str, int]:
        return {row.v: row["_row_id"] for row in read(spark, tmp_path / "t", rowTracking="true").collect()}

    before = ids()
    replaced(spark, tmp_path / "t", [(2, "B")], replaceUsing="id")
    after = ids()
    assert {v: after[v] for v in "acn"} == {v: before[v] for v in "acn"}
    assert after["B"] not in before.values()


def test_an_application_does_it_once_and_says_what_it_likes(spark: SparkSession, tmp_path: Path) -> None:
    table(spark, tmp_path / "t")
    said: dict[str, Any] = {
        "replaceUsing": "id",
        "txnAppId": "a",
        "txnVersion": 7,
        "userMetadata": "said",
        "userName": "who",
    }
    for _ in range(2):
        found = replaced(spark, tmp_path / "t", [(2, "B"), (4, "d")], **said)
    assert found == rows_of((1, "a"), (2, "B"), (3, "c"), (4, "d"), (None, "n"))
    assert Snapshot.load(str(tmp_path / "t")).version == 1
    (info,) = actions(tmp_path / "t", 1, "commitInfo")
    assert (info["userMetadata"], info["userName"]) == ("said", "who")


def test_the_schema_may_grow(spark: SparkSession, tmp_path: Path) -> None:
    table(spark, tmp_path / "t")
    wide = "id INT, v STRING, w INT"
    with pytest.raises(errors.InvalidArgument, match="mergeSchema"):
        replaced(spark, tmp_path / "t", [(2, "B", 5)], wide, replaceUsing="id")
    found = replaced(spark, tmp_path / "t", [(2, "B", 5)], wide, replaceUsing="id", mergeSchema="true")
    assert found == rows_of((1, "a", None), (2, "B", 5), (3, "c", None), (None, "n", None))


def test_rules_of_the_table_hold_for_rows_that_come(spark: SparkSession, tmp_path: Path) -> None:
    table(spark, tmp_path / "t")
    DeltaTable.forPath(spark, str(tmp_path / "t")).addConstraint("small", "coalesce(id, 0) < 5")
    before = data_files(tmp_path / "t")
    with pytest.raises(errors.InvariantViolationException, match="small"):
        replaced(spark, tmp_path / "t", [(2, "B"), (9, "z")], replaceUsing="id")
    assert data_files(tmp_path / "t") == before
    DeltaTable.forPath(spark, str(tmp_path / "t")).setProperties({"delta.appendOnly": "true"})
    with pytest.raises(errors.OperationNotAllowed, match="append"):
        replaced(spark, tmp_path / "t", [(2, "B")], replaceUsing="id")


def test_a_place_without_a_table_gets_one(spark: SparkSession, tmp_path: Path) -> None:
    assert replaced(spark, tmp_path / "t", [(2, "B")], replaceUsing="id") == [(2, "B")]


def test_a_row_that_another_writer_adds_meanwhile_is_not_missed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(spark, tmp_path / "t", **{"delta.isolationLevel": "Serializable"})
    meanwhile(monkeypatch, lambda: save(spark.createDataFrame([(2, "x")], DDL), tmp_path / "t"))
    with pytest.raises(errors.ConcurrentAppendException):
        replaced(spark, tmp_path / "t", [(2, "B")], replaceUsing="id")
    assert rows(read(spark, tmp_path / "t")) == rows_of((1, "a"), (2, "b"), (2, "x"), (3, "c"), (None, "n"))


def test_names_and_tables_of_lakes_take_it_too(spark: SparkSession, tmp_path: Path) -> None:
    new = spark.createDataFrame([(2, "B")], DDL)
    table(spark, tmp_path / "t")
    writer = new.write.format("delta").mode("overwrite").option("replaceUsing", "id")
    writer.saveAsTable(f"delta.`{tmp_path / 't'}`")
    assert (2, "B") in rows(read(spark, tmp_path / "t"))
    with Lake.open(tmp_path / "lake", spark=spark) as lake:
        lake.create_table("a", DDL)
        with lake.transaction(spark) as tx:
            tx.table("a").append(spark.createDataFrame([(1, "a"), (2, "b")], DDL))
            tx.table("a").overwrite(new, replaceUsing="id")
        assert rows(lake.table("a").toDF()) == [(1, "a"), (2, "B")]


@pytest.mark.parametrize(
    ("mode", "options", "message"),
    [
        ("append", {"replaceUsing": "id"}, "replaceUsing needs mode overwrite"),
        ("append", {"replaceOn": "t.id = s.id"}, "replaceOn needs mode overwrite"),
        ("overwrite", {"replaceUsing": "id", "replaceOn": "t.id = s.id"}, "not both"),
        ("overwrite", {"replaceUsing": "id", "replaceWhere": "id = 1"}, "replaceUsing or replaceWhere, not both"),
        ("overwrite", {"replaceOn": "true", "partitionOverwriteMode": "static"}, "or partitionOverwriteMode"),
        (
            "overwrite",
            {"replaceUsing": "id", "overwriteSchema": "true"},
            "cannot be combined with overwriteSchema=true",
        ),
        ("overwrite", {"replaceUsing": "id", "dataChange": "false"}, "cannot be combined with dataChange=false"),
        ("overwrite", {"replaceUsing": "id,,v"}, "a comma-separated list of columns"),
        ("overwrite", {"replaceUsing": " "}, "a comma-separated list of columns"),
        ("overwrite", {"replaceOn": ""}, "found an empty text"),
        ("overwrite", {"replaceUsing": "id", "targetAlias": "t"}, "Set replaceOn"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    spark: SparkSession, tmp_path: Path, mode: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(errors.InvalidArgument, match=message):
        save(spark.range(1), tmp_path / "t", mode, **options)
    assert listing(tmp_path) == []


@pytest.mark.parametrize(("using", "said"), [("id", "the data has no such column"), ("w", "the table has no such")])
def test_columns_are_of_the_table_and_of_the_data(spark: SparkSession, tmp_path: Path, using: str, said: str) -> None:
    table(spark, tmp_path / "t")
    with pytest.raises(errors.InvalidArgument, match=said):
        replaced(spark, tmp_path / "t", [("B", 1)], "v STRING, w INT", replaceUsing=using, mergeSchema="true")


def test_the_session_may_overwrite_partitions_all_the_same(spark: SparkSession, tmp_path: Path, conf: Any) -> None:
    conf("spark.sql.sources.partitionOverwriteMode", "dynamic")
    found = write_options(SessionSettings.of(spark), "overwrite", {"replaceUsing": "a, `b,c`,d"})
    assert (found.dynamic_partitions, found.matching) == (False, Matching(("a", "`b,c`", "d")))
