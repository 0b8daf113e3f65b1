"""`spark.readStream.format("delta")`: a table as the source of a stream, by path or name.

Source: delta-spark's DeltaOptions and DeltaDataSource.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from slackwater.errors import InvalidArgument, OperationNotAllowed, UnsupportedFeature
from slackwater.log.history import to_ms
from slackwater.log.table import Table
from slackwater.protocol.actions.time_zones import time_zone
from slackwater.protocol.features.table_features import validate_readable
from slackwater.protocol.properties.byte_sizes import size_in_bytes
from slackwater.protocol.schema.column_paths import format_column_path
from slackwater.scan.file_changes import require_feed
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.catalog.resolve import known_parts
from slackwater.spark.hadoop.store import HadoopStore
from slackwater.spark.read.pushdown_frame import narrowing_frame
from slackwater.spark.read.table_scan import ScanOptions
from slackwater.spark.session.enabled_sessions import is_enabled_for
from slackwater.spark.session.io_requests import (
    is_extended,
    remember_requests,
    request_of,
    session_of,
    table_to_load,
    wrap,
)
from slackwater.spark.session.reader_options import Options
from slackwater.spark.session.settings import MAY_DROP, MAY_RENAME, MAY_RENAME_AND_DROP, MAY_RETYPE, session_zone
from slackwater.spark.storage.row_transport import require_python_workers
from slackwater.spark.storage.stores import table_at
from slackwater.spark.streams.driver_source import DrivenScan, can_be_driven
from slackwater.spark.streams.scan import StreamScan
from slackwater.spark.table.named import named_table
from slackwater.streams.event_times import event_time_path
from slackwater.streams.options import LATEST, StreamOptions
from slackwater.streams.schema_changes import AllowedSchemaChanges, require_unblocked
from slackwater.streams.schema_log import SchemaLog
from slackwater.streams.source import require_commit_from, require_not_after

_NOT_FOR_STREAMS = ("versionAsOf", "timestampAsOf", "endingVersion", "endingTimestamp")
_SCHEMA_LOG = ("schemaTrackingLocation", "schemaLocation")
_OF_SCHEMA_LOG = (
    "streamingSourceTrackingId",
    "allowSourceColumnRename",
    "allowSourceColumnDrop",
    "allowSourceColumnTypeChange",
)


def extend_stream_reader(reader: type) -> None:
    """Extend PySpark's stream reader to tables of format delta. A repeated call has no effect."""
    if is_extended(reader):
        return
    remember_requests(reader)
    wrap(reader, "load", _load)
    wrap(reader, "table", _table)


def _load(
    original: Callable[..., Any],
    self: Any,
    path: Any = None,
    format: str | None = None,  # noqa: A002  (the name PySpark has)
    schema: Any = None,
    **options: Any,
) -> Any:
    asked = table_to_load(self, path, format, schema, options)
    if asked is None:
        return original(path, format, schema, **options)
    found, given = asked
    spark = session_of(self)
    return stream_of(spark, table_at(spark, found, Options(given)), given, request_of(self).source_name)


def _table(original: Callable[..., Any], self: Any, tableName: Any) -> Any:  # noqa: N803  (the name PySpark has)
    spark = session_of(self)
    parts = known_parts(tableName) if isinstance(tableName, str) and is_enabled_for(spark) else ()
    named = named_table(spark, parts) if parts else None
    if named is None:
        return original(tableName)
    request = request_of(self)
    return stream_of(spark, named.table._table, request.options, request.source_name)


def stream_of(
    spark: SparkSession, table: Table, options: Mapping[str, Any] | None = None, name: str | None = None
) -> DataFrame:
    """Return the stream of `table` in a frame: its present rows, then appended rows, or its change feed.

    `name`: the name of the source in checkpoints, set by `readStream.name`.

    Options (any case, names and defaults of delta-spark): `startingVersion` (a version, or `latest`) or
    `startingTimestamp`, inclusive, for a stream without a checkpoint; `maxFilesPerTrigger` (1000), `maxBytesPerTrigger`
    (`10g`); `ignoreDeletes`, `ignoreChanges`, `skipChangeCommits`; `readChangeFeed`; `excludeRegex`;
    `withEventTimeOrder` with `eventTimeColumn`; `failOnDataLoss`; `schemaTrackingLocation`, with
    `streamingSourceTrackingId`, `allowSourceColumnRename`, `allowSourceColumnDrop`, `allowSourceColumnTypeChange`; and
    `rowTracking`, `allowPathsOutsideRoot` of this package.

    Raises:
        TableNotFound: If there is no table.
        InvalidArgument: If an option is not valid.
        VersionNotFound: If `startingVersion` is in the future.
        TimestampOutOfRange: If `startingTimestamp` is in the future.
        ChangeFeedNotEnabled: If `readChangeFeed` is set and the table has no change feed.
        UnsupportedFeature: If this package or the session cannot read the stream.
        OperationNotAllowed: If a schema change needs the user's approval, or if `table` belongs to a transaction.
    """
    given = Options(options or {})
    if table.branch is not None:
        raise OperationNotAllowed(
            f"{table.location}: a stream outlives the transaction of this table. Read the table before or after the "
            "transaction"
        )
    _require_supported(given, table)
    stream = _stream_options(spark, given)
    snapshot = Snapshot.open(table)
    stream = replace(stream, event_time=_event_time(given, snapshot))
    if isinstance(stream.starting_version, int):
        require_not_after(snapshot, stream.starting_version)
    if stream.starting_ms is not None:
        require_commit_from(snapshot, stream.starting_ms)
    scan_options = ScanOptions.of(given)
    if stream.change_feed:
        if scan_options.row_tracking:
            raise InvalidArgument("row ids cannot be read from a change feed")
        require_feed(snapshot.configuration, snapshot.version, table.root_url)
    scan = StreamScan(spark, snapshot, scan_options, stream=stream, source_name=name)
    if can_be_driven(scan):
        return narrowing_frame(DrivenScan.of(_tracked(scan, given)))
    if isinstance(table.store, HadoopStore):
        raise UnsupportedFeature(
            f"{table.root_url}: Python on the executors reads streams, but only Spark itself reaches Hadoop file "
            "systems from there. Read the table without a stream, by spark.read"
        )
    require_python_workers(spark, table.store, "the Python of the executors, which reads the stream,")
    return narrowing_frame(_tracked(scan, given))


