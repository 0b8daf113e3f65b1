"""Micro-batches of queries through Spark Connect. A Python process of the server writes the batches."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, Protocol

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession


class BatchWriter(Protocol):
    """Writer of the micro-batches of one query."""

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Write the rows of a batch, unless already written."""
        ...


def remote_batch_writer(made: Callable[[SparkSession], BatchWriter]) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch`, pickled by value. `made` creates the writer in the server's session."""
    told: bytes = cloudpickle.dumps(made)  # type: ignore[no-untyped-call]

    # The function must not refer to this package outside its body, because the server unpickles it first.
    def write_batch(frame: Any, batch_id: int) -> None:
        from importlib import import_module
        from importlib.util import find_spec

        if find_spec("slackwater") is None:
            raise RuntimeError(
                "through Spark Connect, a Python of the server writes the batches of a stream, and Slackwater is not "
                "installed there. Install it with the server's PySpark (pip install slackwater)"
            )
        import_module("slackwater.spark.streams.connect_foreach_batch").write_remote_batch(frame, batch_id, told)

    return write_batch


_writers: dict[bytes, BatchWriter] = {}


def write_remote_batch(frame: DataFrame, batch_id: int, told: bytes) -> None:
    """Write a batch with the writer pickled in `told` by `remote_batch_writer`.

    The process caches the writer for later batches.
    """
    if told not in _writers:
        made = pickle.loads(told)  # noqa: S301  (sent by the query's own client)
        _writers[told] = made(frame.sparkSession)
    _writers[told].write(frame, batch_id)
