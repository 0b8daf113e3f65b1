"""Tables of UniForm made by delta-spark without its package for Iceberg: neither writer adds Iceberg metadata."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slackwater import Snapshot

from .delta_spark import DeltaSpark
from .rows import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop


def test_we_write_a_table_of_uniform_like_delta_spark(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    delta_spark.run(
        f"CREATE TABLE delta.`{path}` (id INT) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
        "'delta.enableIcebergCompatV2' = 'true', 'delta.universalFormat.enabledFormats' = 'iceberg')"
    )
    delta_spark.run(f"INSERT INTO delta.`{path}` VALUES (1), (2)")
    ours.sql(f"INSERT INTO delta.`{path}` VALUES (3)")
    ours.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    delta_spark.run(f"INSERT INTO delta.`{path}` VALUES (4)")
    assert rows_of(ours.read.format("delta").load(path).toArrow()) == rows_of(delta_spark.read(path).rows)
    assert Snapshot.load(path).metadata.configuration["delta.universalFormat.enabledFormats"] == "iceberg"
    assert not (tmp_path / "t" / "metadata").exists()
