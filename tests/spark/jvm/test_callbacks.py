"""Calls of the JVM into Python: their errors, and the connections of ended threads."""

from __future__ import annotations

import threading
import time

import pytest
from pyspark.sql import SparkSession

from slackwater import errors
from slackwater.spark.jvm import callbacks
from slackwater.spark.jvm.callbacks import accept_callbacks, called_by_jvm
from slackwater.spark.session.jvm_objects import java_class

pytestmark = [pytest.mark.spark, pytest.mark.classic]


class _Task:
    """A task of a Java thread."""

    class Java:
        implements = ("java.lang.Runnable", "java.util.concurrent.Callable")

    def __init__(self, spark: SparkSession, fails: bool = False) -> None:
        self.spark = spark
        self.calls = 0
        self._fails = fails

    @called_by_jvm
    def run(self) -> None:
        self.calls += 1

    @called_by_jvm
    def call(self) -> str:
        if self._fails:
            raise errors.CorruptTable("the table of the test is broken")
        return "done"


def test_connections_of_ended_threads_are_closed(spark: SparkSession) -> None:
    accept_callbacks(spark)
    task = _Task(spark)
    before = threading.active_count()
    for _ in range(100):
        thread = java_class(spark, "java.lang.Thread")(task)
        thread.start()
        thread.join()
    deadline = time.monotonic() + 20
    while threading.active_count() > before + 40 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert task.calls == 100
    assert threading.active_count() <= before + 40


def test_a_connection_that_is_closed_is_no_obstacle(spark: SparkSession) -> None:
    accept_callbacks(spark)
    task = _Task(spark)
    for _ in range(40):
        thread = java_class(spark, "java.lang.Thread")(task)
        thread.start()
        thread.join()
        for each in list(callbacks._connections):
            if each.is_ended:
                each.connection.socket = None
    assert task.calls == 40


def test_the_error_of_a_call_is_raised_again_behind_causes_of_the_jvm(spark: SparkSession) -> None:
    accept_callbacks(spark)
    pool = java_class(spark, "java.util.concurrent.Executors").newSingleThreadExecutor()
    try:
        done, failed = (
            java_class(spark, "java.util.concurrent.FutureTask")(_Task(spark, fails)) for fails in (False, True)
        )
        pool.execute(done)
        pool.execute(failed)
        assert done.get() == "done"
        # ExecutionException, caused by Py4J's exception.
        with pytest.raises(errors.CorruptTable, match="of the test is broken"):
            failed.get()
    finally:
        pool.shutdown()
