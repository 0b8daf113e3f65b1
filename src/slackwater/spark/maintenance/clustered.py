"""OPTIMIZE with sorting of similar rows into the same files: z-order, and the clustering of clustered tables.

Source: delta-spark's OPTIMIZE ZORDER BY; delta-protocol.md "Clustered Table".
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

import orjson
import pyarrow as pa
from pyspark.sql import SparkSession

from slackwater.errors import InvalidArgument
from slackwater.log.files.file_actions import ADD_SCHEMA
from slackwater.log.table import Table
from slackwater.maintenance.layout.bin_packing import Bin, BinPackingOptions, bins_of, parts_of
from slackwater.maintenance.layout.curves import Curve, hilbert, z_order
from slackwater.maintenance.layout.z_cubes import PROVIDER, CubeRules, CubeWork, clustering_paths, tags_of, to_cluster
from slackwater.predicate.columns import resolve_column
from slackwater.protocol.actions.files import AddFile
from slackwater.protocol.features import clustering
from slackwater.protocol.schema.column_paths import format_column_path, parse_column_path
from slackwater.protocol.schema.schema import ColumnPath, collation_of
from slackwater.scan.row_count import live_row_counts, total
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.dml.executor_rewrite import Finished
from slackwater.spark.maintenance.curve_sort import in_curve_order
from slackwater.spark.maintenance.metrics import OptimizeMetrics
from slackwater.spark.maintenance.optimize import OPTIMIZE, PartitionFilter, describe, packing_of, predicate_text, run
from slackwater.spark.maintenance.rewrite_command import RewriteCommand
from slackwater.spark.progress.progress import Progress
from slackwater.spark.storage.row_transport import require_python_workers


def order_by_curve(spark: SparkSession, table: Table, where: PartitionFilter, names: Sequence[str]) -> OptimizeMetrics:
    """Rewrite all files of the partitions, with rows sorted along a z-curve through the columns `names`.

    Raises InvalidArgument for missing or repeated columns, partition columns, columns without statistics, a clustered
    table and a condition on columns other than partition columns. Raises as `compact`.
    """
    change = RewriteCommand(spark, table, OPTIMIZE)
    if clustering_paths(change.snapshot):
        raise InvalidArgument(
            f"{change.snapshot.store.root_url}: the table is clustered, so OPTIMIZE cannot z-order its rows. Run "
            "optimize().executeCompaction() to cluster the table",
            error_class="DELTA_CLUSTERING_WITH_ZORDER_BY",
        )
    paths = z_order_paths(change, names)
    packing = packing_of(change.settings, change.snapshot.properties)

    def work(outcome: OptimizeMetrics, progress: Progress) -> tuple[Mapping[str, str], Mapping[str, int]]:
        files, text = where.files(change)
        bins = bins_of(files, BinPackingOptions(max_bytes=1 << 62), rewrites_single=True)
        _rewrite(change, bins, paths, z_order, packing, lambda _, add: add, progress)
        describe(change, outcome, files, bins)
        outcome.z_order = _z_order_stats(files, bins)
        told = {"zOrderBy": _texts(paths), "clusterBy": "[]", "auto": "false"}
        return {"predicate": predicate_text(text), **told}, outcome.operation_metrics()

    return run(change, work)


def cluster(
    spark: SparkSession, table: Table, takes_all: bool = False, newest: Snapshot | None = None
) -> OptimizeMetrics:
    """Cluster new files along a Hilbert curve, or all files with `takes_all`. `newest` and errors as in `compact`."""
    change = RewriteCommand(spark, table, OPTIMIZE, newest=newest)
    paths = clustering_paths(change.snapshot)
    packing = packing_of(change.settings, change.snapshot.properties)
    settings = change.settings
    names = [format_column_path(path) for path in paths]
    default = CubeRules(names)
    rules = CubeRules(
        names,
        default.min_bytes if settings.cube_min_bytes is None else settings.cube_min_bytes,
        default.target_bytes if settings.cube_target_bytes is None else settings.cube_target_bytes,
        takes_all,
    )

    def work(outcome: OptimizeMetrics, progress: Progress) -> tuple[Mapping[str, str], Mapping[str, int]]:
        files = change.snapshot.live_files(ADD_SCHEMA.names)
        chosen = to_cluster(files, rules)
        ids = {id(each): str(uuid.uuid4()) for each in chosen.bins}

        def finished(each: Bin, add: AddFile) -> AddFile:
            return replace(add, tags=tags_of(ids[id(each)], names), clustering_provider=PROVIDER)

        _rewrite(change, chosen.bins, paths, hilbert, packing, finished, progress)
        describe(change, outcome, files, chosen.bins)
        outcome.clustering = _clustering_stats(chosen)
        told = {"zOrderBy": "[]", "clusterBy": _texts(paths), "auto": "false"}
        return {"predicate": "[]", **told}, outcome.operation_metrics()

    return run(change, work)


def z_order_paths(change: RewriteCommand, names: Sequence[str]) -> list[ColumnPath]:
    """Return the columns in the schema's spelling. Raises InvalidArgument, see `order_by_curve`."""
    where = change.snapshot.store.root_url
    if not names:
        raise InvalidArgument(f"{where}: z-order needs at least one column, as in executeZOrderBy('a', 'b')")
    physical = change.snapshot.physical_paths
    with_stats = {leaf.path for leaf in change.rows.layout().leaves.leaves}
    paths: list[ColumnPath] = []
    for name in names:
        path = resolve_column(change.schema, parse_column_path(name)).path
        if path[0] in change.snapshot.metadata.partition_columns:
            raise InvalidArgument(
                f"{where}: {name} is a partition column. Z-Ordering can only be performed on data columns, because the "
                "rows of one file do not differ in their partition columns",
                error_class="DELTA_ZORDERING_ON_PARTITION_COLUMN",
            )
        kind = resolve_column(change.schema, path).type
        if collation_of(kind) is not None:
            raise InvalidArgument(
                f"{where}: {name} has the collation {collation_of(kind)}. Files have no minimum and maximum of such a "
                "column, so a z-order by it would not skip files. Use other columns",
                error_class="DELTA_ZORDERING_ON_COLUMN_WITHOUT_STATS",
            )
        if kind is None or not clustering.has_extremes(kind) or physical.get(path, path) not in with_stats:
            raise InvalidArgument(
                f"{where}: files have no statistics of {name}, so a z-order by it would not skip files. Add it to "
                "delta.dataSkippingStatsColumns, raise delta.dataSkippingNumIndexedCols, or use other columns",
                error_class="DELTA_ZORDERING_ON_COLUMN_WITHOUT_STATS",
            )
        if path in paths:
            raise InvalidArgument(f"{where}: z-order names {name} twice", error_class="DELTA_DUPLICATE_COLUMNS_FOUND")
        paths.append(path)
    return paths


