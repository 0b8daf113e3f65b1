"""A writer on HDFS that is killed within a commit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

from slackwater.spark.hadoop.store import HadoopStore
from slackwater.spark.storage.stores import table_at
from tests.hadoop.committing import COMMIT_BYTES, commit

pytestmark = [pytest.mark.spark, pytest.mark.classic, pytest.mark.long]


def test_of_a_killed_writer_whole_commits_are_left(spark: SparkSession, hdfs_root: str) -> None:
    url = f"{hdfs_root}/killed"
    store = table_at(spark, url).store
    assert isinstance(store, HadoopStore)
    command = [sys.executable, "-m", "tests.hadoop.committing", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        jvm = int(writer.stdout.readline())
        assert writer.stdout.readline() == "0\n"
        while all(each.size_bytes == COMMIT_BYTES for each in store._files.statuses("killed/_delta_log")):
            assert writer.poll() is None
        # The bytes of a commit are on their way: it is the JVM that sends them.
        os.kill(jvm, signal.SIGKILL)
        writer.kill()
    found = [meta.path for meta in store.list_from("_delta_log")]
    assert found == [f"_delta_log/{number:020}.json" for number in range(len(found))]
    assert found
    assert all(store.read(path) == commit(number) for number, path in enumerate(found))
