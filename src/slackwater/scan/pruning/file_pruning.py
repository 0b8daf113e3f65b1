"""File pruning: finds files possibly matching a predicate, first by partition values, then by statistics."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields

import pyarrow as pa

from slackwater.predicate.predicate import And, Constant, Not, Or, Predicate, Unprunable, columns_of
from slackwater.protocol.schema.schema import StructType
from slackwater.stats.file_stats import Path, StatsColumns
from slackwater.stats.skipping import may_match

MOST_AT_ONCE = 1 << 17
"""Files whose statistics are parsed together. The statistics of a million files need a gigabyte."""


@dataclass(frozen=True, slots=True)
class PruneReport:
    """The number of files, and the number of files pruned in each step."""

    total_files: int
    pruned_by_partition: int
    pruned_by_stats: int

    @property
    def kept_files(self) -> int:
        """The number of files that may hold a match."""
        return self.total_files - self.pruned_by_partition - self.pruned_by_stats


@dataclass(frozen=True, slots=True)
class PruneResult:
    """The files that may hold a match, in their order, and the report of the pruned files."""

    files: pa.Table
    report: PruneReport


def prune(
    files: pa.Table,
    predicate: Predicate,
    schema: StructType,
    partition_columns: Collection[str] = (),
    physical_names: Mapping[Path, Path] | None = None,
    *,
    zone: str = "UTC",
) -> pa.Table:
    """Return the rows of `files` that may hold a match for `predicate`, in their order, with all columns.

    See `StatsColumns` for the arguments. Statistics are read only for files that survive partition pruning, and only if
    the predicate uses other columns.
    """
    return plan(files, predicate, schema, partition_columns, physical_names, zone=zone).files


def plan(
    files: pa.Table,
    predicate: Predicate,
    schema: StructType,
    partition_columns: Collection[str] = (),
    physical_names: Mapping[Path, Path] | None = None,
    *,
    zone: str = "UTC",
) -> PruneResult:
    """Return the result of `prune` with its report, computed in one pass."""
    if files.num_rows <= MOST_AT_ONCE:
        return _plan(files, predicate, schema, partition_columns, physical_names, zone)
    parts = [
        _plan(files.slice(start, MOST_AT_ONCE), predicate, schema, partition_columns, physical_names, zone)
        for start in range(0, files.num_rows, MOST_AT_ONCE)
    ]
    reports = [part.report for part in parts]
    report = PruneReport(*(sum(getattr(each, field.name) for each in reports) for field in fields(PruneReport)))
    return PruneResult(pa.concat_tables(part.files for part in parts), report)


def _plan(
    files: pa.Table,
    predicate: Predicate,
    schema: StructType,
    partition_columns: Collection[str],
    physical_names: Mapping[Path, Path] | None,
    zone: str,
) -> PruneResult:
    columns = StatsColumns(files, schema, partition_columns, physical_names, zone)
    by_partition = files.filter(may_match(about_partitions(predicate, columns), columns))
    kept = by_partition
    if any(not columns.is_partition_column(path) for path in columns_of(predicate)) and by_partition.num_rows:
        survivors = StatsColumns(by_partition, schema, partition_columns, physical_names, zone)
        kept = by_partition.filter(may_match(predicate, survivors))
    report = PruneReport(files.num_rows, files.num_rows - by_partition.num_rows, by_partition.num_rows - kept.num_rows)
    return PruneResult(kept, report)


def about_partitions(predicate: Predicate, columns: StatsColumns) -> Predicate:
    """Return `predicate` restricted to partition columns. Other conditions become `Unprunable`."""
    return _about(predicate, frozenset(path for path in columns_of(predicate) if columns.is_partition_column(path)))


def _about(predicate: Predicate, paths: frozenset[Path]) -> Predicate:
    """Return `predicate` restricted to the columns `paths`. Other conditions become `Unprunable`."""
    if isinstance(predicate, And):
        return And(tuple(_about(child, paths) for child in predicate.children))
    if isinstance(predicate, Or):
        return Or(tuple(_about(child, paths) for child in predicate.children))
    if isinstance(predicate, Not):
        return Not(_about(predicate.child, paths))
    if isinstance(predicate, (Constant, Unprunable)) or predicate.column in paths:
        return predicate
    return Unprunable()
