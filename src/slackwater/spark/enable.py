"""`enable(spark)`: `format("delta")`, names of Delta tables and SQL on them are answered by this package.

PySpark's classes are extended once per process, in each mode. From then on every session of the process is answered
for, but those that have `spark.slackwater.enabled` = false.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any, overload

from pyspark.sql import SparkSession

from slackwater.errors import InvalidArgument
from slackwater.spark.catalog.named import insert_into, save_as_table, table_exists, table_frame
from slackwater.spark.catalog.write_to import extend_writer
from slackwater.spark.lake.lake import Lake
from slackwater.spark.read.load import load
from slackwater.spark.session.modes import frame_of_writer, is_connect
from slackwater.spark.session.sessions import (
    ENABLED,
    answers_for,
    enable_process,
    explained_view,
    is_delta_by_default,
    opts_out,
    take_back_catalog,
)
from slackwater.spark.sql.run import run
from slackwater.spark.write.save import save

_REQUEST = "_slackwater_request"
_EXTENDED = "_slackwater_extended"
_ATTENDED = "_slackwater_attended"
_extending = threading.RLock()


@overload
def enable(spark: SparkSession, lake: Lake | None = None) -> SparkSession: ...
@overload
def enable(spark: SparkSession.Builder) -> SparkSession.Builder: ...
@overload
def enable(spark: None = None, lake: Lake | None = None) -> SparkSession | None: ...
def enable(spark: Any = None, lake: Lake | None = None) -> Any:
    """Make `format("delta")`, names of Delta tables and SQL on them work in every session of this process.

    Classic and Connect sessions; nothing is installed or downloaded. `spark` is a session, or the builder of one, and
    is given back; without it, the active session is, or None where there is none. A session with
    `spark.slackwater.enabled` = false is left alone. Calling it again does nothing. Where a session names
    delta-spark's catalog and Spark cannot load that, the setting is taken back, with a warning. A `lake` is attached to
    the session as `lake`. Raises InvalidArgument for a session that opts out, for what is neither a session nor a
    builder, and for a lake without a session.

    >>> slackwater.enable(spark) is spark
    True
    >>> spark.range(3).write.format("delta").save(path)
    >>> spark.read.format("delta").option("versionAsOf", 0).load(path).count()
    3
    """
    if spark is not None and (isinstance(spark, type) or not (_is_builder(spark) or hasattr(spark, "newSession"))):
        raise InvalidArgument(f"enable takes a Spark session, the builder of one, or nothing, found {type(spark)}")
    if _is_builder(spark):
        if lake is not None:
            raise InvalidArgument("a lake is attached to a session: enable(builder.getOrCreate(), lake=lake)")
        _extend_process()
        return spark
    if spark is not None and opts_out(spark):
        raise InvalidArgument(
            f"the session has {ENABLED} = false, so Slackwater leaves it alone: unset that, or enable another session"
        )
    _extend_process()
    session = SparkSession.getActiveSession() if spark is None else spark
    if session is not None:
        _attend(session)
    if lake is not None:
        if session is None:
            raise InvalidArgument("a lake is attached to a session: give one, enable(spark, lake=lake)")
        lake.attach(session)
    return session


def _is_builder(given: Any) -> bool:
    return hasattr(given, "getOrCreate")


def _extend_process() -> None:
    """Extend PySpark's classes, those of Connect where they are imported; sessions that come later see to the rest."""
    from pyspark.sql import catalog, readwriter

    with _extending:
        _extend(readwriter.DataFrameReader, readwriter.DataFrameWriter, readwriter.DataFrameWriterV2)
        _extend_sessions(SparkSession, catalog.Catalog)
        if "pyspark.sql.connect.session" in sys.modules:
            _extend_connect()
        enable_process()


