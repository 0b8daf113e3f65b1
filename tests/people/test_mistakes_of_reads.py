"""Mistakes of people who read: paths, versions, times, feeds, options, columns; and tables that are damaged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

from slackwater import DeltaTable
from tests.people.mistakes import Mistake, named, require_sentence, sql
from tests.spark.error_cases import CDF, FEED, Work, both, nothing, of, read, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]


def frame(use: object) -> Work:
    return lambda spark, path: use(spark.read.format("delta").load(path)).collect()  # type: ignore[operator]


def parquet(spark: SparkSession, path: str) -> None:
    spark.range(3).write.parquet(path)


def two_files(spark: SparkSession, path: str) -> None:
    for _ in range(2):
        spark.range(3).coalesce(1).write.format("delta").mode("append").save(path)


def without(pattern: str) -> Work:
    def remove(spark: SparkSession, path: str) -> None:
        del spark
        for found in sorted(Path(path).glob(pattern))[:1]:
            found.unlink()

    return remove


def spoiled(spark: SparkSession, path: str) -> None:
    (Path(path) / "_delta_log" / f"{0:020}.json").write_text('{"commitInfo": \n')


def a_file(spark: SparkSession, path: str) -> None:
    Path(path).write_text("id\n1\n")


GONE = both(two_files, without("*.parquet"))
MISTAKES = [
    Mistake("wrong path: load", nothing, read(), ("{path}",)),
    Mistake("wrong path: forPath", nothing, table(DeltaTable.toDF), ("{path}",)),
    Mistake("wrong path: SQL", nothing, sql("SELECT * FROM {t}"), ("{path}",)),
    Mistake("wrong path: a stream", nothing, lambda s, p: s.readStream.format("delta").load(p), ("{path}",)),
    Mistake("relative path", nothing, lambda s, p: s.read.format("delta").load("no/table/here"), ("no/table/here",)),
    Mistake("path of a parquet folder", parquet, read(), ("{path}",)),
    Mistake("path of a file", a_file, read(), ("{path}",)),
    Mistake("no path", of(), lambda s, p: s.read.format("delta").load(), ("path",)),
    Mistake("path is a table's name", of(), lambda s, p: s.read.format("delta").load("flights"), ("flights",)),
    Mistake("path is a number", of(), lambda s, p: s.read.format("delta").load(cast("str", 3)), ("3",)),
    Mistake("typo in column: where str", of(), frame(lambda f: f.where("idd = 1")), ("idd", "`id`"), of_spark=True),
    Mistake(
        "typo in column: where Column",
        of(),
        frame(lambda f: f.where(F.col("idd") == 1)),
        ("idd", "`id`"),
        of_spark=True,
    ),
    Mistake("typo in column: select", of(), frame(lambda f: f.select("idd")), ("idd", "`id`"), of_spark=True),
    Mistake("typo in column: groupBy", of(), frame(lambda f: f.groupBy("idd").count()), ("idd",), of_spark=True),
    Mistake("typo in column: SQL", of(), sql("SELECT idd FROM {t}"), ("idd", "`id`"), of_spark=True),
    Mistake(
        "where is no SQL", of(), frame(lambda f: f.where("id == = 1")), ("id == = 1",), "ParseException", of_spark=True
    ),
    Mistake("version too new", of(), read(versionAsOf="99"), ("{path}", "99", "1")),
    Mistake("version too new: path", of(), lambda s, p: s.read.format("delta").load(f"{p}@v99"), ("{path}", "99")),
    Mistake("version too new: SQL", of(), sql("SELECT * FROM {t} VERSION AS OF 99"), ("{path}", "99")),
    Mistake("version not a number", of(), read(versionAsOf="x"), ("'x'",)),
    Mistake("negative version", of(), read(versionAsOf="-1"), ("-1",)),
    Mistake("timestamp before the first", of(), read(timestampAsOf="2001-01-01"), ("{path}", "2001-01-01")),
    Mistake("timestamp in the future", of(), read(timestampAsOf="2100-01-01"), ("{path}", "2100-01-01")),
    Mistake("timestamp rubbish", of(), read(timestampAsOf="soon"), ("'soon'",)),
    Mistake("both version and timestamp", of(), read(versionAsOf="0", timestampAsOf="2100-01-01"), ("versionAsOf",)),
    Mistake("CDF not enabled", of(), read(**FEED, startingVersion="0"), ("{path}", "delta.enableChangeDataFeed")),
    Mistake("CDF without starting version", of(**CDF), read(**FEED), ("startingVersion",)),
    Mistake("CDF starting after latest", of(**CDF), read(**FEED, startingVersion="99"), ("{path}", "99")),
    Mistake("CDF backwards", of(**CDF), read(**FEED, startingVersion="1", endingVersion="0"), ("1", "0")),
    Mistake("vacuumed file gone", GONE, read(), ("{path}",), "PySparkException"),
    Mistake("corrupt json commit", both(of(), spoiled), read(), ("{path}", f"{0:020}.json"), "PySparkException"),
    Mistake(
        "missing commit in the middle",
        both(two_files, both(two_files, without("_delta_log/*01.json"))),
        read(),
        ("{path}",),
        "PySparkException",
    ),
    Mistake("unknown name: forName", nothing, lambda s, p: DeltaTable.forName(s, "no_such_table"), ("no_such_table",)),
    Mistake(
        "unknown name: table",
        nothing,
        lambda s, p: s.table("no_such_table").collect(),
        ("no_such_table",),
        of_spark=True,
    ),
    Mistake("unknown name: SQL", nothing, sql("DELETE FROM no_such_table"), ("no_such_table",), of_spark=True),
    Mistake("history('3')", of(), table(lambda t: t.history("3")), ("3",), "PySparkException"),
    Mistake("restore to a version too new", of(), table(lambda t: t.restoreToVersion(99)), ("{path}", "99")),
    Mistake("restore to a text", of(), table(lambda t: t.restoreToVersion("one")), ("version", "int"), "ValueError"),
    Mistake(
        "vacuum below the safe age",
        of(),
        table(lambda t: t.vacuum(1)),
        ("delta.deletedFileRetentionDuration",),
        "PySparkException",
    ),
    Mistake(
        "dbfs path", nothing, lambda s, p: s.read.format("delta").load("dbfs:/mnt/t"), ("dbfs",), "PySparkException"
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=named)
def test_a_mistake_of_a_reader_is_answered_by_one_sentence(spark: SparkSession, path: str, mistake: Mistake) -> None:
    require_sentence(spark, path, mistake)
