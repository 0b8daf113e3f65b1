"""`spark.sql` over frames, used as views in a statement, in each mode."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from slackwater.spark.catalog.session_catalog import java_catalog, plain_sql
from slackwater.spark.catalog.session_lakes import session_key
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.session.frames import frame_of_plan, resolved_plan
from slackwater.spark.session.jvm_objects import java_class

_PREFIX = "__slackwater_"
_FIRST_VIEW = "_slackwater_first_view"
_numbers = itertools.count(1)


@dataclass
class StatementOnViews:
    """A statement with views for its Delta tables: its text, and the frames of the views."""

    text: str
    views: dict[str, DataFrame] = field(default_factory=dict)


def new_view_name() -> str:
    """Return a unique name for a view."""
    return f"{_PREFIX}{next(_numbers)}"


@contextmanager
def with_frames(spark: SparkSession, text: str, given: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, DataFrame]]]:
    """Yield `text` with view names for each `{name}`, and the views in Connect.

    Classic mode registers the views in the session instead. Uses PySpark's own formatter.
    """
    if not given:
        yield text, {}
        return
    if is_connect(spark):
        from pyspark.sql.connect.sql_formatter import SQLStringFormatter as ConnectFormatter

        connect: Any = ConnectFormatter(spark)  # type: ignore[arg-type]
        found = connect.format(text, **given)
        yield found, {name: frame for frame, name in connect._temp_views}
        return
    from pyspark.sql.sql_formatter import SQLStringFormatter

    formatter: Any = SQLStringFormatter(spark)
    try:
        yield formatter.format(text, **given), {}
    finally:
        formatter.clear()


def sql_over(spark: SparkSession, text: str, views: Mapping[str, DataFrame], args: Any = None) -> DataFrame:
    """Return Spark's own `spark.sql(text, args)`, with the names of `views` for these frames."""
    if is_connect(spark):
        return _connect_sql(spark, text, views, args)
    with session_views(spark, views):
        return plain_sql(spark, text, args)


@contextmanager
def session_views(spark: SparkSession, views: Mapping[str, DataFrame]) -> Iterator[None]:
    """Create temporary views of the session with these names and rows within the block."""
    try:
        for name, frame in views.items():
            _register(spark, name, _of_session(spark, frame))
        yield
    finally:
        for name in views:
            _drop(spark, name)


def _register(spark: SparkSession, name: str, frame: DataFrame) -> None:
    """Register `frame` as the temporary view `name`, an internal name.

    Spark's command costs more than a short query's plan. The metadata of the first view serve for all others, because
    only the plan of a view is read.
    """
    if is_connect(spark):
        frame.createOrReplaceTempView(name)
        return
    catalog = java_catalog(spark)
    first = spark.__dict__.get(_FIRST_VIEW)
    if first is None:
        frame.createOrReplaceTempView(name)
        view = catalog.getRawTempView(name).get()
        spark.__dict__[_FIRST_VIEW] = view, view.tableMeta()
        return
    view, meta = first
    plan = java_class(spark, "scala.Some")(resolved_plan(frame))
    catalog.createTempView(name, view.copy(meta, plan), True)


def _of_session(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """Return the frame in this session. Views are visible in one session only, and a lake creates frames in its own."""
    if frame.sparkSession is spark or is_connect(spark) or session_key(frame.sparkSession) == session_key(spark):
        return frame
    return frame_of_plan(spark, frame._jdf.queryExecution().analyzed())


def _drop(spark: SparkSession, name: str) -> None:
    if is_connect(spark):
        plain_sql(spark, f"DROP VIEW IF EXISTS {name}")
    else:
        # Drop only the name, because Spark's command would also uncache users' frames of the same plan.
        java_catalog(spark).dropTempView(name)


def _connect_sql(spark: Any, text: str, views: Mapping[str, DataFrame], args: Any) -> DataFrame:
    """Run SQL like PySpark's `sql`, with the views in the plan, because each run of the frame runs the plan again."""
    from pyspark.sql.connect import functions
    from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame
    from pyspark.sql.connect.plan import SQL, CachedRelation, SubqueryAlias

    named = {key: functions.lit(value) for key, value in args.items()} if isinstance(args, Mapping) else {}
    positional = [] if args is None or isinstance(args, Mapping) else [functions.lit(value) for value in args]
    plans: list[tuple[Any, str]] = [(frame._plan, name) for name, frame in views.items()]
    command: Any = SQL(text, positional, named, [SubqueryAlias(plan, name) for plan, name in plans])
    _, properties, info = spark.client.execute_command(command.command(spark.client))
    result = properties.get("sql_command_result")
    # The server returns a query itself, with the plans of the views as they were sent.
    is_query = result is None or result.WhichOneof("rel_type") in ("sql", "with_relations")
    frame: Any = ConnectDataFrame(command if is_query else CachedRelation(result), spark)
    frame._execution_info = info
    found: DataFrame = frame
    return found
