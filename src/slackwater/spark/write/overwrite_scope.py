"""Scope of an overwrite: the whole table, the partitions of the new rows, or the rows of a condition.

Source: delta-spark's `replaceWhere` and `partitionOverwriteMode`; delta-protocol.md "Add File and Remove File".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater.errors import InvalidArgument
from slackwater.log.files.file_actions import ADD_SCHEMA
from slackwater.predicate.predicate import And, Comparison, Constant, IsNull, Or, Predicate
from slackwater.protocol.actions.files import AddFile
from slackwater.protocol.actions.partition_values import parse_partition_column
from slackwater.protocol.features import row_tracking
from slackwater.protocol.features.sql_columns import read_columns
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.read.table_scan import ScanOptions, TableScan
from slackwater.spark.session.frames import empty_frame
from slackwater.spark.session.types import to_spark_type
from slackwater.spark.write.row_checks import RowCheck, expressions_named

_FILE = "__slackwater_file_number"


@dataclass(frozen=True)
class OverwriteScope:
    """The removed files, with the columns of ADD_SCHEMA, and the row condition that selected them.

    `survivors` are the rows of these files to be copied, None if every row is deleted. `deleted` are the deleted rows
    of files with survivors, None if every row is deleted.
    """

    files: pa.Table
    predicate: Predicate
    survivors: DataFrame | None = None
    deleted: DataFrame | None = None


def whole_table(snapshot: Snapshot) -> OverwriteScope:
    """Return every file of the table."""
    return OverwriteScope(snapshot.live_files(ADD_SCHEMA.names), Constant(True))


def partitions_of(snapshot: Snapshot, adds: Sequence[AddFile], zone: str) -> OverwriteScope:
    """Return every file in a partition of `adds`."""
    names = snapshot.metadata.partition_columns
    physical = [snapshot.physical_paths.get((name,), (name,))[0] for name in names]
    keys = {tuple(add.partition_values[p] or None for p in physical) for add in adds}
    predicate = Or(tuple(_is_partition(snapshot, names, key, zone) for key in sorted(keys, key=repr)))
    if not keys:
        return OverwriteScope(ADD_SCHEMA.empty_table(), Constant(False))
    if not names:
        return whole_table(snapshot)
    candidates = snapshot.files(predicate, ADD_SCHEMA.names, zone)
    wanted = set(_keys(snapshot, [dict(zip(physical, key, strict=True)) for key in keys], zone))
    found = _keys(snapshot, [dict(v) for v in candidates["partitionValues"].to_pylist()], zone)
    return OverwriteScope(candidates.filter(pa.array([key in wanted for key in found], pa.bool_())), predicate)


def rows_where(spark: SparkSession, snapshot: Snapshot, condition: str, way: str | None = None) -> OverwriteScope:
    """Return the files with rows that match the SQL text `condition`, and their surviving rows.

    `way` is the row transport for reading the rows, see `choose_transport`. Raises InvalidArgument if `condition` is
    not a condition on this table.
    """
    tracked = row_tracking.is_enabled(snapshot.configuration)
    scan = TableScan(spark, snapshot, ScanOptions(row_tracking=tracked, rows=way))
    with expressions_named(f"replaceWhere {condition!r}"):
        _validate(scan, condition)
        read = read_columns(condition, snapshot.schema)
        predicate = scan.conditions.predicate(condition)
    candidates = snapshot.files(predicate, ADD_SCHEMA.names, scan.zone)
    if not candidates.num_rows:
        return OverwriteScope(candidates, predicate)
    partitions = {name.lower() for name in snapshot.metadata.partition_columns}
    if {path[0].lower() for path in read} <= partitions:
        return OverwriteScope(partitions_where(scan, candidates, condition), predicate)
    frame = scan.located(candidates).frame if tracked else scan.frame_of(candidates)
    with expressions_named(f"replaceWhere {condition!r}"):
        matches = F.coalesce(F.expr(condition), F.lit(False))
        return OverwriteScope(candidates, predicate, frame.filter(~matches), frame.filter(matches))


def require_partition_condition(snapshot: Snapshot, condition: str) -> None:
    """Raise InvalidArgument if the condition of replaceWhere reads columns other than partition columns."""
    partitions = {name.lower() for name in snapshot.metadata.partition_columns}
    read = {path[0] for path in read_columns(condition, snapshot.schema)}
    if others := sorted(name for name in read if name.lower() not in partitions):
        raise InvalidArgument(
            f"{snapshot.store.root_url}: replaceWhere uses {others}, which are not partition columns. Use only "
            "partition columns, or set spark.databricks.delta.replaceWhere.dataColumns.enabled to true",
            error_class="DELTA_NON_PARTITION_COLUMN_REFERENCE",
        )


def condition_check(condition: str, shows: Sequence[str]) -> RowCheck:
    """Return the check that new rows match the `condition` of the replaced rows."""
    return RowCheck(f"replaceWhere condition ({condition})", F.expr(condition), shows, "DELTA_REPLACE_WHERE_MISMATCH")


def _validate(scan: TableScan, condition: str) -> None:
    """Let Spark analyse the condition, even if no file would be read.

    The condition is analysed in a join, so that it must be deterministic for a row. A random condition would differ in
    each evaluation: for the deleted rows, the surviving rows and the new rows.
    """
    table = empty_frame(scan.spark, scan.output_schema)
    nothing = scan.spark.range(0).select(F.col("id").alias(_FILE))
    _ = table.join(nothing, F.expr(condition)).schema


def partitions_where(scan: TableScan, candidates: pa.Table, condition: str | Column, alias: str = "t") -> pa.Table:
    """Return the candidates whose partition values match a condition on partition columns, evaluated by Spark.

    The condition may name the table by `alias`.
    """
    snapshot, spark = scan.snapshot, scan.spark
    values = [dict(v) for v in candidates["partitionValues"].to_pylist()]
    distinct = list(dict.fromkeys(tuple(sorted(v.items(), key=lambda item: item[0])) for v in values))
    typed = _typed_columns(snapshot, [dict(key) for key in distinct], scan.zone)
    table = pa.table([pa.array(range(len(distinct)), pa.int64()), *typed.values()], names=[_FILE, *typed])
    frame = spark.createDataFrame(table, schema=_spark_schema(snapshot))
    column = F.expr(condition) if isinstance(condition, str) else condition
    with expressions_named(f"the condition {condition!r}"):
        kept = {distinct[row[_FILE]] for row in frame.alias(alias).filter(column).select(_FILE).collect()}
    keys = [tuple(sorted(v.items(), key=lambda item: item[0])) for v in values]
    return candidates.filter(pa.array([key in kept for key in keys], pa.bool_()))


def _spark_schema(snapshot: Snapshot) -> spark_types.StructType:
    schema = spark_types.StructType().add(_FILE, "long")
    for name in snapshot.metadata.partition_columns:
        column = snapshot.schema.get(name)
        assert column is not None  # noqa: S101  (a snapshot has its partition columns)
        schema = schema.add(name, to_spark_type(column.type))
    return schema


def _typed_columns(snapshot: Snapshot, values: Sequence[dict[str, str | None]], zone: str) -> dict[str, pa.Array]:
    """Return the typed values of each partition column, by display name."""
    typed: dict[str, pa.Array] = {}
    for name in snapshot.metadata.partition_columns:
        column = snapshot.schema.get(name)
        assert column is not None  # noqa: S101
        physical = snapshot.physical_paths.get((name,), (name,))[0]
        typed[name] = parse_partition_column(
            pa.array([v.get(physical) for v in values], pa.string()), column.type, zone
        )
    return typed


def _typed(snapshot: Snapshot, values: Sequence[dict[str, str | None]], zone: str) -> list[tuple[object, ...]]:
    columns = [column.to_pylist() for column in _typed_columns(snapshot, values, zone).values()]
    return list(zip(*columns, strict=True))


def _keys(snapshot: Snapshot, values: Sequence[dict[str, str | None]], zone: str) -> list[tuple[str, ...]]:
    """Return a key for each partition, by typed value instead of the writer's text. NaN equals NaN."""
    return [tuple(map(repr, row)) for row in _typed(snapshot, values, zone)]


def _is_partition(snapshot: Snapshot, names: Sequence[str], key: Sequence[str | None], zone: str) -> Predicate:
    physical = [snapshot.physical_paths.get((name,), (name,))[0] for name in names]
    (typed,) = _typed(snapshot, [dict(zip(physical, key, strict=True))], zone)
    tests: list[Predicate] = []
    for name, value in zip(names, typed, strict=True):
        tests.append(IsNull((name,)) if value is None else Comparison((name,), "=", value))  # type: ignore[arg-type]
    return And(tuple(tests))