def _tracked(scan: StreamScan, given: Options) -> StreamScan:
    """Return the stream with its last schema, if the stream tracks its schemas.

    Raises OperationNotAllowed after a schema change without the user's approval, CorruptLog, CorruptTable,
    InvalidArgument for options of schema tracking without `schemaTrackingLocation`.
    """
    location = next((found for key in _SCHEMA_LOG if (found := given.get(key)) is not None), None)
    if location is None:
        if alone := [key for key in _OF_SCHEMA_LOG if given.get(key) is not None]:
            raise InvalidArgument(
                f"{scan.snapshot.table.location}: {', '.join(alone)} needs a stream with schema tracking. Set "
                "schemaTrackingLocation too, a directory in the query's checkpoint, or leave the option out",
                error_class="DELTA_ILLEGAL_OPTION",
            )
        return scan
    spark, snapshot = scan.spark, scan.snapshot
    store = table_at(spark, location, given).store
    log = SchemaLog.of(store, snapshot.metadata.id, given.get("streamingSourceTrackingId"), location)
    scan = replace(scan, schema_log=log)
    newest = log.newest()
    if newest is None:
        return scan
    validate_readable(newest.configuration.protocol, store.root_url)
    before = log.before(newest)
    if before is not None:
        allowed = _unblocked(spark, given)
        where = snapshot.table.root_url
        require_unblocked(before.configuration, newest.configuration, newest.version, allowed, where)
    return replace(scan, snapshot=snapshot.with_configuration(newest.configuration), schema_version=newest.version)


def _unblocked(spark: SparkSession, given: Options) -> AllowedSchemaChanges:
    def said(option: str, *settings: str) -> str | None:
        confs = (spark.conf.get(name, None) for name in settings)
        return given.get(option) or next((found for found in confs if found is not None), None)

    return AllowedSchemaChanges(
        said("allowSourceColumnRename", MAY_RENAME, MAY_RENAME_AND_DROP),
        said("allowSourceColumnDrop", MAY_DROP, MAY_RENAME_AND_DROP),
        said("allowSourceColumnTypeChange", MAY_RETYPE),
    )


def _require_supported(given: Options, table: Table) -> None:
    if clash := [key for key in _NOT_FOR_STREAMS if given.get(key) is not None]:
        raise InvalidArgument(
            f"{table.location}: a stream does not support {', '.join(clash)}. Leave it out. startingVersion and "
            "startingTimestamp set the start",
            error_class="DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS",
        )


def _event_time(given: Options, snapshot: Snapshot) -> str | None:
    """Return the event time column for the order of the initial snapshot. Raises InvalidArgument."""
    column, where = given.get("eventTimeColumn"), snapshot.table.location
    if not given.flag("withEventTimeOrder"):
        if column is not None:
            raise InvalidArgument(
                f"{where}: eventTimeColumn needs withEventTimeOrder = true. Set both, or leave eventTimeColumn out",
                error_class="DELTA_ILLEGAL_OPTION",
            )
        return None
    if column is None:
        raise InvalidArgument(
            f"{where}: withEventTimeOrder needs the option eventTimeColumn, because Spark does not report the column "
            "to a source. Set it to the column of withWatermark",
            error_class="DELTA_ILLEGAL_OPTION",
        )
    return format_column_path(event_time_path(snapshot.schema, column, where))


def _stream_options(spark: SparkSession, given: Options) -> StreamOptions:
    version, timestamp = given.get("startingVersion"), given.get("startingTimestamp")
    starting: int | str | None = None
    if version is not None:
        starting = LATEST if version.strip().lower() == LATEST else given.integer("startingVersion")
    limits: dict[str, Any] = {}
    if (files := given.integer("maxFilesPerTrigger")) is not None:
        limits["max_files"] = files
    if (text := given.get("maxBytesPerTrigger")) is not None:
        limits["max_bytes"] = size_in_bytes("maxBytesPerTrigger", text)
    return StreamOptions(
        starting_version=starting,
        starting_ms=None if timestamp is None else to_ms(timestamp, time_zone(session_zone(spark))),
        ignore_deletes=given.flag("ignoreDeletes"),
        ignore_changes=given.flag("ignoreChanges") or given.flag("ignoreFileDeletion"),
        skip_change_commits=given.flag("skipChangeCommits"),
        change_feed=given.flag("readChangeFeed", "readChangeData"),
        exclude=given.get("excludeRegex"),
        fail_on_data_loss=given.get("failOnDataLoss") is None or given.flag("failOnDataLoss"),
        **limits,
    )
