"""OPTIMIZE and REORG: merge small files, and rewrite files so that the next vacuum deletes removed rows from the disk.

Source: delta-spark's OPTIMIZE and REORG ... APPLY (PURGE), with their names and metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, SparkSession

from slackwater.errors import InvalidArgument
from slackwater.log.files.file_actions import ADD_SCHEMA
from slackwater.log.table import Table
from slackwater.maintenance.layout.bin_packing import (
    Bin,
    BinPackingOptions,
    bins_of,
    compaction,
    in_crowded_partitions,
    packing_of_table,
)
from slackwater.maintenance.layout.dropped_columns import to_purge
from slackwater.protocol.features import clustering
from slackwater.protocol.features.sql_columns import read_columns
from slackwater.protocol.properties.properties import TableProperties
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.dml.dml_command import DmlCommand
from slackwater.spark.dml.executor_rewrite import Finished
from slackwater.spark.dml.matching_rows import Condition
from slackwater.spark.maintenance.metrics import OptimizeMetrics, sizes_of
from slackwater.spark.maintenance.rewrite_command import RewriteCommand, as_compacted, as_purged
from slackwater.spark.progress.progress import Progress
from slackwater.spark.session.classic_connect import default_parallelism
from slackwater.spark.session.plan_text import parsed_condition
from slackwater.spark.session.settings import SessionSettings
from slackwater.spark.write.overwrite_scope import partitions_where
from slackwater.transaction.clock import Clock

OPTIMIZE, REORG = "OPTIMIZE", "REORG"
_CLOCK = Clock()
Work = Callable[[OptimizeMetrics, Progress], tuple[Mapping[str, str], Mapping[str, int]]]
"""A function that fills in the outcome and returns the commit's parameters and metrics."""


@dataclass(frozen=True)
class PartitionFilter:
    """The partitions of an operation: a Column or SQL text on partition columns, None for all."""

    given: Column | str | None = None

    def files(self, change: DmlCommand) -> tuple[pa.Table, str]:
        """Return the partitions' live files with the columns of ADD_SCHEMA, and the condition in Spark's parsed form.

        Raises InvalidArgument for a condition on other columns, with their names, and for an invalid condition.
        """
        if self.given is None:
            return change.snapshot.live_files(ADD_SCHEMA.names), ""
        condition = Condition.of(change, self.given)
        partitions = change.snapshot.metadata.partition_columns
        others = sorted({path[0] for path in read_columns(condition.text, change.snapshot.schema)} - set(partitions))
        if others:
            raise InvalidArgument(
                f"{change.snapshot.store.root_url}: the condition {condition.text!r} of {change.operation} cannot "
                f"choose partitions. Predicate references non-partition column {', '.join(map(repr, others))}. Only "
                f"the partition columns may be referenced: [{', '.join(partitions)}]",
                error_class="DELTA_NON_PARTITION_COLUMN_REFERENCE",
            )
        files = change.candidates(condition.predicate)
        assert condition.column is not None  # noqa: S101  (it was given)
        told = parsed_condition(change.nothing(), condition.column) or condition.text
        return partitions_where(change.scan, files, condition.column, change.alias), told


def compact(
    spark: SparkSession,
    table: Table,
    where: PartitionFilter,
    auto: BinPackingOptions | None = None,
    least_files: int = 0,
    newest: Snapshot | None = None,
) -> OptimizeMetrics:
    """Merge small files of each partition, and rewrite files with many deleted rows without these rows.

    `auto`: the file sizes of an automatic compaction. Partitions with fewer than `least_files` files to rewrite are
    left out. `newest` is the newest version, if it was read just now. Nothing is committed if there is nothing to do.

    Raises InvalidArgument for a condition on columns other than partition columns, and a
    DeltaConcurrentModificationException that names the concurrent commit to the same files.
    After one of these errors, the table is unchanged.
    """
    change = RewriteCommand(spark, table, OPTIMIZE, newest=newest)
    packing = auto or packing_of(change.settings, change.snapshot.properties)

    def bins(files: pa.Table) -> list[Bin]:
        return in_crowded_partitions(compaction(files, packing), least_files)

    told = {"zOrderBy": "[]", "clusterBy": "[]", "auto": "false" if auto is None else "true"}
    return run(change, partial(_rearranged, change, where, bins, as_compacted, told))


