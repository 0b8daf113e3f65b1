"""Python objects of a classic session's driver that the JVM calls through Py4J, and their errors.

Py4J sends an error of a Python object to the JVM as text. For the caller of the Spark action the original error is
raised again.
"""

from __future__ import annotations

import functools
import itertools
import logging
import re
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

from pyspark.sql import SparkSession
from typing_extensions import ParamSpec

from slackwater.errors import SlackwaterError
from slackwater.spark.import_hooks import on_import
from slackwater.spark.session.jvm_objects import java_class

_P = ParamSpec("_P")
_T = TypeVar("_T")
_LOGGER = "py4j.clientserver"
_CONVERTING_MODULE = "pyspark.errors.exceptions.captured"
_IS_CONVERTING = "_slackwater_converts"
_REFERENCE = re.compile(r"\(error (\d+) of a callback\)")
_MOST_ERRORS, _MOST_CAUSES = 256, 16
_IS_WATCHED = "_slackwater_watched"
_CHECKED_EACH = 16
_errors: OrderedDict[int, SlackwaterError] = OrderedDict()
_numbers = itertools.count(1)


class _CallbackFailed(Exception):
    """The text of an error for the JVM, with a reference to the error itself."""


def calls_back_in_one_thread(spark: SparkSession) -> bool:
    """Return whether the JVM calls Python in the thread that waits for the JVM, in a classic session."""
    from py4j.clientserver import ClientServer

    return isinstance(spark.sparkContext._gateway, ClientServer)


def accept_callbacks(spark: SparkSession) -> None:
    """Start the server for calls of the JVM into this process, once per process."""
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]


def without_traceback(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return `method`, a callback for the JVM, with errors of this package raised without a traceback.

    Py4J sends errors to the JVM with their traceback, but users look for the message.
    """

    @functools.wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return method(*args, **kwargs)
        except SlackwaterError as error:
            raise error.with_traceback(None) from None

    return call


def called_by_jvm(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return `method` of an object with the attribute `spark`, for calls from any thread of the JVM.

    An error of this package is raised by the Spark action that needs the result.
    """

    @functools.wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        _watch_connection(args[0].spark)  # type: ignore[attr-defined]
        try:
            return method(*args, **kwargs)
        except SlackwaterError as error:
            raise _referenced(error) from None

    on_import(_CONVERTING_MODULE, _convert)
    return call


def _referenced(error: SlackwaterError) -> _CallbackFailed:
    number = next(_numbers)
    _errors[number] = error
    while len(_errors) > _MOST_ERRORS:
        _errors.popitem(last=False)
    return _CallbackFailed(f"{type(error).__name__}: {error} (error {number} of a callback)")


def _convert(module: ModuleType) -> None:
    """Make PySpark raise the original error in place of the JVM's error about a callback."""
    original = module.convert_exception
    if hasattr(original, _IS_CONVERTING):
        return

    @functools.wraps(original)
    def convert(java_error: Any) -> Any:
        return _original_error(java_error) or original(java_error)

    setattr(convert, _IS_CONVERTING, True)
    module.convert_exception = convert  # type: ignore[attr-defined]
    logging.getLogger(_LOGGER).addFilter(_is_other_record)


def _original_error(java_error: Any) -> SlackwaterError | None:
    """Return the error of a callback that caused an error of the JVM. None if another fault did."""
    cause = java_error
    for _ in range(_MOST_CAUSES if _errors else 0):
        if cause is None:
            return None
        if (found := _REFERENCE.search(str(cause.getMessage()))) is not None:
            return _errors.get(int(found[1]))
        cause = cause.getCause()
    return None


def _is_other_record(record: logging.LogRecord) -> bool:
    """Return False for Py4J's log of an error that the caller gets."""
    return not (record.exc_info and isinstance(record.exc_info[1], _CallbackFailed))


@dataclass(frozen=True, slots=True)
class _Connection:
    """A connection opened by the JVM for one of its threads, and the thread."""

    connection: Any
    java_thread: Any

    def close(self) -> None:
        """Close the connection, unless it is closed."""
        found = self.connection.socket
        with suppress(OSError):
            if found is not None:
                found.shutdown(socket.SHUT_RDWR)

    @property
    def is_ended(self) -> bool:
        from py4j.protocol import Py4JError

        try:
            return not self.java_thread.isAlive()
        except Py4JError:
            # The JVM of a stopped application.
            return True


_connections: list[_Connection] = []
_connections_lock = threading.Lock()


def _watch_connection(spark: SparkSession) -> None:
    """Register the connection of the current call from the JVM, and close the connections of ended JVM threads.

    Py4J retains one connection per JVM thread, even after the thread's end. Spark's pools start new threads again and
    again, so that each query would leak a Python thread and a file descriptor.
    """
    connection = _connection(spark)
    if connection is None or hasattr(connection, _IS_WATCHED):
        return
    setattr(connection, _IS_WATCHED, True)
    thread_class: Any = java_class(spark, "java.lang.Thread")
    with _connections_lock:
        ended = [each for each in _connections if each.is_ended] if _is_due() else []
        for each in ended:
            _connections.remove(each)
        _connections.append(_Connection(connection, thread_class.currentThread()))
    for each in ended:
        each.close()


def _is_due() -> bool:
    return len(_connections) % _CHECKED_EACH == _CHECKED_EACH - 1


def _connection(spark: SparkSession) -> Any:
    """Return the connection of the current call, if the JVM opened it."""
    gateway: Any = spark.sparkContext._gateway
    connection = gateway._gateway_client.get_thread_connection()
    # A connection opened by Python belongs to a caller that waits for this reply, so it must stay open.
    is_own = connection is None or getattr(connection, "initiated_from_client", True)
    return None if is_own else connection


class _Ended:
    """The stream of a connection with an end of file for each reader."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readline(self) -> bytes:
        return b""

    def close(self) -> None:
        self._stream.close()


def end_connection(spark: SparkSession) -> None:
    """Close the connection of this thread's calls from the JVM, after the reply to the current call.

    Py4J retains one connection per JVM thread, even after the thread's end. Each thread would leak a Python thread and
    a file descriptor.
    """
    connection = _connection(spark)
    if connection is not None:
        connection.stream = _Ended(connection.stream)
