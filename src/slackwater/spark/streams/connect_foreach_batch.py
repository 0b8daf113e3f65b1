"""Micro-batches of queries through Spark Connect: what writes them runs in a Python of the server."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, Protocol

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession


class BatchWriter(Protocol):
    """What writes the micro-batches of one query."""

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Write the rows of a batch, unless they are there."""
        ...


def remote_batch_writer(made: Callable[[SparkSession], BatchWriter]) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch` that travels by value; `made` gives the writer, in the session of the server."""
    told: bytes = cloudpickle.dumps(made)  # type: ignore[no-untyped-call]

    # Nothing of this package may be named outside of it.
    def write_batch(frame: Any, batch_id: int) -> None:
        from importlib import import_module
        from importlib.util import find_spec

        if find_spec("slackwater") is None:
            raise RuntimeError(
                "the batches of a stream through Spark Connect are written in a Python of the server, and Slackwater "
                "is not installed there: install it beside the server's PySpark (pip install slackwater)"
            )
        import_module("slackwater.spark.streams.connect_foreach_batch").write_remote_batch(frame, batch_id, told)

    return write_batch


_writers: dict[bytes, BatchWriter] = {}


def write_remote_batch(frame: DataFrame, batch_id: int, told: bytes) -> None:
    """Write a batch as `remote_batch_writer` was told; the writer stays for the batches that follow in this process."""
    if told not in _writers:
        made = pickle.loads(told)  # noqa: S301  (of the client whose query it is)
        _writers[told] = made(frame.sparkSession)
    _writers[told].write(frame, batch_id)
