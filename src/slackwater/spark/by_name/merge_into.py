"""`df.mergeInto(name, condition)`, PySpark's API to MERGE a frame into a table, for tables of format delta."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame

from slackwater.errors import UnsupportedFeature
from slackwater.spark.catalog.resolve import known_parts
from slackwater.spark.dml.merge.builder import DeltaMergeBuilder
from slackwater.spark.session.enabled_sessions import is_enabled_for
from slackwater.spark.table.named import named_table


def merge_into(original: Callable[..., Any], self: DataFrame, table: str, condition: Column) -> Any:
    """Return a MergeIntoWriter, this package's own if `table` names a Delta table. Replaces `DataFrame.mergeInto`.

    The last part of the table's name qualifies the columns of the table. The frame's alias qualifies the columns of the
    frame.
    """
    spark = self.sparkSession
    parts = known_parts(table) if isinstance(table, str) and is_enabled_for(spark) else ()
    named = named_table(spark, parts) if parts else None
    if named is None:
        return original(table, condition)
    return MergeIntoWriter(named.table.alias(named.alias).merge(self, condition))


class MergeIntoWriter:
    """The clauses of one MERGE, run by `merge`. The methods are those of PySpark's MergeIntoWriter."""

    def __init__(self, builder: DeltaMergeBuilder) -> None:
        self._builder = builder

    def whenMatched(self, condition: Column | None = None) -> _Clause:
        """Define the action for matched rows of the table for which `condition` is true."""
        return _Clause(self, "Matched", condition)

    def whenNotMatched(self, condition: Column | None = None) -> _Clause:
        """Define the action for unmatched rows of the frame for which `condition` is true."""
        return _Clause(self, "NotMatched", condition)

    def whenNotMatchedBySource(self, condition: Column | None = None) -> _Clause:
        """Define the action for rows of the table without a match in the frame for which `condition` is true."""
        return _Clause(self, "NotMatchedBySource", condition)

    def withSchemaEvolution(self) -> MergeIntoWriter:
        """Add the frame's new columns to the table."""
        self._builder = self._builder.withSchemaEvolution()
        return self

    def merge(self) -> None:
        """Run the merge. Raises as `DeltaMergeBuilder.execute`."""
        self._builder.execute()


class _Clause:
    """A WHEN clause. Its action completes the clause."""

    def __init__(self, writer: MergeIntoWriter, kind: str, condition: Column | None) -> None:
        self._writer = writer
        self._kind = kind
        self._condition = condition

    def updateAll(self) -> MergeIntoWriter:
        """Set every column to the frame's."""
        if self._kind == "NotMatchedBySource":
            raise UnsupportedFeature(
                "whenNotMatchedBySource has no source row for updateAll. Name the columns: update({...})"
            )
        return self._done("UpdateAll")

    def update(self, assignments: Mapping[str, Column]) -> MergeIntoWriter:
        """Set the columns in `assignments`."""
        return self._done("Update", set=dict(assignments))

    def delete(self) -> MergeIntoWriter:
        """Delete the row."""
        return self._done("Delete")

    def insertAll(self) -> MergeIntoWriter:
        """Insert the frame's row."""
        return self._done("InsertAll")

    def insert(self, assignments: Mapping[str, Column]) -> MergeIntoWriter:
        """Insert a row with the values of `assignments`."""
        return self._done("Insert", values=dict(assignments))

    def _done(self, action: str, **given: Any) -> MergeIntoWriter:
        method = getattr(self._writer._builder, f"when{self._kind}{action}", None)
        if method is None:
            raise UnsupportedFeature(f"when{self._kind} does not support {action}")
        self._writer._builder = method(condition=self._condition, **given)
        return self._writer
