"""`enable(spark)`: Slackwater handles `format("delta")`, names of Delta tables and SQL on these tables.

PySpark's classes are extended once per process, in each mode. Slackwater then handles every session of the process,
except sessions with `spark.slackwater.enabled` = false.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, overload

from pyspark.sql import SparkSession

from slackwater.errors import InvalidArgument, WrongArgumentType
from slackwater.spark.by_name.catalog_methods import extend_catalog
from slackwater.spark.by_name.merge_into import merge_into
from slackwater.spark.by_name.named_tables import insert_into, save_as_table, table_frame
from slackwater.spark.by_name.writer_v2 import extend_writer
from slackwater.spark.lake.lake import Lake
from slackwater.spark.read.load import load
from slackwater.spark.session.classic_connect import is_connect, this_python_for_server, use_this_python
from slackwater.spark.session.enabled_sessions import (
    ENABLED,
    enable_process,
    explained_view,
    is_enabled_for,
    opts_out,
    require_running,
    take_back_catalog,
)
from slackwater.spark.session.frames import frame_of_writer
from slackwater.spark.session.io_requests import (
    Request,
    given_path,
    is_extended,
    remember_requests,
    request_of,
    session_of,
    table_to_load,
    wants_delta,
    wrap,
)
from slackwater.spark.session.plan_text import explain
from slackwater.spark.sql.dispatcher import run
from slackwater.spark.streams.reader import extend_stream_reader
from slackwater.spark.streams.writer import extend_stream_writer
from slackwater.spark.writer.save import save

_ATTENDED = "_slackwater_attended"
_MODES = ("append", "overwrite", "ignore", "error", "errorifexists", "default")
_extending = threading.RLock()
# Default of `spark`, because an explicit None is an error.
_ACTIVE: Any = object()


@overload
def enable(spark: SparkSession, lake: Lake | None = None) -> SparkSession: ...
@overload
def enable(spark: SparkSession.Builder) -> SparkSession.Builder: ...
@overload
def enable(*, lake: Lake | None = None) -> SparkSession | None: ...
def enable(spark: Any = _ACTIVE, lake: Lake | None = None) -> Any:
    """Enable `format("delta")`, names of Delta tables and SQL on Delta tables in every session of this process.

    Supports classic and Connect sessions; nothing is installed or downloaded. `spark` is a session or a session
    builder, and is returned. Without `spark`, the active session is returned, or None if there is none. A session with
    `spark.slackwater.enabled` = false stays unchanged. Repeated calls have no effect. If a session names delta-spark's
    catalog and Spark cannot load it, the setting is removed with a warning. `lake` is attached to the session as
    `lake`.

    Raises:
        InvalidArgument: If the session opts out or was stopped, or if a lake is passed without a session.
        WrongArgumentType: If `spark` is neither a session nor a builder, including None. Also a TypeError.

    >>> slackwater.enable(spark) is spark
    True
    >>> spark.range(3).write.format("delta").save(path)
    >>> spark.read.format("delta").option("versionAsOf", 0).load(path).count()
    3
    """
    if spark is _ACTIVE:
        spark = None
    elif isinstance(spark, type) or not (_is_builder(spark) or hasattr(spark, "createDataFrame")):
        found = "None" if spark is None else f"{type(spark)}"
        raise WrongArgumentType(
            f"enable expected a Spark session, the builder of one, or no argument, found {found}. Call enable() for "
            "the active session"
        )
    if _is_builder(spark):
        if lake is not None:
            raise InvalidArgument(
                "a lake is attached to a session, not to a builder. Call enable(builder.getOrCreate(), lake=lake)"
            )
        _extend_process()
        return spark
    if spark is not None:
        _require_meant(spark)
    _extend_process()
    session = SparkSession.getActiveSession() if spark is None else spark
    if session is not None:
        _attend(session)
    if lake is not None:
        if session is None:
            raise InvalidArgument(
                "a lake is attached to a session, and no session is active. Call enable(spark, lake=lake)"
            )
        lake.attach(session)
    return session


def _require_meant(spark: SparkSession) -> None:
    require_running(spark)
    if opts_out(spark):
        raise InvalidArgument(
            f"the session has {ENABLED} = false, so Slackwater does not change it. Unset this setting, or enable "
            "another session"
        )


def _is_builder(given: Any) -> bool:
    return hasattr(given, "getOrCreate")


def _extend_process() -> None:
    """Extend PySpark's classes, and Connect's classes if imported. Later Connect sessions extend the rest."""
    from pyspark.sql import catalog, readwriter
    from pyspark.sql.classic import dataframe
    from pyspark.sql.streaming import readwriter as streaming

    with _extending:
        extend_stream_reader(streaming.DataStreamReader)
        extend_stream_writer(streaming.DataStreamWriter)
        _extend(readwriter.DataFrameReader, readwriter.DataFrameWriter, readwriter.DataFrameWriterV2)
        _extend_sessions(SparkSession, catalog.Catalog)
        _extend_frames(dataframe.DataFrame)
        if "pyspark.sql.connect.session" in sys.modules:
            _extend_connect()
        enable_process()


def _extend_connect() -> None:
    from pyspark.sql.connect import catalog, dataframe, readwriter, session
    from pyspark.sql.connect.streaming import readwriter as streaming

    with _extending:
        _extend(readwriter.DataFrameReader, readwriter.DataFrameWriter, readwriter.DataFrameWriterV2)
        _extend_sessions(session.SparkSession, catalog.Catalog)
        _extend_frames(dataframe.DataFrame)
        extend_stream_reader(streaming.DataStreamReader)
        extend_stream_writer(streaming.DataStreamWriter)


def _extend_sessions(session: Any, catalog: type) -> None:
    """Attend to new sessions of class `session`, and handle tables named by path."""
    if is_extended(session):
        return
    for kind, names in ((session.Builder, ("getOrCreate", "create")), (session, ("newSession", "cloneSession"))):
        for name in names:
            # PySpark releases differ in the available methods.
            if hasattr(kind, name):
                wrap(kind, name, _new_session)
    wrap(session, "sql", _sql)
    wrap(session, "table", _table)
    extend_catalog(catalog)


def _extend_frames(frame: type) -> None:
    """Add `mergeInto` for Delta tables and readable `explain` output to this DataFrame class, once."""
    if not is_extended(frame):
        wrap(frame, "mergeInto", merge_into)
        wrap(frame, "explain", explain)


def _new_session(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    with this_python_for_server(getattr(self, "_options", {})):
        session = original(*args, **kwargs)
    _attend(session)
    return session


def _sql(original: Callable[..., Any], self: Any, sqlQuery: Any, args: Any = None, **kwargs: Any) -> Any:  # noqa: N803
    if not is_enabled_for(self):
        return original(sqlQuery, args, **kwargs)
    with explained_view(self):
        return run(original, self, sqlQuery, args, kwargs)


def _table(original: Callable[..., Any], self: Any, tableName: Any) -> Any:  # noqa: N803  (the name PySpark has)
    frame = table_frame(self, tableName) if isinstance(tableName, str) and is_enabled_for(self) else None
    return original(tableName) if frame is None else frame


def _read_table(original: Callable[..., Any], self: Any, tableName: Any) -> Any:  # noqa: N803  (the name PySpark has)
    session = session_of(self)
    is_ours = isinstance(tableName, str) and is_enabled_for(session)
    frame = table_frame(session, tableName, request_of(self).options) if is_ours else None
    return original(tableName) if frame is None else frame


def _insert_into(
    original: Callable[..., Any],
    self: Any,
    tableName: str,  # noqa: N803  (the name PySpark has)
    overwrite: bool | None = None,
) -> None:
    request = request_of(self)
    overwrites = request.mode.lower() == "overwrite" if overwrite is None else bool(overwrite)
    if (
        not isinstance(tableName, str)
        or not is_enabled_for(session_of(self))
        or not insert_into(frame_of_writer(self), tableName, overwrites, request.options)
    ):
        original(tableName, overwrite)


def _attend(session: Any) -> None:
    """Prepare a session once, in addition to the extended classes."""
    if session.__dict__.get(_ATTENDED):
        return
    session.__dict__[_ATTENDED] = True
    if is_connect(session):
        _extend_connect()
    if is_enabled_for(session):
        take_back_catalog(session)
        use_this_python(session)


def _extend(reader: type, writer: type, writer_by_name: type) -> None:
    if is_extended(reader):
        return
    extend_writer(writer_by_name, wrap)
    for kind in (reader, writer):
        remember_requests(kind)
    wrap(reader, "load", _load)
    wrap(reader, "table", _read_table)
    wrap(writer, "mode", _mode)
    wrap(writer, "partitionBy", _partition_by)
    wrap(writer, "clusterBy", _cluster_by)
    wrap(writer, "save", _save)
    wrap(writer, "saveAsTable", _save_as_table)
    wrap(writer, "insertInto", _insert_into)
    for name in ("bucketBy", "sortBy"):
        wrap(writer, name, functools.partial(_buckets, name))


def _mode(original: Callable[..., Any], self: Any, save_mode: str | None) -> Any:
    request = request_of(self)
    if request.is_delta and isinstance(save_mode, str):
        _require_mode(save_mode)
    if save_mode:
        request.mode = save_mode
    return original(save_mode)


def _require_mode(given: str) -> None:
    """Raise InvalidArgument for an unknown write mode, because Spark's own message is a JVM error."""
    if given.strip().lower() not in _MODES:
        near = get_close_matches(given.strip().lower(), _MODES, 1)
        meant = f": did you mean {near[0]!r}?" if near else ""
        raise InvalidArgument(f"a write has the mode {', '.join(_MODES[:-1])} or {_MODES[-1]}, found {given!r}{meant}")


