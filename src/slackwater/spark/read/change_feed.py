"""Change data feed of a range of versions, as a batch.

Source: delta-protocol.md "Add CDC File", "Reader Requirements for AddCDCFile".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import attrgetter

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater.errors import InvalidArgument, VersionNotFound
from slackwater.log.files.file_actions import STRING_MAP
from slackwater.log.history import CommitHistory, to_ms
from slackwater.log.table import Table
from slackwater.protocol.actions.actions import Metadata
from slackwater.protocol.actions.file_names import commit_name
from slackwater.protocol.actions.time_zones import time_zone
from slackwater.protocol.features.column_mapping import NONE, physical_name, physical_schema, replaced_column
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.schema.nested_columns import paired_columns
from slackwater.protocol.schema.schema import ArrayType, DataType, MapType, StructField, StructType
from slackwater.scan.file_changes import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    INSERT,
    FileChange,
    derived_changes,
    recorded_changes,
    require_feed,
)
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.parquet.rebase_modes import items_by_calendar
from slackwater.spark.read.deleted_rows import without_deleted_rows
from slackwater.spark.read.file_columns import FILE, same_text
from slackwater.spark.read.table_scan import ScanOptions, TableScan
from slackwater.spark.session.frames import empty_frame
from slackwater.spark.session.reader_options import Options
from slackwater.spark.session.settings import SessionSettings
from slackwater.transaction.committers.factory import require_not_past_transaction

FEED_COLUMNS: Mapping[str, spark_types.DataType] = {
    CHANGE_TYPE: spark_types.StringType(),
    COMMIT_VERSION: spark_types.LongType(),
    COMMIT_TIMESTAMP: spark_types.TimestampType(),
}
"""Columns of a feed in addition to the table's columns."""
_NESTED = (StructType, ArrayType, MapType)
_EVENT_KEY, _EVENT_FILE, _EVENT, _KIND, _SELECT = (
    f"__slackwater_event_{part}" for part in ("key", "file", "id", "kind", "select")
)


