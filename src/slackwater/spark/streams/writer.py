"""`df.writeStream.format("delta").start(path)` and `.toTable(name)`, with PySpark's DataStreamWriter of either mode.

Such a query is a `foreachBatch` query with a function that writes each batch like `df.write`. Arguments are validated
before the query starts, as far as possible.

Source: delta-spark's DeltaDataSource.createSink; Spark's DataStreamWriter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from slackwater.errors import InvalidArgument, OperationNotAllowed
from slackwater.log.table import Table
from slackwater.spark.by_name.named_tables import require_same
from slackwater.spark.catalog.resolve import LakeName, known_parts, lake_name_of, parts_of, path_in_parts, resolve
from slackwater.spark.catalog.session_catalog import entry_of
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.session.enabled_sessions import is_delta_by_default, is_enabled_for
from slackwater.spark.session.io_requests import given_path, is_extended, wrap
from slackwater.spark.session.reader_options import Options
from slackwater.spark.session.settings import SessionSettings
from slackwater.spark.storage.stores import table_at
from slackwater.spark.streams.connect_foreach_batch import remote_batch_writer
from slackwater.spark.streams.server_python import require_server_python
from slackwater.spark.streams.sink import CHECKPOINT, SinkRequest, StreamSink, checkpoint_of
from slackwater.spark.table.builder import created_if_missing
from slackwater.spark.write.options import WriteOptions

_REQUEST = "_slackwater_stream"
_OWN_FUNCTION = ("foreach", "foreachBatch")


@dataclass
class _Request:
    """The settings of one writer. `source` is the last format set, None with a function of the user."""

    frame: DataFrame
    source: str | None = None
    has_function: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    output_mode: str = "append"
    partition_by: list[str] = field(default_factory=list)
    cluster_by: list[str] = field(default_factory=list)
    query_name: str | None = None
    trigger: dict[str, Any] = field(default_factory=dict)

    @property
    def spark(self) -> SparkSession:
        return self.frame.sparkSession

    def write_options(self) -> dict[str, str]:
        """Return the options as text, without options of the query itself."""
        return {k: v for k, v in Options(self.options).items() if k.lower() not in ("checkpointlocation", "path")}


def extend_stream_writer(writer: type) -> None:
    """Replace the writer's methods. The replacements receive Spark's. A repeated call for a class has no effect."""
    if is_extended(writer):
        return
    wrap(writer, "__init__", _init)
    names = ("format", "option", "options", "outputMode", "partitionBy", "clusterBy", "queryName", "trigger")
    for name in (*names, *_OWN_FUNCTION):
        # Not all releases of PySpark have each method.
        if hasattr(writer, name):
            wrap(writer, name, functools.partial(_asked, name))
    if writer.__module__.startswith("pyspark.sql.connect"):
        wrap(writer, "foreachBatch", _foreach_batch)
    wrap(writer, "start", _start)
    wrap(writer, "toTable", _to_table)


def _init(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> None:
    original(*args, **kwargs)
    (source, *session) = (*args, *kwargs.values())
    if session:
        from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame

        source = ConnectDataFrame(source, session[0])
    self.__dict__[_REQUEST] = _Request(source)


def _asked(what: str, original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    answer = original(*args, **kwargs)
    request: _Request = self.__dict__[_REQUEST]
    given = (*args, *kwargs.values())
    if what == "format":
        request.source, request.has_function = given[0], False
    elif what == "option":
        named = dict(zip(("key", "value"), args, strict=False)) | kwargs
        request.options[str(named["key"])] = named["value"]
    elif what == "options":
        request.options.update(kwargs)
    elif what == "outputMode":
        request.output_mode = str(given[0])
    elif what == "queryName":
        request.query_name = given[0]
    elif what == "trigger":
        request.trigger = dict(kwargs)
    elif what in _OWN_FUNCTION:
        request.has_function = True
    else:
        names = given[0] if len(given) == 1 and isinstance(given[0], (list, tuple)) else given
        setattr(request, "partition_by" if what == "partitionBy" else "cluster_by", [str(name) for name in names])
    return answer


def _foreach_batch(original: Callable[..., Any], self: Any, func: Callable[..., None]) -> Any:
    """Run `func` in a Python process of the server, after `enable` of Slackwater if installed there."""
    return original(_enabling(func) if is_enabled_for(self._session) else func)


def _enabling(func: Callable[..., None]) -> Callable[..., None]:
    # The function is pickled by value, and must not refer to this package outside its body.
    def enabled(frame: Any, batch_id: int) -> None:
        from importlib import import_module
        from importlib.util import find_spec

        if find_spec("slackwater") is not None:
            import_module("slackwater").enable(frame.sparkSession)
        func(frame, batch_id)

    return enabled


def _start(
    original: Callable[..., Any],
    self: Any,
    path: str | None = None,
    format: str | None = None,  # noqa: A002  (the name PySpark has)
    outputMode: str | None = None,  # noqa: N803  (the name PySpark has)
    partitionBy: Any = None,  # noqa: N803  (the name PySpark has)
    queryName: str | None = None,  # noqa: N803  (the name PySpark has)
    **options: Any,
) -> Any:
    request: _Request = self.__dict__[_REQUEST]
    if not _is_delta(request, format):
        return original(path, format, outputMode, partitionBy, queryName, **options)
    _complete(self, outputMode, partitionBy, queryName, options)
    return _started(request, functools.partial(_table_at, request, path))


def _to_table(
    original: Callable[..., Any],
    self: Any,
    tableName: str,  # noqa: N803  (the name PySpark has)
    format: str | None = None,  # noqa: A002  (the name PySpark has)
    outputMode: str | None = None,  # noqa: N803  (the name PySpark has)
    partitionBy: Any = None,  # noqa: N803  (the name PySpark has)
    queryName: str | None = None,  # noqa: N803  (the name PySpark has)
    **options: Any,
) -> Any:
    request: _Request = self.__dict__[_REQUEST]
    if not _is_delta(request, format) and not _is_known(request, format, tableName):
        return original(tableName, format, outputMode, partitionBy, queryName, **options)
    _complete(self, outputMode, partitionBy, queryName, options)
    return _started(request, functools.partial(_table_named, request, tableName))


def _is_delta(request: _Request, named: str | None) -> bool:
    """Return whether the query writes to Delta and the session is enabled, according to the last format set."""
    source = named if named is not None else request.source
    if named is None and request.has_function:
        return False
    is_delta = is_delta_by_default(request.spark) if source is None else str(source).lower() == "delta"
    return is_delta and is_enabled_for(request.spark)


def _is_known(request: _Request, named: str | None, name: Any) -> bool:
    """Return whether no format is set and `name` is that of a Delta table."""
    if named is not None or request.source is not None or request.has_function or not is_enabled_for(request.spark):
        return False
    parts = known_parts(name)
    return bool(parts) and resolve(request.spark, parts) is not None


def _complete(
    writer: Any, output_mode: str | None, partition_by: Any, query_name: str | None, options: Mapping[str, Any]
) -> None:
    """Apply the arguments of the last call like calls of the writer's methods."""
    writer.options(**options)
    if output_mode is not None:
        writer.outputMode(output_mode)
    if partition_by is not None:
        writer.partitionBy(partition_by)
    if query_name is not None:
        writer.queryName(query_name)


