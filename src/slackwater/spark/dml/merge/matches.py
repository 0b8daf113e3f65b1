"""Matching pairs of target and source rows of a MERGE, found once, and the target rows taken by each clause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slackwater.scan.row_count import files_of, live_row_counts
from slackwater.spark.dml.dml_command import DmlCommand
from slackwater.spark.dml.merge.builder import MATCHED, NOT_MATCHED_BY_SOURCE
from slackwater.spark.dml.merge.clauses import ResolvedClause, first_match
from slackwater.spark.dml.merge.source import SOURCE_ID, MergeSource
from slackwater.spark.read.row_addresses import AddressedRows, RowsByFile, united
from slackwater.spark.session.frames import local_checkpoint

PAIR, CLAUSE = "__slackwater_pair", "__slackwater_clause"
_NOTHING = RowsByFile({}, 0)


@dataclass(frozen=True)
class MergeMatches:
    """The matching pairs, with columns ADDRESS, PAIR (the source row's number) and CLAUSE, and the rows of each clause.

    `pairs` is None without WHEN MATCHED clauses. `on` is the join condition. `groups` are target rows by the number of
    the clause that takes them. Number -1 has the matched rows taken by no clause.
    """

    change: DmlCommand
    files: pa.Table
    source: MergeSource
    on: Column
    clauses: Sequence[ResolvedClause]
    pairs: DataFrame | None
    num_pairs: int
    groups: Mapping[int, RowsByFile]

    @staticmethod
    def of(
        change: DmlCommand, located: AddressedRows, source: MergeSource, on: Column, clauses: Sequence[ResolvedClause]
    ) -> MergeMatches:
        """Find the pairs in one job, and the rows of WHEN NOT MATCHED BY SOURCE clauses in another job.

        `located` has all target rows that match a source row, and all rows taken by a clause without a source row.
        """
        matched = [c for c in clauses if c.clause.kind == MATCHED]
        others = [c for c in clauses if c.clause.kind == NOT_MATCHED_BY_SOURCE]
        joined = change.target(located).join(source.to_compare(), on, "inner")
        pairs = None
        if matched:
            clause = first_match(matched).cast("int").alias(CLAUSE)
            pairs = local_checkpoint(joined.select(located.address, F.col(SOURCE_ID).alias(PAIR), clause))
            change.kept.append(pairs)
            groups = dict(located.grouped_bitmaps(pairs, F.col(CLAUSE)))
        else:
            groups = dict(located.grouped_bitmaps(joined.select(located.address), F.lit(-1)))
        num_pairs = sum(group.occurrences for group in groups.values())
        if others:
            seen = united(*(group.rows for group in groups.values()))
            rest = change.target(located.without(seen)) if seen else change.target(located)
            taken = located.grouped_bitmaps(rest, first_match(others).cast("int"))
            groups |= {number: group for number, group in taken.items() if number >= 0}
        return MergeMatches(change, located.files, source, on, clauses, pairs, num_pairs, groups)

    def of_kind(self, kind: str) -> list[ResolvedClause]:
        """Return the clauses for one kind of rows."""
        return [clause for clause in self.clauses if clause.clause.kind == kind]

    def rows_of(self, clauses: Sequence[ResolvedClause]) -> dict[str, BitMap64]:
        """Return the target rows taken by `clauses`."""
        return united(*(self.groups.get(clause.number, _NOTHING).rows for clause in clauses))

    @property
    def seen(self) -> dict[str, BitMap64]:
        """The target rows that match a source row and stay unchanged."""
        return self.groups.get(-1, _NOTHING).rows

    @cached_property
    def updated(self) -> dict[str, BitMap64]:
        """The rows that get new values."""
        return self.rows_of([c for c in self.clauses if not c.deletes])

    @cached_property
    def deleted(self) -> dict[str, BitMap64]:
        """The deleted rows."""
        return self.rows_of([c for c in self.clauses if c.deletes])

    @cached_property
    def modified(self) -> dict[str, BitMap64]:
        """The updated and deleted rows."""
        return united(self.updated, self.deleted)

    @cached_property
    def rows_read(self) -> dict[str, BitMap64 | None]:
        """The rows that the outcome depends on."""
        return dict(united(*(group.rows for group in self.groups.values())))

    @cached_property
    def _gone(self) -> set[str]:
        live = live_row_counts(files_of(self.files, self.modified.keys()))
        return {path for path, rows in self.modified.items() if len(rows) == live[path]}

    @cached_property
    def whole(self) -> pa.Table:
        """The files without unchanged rows."""
        return files_of(self.files, self._gone)

    @cached_property
    def partial(self) -> pa.Table:
        """The modified files with some unchanged rows."""
        return files_of(self.files, self.modified.keys() - self._gone)

    @cached_property
    def modified_in_part(self) -> dict[str, BitMap64]:
        """The modified rows of the files `partial`."""
        return {path: rows for path, rows in self.modified.items() if path not in self._gone}

    @cached_property
    def makes_feed(self) -> bool:
        """Return whether the change needs change data files.

        Inserted rows need none, nor do rows deleted with their whole files.
        """
        return self.change.makes_feed and bool(self.updated or self.partial.num_rows)
