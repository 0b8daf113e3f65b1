"""Attempt to write rows to an existing table: its new configuration, the files, the commit.

Source: delta-spark's WriteIntoDelta; docs/architecture.md "The life of a write".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from slackwater.errors import CommitUnknown, InvalidArgument, SlackwaterError
from slackwater.protocol.actions.actions import DomainMetadata, Metadata
from slackwater.protocol.actions.files import AddCDCFile, AddFile, num_records_of
from slackwater.protocol.features import clustering
from slackwater.protocol.features.protocol_upgrade import with_features, with_required_features
from slackwater.protocol.features.sql_columns import read_columns
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.features.write_expressions import row_rules
from slackwater.protocol.properties.properties import ENABLE_CHANGE_DATA_FEED, OPTIMIZE_WRITE
from slackwater.protocol.schema.column_paths import format_column_path, parse_column_path
from slackwater.protocol.schema.schema import ColumnPath, as_nullable
from slackwater.protocol.schema_changes.alter_column import widened_for
from slackwater.protocol.schema_changes.column_names import validate_partition_columns
from slackwater.protocol.schema_changes.merge_schema import without_internal_metadata
from slackwater.protocol.schema_changes.replace_schema import replace_schema
from slackwater.scan.row_count import live_row_counts, total
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.session.settings import SessionSettings, session_zone
from slackwater.spark.session.temporary_settings import with_settings
from slackwater.spark.session.types import from_spark_schema, to_spark_schema
from slackwater.spark.write.operation_info import described
from slackwater.spark.write.options import WriteOptions
from slackwater.spark.write.overwrite_scope import (
    condition_check,
    partitions_of,
    require_partition_condition,
    rows_where,
    whole_table,
)
from slackwater.spark.write.store_assignment import stored_columns
from slackwater.spark.write.table_writer import TableWriter, WriteResult
from slackwater.sql.lexer import quoted
from slackwater.transaction.clock import Clock
from slackwater.transaction.commit.factory import begin
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.commit_result import CommitResult
from slackwater.transaction.commit_validation import validate_not_append_only
from slackwater.transaction.definition import clustering_domain, with_nested_ids
from slackwater.transaction.rows.file_action_rows import as_removes
from slackwater.transaction.table.alteration import clustering_columns
from slackwater.transaction.table.schema_evolution import evolved_table

_CLOCK = Clock()
# How much of the rows in the shuffle becomes one file.
_BIN_BYTES = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
OPTIMIZED = "slackwater.optimizedWrite"
"""The tag by which a commit says that its rows were dealt anew, so that its files are fewer and alike large."""


class WriteAttempt:
    """An attempt to append to a table, or to overwrite it, based on `snapshot`."""

    def __init__(self, frame: DataFrame, snapshot: Snapshot, request: WriteOptions, settings: SessionSettings) -> None:
        snapshot.configuration.require_writable(snapshot.table.root_url)
        self._frame = frame
        self._spark = frame.sparkSession
        self._snapshot = snapshot
        self._request = request
        self._settings = settings
        self._zone = session_zone(self._spark)
        self._given = without_internal_metadata(from_spark_schema(frame.schema))
        table = self._evolved()
        self._clustering = self._clustered(table)
        domains = dict(snapshot.domain_metadata)
        if self._clustering is not None:
            table = table.changed(with_features(table.protocol, ["clustering"]))
            domains[clustering.DOMAIN] = self._clustering
        self._rows = TableWriter(snapshot.table, table, domains, request.rows)
        self._transaction = begin(snapshot, table, zone=self._zone)

    @property
    def configuration(self) -> TableConfiguration:
        """The table's configuration after this write."""
        return self._rows.configuration

    def run(self) -> CommitResult:
        """Write the files and commit them. Deletes the files if the commit failed without effect."""
        request, transaction = self._request, self._transaction
        if request.application is not None:
            transaction.application_version(request.application.app_id)
        self.validate_mode()
        written: list[WriteResult] = []
        try:
            counts = self._write(written)
            if request.mode == "overwrite" and not request.data_change:
                self._require_same_rows([add for rows in written for add in rows.adds])
        except BaseException:
            for rows in written:
                rows.files.discard()
            raise
        metadata = next((rows.metadata for rows in written if rows.metadata is not None), self._rows.metadata)
        if metadata != self._snapshot.metadata:
            transaction.set_metadata(metadata)
        if self._clustering is not None:
            if self._rows.configuration.protocol != self._snapshot.protocol:
                transaction.set_protocol(self._rows.configuration.protocol)
            transaction.set_domain(self._clustering)
        return commit_rows(transaction, request, written, self._rows.metadata, counts)

    def validate_mode(self) -> None:
        """Raise OperationNotAllowed if the write replaces rows of an append-only table."""
        if self._request.mode == "overwrite" and self._request.data_change:
            validate_not_append_only(self._rows.configuration)

    def _write(self, written: list[WriteResult]) -> Mapping[str, int]:
        """Write the files and stage their actions.

        Appends each result to `written` immediately, for cleanup after an error.

        Returns the row metrics of `replaceWhere` for the table history, empty for other writes.
        """
        request, transaction, rows = self._request, self._transaction, self._rows
        checks, replaced, change_type = [], None, None
        copied = 0
        if request.replace_where is not None:
            replaced = rows_where(self._spark, self._snapshot, request.replace_where, request.rows)
            if not request.replaces_where_data_columns:
                require_partition_condition(self._snapshot, request.replace_where)
            shown = tuple(dict.fromkeys(p[0] for p in sorted(read_columns(request.replace_where, rows.schema))))
            checks = [condition_check(request.replace_where, shown)] if request.check_replace_where else []
            if replaced.deleted is not None and rows.properties.flag(ENABLE_CHANGE_DATA_FEED):
                change_type = "insert"
        written.append(write_rows(rows, self._frame, request, self._settings, checks, change_type))
        if request.mode != "overwrite":
            return {}
        if replaced is None and request.dynamic_partitions and rows.metadata.partition_columns:
            replaced = partitions_of(self._snapshot, written[0].adds, self._zone)
        replaced = replaced or whole_table(self._snapshot)
        transaction.read_where(replaced.predicate)
        transaction.remove(as_removes(replaced.files, _CLOCK.now_ms(), request.data_change))
        if replaced.survivors is not None:
            survivors, kept = rows.with_kept_ids(replaced.survivors)
            stayed = rows.rewrite(survivors, request.parquet, request.data_change, kept)
            written.append(stayed)
            copied = stayed.num_rows
        if replaced.deleted is not None and change_type is not None:
            changes = rows.write_changes(replaced.deleted, "delete", request.parquet)
            written.append(changes)
            inserted = [AddCDCFile(a.path, a.partition_values, a.size) for a in written[0].adds]
            transaction.add_change_files([*inserted, *changes.change_files])
        if request.replace_where is None:
            return {}
        held = total(live_row_counts(replaced.files).values())
        deleted = {} if held is None else {"numDeletedRows": held - copied}
        return {**deleted, "numCopiedRows": copied, "numAddedChangeFiles": len(transaction.staged.change_files)}

    def _evolved(self) -> TableConfiguration:
        """Return the table's configuration after this write, with the features required by its metadata."""
        request, snapshot, old = self._request, self._snapshot, self._snapshot.metadata
        if request.overwrite_schema:
            schema = as_nullable(self._given)
            columns = validate_partition_columns(schema, request.partition_by)
            same = str(schema) == str(snapshot.schema) and columns == old.partition_columns
            table = snapshot.configuration
            return with_required_features(table if same else with_nested_ids(replace_schema(table, schema, columns)))
        if request.partition_by and not _same_names(request.partition_by, old.partition_columns):
            raise InvalidArgument(
                f"{snapshot.store.root_url} is partitioned by {list(old.partition_columns)}, not by "
                f"{list(request.partition_by)}. Leave partitionBy out, or replace the table with mode overwrite and "
                "overwriteSchema",
                error_class="DELTA_METADATA_MISMATCH",
            )
        table = evolved_table(snapshot, self._given, request.merge_schema)
        self._require_partition_columns()
        return table

    def _clustered(self, table: TableConfiguration) -> DomainMetadata | None:
        """Return the domain of the clustering columns of `table` after this write, None if unchanged."""
        request, snapshot = self._request, self._snapshot
        old = snapshot.domain_metadata.get(clustering.DOMAIN)
        current = clustering_columns(snapshot)
        given = clustering.resolve(table.schema, [parse_column_path(name) for name in request.cluster_by])
        if not request.overwrite_schema:
            if given and given != current:
                raise InvalidArgument(
                    f"{snapshot.store.root_url} is clustered by {list(map(format_column_path, current))}, not by "
                    f"{list(map(format_column_path, given))}. Leave clusterBy out, change the columns with "
                    "DeltaTable.clusterBy, or replace the table with mode overwrite and overwriteSchema",
                    error_class="DELTA_CLUSTERING_COLUMNS_MISMATCH",
                )
            return None
        new = _clustering_domain(table, given or current, bool(given))
        if new is None:
            return None if old is None else clustering.without_domain(old)
        return None if old is not None and new.configuration == old.configuration else new

    def _require_partition_columns(self) -> None:
        """Raise InvalidArgument if the data lacks a partition column that the table neither generates nor has a default
        for.
        """
        missing = [name for name in self._snapshot.metadata.partition_columns if self._given.get(name) is None]
        if not missing:
            return
        rules = row_rules(self._snapshot.configuration)
        made = {*(c.name for c in rules.generated), *(c.name for c in rules.defaults)}
        for name in missing:
            if name not in made:
                raise InvalidArgument(
                    f"{self._snapshot.store.root_url}: the data has no partition column {name}. Add the column, with "
                    "null values if intended",
                    error_class="DELTA_MISSING_PARTITION_COLUMN",
                )

    def _require_same_rows(self, adds: Sequence[AddFile]) -> None:
        """Raise InvalidArgument if a rearranging write (`dataChange` false) changes the number of rows."""
        removes = self._transaction.staged.removes
        before = [num_records_of(r.stats) for r in removes]
        deleted = sum(r.deletion_vector.cardinality for r in removes if r.deletion_vector)
        after = sum(add.num_records or 0 for add in adds)
        known = [count for count in before if count is not None]
        if len(known) < len(before) or sum(known) - deleted != after:
            raise InvalidArgument(
                f"{self._snapshot.store.root_url}: dataChange=false must not change rows, but the write replaces "
                f"{sum(known) - deleted} rows by {after}. Leave the option out if rows change"
            )