def _rewrite(
    change: RewriteCommand,
    bins: Sequence[Bin],
    paths: Sequence[ColumnPath],
    curve: Curve,
    packing: BinPackingOptions,
    finished: Finished,
    progress: Progress,
) -> None:
    if not bins:
        return
    places = "the Python of the executors, which computes the positions of rows on the curve,"
    require_python_workers(change.spark, change.snapshot.store, places)
    with progress.stage("rewriting", files=sum(each.files.num_rows for each in bins)):
        change.rewrite_along(
            bins,
            finished,
            lambda each, frame: in_curve_order(
                frame, paths, curve, parts_of(each, packing), total(live_row_counts(each.files).values())
            ),
        )


def _texts(paths: Sequence[ColumnPath]) -> str:
    return orjson.dumps([format_column_path(path) for path in paths]).decode()


def _z_order_stats(files: pa.Table, bins: Sequence[Bin]) -> Mapping[str, object]:
    none = {"num": 0, "size": 0}
    merged = {
        "num": sum(each.files.num_rows for each in bins),
        "size": sum(sum(each.files["size"].to_pylist()) for each in bins),
    }
    others = {"num": files.num_rows, "size": sum(files["size"].to_pylist())}
    return {
        "strategyName": "all",
        "inputCubeFiles": none,
        "inputOtherFiles": others,
        "inputNumCubes": 0,
        "mergedFiles": merged,
        "numOutputCubes": len(bins),
        "mergedNumCubes": None,
    }


def _clustering_stats(work: CubeWork) -> Mapping[str, object]:
    in_cubes = [size for sizes in work.cubes.values() for size in sizes]
    merged = [*in_cubes, *work.others]
    return {
        "inputZCubeFiles": {"numFiles": len(in_cubes), "size": sum(in_cubes)},
        "inputOtherFiles": {"numFiles": len(work.others), "size": sum(work.others)},
        "inputNumZCubes": len(work.cubes),
        "mergedFiles": {"numFiles": len(merged), "size": sum(merged)},
        "numOutputZCubes": len(work.bins),
    }
