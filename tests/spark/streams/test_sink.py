"""Streams written to Delta tables: rows, history, options, schemas, rules."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable, Snapshot, errors
from slackwater.spark.session.enabled_sessions import ENABLED
from tests.spark.committed import actions, operation
from tests.spark.streams.queries import batches, drop, failure, files, finished, writer
from tests.spark.written import data_files, listing, read, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

DDL = "id BIGINT, name STRING"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder whose files are a stream: two rows so far."""
    drop(tmp_path / "source", id=[1, 2], name=["a", "ö"])
    return tmp_path / "source"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Where the query of a test keeps how far it is; a name that must be escaped where it is read."""
    return tmp_path / "check [1] {point}"


def test_each_micro_batch_is_a_commit_and_a_restart_goes_on(
    spark: SparkSession, path: str, source: Path, checkpoint: Path
) -> None:
    drop(source, id=[3], name=pa.array([None], pa.string()))
    asked = writer(files(spark, source, DDL), checkpoint).option(value="from ö", key="userMetadata")
    query = finished(asked.queryName("all").start(path))
    assert rows(read(spark, path)) == [(1, "a"), (2, "ö"), (3, None)]
    kept = json.loads((checkpoint / "metadata").read_text())["id"]
    assert str(query.id) == kept
    assert batches(path) == [(kept, 0), (kept, 1)]
    assert operation(path, 1) == ("STREAMING UPDATE", {"outputMode": "Append", "queryId": kept, "epochId": "1"})
    (info,) = actions(path, 1, "commitInfo")
    counts = info["operationMetrics"]
    assert {k: counts[k] for k in ("numAddedFiles", "numRemovedFiles", "numOutputRows")} == {
        "numAddedFiles": "1",
        "numRemovedFiles": "0",
        "numOutputRows": "1",
    }
    assert info["userMetadata"] == "from ö"
    finished(writer(files(spark, source, DDL), checkpoint).start(path))
    assert Snapshot.load(path).version == 1
    drop(source, id=[4], name=["d"])
    finished(writer(files(spark, source, DDL), checkpoint).start(path))
    assert batches(path)[2:] == [(kept, 2)]
    assert rows(read(spark, path))[3:] == [(4, "d")]


def test_files_of_a_batch_have_statistics_and_partitions(
    spark: SparkSession, path: str, tmp_path: Path, checkpoint: Path, conf: Callable[[str, str], None]
) -> None:
    conf("spark.sql.session.timeZone", "Asia/Kathmandu")
    at = dt.datetime(2026, 11, 23, 20, tzinfo=dt.timezone.utc)
    drop(tmp_path / "times", id=[1, 2, 3], at=[at, at, None], name=["a", "b", "c"])
    stream = files(spark, tmp_path / "times", "id BIGINT, at TIMESTAMP, name STRING")
    finished(writer(stream, checkpoint).partitionBy("at").start(path))
    adds = actions(path, 0, "add")
    values = sorted(str(add["partitionValues"]["at"]) for add in adds)
    assert len(values) == 2
    assert "None" in values
    assert sum(json.loads(add["stats"])["numRecords"] for add in adds) == 3
    assert rows(read(spark, path).where("at = TIMESTAMP '2026-11-23 20:00:00Z'").select("id")) == [(1,), (2,)]


def test_complete_mode_replaces_all_rows_in_one_commit(
    spark: SparkSession, path: str, source: Path, checkpoint: Path, conf: Callable[[str, str], None]
) -> None:
    # Which partitions a batch overwrites is the query's to say, not the session's.
    conf("spark.sql.sources.partitionOverwriteMode", "dynamic")
    drop(source, id=[3], name=["a"])
    counted = files(spark, source, DDL).groupBy("name").count()
    finished(writer(counted, checkpoint).outputMode("complete").partitionBy("name").start(path))
    assert rows(read(spark, path)) == [("a", 2), ("ö", 1)]
    assert Snapshot.load(path).version == 1
    assert len(actions(path, 1, "remove")) == len(actions(path, 0, "add")) > 0
    said, parameters = operation(path, 1)
    assert (said, parameters["outputMode"]) == ("STREAMING UPDATE", "Complete")


def test_complete_mode_may_replace_the_schema(
    spark: SparkSession, path: str, source: Path, checkpoint: Path, tmp_path: Path
) -> None:
    save(spark.range(3), path)
    counted = files(spark, source, DDL).groupBy("name").count()
    with pytest.raises(errors.InvalidArgument, match="name"):
        writer(counted, checkpoint).outputMode("complete").start(path)
    query = writer(counted, tmp_path / "second", overwriteSchema=True).outputMode("Complete").start(path)
    finished(query)
    assert rows(read(spark, path)) == [("a", 1), ("ö", 1)]
    # In append mode there is nothing to replace, and the option means nothing.
    appended = files(spark, source, DDL).selectExpr("name", "id AS count")
    finished(writer(appended, tmp_path / "third", overwriteSchema=True).start(path))
    assert read(spark, path).count() == 4


def test_a_batch_without_rows_is_a_commit_that_says_how_far_the_query_is(
    spark: SparkSession, path: str, source: Path, checkpoint: Path
) -> None:
    finished(writer(files(spark, source, DDL).where("id > 100"), checkpoint).start(path))
    assert len(batches(path)) == 1
    assert actions(path, 0, "add") == []
    assert read(spark, path).columns == ["id", "name"]


def test_what_cannot_be_is_refused_before_the_query_starts(
    spark: SparkSession, path: str, source: Path, checkpoint: Path, tmp_path: Path
) -> None:
    stream = files(spark, source, DDL)
    counted = stream.groupBy("name").count()
    refused: list[tuple[Callable[[], Any], str, str | None]] = [
        (
            lambda: writer(counted, checkpoint).outputMode("update").start(path),
            "append or complete",
            "DELTA_UNSUPPORTED_OUTPUT_MODE",
        ),
        (lambda: stream.writeStream.format("delta").start(path), "checkpointLocation", None),
        (lambda: writer(stream, checkpoint).start(), "path", None),
        (
            lambda: writer(stream.selectExpr("id", "array(null) AS n"), checkpoint).start(path),
            "always null",
            "DELTA_NULL_SCHEMA_IN_STREAMING_WRITE",
        ),
        (lambda: writer(stream, checkpoint).partitionBy("nosuch").start(path), "nosuch", None),
        (lambda: writer(stream, checkpoint, mergeSchema="perhaps").start(path), "mergeSchema", None),
        (lambda: writer(stream, checkpoint).start(path, partitionBy=["id", "name"]), "partition", None),
    ]
    for start, said, error_class in refused:
        with pytest.raises(errors.InvalidArgument, match=said) as refusal:
            start()
        assert error_class is None or refusal.value.getCondition() == error_class
    assert not Path(path).exists()
    assert not checkpoint.exists()
    save(spark.createDataFrame([(1, "a")], DDL), path)
    before = listing(path)
    for wrong in (stream.selectExpr("*", "1 AS more"), stream.selectExpr("named_struct('x', id) AS id", "name")):
        with pytest.raises(errors.InvalidArgument):
            writer(wrong, checkpoint).start(path)
    with pytest.raises(errors.InvalidArgument, match="partitioned by"):
        writer(stream, checkpoint).partitionBy("name").start(path)
    DeltaTable.forPath(spark, path).setProperties({"delta.appendOnly": "true"})
    with pytest.raises(errors.OperationNotAllowed):
        writer(counted.selectExpr("count AS id", "name"), checkpoint).outputMode("complete").start(path)
    assert [name for name in listing(path) if name not in before and "_delta_log" not in name] == []
    assert not checkpoint.exists()


def test_columns_come_along_where_the_query_merges_schemas(
    spark: SparkSession, path: str, source: Path, checkpoint: Path
) -> None:
    stream = files(spark, source, DDL)
    finished(writer(stream, checkpoint).start(path))
    drop(source, id=[3], name=["c"])
    finished(writer(stream.selectExpr("*", "id * 2 AS twice"), checkpoint, mergeSchema=True).start(path))
    assert rows(read(spark, path)) == [(1, "a", None), (2, "ö", None), (3, "c", 6)]


def test_values_become_those_of_the_table_s_types(
    spark: SparkSession, path: str, source: Path, checkpoint: Path
) -> None:
    save(spark.createDataFrame([], "id INT, name STRING"), path)
    finished(writer(files(spark, source, DDL).selectExpr("CAST(id AS STRING) AS ID", "name"), checkpoint).start(path))
    assert rows(read(spark, path)) == [(1, "a"), (2, "ö")]
    assert Snapshot.load(path).schema.names == ("id", "name")


def test_columns_are_generated_and_rules_hold(
    spark: SparkSession, path: str, source: Path, checkpoint: Path, tmp_path: Path
) -> None:
    builder = DeltaTable.create(spark).location(path).addColumn("id", "BIGINT").addColumn("name", "STRING")
    builder.addColumn("twice", "BIGINT", generatedAlwaysAs="id * 2").execute()
    DeltaTable.forPath(spark, path).addConstraint("small", "id < 10")
    stream = files(spark, source, DDL)
    finished(writer(stream, checkpoint).start(path))
    assert rows(read(spark, path)) == [(1, "a", 2), (2, "ö", 4)]
    version, known = Snapshot.load(path).version, data_files(path)
    drop(source, id=[3, 30], name=["c", "d"])
    said = failure(writer(stream, checkpoint).start(path))
    assert "small" in said
    assert "id < 10" in said
    assert Snapshot.load(path).version == version
    assert data_files(path) == known
    # The same batch is tried again, and lands once the rule is gone.
    DeltaTable.forPath(spark, path).dropConstraint("small")
    finished(writer(stream, checkpoint).start(path))
    assert rows(read(spark, path).select("id", "twice"))[2:] == [(3, 6), (30, 60)]


def test_rows_that_were_deleted_by_vectors_stay_deleted(
    spark: SparkSession, path: str, source: Path, checkpoint: Path
) -> None:
    first = spark.createDataFrame([(7, "x"), (8, "y")], DDL).coalesce(1)
    first.write.format("delta").option("delta.enableDeletionVectors", "true").save(path)
    table = DeltaTable.forPath(spark, path)
    table.delete("id = 7")
    finished(writer(files(spark, source, DDL), checkpoint).start(path))
    assert rows(read(spark, path)) == [(1, "a"), (2, "ö"), (8, "y")]
    vectors = Snapshot.load(path).files(columns=["deletionVector"])["deletionVector"].to_pylist()
    assert sum(vector is not None for vector in vectors) == 1


def test_a_table_of_mapped_columns_takes_a_stream(
    spark: SparkSession, path: str, source: Path, checkpoint: Path
) -> None:
    stream = files(spark, source, DDL).withColumnRenamed("name", "a.`b` ,c")
    finished(writer(stream, checkpoint, **{"delta.columnMapping.mode": "name"}).start(path))
    assert rows(read(spark, path)) == [(1, "a"), (2, "ö")]
    assert read(spark, path).columns == ["id", "a.`b` ,c"]


def test_a_stream_may_create_a_clustered_table(spark: SparkSession, path: str, source: Path, checkpoint: Path) -> None:
    writer_of = writer(files(spark, source, DDL), checkpoint)
    if not hasattr(writer_of, "clusterBy"):
        pytest.skip("this release of PySpark has no clusterBy for streams")
    finished(writer_of.clusterBy("name").start(path))
    assert [tuple(row) for row in DeltaTable.forPath(spark, path).detail().select("clusteringColumns").collect()] == [
        (["name"],)
    ]


def test_the_session_says_where_checkpoints_are(
    spark: SparkSession, path: str, source: Path, tmp_path: Path, conf: Callable[[str, str], None]
) -> None:
    conf("spark.sql.streaming.checkpointLocation", str(tmp_path / "all"))
    stream = files(spark, source, DDL).writeStream.format("delta").trigger(availableNow=True)
    finished(stream.queryName("mine").start(path))
    finished(stream.queryName("mine").start(path))
    assert [batch for _, batch in batches(path)] == [0]
    assert (tmp_path / "all" / "mine" / "metadata").exists()


def test_other_sinks_are_spark_s(spark: SparkSession, path: str, source: Path, checkpoint: Path) -> None:
    query = files(spark, source, DDL).writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
    finished(query.trigger(availableNow=True).start(path))
    assert spark.read.parquet(path).count() == 2
    assert not (Path(path) / "_delta_log").exists()


def test_a_function_of_the_user_may_write_each_batch_once(
    spark: SparkSession, path: str, source: Path, checkpoint: Path
) -> None:
    def written(frame: Any, batch_id: int) -> None:
        for _ in range(2):
            options = {"txnAppId": "mine", "txnVersion": str(batch_id)}
            frame.write.format("delta").mode("append").options(**options).save(path)

    stream = files(spark, source, DDL).writeStream.foreachBatch(written).trigger(availableNow=True)
    finished(stream.option("checkpointLocation", str(checkpoint)).start())
    assert rows(read(spark, path)) == [(1, "a"), (2, "ö")]


@pytest.mark.classic
def test_the_rows_of_a_batch_are_read_once(spark: SparkSession, path: str, source: Path, checkpoint: Path) -> None:
    query = finished(writer(files(spark, source, DDL), checkpoint).partitionBy("name").start(path))
    assert query.lastProgress["numInputRows"] == 2
    finished(
        writer(files(spark, source, DDL).groupBy("name").count(), checkpoint.with_name("other"))
        .outputMode("complete")
        .start(path + "_counted")
    )
    assert query.lastProgress["numInputRows"] == 2


def test_an_optimized_write_makes_few_files(
    spark: SparkSession, path: str, tmp_path: Path, checkpoint: Path, conf: Callable[[str, str], None]
) -> None:
    conf("spark.sql.files.openCostInBytes", str(128 << 20))
    for number in range(4):
        drop(tmp_path / "many", id=[number, number], name=["a", "b"])
    stream = files(spark, tmp_path / "many", DDL, per_batch=4)
    finished(writer(stream, checkpoint).partitionBy("name").start(path + "_plain"))
    assert len(data_files(path + "_plain")) > 2
    optimized = writer(stream, checkpoint.with_name("other"), optimizeWrite=True).partitionBy("name")
    finished(optimized.start(path))
    assert len(data_files(path)) == 2


@pytest.mark.classic
def test_continuous_processing_is_refused_by_spark(
    spark: SparkSession, path: str, source: Path, checkpoint: Path
) -> None:
    stream = spark.readStream.format("rate").load().writeStream.format("delta")
    stream = stream.option("checkpointLocation", str(checkpoint)).trigger(continuous="1 second")
    with pytest.raises(Exception, match=r"(?i)continuous"):
        stream.start(path).awaitTermination()
    assert not Path(path).exists()


@pytest.mark.modes
def test_a_session_that_opts_out_streams_as_spark_does(
    spark: SparkSession, path: str, source: Path, checkpoint: Path, conf: Callable[[str, str], None]
) -> None:
    conf(ENABLED, "false")
    with pytest.raises(Exception, match="delta") as refusal:
        finished(writer(files(spark, source, DDL), checkpoint).start(path))
    assert not isinstance(refusal.value, errors.SlackwaterError)
    assert not Path(path).exists()
