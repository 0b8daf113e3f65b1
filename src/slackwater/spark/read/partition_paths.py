"""Paths of partition directories, such as `/t/day=2024-01-02`: resolved to the table and the partition's rows.

The partition is located in the log by its values. No directory is read. Source: delta-spark's DeltaDataSource, which
takes such paths for the table and a condition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from slackwater.errors import CorruptLog, InvalidArgument, TableNotFound
from slackwater.log.table import Table
from slackwater.predicate.predicate import And, Comparison, IsNull, Predicate
from slackwater.protocol.actions.file_names import LOG
from slackwater.protocol.actions.partition_values import (
    HIVE_DEFAULT_PARTITION,
    hive_unescape,
    parse_partition_column,
    parse_partition_value,
)
from slackwater.protocol.features.column_mapping import physical_name
from slackwater.protocol.schema.schema import StructField
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.read.table_scan import ScanOptions, TableScan


@dataclass(frozen=True)
class PartitionPath:
    """The table of a partition directory, and the part of the path after the table's root, for example `p=1/q=2`."""

    table: Table
    fragment: str

    def scan(self, spark: Any, snapshot: Snapshot, options: ScanOptions) -> TableScan:
        """Return the scan of the partition in a snapshot of the table.

        Raises:
            InvalidArgument: If a name is not the name of a partition column, or a value does not have its column's
                type.
            TableNotFound: If the snapshot does not have the partition.
        """
        whole = TableScan(spark, snapshot, options)
        found = PartitionScan(spark, snapshot, options, values=self._values(snapshot, whole.zone))
        if not found.files_for(None).num_rows:
            raise TableNotFound(
                f"{self.table.location}: version {snapshot.version} has no partition {self.fragment}. Load another "
                "partition, or the table itself",
                error_class="DELTA_PATH_DOES_NOT_EXIST",
            )
        return found

    def _values(self, snapshot: Snapshot, zone: str) -> tuple[tuple[StructField, Any], ...]:
        return tuple(self._value(snapshot, segment, zone) for segment in self.fragment.split("/"))

    def _value(self, snapshot: Snapshot, segment: str, zone: str) -> tuple[StructField, Any]:
        name, _, text = (hive_unescape(part) for part in segment.partition("="))
        partition_columns = snapshot.metadata.partition_columns
        column = snapshot.schema.get(name) if name in partition_columns else None
        if column is None:
            known = ", ".join(partition_columns) or "nothing"
            raise InvalidArgument(
                f"{self.table.location}: the path names the partition column {name}, but the table is partitioned "
                f"by {known}. Use the names of the table",
                error_class="DELTA_NON_PARTITION_COLUMN_SPECIFIED",
            )
        try:
            return column, parse_partition_value(None if text == HIVE_DEFAULT_PARTITION else text, column.type, zone)
        except CorruptLog as error:
            raise InvalidArgument(
                f"{self.table.location}: the path has {segment}, but {text!r} is not a value of type {column.type}. "
                "Write the value as in the table's directories",
                error_class="DELTA_INVALID_PARTITION_PATH",
            ) from error


@dataclass(frozen=True)
class PartitionScan(TableScan):
    """A read of the files of one partition, or of several partitions with common values.

    `values` are these values, by column.
    """

    values: tuple[tuple[StructField, Any], ...] = field(default=())

    def files_for(self, predicate: Predicate | None) -> pa.Table:
        """Return the files of the partition that may hold a match for `predicate`."""
        tests = [IsNull((c.name,)) if v is None else Comparison((c.name,), "=", v) for c, v in self.values]
        files = super().files_for(And((*tests, *(() if predicate is None else (predicate,)))))
        # Compared again, because pruning may keep files that cannot match. As text, NaN equals NaN.
        texts = [dict(values) for values in files["partitionValues"].to_pylist()]
        mode = self.snapshot.column_mapping_mode
        for column, value in self.values:
            physical = physical_name(column, mode)
            found = parse_partition_column(
                pa.array([each.get(physical) for each in texts], pa.string()), column.type, self.zone
            )
            kept = [repr(each) == repr(value) for each in found.to_pylist()]
            files = files.filter(pa.array(kept, pa.bool_()))
            texts = [each for each, stays in zip(texts, kept, strict=True) if stays]
        return files


def is_partition_name(path: str) -> bool:
    """Return whether the last segment of `path` looks like a partition directory: `name=value`."""
    return "=" in path.rstrip("/").rpartition("/")[2]


def partition_path(path: str, at: Callable[[str], Table]) -> PartitionPath | None:
    """Return the nearest table above `path`, None if there is none. Each segment below the table must be `name=value`.

    `at` returns the table at a path.
    """
    root, segments = path.rstrip("/"), list[str]()
    while is_partition_name(root):
        root, _, segment = root.rpartition("/")
        segments.insert(0, segment)
        root = root.rstrip("/")
        if not root or root.endswith(":"):
            return None
        table = at(root)
        if table.store.list_from(LOG):
            return PartitionPath(table, "/".join(segments))
    return None
