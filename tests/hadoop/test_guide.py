"""The lines of the guide to object stores that are about HDFS, on the Hadoop file systems that there are."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import slackwater
from tests.hadoop.places import KINDS, root_of
from tests.stores.documents import blocks, run

pytestmark = [pytest.mark.spark, pytest.mark.classic]


@pytest.mark.parametrize("kind", KINDS)
def test_the_line_about_hdfs(spark: SparkSession, kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    slackwater.enable(spark)
    root = root_of(kind, spark, tmp_path, lambda: str(request.getfixturevalue("hdfs_root")))
    *_, of_hdfs = blocks("docs/guides/stores.md")
    run(of_hdfs, {"df": spark.range(3)}, {"hdfs://namenode/lake": f"{root}/guide-{kind}"})
    assert spark.read.format("delta").load(f"{root}/guide-{kind}/flights").count() == 3
