"""Methods of `DeltaTable` that change rows, with delta-spark's names, arguments and results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import types as spark_types

from slackwater.log.table import Table
from slackwater.spark.dml.assignments import validate_set_argument
from slackwater.spark.dml.delete import delete
from slackwater.spark.dml.merge.builder import DeltaMergeBuilder, require_condition
from slackwater.spark.dml.merge.merge import merge
from slackwater.spark.dml.update import update
from slackwater.spark.maintenance.auto_compact import with_auto_compaction
from slackwater.spark.session.local_frame import result_frame
from slackwater.spark.writer.save import save_to
from slackwater.transaction.commit_result import CommitResult

MERGE_RESULT = spark_types.StructType(
    [
        spark_types.StructField(f"num_{counted}_rows", spark_types.LongType())
        for counted in ("affected", "updated", "deleted", "inserted")
    ]
)
"""The result columns of `DeltaMergeBuilder.execute`."""


class TableChanges:
    """The methods for changes of rows, a mixin of `DeltaTable`."""

    @property
    def _spark(self) -> SparkSession:
        raise NotImplementedError

    _table: Table
    _alias: str | None

    def delete(self, condition: str | Column | None = None) -> None:
        """Delete the rows for which `condition`, a Column or SQL text, is true. Without a condition, delete all rows.

        After one of these errors, the table is unchanged.

        Raises:
            InvalidArgument: If `condition` is not a condition on one row.
            OperationNotAllowed: If the table is append-only.
            DeltaConcurrentModificationException: If a concurrent commit conflicts, also as a subclass.

        >>> table.delete("id = 1")
        >>> [row.id for row in table.toDF().collect()]
        [2]
        """
        require_condition(condition)
        self._delete(condition)

    def update(
        self,
        condition: str | Column | None = None,
        set: Mapping[str, str | Column] | None = None,  # noqa: A002
    ) -> None:
        """Set columns to the values of `set` in the rows for which `condition` is true, or in all rows.

        `set` maps columns (`a`, `a.b` for fields of structs) to Columns or SQL text over the old row. After one
        of these errors, the table is unchanged.

        Raises:
            InvalidArgument: If an argument is not valid for the table.
            InvariantViolationException: If an updated row violates a rule.
            OperationNotAllowed: If the table does not allow the change.
            DeltaConcurrentModificationException: If a concurrent commit conflicts, also as a subclass.

        >>> table.update("id = 1", {"v": "upper(v)"})
        >>> sorted(row.v for row in table.toDF().collect())
        ['A', 'b']
        """
        validate_set_argument(set)
        require_condition(condition)
        self._update(condition, dict(set or {}))

    def merge(self, source: DataFrame, condition: str | Column) -> DeltaMergeBuilder:
        """Return a builder for a MERGE of `source` into this table. Rows match if `condition`, over both, is true.

        Raises TypeError and ValueError for a source that is not a frame, or for an invalid condition.

        >>> news = spark.createDataFrame([(2, "new")], "id INT, v STRING").alias("s")
        >>> merge = table.alias("t").merge(news, "t.id = s.id")
        >>> merge.whenMatchedUpdateAll().execute().first().num_updated_rows
        1
        """
        if source is None:
            raise ValueError("'source' in merge cannot be None")
        if not isinstance(source, DataFrame):
            hint = ". Pass its toDF()" if isinstance(source, TableChanges) else ""
            raise TypeError(f"Type of 'source' in merge must be DataFrame, found to be {type(source)}{hint}")
        if condition is None:
            raise ValueError("'condition' in merge cannot be None")
        require_condition(condition)
        return DeltaMergeBuilder(self._merge, source, condition)

    def _delete(self, condition: str | Column | None) -> int | None:
        """Delete rows. Return the number of deleted rows, None if the log does not record the number."""
        changed = delete(self._spark, self._changing(), condition, self._alias)
        with_auto_compaction(self._spark, changed.commit)
        return changed.num_rows

    def _update(self, condition: str | Column | None, values: Mapping[str, str | Column]) -> int | None:
        """Update rows. Return the number of updated rows, None if the log does not record the number."""
        changed = update(self._spark, self._changing(), condition, values, self._alias)
        with_auto_compaction(self._spark, changed.commit)
        return changed.num_rows

    def _write(self, frame: DataFrame, mode: str, options: Mapping[str, Any]) -> CommitResult | None:
        """Write rows. The session's store assignment casts the values to the types of the table's columns."""
        return save_to(frame, self._changing(), mode, options, assigns=True)

    def _merge(self, builder: DeltaMergeBuilder) -> DataFrame:
        counts, result = merge(self._spark, self._changing(), builder, self._alias)
        with_auto_compaction(self._spark, result)
        counted = [] if counts is None else [(counts.affected, counts.updated, counts.deleted, counts.inserted)]
        return result_frame(self._spark, counted, MERGE_RESULT, "MERGE")

    def _changing(self) -> Table:
        """Return the table, for a change of its rows."""
        return self._table
