"""`slackwater.write`: creates a table, appends to it or overwrites it, with rows in this process and without Spark.

Source: delta-spark's WriteIntoDelta; deltalake's `write_deltalake`; docs/architecture.md "The life of a write".
"""

from __future__ import annotations

import datetime as dt
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from slackwater.errors import (
    InvalidArgument,
    MetadataChangedException,
    TableAlreadyExists,
    TableNotFound,
)
from slackwater.log.files.file_actions import ADD_SCHEMA
from slackwater.log.table import Table
from slackwater.maintenance.parquet_directory import require_no_plain_files
from slackwater.predicate.predicate import Predicate
from slackwater.protocol.features.identity_columns import same_but_identity
from slackwater.protocol.features.write_expressions import row_rules
from slackwater.protocol.schema.schema import StructType
from slackwater.rows.arrow_types import delta_schema
from slackwater.rows.evolution import clustering_after, table_after
from slackwater.rows.expressions import Now
from slackwater.rows.preparation import PreparedRows, prepare_rows
from slackwater.rows.request import (
    ERROR,
    IGNORE,
    OVERWRITE,
    WriteRequest,
    condition_text,
    opened_table,
    row_predicate,
    write_request,
)
from slackwater.rows.row_checks import RowCheck, predicate_check, read_names
from slackwater.rows.row_removal import MatchingRows, matching_rows, remove_rows
from slackwater.rows.row_writer import RowWriter, change_files, commit_rows
from slackwater.rows.sources import RowData, RowSource, row_source
from slackwater.scan.file_changes import INSERT
from slackwater.scan.public_snapshot import Snapshot as PublicSnapshot
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.clock import Clock
from slackwater.transaction.commit.factory import begin, begin_table
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.commit_result import CommitResult
from slackwater.transaction.commit_validation import validate_not_append_only
from slackwater.transaction.definition import TableDefinition, define_table
from slackwater.transaction.rows.file_action_rows import as_removes

_log = logging.getLogger(__name__)
# A write is repeated from its rows on if a concurrent commit used the same identity values.
_MOST_REWRITES = 20


def write(
    table: str | os.PathLike[str] | PublicSnapshot,
    data: RowData,
    mode: str = ERROR,
    *,
    partition_by: str | Sequence[str] | None = None,
    schema_mode: str | None = None,
    predicate: str | Predicate | None = None,
    properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    user_metadata: str | None = None,
) -> CommitResult | None:
    """Write the rows of `data` to `table` in one commit, without Spark. Return None if there is nothing to do.

    `table` is a path, a URL, or a Snapshot (its newest version is written). `data` is a pyarrow Table, RecordBatch or
    RecordBatchReader, a pandas or Polars DataFrame, a Polars LazyFrame, a DuckDB relation, an iterable of
    RecordBatches, or an object with `__arrow_c_stream__`. Columns match by name in any case. Batches are written one
    after another, so that `data` may be larger than the memory.

    `mode`: `error` (the default) and `ignore` only create a table; `append`; `overwrite` replaces all rows, or with
    `predicate` (SQL text or a predicate) the rows that satisfy it, and then all new rows must satisfy it.
    `partition_by` names the partition columns of a new table. `schema_mode` `merge` adds new columns to the table,
    `overwrite` replaces the columns with mode `overwrite`. `properties` are those of a new table, ignored for an
    existing table. `storage_options` are those of `Snapshot.load`, `user_metadata` is a text for the history.

    Values are converted without loss, or are an error. The table is unchanged after an error, except perhaps after
    CommitUnknown.

    Raises:
        TableAlreadyExists: If the table exists and `mode` is `error`.
        InvalidArgument: If columns, types, partitioning or parameters do not fit.
        ValueDoesNotFit: If a value has no exact counterpart in the type of its column.
        InvariantViolationException: If a row breaks a rule of the table or the predicate.
        OperationNotAllowed: If the write replaces rows of an append-only table.
        UnsupportedFeature: If the table needs an unsupported feature, or has a rule that only Spark evaluates.
        DeltaConcurrentModificationException: If a concurrent commit conflicts; also its subclasses.
        CommitUnknown: If the outcome of the commit is unknown.

    >>> import pyarrow as pa
    >>> slackwater.write(path, pa.table({"id": [1, 2]}), mode="append").version
    0
    >>> slackwater.write(path, pa.table({"id": [2, 2]}), mode="overwrite", predicate="id = 2").version
    1
    >>> sorted(slackwater.Snapshot.load(path).to_arrow()["id"].to_pylist())
    [1, 2, 2]
    """
    request = write_request(mode, partition_by, schema_mode, predicate, properties, user_metadata)
    return write_rows(opened_table(table, storage_options), row_source(data), request)


def write_rows(
    table: Table, source: RowSource, request: WriteRequest, clock: Clock | None = None, now: Now | None = None
) -> CommitResult | None:
    """Write the rows of `source` to an opened table, like `write`. `now` returns the time for default values."""
    if not source.schema.names:
        raise InvalidArgument(
            f"{table.root_url}: the rows have no columns. Add at least one column", error_class="DELTA_EMPTY_DATA"
        )
    clock = clock or Clock()
    now = now or partial(_utc_now, clock)
    for attempt in range(1, _MOST_REWRITES + 1):
        snapshot = _newest(table)
        if snapshot is None:
            return _create(table, source, request, clock, now)
        if request.mode == ERROR:
            raise TableAlreadyExists(
                f"{table.root_url} is a Delta table already. Use mode append or overwrite, or another path",
                error_class="DELTA_PATH_EXISTS",
            )
        if request.mode == IGNORE:
            return None
        try:
            return _write_to(snapshot, source, request, clock, now)
        except MetadataChangedException as error:
            newest = _newest(table)
            only_identity = newest is not None and same_but_identity(snapshot.configuration, newest.configuration)
            if attempt == _MOST_REWRITES or not (only_identity and source.replayable):
                raise
            _log.info("%s: the rows are written again: %s", table.root_url, error)
    raise AssertionError("the loop above returns or raises")


