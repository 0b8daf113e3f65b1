"""`df.writeTo(name)`: PySpark's DataFrameWriterV2 for Delta tables. It creates, replaces and writes tables by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession

from slackwater.errors import InvalidArgument, TableNotFound, UnsupportedFeature
from slackwater.spark.by_name.named_tables import save_as_table
from slackwater.spark.catalog.resolve import known_parts, lake_name_of, parts_of, path_in_parts, resolve
from slackwater.spark.session.enabled_sessions import is_delta_by_default, is_enabled_for
from slackwater.spark.session.frames import frame_of_writer
from slackwater.spark.table.named import NamedTable, named_table

_REQUEST = "_slackwater_write_to"
_COLUMN_TEXT = "Column<'"


@dataclass
class _Request:
    """The settings of one writer."""

    name: str
    provider: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    partition_by: list[str] | None = field(default_factory=list)
    cluster_by: list[str] = field(default_factory=list)


def extend_writer(writer: type, wrap: Callable[[type, str, Callable[..., Any]], None]) -> None:
    """Replace the writer's methods with `wrap`. The replacements receive Spark's original methods."""
    wrap(writer, "__init__", _init)
    for name in ("using", "option", "options", "tableProperty", "partitionedBy", "clusterBy"):
        # Not all releases of PySpark have each method.
        if hasattr(writer, name):
            wrap(writer, name, functools.partial(_asked, name))
    for name in ("create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions"):
        wrap(writer, name, functools.partial(_done, name))


def _init(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> None:
    original(*args, **kwargs)
    table = kwargs.get("table", args[2] if len(args) > 2 else args[-1])
    self.__dict__[_REQUEST] = _Request(str(table))


def _asked(what: str, original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
    request: _Request = self.__dict__[_REQUEST]
    if what == "using":
        request.provider = str(args[0] if args else kwargs["provider"]).lower()
        if request.provider == "delta" and is_enabled_for(_session(self)):
            return self
    elif what == "option":
        request.options[_given("key", 0, args, kwargs)] = _given("value", 1, args, kwargs)
    elif what == "options":
        request.options.update(kwargs)
    elif what == "tableProperty":
        request.properties[_given("property", 0, args, kwargs)] = _given("value", 1, args, kwargs)
    elif what == "clusterBy":
        request.cluster_by = [str(each) for each in (*args, *kwargs.values())]
    else:
        names = [_column_name(each) for each in (*args, *kwargs.values())]
        request.partition_by = None if None in names else [name for name in names if name is not None]
    return original(*args, **kwargs)


def _given(name: str, place: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return args[place] if len(args) > place else kwargs[name]


def _column_name(given: Any) -> str | None:
    """Return the name of a plain column, None for a transform of a column."""
    if isinstance(given, str):
        return given
    text = str(given).removeprefix(_COLUMN_TEXT).removesuffix("'>")
    return None if "(" in text else text.replace("`", "")


def _done(what: str, original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> None:
    request: _Request = self.__dict__[_REQUEST]
    spark = _session(self)
    parts = known_parts(request.name) if is_enabled_for(spark) else ()
    creates = what in ("create", "replace", "createOrReplace")
    if not parts or not (_creates_delta(spark, request, parts) if creates else resolve(spark, parts) is not None):
        original(*args, **kwargs)
    elif creates:
        _create(frame_of_writer(self), request, what)
    else:
        named = named_table(spark, parts)
        if named is not None:
            _write(frame_of_writer(self), named, request, what, *args, **kwargs)


def _session(writer: Any) -> SparkSession:
    session: SparkSession = writer._spark
    return session


def _creates_delta(spark: SparkSession, request: _Request, parts: tuple[str, ...]) -> bool:
    if request.provider is not None:
        return request.provider == "delta"
    if path_in_parts(parts) is not None or lake_name_of(spark, parts, is_new=True) is not None:
        return True
    return is_delta_by_default(spark)


def _create(frame: DataFrame, request: _Request, what: str) -> None:
    if request.partition_by is None:
        raise UnsupportedFeature(
            f"{request.name}: Delta tables are partitioned by columns, not by expressions. Partition by a column"
        )
    spark = frame.sparkSession
    is_there = _is_there(spark, request.name)
    if what == "replace" and not is_there:
        raise TableNotFound(f"{request.name} does not exist, so it cannot be replaced. Create it first")
    options, mode = dict(request.options), "error"
    if is_there and what != "create":
        mode = "overwrite"
        options["overwriteSchema"] = "true"
    given = (request.partition_by, options, request.cluster_by, request.properties)
    save_as_table(frame, request.name, mode, *given)
    if mode == "overwrite" and request.properties and (named := named_table(spark, parts_of(request.name))):
        named.table.setProperties(request.properties)


def _is_there(spark: SparkSession, name: str) -> bool:
    """Return whether the name is that of a Delta table with a log."""
    try:
        named = named_table(spark, parts_of(name))
        return named is not None and named.table._snapshot().version >= 0
    except TableNotFound:
        return False


def _write(frame: DataFrame, named: NamedTable, request: _Request, what: str, condition: Any = None) -> None:
    """Write rows with columns matched by name."""
    options = dict(request.options)
    if what == "append":
        named.table._write(frame, "append", options)
        return
    if what == "overwritePartitions":
        options["partitionOverwriteMode"] = "dynamic"
    elif not _is_true(condition):
        if not isinstance(condition, str):
            raise InvalidArgument(
                f'{request.name}: the condition of overwrite is not SQL text. Pass a text such as overwrite("day = '
                "'2026-01-01'\"), or F.lit(True)"
            )
        options["replaceWhere"] = condition
    named.table._write(frame, "overwrite", options)


def _is_true(condition: Any) -> bool:
    return isinstance(condition, Column) and str(condition).lower() in ("column<'true'>", "column<b'true'>")
