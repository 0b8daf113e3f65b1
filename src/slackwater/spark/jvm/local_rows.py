"""Local rows of a plan that are loaded when Spark plans a query with them.

Source: Spark's connector interfaces `Table`, `SupportsRead`, `ScanBuilder`, `LocalScan`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from slackwater.spark.jvm.callbacks import accept_callbacks, called_by_jvm
from slackwater.spark.session.frames import frame_of_plan
from slackwater.spark.session.jvm_objects import java_class, method_names, new_array

_CONNECTOR = "org.apache.spark.sql.connector"
_INTERFACES = tuple(
    f"{_CONNECTOR}.{name}" for name in ("catalog.Table", "catalog.SupportsRead", "read.ScanBuilder", "read.LocalScan")
)
_COLUMN = f"{_CONNECTOR}.catalog.Column"
_RELATION = "org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation"
_IS_ACCEPTED = "_slackwater_later_rows"


class LaterRows:
    """A table of local rows, its scan builder and its scan, called by the JVM."""

    class Java:
        """The Java interfaces, for Py4J."""

        implements = _INTERFACES

    def __init__(self, spark: SparkSession, schema: StructType, identity: str, load: Callable[[], pa.Table]) -> None:
        self.spark = spark
        self._schema = schema
        self._identity = identity
        self._load = load

    @called_by_jvm
    def rows(self) -> Any:
        frame = self.spark.createDataFrame(self._load(), schema=self._schema)
        return frame._jdf.queryExecution().executedPlan().executeCollect()

    @called_by_jvm
    def name(self) -> str:
        return "rows"

    @called_by_jvm
    def schema(self) -> Any:
        return self.spark._jsparkSession.parseDataType(self._schema.json())

    @called_by_jvm
    def readSchema(self) -> Any:
        return self.schema()

    @called_by_jvm
    def columns(self) -> Any:
        column = java_class(self.spark, _COLUMN)
        found = new_array(self.spark, _COLUMN, len(self._schema))
        for at, field in enumerate(self.schema().fields()):
            found[at] = column.create(field.name(), field.dataType(), field.nullable())
        return found

    @called_by_jvm
    def capabilities(self) -> Any:
        batch_read = java_class(self.spark, f"{_CONNECTOR}.catalog.TableCapability").BATCH_READ
        return java_class(self.spark, "java.util.Collections").singleton(batch_read)

    @called_by_jvm
    def newScanBuilder(self, options: Any) -> Any:  # noqa: ARG002
        return self

    @called_by_jvm
    def build(self) -> Any:
        return self

    @called_by_jvm
    def properties(self) -> Any:
        return java_class(self.spark, "java.util.Collections").emptyMap()

    @called_by_jvm
    def partitioning(self) -> Any:
        return self._none(f"{_CONNECTOR}.expressions.Transform")

    @called_by_jvm
    def constraints(self) -> Any:
        return self._none(f"{_CONNECTOR}.catalog.constraints.Constraint")

    @called_by_jvm
    def supportedCustomMetrics(self) -> Any:
        return self._none(f"{_CONNECTOR}.metric.CustomMetric")

    @called_by_jvm
    def reportDriverMetrics(self) -> Any:
        return self._none(f"{_CONNECTOR}.metric.CustomTaskMetric")

    @called_by_jvm
    def columnarSupportMode(self) -> Any:
        return java_class(self.spark, f"{_CONNECTOR}.read.Scan$ColumnarSupportMode").UNSUPPORTED

    @called_by_jvm
    def version(self) -> None:
        """Return no version."""

    @called_by_jvm
    def id(self) -> None:
        """Return no id."""

    @called_by_jvm
    def description(self) -> str:
        return "rows"

    @called_by_jvm
    def toString(self) -> str:
        return f"rows[{self._identity}]"

    @called_by_jvm
    def hashCode(self) -> int:
        return len(self._identity)

    @called_by_jvm
    def equals(self, other: Any) -> bool:
        # Another table arrives as an object of the JVM.
        return other is not None and str(other.toString()) == self.toString()

    def toBatch(self) -> Any:
        raise NotImplementedError("the rows are local")

    def toMicroBatchStream(self, checkpoint: str) -> Any:
        raise NotImplementedError("the rows are local")

    def toContinuousStream(self, checkpoint: str) -> Any:
        raise NotImplementedError("the rows are local")

    def _none(self, name: str) -> Any:
        return new_array(self.spark, name, 0)


def accepts_later_rows(spark: SparkSession) -> bool:
    """Return whether the classic session `spark` has no unknown methods in the interfaces. Checked once."""
    known = spark.sparkContext.__dict__
    if _IS_ACCEPTED not in known:
        names = {name for interface in _INTERFACES for name in method_names(spark, interface)}
        known[_IS_ACCEPTED] = all(hasattr(LaterRows, name) for name in names)
    return bool(known[_IS_ACCEPTED])


def frame_of_later_rows(
    spark: SparkSession, schema: StructType, identity: str, load: Callable[[], pa.Table]
) -> DataFrame:
    """Return a frame of local rows in a classic session. `load` is called when Spark plans a query with the frame.

    `identity` is equal for two frames exactly if their rows are equal.
    """
    accept_callbacks(spark)
    nothing = java_class(spark, "scala.Option").empty()
    table = LaterRows(spark, schema, identity, load)
    return frame_of_plan(spark, java_class(spark, _RELATION).create(table, nothing, nothing))
