"""The part of a stream that executors need: a reader of task rows, without planning."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from slackwater.errors import SlackwaterError
from slackwater.streams.file_tasks import StreamTask, read_task


@contextmanager
def plain_errors() -> Iterator[None]:
    """Make errors of this package in the block reach Spark as a message, without a traceback.

    PySpark checks the process environment for this when it reports the error.
    """
    try:
        yield
    except SlackwaterError:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


class TaskReader:
    """Reader of a stream's tasks. `rows` is its store and its ReadProjection, pickled."""

    def __init__(self, rows: bytes) -> None:
        self._rows = rows

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a PySpark InputPartition. Its value is a StreamTask, pickled."""
        store, wanted = pickle.loads(self._rows)  # noqa: S301  (the session's own)
        task: StreamTask = pickle.loads(partition.value)  # noqa: S301  (the session's own)
        with plain_errors():
            yield from read_task(store, wanted, task)
