"""The provider `delta` as Spark's catalog needs it: tables of that format can be named there, and not be read by it.

Spark lets a catalog hold tables of a format that it can find. The rows of Delta tables are read and written by plans of
this package; what reaches the provider itself was not seen by it, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from slackwater.error_classes import UNSEEN
from slackwater.spark.session.classic_connect import condition_of, is_connect, java_class

_THERE = "DATA_SOURCE_ALREADY_EXISTS"
_REGISTERED = "_slackwater_provider"


def register_provider(spark: SparkSession) -> None:
    """Make `delta` a format that the session's catalog knows, once per session."""
    if spark.__dict__.get(_REGISTERED):
        return
    register(spark, _provider())
    spark.__dict__[_REGISTERED] = True


def register(spark: SparkSession, source: Any) -> None:
    """Make a Python data source known to the session; where its name is taken, nothing changes."""
    with _active(spark):
        try:
            spark.dataSource.register(source)
        except AnalysisException as error:
            # delta-spark is there, or another object for this session did it.
            if condition_of(error) != _THERE:
                raise


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Within the block it is the JVM's active session, in which Spark looks for what is registered already."""
    if is_connect(spark):
        yield
        return
    sessions = java_class(spark, "org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())


def _provider() -> Any:
    # It travels by value: Pythons of executors and servers need not have this package.
    from pyspark.sql.datasource import DataSource

    says = (
        f"this statement names a Delta table {UNSEEN} (a permanent view, dynamic SQL, a name in a variable, a session "
        "that is not enabled): name the table in the statement itself, or read it with spark.table"
    )

    class DeltaProvider(DataSource):
        @classmethod
        def name(cls) -> str:
            return "delta"

        def schema(self) -> Any:
            raise NotImplementedError(says)

        def reader(self, schema: Any) -> Any:
            del schema
            return self.schema()

        def writer(self, schema: Any, overwrite: bool) -> Any:
            del schema, overwrite
            return self.schema()

    return DeltaProvider
