"""`enable(spark)`: `format("delta")` of the session's readers and writers is answered by this package.

PySpark's reader and writer classes are extended once per process, in each mode; a session that was not enabled
behaves as before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from slackwater.errors import InvalidArgument, UnsupportedFeature
from slackwater.spark.modes import frame_of_writer, is_connect
from slackwater.spark.names import table_path
from slackwater.spark.read import load
from slackwater.spark.write import save

_ENABLED = "_slackwater_enabled"
_REQUEST = "_slackwater_request"
_EXTENDED = "_slackwater_extended"


def enable(spark: SparkSession) -> SparkSession:
    """Make `spark.read.format("delta")` and `df.write.format("delta")` of this session work; the session.

    Classic and Connect sessions; nothing is installed on a server, no setting of the session changes. Calling it
    again does nothing.
    """
    if is_connect(spark):
        from pyspark.sql.connect import readwriter as connect_readwriter

        _extend(connect_readwriter.DataFrameReader, connect_readwriter.DataFrameWriter)
    else:
        from pyspark.sql import readwriter

        _extend(readwriter.DataFrameReader, readwriter.DataFrameWriter)
    setattr(spark, _ENABLED, True)
    return spark


class _Request:
    """What was asked of one reader or writer so far."""

    def __init__(self) -> None:
        self.delta = False
        self.options: dict[str, Any] = {}
        self.schema: Any = None
        self.mode = "error"
        self.partition_by: list[str] = []
        self.cluster_by: list[str] = []
        self.buckets: str | None = None


def _request(reader: Any) -> _Request:
    found = reader.__dict__.get(_REQUEST)
    if found is None:
        found = reader.__dict__[_REQUEST] = _Request()
    return found  # type: ignore[no-any-return]


def _session(reader: Any) -> Any:
    # A reader of Connect calls its session the client.
    return reader.__dict__.get("_spark") or reader.__dict__.get("_client")


def _extend(reader: type, writer: type) -> None:
    if reader.__dict__.get(_EXTENDED):
        return
    setattr(reader, _EXTENDED, True)
    for kind in (reader, writer):
        _wrap(kind, "format", _format)
        _wrap(kind, "option", _option)
        _wrap(kind, "options", _options)
    _wrap(reader, "schema", _schema)
    _wrap(reader, "load", _load)
    _wrap(writer, "mode", _mode)
    _wrap(writer, "partitionBy", _partition_by)
    _wrap(writer, "clusterBy", _cluster_by)
    _wrap(writer, "save", _save)
    _wrap(writer, "saveAsTable", _save_as_table)
    for name in ("bucketBy", "sortBy"):
        _wrap(writer, name, functools.partial(_buckets, name))


def _wrap(kind: type, name: str, handler: Callable[..., Any]) -> None:
    original = getattr(kind, name)

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return handler(functools.partial(original, self), self, *args, **kwargs)

    setattr(kind, name, method)


def _is_delta(source: Any, self: Any) -> bool:
    return isinstance(source, str) and source.lower() == "delta" and bool(getattr(_session(self), _ENABLED, False))


def _format(original: Callable[..., Any], self: Any, source: str) -> Any:
    _request(self).delta = _is_delta(source, self)
    return self if _request(self).delta else original(source)


def _option(original: Callable[..., Any], self: Any, key: str, value: Any) -> Any:
    _request(self).options[key] = value
    return original(key, value)


def _options(original: Callable[..., Any], self: Any, **options: Any) -> Any:
    _request(self).options.update(options)
    return original(**options)


def _schema(original: Callable[..., Any], self: Any, schema: Any) -> Any:
    _request(self).schema = schema
    return original(schema)


def _mode(original: Callable[..., Any], self: Any, save_mode: str | None) -> Any:
    if save_mode:
        _request(self).mode = save_mode
    return original(save_mode)


def _partition_by(original: Callable[..., Any], self: Any, *columns: Any) -> Any:
    names = columns[0] if len(columns) == 1 and isinstance(columns[0], (list, tuple)) else columns
    _request(self).partition_by = list(names)
    return original(*columns)


def _cluster_by(original: Callable[..., Any], self: Any, *columns: Any) -> Any:
    names = columns[0] if len(columns) == 1 and isinstance(columns[0], (list, tuple)) else columns
    _request(self).cluster_by = list(names)
    return original(*columns)


def _load(
    original: Callable[..., Any],
    self: Any,
    path: Any = None,
    format: str | None = None,  # noqa: A002  (the name PySpark has)
    schema: Any = None,
    **options: Any,
) -> Any:
    request = _request(self)
    if not (_is_delta(format, self) if format is not None else request.delta):
        return original(path, format, schema, **options)
    if schema is not None or request.schema is not None:
        raise InvalidArgument("a Delta table has a schema of its own: leave out the one given to the reader")
    given = {**request.options, **options}
    return load(_session(self), _path(path, given), given)


def _save(
    original: Callable[..., Any],
    self: Any,
    path: str | None = None,
    format: str | None = None,  # noqa: A002  (the name PySpark has)
    mode: str | None = None,
    partitionBy: Any = None,  # noqa: N803  (the name PySpark has)
    **options: Any,
) -> None:
    request = _request(self)
    if not (_is_delta(format, self) if format is not None else request.delta):
        original(path, format, mode, partitionBy, **options)
        return
    if request.buckets is not None:
        raise InvalidArgument(f"Delta tables have no buckets: leave {request.buckets} out, or use clusterBy")
    if partitionBy is not None:
        request.partition_by = [partitionBy] if isinstance(partitionBy, str) else list(partitionBy)
    given = {**request.options, **options}
    frame, target = frame_of_writer(self), _path(path, given)
    save(frame, target, mode or request.mode, request.partition_by, given, request.cluster_by)


def _save_as_table(
    original: Callable[..., Any],
    self: Any,
    name: str,
    format: str | None = None,  # noqa: A002  (the name PySpark has)
    mode: str | None = None,
    partitionBy: Any = None,  # noqa: N803  (the name PySpark has)
    **options: Any,
) -> None:
    request = _request(self)
    if not (_is_delta(format, self) if format is not None else request.delta):
        original(name, format, mode, partitionBy, **options)
        return
    path = table_path(name)
    if path is None:
        raise UnsupportedFeature(
            f"{name}: tables are written by path in this version: use save(path), or the name delta.`/path`"
        )
    self.save(path, format, mode, partitionBy, **options)


def _buckets(method: str, original: Callable[..., Any], self: Any, *args: Any) -> Any:
    _request(self).buckets = method
    return original(*args)


def _path(path: Any, options: dict[str, Any]) -> str:
    found = path if path is not None else next((v for k, v in options.items() if k.lower() == "path"), None)
    if isinstance(found, (list, tuple)) and len(found) == 1:
        found = found[0]
    if not isinstance(found, str) or not found:
        raise InvalidArgument(f"name the path of one Delta table, found {found!r}")
    return found
