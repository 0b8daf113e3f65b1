"""The lines of the guide to converting, as they stand but for places."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slackwater
from tests.cli.commands import run as run_command
from tests.stores.documents import blocks, run

pytestmark = [pytest.mark.spark, pytest.mark.classic]

GUIDE = "docs/guides/convert.md"


@pytest.fixture
def flights(spark: SparkSession, tmp_path: Path) -> Path:
    """Two flights as Parquet files in directories of months and days."""
    frame = spark.sql(
        "SELECT * FROM VALUES ('AA', 3, DATE '2026-03-01'), ('XX', 4, DATE '2026-04-01') AS f(carrier, month, day)"
    )
    frame.write.partitionBy("month", "day").parquet(str(tmp_path / "flights"))
    return tmp_path / "flights"


def test_the_lines_of_the_guide(spark: SparkSession, flights: Path) -> None:
    names: dict[str, Any] = {"spark": spark}
    (block,) = blocks(GUIDE)
    run(block, names, {"/data/flights": str(flights)})
    assert [(row.carrier, row.month) for row in names["table"].toDF().collect()] == [("AA", 3)]
    assert (flights / "_symlink_format_manifest/month=3/day=2026-03-01/manifest").is_file()


def test_the_commands_of_the_guide(flights: Path) -> None:
    (block,) = blocks(GUIDE, "console")
    for line in block.replace("/data/", f"{flights.parent}/").splitlines():
        program, *arguments = shlex.split(line)
        result = run_command(*arguments)
        assert (program, result.exit_code) == ("slackwater", 0), result.output
    assert slackwater.Snapshot.load(flights).metadata.partition_columns == ("month", "day")
    assert (flights / "_symlink_format_manifest/month=4/day=2026-04-01/manifest").is_file()
