"""MERGE: update, delete and insert rows of a table from a source, in one commit.

The matching pairs are found once and checkpointed by address and source number. All later steps use the pairs, so each
condition has one result. Target rows are rewritten, or marked as deleted in their file.
Source: delta-protocol.md "Deletion Vectors", "Change Data Files", "Row Tracking"; delta-spark's MERGE.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import orjson
import pyarrow as pa
from pyspark.sql import Column, SparkSession

from slackwater.errors import MergeCardinalityViolation
from slackwater.log.table import Table
from slackwater.predicate.predicate import And, Constant, Or, Predicate
from slackwater.protocol.schema.schema import StructField
from slackwater.protocol.schema_changes.column_names import refuse_own_names
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.dml.dml_command import MATERIALIZE_MS, REWRITE_MS, SCAN_MS, DmlCommand
from slackwater.spark.dml.matching_rows import condition_text
from slackwater.spark.dml.merge.builder import (
    MATCHED,
    NOT_MATCHED,
    NOT_MATCHED_BY_SOURCE,
    DeltaMergeBuilder,
    clauses_of,
)
from slackwater.spark.dml.merge.clauses import ClauseResolver, ResolvedClause, evolving_columns
from slackwater.spark.dml.merge.matches import MergeMatches
from slackwater.spark.dml.merge.pruning import join_conditions, source_bounds
from slackwater.spark.dml.merge.rows import MergeRows
from slackwater.spark.dml.merge.source import MergeSource
from slackwater.spark.dml.metrics import file_metrics
from slackwater.spark.progress.progress import Progress
from slackwater.spark.read.row_addresses import row_count
from slackwater.spark.session.frames import alias_of
from slackwater.spark.write.alignment import aligned_column, is_aligned, null_column
from slackwater.transaction.commit_result import CommitResult
from slackwater.transaction.row_reads import RowsRead
from slackwater.transaction.table.schema_evolution import evolved_table


@dataclass(frozen=True)
class MergeCounts:
    """Numbers of target rows updated, deleted and inserted by a MERGE."""

    updated: int = 0
    deleted: int = 0
    inserted: int = 0

    @property
    def affected(self) -> int:
        """The number of rows updated, deleted or inserted."""
        return self.updated + self.deleted + self.inserted


def merge(
    spark: SparkSession, table: Table, builder: DeltaMergeBuilder, alias: str | None = None
) -> tuple[MergeCounts | None, CommitResult | None]:
    """Run the MERGE of `builder` on the newest version of the table. Makes no commit if nothing changes.

    Returns the counts and the commit. The counts are None if the session's application already committed the MERGE.
    With schema evolution, requested by the builder or the session, columns missing in the target are added from the
    source.

    Raises the errors of `DeltaMergeBuilder.execute`.
    """
    change = DmlCommand(spark, table, "MERGE", alias)
    if any(clause.kind != NOT_MATCHED for clause in builder.clauses):
        change.require_removal_allowed()
    if change.settings.merges_schema:
        builder = builder.withSchemaEvolution()
    with Progress.of(spark, "MERGE", by_arrow=lambda: change.scan.by_arrow) as progress:
        work = Merge(change, builder, progress)
        result = change.run(work.run)
        return None if change.is_skipped else work.counts, result


class Merge:
    """A run of a MERGE within `change`."""

    condition_name = "the ON condition of MERGE"

    def __init__(self, change: DmlCommand, builder: DeltaMergeBuilder, progress: Progress) -> None:
        self.counts = MergeCounts()
        self.change = change
        self.builder = builder
        self._progress = progress
        refuse_own_names(builder.source.columns)
        if builder.evolves_schema:
            evolving = evolving_columns(builder, change.snapshot.configuration, change.alias)
            change.evolve(evolved_table(change.snapshot, evolving, merge=True))

    def run(self) -> tuple[Mapping[str, str], Mapping[str, int]]:
        """Stage the changes of all clauses. Returns the operation's parameters and metrics."""
        change, progress = self.change, self._progress
        resolver = ClauseResolver(
            self.builder, change.nothing(), change.schema, change.rows.rules, self._current, change.alias
        )
        on, clauses = resolver.on(self.condition_name), resolver.clauses()
        with progress.stage("reading the source"), change.timed(MATERIALIZE_MS):
            matched = clauses_of(self.builder, MATCHED)
            conditions = [c.condition for c in matched if c.condition is not None]
            source = MergeSource.of(self.builder.source, [self.builder.condition, *conditions], bool(matched))
            change.kept.append(source.frame)
            change.infers_conditions = source.is_read_again
        with progress.stage("looking for files"):
            predicate = self._predicate(source)
            files = change.candidates(predicate)
        with progress.stage("finding matches", files=files.num_rows), change.timed(SCAN_MS):
            found = MergeMatches.of(change, change.located(files, predicate), source, on, clauses)
        change.read(predicate, RowsRead(found.rows_read, partial(self._would_match, source, on)))
        self._require_one_modification(found)
        with change.timed(REWRITE_MS):
            self.apply(found)
        progress.done(files=files.num_rows, rows=self.counts.affected)
        return self.parameters(), self.metrics(found)

    def apply(self, found: MergeMatches) -> None:
        """Stage the removed rows, and write the inserted, updated and copied rows."""
        change, progress = self.change, self._progress
        rows = MergeRows(change, found, self._current)
        with progress.stage("writing rows", files=found.partial.num_rows + found.whole.num_rows):
            inserted = rows.write()
        change.remove(found.whole)
        if change.makes_vectors and found.partial.num_rows:
            change.delete_rows(found.partial, found.modified_in_part)
        elif found.partial.num_rows:
            change.remove(found.partial)
        if found.makes_feed:
            with progress.stage("recording changes"):
                rows.record_changes()
        self.counts = MergeCounts(row_count(found.updated), row_count(found.deleted), inserted)

    def _current(self, column: StructField) -> Column:
        """Return the present value of a column of the target, in its type after the MERGE."""
        change = self.change
        old = change.snapshot.schema.get(column.name)
        if old is None:
            return null_column(column)
        value = change.column(old.name)
        return value if is_aligned(old, column) else aligned_column(old, column, value)

    def _predicate(self, source: MergeSource) -> Predicate:
        """Return the file predicate: matching target rows, and rows of WHEN NOT MATCHED BY SOURCE clauses."""
        change, builder = self.change, self.builder
        joined = join_conditions(builder.condition, change.scan, change.alias, builder.source, alias_of(builder.source))
        matching = And((joined.target_only, source_bounds(source.frame, joined.pairs, change.scan)))
        others = clauses_of(builder, NOT_MATCHED_BY_SOURCE)
        if not others:
            return matching if source.rows else Constant(False)
        if any(clause.condition is None for clause in others):
            return Constant(True)
        return Or((matching, *(change.scan.conditions.predicate(clause.condition, change.alias) for clause in others)))

    def _would_match(self, source: MergeSource, on: Column, snapshot: Snapshot, files: pa.Table) -> bool:
        """Return whether `files`, added by a concurrent transaction, have rows relevant to this MERGE."""
        frame = self.change.rows_of_others(snapshot, files)
        if not clauses_of(self.builder, NOT_MATCHED_BY_SOURCE):
            frame = frame.join(source.to_compare(), on, "left_semi")
        return not frame.isEmpty()

    def _require_one_modification(self, found: MergeMatches) -> None:
        """Raise MergeCardinalityViolation if several source rows modify one target row.

        Source: SQL:2003 MERGE; delta-spark lets a single unconditional delete take a row several times.
        """
        clauses = found.of_kind(MATCHED)
        if len(clauses) == 1 and clauses[0].deletes and clauses[0].is_unconditional:
            return
        pairs = sum(found.groups[c.number].occurrences for c in clauses if c.number in found.groups)
        rows = row_count(found.rows_of(clauses))
        if pairs > rows:
            raise MergeCardinalityViolation(
                f"{self.change.snapshot.store.root_url}: several source rows match one row of the target: {pairs} "
                f"matching pairs of rows modify {rows} target rows. Nothing was changed. Provide one source row for "
                "each target row, or make the conditions narrower"
            )

    def parameters(self) -> Mapping[str, str]:
        """Return the operation parameters for the table history."""
        builder = self.builder

        def predicates(kind: str) -> str:
            clauses = []
            for clause in clauses_of(builder, kind):
                node = {} if clause.condition is None else {"predicate": condition_text(clause.condition)}
                clauses.append({**node, "actionType": clause.action.lower()})
            return orjson.dumps(clauses).decode()

        return {
            "predicate": orjson.dumps([condition_text(builder.condition)]).decode(),
            "matchedPredicates": predicates(MATCHED),
            "notMatchedPredicates": predicates(NOT_MATCHED),
            "notMatchedBySourcePredicates": predicates(NOT_MATCHED_BY_SOURCE),
        }

    def metrics(self, found: MergeMatches) -> Mapping[str, int]:
        """Return the operation metrics for the table history."""
        counts = self.counts
        matched, others = found.of_kind(MATCHED), found.of_kind(NOT_MATCHED_BY_SOURCE)

        def number(clauses: Sequence[ResolvedClause], deletes: bool) -> int:
            return row_count(found.rows_of([clause for clause in clauses if clause.deletes is deletes]))

        written = sum(
            add.num_records or 0 for add in self.change.transaction.staged.adds if add.deletion_vector is None
        )
        copied = 0 if self.change.makes_vectors else max(0, written - counts.updated - counts.inserted)
        return {
            "numSourceRows": found.source.rows,
            "numTargetRowsInserted": counts.inserted,
            "numTargetRowsUpdated": counts.updated,
            "numTargetRowsDeleted": counts.deleted,
            "numTargetRowsMatchedUpdated": number(matched, deletes=False),
            "numTargetRowsMatchedDeleted": number(matched, deletes=True),
            "numTargetRowsNotMatchedBySourceUpdated": number(others, deletes=False),
            "numTargetRowsNotMatchedBySourceDeleted": number(others, deletes=True),
            "numTargetRowsCopied": copied,
            "numOutputRows": counts.updated + counts.inserted + copied,
            **file_metrics(self.change, target="Target"),
        }
