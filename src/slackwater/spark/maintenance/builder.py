"""`DeltaOptimizeBuilder` and `DeltaReorgBuilder`: choice of partitions, and the methods for their rewrite."""

from __future__ import annotations

import copy
from collections.abc import Callable

from pyspark.sql import Column, DataFrame, SparkSession

from slackwater.errors import InvalidArgument
from slackwater.log.table import Table
from slackwater.maintenance.layout.z_cubes import clustering_paths
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.maintenance.clustered import cluster, order_by_curve
from slackwater.spark.maintenance.metrics import RESULT, OptimizeMetrics
from slackwater.spark.maintenance.optimize import PartitionFilter, compact, purge
from slackwater.spark.session.local_frame import result_frame


class _Builder:
    _what, _ways = "", ""

    def __init__(self, spark: SparkSession, table: Callable[[], Table], path: str) -> None:
        self._spark = spark
        self._table = table
        self._path = path
        self._where = PartitionFilter()
        self._takes_all = False

    def __repr__(self) -> str:
        where = "" if self._where.given is None else f" WHERE {self._where.given}"
        return f"<{type(self).__name__} of {self._path}{where}: nothing is done yet; {self._ways}>"

    def _result(self, outcome: OptimizeMetrics) -> DataFrame:
        return result_frame(self._spark, [outcome.row(self._path)], RESULT, self._what)


class DeltaOptimizeBuilder(_Builder):
    """An OPTIMIZE of a table, returned by `DeltaTable.optimize`. It starts with one of the methods `execute…`.

    >>> spark.range(8).repartition(4).write.format("delta").save(path)
    >>> done = slackwater.DeltaTable.forPath(spark, path).optimize().executeCompaction()
    >>> done.select("metrics.numFilesRemoved", "metrics.numFilesAdded").first()
    Row(numFilesRemoved=4, numFilesAdded=1)
    """

    _what = "OPTIMIZE"
    _ways = "executeCompaction() or executeZOrderBy(…) runs it"

    def where(self, partitionFilter: str | Column) -> DeltaOptimizeBuilder:
        """Choose the partitions for which `partitionFilter`, SQL text or a Column on partition columns, is true.

        Raises TypeError for a filter of another type.

        >>> table = slackwater.DeltaTable.forPath(spark, flights)
        >>> table.optimize().where("month = 3").executeCompaction().first().metrics.totalConsideredFiles
        1
        """
        if not isinstance(partitionFilter, (str, Column)):
            raise TypeError(f"'partitionFilter' must be a Spark SQL Column or a string, found {type(partitionFilter)}")
        chosen = copy.copy(self)
        chosen._where = PartitionFilter(partitionFilter)
        return chosen

    def full(self) -> DeltaOptimizeBuilder:
        """Cluster all files of a clustered table again, even files already clustered well or by other columns.

        `executeCompaction` then raises InvalidArgument for a table without clustering.

        >>> table.clusterBy("v")
        >>> table.optimize().full().executeCompaction().first().metrics.numFilesAdded
        1
        """
        chosen = copy.copy(self)
        chosen._takes_all = True
        return chosen

    def executeCompaction(self) -> DataFrame:
        """Merge small files in each partition. Return a row of `path` and `metrics`, with sizes in bytes.

        In a clustered table, new rows are clustered along a Hilbert curve.

        Raises InvalidArgument for a filter on other columns, and DeltaConcurrentModificationException or a subclass.
        After one of these errors, the table is unchanged.

        >>> done = table.optimize().executeCompaction().first()
        >>> done.metrics.totalConsideredFiles, done.metrics.numFilesRemoved  # one file is as few as there can be
        (1, 0)
        """
        table = self._table()
        newest = Snapshot.open(table)
        if not clustering_paths(newest):
            if self._takes_all:
                raise InvalidArgument(
                    f"{self._path}: the table is not clustered. Leave full() out",
                    error_class="DELTA_OPTIMIZE_FULL_NOT_SUPPORTED",
                )
            return self._result(compact(self._spark, table, self._where, newest=newest))
        if self._where.given is not None:
            raise InvalidArgument(
                f"{self._path}: the table is clustered, so it has no partitions to choose. Leave where out",
                error_class="DELTA_CLUSTERING_WITH_PARTITION_PREDICATE",
            )
        return self._result(cluster(self._spark, table, self._takes_all, newest))

    def executeZOrderBy(self, *cols: str | list[str] | tuple[str, ...]) -> DataFrame:
        """Rewrite the files of each partition with rows sorted along a z-curve through `cols`. `cols` can be one list.

        Queries with a filter on any of the columns then read fewer files. The result has the form of
        `executeCompaction`. Raises InvalidArgument for missing columns, partition columns, columns without statistics,
        and a clustered table.

        >>> table.optimize().executeZOrderBy("id", "v").first().metrics.numFilesAdded
        1
        """
        names = list(cols[0]) if len(cols) == 1 and isinstance(cols[0], (list, tuple)) else list(cols)
        for name in names:
            if not isinstance(name, str):
                raise TypeError(f"columns of a z-order must be strings, found {name!r}")
        if self._takes_all:
            raise InvalidArgument(f"{self._path}: full() is only for clustered tables. Leave it out of a z-order")
        return self._result(order_by_curve(self._spark, self._table(), self._where, [str(name) for name in names]))


class DeltaReorgBuilder(_Builder):
    """A REORG of a table, returned by `DeltaTable.reorg`. It starts with `applyPurge`.

    >>> table.setProperties({"delta.enableDeletionVectors": "true"})
    >>> table.delete("id = 1")
    >>> table.reorg().applyPurge().first().metrics.numFilesRemoved
    1
    """

    _what = "REORG"
    _ways = "applyPurge() runs it"

    def where(self, partitionFilter: str | Column) -> DeltaReorgBuilder:
        """Choose the partitions for which `partitionFilter`, SQL text or a Column on partition columns, is true.

        Raises TypeError for a filter of another type.

        >>> table = slackwater.DeltaTable.forPath(spark, flights)
        >>> table.reorg().where("month = 3").applyPurge().first().metrics.numFilesRemoved  # nothing was deleted
        0
        """
        if not isinstance(partitionFilter, (str, Column)):
            raise TypeError(f"'partitionFilter' must be a Spark SQL Column or a string, found {type(partitionFilter)}")
        chosen = copy.copy(self)
        chosen._where = PartitionFilter(partitionFilter)
        return chosen

    def applyPurge(self) -> DataFrame:
        """Rewrite files with rows deleted by vectors, or with columns dropped under column mapping.

        The next vacuum deletes the old files from the disk. Result and errors are those of
        `DeltaOptimizeBuilder.executeCompaction`.

        >>> table.setProperties({"delta.columnMapping.mode": "name"})
        >>> table.dropColumns("v")
        >>> table.reorg().applyPurge().first().metrics.numFilesAdded
        1
        """
        return self._result(purge(self._spark, self._table(), self._where))
