"""One scenario of the whole package, whose results are the same whatever the settings of the session are.

`python -m tests.spark.session.scenario DIRECTORY SETTINGS` runs it in a new JVM, and prints the results in JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import slackwater
from slackwater import DeltaTable

Results = dict[str, Any]
_FEATURES = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
_FEED = {"readChangeFeed": "true", "startingVersion": "0"}
_PLAIN = ("bigint", "int", "string", "boolean", "double")
_COUNTED = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted", "numDeletedRows", "numUpdatedRows")
# Times name their zone, and types their kind: no setting changes what they mean.
_ROWS = """
SELECT id, element_at(array('007', 'a b=/%', '2024-01-01', 'null', CAST(NULL AS STRING)), CAST(id % 5 + 1 AS INT)) AS p,
  CAST(id % 2 AS INT) AS k,
  CASE WHEN id = 9 THEN DATE '1500-03-01' ELSE date_add(DATE '2024-02-27', CAST(id AS INT)) END AS day,
  timestamp_micros(CASE WHEN id = 9 THEN -14000000000123457 ELSE 1709990000123457 + 3600000000 * id END) AS at,
  CAST(CAST(id AS DECIMAL(10, 2)) / 4 AS DECIMAL(10, 2)) AS amount, CAST(id AS DOUBLE) / 3 AS share,
  concat('name ', CAST(id AS STRING)) AS name, encode(CAST(id AS STRING), 'UTF-8') AS raw,
  named_struct('x', id, 'tags', array(CAST(id AS STRING), 'z')) AS nested
FROM range({low}, {high}, 1, {parts})
"""
_INSTANT, _LOCAL = "TIMESTAMP_LTZ '2024-03-10 06:30:00.5 UTC'", "TIMESTAMP_NTZ '2024-03-10 23:59:59.123456'"
# What is done to a table with defaults, generated columns and a constraint.
_STATEMENTS = (
    "CREATE TABLE {t} (id BIGINT NOT NULL, a INT DEFAULT 5, s STRING DEFAULT 'some', at TIMESTAMP_LTZ, "
    "local TIMESTAMP_NTZ, Mixed STRING, twice BIGINT GENERATED ALWAYS AS (id * 2), "
    "day DATE GENERATED ALWAYS AS (CAST(local AS DATE))) USING delta PARTITIONED BY (day) TBLPROPERTIES "
    "('delta.feature.allowColumnDefaults' = 'supported', 'delta.enableChangeDataFeed' = 'true', "
    "'delta.enableDeletionVectors' = 'true')",
    "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id >= 0)",
    f"INSERT INTO {{t}} (id, at, local, Mixed) VALUES (1, {_INSTANT}, {_LOCAL}, 'x'), (2, NULL, NULL, 'Y')",
    "INSERT INTO {t} (id, a, s, at, local, Mixed) "
    f"SELECT id, 7, CAST(id AS STRING), {_INSTANT}, {_LOCAL}, NULL FROM range(3, 6)",
    "UPDATE {t} SET a = DEFAULT, s = concat(s, '-', a) WHERE id = 3",
    f"DELETE FROM {{t}} WHERE id = 4 AND local >= {_LOCAL}",
    "MERGE INTO {t} t USING (SELECT id, 'm' AS s FROM range(5, 7)) u ON t.id = u.id "
    "WHEN MATCHED THEN UPDATE SET t.s = u.s WHEN NOT MATCHED THEN INSERT (id, s) VALUES (u.id, u.s)",
)
_QUERIES = {
    "sql": "SELECT * FROM {t}",
    "sql where": "SELECT id, s FROM {t} WHERE s LIKE '%-%' OR Mixed = 'x' OR day IS NULL",
    "sql as of": "SELECT count(*) AS n, max(a) AS a FROM {t} VERSION AS OF 2",
    "sql feed": "SELECT id, s, _change_type FROM table_changes('{t}', 1)",
    "sql with": "WITH u AS (SELECT id FROM {t} WHERE twice > 2) SELECT count(*) AS n FROM u",
    "describe": "DESCRIBE TABLE {t}",
}
_TABLES = ("t", "sql", "sink", "lake/one", "lake/two")


def scenario(spark: SparkSession, folder: Path) -> Results:
    """The results, by name, of all that tables below `folder` are used for."""
    results: Results = {}
    for part in (_frames, _sql, _stream, _lake):
        part(spark, folder, results)
    return results


def read_again(spark: SparkSession, folder: Path) -> Results:
    """The tables that a scenario left, read by a session of maybe other settings."""
    return {name: _told(spark.read.format("delta").load(str(folder / name))) for name in _TABLES}


@contextmanager
def with_conf(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Within the block the session has the settings; it must have them still at its end."""
    before = {key: spark.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
        assert {key: spark.conf.get(key, None) for key in settings} == dict(settings)
    finally:
        for key, earlier in before.items():
            if earlier is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, earlier)


def _told(frame: DataFrame) -> tuple[list[tuple[str, str]], list[str]]:
    """The types, and the rows in an order and a form without zones."""
    columns = [_shown(F.col(f"`{name}`"), kind).alias(f"c{at}") for at, (name, kind) in enumerate(frame.dtypes)]
    return list(frame.dtypes), sorted(repr(tuple(row)) for row in frame.select(*columns).collect())


def _shown(column: Column, kind: str) -> Column:
    if kind == "timestamp":
        return F.unix_micros(column)
    if kind == "binary":
        return F.hex(column)
    return column if kind in _PLAIN else F.to_json(F.struct(column))