def _clustering_domain(
    table: TableConfiguration, columns: Sequence[ColumnPath], required: bool
) -> DomainMetadata | None:
    """Return the clustering domain for `columns` of `table`.

    None without columns. If `columns` cannot be clustered, None unless `required`, else raises InvalidArgument.
    """
    if not columns:
        return None
    try:
        return clustering_domain(table.metadata, table.schema, columns, table.column_mapping_mode)
    except InvalidArgument:
        if required:
            raise
        return None


def assigned_rows(frame: DataFrame, snapshot: Snapshot, request: WriteOptions) -> DataFrame:
    """Return the rows, cast to the types of the table if the write uses store assignment."""
    if not request.casts:
        return frame
    table = snapshot.configuration
    if request.merge_schema:
        table = widened_for(table, from_spark_schema(frame.schema))
    return stored_columns(frame, to_spark_schema(table.schema))


def write_rows(
    rows: TableWriter, frame: DataFrame, request: WriteOptions, settings: SessionSettings, *checks: Any
) -> WriteResult:
    """Write new rows. An optimized write repartitions the rows first, for fewer files of similar size."""
    wanted = request.optimizes_write if request.optimizes_write is not None else settings.optimizes_write
    if wanted is None:
        wanted = rows.properties.flag(OPTIMIZE_WRITE)
    if not wanted:
        return rows.write(frame, request.parquet, request.data_change, *checks)
    given = {name.lower() for name in frame.columns}
    by = [F.col(quoted(name)) for name in rows.metadata.partition_columns if name.lower() in given]
    with with_settings(frame.sparkSession, {_BIN_BYTES: str(settings.optimize_write_bin_bytes)}):
        written = rows.write(frame.hint("rebalance", *by), request.parquet, request.data_change, *checks)
    return replace(written, is_optimized=True)


def commit_rows(
    transaction: TableTransaction,
    request: WriteOptions,
    written: Sequence[WriteResult],
    metadata: Metadata,
    counts_of_where: Mapping[str, int] = MappingProxyType({}),
) -> CommitResult:
    """Commit the files. Deletes the files if the commit failed without effect.

    `metadata` and `counts_of_where` are the parameters of `described`.
    """
    for rows in written:
        transaction.add(rows.adds, fresh=True)
    adds, removes = transaction.staged.adds, transaction.staged.removes
    if request.application is not None:
        transaction.set_transaction(request.application.app_id, request.application.version)
    said = described(request, metadata, adds, removes, transaction.read_snapshot is None, counts_of_where)
    tags = {OPTIMIZED: "true"} if any(rows.is_optimized for rows in written) else None
    try:
        return transaction.commit(
            said.operation, said.parameters, said.metrics, request.user_metadata, tags, user_name=request.user_name
        )
    except CommitUnknown:
        raise
    except SlackwaterError:
        for rows in written:
            rows.files.discard()
        raise


def _same_names(given: Sequence[str], columns: Sequence[str]) -> bool:
    return [name.lower() for name in given] == [name.lower() for name in columns]
