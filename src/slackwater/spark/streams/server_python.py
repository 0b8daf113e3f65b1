"""Check of the Python next to a Spark Connect server, which writes the micro-batches of queries.

The check runs before the start of a query. Spark runs a Python data source there to read its schema, without a job.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from slackwater.errors import UnsupportedFeature
from slackwater.spark.catalog.provider import register
from slackwater.spark.session.spark_errors import python_worker_error

_ASKED, _NAME, _NONE = "_slackwater_server_python", "delta_server_python", "none"


def require_server_python(spark: SparkSession) -> None:
    """Check that the server of a Connect session has this package, in this version, in its Python.

    Cached per session. Raises UnsupportedFeature.
    """
    if _ASKED in spark.__dict__:
        return
    version = str(import_module("slackwater").__version__)
    lacking = _lacking(spark, version)
    if lacking is not None:
        raise UnsupportedFeature(
            "through Spark Connect, a Python of the server writes the micro-batches of a stream. It must have "
            f"slackwater with its PySpark (pip install slackwater=={version} there): {lacking}"
        )
    spark.__dict__[_ASKED] = True


def _lacking(spark: SparkSession, version: str) -> str | None:
    try:
        register(spark, _data_source(_NAME, _NONE))
        (found,) = spark.read.format(_NAME).load().columns
    except PySparkException as error:
        return python_worker_error(error)
    if found == _NONE:
        return "slackwater is not installed there"
    return None if found == version else f"the version there is {found}"


def _data_source(format_name: str, none: str) -> Any:
    # A local class is pickled by value, and must not refer to this package.
    from pyspark.sql.datasource import DataSource

    class ServerPython(DataSource):
        @classmethod
        def name(cls) -> str:
            return format_name

        def schema(self) -> str:
            from importlib import import_module

            try:
                found = import_module("slackwater").__version__
            except ModuleNotFoundError as error:
                if error.name != "slackwater":
                    raise
                found = none
            return f"`{found}` string"

    return ServerPython
