"""A bucket that the session's Spark reaches by Hadoop's connector, and nothing but the session is told of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater.spark.session.modes import is_connect
from tests.contract.s3_server import BUCKET, s3_server


@pytest.fixture(scope="session")
def bucket(spark: SparkSession) -> Iterator[str]:
    """Its URL; the session has the credentials, under the names that Hadoop has for them."""
    slackwater.enable(spark)
    with s3_server() as options, pytest.MonkeyPatch.context() as patch:
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
        if is_connect(spark):
            # The server keeps the secrets of a session to itself.
            patch.setenv("AWS_ACCESS_KEY_ID", found["aws_access_key_id"])
            patch.setenv("AWS_SECRET_ACCESS_KEY", found["aws_secret_access_key"])
        yield f"s3a://{BUCKET}"


@pytest.fixture
def path(bucket: str, request: pytest.FixtureRequest) -> str:
    """A place of one test, which has signs that URLs write otherwise."""
    return f"{bucket}/a b%20ü/{request.node.name}"