@dataclass(frozen=True)
class ChangeFeed:
    """The changes of the versions `start` to `end` (inclusive), read with the schema of `snapshot` (version `end`).

    Empty if `start` is greater than `end`.
    """

    spark: SparkSession
    snapshot: Snapshot
    history: CommitHistory
    start: int
    end: int
    options: ScanOptions = field(default_factory=ScanOptions)

    @staticmethod
    def of_options(
        spark: SparkSession, table: Table, options: Options, scan_options: ScanOptions, zone: str
    ) -> ChangeFeed:
        """Return the feed requested by the reader options. `zone` is the time zone of timestamps without a zone.

        A start or an end after the last commit raises an error. With the option `allowAfterLastCommit`, or the
        session's setting `changeDataFeed.timestampOutOfRange.enabled`, the feed is empty, or ends at the newest
        version.

        Raises:
            VersionNotFound: If a version is after the last commit.
            TimestampOutOfRange: If a timestamp is after the last commit.
            InvalidArgument: If options are missing or contradict each other, or if the end is before the start.
        """
        if scan_options.row_tracking:
            raise InvalidArgument("row ids cannot be read from a change feed")
        latest = Snapshot.open(table)
        require_not_past_transaction(latest)
        history = latest.history()
        tolerant = options.after_last_commit_allowed or SessionSettings.of(spark).feed_may_leave_history
        start = _start(latest, history, options, zone, tolerant)
        if start > latest.version:
            # An empty feed, with the columns of the newest version.
            return ChangeFeed(spark, latest, history, start, latest.version, scan_options)
        end = _end(latest, history, options, zone, tolerant)
        if end < start:
            raise InvalidArgument(
                f"the change feed's end, version {end}, is before its start, version {start}",
                error_class="DELTA_INVALID_CDC_RANGE",
            )
        at_end = latest if end == latest.version else Snapshot.open(latest.table, end)
        return ChangeFeed(spark, at_end, history, start, end, scan_options)

    def dataframe(self) -> DataFrame:
        """Return a row per changed row: the table's columns, `_change_type`, `_commit_version` and `_commit_timestamp`.

        Reads the change files of a version if there are any. Otherwise derives the changes from added and removed
        files, without rows hidden by deletion vectors. Raises ChangeFeedNotEnabled if the feed is disabled in a
        version, InvalidArgument if a schema change makes files of the range unreadable, and all other errors of
        reading.
        """
        if self.start > self.end:
            return empty_frame(self.spark, self._output_schema())
        derived, recorded, tables = self._changes()
        now = self._physical(self.snapshot.configuration)
        is_strict = all(_is_never_null(now, None if then is None else self._physical(then)) for then in tables)
        options = replace(self.options, says_not_null=self.options.says_not_null and is_strict)
        scan = TableScan(self.spark, self.snapshot, options)
        kinds = ((derived, False), (recorded, True))
        parts = [(part, kind) for changes, kind in kinds for part in self._by_partition_columns(changes).items()]
        if not parts:
            return empty_frame(self.spark, self._output_schema()).select("*")
        frames = (
            self._frame(scan, columns, alike, kind)
            for (columns, changes), kind in parts
            for alike in items_by_calendar(self.spark, changes, lambda change: change.path)
        )
        return reduce(DataFrame.unionAll, frames)

    def _output_schema(self) -> spark_types.StructType:
        schema = TableScan(self.spark, self.snapshot, self.options).output_schema
        return with_feed_columns(schema)

    def _physical(self, table: TableConfiguration) -> StructType:
        """Return the columns of `table` with their names in its files.

        `table` is the version read, or an earlier state.
        """
        named = all("delta.columnMapping.physicalName" in column.metadata for column in table.schema)
        return physical_schema(table.schema, self.snapshot.column_mapping_mode if named else NONE)

    def _changes(self) -> tuple[list[FileChange], list[FileChange], list[TableConfiguration | None]]:
        """Return the changes derived from added and removed files, the changes in change files, and the table states.

        None is an unknown state of the table.
        """
        derived: list[FileChange] = []
        recorded: list[FileChange] = []
        before = Snapshot.open(self.snapshot.table, self.start)
        table = before.configuration
        tables: list[TableConfiguration | None] = [table]
        require_feed(table, self.start, self.snapshot.store.root_url)
        self._check_schema(table, self.start)
        for version in range(self.start, self.end + 1):
            where = f"{self.snapshot.store.root_url}/_delta_log/{commit_name(version)}"
            actions = self.history.actions(version)
            for action in actions:
                if action.get("metaData") is not None:
                    table = table.changed(metadata=Metadata.from_json(action["metaData"], where))
                    # Unknown, because rows deleted by the first version belong to the table before it.
                    tables.append(None if version == self.start > 0 else table)
                    require_feed(table, version, self.snapshot.store.root_url)
                    self._check_schema(table, version)
            from_files = recorded_changes(actions, version, where)
            if from_files:
                recorded += from_files
            else:
                outside = self.options.follows_outside(self.snapshot)
                derived += derived_changes(self.snapshot, actions, version, where, outside)
        if tables[1:2] == [None] and any(c.version == self.start and c.kind != INSERT for c in (*derived, *recorded)):
            self._check_replaced()
        return derived, recorded, tables

    def _check_replaced(self) -> None:
        """Raise InvalidArgument if the first version replaced a column.

        The rows deleted by this version belong to the table before it. Their values in the column would be missing.
        """
        now = self.snapshot
        if now.column_mapping_mode == NONE:
            return
        then = Snapshot.open(now.table, self.start - 1)
        name = replaced_column(then.schema, then.column_mapping_mode, now.schema, now.column_mapping_mode)
        if name is not None:
            raise InvalidArgument(
                f"{now.store.root_url}: version {self.start} deletes rows of the previous version, but column "
                f"{name!r} is another column there, so its values would be missing. Read the changes up to version "
                f"{self.start - 1} and after version {self.start} separately",
                error_class="DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE",
            )

    def _check_schema(self, table: TableConfiguration, version: int) -> None:
        now = physical_schema(self.snapshot.schema, self.snapshot.column_mapping_mode)
        lost = _lost(self._physical(table), now)
        if lost is not None:
            name, kind = lost
            raise InvalidArgument(
                f"{self.snapshot.store.root_url}: the schema of version {version} has column {name!r} of type {kind}, "
                f"but the schema of version {self.end} does not. Read the changes before and after the schema change "
                "separately",
                error_class="DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE",
            )

    def _by_partition_columns(self, changes: Sequence[FileChange]) -> dict[tuple[str, ...], list[FileChange]]:
        """Return the changes by the partition columns of their files.

        The table's partitioning may have changed since.
        """
        mode, now = self.snapshot.column_mapping_mode, tuple(self.snapshot.metadata.partition_columns)
        names = {physical_name(column, mode): column.name for column in self.snapshot.schema}
        found: dict[tuple[str, ...], list[FileChange]] = defaultdict(list)
        for change in changes:
            columns = tuple(names[key] for key, _ in change.partition_values if key in names)
            found[now if set(columns) == set(now) else columns].append(change)
        return found

    def _frame(
        self, scan: TableScan, partition_columns: Sequence[str], changes: Sequence[FileChange], recorded: bool
    ) -> DataFrame:
        by_path: dict[str, list[tuple[int, FileChange]]] = defaultdict(list)
        for number, change in enumerate(changes):
            by_path[scan.locations.relative(change.path)].append((number, change))
        files = pa.table(
            {
                "path": pa.array(list(by_path)),
                "partitionValues": pa.array([list(c[0][1].partition_values) for c in by_path.values()], STRING_MAP),
                "deletionVector": pa.nulls(len(by_path)),
            }
        )
        hidden = [CHANGE_TYPE] if recorded else []
        raw = scan.raw_frame(
            list(by_path), files, hidden, needs_row=True, needs_file=True, partition_columns=partition_columns
        )
        frame = raw.frame
        frame = frame.join(F.broadcast(self._events(scan, by_path)), F.xxhash64(FILE) == F.col(_EVENT_KEY), "inner")
        frame = frame.where(same_text(FILE, _EVENT_FILE))
        bitmaps = [(n, rows) for n, c in enumerate(changes) if (rows := c.rows or c.without)]
        if bitmaps:
            frame = without_deleted_rows(self.spark, frame, bitmaps, F.col(_EVENT), F.col(_SELECT))
        kind = F.col(CHANGE_TYPE) if recorded else F.col(_KIND)
        return frame.select(*raw.columns, kind.alias(CHANGE_TYPE), F.col(COMMIT_VERSION), F.col(COMMIT_TIMESTAMP))

    def _events(self, scan: TableScan, by_path: Mapping[str, Sequence[tuple[int, FileChange]]]) -> DataFrame:
        """Return the changes of each file. A file added and later removed has two rows."""
        times = {c.version: self.history.timestamp_ms(c.version) for cs in by_path.values() for _, c in cs}
        rows = [
            (
                scan.locations.metadata_url(path),
                number,
                change.kind,
                change.rows is not None,
                change.version,
                times[change.version] * 1000,
            )
            for path, events in by_path.items()
            for number, change in events
        ]
        types = [pa.string(), pa.int64(), pa.string(), pa.bool_(), pa.int64(), pa.timestamp("us", "UTC")]
        names = [_EVENT_FILE, _EVENT, _KIND, _SELECT, COMMIT_VERSION, COMMIT_TIMESTAMP]
        columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(types)]
        sql_types = ("string", "long", "string", "boolean", "long", "timestamp")
        schema = ", ".join(f"{name} {kind}" for name, kind in zip(names, sql_types, strict=True))
        return self.spark.createDataFrame(pa.table(columns, names=names), schema=schema).withColumn(
            _EVENT_KEY, F.xxhash64(_EVENT_FILE)
        )


