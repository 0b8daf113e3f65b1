"""The process that is delta-spark: answers JSON lines on standard input until it ends, in delta-spark's own Python.

A request is `{"call": name, ...arguments}`; its answer `{"schema": JSON, "rows": Arrow IPC in base64}` for what gives
rows, `{}` for what gives none, or `{"error": message, "condition": name of the error class}`.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession


def serve(session: SparkSession, calls: Any, answers: Any) -> None:
    """Answer every line of `calls` by one line of `answers`."""
    for line in calls:
        request = json.loads(line)
        try:
            answer = _CALLS[request.pop("call")](session, **request)
        except Exception as error:  # noqa: BLE001  (whatever it is, the one who asked shall know)
            answer = {"error": str(error), "condition": _condition(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def start(jars: str, folder: str, more: Mapping[str, str] | None = None) -> SparkSession:
    """A small session with Delta Lake, and `more` settings; what it leaves behind is in `folder`."""
    # A short run on two cores is faster with a compiler and a collector that do less.
    java = f"-Djava.io.tmpdir={folder} -Duser.timezone=UTC -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    settings = {
        "spark.driver.extraClassPath": f"{jars}/*",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": java,
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        # So many tasks has each listing of a VACUUM, by default 10,000.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        "spark.databricks.delta.geo.preview.enabled": "true",
        # Most of a query on a handful of rows would be the time to compile it.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[1]")
    for key, value in {**settings, **(more or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _sql(session: SparkSession, text: str) -> dict[str, str]:
    return _answer(session.sql(text))


def _run(session: SparkSession, text: str) -> dict[str, str]:
    session.sql(text)
    return {}


def _read(session: SparkSession, path: str, options: dict[str, str]) -> dict[str, str]:
    return _answer(session.read.format("delta").options(**options).load(path))


def _write(
    session: SparkSession, query: str, path: str, mode: str, partition_by: list[str], options: dict[str, str]
) -> dict[str, str]:
    writer = session.sql(query).write.format("delta").mode(mode).options(**options)
    (writer.partitionBy(*partition_by) if partition_by else writer).save(path)
    return {}


def _stream(
    session: SparkSession, source: str, ddl: str, path: str, checkpoint: str, counted_by: str, options: dict[str, str]
) -> dict[str, str]:
    """The files in `source` as a stream, one a batch, to their end; counted by a column, or as they are."""
    frame = session.readStream.schema(ddl).option("maxFilesPerTrigger", 1).parquet(source)
    writer = (frame.groupBy(counted_by).count() if counted_by else frame).writeStream.format("delta").options(**options)
    writer = writer.outputMode("complete" if counted_by else "append").option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start(path).awaitTermination()
    return {}


def _stream_table(
    session: SparkSession, source: str, path: str, checkpoint: str, options: dict[str, str]
) -> dict[str, str]:
    """The table at `source` as a stream, to its end."""
    frame = session.readStream.format("delta").options(**options).load(source)
    writer = frame.writeStream.format("delta").option("checkpointLocation", checkpoint).option("mergeSchema", "true")
    writer.trigger(availableNow=True).start(path).awaitTermination()
    return {}


def _task(session: SparkSession, name: str, path: str) -> dict[str, str]:
    """One of the tasks of a week."""
    from delta.tables import DeltaTable

    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.people.tasks import TASKS, carry_out

    task = next(each for each in TASKS if each.name == name)
    if not carry_out(task, session, path, DeltaTable):
        raise AssertionError(f"{name}: {task.holds}")
    return {}


def _month(session: SparkSession, name: str, folder: str) -> dict[str, str]:
    """Do a task of a month, by its lines with delta-spark, in an empty folder."""
    from delta.tables import DeltaTable

    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.spark.monthly.task import carry_out
    from tests.spark.monthly.tasks import TASKS

    number, task = next((number, each) for number, each in enumerate(TASKS) if each.name == name)
    if not carry_out(task, task.lines_of_delta_spark, f"month_{number}", session, Path(folder), DeltaTable):
        raise AssertionError(f"{name}: {task.holds}")
    return {}


def _forget(session: SparkSession) -> dict[str, str]:
    """What it knows of any table is read anew, as a process just started would."""
    jvm: Any = session._jvm
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    return {}


def _answer(frame: DataFrame) -> dict[str, str]:
    table = frame.toArrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return {"schema": frame.schema.json(), "rows": base64.b64encode(sink.getvalue()).decode()}


def _condition(error: Exception) -> str:
    """The name of the error class; where the JVM's exception is no known kind, as it stands in its text."""
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    stated = re.search(r"\[([A-Z][A-Z0-9_.]+)\]", str(error))
    return condition or (stated[1] if stated else type(error).__name__)


_CALLS: dict[str, Callable[..., dict[str, str]]] = {
    "forget": _forget,
    "read": _read,
    "run": _run,
    "sql": _sql,
    "stream": _stream,
    "stream_table": _stream_table,
    "task": _task,
    "month": _month,
    "write": _write,
}


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Answers have the channel to themselves: whatever else is printed goes where errors go.
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    os.chdir(Path(sys.argv[2]))
    spark = start(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
    channel.write(json.dumps({"version": spark.version}) + "\n")
    channel.flush()
    serve(spark, sys.stdin, channel)
    spark.stop()
