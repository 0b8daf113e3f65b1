"""A writer on HDFS that is killed within a commit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

from slackwater.spark.session.stores import table_at
from tests.hadoop.committing import commit

pytestmark = [pytest.mark.spark, pytest.mark.classic, pytest.mark.long]


def test_of_a_killed_writer_whole_commits_are_left(spark: SparkSession, hdfs_root: str) -> None:
    url = f"{hdfs_root}/killed"
    command = [sys.executable, "-m", "tests.hadoop.committing", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as writer:
        assert writer.stdout is not None
        told = [int(writer.stdout.readline()) for _ in range(5)]
        # The JVM too, which does the work.
        os.killpg(writer.pid, signal.SIGKILL)
    store = table_at(spark, url).store
    found = [meta.path for meta in store.list_from("_delta_log")]
    assert found == [f"_delta_log/{number:020}.json" for number in range(len(found))]
    assert len(found) >= len(told)
    assert all(store.read(path) == commit(number) for number, path in enumerate(found))