def with_feed_columns(schema: spark_types.StructType) -> spark_types.StructType:
    """Return `schema` followed by the columns of a feed."""
    return spark_types.StructType([*schema.fields, *(spark_types.StructField(*c) for c in FEED_COLUMNS.items())])


def _lost(then: StructType, now: StructType) -> tuple[str, DataType] | None:
    """Return a column of `then`, and its type, that is missing in `now` or has other nested parts.

    None if there is none.
    """

    def alike(one: StructField, other: StructField) -> bool:
        return all(isinstance(one.type, kind) == isinstance(other.type, kind) for kind in _NESTED)

    pairs = paired_columns(then, now, attrgetter("name"), attrgetter("name"), alike)
    return next(((".".join(pair.path), pair.column.type) for pair in pairs if pair.found is None), None)


def _is_never_null(now: DataType, then: DataType | None) -> bool:
    """Return whether values of the type `then` have no null in any NOT NULL part of `now`."""
    if isinstance(now, StructType):
        earlier = {field.name: field for field in then} if isinstance(then, StructType) else {}
        found = ((field, earlier.get(field.name)) for field in now)
        return all(
            (field.nullable or (was is not None and not was.nullable))
            and _is_never_null(field.type, None if was is None else was.type)
            for field, was in found
        )
    if isinstance(now, ArrayType):
        is_strict = isinstance(then, ArrayType) and not then.contains_null
        element = then.element_type if isinstance(then, ArrayType) else None
        return (now.contains_null or is_strict) and _is_never_null(now.element_type, element)
    if isinstance(now, MapType):
        is_strict = isinstance(then, MapType) and not then.value_contains_null
        key, value = (then.key_type, then.value_type) if isinstance(then, MapType) else (None, None)
        kept = now.value_contains_null or is_strict
        return kept and _is_never_null(now.key_type, key) and _is_never_null(now.value_type, value)
    return True


