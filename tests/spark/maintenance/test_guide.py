"""The lines of the guide to maintenance, as they stand but for places."""

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

GUIDE = "docs/guides/maintenance.md"


def test_the_lines_of_the_guide(spark: SparkSession, tmp_path: Path, conf: Any) -> None:
    for setting in (
        "spark.databricks.delta.retentionDurationCheck.enabled",
        "spark.slackwater.allowPathsOutsideRoot",
    ):
        conf(setting, "true" if "retention" in setting else "false")
    names: dict[str, Any] = {}
    run_document(GUIDE, names, {"work/": f"{tmp_path}/"})
    names["lake"].close()
    assert {row.name for row in names["table"].toDF().collect()} == {"Ann"}
    assert (tmp_path / "lake_test" / "orders" / "_delta_log").is_dir()
    assert len(_live(tmp_path / "lake_to_maintain" / "orders")) == 1


def _live(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = slackwater.Snapshot.load(path).files(columns=["path"]).to_pylist()
    return found


def test_the_commands_of_the_guide(spark: SparkSession, tmp_path: Path) -> None:
    for _ in range(2):
        spark.range(3).write.format("delta").mode("append").save(str(tmp_path / "flights"))
    with slackwater.Lake.open(tmp_path / "lake_to_maintain", spark=spark) as lake:
        lake.create_table("orders", "id BIGINT")
    for line in "".join(blocks(GUIDE, "console")).replace("work/", f"{tmp_path}/").splitlines():
        program, *arguments = shlex.split(line, comments=True)
        result = run_command(*arguments)
        assert (program, result.exit_code) == ("slackwater", 0), result.output
