"""Azure's short URLs, and tables in Google's store, where the emulator takes no conditional puts and is read only."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable
from tests.stores.servers import Place, gcs, upload_to_gcs

pytestmark = pytest.mark.spark


def test_a_table_in_gcs_is_read(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    del place  # the session is enabled
    frame = spark.range(10).selectExpr("id", "id % 2 AS p", "concat('ü ', id) AS text")
    frame.write.format("delta").partitionBy("p").save(str(tmp_path / "t"))
    DeltaTable.forPath(spark, str(tmp_path / "t")).checkpoint()
    with gcs() as found:
        upload_to_gcs(found, tmp_path / "t", "a b/t")
        read = spark.read.format("delta").options(**found.options).load(f"{found.url}/a b/t")
        assert sorted(row.text for row in read.where("p = 1").collect()) == [f"ü {n}" for n in (1, 3, 5, 7, 9)]


def test_one_container_by_its_url_and_by_its_short_one(spark: SparkSession, places: dict[str, Place]) -> None:
    account = places["azure"].url.partition("@")[2].partition(".")[0]
    container = places["azure"].url.partition("://")[2].partition("@")[0]
    spark.range(3).write.format("delta").save(f"{places['azure'].url}/short")
    short = spark.read.format("delta").option("azure_storage_account_name", account)
    assert short.load(f"az://{container}/short").count() == 3