def _utc_now(clock: Clock) -> dt.datetime:
    return dt.datetime.fromtimestamp(clock.now_ms() / 1000, dt.timezone.utc)


def _newest(table: Table) -> Snapshot | None:
    try:
        return Snapshot.open(table)
    except TableNotFound:
        return None


def _create(table: Table, source: RowSource, request: WriteRequest, clock: Clock, now: Now) -> CommitResult:
    if request.mode != OVERWRITE:
        require_no_plain_files(table.store)
    given = delta_schema(source.schema)
    definition = TableDefinition.of(given, request.partition_by or (), None, request.properties)
    defined = define_table(definition, clock.now_ms(), clock.new_id)
    transaction = begin_table(table, defined, clock=clock)
    writer = RowWriter(table, defined.configuration, {domain.domain: domain for domain in defined.domains})
    return _Write(transaction, writer, request, source, given, now).run()


def _write_to(snapshot: Snapshot, source: RowSource, request: WriteRequest, clock: Clock, now: Now) -> CommitResult:
    snapshot.configuration.require_writable(snapshot.table.root_url)
    if request.mode == OVERWRITE:
        validate_not_append_only(snapshot.configuration)
    given = delta_schema(source.schema)
    configuration = table_after(snapshot, given, request)
    transaction = begin(snapshot, configuration, clock)
    domains = dict(snapshot.domain_metadata)
    clustered = clustering_after(snapshot, configuration) if request.overwrites_schema else None
    if clustered is not None:
        domains[clustered.domain] = clustered
        transaction.set_domain(clustered)
    writer = RowWriter(snapshot.table, configuration, domains)
    return _Write(transaction, writer, request, source, given, now).run()


@dataclass
class _Write:
    """A write of `source`, whose columns are `given`, by `transaction`."""

    transaction: TableTransaction
    writer: RowWriter
    request: WriteRequest
    source: RowSource
    given: StructType
    now: Now

    def run(self) -> CommitResult:
        """Write and commit the rows. Deletes the files if the commit failed without effect."""
        parameters, user_metadata = self.request.parameters(), self.request.user_metadata
        return commit_rows(self.transaction, self.writer, self._staged, "WRITE", parameters, user_metadata)

    def _staged(self) -> dict[str, int]:
        """Write the files and stage their actions. Return the metrics for the table history."""
        snapshot, transaction, writer = self.transaction.read_snapshot, self.transaction, self.writer
        predicate = self._predicate()
        rows = self._prepared(predicate)
        matching = None
        if predicate is not None and snapshot is not None:
            matching = matching_rows(snapshot, predicate)
        records_inserts = matching is not None and matching.partial.num_rows > 0 and self._has_feed
        adds = writer.write(rows, INSERT if records_inserts else None)
        metrics = {
            "numFiles": len(adds),
            "numOutputBytes": sum(add.size for add in adds),
            "numOutputRows": sum(add.num_records or 0 for add in adds),
        }
        if self.request.mode == OVERWRITE and snapshot is not None:
            metrics |= self._remove(snapshot, matching)
        transaction.add(adds, fresh=True)
        if records_inserts:
            transaction.add_change_files(change_files(adds))
        if snapshot is not None and (metadata := writer.advanced(rows)) != snapshot.metadata:
            transaction.set_metadata(metadata)
        return metrics

    def _remove(self, snapshot: Snapshot, matching: MatchingRows | None) -> dict[str, int]:
        transaction = self.transaction
        removed: dict[str, int] = {}
        if matching is None:
            transaction.read_whole_table()
            transaction.remove(as_removes(snapshot.live_files(ADD_SCHEMA.names), transaction.clock.now_ms()))
        else:
            removed = remove_rows(transaction, self.writer, matching)
        again = {add.path for add in transaction.staged.adds}
        gone = [remove for remove in transaction.staged.removes if remove.path not in again]
        return {**removed, "numRemovedFiles": len(gone), "numRemovedBytes": sum(each.size or 0 for each in gone)}

    def _prepared(self, predicate: Predicate | None) -> PreparedRows:
        configuration = self.writer.configuration
        checks: list[RowCheck] = []
        if predicate is not None:
            text = condition_text(self.request.predicate or "")
            shows = read_names(text, configuration.schema)
            says = f"the predicate of the overwrite ({text})"
            checks = [predicate_check(says, predicate, configuration.schema, shows, "DELTA_REPLACE_WHERE_MISMATCH")]
        return prepare_rows(
            self.source,
            self.given,
            configuration.schema,
            row_rules(configuration),
            configuration.metadata.partition_columns,
            self.writer.table.root_url,
            self.now,
            checks,
        )

    def _predicate(self) -> Predicate | None:
        """Return the predicate of the replaced rows. Raises InvalidArgument if it cannot select rows."""
        given = self.request.predicate
        if given is None:
            return None
        snapshot = self.transaction.read_snapshot
        schema = self.writer.configuration.schema if snapshot is None else snapshot.schema
        return row_predicate(given, schema)

    @property
    def _has_feed(self) -> bool:
        return self.writer.configuration.is_active("changeDataFeed")
