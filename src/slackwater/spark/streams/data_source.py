"""The Python data source for streams of a table.

Spark plans micro-batches in a Python process next to the driver, and reads them in the Python of executors. Both must
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
    """Register `read` as a format of the session. Return the format's name, the same for equal streams.

    The format itself carries the access to the table, including credentials, so that no option and no plan shows them.
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
    # A local class is pickled by value, and imports this package only in the process that runs it.
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
                    "the Python of Spark's driver and executors plans and reads a stream from a Delta table. Install "
                    f"slackwater there (pip install slackwater): {error}"
                ) from error
            return stream_reader(rows, plan)

    return DeltaStream
