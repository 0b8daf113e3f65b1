"""The lines of the guide to converting, as they stand but for places."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slackwater
from tests.cli.commands import run as run_command
from tests.stores.documents import blocks, run_document

pytestmark = [pytest.mark.spark, pytest.mark.classic]

GUIDE = "docs/guides/convert.md"


def test_the_lines_of_the_guide(spark: SparkSession, tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    run_document(GUIDE, names, {"work/": f"{tmp_path}/"})
    assert [(row.carrier, row.month) for row in names["table"].toDF().collect()] == [("AA", 3)]
    assert (tmp_path / "flights/_symlink_format_manifest/month=3/day=2026-03-01/manifest").is_file()
    (block,) = blocks(GUIDE, "console")
    for line in block.replace("work/", f"{tmp_path}/").splitlines():
        program, *arguments = shlex.split(line)
        result = run_command(*arguments)
        assert (program, result.exit_code) == ("slackwater", 0), result.output
    departures = tmp_path / "departures"
    assert slackwater.Snapshot.load(departures).metadata.partition_columns == ("month", "day")
    assert (departures / "_symlink_format_manifest/month=4/day=2026-04-01/manifest").is_file()
