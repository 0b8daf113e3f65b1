"""UPDATE with rewritten files, or with deletion vectors and new files for the updated rows.

Updated rows keep their row id. Their commit version becomes the version of this commit, through their new file.
Source: delta-protocol.md "Deletion Vectors", "Change Data Files", "Writer Requirements for Row Tracking", "Generated
Columns"; delta-spark's UPDATE.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import orjson
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.log.table import Table
from slackwater.protocol.schema.schema import StructField
from slackwater.scan.row_count import total
from slackwater.spark.dml.assignments import (
    assigned_columns,
    assignments_without_alias,
    parse_assignments,
    validate_set_argument,
)
from slackwater.spark.dml.dml_command import (
    REWRITE_MS,
    SCAN_MS,
    UPDATE_POSTIMAGE,
    UPDATE_PREIMAGE,
    DmlCommand,
    DmlResult,
    PendingWrite,
)
from slackwater.spark.dml.matching_rows import Condition, RowMatches
from slackwater.spark.dml.metrics import file_metrics, known
from slackwater.spark.dml.scalar_queries import has_scalar_queries, with_scalars
from slackwater.spark.progress.progress import Progress
from slackwater.spark.read.row_addresses import KEPT_COMMIT_VERSION, KEPT_ROW_ID, row_count
from slackwater.sql.lexer import quoted

_CHANGED = "__slackwater_changed"
_WHAT = "UPDATE SET"


def update(
    spark: SparkSession,
    table: Table,
    condition: Column | str | None,
    assignments: Mapping[str, Column | str],
    alias: str | None = None,
) -> DmlResult:
    """Update the rows that match `condition`, all rows without a condition. Returns the commit and the number of rows.

    `assignments` maps columns, including nested columns, to expressions over the old row. The table is unchanged after
    an error.

    Raises:
        InvalidArgument: If a condition or a column is invalid, or a value does not fit.
        InvariantViolationException: If an updated row breaks a constraint.
        OperationNotAllowed: If the table is append-only.
        DeltaConcurrentModificationException: If a concurrent commit conflicts; the message names the commit.
    """
    change = DmlCommand(spark, table, "UPDATE", alias)
    change.require_removal_allowed()
    with Progress.of(spark, "UPDATE", by_arrow=lambda: change.scan.by_arrow) as progress:
        return change.run_counted(lambda: _Update(change, Condition.of(change, condition), assignments).run(progress))


class _Update:
    def __init__(self, change: DmlCommand, condition: Condition, given: Mapping[str, Column | str]) -> None:
        self._change = change
        self._condition = condition
        validate_set_argument(given)
        self._asks = has_scalar_queries(given)
        given = assignments_without_alias(with_scalars(change.spark, given, _WHAT), change.alias, change.schema)
        assignments = parse_assignments(given, change.schema, change.rows.rules, _WHAT)
        assigned = {path[0] for path in assignments}
        generated = [g.name for g in change.rows.rules.generated if g.name not in assigned]
        self._recomputed = dict.fromkeys(generated, F.lit(True))
        # Resolved before any data is read, because the columns are valid in every frame of the target.
        self._new = assigned_columns(change.nothing(), assignments, change.schema, self._current, _WHAT)

    def run(self, progress: Progress) -> tuple[Mapping[str, str], Mapping[str, int], int | None]:
        change, condition = self._change, self._condition
        with change.timed(SCAN_MS):
            matches = RowMatches.find(change, condition, progress)
        if self._asks:
            # The sub-queries may read any row of this table.
            change.transaction.read_whole_table()
        change.read(condition.predicate, matches.rows_read())
        copied = 0
        if matches.files.num_rows:
            with progress.stage("updating rows", files=matches.files.num_rows), change.timed(REWRITE_MS):
                copied = self._write(matches)
        metrics = {**known("numUpdatedRows", matches.num_rows), "numCopiedRows": copied, **file_metrics(change)}
        progress.done(files=matches.files.num_rows, rows=matches.num_rows)
        return {"predicate": orjson.dumps([condition.text]).decode()}, metrics, matches.num_rows

    def _write(self, matches: RowMatches) -> int:
        """Write the new files and remove the old rows. Returns the number of rows copied unchanged."""
        change = self._change
        change.remove(matches.whole)
        if change.makes_vectors:
            self._write_apart(matches, copies=False)
            change.delete_rows(matches.partial, matches.bitmaps or {})
            return 0
        change.remove(matches.partial)
        if change.makes_feed or not self._condition.is_steady or self._moves_more(matches):
            return self._write_apart(matches, copies=matches.partial.num_rows > 0)
        return self._write_together(matches)

    @staticmethod
    def _moves_more(matches: RowMatches) -> bool:
        """Return whether executors can copy so many rows that a separate read of the updated rows is cheaper."""
        others = matches.num_others
        return matches.moved is not None and (others is None or others >= row_count(matches.bitmaps or {}))

    def _write_apart(self, matches: RowMatches, copies: bool) -> int:
        """Write updated rows to separate files, which also serve as change data. Returns the number of copied rows."""
        change = self._change
        matching = matches.matching()
        post = F.lit(UPDATE_POSTIMAGE) if change.makes_feed else None
        updated = partial(change.write_changed, self._updated(matching, None), None, self._recomputed, post)
        works = [PendingWrite(updated, matches.num_rows)]
        if change.makes_feed:
            works.append(PendingWrite(partial(change.record_changes, matching, UPDATE_PREIMAGE), matches.num_rows))
        if copies:
            works.append(PendingWrite(matches.copying_others(), matches.num_others))
        written = change.at_once(works)
        return written[-1].num_rows if copies else 0

    def _write_together(self, matches: RowMatches) -> int:
        change = self._change
        frame = change.target(change.located(matches.files))
        if not matches.partial.num_rows:
            changed, masks = None, self._recomputed
        else:
            changed = F.col(_CHANGED)
            masks = dict.fromkeys(self._recomputed, changed)
            frame = frame.withColumn(_CHANGED, matches.is_match)
        written = change.write_changed(self._updated(frame, changed), changed, masks)
        change.require_rows(total((matches.num_rows, matches.num_others)), written.num_rows)
        return written.num_rows - (matches.num_rows or 0)

    def _current(self, field: StructField) -> Column:
        return self._change.column(field.name)

    def _updated(self, frame: DataFrame, changed: Column | None) -> DataFrame:
        """Return the rows with their new values and the hidden columns for row tracking."""
        columns = [self._value(field.name, changed) for field in self._change.schema]
        if self._change.is_tracked:
            version = F.lit(None).cast("long") if changed is None else F.when(~changed, F.col(KEPT_COMMIT_VERSION))
            columns += [F.col(KEPT_ROW_ID), version.alias(KEPT_COMMIT_VERSION)]
        if changed is not None:
            columns.append(changed)
        return frame.select(*columns)

    def _value(self, name: str, changed: Column | None) -> Column:
        old, new = F.col(quoted(name)), self._new.get(name)
        if new is None:
            return old
        return (new if changed is None else F.when(changed, new).otherwise(old)).alias(name)
