"""Azure's short URLs, and tables in Google's store that are read by who is nobody."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession

from tests.stores.servers import Place

pytestmark = pytest.mark.spark


def test_a_table_in_gcs_is_read_without_an_account(spark: SparkSession, places: dict[str, Place], s3: Place) -> None:
    del s3  # the session is enabled
    place = places["gcs"]
    frame = spark.range(10).selectExpr("id", "id % 2 AS p", "concat('ü ', id) AS text")
    frame.write.format("delta").partitionBy("p").save(f"{place.url}/a b/public")
    endpoint = json.loads(place.options["google_service_account_key"])["gcs_base_url"]
    nobody = {"google_base_url": endpoint, "google_skip_signature": "true", "google_allow_http": "true"}
    read = spark.read.format("delta").options(**nobody).load(f"{place.url}/a b/public")
    assert sorted(row.text for row in read.where("p = 1").collect()) == [f"ü {n}" for n in (1, 3, 5, 7, 9)]


def test_one_container_by_its_url_and_by_its_short_one(
    spark: SparkSession, places: dict[str, Place], s3: Place
) -> None:
    del s3
    account = places["azure"].url.partition("@")[2].partition(".")[0]
    container = places["azure"].url.partition("://")[2].partition("@")[0]
    spark.range(3).write.format("delta").save(f"{places['azure'].url}/short")
    short = spark.read.format("delta").option("azure_storage_account_name", account)
    assert short.load(f"az://{container}/short").count() == 3
