"""The lines of the guide to object stores, as they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slackwater
from tests.stores.conftest import as_environment_says
from tests.stores.documents import blocks, run
from tests.stores.servers import Place

pytestmark = pytest.mark.spark


def test_the_lines_of_the_guide(
    spark: SparkSession, s3: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in as_environment_says(s3).items():
        monkeypatch.setenv(key, value)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    first, of_the_session, of_one_table, with_a_connector, _of_hdfs = blocks("docs/guides/stores.md")
    root = f"{s3.url}/guide"
    run(first, names, {})
    run(of_the_session, names, {"s3a://bucket": root})
    names["lake"].close()
    run(of_one_table, names, {"s3a://bucket": root})
    run(with_a_connector, {"SparkSession": SparkSession}, {})
    left = spark.read.format("delta").load(f"{root}/flights").collect()
    assert sorted((row.month, row.carrier) for row in left) == [
        (1, "AA"),
        (1, "AA"),
        (12, "AA"),
        (12, "AA"),
        (12, "XX"),
    ]
    assert slackwater.Snapshot.load(f"{root}/flights").version == 2
