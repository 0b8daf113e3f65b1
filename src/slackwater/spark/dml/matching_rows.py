"""Table rows that match a condition. File statistics decide whole files, a scan decides the other files.

Source: delta-protocol.md "Per-file Statistics", "Deletion Vectors"; docs/architecture.md "The life of a read".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slackwater.predicate.predicate import Constant, Predicate, Unprunable
from slackwater.predicate.sql_split import has_subquery, is_time_dependent
from slackwater.protocol.features.sql_columns import read_columns
from slackwater.scan.row_count import files_of, live_row_counts, rows_left, total
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.dml.assignments import subqueries_resolve, validate_expression
from slackwater.spark.dml.dml_command import DmlCommand
from slackwater.spark.dml.executor_rewrite import ExecutorRewrite
from slackwater.spark.progress.progress import Progress
from slackwater.spark.read.row_addresses import AddressedRows
from slackwater.spark.write.overwrite_scope import partitions_where
from slackwater.spark.write.table_writer import WriteResult
from slackwater.transaction.row_reads import RowsRead


@dataclass(frozen=True)
class Condition:
    """A filter on the rows of the table. `column` is the row filter (None: all rows), `predicate` prunes files."""

    column: Column | None
    predicate: Predicate
    text: str
    has_subquery: bool = False

    @staticmethod
    def of(change: DmlCommand, given: Column | str | None) -> Condition:
        """Return the condition of a DELETE or UPDATE.

        Raises InvalidArgument if `given` is not a condition on one row.
        """
        if given is None:
            return Condition(None, Constant(True), "true")
        what = f"the condition of {change.operation}"
        if isinstance(given, str) and has_subquery(given):
            # Unprunable, because sub-queries read other tables and file statistics decide nothing.
            subqueries_resolve(change.nothing(), given, what)
            return Condition(F.expr(given), Unprunable(given), condition_text(given), has_subquery=True)
        column = validate_expression(change.nothing(), given, what, boolean=True, deterministic=True)
        return Condition(column, change.scan.conditions.predicate(given, change.alias), condition_text(given))

    @property
    def is_steady(self) -> bool:
        """Return whether the next job finds the same rows."""
        return self.column is None or not (self.has_subquery or is_time_dependent(self.text))

    def filter(self, frame: DataFrame) -> DataFrame:
        """Return the rows of `frame` that match the condition."""
        return frame if self.column is None else frame.filter(self.column)


@dataclass(frozen=True)
class RowMatches:
    """The rows that match a condition: all rows of the files `whole`, some rows of each file in `partial`.

    `counts` are the matching rows by path, None if the log does not record the number. `bitmaps` are the matching rows
    by path, empty if the log decides all files, None if no bitmaps were computed. `moved` copies the other rows on the
    executors, None if Spark copies them.
    """

    change: DmlCommand
    condition: Condition
    whole: pa.Table
    partial: pa.Table
    counts: Mapping[str, int | None]
    bitmaps: Mapping[str, BitMap64] | None
    moved: ExecutorRewrite | None

    @staticmethod
    def find(change: DmlCommand, condition: Condition, progress: Progress) -> RowMatches:
        """Find the matching rows.

        Reads data only of files undecided by the log, and only the columns of the condition.
        """
        files = change.candidates(condition.predicate)
        whole, undecided = _by_the_log(change, condition, files)
        counts: dict[str, int | None] = {**live_row_counts(whole)}
        if not undecided.num_rows:
            return RowMatches(change, condition, whole, undecided, counts, {}, None)
        moved = ExecutorRewrite(change)
        moves = not change.makes_vectors and moved.pays(undecided)
        located = change.located(undecided, condition.predicate)
        matching = condition.filter(change.target(located))
        with progress.stage("finding rows", files=undecided.num_rows):
            by_address = change.makes_vectors or not condition.is_steady or moves
            bitmaps = located.bitmaps(matching) if by_address else None
            found = located.counts(matching) if bitmaps is None else {p: len(b) for p, b in bitmaps.items()}
        live = live_row_counts(files_of(undecided, found))
        gone = [path for path, count in found.items() if count == live[path]]
        whole = pa.concat_tables([whole, files_of(undecided, gone)])
        in_part = files_of(undecided, found.keys() - set(gone))
        kept = None if bitmaps is None else {p: b for p, b in bitmaps.items() if p not in set(gone)}
        return RowMatches(change, condition, whole, in_part, {**counts, **found}, kept, moved if moves else None)

    @property
    def files(self) -> pa.Table:
        """The files with a match."""
        return pa.concat_tables([self.whole, self.partial])

    @cached_property
    def num_rows(self) -> int | None:
        """The number of matching rows, None if the log does not record it."""
        return total(self.counts.values())

    @cached_property
    def num_others(self) -> int | None:
        """The number of rows in the files `partial` that do not match, None if the log does not record it."""
        return rows_left(self.partial, self.counts)

    def matching(self) -> DataFrame:
        """Return the matching rows with their addresses, under the target's alias."""
        change = self.change
        if self.condition.is_steady:
            return self.condition.filter(change.target(change.located(self.files, self.condition.predicate)))
        whole = change.located(self.whole).frame
        if not self.partial.num_rows:
            return change.target(whole)
        return change.target(whole.unionAll(self._partial.only(self.bitmaps or {})))

    def others(self) -> DataFrame:
        """Return the rows of the files `partial` that do not match, with their addresses, under the target's alias."""
        change = self.change
        if self.condition.is_steady:
            return change.target(self._partial).filter(~self.is_match)
        return change.target(self._partial.without(self.bitmaps or {}))

    def copying_others(self) -> Callable[[], WriteResult]:
        """Return the step that copies the unmatched rows of the files `partial` to new files, unchanged."""
        by_spark = partial(self.change.copy, self.others())
        if self.moved is None:
            return by_spark
        return partial(self.moved.copy, self.partial, self.bitmaps or {}, by_spark)

    @property
    def is_match(self) -> Column:
        """A column with True if the row matches, else False. Only valid for a steady condition."""
        column = self.condition.column
        return F.lit(True) if column is None else F.coalesce(column, F.lit(False))

    def rows_read(self) -> RowsRead:
        """Return the rows read by the change, and the test of files added by concurrent transactions."""
        rows: dict[str, BitMap64 | None] = dict.fromkeys(self.counts)
        rows.update(self.bitmaps or {})
        return RowsRead(rows, self._any_match)

    def _any_match(self, snapshot: Snapshot, files: pa.Table) -> bool:
        return not self.condition.filter(self.change.rows_of_others(snapshot, files)).isEmpty()

    @cached_property
    def _partial(self) -> AddressedRows:
        return self.change.located(self.partial)


def condition_text(given: Column | str | None) -> str:
    """Return the text of a condition for the table history."""
    if given is None:
        return "true"
    if isinstance(given, str):
        return given.strip()
    return str(given).removeprefix("Column<'").removesuffix("'>")


def _by_the_log(change: DmlCommand, condition: Condition, files: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the files with only matching rows according to the log, and the files to scan.

    All other files are dropped.
    """
    nothing = files.slice(0, 0)
    if condition.column is None:
        return files, nothing
    whole, undecided = change.decided(files, condition.predicate)
    schema, partitions = change.snapshot.schema, change.snapshot.metadata.partition_columns
    if not undecided.num_rows or not partitions or not condition.is_steady:
        return whole, undecided
    if {path[0] for path in read_columns(condition.text, schema)} <= set(partitions):
        found = partitions_where(change.scan, undecided, condition.column, change.alias)
        return pa.concat_tables([whole, found]), nothing
    return whole, undecided
