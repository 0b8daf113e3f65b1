"""`df.write.format("delta").save(path)`: creates a table, appends to it or overwrites it.

Source: delta-spark's DataFrameWriter options and modes; docs/architecture.md "The life of a write".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame

from slackwater.errors import (
    DeltaConcurrentModificationException,
    InvalidArgument,
    MetadataChangedException,
    TableAlreadyExists,
    TableNotFound,
)
from slackwater.log.table import Table
from slackwater.maintenance.parquet_directory import require_no_plain_files
from slackwater.protocol.features.identity_columns import same_but_identity
from slackwater.protocol.schema.schema import as_nullable
from slackwater.protocol.schema_changes.merge_schema import without_internal_metadata
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.dml.merge.replace_on import replace_matching
from slackwater.spark.maintenance.auto_compact import with_auto_compaction
from slackwater.spark.progress.progress import Progress
from slackwater.spark.session.settings import SessionSettings
from slackwater.spark.session.types import from_spark_schema
from slackwater.spark.storage.row_transport import uses_arrow
from slackwater.spark.storage.stores import table_at
from slackwater.spark.write.options import WriteOptions, write_options
from slackwater.spark.write.overwrite_scope import whole_table
from slackwater.spark.write.table_writer import TableWriter
from slackwater.spark.write.write_command import WriteAttempt, assigned_rows, commit_rows, write_rows
from slackwater.transaction.clock import Clock
from slackwater.transaction.commit.factory import begin_table
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.commit_result import CommitResult
from slackwater.transaction.definition import TableDefinition, define_table
from slackwater.transaction.rows.file_action_rows import as_removes

_log = logging.getLogger(__name__)
# A write is repeated from its rows on if a concurrent commit used the same identity values.
_MOST_REWRITES = 20
_CLOCK = Clock()


def save(
    frame: DataFrame,
    path: str,
    mode: str = "error",
    partition_by: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    cluster_by: Sequence[str] = (),
    assigns: bool = False,
    properties: Mapping[str, str] | None = None,
) -> CommitResult | None:
    """Write `frame` to the Delta table at `path`. Returns the commit, None if there is nothing to do.

    `mode`: `error` (the default), `append`, `overwrite`, `ignore`. Columns are matched by name in any case. `options`
    (any case): `mergeSchema`, `overwriteSchema`, `replaceWhere`, `partitionOverwriteMode`, `txnAppId` with
    `txnVersion`, `userMetadata`, `userName`, `dataChange`, `maxRecordsPerFile`, `compression`, `rows`, and `delta.…`
    properties of a new table. `properties` are further properties of a new table, with any keys. `partition_by` and
    `cluster_by` name its partition and clustering columns. With `assigns`, values are cast to the column types of the
    table by the session's store assignment, like in INSERT. The table is unchanged after an error, except perhaps after
    CommitUnknown.

    Raises:
        TableAlreadyExists: If the table exists and `mode` is `error`.
        InvalidArgument: If columns, partitioning or options do not fit.
        InvariantViolationException: If a row breaks a rule of the table.
        OperationNotAllowed: If the write replaces rows of an append-only table.
        UnsupportedFeature: If the table or the write needs an unsupported feature.
        DeltaConcurrentModificationException: If a concurrent commit conflicts; also its subclasses.
        CommitUnknown: If the outcome of the commit is unknown.
    """
    settings = SessionSettings.of(frame.sparkSession)
    asked = write_options(settings, mode, options or {}, partition_by, cluster_by)
    request = replace(asked, assigns=assigns, own_properties=dict(properties or {}))
    return _done(frame, table_at(frame.sparkSession, path, request.given), request, settings)


def save_to(
    frame: DataFrame, table: Table, mode: str, options: Mapping[str, Any] | None = None, assigns: bool = False
) -> CommitResult | None:
    """Write `frame` like `save`, to an opened table."""
    settings = SessionSettings.of(frame.sparkSession)
    return _done(frame, table, replace(write_options(settings, mode, options or {}), assigns=assigns), settings)


def _done(frame: DataFrame, table: Table, request: WriteOptions, settings: SessionSettings) -> CommitResult | None:
    if not frame.columns:
        raise InvalidArgument(
            f"{table.root_url}: the data has no columns. Add at least one column",
            error_class="DELTA_EMPTY_DATA",
        )
    by_arrow = partial(uses_arrow, frame.sparkSession, table.store, request.rows)
    with Progress.during(frame.sparkSession, "WRITE", "writing rows", settings.progress, by_arrow):
        saved = _saved(frame, table, request, settings)
    result = with_auto_compaction(frame.sparkSession, saved)
    if request.given.get("txnVersion") is None:
        settings.application_was_used(frame.sparkSession)
    return result


def save_as_definition(
    frame: DataFrame,
    begin: Callable[[TableDefinition], TableTransaction],
    operation: str,
    partition_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    description: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> CommitResult:
    """Write `frame` as all rows of a new or replaced table, for the statement `operation`, in one commit.

    `begin` returns the transaction for the table's definition. A replaced table keeps only its history. Raises the
    errors of `save`.
    """
    settings = SessionSettings.of(frame.sparkSession)
    asked = write_options(settings, "overwrite", options or {}, partition_by, cluster_by)
    request = replace(asked, own_properties=dict(properties or {}), operation=operation, description=description)
    transaction = begin(_definition(frame, request, settings))
    by_arrow = partial(uses_arrow, frame.sparkSession, transaction.table.store, request.rows)
    with Progress.during(frame.sparkSession, operation, "writing rows", settings.progress, by_arrow):
        return _fill(frame, transaction, request, settings)


def begin_definition(table: Table, existing: Snapshot | None, definition: TableDefinition) -> TableTransaction:
    """Return the transaction that defines `table` by `definition`.

    `existing` is the replaced version, None for a new table.

    Raises the errors of any commit.
    """
    replaces, domains = (existing.configuration, existing.domain_metadata) if existing else (None, {})
    defined = define_table(definition, _CLOCK.now_ms(), _CLOCK.new_id, replaces, domains)
    return begin_table(table, defined, existing)


def save_micro_batch(
    frame: DataFrame, table: Table, request: WriteOptions, settings: SessionSettings
) -> CommitResult | None:
    """Write the rows of one micro-batch like `save`. Returns None if the log records the batch as written."""
    return with_auto_compaction(frame.sparkSession, _saved(frame, table, request, settings))


def validate_save(frame: DataFrame, table: Table, request: WriteOptions, settings: SessionSettings) -> None:
    """Raise the errors of `save` if columns, partitioning or options do not fit the table. Writes nothing."""
    snapshot = newest_snapshot(table)
    if snapshot is None:
        _require_free_place(table, request)
        begin_definition(table, None, _definition(frame, request, settings))
        return
    rows = assigned_rows(frame, snapshot, request)
    write = WriteAttempt(rows, snapshot, request, settings)
    write.validate_mode()


def _saved(frame: DataFrame, table: Table, request: WriteOptions, settings: SessionSettings) -> CommitResult | None:
    for attempt in range(1, _MOST_REWRITES + 1):
        snapshot = newest_snapshot(table)
        if snapshot is not None and (request.mode == "ignore" or request.is_done(snapshot)):
            _log_skipped(snapshot, request)
            return None
        if snapshot is not None and request.mode == "error":
            raise TableAlreadyExists(
                f"{table.root_url} is a Delta table already. Use mode append or overwrite, or another path",
                error_class="DELTA_PATH_EXISTS",
            )
        try:
            if snapshot is None:
                return _create(frame, table, request, settings)
            if request.matching is not None:
                return replace_matching(frame, table, request, settings)
            return WriteAttempt(assigned_rows(frame, snapshot, request), snapshot, request, settings).run()
        except DeltaConcurrentModificationException as error:
            newest = newest_snapshot(table)
            # Nothing is left to do if a concurrent run of the same application did this write.
            if newest is not None and request.is_done(newest):
                _log_skipped(newest, request)
                return None
            moved = isinstance(error, MetadataChangedException) and _only_identity_moved(snapshot, newest)
            # A stream continues in a table created by a concurrent writer.
            moved = moved or (request.streamed and snapshot is None and newest is not None)
            if attempt == _MOST_REWRITES or not moved:
                raise
            _log.info("%s: the rows are written again: %s", table.root_url, error)
    raise AssertionError("the loop above returns or raises")


def _log_skipped(snapshot: Snapshot, request: WriteOptions) -> None:
    """Log why nothing is written. Not for micro-batches, because the query logs them."""
    if request.micro_batch is not None:
        return
    known = request.application
    why = (
        f"application {known.app_id!r} already committed its write {known.version}"
        if known is not None and request.is_done(snapshot)
        else "the table exists, and the mode is ignore"
    )
    _log.info("%s: nothing is written at version %d: %s", snapshot.table.root_url, snapshot.version, why)


def newest_snapshot(table: Table) -> Snapshot | None:
    """Return the newest version of a table, None if there is no table."""
    try:
        return Snapshot.open(table)
    except TableNotFound:
        return None


def _only_identity_moved(snapshot: Snapshot | None, newest: Snapshot | None) -> bool:
    return bool(snapshot and newest and same_but_identity(snapshot.configuration, newest.configuration))


def _definition(frame: DataFrame, request: WriteOptions, settings: SessionSettings) -> TableDefinition:
    """Return the definition of the table created by the write."""
    schema = without_internal_metadata(as_nullable(from_spark_schema(frame.schema)))
    given = request.properties
    properties = {**settings.properties_beside(given), **given}
    clustered = request.cluster_by or None
    return TableDefinition.of(schema, request.partition_by, clustered, properties, request.description)


def _create(frame: DataFrame, table: Table, request: WriteOptions, settings: SessionSettings) -> CommitResult:
    _require_free_place(table, request)
    transaction = begin_definition(table, None, _definition(frame, request, settings))
    return _fill(frame, transaction, request, settings)


def _require_free_place(table: Table, request: WriteOptions) -> None:
    """Raise InvalidArgument if a new table would hide the rows of plain Parquet files.

    Mode overwrite replaces the files.
    """
    if request.mode != "overwrite":
        require_no_plain_files(table.store)


def _fill(
    frame: DataFrame, transaction: TableTransaction, request: WriteOptions, settings: SessionSettings
) -> CommitResult:
    """Commit the table defined by `transaction`, with exactly the rows of `frame`."""
    existing = transaction.read_snapshot
    table = transaction.staged.table_after(None if existing is None else existing.configuration)
    if existing is not None:
        replaced = whole_table(existing)
        transaction.read_where(replaced.predicate)
        transaction.remove(as_removes(replaced.files, _CLOCK.now_ms()))
    rows = TableWriter(transaction.table, table, transaction.staged.domains, request.rows)
    written = write_rows(rows, frame, request, settings)
    transaction.set_table(table.changed(metadata=written.metadata))
    return commit_rows(transaction, request, [written], written.metadata or table.metadata)
