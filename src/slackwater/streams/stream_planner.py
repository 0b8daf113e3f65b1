"""Task planner: converts the files of a micro-batch to tasks.

Source: delta-protocol.md "Partition Value Serialization", "Deletion Vectors", "Add CDC File".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.data_files.reader import ReadProjection, Split
from slackwater.log.files.file_actions import ADD_SCHEMA, STRING_MAP
from slackwater.log.table import Table
from slackwater.predicate.predicate import Predicate
from slackwater.protocol.actions.partition_values import parse_partition_column
from slackwater.protocol.features.column_mapping import physical_name
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.scan.deletion_vectors import load_deletion_vectors
from slackwater.scan.file_changes import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, INSERT, FileChange
from slackwater.scan.pruning.file_pruning import plan
from slackwater.scan.snapshot import physical_paths
from slackwater.storage.path_guard import resolve_files
from slackwater.streams.file_tasks import StreamTask, tasks_of
from slackwater.streams.offsets import SourceOffset
from slackwater.streams.options import StreamOptions
from slackwater.streams.schema_log import SchemaLog
from slackwater.streams.source import BatchFiles, TableSource


@dataclass(frozen=True)
class StreamReadSpec:
    """The read specification of a stream for one table. It is sent to the process that plans micro-batches.

    Rows are read with `configuration`, the configuration of `version`. `wanted` has the columns of the rows.
    `constants` maps each constant to its source: a partition column, a field of `add`, or a column of the change feed.
    `predicate` prunes files. `zone` is the time zone of partition values without one. `width` is the number of
    concurrent tasks. `schema_log` is the schema log of the stream.
    """

    table: Table
    configuration: TableConfiguration
    version: int
    options: StreamOptions
    wanted: ReadProjection
    constants: Mapping[str, str] = field(default_factory=dict)
    predicate: Predicate | None = None
    zone: str = "UTC"
    width: int = 1
    schema_log: SchemaLog | None = None

    def source(self) -> TableSource:
        """Return the streaming source for the table."""
        tracking = [name for name in self.constants.values() if name in ADD_SCHEMA.names]
        columns = ["path", "partitionValues", "size", "deletionVector", *tracking]
        if self.predicate is not None:
            columns.append("stats")
        return TableSource(self.table, self.configuration, self.version, self.options, columns, self.schema_log)


def plan_tasks(read: StreamReadSpec, source: TableSource, start: SourceOffset, end: SourceOffset) -> list[StreamTask]:
    """Return the tasks of the micro-batch from `start` to `end`. Raises as `TableSource.files`."""
    plain: list[Split] = []
    recorded: list[Split] = []
    for batch in source.files(start, end):
        if batch.files is not None:
            plain += _added(read, batch, batch.files)
        derived = [change for change in batch.changes if change.kind]
        if derived:
            plain += _changed(read, batch, derived)
        elif batch.changes:
            recorded += _changed(read, batch, batch.changes)
    tasks = [StreamTask(splits) for splits in tasks_of(plain, read.width)]
    return tasks + [StreamTask(splits, says_change=True) for splits in tasks_of(recorded, read.width)]


def _added(read: StreamReadSpec, batch: BatchFiles, files: pa.Table) -> list[Split]:
    files = _pruned(read, files)
    store = read.table.store
    vectors = files["deletionVector"].to_pylist()
    known = [vector for vector in vectors if vector is not None]
    bitmaps = iter(load_deletion_vectors(store, known, read.table.follows_outside))
    constants = _constants(read, files, batch, INSERT)
    places = resolve_files(store, files["path"].to_pylist(), read.table.follows_outside)
    return [
        Split(place, 0, None, None if vector is None else next(bitmaps), values, size)
        for place, vector, values, size in zip(places, vectors, constants, files["size"].to_pylist(), strict=True)
    ]


def _changed(read: StreamReadSpec, batch: BatchFiles, changes: Sequence[FileChange]) -> list[Split]:
    files = pa.table(
        {
            "path": pa.array([change.path for change in changes], pa.string()),
            "partitionValues": pa.array([list(change.partition_values) for change in changes], STRING_MAP),
            "stats": pa.nulls(len(changes), pa.string()),
            "at": pa.array(range(len(changes)), pa.int64()),
        }
    )
    kept = _pruned(read, files)
    changes = [changes[at] for at in kept["at"].to_pylist()]
    places = resolve_files(read.table.store, kept["path"].to_pylist(), read.table.follows_outside)
    constants = _constants(read, kept, batch, [change.kind for change in changes])
    return [
        Split(place, 0, None, change.without, values, change.size_bytes, change.rows)
        for place, change, values in zip(places, changes, constants, strict=True)
    ]


def _pruned(read: StreamReadSpec, files: pa.Table) -> pa.Table:
    if read.predicate is None:
        return files
    table = read.configuration
    paths = physical_paths(table.schema, table.column_mapping_mode)
    return plan(files, read.predicate, table.schema, table.metadata.partition_columns, paths, zone=read.zone).files


def _constants(
    read: StreamReadSpec, files: pa.Table, batch: BatchFiles, kinds: str | Sequence[str]
) -> list[dict[str, pa.Scalar]]:
    """Return for each file the values of columns with one value per file."""
    count = len(files)
    told: dict[str, Any] = {
        CHANGE_TYPE: pa.array([kinds] * count if isinstance(kinds, str) else kinds, pa.string()),
        COMMIT_VERSION: pa.repeat(pa.scalar(batch.version, pa.int64()), count),
        COMMIT_TIMESTAMP: pa.repeat(pa.scalar(batch.timestamp_ms * 1000, pa.timestamp("us", "UTC")), count),
    }
    columns: dict[str, pa.Array] = {}
    for name, source in read.constants.items():
        kind = read.wanted.constants.field(name).type
        if source in told:
            columns[name] = told[source].cast(kind)
        elif source in read.configuration.metadata.partition_columns:
            columns[name] = _partition_values(read, files, source).cast(kind)
        else:
            columns[name] = files[source].combine_chunks().cast(kind)
    return [{name: values[at] for name, values in columns.items()} for at in range(count)]


def _partition_values(read: StreamReadSpec, files: pa.Table, name: str) -> pa.Array:
    table = read.configuration
    column = next(column for column in table.schema if column.name == name)
    texts = pc.map_lookup(
        files["partitionValues"].combine_chunks(), physical_name(column, table.column_mapping_mode), "first"
    )
    return parse_partition_column(texts, column.type, read.zone)
