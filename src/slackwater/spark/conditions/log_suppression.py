"""Spark's log of expressions that it refuses: where an error of ours says it in one sentence, that is all there is.

PySpark logs each of its errors that has a place in SQL text, with the stack of the JVM, as the error is made.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

from pyspark.logger import PySparkLogger

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_is_quiet: ContextVar[bool] = ContextVar("errors of Spark are said by ours", default=False)


class _LogFilter(logging.Filter):
    """Lets nothing pass that this thread says otherwise."""

    def filter(self, record: logging.LogRecord) -> bool:
        del record
        return not _is_quiet.get()


@contextmanager
def suppress_spark_errors() -> Iterator[None]:
    """Within the block, what Spark refuses is not logged: who enters it says it."""
    _watch()
    token = _is_quiet.set(True)
    try:
        yield
    finally:
        _is_quiet.reset(token)


@cache
def _watch() -> None:
    for name in _LOGGERS:
        PySparkLogger.getLogger(name).addFilter(_LogFilter())
