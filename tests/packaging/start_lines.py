"""The first lines of a user, from the installed wheel alone: `python start_lines.py classic|connect DIRECTORY`.

It imports nothing of the suite: the environment it runs in has what pip installed, and no more. One line a step on
standard output, `ok NAME SECONDS` or `FAILED NAME` and why; exit code 1 where one failed.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import slackwater

# Most seconds of one query, on a machine with other work.
MOST_S = 240


def session(mode: str) -> Any:
    """A session with two cores, classic or of a Connect server that PySpark starts."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    builder = SparkSession.builder
    if mode == "connect":
        _take_free_port()
        builder = builder.remote("local[2]")
    else:
        builder = builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "2")
    return builder.getOrCreate()


def _take_free_port() -> None:
    """Let PySpark start its Connect server on a free port, because another run may use the default port."""
    from pyspark.sql.connect.client import DefaultChannelBuilder

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    DefaultChannelBuilder.default_port = staticmethod(lambda: port)  # type: ignore[method-assign]
    settings = {"spark.connect.grpc.binding.port": str(port)}
    os.environ |= {"PYSPARK_REMOTE_INIT_CONF_LEN": "1", "PYSPARK_REMOTE_INIT_CONF_0": json.dumps(settings)}


class Steps:
    """What a user does first; each step stands on those before it."""

    def __init__(self, spark: Any, root: Path) -> None:
        self._spark = spark
        self._root = root
        self._path = str(root / "orders")
        self._query: Any = None

    def all(self) -> list[Callable[[], None]]:
        """The steps, in order."""
        return [
            self.create,
            self.write,
            self.read,
            self.change_rows,
            self.merge,
            self.travel,
            self.change_feed,
            self.optimize_and_vacuum,
            self.sql,
            self.rows_by_arrow,
            self.stream_into_a_table,
            self.stream_from_a_table,
            self.stream_the_change_feed,
            self.foreach_batch,
            self.lake_transaction,
            self.system_time,
            self.stream_into_a_lake,
            self.without_spark,
            self.errors,
        ]

    def create(self) -> None:
        """A table by the builder, with a generated and an identity column."""
        builder = slackwater.DeltaTable.create(self._spark).location(self._path)
        builder = builder.addColumn("id", "BIGINT").addColumn("day", "DATE").addColumn("qty", "INT")
        builder = builder.addColumn("year", "INT", generatedAlwaysAs="YEAR(day)")
        for name in ("DeletionVectors", "ChangeDataFeed", "RowTracking", "InCommitTimestamps"):
            builder = builder.property(f"delta.enable{name}", "true")
        builder.execute()

    def write(self) -> None:
        """Rows by `df.write`."""
        frame = self._spark.sql("SELECT id, DATE '2026-01-01' AS day, 1 AS qty FROM range(10)")
        frame.write.format("delta").mode("append").save(self._path)

    def read(self) -> None:
        """Rows by `spark.read`, with a condition."""
        frame = self._spark.read.format("delta").load(self._path)
        assert sorted(row.id for row in frame.where("id < 3").collect()) == [0, 1, 2]
        assert {row.year for row in frame.collect()} == {2026}

    def change_rows(self) -> None:
        """DELETE and UPDATE, by deletion vectors."""
        table = slackwater.DeltaTable.forPath(self._spark, self._path)
        table.delete("id = 9")
        table.update("id = 8", {"qty": "qty + 10"})
        assert table.toDF().where("qty = 11").count() == 1
        assert table.toDF().count() == 9

    def merge(self) -> None:
        """MERGE from a frame."""
        table = slackwater.DeltaTable.forPath(self._spark, self._path)
        news = self._spark.sql("SELECT id, DATE '2026-02-02' AS day, 5 AS qty FROM range(7, 12)")
        merge = table.alias("t").merge(news.alias("s"), "t.id = s.id")
        result = merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute().first()
        assert result is not None
        assert (result.num_updated_rows, result.num_inserted_rows) == (2, 3), result

    def travel(self) -> None:
        """Older versions, and the history."""
        versions = [
            self._spark.read.format("delta").option("versionAsOf", v).load(self._path).count() for v in range(2)
        ]
        assert versions == [0, 10]
        operations = [r.operation for r in slackwater.DeltaTable.forPath(self._spark, self._path).history().collect()]
        assert operations == ["MERGE", "UPDATE", "DELETE", "WRITE", "CREATE TABLE"], operations

    def change_feed(self) -> None:
        """What each version changed."""
        reader = self._spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2)
        kinds = {row._change_type for row in reader.load(self._path).collect()}
        assert kinds == {"insert", "delete", "update_preimage", "update_postimage"}

    def optimize_and_vacuum(self) -> None:
        """Small files become one, and a dry run names what could go."""
        table = slackwater.DeltaTable.forPath(self._spark, self._path)
        optimized = table.optimize().executeCompaction().first()
        assert optimized is not None
        assert optimized.metrics.numFilesAdded == 1
        table.vacuum(168)
        assert table.toDF().count() == 12

    def sql(self) -> None:
        """Statements by path."""
        name = f"delta.`{self._path}`"
        self._spark.sql(f"UPDATE {name} SET qty = 0 WHERE id = 0")
        assert self._spark.sql(f"SELECT count(*) AS n FROM {name} VERSION AS OF 1").first().n == 10
        assert self._spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").first().operation == "UPDATE"

    def rows_by_arrow(self) -> None:
        """Rows by the Python of executors, as they go where Spark has no connector."""
        self._spark.conf.set("spark.slackwater.rows", "arrow")
        try:
            path = str(self._root / "by arrow")
            self._spark.range(20).write.format("delta").save(path)
            slackwater.DeltaTable.forPath(self._spark, path).delete("id >= 15")
            assert self._spark.read.format("delta").load(path).where("id >= 10").count() == 5
        finally:
            self._spark.conf.unset("spark.slackwater.rows")

    def stream_into_a_table(self) -> None:
        """A stream of files drains into a table."""
        source = str(self._root / "incoming")
        self._spark.range(30).write.parquet(source)
        stream = self._spark.readStream.schema("id BIGINT").parquet(source)
        self._drain(stream.writeStream.format("delta"), "raw")
        assert self._spark.read.format("delta").load(str(self._root / "raw")).count() == 30

    def stream_from_a_table(self) -> None:
        """A table drains into another, then what came meanwhile does."""
        for rows in (30, 35):
            stream = self._spark.readStream.format("delta").option("maxFilesPerTrigger", 1)
            self._drain(stream.load(str(self._root / "raw")).writeStream.format("delta"), "copy")
            assert self._spark.read.format("delta").load(str(self._root / "copy")).count() == rows
            more = self._spark.range(100, 105)
            more.write.format("delta").mode("append").save(str(self._root / "raw"))
        if hasattr(self._spark, "sparkContext"):
            # Planned in the driver's Python, a micro-batch has a file in every release.
            files = slackwater.Snapshot.load(str(self._root / "raw"), version=1).files().num_rows
            assert slackwater.Snapshot.load(str(self._root / "copy")).version == files - 1

    def stream_the_change_feed(self) -> None:
        """The change feed of a table as a stream."""
        reader = self._spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", 2)
        self._drain(reader.load(self._path).writeStream.format("delta"), "changes")
        kinds = {r._change_type for r in self._spark.read.format("delta").load(str(self._root / "changes")).collect()}
        assert kinds == {"insert", "delete", "update_preimage", "update_postimage"}, kinds

    def foreach_batch(self) -> None:
        """A function of the user's merges each batch."""
        path = str(self._root / "merged")
        self._spark.sql("SELECT id, 0 AS n FROM range(3)").write.format("delta").save(path)

        def upsert(batch: Any, _number: int) -> None:
            import slackwater as there

            target = there.DeltaTable.forPath(batch.sparkSession, path).alias("t")
            merge = target.merge(batch.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"n": "1"})
            merge.whenNotMatchedInsert(values={"id": "s.id", "n": "2"}).execute()

        stream = self._spark.readStream.format("delta").load(str(self._root / "raw")).where("id < 5")
        query = stream.writeStream.foreachBatch(upsert).option("checkpointLocation", str(self._root / "at merged"))
        self._end(query.trigger(availableNow=True).start())
        rows = self._spark.read.format("delta").load(path).collect()
        assert sorted((r.id, r.n) for r in rows) == [(0, 1), (1, 1), (2, 1), (3, 2), (4, 2)], rows

    def lake_transaction(self) -> None:
        """Two tables of a lake change at one instant."""
        with slackwater.Lake.open(str(self._root / "lake")) as lake:
            lake.create_table("a", "id BIGINT")
            lake.create_table("b", "id BIGINT, n INT")
            with lake.transaction(self._spark, writes=["a", "b"]) as tx:
                tx.table("a").append(self._spark.range(3))
                tx.table("b").append(self._spark.sql("SELECT 1L AS id, 1 AS n"))
            with lake.transaction(self._spark, writes=["a", "b"]) as later:
                later.table("a").delete("id = 0")
                later.table("b").update("id = 1", {"n": "2"})
            past = lake.as_of(tx.commit_timestamp)
            assert past.table("a").toDF().count() == 3
            assert lake.table("a").toDF().count() == 2
            assert [row.n for row in lake.table("b").toDF().collect()] == [2]
            assert lake.history().count() > 2

    def system_time(self) -> None:
        """Every version of every row."""
        rows = slackwater.DeltaTable.forPath(self._spark, self._path).system_time().toDF()
        assert {"system_start", "system_end"} <= set(rows.columns)
        assert rows.where("system_end IS NULL").count() + rows.where("system_end IS NOT NULL").count() == rows.count()

    def stream_into_a_lake(self) -> None:
        """One stream fills two tables of a lake, in one transaction a batch."""
        with slackwater.Lake.open(str(self._root / "lake")) as lake:
            stream = self._spark.readStream.format("delta").load(str(self._root / "raw")).where("id < 30")
            query = slackwater.stream(stream).to(
                lake, {"a": lambda batch: batch, "b": lambda batch: batch.selectExpr("id", "7 AS n")}
            )
            query = query.option("checkpointLocation", str(self._root / "at lake")).trigger(availableNow=True)
            self._end(query.start())
            assert lake.table("b").toDF().where("n = 7").count() == 30

    def without_spark(self) -> None:
        """The log without Spark."""
        snapshot = slackwater.Snapshot.load(self._path)
        assert snapshot.version >= 6
        assert snapshot.files(where="id = 3").num_rows == 1

    def errors(self) -> None:
        """An error of ours is one of PySpark's too."""
        from pyspark.errors import AnalysisException

        try:
            self._spark.read.format("delta").load(str(self._root / "nowhere"))
        except AnalysisException as error:
            kind: type | None = type(error)
        else:
            kind = None
        assert kind is slackwater.errors.TableNotFound, kind

    def last_query(self) -> str:
        """Describe the last streaming query, to explain a failed step."""
        if self._query is None:
            return "no query was started"
        try:
            return f"the last query: {self._query.status}, {[str(each) for each in self._query.recentProgress]}"
        except Exception as error:  # noqa: BLE001  (the step's own error is shown)
            return f"the last query: {type(error).__name__}: {error}"

    def _drain(self, writer: Any, name: str) -> None:
        writer = writer.option("checkpointLocation", str(self._root / f"at {name}")).trigger(availableNow=True)
        self._end(writer.start(str(self._root / name)))

    def _end(self, query: Any) -> None:
        self._query = query
        has_ended = query.awaitTermination(MOST_S)
        if query.exception() is not None:
            raise query.exception()
        assert has_ended, f"the query does not end within {MOST_S} s"


def run(mode: str, root: Path) -> int:
    """The exit code of all steps."""
    spark = session(mode)
    slackwater.enable(spark)
    failed = 0
    steps = Steps(spark, root)
    for step in steps.all():
        start = time.monotonic()
        try:
            step()
        except Exception as error:  # noqa: BLE001  (every step is tried)
            failed += 1
            traceback.print_exc()
            print(f"FAILED {step.__name__}: {type(error).__name__}: {str(error)[:2000]}", flush=True)  # noqa: T201
            print(steps.last_query()[:4000], flush=True)  # noqa: T201
        else:
            print(f"ok {step.__name__} {time.monotonic() - start:.1f}", flush=True)  # noqa: T201
    spark.stop()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], Path(sys.argv[2])))
