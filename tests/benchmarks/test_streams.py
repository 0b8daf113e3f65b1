"""The benchmarks of streams run, and every batch is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from benchmarks.scales import SMALL
from benchmarks.streams import sinks, sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.classic]


def test_streams_into_tables_are_measured(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # delta-spark beside it is for a run of the benchmarks themselves.
    monkeypatch.setattr(sinks, "find", lambda: None)
    rows = sinks.measure_sinks(spark, sinks.SINKS, tmp_path, SMALL, {})
    assert [(row.case, row.answers) for row in rows] == [
        ("stream-sink", ((SMALL.micro_batches * SMALL.micro_batch_rows, SMALL.micro_batches),)),
        ("stream-empty", ((0, SMALL.micro_batches),)),
    ]
    assert all(row.ours > 0 and row.note for row in rows)


def test_streams_out_of_tables_are_measured(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "find", lambda: None)
    rows = sources.measure_sources(spark, sources.SOURCES, tmp_path, SMALL, {})
    answers = {row.case: row.answers for row in rows}
    assert answers["stream-drain"] == (SMALL.rows,)
    assert 0 < answers["stream-drain-narrow"][0] <= SMALL.rows
    assert (answers["stream-first"], answers["stream-tables"]) == ((1,), (2 * SMALL.micro_batch_rows,))
    assert all(row.ours > 0 for row in rows)