def _extend_connect() -> None:
    from pyspark.sql.connect import catalog, readwriter, session
    from pyspark.sql.connect.streaming import readwriter as streaming

    with _extending:
        _extend(readwriter.DataFrameReader, readwriter.DataFrameWriter, readwriter.DataFrameWriterV2)
        _extend_sessions(session.SparkSession, catalog.Catalog)
        if not streaming.DataStreamWriter.__dict__.get(_EXTENDED):
            setattr(streaming.DataStreamWriter, _EXTENDED, True)
            _wrap(streaming.DataStreamWriter, "foreachBatch", _foreach_batch)


def _extend_sessions(session: Any, catalog: type) -> None:
    """Attend to the sessions that `session` makes, and answer for tables that are named by their path."""
    if session.__dict__.get(_EXTENDED):
        return
    setattr(session, _EXTENDED, True)
    for kind, names in ((session.Builder, ("getOrCreate", "create")), (session, ("newSession", "cloneSession"))):
        for name in names:
            # Releases of PySpark differ in what there is.
            if hasattr(kind, name):
                _wrap(kind, name, _new_session)
    _wrap(session, "sql", _sql)
    _wrap(session, "table", _table)
    _wrap(catalog, "tableExists", _table_exists)


def _new_session(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    del self
    session = original(*args, **kwargs)
    _attend(session)
    return session


def _sql(original: Callable[..., Any], self: Any, sqlQuery: Any, args: Any = None, **kwargs: Any) -> Any:  # noqa: N803
    if not answers_for(self):
        return original(sqlQuery, args, **kwargs)
    with explained_view(self):
        return run(original, self, sqlQuery, args, kwargs)


def _table(original: Callable[..., Any], self: Any, tableName: Any) -> Any:  # noqa: N803  (the name PySpark has)
    frame = table_frame(self, tableName) if isinstance(tableName, str) and answers_for(self) else None
    return original(tableName) if frame is None else frame


def _read_table(original: Callable[..., Any], self: Any, tableName: Any) -> Any:  # noqa: N803  (the name PySpark has)
    session = _session(self)
    is_ours = isinstance(tableName, str) and answers_for(session)
    frame = table_frame(session, tableName, _request(self).options) if is_ours else None
    return original(tableName) if frame is None else frame


def _insert_into(
    original: Callable[..., Any],
    self: Any,
    tableName: str,  # noqa: N803  (the name PySpark has)
    overwrite: bool | None = None,
) -> None:
    request = _request(self)
    overwrites = request.mode.lower() == "overwrite" if overwrite is None else bool(overwrite)
    if (
        not isinstance(tableName, str)
        or not answers_for(_session(self))
        or not insert_into(frame_of_writer(self), tableName, overwrites, request.options)
    ):
        original(tableName, overwrite)


def _attend(session: Any) -> None:
    """Do once for a session what it needs beside the extended classes."""
    if session.__dict__.get(_ATTENDED):
        return
    session.__dict__[_ATTENDED] = True
    if is_connect(session):
        _extend_connect()
    if answers_for(session):
        take_back_catalog(session)


def _table_exists(
    original: Callable[..., Any],
    self: Any,
    tableName: str,  # noqa: N803  (the name PySpark has)
    dbName: str | None = None,  # noqa: N803  (the name PySpark has)
) -> bool:
    session = self.__dict__.get("_sparkSession")
    found = None
    if isinstance(tableName, str) and dbName is None and session is not None and answers_for(session):
        found = table_exists(session, tableName)
    return bool(original(tableName, dbName)) if found is None else found


def _foreach_batch(original: Callable[..., Any], self: Any, func: Callable[..., None]) -> Any:
    """The function runs in a Python of the server: there it enables its process, where Slackwater is installed."""
    return original(_enabling(func) if answers_for(self._session) else func)


def _enabling(func: Callable[..., None]) -> Callable[..., None]:
    # It travels by value: nothing of this package may be named outside of it.
    def enabled(frame: Any, batch_id: int) -> None:
        from importlib import import_module
        from importlib.util import find_spec

        if find_spec("slackwater") is not None:
            import_module("slackwater").enable(frame.sparkSession)
        func(frame, batch_id)

    return enabled


class _Request:
    """What was asked of one reader or writer so far."""

    def __init__(self) -> None:
        self.is_delta: bool | None = None
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


def _extend(reader: type, writer: type, writer_by_name: type) -> None:
    if reader.__dict__.get(_EXTENDED):
        return
    extend_writer(writer_by_name, _wrap)
    setattr(reader, _EXTENDED, True)
    for kind in (reader, writer):
        _wrap(kind, "format", _format)
        _wrap(kind, "option", _option)
        _wrap(kind, "options", _options)
    _wrap(reader, "schema", _schema)
    _wrap(reader, "load", _load)
    _wrap(reader, "table", _read_table)
    _wrap(writer, "mode", _mode)
    _wrap(writer, "partitionBy", _partition_by)
    _wrap(writer, "clusterBy", _cluster_by)
    _wrap(writer, "save", _save)
    _wrap(writer, "saveAsTable", _save_as_table)
    _wrap(writer, "insertInto", _insert_into)
    for name in ("bucketBy", "sortBy"):
        _wrap(writer, name, functools.partial(_buckets, name))


def _wrap(kind: type, name: str, handler: Callable[..., Any]) -> None:
    original = getattr(kind, name)

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return handler(functools.partial(original, self), self, *args, **kwargs)

    setattr(kind, name, method)


def _is_delta(self: Any, source: Any) -> bool:
    """Whether `source`, or what the session takes where none is named, is Delta and answered for here."""
    session = _session(self)
    is_delta = is_delta_by_default(session) if source is None else isinstance(source, str) and source.lower() == "delta"
    return is_delta and answers_for(session)


def _wants_delta(self: Any, named: Any) -> bool:
    """Whether the format `named` at the end of a request, or before, or by nobody, is answered for here."""
    known = _request(self).is_delta
    return _is_delta(self, named) if named is not None or known is None else known


def _format(original: Callable[..., Any], self: Any, source: str) -> Any:
    _request(self).is_delta = is_delta = _is_delta(self, source)
    return self if is_delta else original(source)


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
    if not _wants_delta(self, format):
        return original(path, format, schema, **options)
    if schema is not None or request.schema is not None:
        raise InvalidArgument(
            "a Delta table has a schema of its own: leave out the one given to the reader",
            error_class="DELTA_UNSUPPORTED_SCHEMA_DURING_READ",
        )
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
    if not _wants_delta(self, format):
        original(path, format, mode, partitionBy, **options)
    else:
        _save_delta(self, path, mode, partitionBy, options)


def _save_as_table(
    original: Callable[..., Any],
    self: Any,
    name: str,
    format: str | None = None,  # noqa: A002  (the name PySpark has)
    mode: str | None = None,
    partitionBy: Any = None,  # noqa: N803  (the name PySpark has)
    **options: Any,
) -> None:
    if not _wants_delta(self, format):
        original(name, format, mode, partitionBy, **options)
        return
    request = _complete(self, mode, partitionBy)
    given = {**request.options, **options}
    save_as_table(frame_of_writer(self), name, mode or request.mode, request.partition_by, given, request.cluster_by)


def _save_delta(writer: Any, path: str | None, mode: str | None, partition_by: Any, options: dict[str, Any]) -> None:
    request = _complete(writer, mode, partition_by)
    given = {**request.options, **options}
    frame, target = frame_of_writer(writer), _path(path, given)
    save(frame, target, mode or request.mode, request.partition_by, given, request.cluster_by)


def _complete(writer: Any, mode: str | None, partition_by: Any) -> _Request:
    """What was asked of a writer, with what its last call says. Raises InvalidArgument for buckets."""
    request = _request(writer)
    if request.buckets is not None:
        raise InvalidArgument(
            f"Delta tables have no buckets: leave {request.buckets} out, or use clusterBy",
            error_class="DELTA_OPERATION_NOT_ALLOWED",
        )
    if partition_by is not None:
        request.partition_by = [partition_by] if isinstance(partition_by, str) else list(partition_by)
    request.mode = mode or request.mode
    return request


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
