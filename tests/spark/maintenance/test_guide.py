"""The lines of the guide to maintenance, as they stand but for places and times."""

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

GUIDE = "docs/guides/maintenance.md"


def test_the_lines_of_the_guide(spark: SparkSession, tmp_path: Path, conf: Any) -> None:
    for setting in (
        "spark.databricks.delta.retentionDurationCheck.enabled",
        "spark.slackwater.allowPathsOutsideRoot",
    ):
        conf(setting, "true" if "retention" in setting else "false")
    frame = spark.createDataFrame([(12, "XX", "Bob"), (1, "AA", "Ann")], "month INT, carrier STRING, name STRING")
    slackwater.enable(spark)
    path = str(tmp_path / "flights")
    for _ in range(3):
        frame.coalesce(1).write.format("delta").mode("append").partitionBy("month").save(path)
    with slackwater.Lake.open(tmp_path / "lake", spark=spark) as lake:
        lake.create_table("orders", frame.schema)
    # A moment that all of them know.
    moment = slackwater.Snapshot.load(str(tmp_path / "lake" / "orders")).timestamp_ms
    late = slackwater.Snapshot.load(path).timestamp_ms
    local = spark.sql(f"SELECT cast(timestamp_millis({late}) AS STRING)").collect()[0][0]
    names: dict[str, Any] = {"spark": spark}
    places = {"/data/": f"{tmp_path}/", '"2026-11-21T10:00:00Z"': str(moment), "2026-11-21 10:00:00": local}
    for block in blocks(GUIDE):
        run(block, names, {old: new for old, new in places.items() if old in block})
    names["lake"].close()
    assert {row.name for row in names["table"].toDF().collect()} == {"Ann"}
    assert (tmp_path / "lake_test" / "orders" / "_delta_log").is_dir()


def test_the_commands_of_the_guide(spark: SparkSession, tmp_path: Path) -> None:
    slackwater.enable(spark)
    for _ in range(2):
        spark.range(3).write.format("delta").mode("append").save(str(tmp_path / "flights"))
    (block,) = blocks(GUIDE, "console")
    for line in block.replace("/data/", f"{tmp_path}/").splitlines():
        program, *arguments = shlex.split(line, comments=True)
        result = run_command(*arguments)
        assert (program, result.exit_code) == ("slackwater", 0), result.output
