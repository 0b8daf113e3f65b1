"""The provider `delta` for Spark's catalog, so that the catalog accepts tables of this format.

Spark's catalog accepts a table only if it finds the table's format. Plans of this package read and write the rows of
Delta tables. A request to the provider itself bypassed this package and raises an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from slackwater.error_classes import UNSEEN
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.session.jvm_objects import java_class
from slackwater.spark.session.spark_errors import condition_of

_THERE = "DATA_SOURCE_ALREADY_EXISTS"
_REGISTERED = "_slackwater_provider"


def register_provider(spark: SparkSession) -> None:
    """Register the format `delta` in the session's catalog, once per session."""
    if spark.__dict__.get(_REGISTERED):
        return
    register(spark, _provider())
    spark.__dict__[_REGISTERED] = True


def register(spark: SparkSession, source: Any) -> None:
    """Register a Python data source in the session. Nothing changes if the name is taken."""
    with _active(spark):
        try:
            spark.dataSource.register(source)
        except AnalysisException as error:
            # The source is delta-spark's, or another Python object of this session registered it.
            if condition_of(error) != _THERE:
                raise


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Make `spark` the JVM's active session within the block, because Spark looks up registered sources there."""
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
    # A local class is pickled by value, because executors and servers can lack this package.
    from pyspark.sql.datasource import DataSource

    says = (
        f"this statement names a Delta table {UNSEEN} (a permanent view, dynamic SQL, a name in a variable, a session "
        "that is not enabled). Name the table in the statement itself, or read it with spark.table"
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
