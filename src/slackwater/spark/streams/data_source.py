"""The Python data source by which Spark reads a table as a stream.

Spark plans micro-batches in a Python of its own, beside the driver, and reads them in those of executors; both must
have this package. Source: PySpark's `DataSourceStreamReader`.
"""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

from pyspark.sql import SparkSession

from slackwater.spark.catalog.provider import register
from slackwater.streams.stream_planner import StreamReadSpec

_PREFIX = "delta_"
_REGISTERED = "_slackwater_streams"


def register_stream(spark: SparkSession, read: StreamReadSpec) -> str:
    """Make `read` a format of the session; its name, the same one for equal streams.

    What reaches the table, credentials too, travels with the format: in no option, and in no plan.
    """
    rows: bytes = pickle.dumps((read.table.store, read.wanted))
    plan: bytes = pickle.dumps(read)
    name = _PREFIX + hashlib.sha256(plan).hexdigest()[:12]
    known: set[str] = spark.__dict__.setdefault(_REGISTERED, set())
    if name not in known:
        register(spark, _data_source(name, rows, plan))
        known.add(name)
    return name


def _data_source(format_name: str, rows: bytes, plan: bytes) -> Any:
    # It travels by value: what it needs of this package is imported where it runs.
    from pyspark.sql.datasource import DataSource

    class DeltaStream(DataSource):
        @classmethod
        def name(cls) -> str:
            return format_name

        def streamReader(self, schema: Any) -> Any:
            del schema
            try:
                from slackwater.spark.streams.stream_reader import stream_reader
            except ImportError as error:
                raise ImportError(
                    "a stream that reads a Delta table is planned and read in the Python of Spark's driver and "
                    f"executors, which must have slackwater (pip install slackwater): {error}"
                ) from error
            return stream_reader(rows, plan)

    return DeltaStream
