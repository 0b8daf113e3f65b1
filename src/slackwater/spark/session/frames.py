"""Frames with plans, columns, methods or a schema of this package's choice, and what their plans say, in each mode."""

from __future__ import annotations

import copy
import functools
import re
import uuid
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pyarrow as pa

from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.session.jvm_objects import java_class, scala_object, scala_seq, static_member, string_array

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.types import StructType

ArrowFunction: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_Key = TypeVar("_Key", bound=Hashable)

_PATHS_ONE_BY_ONE = 16
_PLAN = "_slackwater_plan"
_UNCACHED = "slackwaterUncached"
_ATTRIBUTE_ID = re.compile(r"#(\d+)L?\Z")


def empty_frame(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return a frame without rows. In classic PySpark, `createDataFrame` would run a job in the Python of executors."""
    if is_connect(spark):
        return spark.createDataFrame([], schema)
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    session = spark._jsparkSession
    found = session.createDataFrame(java_class(spark, "java.util.ArrayList")(), session.parseDataType(schema.json()))
    return ClassicDataFrame(found, spark)


def same_columns(original: DataFrame, replacement: DataFrame) -> DataFrame:
    """Return `replacement` with columns to which references made from `original` (`original.a`) resolve.

    `replacement` has the columns of `original` in the same order, and may have more at its end. A classic reference
    holds the attribute id of its column, so the new columns take over the ids of `original`. A Connect reference holds
    the id of a plan.
    """
    if is_connect(original.sparkSession):
        return same_plan(original, replacement)

    session = original.sparkSession
    old_plan = original._jdf.queryExecution().analyzed()
    new_plan = replacement._jdf.queryExecution().analyzed()
    old, new = old_plan.output(), new_plan.output()
    alias = java_class(session, "org.apache.spark.sql.catalyst.expressions.Alias")
    empty = scala_object(session, "scala.collection.immutable.Nil")
    none = scala_object(session, "scala.None")
    aliases = []
    # Leave out attributes with the right id, because Spark assigns new ids to all if an attribute is aliased to itself.
    ids, new_ids = attribute_ids(old), attribute_ids(new)
    pairs = zip(ids, new_ids[: len(ids)], strict=True)
    kept = {position for position, (before, after) in enumerate(pairs) if before == after}
    for position in range(old.size()):
        if position in kept:
            aliases.append(new.apply(position))
            continue
        attribute = old.apply(position)
        aliases.append(alias(new.apply(position), attribute.name(), attribute.exprId(), empty, none, empty))
    aliases += [new.apply(position) for position in range(len(ids), len(new_ids))]
    logical = "org.apache.spark.sql.catalyst.plans.logical"
    project = java_class(session, f"{logical}.Project")(scala_seq(session, aliases), new_plan)
    return frame_of_plan(session, project)


def with_source(frame: DataFrame, source: DataFrame, replacement: DataFrame) -> DataFrame | None:
    """Return `frame`, derived from `source`, over `replacement` in its place, in a classic session. None if impossible.

    `replacement` is a result of `same_columns`. Expressions stay resolved: Spark does not read their text again, with
    other settings, variables, views or functions of the session.
    """
    old, new = (each._jdf.queryExecution().analyzed() for each in (source, replacement))
    above = []
    node = frame._jdf.queryExecution().analyzed()
    while not node.equals(old):
        children = node.children()
        if children.size() != 1:
            return None
        above.append(node)
        node = children.apply(0)
    session = frame.sparkSession
    for each in reversed(above):
        new = each.withNewChildren(scala_seq(session, [new]))
    return frame_of_plan(session, new)


def is_deterministic(frame: DataFrame) -> bool:
    """Return whether the expressions of a frame of a classic session have the same results over other files."""
    return bool(frame._jdf.queryExecution().analyzed().deterministic())


def frame_of_plan(spark: SparkSession, plan: Any) -> DataFrame:
    """Return the frame of a logical plan of the JVM, in a classic session."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    of_rows = static_member(spark, "org.apache.spark.sql.classic.Dataset", "ofRows")
    return ClassicDataFrame(of_rows(spark._jsparkSession, plan), spark)


def attribute_ids(attributes: Any) -> list[str]:
    """Return the ids of a classic plan's attributes, in a single call into the JVM."""
    text = str(attributes.mkString("\0"))
    return [match[1] for each in text.split("\0") if (match := _ATTRIBUTE_ID.search(each))]


def same_plan(original: DataFrame, replacement: DataFrame) -> DataFrame:
    """Return `replacement`, in Connect with the plan id of `original`. Classic sessions have no plan ids."""
    if is_connect(original.sparkSession):
        plan: Any = replacement._plan
        # Newer releases of PySpark have the attribute under another name, with a property for the old one.
        name = "_root_plan_id" if hasattr(plan, "_root_plan_id") else "_plan_id"
        setattr(plan, name, original._plan._plan_id)
    return replacement


def with_methods(frame: DataFrame, methods: Mapping[str, Callable[..., Any]]) -> DataFrame:
    """Return a copy of `frame` with these `methods` in place of its own, by name."""
    if is_connect(frame.sparkSession):
        from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame

        connect: DataFrame = _overriding(ConnectDataFrame, tuple(methods))(frame._plan, frame.sparkSession)
        connect._slackwater_methods = methods  # type: ignore[attr-defined]
        if (schema := frame.__dict__.get("_cached_schema")) is not None:
            # Copy the cached schema to save a request to the server.
            connect._cached_schema = schema  # type: ignore[attr-defined]
        return connect
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    classic: Any = _overriding(ClassicDataFrame, tuple(methods))(frame._jdf, frame.sparkSession)
    classic._slackwater_methods = methods
    # Copy the cached values to save calls into the JVM.
    classic.__dict__.update({key: frame.__dict__[key] for key in ("schema", _PLAN) if key in frame.__dict__})
    return classic  # type: ignore[no-any-return]


def with_known_schema(frame: DataFrame, schema: StructType) -> DataFrame:
    """Cache `schema` as the schema of `frame` in a Connect session, to save a request to the server. Return `frame`.

    The plan stays unchanged. PySpark passes the schema on to frames with the same columns, such as those of `filter`
    and `limit`. The server provides the schema of other derived frames.
    """
    if is_connect(frame.sparkSession):
        # Copy the schema, because callers can add fields to a schema.
        frame._cached_schema = type(schema)(list(schema.fields))  # type: ignore[attr-defined]
    return frame


def frame_of_later_plan(
    spark: SparkSession, schema: StructType | None, make: Callable[[_Key], DataFrame], key: Callable[[Any], _Key]
) -> DataFrame:
    """Return a frame of a Connect session with the rows of `make(key(client))`, called when `client` sends the plan.

    `make` is called once for each key. `schema` is the schema of its results, None if the server provides it.
    """
    from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame
    from pyspark.sql.connect.plan import LogicalPlan

    class LaterPlan(LogicalPlan):
        """The plan of a frame that is made later."""

        def plan(self, session: Any) -> Any:
            relation = made(key(session))._plan.plan(session)
            # References to columns of the frame hold the id of this plan.
            relation.common.plan_id = self._create_proto_relation().common.plan_id
            return relation

    made: Callable[[_Key], Any] = functools.cache(make)
    session: Any = spark
    frame: DataFrame = ConnectDataFrame(LaterPlan(None), session)
    return frame if schema is None else with_known_schema(frame, schema)


def plain_method(frame: DataFrame, name: str) -> Callable[..., DataFrame]:
    """Return Spark's own method `name` of `frame`."""
    from pyspark.sql import DataFrame as AnyDataFrame

    base = next(c for c in type(frame).__mro__ if c.__module__.startswith("pyspark.") and c is not AnyDataFrame)
    return functools.partial(getattr(base, name), frame)


def read_paths(spark: SparkSession, reader: DataFrameReader, paths: Sequence[str]) -> DataFrame:
    """Return `reader.load(paths)`, analysed: a missing path raises here."""
    frame: DataFrame
    if is_connect(spark):
        frame = reader.load(list(paths))
        _ = frame.schema
    elif len(paths) <= _PATHS_ONE_BY_ONE:
        frame = reader.load(list(paths))
    else:
        frame = reader._df(reader._jreader.load(string_array(spark, paths)))
    return frame


def relation_of(frame: DataFrame) -> Any:
    """Return the file relation of `frame`, a result of `read_paths` in a classic session."""
    return frame._jdf.queryExecution().analyzed().collectLeaves().apply(0).relation()


def frame_of_relation(spark: SparkSession, relation: Any, schema: StructType | None = None) -> DataFrame:
    """Return a query for all columns of a file relation in a classic session, with attributes of its own.

    The query protects the files: Spark would accept an INSERT into a view of a bare relation and overwrite the files.
    `schema` is the frame's schema, if known. It saves a call into the JVM.
    """
    plans = "org.apache.spark.sql"
    plan = scala_object(spark, f"{plans}.execution.datasources.LogicalRelation").apply(relation, False)
    project = java_class(spark, f"{plans}.catalyst.plans.logical.Project")(plan.output(), plan)
    frame = frame_of_plan(spark, project)
    frame.__dict__[_PLAN] = project
    if schema is not None:
        # Copy the schema, because callers can add fields to a schema.
        frame.__dict__["schema"] = type(schema)(list(schema.fields))
    return frame


def never_null(spark: SparkSession, relation: Any, data: StructType, partitions: StructType) -> Any:
    """Return `relation`, a file relation of a classic session, with the nullability of these schemas.

    `data` and `partitions` are the columns of the files and of their directories. Only their nullability differs from
    the relation's. Spark makes each column of a file nullable. The result is the same relation with other schemas, so
    column and partition pruning still work. Rows are not validated against the schemas.
    """
    session = spark._jsparkSession
    return relation.copy(
        relation.location(),
        session.parseDataType(partitions.json()) if len(partitions) else relation.partitionSchema(),
        session.parseDataType(data.json()),
        relation.bucketSpec(),
        relation.fileFormat(),
        relation.options(),
        relation.sparkSession(),
    )


def resolved_plan(frame: DataFrame) -> Any:
    """Return the logical plan of a frame of a classic session, with names resolved."""
    found = frame.__dict__.get(_PLAN)
    return frame._jdf.queryExecution().analyzed() if found is None else found


def listed_urls(frame: DataFrame) -> list[str]:
    """Return the URLs of the files that Spark listed for `frame`, made by `read_paths` or of a file relation."""
    if is_connect(frame.sparkSession):
        return list(frame.inputFiles())
    relation = frame._jdf.queryExecution().analyzed().collectLeaves().apply(0)
    # The relation lists its files without an optimized plan. Other kinds of source have no such list.
    listing = relation.relation() if relation.nodeName() == "LogicalRelation" else frame._jdf
    # Join in the JVM, because each element is a call into the JVM. py4j does not find Java's own `join` for a String
    # array.
    join = java_class(frame.sparkSession, "org.apache.hadoop.util.StringUtils").join
    return str(join("\0", listing.inputFiles())).split("\0")


def uncached_reader(reader: DataFrameReader) -> DataFrameReader:
    """Return a copy of a reader of Connect. Spark considers its frames different from every cached frame."""
    found = copy.copy(reader)
    # Copied, because the frames of a reader share its options.
    found._options = {**reader._options, _UNCACHED: uuid.uuid4().hex}  # type: ignore[attr-defined]
    return found


def frame_of_writer(writer: Any) -> DataFrame:
    """Return the DataFrame of a `DataFrameWriter`. A writer of Connect has only the plan."""
    if not is_connect(writer._spark):
        frame: DataFrame = writer._df
        return frame
    from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame

    return ConnectDataFrame(writer._df, writer._spark)


_classes: dict[tuple[type, tuple[str, ...]], type] = {}


def _overriding(base: type, names: tuple[str, ...]) -> type:
    """Return a subclass of the mode's DataFrame. Its methods of these names call functions of the instance."""
    if (base, names) not in _classes:

        def method(name: str) -> Callable[..., Any]:
            def call(self: Any, *args: Any, **kwargs: Any) -> Any:
                return self._slackwater_methods[name](*args, **kwargs)

            return functools.wraps(getattr(base, name))(call)

        _classes[base, names] = type("DataFrame", (base,), {n: method(n) for n in names} | {"__doc__": base.__doc__})
    return _classes[base, names]


def checkpoint_rows(frame: DataFrame, extra: Column) -> DataFrame:
    """Return a local checkpoint of `frame` with the column `extra`. References to its columns stay valid.

    A classic session preserves aliases and attributes itself. In Connect, the plan gets them again.
    """
    if not is_connect(frame.sparkSession):
        return local_checkpoint(frame.select("*", extra))
    from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame
    from pyspark.sql.connect.plan import SubqueryAlias

    plan: Any = frame._plan
    if isinstance(plan, SubqueryAlias) and plan._child is not None:
        session: Any = frame.sparkSession
        inner = checkpoint_rows(ConnectDataFrame(plan._child, session), extra)
        return same_plan(frame, inner.alias(plan._alias))
    return same_plan(frame, local_checkpoint(frame.select("*", extra)))


def local_checkpoint(frame: DataFrame) -> DataFrame:
    """Return `frame.localCheckpoint()` in the session of `frame`. PySpark's frame of Connect is in the active one."""
    found, session = frame.localCheckpoint(), frame.sparkSession
    if found.sparkSession is session:
        return found
    from pyspark.sql.connect.dataframe import DataFrame as ConnectDataFrame
    from pyspark.sql.connect.plan import CachedRemoteRelation

    plan: Any = found._plan
    own: Any = session
    frame_of_session: DataFrame = ConnectDataFrame(CachedRemoteRelation(plan._relation_id, own), own)
    # The server deletes the rows when a plan with this id is collected.
    plan._relation_id = None
    return frame_of_session


def alias_of(frame: DataFrame) -> str | None:
    """Return the name set by `frame.alias(…)`, None if the frame has no alias."""
    if is_connect(frame.sparkSession):
        plan: Any = frame._plan
        return getattr(plan, "_alias", None) if type(plan).__name__ == "SubqueryAlias" else None
    analyzed = frame._jdf.queryExecution().analyzed()
    return str(analyzed.alias()) if analyzed.nodeName() == "SubqueryAlias" else None


def release_checkpoint(frame: DataFrame) -> None:
    """Release the rows of a `localCheckpoint` without further readers.

    In Connect, the garbage collector would send this request from an arbitrary thread, with the risk of a deadlock. A
    classic session cleans up in its own thread.
    """
    if not is_connect(frame.sparkSession):
        return
    plan: Any = frame._plan
    while type(plan).__name__ == "SubqueryAlias":
        plan = plan._child
    if type(plan).__name__ == "CachedRemoteRelation" and plan._relation_id is not None:
        plan.__del__()
        plan._relation_id = None


def mapped_in_arrow(frame: DataFrame, function: ArrowFunction, schema: StructType | str) -> DataFrame:
    """Return `frame.mapInArrow(function, schema)`, with literal column names.

    PySpark parses the names as SQL: backticks quote, and dots separate fields.
    """
    names = frame.columns
    if not any("." in name or "`" in name for name in names):
        return frame.mapInArrow(function, schema)

    def with_names(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return function(pa.RecordBatch.from_arrays(batch.columns, names=names) for batch in batches)

    return frame.toDF(*(f"_{at}" for at in range(len(names)))).mapInArrow(with_names, schema)
