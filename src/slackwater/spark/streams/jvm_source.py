"""Streams of a classic session in the JVM: sources implemented by Python objects of the driver, and their queries.

Spark has no public API for such a source, so this module checks Spark's classes before use.

Source: Spark's `Source`, `StreamingExecutionRelation`, `MicroBatchExecution`, `StreamExecution`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from slackwater.spark.jvm.callbacks import accept_callbacks, calls_back_in_one_thread
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.session.frames import empty_frame, frame_of_plan
from slackwater.spark.session.jvm_objects import class_object, copied, java_class, method_names, scala_object
from slackwater.spark.storage.shared_storage import share_seen_places

SOURCE = "org.apache.spark.sql.execution.streaming.Source"
AVAILABLE_NOW = "org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow"
METRICS = "org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics"
QUERY_ID = "sql.streaming.queryId"
"""The local property of a query's thread with the query's id."""

_log = logging.getLogger(__name__)
_RELATION = "_slackwater_stream_relation"
_UNNAMED = "org.apache.spark.sql.catalyst.streaming.Unassigned"
_PACKAGES = ("org.apache.spark.sql.execution.streaming.runtime", "org.apache.spark.sql.execution.streaming")
_ARGUMENTS = ["SparkDataStream", "Seq", "Option"]
_OF_SOURCES = ("StreamingExecutionRelation", "StreamingDataSourceV2ScanRelation")
_ASKED_OF_QUERIES = frozenset({"offsetLog", "commitLog", "logicalPlan"})


def takes_sources(spark: SparkSession, source: type) -> bool:
    """Return whether objects of the class `source` can feed queries of `spark`. Cached per application."""
    if is_connect(spark):
        return False
    known = spark.sparkContext.__dict__
    if _RELATION not in known:
        try:
            known[_RELATION] = _relation(spark, source)
        except Exception as error:  # noqa: BLE001  (any difference of this Spark: the data source is the fallback)
            _log.debug("streams are planned beside the driver: %s", error)
            known[_RELATION] = None
    return known[_RELATION] is not None


def _relation(spark: SparkSession, source: type) -> tuple[str, bool]:
    """Return the class of source relations, and whether they have names. Raises for an unexpected release of Spark."""
    if not calls_back_in_one_thread(spark):
        raise LookupError("calls of Python do not come in the thread that made them")
    asked = {name for interface in (SOURCE, AVAILABLE_NOW, METRICS) for name in method_names(spark, interface)}
    if strange := [name for name in asked if not hasattr(source, name)]:
        raise LookupError(f"sources have the methods {strange}")
    for package in _PACKAGES:
        try:
            relation = class_object(spark, f"{package}.StreamingExecutionRelation")
            query = method_names(spark, f"{package}.StreamExecution")
        except Exception as error:  # noqa: BLE001  (each release has one of the two packages)
            _log.debug("%s", error)
            continue
        (constructor,) = relation.getConstructors()
        arguments = [each.getSimpleName() for each in constructor.getParameterTypes()]
        named = [*_ARGUMENTS, "StreamingSourceIdentifyingName", "SparkSession"]
        if arguments not in (named, [*_ARGUMENTS, "SparkSession"]) or not query >= _ASKED_OF_QUERIES:
            raise LookupError(f"relations of sources are made of {arguments}")
        return str(relation.getName()), arguments == named
    raise LookupError("there are no relations of sources")


def frame_of_source(spark: SparkSession, source: Any, schema: StructType) -> DataFrame:
    """Return the stream of `source`, with batches of this schema. Requires `takes_sources`."""
    accept_callbacks(spark)
    name, is_named = spark.sparkContext.__dict__[_RELATION]
    output = empty_frame(spark, schema)._jdf.queryExecution().analyzed().output()
    nothing = java_class(spark, "scala.Option").empty()
    names = [scala_object(spark, _UNNAMED)] if is_named else []
    relation = java_class(spark, name)(source, output, nothing, *names, spark._jsparkSession)
    return frame_of_plan(spark, relation)


def as_streamed(frame: DataFrame) -> DataFrame:
    """Return `frame`, a frame of files or without rows, in the form of a source's batch."""
    spark = frame.sparkSession
    return frame_of_plan(spark, _streamed(spark, frame._jdf.queryExecution().analyzed()))


def _streamed(spark: SparkSession, plan: Any) -> Any:
    """Return `plan` with its file relations marked as streaming, or its local rows if it reads no files."""
    changed = _with_leaves(spark, plan, "LogicalRelation")
    return changed if changed.isStreaming() else _with_leaves(spark, plan, "LocalRelation")


def _with_leaves(spark: SparkSession, plan: Any, kind: str) -> Any:
    children = plan.children()
    if children.isEmpty():
        return copied(plan, isStreaming=True) if plan.getClass().getSimpleName() == kind else plan
    changed = java_class(spark, "java.util.ArrayList")()
    for at in range(children.size()):
        changed.add(_with_leaves(spark, children.apply(at), kind))
    as_scala = java_class(spark, "scala.jdk.javaapi.CollectionConverters").asScala(changed)
    return plan.withNewChildren(as_scala.toIndexedSeq())


def session_of_query(spark: SparkSession) -> SparkSession:
    """Return the session of this thread's query: a copy of the session that started it, with separate settings."""
    from pyspark import RDD

    # The constructor of SparkSession replaces this method.
    kept = RDD.toDF
    try:
        active = java_class(spark, "org.apache.spark.sql.classic.SparkSession").getActiveSession()
        session = SparkSession(spark.sparkContext, active.get())
    finally:
        RDD.toDF = kept  # type: ignore[method-assign]
    share_seen_places(spark, session)
    return session


class AskingQuery:
    """The query of this thread, in the session `spark`."""

    def __init__(self, spark: SparkSession) -> None:
        self.query_id: str | None = spark.sparkContext.getLocalProperty(QUERY_ID)
        self._spark = spark

    @property
    def _execution(self) -> Any:
        return self._spark._jsparkSession.streams().get(self.query_id).streamingQuery()

    def has_done_its_last_batch(self) -> bool:
        """Return whether the last planned batch is in the commit log, so that Spark will not run it again."""
        execution = self._execution
        planned, done = execution.offsetLog().getLatest(), execution.commitLog().getLatest()
        return bool(planned.isDefined() and done.isDefined() and planned.get()._1() == done.get()._1())

    def starts_of(self, source: Any) -> list[str | None]:
        """Return the offsets of `source` in the checkpoint, one for each use of the source in the query."""
        execution = self._execution
        planned = execution.offsetLog().getLatest()
        if planned.isEmpty():
            return []
        offsets = planned.get()._2().offsets()
        own = [at for at, each in enumerate(_sources(execution.logicalPlan())) if each == source.hashCode()]
        found = [offsets.apply(at) for at in own if at < offsets.size()]
        return [str(each.get().json()) if each.isDefined() else None for each in found]


def _sources(plan: Any) -> Iterator[int | None]:
    """Yield the hash codes of a query's sources in the order of its checkpoint, None for other interfaces."""
    leaves = plan.collectLeaves()
    for at in range(leaves.size()):
        leaf = leaves.apply(at)
        kind = leaf.getClass().getSimpleName()
        if kind in _OF_SOURCES:
            yield leaf.source().hashCode() if kind == _OF_SOURCES[0] else None
