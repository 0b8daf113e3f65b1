"""Tables that delta-spark and we read as streams in turns: one checkpoint, every row once."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater.streams.offsets import SourceOffset
from tests.spark.streams.queries import finished, writer

from .delta_spark import DeltaSpark

pytestmark = [pytest.mark.spark, pytest.mark.classic]

# The turns of the one that delta-spark begins hold those of the other.
FIRST = ["delta-spark", pytest.param("ours", marks=pytest.mark.long)]


def _ours(spark: SparkSession, source: str, path: str, checkpoint: Path, **options: str) -> None:
    stream = spark.readStream.format("delta").options(**options).load(source)
    finished(writer(stream, checkpoint, mergeSchema="true").start(path))


def _stream(
    engine: str, ours: SparkSession, theirs: DeltaSpark, source: str, path: str, checkpoint: Path, **options: str
) -> None:
    if engine == "ours":
        _ours(ours, source, path, checkpoint, **options)
    else:
        theirs.forget()
        theirs.stream_table(source, path, checkpoint, **options)


def _append(spark: SparkSession, path: str, start: int, files: int = 3) -> None:
    spark.range(start, start + 10, 1, files).write.format("delta").mode("append").save(path)


def _ids(spark: SparkSession, path: str, **options: Any) -> list[int]:
    return sorted(row[0] for row in spark.read.format("delta").options(**options).load(path).collect())


@pytest.mark.parametrize("first", FIRST)
def test_a_query_on_a_table_goes_on_with_the_other_engine(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path, first: str
) -> None:
    source, path, checkpoint = str(tmp_path / "s"), str(tmp_path / "t"), tmp_path / "check"
    turns = ["delta-spark", "ours", "delta-spark", "ours"]
    for number, engine in enumerate(turns if first == "delta-spark" else turns[1:]):
        _append(ours, source, 10 * number)
        if number == 1:
            # Files that only hold what was there do not come again, whoever reads on.
            slackwater.DeltaTable.forPath(ours, source).optimize().executeCompaction()
        _stream(engine, ours, delta_spark, source, path, checkpoint, maxFilesPerTrigger="2")
        assert _ids(ours, path) == list(range(10 * (number + 1)))


@pytest.mark.parametrize(
    "start",
    [pytest.param({}, id="snapshot"), pytest.param({"startingVersion": "0"}, id="commits", marks=pytest.mark.long)],
)
@pytest.mark.parametrize(("first", "second"), [("delta-spark", "ours"), ("ours", "delta-spark")])
@pytest.mark.long
def test_a_checkpoint_amid_a_version_is_read_alike(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path, first: str, second: str, start: dict[str, str]
) -> None:
    source, checkpoint = str(tmp_path / "s"), tmp_path / "check"
    _append(ours, source, 0, files=5)
    _append(ours, source, 10, files=5)
    options = {"maxFilesPerTrigger": "1", **start}
    _stream(first, ours, delta_spark, source, str(tmp_path / "whole"), checkpoint, **options)
    assert _ids(ours, str(tmp_path / "whole")) == list(range(20))
    done = 3
    for folder in ("offsets", "commits"):
        for file in (checkpoint / folder).iterdir():
            if file.name.strip(".").partition(".")[0].isdigit() and int(file.name.strip(".").partition(".")[0]) >= done:
                file.unlink()
    before = _ids(ours, str(tmp_path / "whole"), versionAsOf=done - 1)
    _stream(second, ours, delta_spark, source, str(tmp_path / "rest"), checkpoint, **options)
    assert sorted(before + _ids(ours, str(tmp_path / "rest"))) == list(range(20))
    assert len(before) == 2 * done


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.long
def test_a_change_feed_is_followed_in_turns(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path, first: str
) -> None:
    source, path, checkpoint = str(tmp_path / "s"), str(tmp_path / "t"), tmp_path / "check"
    ours.range(0, 6, 1, 2).write.format("delta").option("delta.enableChangeDataFeed", "true").save(source)
    table = slackwater.DeltaTable.forPath(ours, source)
    turns = ["delta-spark", "ours", "delta-spark", "ours"]
    for number, engine in enumerate(turns if first == "delta-spark" else turns[1:]):
        _append(ours, source, 10 * (number + 1))
        table.delete(f"id = {number}")
        table.update("id = 5", {"id": "id"})
        options = {"readChangeFeed": "true", "startingVersion": "0", "maxFilesPerTrigger": "1"}
        _stream(engine, ours, delta_spark, source, path, checkpoint, **options)
        expected = ours.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(source)
        found = ours.read.format("delta").load(path)
        assert sorted(map(tuple, found.collect())) == sorted(map(tuple, expected.collect()))


def test_changes_of_schema_are_followed_in_turns(ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path) -> None:
    source, path, checkpoint = str(tmp_path / "s"), str(tmp_path / "t"), tmp_path / "check"
    options = {"schemaTrackingLocation": str(checkpoint / "schemas"), "allowSourceColumnRename": "always"}
    names = ["v", "w", "x", "y"]
    mapped = {"delta.columnMapping.mode": "name"}
    ours.sql("SELECT 0 AS id, 'a' AS v").write.format("delta").options(**mapped).save(source)
    ours.sql("SELECT 0 AS id, 'a' AS v").limit(0).write.format("delta").options(**mapped).save(path)
    _stream("delta-spark", ours, delta_spark, source, path, checkpoint, **options)
    for number, (before, after) in enumerate(pairwise(names), 1):
        # Either writes the new schema down for the other, and reads what the other has written down.
        ends, goes_on = ("ours", "delta-spark") if number % 2 else ("delta-spark", "ours")
        slackwater.DeltaTable.forPath(ours, source).renameColumn(before, after)
        ours.sql(f"SELECT {number} AS id, 'a' AS {after}").write.format("delta").mode("append").save(source)
        with pytest.raises(Exception, match=r"(?i)start the (query|stream)"):
            _stream(ends, ours, delta_spark, source, path, checkpoint, **options)
        _stream(goes_on, ours, delta_spark, source, path, checkpoint, **options)
    rows = ours.read.format("delta").load(path).collect()
    found = [{name: value for name, value in row.asDict().items() if value is not None} for row in rows]
    assert sorted(found, key=lambda row: row["id"]) == [{"id": at, name: "a"} for at, name in enumerate(names)]


def test_an_offset_of_ours_that_says_where_a_stream_began_is_read_by_delta_spark(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    source, path, checkpoint = str(tmp_path / "s"), str(tmp_path / "t"), tmp_path / "check"
    _append(ours, source, 0)
    _ours(ours, source, path, checkpoint)
    # As it is where rows came between the start of a query and its first batch.
    offset = checkpoint / "offsets" / "0"
    header, settings, of_source = offset.read_text(encoding="utf-8").splitlines()
    told = json.dumps(replace(SourceOffset.from_json(json.loads(of_source)), started=0).to_json())
    offset.write_text(f"{header}\n{settings}\n{told}", encoding="utf-8")
    (checkpoint / "offsets" / ".0.crc").unlink()
    _append(ours, source, 10)
    delta_spark.stream_table(source, path, checkpoint)
    assert _ids(ours, path) == list(range(20))
