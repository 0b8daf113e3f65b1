"""`DeltaOptimizeBuilder` and `DeltaReorgBuilder`: which partitions, and what is done to them."""

from __future__ import annotations

import copy
from collections.abc import Callable

from pyspark.sql import Column, DataFrame, SparkSession

from slackwater.log.table import Table
from slackwater.spark.services.metrics import RESULT, Outcome
from slackwater.spark.services.optimize import Where, compact, purge
from slackwater.spark.session.given_rows import given_rows


class _Builder:
    def __init__(self, spark: SparkSession, table: Callable[[], Table], path: str) -> None:
        self._spark = spark
        self._table = table
        self._path = path
        self._where = Where()

    def _result(self, outcome: Outcome) -> DataFrame:
        return given_rows(self._spark, [outcome.row(self._path)], RESULT)


class DeltaOptimizeBuilder(_Builder):
    """An OPTIMIZE of a table, made by `DeltaTable.optimize`; nothing is done before one of the methods `execute…`.

    >>> spark.range(8).repartition(4).write.format("delta").save(path)
    >>> done = slackwater.DeltaTable.forPath(spark, path).optimize().executeCompaction()
    >>> done.select("metrics.numFilesRemoved", "metrics.numFilesAdded").first()
    Row(numFilesRemoved=4, numFilesAdded=1)
    """

    def where(self, partitionFilter: str | Column) -> DeltaOptimizeBuilder:
        """Only partitions for which `partitionFilter`, SQL text or a Column on partition columns, is true."""
        if not isinstance(partitionFilter, (str, Column)):
            raise TypeError(f"'partitionFilter' must be a Spark SQL Column or a string, found {type(partitionFilter)}")
        chosen = copy.copy(self)
        chosen._where = Where(partitionFilter)
        return chosen

    def executeCompaction(self) -> DataFrame:
        """Let small files become one, partition by partition; a row of `path` and `metrics`, sizes in bytes.

        Raises InvalidArgument for a filter on other columns, and DeltaConcurrentModificationException and its kinds:
        the table is unchanged then.
        """
        return self._result(compact(self._spark, self._table(), self._where))


class DeltaReorgBuilder(_Builder):
    """A REORG of a table, made by `DeltaTable.reorg`; nothing is done before `applyPurge`."""

    def where(self, partitionFilter: str | Column) -> DeltaReorgBuilder:
        """Only partitions for which `partitionFilter`, SQL text or a Column on partition columns, is true."""
        if not isinstance(partitionFilter, (str, Column)):
            raise TypeError(f"'partitionFilter' must be a Spark SQL Column or a string, found {type(partitionFilter)}")
        chosen = copy.copy(self)
        chosen._where = Where(partitionFilter)
        return chosen

    def applyPurge(self) -> DataFrame:
        """Rewrite files of which rows are deleted by vectors, so that the next vacuum takes these off the disk.

        The result and errors are as those of `DeltaOptimizeBuilder.executeCompaction`.
        """
        return self._result(purge(self._spark, self._table(), self._where))
