"""What of a stream travels to executors: how the rows of its tasks are read, and nothing that plans them."""

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
    """An error of this package that leaves the block reaches Spark as its sentence alone, without a traceback.

    PySpark asks the environment of the process for that, when it tells of what the process ends with.
    """
    try:
        yield
    except SlackwaterError:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


class TaskReader:
    """Reads the tasks of a stream; `rows` is its store and its ReadProjection, pickled."""

    def __init__(self, rows: bytes) -> None:
        self._rows = rows

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of an InputPartition of PySpark, whose value is a StreamTask, pickled."""
        store, wanted = pickle.loads(self._rows)  # noqa: S301  (the session's own)
        task: StreamTask = pickle.loads(partition.value)  # noqa: S301  (the session's own)
        with plain_errors():
            yield from read_task(store, wanted, task)
