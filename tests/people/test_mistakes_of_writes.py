"""Mistakes of people who write: modes, options, schemas, partitions, rows that break a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from tests.people.mistakes import Mistake, named, require_sentence, sql
from tests.people.test_mistakes_of_reads import parquet
from tests.spark.error_cases import CHECKED, GENERATED, IDENTITY, Work, nothing, of, table, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]
BROKEN = "SparkRuntimeException"
NOT_NULL = of("id BIGINT NOT NULL, s STRING", rows=0)
ALL = "id, 's' AS s, 1 AS p"

PARTITIONED = write(ALL, by="p")


def stream(spark: SparkSession, path: str, **options: str) -> None:
    rows = spark.readStream.format("rate").load()
    rows.writeStream.format("delta").options(**options).start(path)


def by_table(name: str) -> Work:
    return lambda spark, path: spark.range(1).write.format("delta").saveAsTable(name)


MISTAKES = [
    Mistake("write to an existing table without mode", of(), write("id", "error"), ("{path}", "append")),
    Mistake("wrong mode", of(), write("id", "apend"), ("'apend'", "did you mean 'append'")),
    Mistake("wrong type append", of(), write("array(id) AS id"), ("id", "array<long>")),
    Mistake("wrong type append: string into int", of("n INT", rows=0), write("'x' AS n"), ("n",)),
    Mistake(
        "wrong type append: a number too large",
        of("n INT", rows=0),
        write("id + 3000000000 AS n"),
        ("n",),
        "PySparkException",
    ),
    Mistake(
        "wrong type insert: string into int",
        of("n INT", rows=0),
        sql("INSERT INTO {t} VALUES ('x')"),
        ("column n", ": x."),
        "NumberFormatException",
    ),
    Mistake(
        "wrong type insert: a number too large",
        of("n INT", rows=0),
        sql("INSERT INTO {t} VALUES (3000000000)"),
        ("column n", "3000000000"),
        "ArithmeticException",
    ),
    Mistake("extra column append", of(), write("id, 1 AS z"), ("z", "mergeSchema")),
    Mistake("typo in a column append", of(), write("id AS idd"), ("idd", "mergeSchema")),
    Mistake("wrong partitionBy on append", PARTITIONED, write(ALL, by="s"), ("{path}", "s", "p")),
    Mistake("partitionBy of a table without", of(), write(ALL, by="p"), ("{path}", "p")),
    Mistake("partition column missing", nothing, write("id", by="day"), ("day",)),
    Mistake("overwrite with another schema", of(), write("id, 1 AS z", "overwrite"), ("z", "mergeSchema")),
    Mistake("wrong option value mergeSchema=yes", of(), write("id", mergeSchema="yes"), ("mergeSchema", "yes")),
    Mistake("wrong codec", of(), write("id", compression="zipp"), ("zipp",)),
    Mistake("replaceWhere with append", of(), write("id", replaceWhere="id = 1"), ("replaceWhere", "overwrite")),
    Mistake("replaceWhere with a typo", of(), write("id", "overwrite", replaceWhere="idd = 1"), ("idd",)),
    Mistake("replaceWhere that is no SQL", of(), write("id", "overwrite", replaceWhere="id = = 1"), ("id = = 1",)),
    Mistake("rows outside of replaceWhere", of(), write(ALL, "overwrite", replaceWhere="p = 0"), ("{path}", "p = 0")),
    Mistake("CHECK broken by an append", CHECKED, write("id + 50 AS id"), ("{path}", "small", "id < 9", "50"), BROKEN),
    Mistake(
        "CHECK broken by an update",
        CHECKED,
        table(lambda t: t.update("id = 1", {"id": "70"})),
        ("{path}", "small", "70"),
        BROKEN,
    ),
    Mistake("CHECK broken by SQL", CHECKED, sql("INSERT INTO {t} (id) VALUES (50)"), ("small", "50"), BROKEN),
    Mistake("NOT NULL broken", NOT_NULL, write("CAST(NULL AS BIGINT) AS id"), ("{path}", "id", "NOT NULL"), BROKEN),
    Mistake("NOT NULL column left out", NOT_NULL, write("'x' AS s"), ("{path}", "id", "NOT NULL"), BROKEN),
    Mistake("a generated column with other values", GENERATED, write("id, id AS g"), ("{path}", "g"), BROKEN),
    Mistake("values for an identity column", IDENTITY, write("id AS x, id AS i"), ("i",)),
    Mistake("column name with space", nothing, write("id AS `a b`"), ("a b", "delta.columnMapping.mode")),
    Mistake("duplicate column", nothing, write("id, id AS ID"), ("id",)),
    Mistake("interval column", nothing, write("interval '1' day AS d"), ("d", "interval")),
    Mistake("void column", nothing, write("NULL AS v"), ("v", "void")),
    Mistake("all columns partition", nothing, write("id", by="id"), ("id",)),
    Mistake(
        "bucketBy", nothing, lambda s, p: s.range(1).write.format("delta").bucketBy(2, "id").save(p), ("clusterBy",)
    ),
    Mistake("a table's name for a path", nothing, lambda s, p: s.range(1).write.format("delta").save(), ("path",)),
    Mistake(
        "a name of a schema that is not there",
        nothing,
        by_table("no_such_schema.t"),
        ("no_such_schema",),
        of_spark=True,
    ),
    Mistake("a name that is none", nothing, by_table("a b"), ("a b",)),
    Mistake(
        "insertInto a table that is not there",
        nothing,
        lambda s, p: s.range(1).write.insertInto("no_such"),
        ("no_such",),
        of_spark=True,
    ),
    Mistake(
        "dbfs path",
        nothing,
        lambda s, p: s.range(1).write.format("delta").save("dbfs:/mnt/t"),
        ("dbfs",),
        "PySparkException",
    ),
    Mistake("stream without a checkpoint", nothing, stream, ("checkpointLocation",)),
    Mistake(
        "stream in mode update",
        of("timestamp TIMESTAMP, value BIGINT", rows=0),
        lambda s, p: (
            s.readStream.format("rate")
            .load()
            .writeStream.format("delta")
            .outputMode("update")
            .option("checkpointLocation", f"{p}-c")
            .start(p)
        ),
        ("update", "append"),
    ),
    Mistake("append to a folder of Parquet files", parquet, write("id"), ("{path}", "convertToDelta")),
    Mistake("save by SQL over Parquet files", parquet, sql("CREATE TABLE {t} AS SELECT 1 AS id"), ("convertToDelta",)),
    Mistake("half of an idempotent write", of(), write("id", txnAppId="a"), ("txnVersion",)),
    Mistake("insert with too few values", of(), sql("INSERT INTO {t} VALUES (1)"), ("1", "3")),
    Mistake("insert into a column that is not there", of(), sql("INSERT INTO {t} (idd) VALUES (1)"), ("idd",)),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=named)
def test_a_mistake_of_a_writer_is_answered_by_one_sentence(spark: SparkSession, path: str, mistake: Mistake) -> None:
    require_sentence(spark, path, mistake)
