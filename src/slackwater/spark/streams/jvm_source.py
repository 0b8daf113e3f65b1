"""Streams of a classic session in the JVM: a source that is an object of the driver's Python, and who asks it.

Spark has no public way to such a source, so its classes are looked at before they are relied on.
Source: Spark's `Source`, `StreamingExecutionRelation`, `MicroBatchExecution`, `StreamExecution`.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from typing_extensions import ParamSpec

from slackwater.errors import SlackwaterError
from slackwater.spark.session.classic_connect import empty_frame, frame_of_plan, is_connect, java_class, scala_object
from slackwater.spark.storage.shared_storage import share_seen_places

SOURCE = "org.apache.spark.sql.execution.streaming.Source"
AVAILABLE_NOW = "org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow"
METRICS = "org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics"
QUERY_ID = "sql.streaming.queryId"
"""The local property of a query's thread that names the query."""

_log = logging.getLogger(__name__)
_P = ParamSpec("_P")
_T = TypeVar("_T")
_RELATION = "_slackwater_stream_relation"
_UNNAMED = "org.apache.spark.sql.catalyst.streaming.Unassigned"
_PACKAGES = ("org.apache.spark.sql.execution.streaming.runtime", "org.apache.spark.sql.execution.streaming")
_ARGUMENTS = ["SparkDataStream", "Seq", "Option"]
_OF_SOURCES = ("StreamingExecutionRelation", "StreamingDataSourceV2ScanRelation")
_ASKED_OF_QUERIES = frozenset({"offsetLog", "commitLog", "logicalPlan"})


