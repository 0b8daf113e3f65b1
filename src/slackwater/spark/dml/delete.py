"""DELETE with deletion vectors or rewritten files. Files with only matching rows are removed unread.

Source: delta-protocol.md "Deletion Vectors", "Add File and Remove File", "Change Data Files"; delta-spark's DELETE.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import orjson
from pyspark.sql import Column, SparkSession

from slackwater.log.table import Table
from slackwater.spark.dml.dml_command import DELETE, REWRITE_MS, SCAN_MS, DmlCommand, DmlResult, PendingWrite
from slackwater.spark.dml.matching_rows import Condition, RowMatches
from slackwater.spark.dml.metrics import file_metrics, known
from slackwater.spark.progress.progress import Progress


def delete(spark: SparkSession, table: Table, condition: Column | str | None, alias: str | None = None) -> DmlResult:
    """Delete the rows that match `condition`, all rows without a condition. Returns the commit and the number of rows.

    The table is unchanged after an error.

    Raises:
        InvalidArgument: If `condition` is not a condition on one row.
        OperationNotAllowed: If the table is append-only.
        DeltaConcurrentModificationException: If a concurrent commit conflicts; the message names the commit.
    """
    change = DmlCommand(spark, table, "DELETE", alias)
    change.require_removal_allowed()
    with Progress.of(spark, "DELETE", by_arrow=lambda: change.scan.by_arrow) as progress:
        return change.run_counted(lambda: _deleted(change, Condition.of(change, condition), progress))


def _deleted(
    change: DmlCommand, condition: Condition, progress: Progress
) -> tuple[Mapping[str, str], Mapping[str, int], int | None]:
    with change.timed(SCAN_MS):
        matches = RowMatches.find(change, condition, progress)
    change.read(condition.predicate, matches.rows_read())
    change.remove(matches.whole)
    copied = 0
    if matches.partial.num_rows:
        with progress.stage("rewriting", files=matches.partial.num_rows), change.timed(REWRITE_MS):
            copied = _write(change, matches)
    metrics = {**known("numDeletedRows", matches.num_rows), "numCopiedRows": copied, **file_metrics(change)}
    progress.done(files=matches.files.num_rows, rows=matches.num_rows)
    return {"predicate": orjson.dumps([condition.text]).decode()}, metrics, matches.num_rows


def _write(change: DmlCommand, matches: RowMatches) -> int:
    """Delete the matching rows of partly matching files. Returns the number of copied rows."""
    works = []
    if change.makes_vectors:
        change.delete_rows(matches.partial, matches.bitmaps or {})
    else:
        works.append(PendingWrite(matches.copying_others(), matches.num_others))
        change.remove(matches.partial)
    if change.makes_feed:
        works.append(PendingWrite(partial(change.record_changes, matches.matching(), DELETE), matches.num_rows))
    written = change.at_once(works)
    return 0 if change.makes_vectors else written[0].num_rows
