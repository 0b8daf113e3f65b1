"""Streams over logs that lose commits, schemas that change several times, and types that are narrowed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from slackwater import DeltaTable
from tests.spark.committed import actions, commit_file
from tests.spark.streams.queries import append, done_batches, failure, finished, writer

pytestmark = [pytest.mark.spark, pytest.mark.shared, pytest.mark.usefixtures("enabled")]


class Interrupted:
    """A query over versions 0 to 2, one a batch, whose batch 1 was planned, and failed before it was carried out."""

    def __init__(self, spark: SparkSession, path: str, place: Path) -> None:
        self.spark, self.path, self.checkpoint = spark, path, place / "checkpoint"
        self.out = place / "out"
        for number in range(3):
            append(spark, path, f"{number} AS id")
        broken = self.checkpoint / "broken"

        def write(frame: DataFrame, number: int) -> None:
            if number == 1 and not broken.exists():
                raise ValueError("batch 1 fails")
            frame.write.mode("append").json(str(self.out))

        self.write = write
        assert "batch 1 fails" in failure(self.start())
        broken.touch()
        assert done_batches(self.checkpoint) == [0]

    def start(self, **options: str) -> Any:
        stream = self.spark.readStream.format("delta").option("startingVersion", "0").option("maxFilesPerTrigger", 1)
        frame = stream.options(**options).load(self.path)
        sink = frame.writeStream.foreachBatch(self.write).option("checkpointLocation", str(self.checkpoint))
        return sink.trigger(availableNow=True).start()

    def ids(self) -> list[int]:
        texts = [file.read_text() for file in self.out.glob("*.json")]
        return sorted(json.loads(line)["id"] for text in texts for line in text.splitlines())


@pytest.mark.parametrize("lost", ["last", "interior", "data file"])
def test_what_a_planned_batch_needs_and_is_gone_fails_the_query(
    spark: SparkSession, path: str, tmp_path: Path, lost: str
) -> None:
    query = Interrupted(spark, path, tmp_path)
    if lost == "data file":
        (file,) = (add["path"] for add in actions(path, 1, "add"))
        (Path(path) / file).unlink()
    else:
        DeltaTable.forPath(spark, path).checkpoint()
        commit_file(path, 1).unlink()
    if lost == "last":
        commit_file(path, 2).unlink()
    said = failure(query.start())
    assert ("version 1" in said) if lost != "data file" else ("VACUUM may have deleted it" in said), said
    assert done_batches(query.checkpoint) == [0]
    assert query.ids() == [0]


@pytest.mark.long
def test_tracked_schemas_end_with_that_of_a_commit_of_protocol_only(
    spark: SparkSession, path: str, tmp_path: Path
) -> None:
    append(spark, path, "1 AS a, 1 AS b, 1 AS c", **{"delta.columnMapping.mode": "name"})

    def start() -> Any:
        stream = spark.readStream.format("delta").option("schemaTrackingLocation", str(tmp_path / "checkpoint/schemas"))
        allowed = {"allowSourceColumnRename": "always", "allowSourceColumnDrop": "always"}
        frame = stream.options(**allowed).load(path)
        sink = {"mergeSchema": "true", "delta.columnMapping.mode": "name"}
        return writer(frame, tmp_path / "checkpoint", **sink).start(str(tmp_path / "out"))

    finished(start())
    table = DeltaTable.forPath(spark, path)
    table.renameColumn("a", "first")
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN d INT")
    spark.sql(f"ALTER TABLE delta.`{path}` DROP COLUMN c")
    table.addFeatureSupport("deletionVectors")
    append(spark, path, "2 AS first, 2 AS b, 2 AS d")
    for _ in range(6):
        query = start()
        try:
            query.awaitTermination()
        except Exception:  # noqa: BLE001  (classic and Connect have classes of their own)
            assert "Start the query again" in str(query.exception())
        else:
            break
    # Changes of one commit each: of them all, the last one too, the stream was told.
    entries = sorted(int(entry.name) for entry in (tmp_path / "checkpoint" / "schemas").glob("_schema_log_*/*"))
    assert entries == [0, 1, 2, 3, 4]
    written = spark.read.format("delta").load(str(tmp_path / "out"))
    assert written.columns == ["a", "b", "c", "first", "d"]
    assert sorted(map(tuple, written.collect()), key=repr) == [(1, 1, 1, None, None), (None, 2, None, 2, 2)]


@pytest.mark.long
def test_rows_of_an_identity_column_are_no_change_of_schema(spark: SparkSession, path: str, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT GENERATED ALWAYS AS IDENTITY, v INT) USING delta")
    stream = spark.readStream.format("delta").load(path)
    tracked = spark.readStream.format("delta").option("schemaTrackingLocation", str(tmp_path / "c2/schemas")).load(path)
    for number in range(5):
        spark.sql(f"INSERT INTO delta.`{path}` (v) VALUES ({number})")
        if number % 2 == 0:
            finished(writer(stream, tmp_path / "c1").start(str(tmp_path / "out1")))
            finished(writer(tracked, tmp_path / "c2").start(str(tmp_path / "out2")))
    for out in ("out1", "out2"):
        written = spark.read.format("delta").load(str(tmp_path / out)).collect()
        assert sorted(map(tuple, written)) == [(number + 1, number) for number in range(5)]


def test_a_stream_stops_where_overwriting_narrows_a_type(spark: SparkSession, path: str, tmp_path: Path) -> None:
    append(spark, path, "5000000000L AS id")
    stream = spark.readStream.format("delta").option("ignoreChanges", "true").load(path)
    query = writer(stream, tmp_path / "checkpoint").start(str(tmp_path / "out"))
    finished(query)
    narrow = spark.sql("SELECT 7 AS id").write.format("delta").mode("overwrite")
    narrow.option("overwriteSchema", "true").save(path)
    assert "another schema" in failure(writer(stream, tmp_path / "checkpoint").start(str(tmp_path / "out")))
    # The next run reads the narrow type, and the sink keeps its wide one.
    again = spark.readStream.format("delta").option("ignoreChanges", "true").load(path)
    assert again.dtypes == [("id", "int")]
    finished(writer(again, tmp_path / "checkpoint").start(str(tmp_path / "out")))
    written = spark.read.format("delta").load(str(tmp_path / "out"))
    assert (written.dtypes, sorted(row.id for row in written.collect())) == ([("id", "bigint")], [7, 5_000_000_000])