def _start(latest: Snapshot, history: CommitHistory, options: Options, zone: str, tolerant: bool) -> int:
    version, timestamp = options.integer("startingVersion"), options.get("startingTimestamp")
    if (version is None) == (timestamp is None):
        raise InvalidArgument(
            "a change feed needs either startingVersion or startingTimestamp",
            error_class="DELTA_NO_START_FOR_CDC_READ" if version is None else "DELTA_MULTIPLE_CDC_BOUNDARY",
        )
    if version is not None:
        if version > latest.version and not tolerant:
            raise VersionNotFound(
                f"{latest.store.root_url}: the change feed cannot start at version {version}. The newest version is "
                f"{latest.version} (DELTA_CDC_START_VERSION_AFTER_LATEST)",
                error_class="DELTA_CDC_START_VERSION_AFTER_LATEST",
            )
        return version
    return history.version_from(to_ms(str(timestamp), time_zone(zone)), latest.version, tolerant)


def _end(latest: Snapshot, history: CommitHistory, options: Options, zone: str, tolerant: bool) -> int:
    version, timestamp = options.integer("endingVersion"), options.get("endingTimestamp")
    if version is not None and timestamp is not None:
        raise InvalidArgument(
            "give endingVersion or endingTimestamp, not both", error_class="DELTA_MULTIPLE_CDC_BOUNDARY"
        )
    if timestamp is not None:
        return history.version_at(to_ms(timestamp, time_zone(zone)), tolerant)
    if version is None:
        return latest.version
    if version > latest.version and not tolerant:
        raise VersionNotFound(
            f"{latest.store.root_url} has no version {version} to end at. Its newest version is {latest.version}"
        )
    return min(version, latest.version)
