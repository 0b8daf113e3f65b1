"""Suppression of Spark's error log, if our own error reports the rejected expression in one sentence.

PySpark logs each error with a position in SQL text when the error is created, with the JVM's stack trace.
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
    """Drops records while this thread reports the error itself."""

    def filter(self, record: logging.LogRecord) -> bool:
        del record
        return not _is_quiet.get()


@contextmanager
def suppress_spark_errors() -> Iterator[None]:
    """Suppress Spark's log of rejected expressions within the block. The caller reports the error."""
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
