"""Rows written by a MERGE: updated, inserted and copied rows, and change data.

Source: delta-protocol.md "Change Data Files", "Writer Requirements for Row Tracking", "Generated Columns".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial, reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slackwater.errors import UnsupportedFeature
from slackwater.protocol.schema.schema import StructField
from slackwater.scan.file_changes import CHANGE_TYPE
from slackwater.scan.row_count import files_of, rows_left
from slackwater.spark.dml.dml_command import (
    DELETE,
    INSERT,
    UPDATE_POSTIMAGE,
    UPDATE_PREIMAGE,
    DmlCommand,
    PendingWrite,
)
from slackwater.spark.dml.executor_rewrite import ExecutorRewrite
from slackwater.spark.dml.merge.builder import MATCHED, NOT_MATCHED, NOT_MATCHED_BY_SOURCE
from slackwater.spark.dml.merge.clauses import ResolvedClause, first_match
from slackwater.spark.dml.merge.matches import CLAUSE, PAIR, MergeMatches
from slackwater.spark.dml.merge.source import SOURCE_ID, fits_everywhere, row_bytes, with_copies
from slackwater.spark.read.row_addresses import ADDRESS, KEPT_COMMIT_VERSION, KEPT_ROW_ID, row_count, united
from slackwater.spark.write.alignment import null_column
from slackwater.spark.write.table_writer import WriteResult
from slackwater.sql.lexer import quoted

_PAIR_ADDRESS = "__slackwater_pair_address"
_PAIR_BYTES = 32


class MergeRows:
    """Writes the rows of one MERGE. `current` returns the present value of a column of the target."""

    def __init__(self, change: DmlCommand, matches: MergeMatches, current: Callable[[StructField], Column]) -> None:
        self._change = change
        self._matches = matches
        self._current = current
        self._moved = ExecutorRewrite(change)
        self._inserts = matches.of_kind(NOT_MATCHED)
        self._updates = [c for c in matches.of_kind(MATCHED) if not c.deletes]
        self._other_updates = [c for c in matches.of_kind(NOT_MATCHED_BY_SOURCE) if not c.deletes]

    def write(self) -> int:
        """Write and stage the files. Returns the number of inserted rows."""
        change, matches = self._change, self._matches
        copies = self._copied_with_updates
        frames = [*self._updated(copies), *self._updated_by_target()]
        inserted = self._inserted()
        apart = None
        if inserted is not None and self._generated_identity:
            apart, inserted = inserted, None
        if inserted is not None:
            frames.append(self._insert_rows(inserted))
        works = []
        if frames:
            works.append(PendingWrite(partial(self._write, reduce(DataFrame.unionAll, frames), copies), None))
        if matches.partial.num_rows and not change.makes_vectors and not copies:
            works.append(PendingWrite(self._copied, self._num_copied))
        written = change.at_once(works)[: 1 if frames else 0]
        if apart is not None:
            written.append(self._insert_with_identity(apart))
        return self._num_inserted(written, copies)

    def record_changes(self) -> None:
        """Write the old values of updated rows and the deleted rows as change data files."""
        change, matches = self._change, self._matches
        frames = []
        for rows, change_type in ((matches.updated, UPDATE_PREIMAGE), (matches.deleted, DELETE)):
            if rows:
                located = change.located(files_of(matches.files, rows.keys()))
                columns = [self._current(c).alias(c.name) for c in change.schema]
                found = change.target(located.only(rows)).select(*columns, F.lit(change_type).alias(CHANGE_TYPE))
                frames.append(found)
        recorded = change.record_changes(reduce(DataFrame.unionAll, frames), None)
        change.require_rows(row_count(matches.updated) + row_count(matches.deleted), recorded.num_rows)

    @property
    def _copied_with_updates(self) -> bool:
        """Return whether copied rows are written together with updated rows."""
        matches, change = self._matches, self._change
        is_rewrite = not change.makes_vectors and not matches.makes_feed and matches.partial.num_rows > 0
        return is_rewrite and bool(matches.rows_of(self._updates)) and not self._moves

    @cached_property
    def _moves(self) -> bool:
        return self._moved.pays(self._matches.partial)

    def _copied(self) -> WriteResult:
        """Copy the unchanged rows of partly modified files."""
        change, matches = self._change, self._matches

        def by_spark() -> WriteResult:
            rest = change.target(change.located(matches.partial).without(matches.modified_in_part))
            return change.copy(rest.select(*self._copied_row()))

        if not self._moves:
            return by_spark()
        return self._moved.copy(matches.partial, matches.modified_in_part, by_spark)

    # The three kinds of rows: the table's columns, the hidden columns for row tracking, and CLAUSE, null for a copy.

    def _updated(self, copies: bool) -> list[DataFrame]:
        """Return the rows updated from a source row. With `copies`, also the unchanged rows of their files."""
        matches, change = self._matches, self._change
        rows = matches.rows_of(self._updates)
        if not rows:
            return []
        assert matches.pairs is not None  # noqa: S101  (set if there are WHEN MATCHED clauses)
        pairs = matches.pairs.where(F.col(CLAUSE).isin([c.number for c in self._updates]))
        pairs = pairs.withColumnRenamed(ADDRESS, _PAIR_ADDRESS)
        source = with_copies(matches.source.frame, matches.source.given)
        if not copies and not change.is_tracked and all(c.sets_all_from_source for c in self._updates):
            return [self._updated_from_source(pairs, source)]
        if copies:
            located = change.located(pa.concat_tables([matches.whole, matches.partial]))
            gone = united(matches.deleted, matches.rows_of(self._other_updates))
            frame = change.target(located.without(gone) if gone else located)
        else:
            frame = change.target(change.located(files_of(matches.files, rows.keys())))
        changes = pairs.join(source, F.col(PAIR) == F.col(SOURCE_ID), "inner")
        width = 2 * row_bytes(matches.source.given.schema) + _PAIR_BYTES
        if fits_everywhere(frame, row_count(rows), width):
            changes = F.broadcast(changes)
        joined = frame.join(changes, F.col(ADDRESS) == F.col(_PAIR_ADDRESS), "left" if copies else "inner")
        return [joined.select(*self._updated_row(self._updates, F.col(CLAUSE), copies))]

    def _updated_from_source(self, pairs: DataFrame, source: DataFrame) -> DataFrame:
        """Return the rows updated by clauses that set every column from the source. No target row is read again."""
        rows = row_count(self._matches.rows_of(self._updates))
        if fits_everywhere(pairs, rows, _PAIR_BYTES):
            pairs = F.broadcast(pairs)
        found = source.join(pairs, F.col(SOURCE_ID) == F.col(PAIR), "inner")
        return found.select(*self._updated_row(self._updates, F.col(CLAUSE), False))

    def _updated_by_target(self) -> list[DataFrame]:
        """Return the rows updated by WHEN NOT MATCHED BY SOURCE clauses."""
        matches, change = self._matches, self._change
        frames = []
        for clause in self._other_updates:
            rows = matches.rows_of([clause])
            if rows:
                located = change.located(files_of(matches.files, rows.keys()))
                frame = change.target(located.only(rows))
                frames.append(frame.select(*self._updated_row([clause], F.lit(clause.number), False)))
        return frames

    def _inserted(self) -> DataFrame | None:
        """Return the source rows without a matching target row, with copies of their columns and CLAUSE.

        None if no clause inserts rows or the source is empty.
        """
        matches = self._matches
        if not self._inserts or not matches.source.rows:
            return None
        source = with_copies(matches.source.frame, matches.source.given)
        if matches.pairs is not None and matches.num_pairs:
            seen = matches.pairs.select(PAIR)
            if fits_everywhere(seen, matches.num_pairs, _PAIR_BYTES):
                seen = F.broadcast(seen)
            source = source.join(seen, F.col(SOURCE_ID) == F.col(PAIR), "left_anti")
        elif matches.num_pairs:
            rows = matches.seen
            seen = self._change.target(self._change.located(files_of(matches.files, rows.keys())).only(rows))
            if fits_everywhere(seen, row_count(rows), _PAIR_BYTES):
                seen = F.broadcast(seen)
            source = source.join(seen, matches.on, "left_anti")
        source = source.withColumn(CLAUSE, first_match(self._inserts).cast("int"))
        return source if self._inserts[-1].is_unconditional else source.where(F.col(CLAUSE) >= 0)

    def _insert_rows(self, source: DataFrame) -> DataFrame:
        columns = [self._chosen(c, self._inserts, null_column(c)).alias(c.name) for c in self._change.schema]
        none = F.lit(None).cast("long")
        kept = [none.alias(KEPT_ROW_ID), none.alias(KEPT_COMMIT_VERSION)] if self._change.is_tracked else []
        return source.select(*columns, *kept, F.col(CLAUSE))

    def _updated_row(self, clauses: Sequence[ResolvedClause], clause: Column, copies: bool) -> list[Column]:
        values = []
        for column in self._change.schema:
            sets = [c for c in clauses if column.name in c.values]
            if len(sets) == len(clauses) and not copies:
                # No row has the old value.
                value = self._chosen(column, sets[:-1], sets[-1].values[column.name])
            else:
                value = self._chosen(column, sets, self._current(column))
            values.append(value.alias(column.name))
        kept = []
        if self._change.is_tracked:
            none = F.lit(None).cast("long")
            version = F.when(clause.isNull(), F.col(KEPT_COMMIT_VERSION)).otherwise(none) if copies else none
            kept = [F.col(KEPT_ROW_ID), version.alias(KEPT_COMMIT_VERSION)]
        return [*values, *kept, clause.cast("int").alias(CLAUSE)]

    def _copied_row(self) -> list[Column]:
        kept = [F.col(KEPT_ROW_ID), F.col(KEPT_COMMIT_VERSION)] if self._change.is_tracked else []
        return [*(self._current(c).alias(c.name) for c in self._change.schema), *kept]

    def _chosen(self, column: StructField, clauses: Sequence[ResolvedClause], otherwise: Column) -> Column:
        value = otherwise
        for clause in clauses:
            if column.name in clause.values:
                value = F.when(F.col(CLAUSE) == clause.number, clause.values[column.name]).otherwise(value)
        return value

    # Files.

    def _write(self, rows: DataFrame, copies: bool) -> WriteResult:
        numbers = [c.number for c in self._inserts]
        change_type = None
        if self._matches.makes_feed:
            change_type = F.when(F.col(CLAUSE).isin(numbers), F.lit(INSERT)).otherwise(F.lit(UPDATE_POSTIMAGE))
        changed = F.col(CLAUSE).isNotNull() if copies else None
        return self._change.write_changed(rows, changed, self._recomputed(), change_type)

    def _recomputed(self) -> Mapping[str, Column]:
        """Return the mask of each generated column: the rows of clauses that do not set the column."""
        clauses = [*self._updates, *self._other_updates, *self._inserts]
        masks = {}
        for generated in self._change.rows.rules.generated:
            numbers = [c.number for c in clauses if generated.name not in c.values]
            if numbers:
                masks[generated.name] = F.col(CLAUSE).isin(numbers)
        return masks

    @property
    def _generated_identity(self) -> bool:
        identity = self._change.rows.rules.identity
        return any(i.name not in clause.values for i in identity for clause in self._inserts)

    def _insert_with_identity(self, source: DataFrame) -> WriteResult:
        """Insert rows with identity and generated values from the table writer."""
        rules = self._change.rows.rules
        made = {i.name for i in rules.identity} | {g.name for g in rules.generated}
        for name in made:
            setting = [name in clause.values for clause in self._inserts]
            if any(setting) and not all(setting):
                raise UnsupportedFeature(
                    f"the table generates the column {name}, but some WHEN NOT MATCHED clauses set it and some do not. "
                    "Set it in all of them, or in none"
                )
        left_out = {name for name in made if name not in self._inserts[0].values}
        names = [quoted(c.name) for c in self._change.schema if c.name not in left_out]
        rows = self._insert_rows(source).select(*names)
        return self._change.insert(rows, INSERT if self._matches.makes_feed else None)

    # Row counts.

    @property
    def _num_copied(self) -> int | None:
        return rows_left(self._matches.partial, {path: len(rows) for path, rows in self._matches.modified.items()})

    def _num_inserted(self, written: Sequence[WriteResult], copies: bool) -> int:
        total = sum(rows.num_rows for rows in written)
        updated = row_count(self._matches.updated)
        copied = self._num_copied if copies else 0
        if copied is None:
            source = self._inserted()
            return 0 if source is None else source.count()
        inserted = total - updated - copied
        if inserted < 0 or (inserted and not self._inserts):
            # Raises the usual error for a wrong number of rows.
            self._change.require_rows(updated + copied, total)
        return inserted
