"""Buckets that Spark's own connector for S3 reaches, where `make stores` has it."""

from __future__ import annotations

import os
import sys
import urllib.request

import pytest
from pyspark.sql import SparkSession

from tests.stores.proxy import FaultProxy

needs_connector = pytest.mark.skipif("SLACKWATER_CONNECTOR" not in os.environ, reason="Spark has no connector for S3")

served = pytest.mark.skipif(
    "SLACKWATER_CONNECTOR" in os.environ or "--cluster" in sys.argv,
    reason="Spark has a connector for S3, or is several processes",
)


def bucket_of_connector(spark: SparkSession, proxy: FaultProxy, name: str) -> str:
    """A new bucket behind `proxy`; Hadoop keeps its connection to a bucket, so each test makes one of its own."""
    options = {key.lower(): value for key, value in proxy.options.items()}
    endpoint = options["aws_endpoint_url"]
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}", method="PUT")).close()  # noqa: S310 - our own
    of_bucket = {"endpoint": endpoint, "access.key": "test", "secret.key": "test", "path.style.access": "true"}
    for key, value in {**of_bucket, "endpoint.region": options["aws_region"]}.items():
        spark.conf.set(f"fs.s3a.bucket.{name}.{key}", value)
    return name