def without_traceback(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """`method`, which the JVM calls, with the errors of this package that it raises told without where they came from.

    Py4J tells the JVM an error with its traceback, and the sentence is what people look for.
    """

    @functools.wraps(method)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return method(*args, **kwargs)
        except SlackwaterError as error:
            raise error.with_traceback(None) from None

    return call


def takes_sources(spark: SparkSession, source: type) -> bool:
    """Whether queries of `spark` can be fed by objects of the class `source` here; looked up once per application."""
    if is_connect(spark):
        return False
    known = spark.sparkContext.__dict__
    if _RELATION not in known:
        try:
            known[_RELATION] = _relation(spark, source)
        except Exception as error:  # noqa: BLE001  (whatever is otherwise in this Spark: there is another way)
            _log.debug("streams are planned beside the driver: %s", error)
            known[_RELATION] = None
    return known[_RELATION] is not None


def _relation(spark: SparkSession, source: type) -> tuple[str, bool]:
    """The class of relations of sources, and whether they have names. Raises where Spark is not as expected."""
    if not _calls_back_in_one_thread(spark):
        raise LookupError("calls of Python do not come in the thread that made them")
    asked = {name for interface in (SOURCE, AVAILABLE_NOW, METRICS) for name in _methods(spark, interface)}
    if strange := [name for name in asked if not hasattr(source, name)]:
        raise LookupError(f"sources have the methods {strange}")
    for package in _PACKAGES:
        try:
            relation = _class(spark, f"{package}.StreamingExecutionRelation")
            query = _methods(spark, f"{package}.StreamExecution")
        except Exception as error:  # noqa: BLE001  (releases have it in one of the two)
            _log.debug("%s", error)
            continue
        (constructor,) = relation.getConstructors()
        arguments = [each.getSimpleName() for each in constructor.getParameterTypes()]
        named = [*_ARGUMENTS, "StreamingSourceIdentifyingName", "SparkSession"]
        if arguments not in (named, [*_ARGUMENTS, "SparkSession"]) or not query >= _ASKED_OF_QUERIES:
            raise LookupError(f"relations of sources are made of {arguments}")
        return str(relation.getName()), arguments == named
    raise LookupError("there are no relations of sources")


def _calls_back_in_one_thread(spark: SparkSession) -> bool:
    from py4j.clientserver import ClientServer

    return isinstance(spark.sparkContext._gateway, ClientServer)


def _class(spark: SparkSession, name: str) -> Any:
    return java_class(spark, "java.lang.Class").forName(name)


def _methods(spark: SparkSession, name: str) -> set[str]:
    """The names of the public methods of a class, without those that Scala made."""
    return {str(each.getName()) for each in _class(spark, name).getMethods() if "$" not in each.getName()}


def frame_of_source(spark: SparkSession, source: Any, schema: StructType) -> DataFrame:
    """The stream of what `source`, for which `takes_sources` holds, gives in batches of this schema."""
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    name, is_named = spark.sparkContext.__dict__[_RELATION]
    output = empty_frame(spark, schema)._jdf.queryExecution().analyzed().output()
    nothing = java_class(spark, "scala.Option").empty()
    names = [scala_object(spark, _UNNAMED)] if is_named else []
    relation = java_class(spark, name)(source, output, nothing, *names, spark._jsparkSession)
    return frame_of_plan(spark, relation)


def as_streamed(frame: DataFrame) -> DataFrame:
    """`frame`, which reads files or nothing, as Spark wants what a source gives for a batch."""
    spark = frame.sparkSession
    return frame_of_plan(spark, _streamed(spark, frame._jdf.queryExecution().analyzed()))


def _streamed(spark: SparkSession, plan: Any) -> Any:
    """`plan`, whose files are those of a stream; where it reads none, the rows that it gives itself are."""
    changed = _with_leaves(spark, plan, "LogicalRelation")
    return changed if changed.isStreaming() else _with_leaves(spark, plan, "LocalRelation")


def _with_leaves(spark: SparkSession, plan: Any, kind: str) -> Any:
    children = plan.children()
    if children.isEmpty():
        return _streaming_leaf(plan) if plan.getClass().getSimpleName() == kind else plan
    changed = java_class(spark, "java.util.ArrayList")()
    for at in range(children.size()):
        changed.add(_with_leaves(spark, children.apply(at), kind))
    as_scala = java_class(spark, "scala.jdk.javaapi.CollectionConverters").asScala(changed)
    return plan.withNewChildren(as_scala.toIndexedSeq())


def _streaming_leaf(plan: Any) -> Any:
    # Releases differ in what a leaf is made of, not in this name.
    names = [str(plan.productElementName(at)) for at in range(plan.productArity())]
    return plan.copy(*(name == "isStreaming" or plan.productElement(at) for at, name in enumerate(names)))


def session_of_query(spark: SparkSession) -> SparkSession:
    """The session that the query of this thread reads with: a copy of that it was started in, with its own settings."""
    from pyspark import RDD

    # Each session that is made puts itself there.
    kept = RDD.toDF
    try:
        active = java_class(spark, "org.apache.spark.sql.classic.SparkSession").getActiveSession()
        session = SparkSession(spark.sparkContext, active.get())
    finally:
        RDD.toDF = kept  # type: ignore[method-assign]
    share_seen_places(spark, session)
    return session


class _Ended:
    """The stream of a connection, which has ended for whoever reads it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readline(self) -> bytes:
        return b""

    def close(self) -> None:
        self._stream.close()


def end_connection(spark: SparkSession) -> None:
    """Close the connection by which the JVM calls this thread, once the call that is under way has been answered.

    Py4J keeps one for each thread of the JVM, also after that thread has ended: of a query, a thread of Python and a
    file descriptor would stay.
    """
    gateway: Any = spark.sparkContext._gateway
    connection = gateway._gateway_client.get_thread_connection()
    # One that Python began is of a caller that waits for this answer, and goes on.
    if connection is not None and not getattr(connection, "initiated_from_client", True):
        connection.stream = _Ended(connection.stream)


class AskingQuery:
    """The query of this thread, which runs in the session `spark`."""

    def __init__(self, spark: SparkSession) -> None:
        self.query_id: str | None = spark.sparkContext.getLocalProperty(QUERY_ID)
        self._spark = spark

    @property
    def _execution(self) -> Any:
        return self._spark._jsparkSession.streams().get(self.query_id).streamingQuery()

    def has_done_its_last_batch(self) -> bool:
        """Whether the batch that it planned last is written down as done, so that it will not be carried out again."""
        execution = self._execution
        planned, done = execution.offsetLog().getLatest(), execution.commitLog().getLatest()
        return bool(planned.isDefined() and done.isDefined() and planned.get()._1() == done.get()._1())

    def starts_of(self, source: Any) -> list[str | None]:
        """Where the checkpoint says that `source` stands, for each place that it has in the query."""
        execution = self._execution
        planned = execution.offsetLog().getLatest()
        if planned.isEmpty():
            return []
        offsets = planned.get()._2().offsets()
        own = [at for at, each in enumerate(_sources(execution.logicalPlan())) if each == source.hashCode()]
        found = [offsets.apply(at) for at in own if at < offsets.size()]
        return [str(each.get().json()) if each.isDefined() else None for each in found]


def _sources(plan: Any) -> Iterator[int | None]:
    """The hash codes of a query's sources, in the order of its checkpoint; of those with another interface None."""
    leaves = plan.collectLeaves()
    for at in range(leaves.size()):
        leaf = leaves.apply(at)
        kind = leaf.getClass().getSimpleName()
        if kind in _OF_SOURCES:
            yield leaf.source().hashCode() if kind == _OF_SOURCES[0] else None