def _started(request: _Request, target: Callable[[WriteOptions], Table]) -> Any:
    """Start the query and return it. An error leaves nothing written, except a table created by `target`."""
    spark, frame = request.spark, request.frame
    asked = SinkRequest(
        request.output_mode,
        request.write_options(),
        checkpoint_of(spark, request.options, request.query_name),
        request.partition_by,
        request.cluster_by,
    )
    written = asked.write_options(SessionSettings.of(spark))
    _require_types(frame.schema)
    if is_connect(spark):
        require_server_python(spark)
    table = target(written)
    sink = StreamSink(spark, table, asked)
    sink.validate(frame)
    if table.branch is not None:
        raise OperationNotAllowed(
            f"{table.root_url}: a stream outlives the transaction, so it cannot be written within it. COMMIT or "
            "ROLLBACK first"
        )
    plain = frame.writeStream.outputMode(request.output_mode).option(CHECKPOINT, asked.checkpoint)
    if request.query_name is not None:
        plain = plain.queryName(request.query_name)
    if request.trigger:
        plain = plain.trigger(**request.trigger)
    made = functools.partial(StreamSink, table=table, request=asked)
    function = remote_batch_writer(made) if is_connect(spark) else sink.write
    return plain.foreachBatch(function).start()


def _require_types(schema: spark_types.StructType) -> None:
    if _has_void(schema):
        raise InvalidArgument(
            "the stream has a column, or a field in one, that is always null and has no type. Cast it to its type in "
            "the table",
            error_class="DELTA_NULL_SCHEMA_IN_STREAMING_WRITE",
        )


def _has_void(kind: spark_types.DataType) -> bool:
    if isinstance(kind, spark_types.StructType):
        return any(_has_void(each.dataType) for each in kind.fields)
    if isinstance(kind, spark_types.ArrayType):
        return _has_void(kind.elementType)
    if isinstance(kind, spark_types.MapType):
        return _has_void(kind.keyType) or _has_void(kind.valueType)
    return isinstance(kind, spark_types.NullType)


def _table_at(request: _Request, path: Any, written: WriteOptions) -> Table:
    """Return the table at the path of `start` or of the option `path`. The first batch creates the table."""
    found = given_path(path, request.options)
    return table_at(request.spark, found, written.given)


def _table_named(request: _Request, name: Any, written: WriteOptions) -> Table:
    """Return the table of the name. A missing table is created, unless the name is a path."""
    spark, parts = request.spark, parts_of(name)
    path = path_in_parts(parts)
    if path is not None:
        return table_at(spark, path, written.given)
    in_lake = lake_name_of(spark, parts, is_new=True)
    if in_lake is not None:
        return _table_in_lake(request, in_lake, written)
    location = Options(request.options).get("path")
    entry = entry_of(spark, parts)
    if entry is not None and not entry.is_temporary:
        require_same(entry, name, location)
    created: Table = created_if_missing(
        spark,
        name,
        request.frame.schema,
        written.partition_by,
        written.cluster_by,
        written.properties,
        location,
    )
    return created


def _table_in_lake(request: _Request, name: LakeName, written: WriteOptions) -> Table:
    if not name.is_there:
        lake: Any = name.lake
        lake.create_table(name.name, request.frame.schema, request.partition_by, request.cluster_by, written.properties)
    table: Table = name.table()._table
    return table
