"""The provider `delta` as Spark's catalog needs it: tables of that format can be named there, and not be read by it.

Spark lets a catalog hold tables of a format that it can find. The rows of Delta tables are read and written by plans of
this package; what reaches the provider itself was not seen by it, and says so.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

_REGISTERED = "_slackwater_provider"


def register_provider(spark: SparkSession) -> None:
    """Make `delta` a format that the session's catalog knows, once per session."""
    if spark.__dict__.get(_REGISTERED):
        return
    spark.dataSource.register(_provider())
    spark.__dict__[_REGISTERED] = True


def _provider() -> Any:
    # It travels by value: Pythons of executors and servers need not have this package.
    from pyspark.sql.datasource import DataSource

    class DeltaProvider(DataSource):
        @classmethod
        def name(cls) -> str:
            return "delta"

        def schema(self) -> Any:
            raise NotImplementedError(
                "this statement names a Delta table in a way that Slackwater does not see (a permanent view, dynamic "
                "SQL, a name in a variable): name the table in the statement itself, or read it with spark.table"
            )

        def reader(self, schema: Any) -> Any:
            del schema
            return self.schema()

        def writer(self, schema: Any, overwrite: bool) -> Any:
            del schema, overwrite
            return self.schema()

    return DeltaProvider
