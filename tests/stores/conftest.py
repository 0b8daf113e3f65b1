"""A bucket that the session is told of: its Spark reaches it by Hadoop's connector, or executors do in Python."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import slackwater
from tests.contract.s3_server import BUCKET, s3_server


@pytest.fixture(scope="session")
def bucket(spark: SparkSession) -> Iterator[str]:
    """Its URL; the session has the credentials, under the names that Hadoop has for them."""
    slackwater.enable(spark)
    with s3_server() as options:
        found = {key.lower(): value for key, value in options.items()}
        settings = {
            "fs.s3a.endpoint": found["aws_endpoint_url"],
            "fs.s3a.endpoint.region": found["aws_region"],
            "fs.s3a.access.key": found["aws_access_key_id"],
            "fs.s3a.secret.key": found["aws_secret_access_key"],
            "fs.s3a.path.style.access": "true",
        }
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield f"s3a://{BUCKET}"


@pytest.fixture
def path(bucket: str, request: pytest.FixtureRequest) -> str:
    """A place of one test, which has signs that URLs write otherwise."""
    return f"{bucket}/a b%20ü/{request.node.name}"