def _partition_by(original: Callable[..., Any], self: Any, *columns: Any) -> Any:
    names = columns[0] if len(columns) == 1 and isinstance(columns[0], (list, tuple)) else columns
    request_of(self).partition_by = list(names)
    return original(*columns)


def _cluster_by(original: Callable[..., Any], self: Any, *columns: Any) -> Any:
    names = columns[0] if len(columns) == 1 and isinstance(columns[0], (list, tuple)) else columns
    request_of(self).cluster_by = list(names)
    return original(*columns)


def _load(
    original: Callable[..., Any],
    self: Any,
    path: Any = None,
    format: str | None = None,  # noqa: A002  (the name PySpark has)
    schema: Any = None,
    **options: Any,
) -> Any:
    asked = table_to_load(self, path, format, schema, options)
    return original(path, format, schema, **options) if asked is None else load(session_of(self), *asked)


def _save(
    original: Callable[..., Any],
    self: Any,
    path: str | None = None,
    format: str | None = None,  # noqa: A002  (the name PySpark has)
    mode: str | None = None,
    partitionBy: Any = None,  # noqa: N803  (the name PySpark has)
    **options: Any,
) -> None:
    if not wants_delta(self, format):
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
    if not wants_delta(self, format):
        original(name, format, mode, partitionBy, **options)
        return
    request = _complete(self, mode, partitionBy)
    given = {**request.options, **options}
    save_as_table(frame_of_writer(self), name, mode or request.mode, request.partition_by, given, request.cluster_by)


def _save_delta(writer: Any, path: str | None, mode: str | None, partition_by: Any, options: dict[str, Any]) -> None:
    request = _complete(writer, mode, partition_by)
    given = {**request.options, **options}
    frame, target = frame_of_writer(writer), given_path(path, given)
    save(frame, target, mode or request.mode, request.partition_by, given, request.cluster_by)


def _complete(writer: Any, mode: str | None, partition_by: Any) -> Request:
    """Return the writer's request with the arguments of its last call. Raises InvalidArgument for buckets."""
    request = request_of(writer)
    if request.buckets is not None:
        raise InvalidArgument(
            f"Delta tables have no buckets. Leave {request.buckets} out, or use clusterBy",
            error_class="DELTA_OPERATION_NOT_ALLOWED",
        )
    if partition_by is not None:
        request.partition_by = [partition_by] if isinstance(partition_by, str) else list(partition_by)
    request.mode = mode or request.mode
    return request


def _buckets(method: str, original: Callable[..., Any], self: Any, *args: Any) -> Any:
    request_of(self).buckets = method
    return original(*args)
