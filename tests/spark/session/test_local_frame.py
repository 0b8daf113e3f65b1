"""Frames of rows that this process has: as PySpark makes them, and without Python on executors."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from slackwater import DeltaTable, Lake
from slackwater.spark.session.frames import empty_frame
from slackwater.spark.session.local_frame import local_frame, result_frame
from tests.html.well_formed import words
from tests.spark.written import read, save

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

_NOW = dt.datetime(2026, 3, 1, 12, 30, 0, 5)
_STRUCT = spark_types.StructType().add("a", "long").add("at", "timestamp")
_SCHEMA = (
    spark_types.StructType()
    .add("n", "long", nullable=False)
    .add("at", "timestamp")
    .add("s", _STRUCT)
    .add("m", spark_types.MapType(spark_types.StringType(), spark_types.MapType(spark_types.StringType(), _STRUCT)))
    .add("l", spark_types.ArrayType(spark_types.TimestampType()), metadata={"comment": "of times"})
)
_ROWS: list[tuple[Any, ...]] = [
    (1, _NOW, (2, _NOW), {"x": {"y": (None, _NOW), "z": None}}, [_NOW, None]),
    (2, _NOW.replace(tzinfo=dt.timezone.utc), None, {}, []),
    (3, None, (None, None), None, None),
]


def test_rows_are_those_that_spark_itself_would_make(spark: SparkSession) -> None:
    for given in (_ROWS, []):
        expected, found = spark.createDataFrame(given, _SCHEMA), local_frame(spark, given, _SCHEMA)
        assert found.schema == expected.schema == empty_frame(spark, _SCHEMA).schema == _SCHEMA
        assert found.collect() == expected.collect()
    assert empty_frame(spark, spark_types.StructType().add("v", spark_types.NullType())).collect() == []


@pytest.mark.classic
def test_frames_of_what_this_process_knows_need_no_python_of_executors(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.range(0), path, **{"delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true"})
    table = DeltaTable.forPath(spark, str(path))
    merged = table.alias("t").merge(spark.range(2), "false").whenNotMatchedInsert(values={"id": "id"}).execute()
    with Lake.open(tmp_path / "lake", spark=spark) as lake:
        lake.create_table("of", "id long")
        frames = {
            "history": table.history(),
            "detail": table.detail(),
            "merged": merged,
            "no rows": read(spark, path, versionAsOf="0"),
            "no changes": read(spark, path, readChangeFeed="true", startingVersion="0", endingVersion="0"),
            "no lake": lake.table("of").toDF(),
        }
        assert {name for name, frame in frames.items() if "Python" in _lineage(frame)} == set()
    assert "Python" in _lineage(spark.createDataFrame([(1,)], "id long"))


def _lineage(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().toRdd().toDebugString())


def test_what_a_call_answers_is_a_frame_with_a_card_and_a_line_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    spark.range(4).write.format("delta").save(place)
    table = DeltaTable.forPath(spark, place)
    source = spark.range(3, 6).alias("s")
    merged = table.alias("t").merge(source, "t.id = s.id").whenMatchedDelete().whenNotMatchedInsertAll().execute()
    table.setProperties({"my.token": "hunter2"})
    history = table.history()
    assert repr(merged) == (
        "<DataFrame of MERGE: num_affected_rows 3, num_updated_rows 0, num_deleted_rows 1, num_inserted_rows 2>"
    )
    assert repr(history).startswith(f"<DataFrame of the history of {place}: 3 rows, the first: version 2, timestamp ")
    shown = history._repr_html_()
    assert shown is not None
    assert "MERGE" in words(shown)
    assert "hunter2" not in shown + repr(history)
    answers = {
        "num_deleted_rows 1": merged,
        "numFiles": table.detail(),
        "metrics.numFilesRemoved": table.optimize().executeCompaction(),
        "num_restored_files": table.restoreToVersion(0),
        place: table.vacuum(),
        "no rows": table.vacuum(dry_run=True),
    }
    for said, frame in answers.items():
        assert said in words(frame._repr_html_())
        assert isinstance(frame, DataFrame)
        assert frame.select("*").collect() == frame.collect()


def test_no_job_runs_for_the_card_of_an_answer_and_none_is_lost_for_its_frame(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(1, _NOW, (2, None), None, None)] * 30
    frame = result_frame(spark, rows, _SCHEMA, "a call", ["n", "at"])
    for name in ("collect", "toArrow", "_show_string", "toPandas"):
        monkeypatch.setattr(type(frame), name, None, raising=False)
    assert "and 10 rows more" in words(frame._repr_html_())
    assert repr(frame).startswith("<DataFrame of a call: 30 rows, the first: n 1, at ")
    monkeypatch.undo()
    assert frame.where("n = 1").join(frame.limit(1), "n").count() == 30
    assert frame.schema == _SCHEMA
    assert repr(frame.select("n")) == "DataFrame[n: bigint]"


def test_a_session_that_evaluates_eagerly_shows_answers_as_it_shows_other_frames(
    spark: SparkSession, conf: Callable[[str, str], None]
) -> None:
    frame = result_frame(spark, [(1,)], spark_types.StructType().add("n", "long"), "a call")
    conf("spark.sql.repl.eagerEval.enabled", "true")
    assert repr(frame).startswith("+---+")
    shown = frame._repr_html_()
    assert shown is not None
    assert shown.startswith("<table border='1'>")


def test_a_lake_answers_with_cards(spark: SparkSession, tmp_path: Path) -> None:
    with Lake.open(tmp_path / "lake", spark=spark) as lake:
        lake.create_table("stock", "id BIGINT")
        now = lake.run(lambda tx: tx.current_timestamp())
        lake.table("stock").setProperties({"team": "sales"})
        assert "Lake.history" in words(lake.history()._repr_html_())
        assert "stock 1" in repr(lake.history(limit=1))
        assert repr(lake.restore(now)).startswith("<DataFrame of Lake.restore: table stock, version 0, ")
        assert "Lake.clone" in words(lake.clone(now, str(tmp_path / "other"))._repr_html_())