def purge(spark: SparkSession, table: Table, where: PartitionFilter) -> OptimizeMetrics:
    """Rewrite all files with rows deleted by vectors, or with dropped columns.

    Raises as `compact`, and as `with_dropped_columns`.
    """
    change = RewriteCommand(spark, table, REORG)
    return _reorganize(change, where, partial(to_purge, change.snapshot.table, change.snapshot.configuration))


def rewrite_files(spark: SparkSession, table: Table, paths: pa.Array) -> OptimizeMetrics:
    """Rewrite the files at `paths` with the current types of the columns.

    The new files have neither deleted rows nor dropped columns. Paths that the newest version lacks are left out.
    Raises as `compact`.
    """

    def chosen(files: pa.Table) -> pa.Table:
        return files.filter(pc.is_in(files["path"], value_set=paths))

    return _reorganize(RewriteCommand(spark, table, REORG), PartitionFilter(), chosen)


def _reorganize(
    change: RewriteCommand, where: PartitionFilter, chosen: Callable[[pa.Table], pa.Table]
) -> OptimizeMetrics:
    packing = packing_of(change.settings, change.snapshot.properties)
    is_clustered = clustering.DOMAIN in change.snapshot.domain_metadata

    def bins(files: pa.Table) -> list[Bin]:
        # Do not merge files of a clustered table, so that its rows stay clustered.
        size = BinPackingOptions(max_bytes=0) if is_clustered else packing
        return bins_of(chosen(files), size, rewrites_single=True)

    return run(change, partial(_rearranged, change, where, bins, as_purged, {"applyPurge": "true"}))


def run(change: RewriteCommand, work: Work) -> OptimizeMetrics:
    """Do the work and commit it. Return the outcome, with the default values if there was nothing to do."""
    outcome = OptimizeMetrics(_CLOCK.now_ms())
    with Progress.of(change.spark, change.operation, by_arrow=lambda: change.scan.by_arrow) as progress:
        change.run(lambda: work(outcome, progress))
        progress.done(files=len(outcome.removed))
    outcome.end_ms = _CLOCK.now_ms()
    return outcome


def _rearranged(
    change: RewriteCommand,
    where: PartitionFilter,
    bins: Callable[[pa.Table], list[Bin]],
    finished: Finished,
    told: Mapping[str, str],
    outcome: OptimizeMetrics,
    progress: Progress,
) -> tuple[Mapping[str, str], Mapping[str, int]]:
    files, text = where.files(change)
    chosen = bins(files)
    with progress.stage("rewriting", files=sum(each.files.num_rows for each in chosen)):
        change.rewrite(chosen, finished)
    describe(change, outcome, files, chosen)
    return {"predicate": predicate_text(text), **told}, outcome.operation_metrics()


def predicate_text(text: str) -> str:
    """Return the parameter `predicate` of the commit."""
    return orjson.dumps([text] if text else []).decode()


def describe(change: RewriteCommand, outcome: OptimizeMetrics, files: pa.Table, bins: Sequence[Bin]) -> None:
    """Fill in the outcome: `files` were considered, and the files of `bins` removed."""
    gone = pa.concat_tables([each.files for each in bins]) if bins else files.slice(0, 0)
    outcome.added = sizes_of(change.transaction.staged.adds)
    outcome.removed = gone["size"].to_pylist()
    outcome.num_partitions = len({each.partition for each in bins})
    outcome.num_bins = len(bins)
    outcome.num_considered = files.num_rows
    outcome.num_skipped = files.num_rows - gone.num_rows
    outcome.parallelism = default_parallelism(change.spark)
    vectors = [vector for vector in gone["deletionVector"].to_pylist() if vector is not None]
    outcome.num_vectors = len(vectors)
    outcome.num_vector_rows = sum(vector["cardinality"] for vector in vectors)
    outcome.num_columns = len(change.schema)
    outcome.num_columns_with_stats = len(change.rows.layout().leaves.leaves)


def packing_of(settings: SessionSettings, properties: TableProperties) -> BinPackingOptions:
    """Return the file sizes set by the session, else by the table. Raises InvalidArgument."""
    default = packing_of_table(properties)
    return BinPackingOptions(
        settings.optimize_min_bytes or default.min_bytes,
        settings.optimize_max_bytes or default.max_bytes,
        settings.optimize_max_deleted_ratio,
    )
