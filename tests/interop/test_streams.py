"""Streams that delta-spark and we write in turns: one checkpoint, one history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.streams.queries import batches, drop, files, finished, writer

from .delta_spark import DeltaSpark

pytestmark = [pytest.mark.spark, pytest.mark.classic]

DDL = "id BIGINT, name STRING"


def _ours(spark: SparkSession, source: Path, path: str, checkpoint: Path, counted_by: str = "") -> None:
    frame = files(spark, source, DDL)
    counted = frame.groupBy(counted_by).count() if counted_by else frame
    finished(writer(counted, checkpoint).outputMode("complete" if counted_by else "append").start(path))


@pytest.mark.parametrize("first", ["delta-spark", "ours"])
def test_a_query_goes_on_with_the_other_engine(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path, first: str
) -> None:
    source, path, checkpoint = tmp_path / "source", str(tmp_path / "t"), tmp_path / "check"
    turns = ["delta-spark", "ours", "delta-spark", "ours"]
    for number, engine in enumerate(turns if first == "delta-spark" else turns[1:]):
        drop(source, id=[number], name=[f"ö {number}"])
        if engine == "ours":
            _ours(ours, source, path, checkpoint)
        else:
            delta_spark.stream(source, DDL, path, checkpoint)
    count = len(list(source.iterdir()))
    found = batches(path)
    assert [number for _, number in found] == list(range(count))
    assert len({query for query, _ in found}) == 1
    expected = [(number, f"ö {number}") for number in range(count)]
    assert sorted(tuple(row) for row in ours.read.format("delta").load(path).collect()) == expected
    delta_spark.forget()
    assert delta_spark.read(path).rows.sort_by("id").to_pydict()["id"] == [number for number, _ in expected]


@pytest.mark.parametrize("engine", ["delta-spark", "ours"])
def test_a_batch_that_the_other_engine_committed_is_skipped(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path, engine: str
) -> None:
    source, path, checkpoint = tmp_path / "source", str(tmp_path / "t"), tmp_path / "check"
    drop(source, id=[1], name=["a"])
    write = {
        "ours": lambda: _ours(ours, source, path, checkpoint),
        "delta-spark": lambda: delta_spark.stream(source, DDL, path, checkpoint),
    }
    write[engine]()
    for name in ("0", ".0.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    delta_spark.forget()
    write["ours" if engine == "delta-spark" else "delta-spark"]()
    assert [number for _, number in batches(path)] == [0]


@pytest.mark.parametrize("counted_by", ["", "name"])
def test_histories_say_the_same(ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path, counted_by: str) -> None:
    source = tmp_path / "source"
    drop(source, id=[1, 2], name=["a", "b"])
    drop(source, id=[3], name=["a"])
    _ours(ours, source, str(tmp_path / "ours"), tmp_path / "check-ours", counted_by)
    delta_spark.stream(source, DDL, str(tmp_path / "theirs"), tmp_path / "check-theirs", counted_by)

    def told(path: str) -> list[Any]:
        (query,) = {query for query, _ in batches(path)}
        found = []
        for row in delta_spark.history(path):
            counts = dict(row["operationMetrics"])
            # Files are as many, and as large, as the session's partitions make them.
            assert int(counts.pop("numOutputBytes")) > 0
            files_of = {name: int(counts.pop(name)) > 0 for name in ("numAddedFiles", "numRemovedFiles")}
            parameters = {k: str(v).replace(query, "query") for k, v in row["operationParameters"]}
            found.append((row["version"], row["operation"], parameters, counts, files_of))
        return found

    assert told(str(tmp_path / "ours")) == told(str(tmp_path / "theirs"))