def _texts(frame: DataFrame) -> list[str]:
    """The rows as Spark writes them, which is what settings may change."""
    names = [name for name, kind in frame.dtypes if kind != "binary"]
    return sorted(map(repr, frame.selectExpr(*(f"CAST({name} AS STRING) AS {name}" for name in names)).collect()))


def _history(spark: SparkSession, path: str) -> list[Any]:
    found = DeltaTable.forPath(spark, path).history().collect()
    return [
        [
            row["version"],
            row["operation"],
            sorted((key, value) for key, value in (row["operationParameters"] or {}).items() if key != "properties"),
            sorted((key, value) for key, value in (row["operationMetrics"] or {}).items() if key in _COUNTED),
        ]
        for row in found
    ]


def _made(spark: SparkSession, low: int, high: int, parts: int = 2) -> DataFrame:
    return spark.sql(_ROWS.format(low=low, high=high, parts=parts))


def _frames(spark: SparkSession, folder: Path, results: Results) -> None:
    path = str(folder / "t")
    _made(spark, 0, 12).write.format("delta").partitionBy("p", "k").options(**_FEATURES).save(path)
    table = DeltaTable.forPath(spark, path)
    assert _texts(table.toDF()) == _texts(_made(spark, 0, 12)), "texts are those of plain Spark"
    results["created"] = _told(table.toDF())
    table.delete("id = 3 OR p IS NULL AND k = 0")
    table.delete(F.col("day") < F.lit("1600-01-01").cast("date"))
    results["deleted"] = _told(table.toDF())
    table.update("p = '007' AND amount > 0.5", {"name": "concat(name, ' more')", "share": "share + 1"})
    table.update(F.col("id") == 6, {"nested.x": F.lit(60)})
    results["updated"] = _told(table.toDF())
    source = _made(spark, 6, 15, 1).withColumn("name", F.concat("name", F.lit("!")))
    (
        table.alias("t")
        .merge(source.alias("s"), "t.id = s.id AND t.p <=> s.p")
        .whenMatchedDelete("t.id = 7")
        .whenMatchedUpdate(set={"name": "s.name", "at": "s.at"})
        .whenNotMatchedInsertAll()
        .whenNotMatchedBySourceUpdate("t.id < 2", {"amount": "CAST(t.amount + 1 AS DECIMAL(10, 2))"})
        .execute()
    )
    results["merged"] = _told(table.toDF())
    wide = _made(spark, 20, 22, 1).withColumn("more", F.col("id").cast("int"))
    wide.write.format("delta").mode("append").option("mergeSchema", "true").save(path)
    results["evolved"] = _told(table.toDF())
    other = _made(spark, 30, 31, 1).withColumn("p", F.lit("2024-01-01")).withColumn("k", F.lit(0))
    writer = other.write.format("delta").mode("overwrite")
    writer.option("replaceWhere", "p = '2024-01-01' AND k = 0").save(path)
    results["replaced"] = _told(table.toDF())
    results["travelled"] = _told(spark.read.format("delta").option("versionAsOf", 1).load(path))
    results["feed"] = _told(spark.read.format("delta").options(**_FEED).load(path).drop("_commit_timestamp"))
    table.optimize().executeCompaction()
    table.optimize().executeZOrderBy("id", "at")
    results["optimized"] = _told(table.toDF())
    chosen = table.toDF().where("at > TIMESTAMP_LTZ '2024-03-09 16:00:00 UTC' AND p <> '007'")
    results["pruned"] = _told(chosen.select("name", "nested.x", "at"))
    results["partition"] = _told(spark.read.format("delta").load(f"{path}/p=007/k=1"))
    results["counted"] = _told(table.toDF().groupBy("p").agg(F.count("*"), F.max("day"), F.min("id")))
    results["history"] = _history(spark, path)


def _sql(spark: SparkSession, folder: Path, results: Results) -> None:
    name = f"delta.`{folder / 'sql'}`"
    for statement in _STATEMENTS:
        spark.sql(statement.format(t=name))
    for step, query in _QUERIES.items():
        results[step] = _told(spark.sql(query.format(t=name)))
    results["sql history"] = _history(spark, str(folder / "sql"))


def _stream(spark: SparkSession, folder: Path, results: Results) -> None:
    path, sink = str(folder / "source"), str(folder / "sink")
    for low in (0, 4):
        _made(spark, low, low + 2).write.format("delta").mode("append").partitionBy("k").save(path)
        stream = spark.readStream.format("delta").load(path).writeStream.format("delta")
        stream = stream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
        stream.start(sink).awaitTermination()
    results["streamed"] = _told(spark.read.format("delta").load(sink))
    results["stream history"] = [entry[1] for entry in _history(spark, sink)]


def _lake(spark: SparkSession, folder: Path, results: Results) -> None:
    with slackwater.Lake.open(folder / "lake", spark=spark) as lake:
        for name in ("one", "two"):
            lake.create_table(name, "id BIGINT, v STRING")
        with lake.transaction() as tx:
            for name in ("one", "two"):
                tx.table(name).append(spark.range(3).selectExpr("id", f"'{name}' AS v"))
        with lake.transaction() as tx:
            tx.table("one").update("id = 1", {"v": "'changed'"})
            tx.table("two").delete("id = 0")
        for name in ("one", "two"):
            results[f"lake {name}"] = _told(lake.table(name).toDF())


def main(folder: str, settings: str) -> None:
    """Run the scenario in a session of its own."""
    builder = SparkSession.builder.master("local[2]")
    for key, value in json.loads(settings).items():
        builder = builder.config(key, value)
    spark = slackwater.enable(builder.getOrCreate())
    results = scenario(spark, Path(folder))
    sys.stdout.write(json.dumps({**results, "again": read_again(spark, Path(folder))}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
