"""Spark reads and writes the store that the environment names, as `Snapshot.load` does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.contract.s3_server import BUCKET, s3_server

pytestmark = [pytest.mark.spark, pytest.mark.classic]


@pytest.mark.parametrize(
    ("mode", "host"),
    [
        ("classic", "127.0.0.1"),
        pytest.param("classic", "localhost", marks=pytest.mark.long),
        ("connect", "localhost"),
        pytest.param("connect", "127.0.0.1", marks=pytest.mark.long),
    ],
)
@pytest.mark.long
def test_spark_reads_the_store_of_an_endpoint_in_the_environment(mode: str, host: str) -> None:
    with s3_server() as options:
        environment = {**os.environ, **{key.upper(): value for key, value in options.items()}}
        del environment["AWS_ALLOW_HTTP"]
        environment["AWS_ENDPOINT_URL"] = environment["AWS_ENDPOINT_URL"].replace("127.0.0.1", host)
        command = [sys.executable, "-m", "tests.people.store_by_environment", f"s3://{BUCKET}/t", mode]
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=300,
            cwd=Path(__file__).parents[2],
            env={**environment, "PYSPARK_PYTHON": sys.executable},
        )
    assert done.stdout.splitlines() == ["spark: [0, 2]", "snapshot: [0, 2]"], done.stderr
