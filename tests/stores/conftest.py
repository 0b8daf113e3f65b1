"""A bucket that the session is told of: its Spark reaches it by Hadoop's connector, or executors do in Python."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import slackwater
from tests.stores.install_servers import AZURE, GCS, program
from tests.stores.servers import PLACES, Place

# Their servers are only in `make stores`.
collect_ignore = [] if program(AZURE) and program(GCS) else ["test_other_stores.py"]


def as_hadoop_says(place: Place) -> dict[str, str]:
    """The options of a bucket in S3 under the names that Hadoop has for them."""
    told = {key.lower(): value for key, value in place.options.items()}
    return {
        "fs.s3a.endpoint": told["aws_endpoint_url"],
        "fs.s3a.endpoint.region": told["aws_region"],
        "fs.s3a.access.key": told["aws_access_key_id"],
        "fs.s3a.secret.key": told["aws_secret_access_key"],
        "fs.s3a.path.style.access": "true",
    }


def as_environment_says(place: Place) -> dict[str, str]:
    """The options of a bucket as variables of the environment."""
    return {key.upper(): value for key, value in place.options.items()}


@pytest.fixture(scope="session", autouse=True)
def places() -> Iterator[dict[str, Place]]:
    """The buckets of all stores, running before Spark does: what its executors find in the environment is there."""
    with contextlib.ExitStack() as running:
        found = {name: running.enter_context(start()) for name, start in PLACES.items()}
        patched = running.enter_context(pytest.MonkeyPatch.context())
        for place in found.values():
            if not place.url.startswith("s3a:"):
                for key, value in as_environment_says(place).items():
                    patched.setenv(key, value)
        yield found


@pytest.fixture(scope="session")
def s3(spark: SparkSession, places: dict[str, Place]) -> Place:
    """The bucket in S3, which the session has the credentials of."""
    slackwater.enable(spark)
    found = next(place for place in places.values() if place.url.startswith("s3a:"))
    for key, value in as_hadoop_says(found).items():
        spark.conf.set(key, value)
    return found


@pytest.fixture(scope="session", params=PLACES)
def place(s3: Place, places: dict[str, Place], request: pytest.FixtureRequest) -> Place:
    """A bucket of one store, which the session or its environment has the credentials of."""
    found = places[request.param]
    return s3 if found.url == s3.url else found


@pytest.fixture
def path(place: Place, request: pytest.FixtureRequest) -> str:
    """A place of one test, which has signs that URLs write otherwise."""
    return f"{place.url}/a b%20ü/{request.node.originalname}"


@pytest.fixture
def by_arrow(spark: SparkSession) -> Iterator[None]:
    """Rows go by Arrow, which options of one table reach; Spark's connector knows those of the session alone."""
    spark.conf.set("spark.slackwater.rows", "arrow")
    yield
    spark.conf.unset("spark.slackwater.rows")
