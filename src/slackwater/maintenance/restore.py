"""RESTORE: returns the table to an earlier version, in an ordinary commit.

Whole files are re-added and removed. Nothing is copied. Source: delta-protocol.md "Add File and Remove File", "Domain
Metadata", "Identity Columns"; delta-spark's RESTORE (names of parameters and metrics).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import ConcurrentWriteException, InvalidArgument, TimestampOutOfRange, VersionNotFound
from slackwater.log.files.file_actions import ADD_SCHEMA, file_keys, one_array, total_size
from slackwater.log.history import to_ms
from slackwater.log.table import Table
from slackwater.maintenance.file_presence import require_present
from slackwater.protocol.actions.actions import DomainMetadata, Metadata, Protocol
from slackwater.protocol.features import row_tracking
from slackwater.protocol.features.clustering import without_domain
from slackwater.protocol.features.column_mapping import physical_name
from slackwater.protocol.features.identity_columns import (
    identity_column,
    identity_columns,
    with_marks_after,
)
from slackwater.protocol.features.managed_commits import kept_properties, without_owner
from slackwater.protocol.features.protocol_upgrade import with_features, with_versions
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import (
    ENABLE_IN_COMMIT_TIMESTAMPS,
    MAX_COLUMN_ID,
)
from slackwater.protocol.schema.schema import schema_to_json
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.clock import Clock
from slackwater.transaction.commit.factory import begin
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.commit_validation import validate_not_append_only
from slackwater.transaction.running_vacuum import require_no_vacuum

OPERATION = "RESTORE"
_MOST_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """The result of a RESTORE, with delta-spark's names: numbers of files and sizes in bytes."""

    table_size_after_restore: int
    num_of_files_after_restore: int
    num_removed_files: int
    num_restored_files: int
    removed_files_size: int
    restored_files_size: int

    def metrics(self) -> dict[str, str]:
        """Return the result as operation metrics."""
        names = {
            "numRestoredFiles": self.num_restored_files,
            "removedFilesSize": self.removed_files_size,
            "numRemovedFiles": self.num_removed_files,
            "restoredFilesSize": self.restored_files_size,
            "numOfFilesAfterRestore": self.num_of_files_after_restore,
            "tableSizeAfterRestore": self.table_size_after_restore,
        }
        return {name: str(value) for name, value in names.items()}

    def to_dict(self) -> dict[str, int]:
        """Return the fields by name."""
        return asdict(self)


def restore(
    table: Table,
    version: int | None = None,
    timestamp: dt.datetime | dt.date | str | int | None = None,
    ignore_missing_files: bool = False,
    user_metadata: str | None = None,
    clock: Clock | None = None,
    said: str | None = None,
    user_name: str | None = None,
) -> RestoreResult:
    """Restore rows, schema and settings of `table` from `version` or `timestamp` (see `Snapshot.load`).

    A time after the last commit means the newest version. The history records `said` instead of `timestamp`, if set.
    The owner, in-commit timestamps and high-water marks of identity columns and row ids stay. The protocol is never
    weakened. Concurrent commits of other writers are undone too: RESTORE retries on the newest version. RESTORE changes
    nothing before an error.

    Raises:
        DataFileNotFound: If re-added files are missing, unless `ignore_missing_files`.
        VersionNotFound: If the log does not contain the version.
        TimestampOutOfRange: If the log starts after the time.
        InvalidArgument: If neither or both of `version` and `timestamp` are set.
        OperationNotAllowed: If the table is append-only and files would be removed.
        ConcurrentWriteException: If other writers won every attempt. Also immediately if a VACUUM is running and files
            are re-added, unless `ignore_missing_files`.
    """
    if (version is None) == (timestamp is None):
        raise InvalidArgument(
            "restore needs a version or a timestamp, and not both", error_class="DELTA_ONEOF_IN_TIMETRAVEL"
        )
    clock = clock or Clock()
    # Resolve the time once, so that later attempts restore the same version.
    then = _asked(table, version, timestamp)
    parameters = {"version": str(then.version)}
    if said or timestamp is not None:
        parameters["timestamp"] = said or _text(timestamp)
    for attempt in range(1, _MOST_ATTEMPTS + 1):
        transaction, result = _staged(Snapshot.open(table), then, ignore_missing_files, clock)
        try:
            transaction.commit(OPERATION, parameters, result.metrics(), user_metadata, user_name=user_name)
        except ConcurrentWriteException:
            # A multi-table transaction has no winning commits here, so it never retries.
            if attempt == _MOST_ATTEMPTS:
                raise
            continue
        return result
    raise AssertionError


def _asked(table: Table, version: int | None, timestamp: dt.datetime | dt.date | str | int | None) -> Snapshot:
    try:
        return Snapshot.open(table, version, timestamp, allow_after_last_commit=True)
    except VersionNotFound as error:
        error.error_class = "DELTA_CANNOT_RESTORE_TABLE_VERSION"
        raise
    except TimestampOutOfRange as error:
        error.error_class = "DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER"
        raise


def _staged(
    newest: Snapshot, then: Snapshot, ignore_missing_files: bool, clock: Clock
) -> tuple[TableTransaction, RestoreResult]:
    gone, back = _difference(newest, then)
    if gone.num_rows:
        validate_not_append_only(newest.configuration)
    if back.num_rows and not ignore_missing_files:
        require_no_vacuum(newest, clock.now_ms(), f"restoring version {then.version}")
        require_present(newest.table, back, f"restoring version {then.version}")
    transaction = begin(newest, clock=clock)
    transaction.read_whole_table()
    transaction.exchange(back, gone)
    configuration = restored_configuration(newest.configuration, then.configuration)
    if configuration.metadata != newest.metadata:
        transaction.set_metadata(configuration.metadata)
    if configuration.protocol != newest.protocol:
        transaction.set_protocol(configuration.protocol)
    for domain in restored_domains(newest.domain_metadata, then.domain_metadata):
        transaction.set_domain(domain)
    return transaction, _result(then, gone, back)


def restored_configuration(now: TableConfiguration, then: TableConfiguration) -> TableConfiguration:
    """Return the configuration of `then`. Values that never decrease come from `now`."""
    past = without_owner(then)
    protocol = _raised(now.protocol, past)
    return TableConfiguration(protocol, _restored_metadata(now, past))


def restored_domains(now: Mapping[str, DomainMetadata], then: Mapping[str, DomainMetadata]) -> list[DomainMetadata]:
    """Return the actions that restore the metadata domains. The row id high-water mark stays."""
    back = [domain for name, domain in then.items() if name != row_tracking.DOMAIN and now.get(name) != domain]
    gone = [domain for name, domain in now.items() if name not in then and name != row_tracking.DOMAIN]
    return [*back, *filter(None, map(without_domain, gone))]


def _difference(newest: Snapshot, then: Snapshot) -> tuple[pa.Table, pa.Table]:
    """Return the live files to remove and the files to re-add, with all columns of ADD_SCHEMA."""
    now_files, then_files = newest.files(columns=ADD_SCHEMA.names), then.files(columns=ADD_SCHEMA.names)
    now_keys, then_keys = one_array(file_keys(now_files)), one_array(file_keys(then_files))
    gone = now_files.filter(pc.invert(pc.is_in(now_keys, value_set=then_keys)))
    back = then_files.filter(pc.invert(pc.is_in(then_keys, value_set=now_keys)))
    return gone, back


def _raised(protocol: Protocol, past: TableConfiguration) -> Protocol:
    """Return `protocol` with the versions and features of the earlier version."""
    versions = with_versions(protocol, past.protocol.min_reader_version, past.protocol.min_writer_version)
    raised = with_features(versions, past.supported_features)
    return protocol if raised == protocol else raised


def _restored_metadata(now: TableConfiguration, past: TableConfiguration) -> Metadata:
    of_time = ENABLE_IN_COMMIT_TIMESTAMPS.lower()
    kept = kept_properties(now.metadata.configuration) | {
        key: value for key, value in now.metadata.configuration.items() if key.lower() == of_time
    }
    stale = kept_properties(past.metadata.configuration)
    configuration = {
        key: value for key, value in past.metadata.configuration.items() if key not in stale and key.lower() != of_time
    } | kept
    for key in row_tracking.NAME_KEYS:
        name = now.properties.get(key)
        if name is not None:
            configuration[key] = name
    highest = max(int(table.properties.get(MAX_COLUMN_ID) or 0) for table in (now, past))
    if highest and MAX_COLUMN_ID in past.properties:
        configuration[MAX_COLUMN_ID] = str(highest)
    metadata = replace(past.metadata, id=now.metadata.id, created_time=now.metadata.created_time)
    if configuration != dict(past.metadata.configuration):
        metadata = replace(metadata, configuration=configuration)
    return _with_marks(metadata, now, past)


def _with_marks(metadata: Metadata, now: TableConfiguration, past: TableConfiguration) -> Metadata:
    """Retain high-water marks of identity columns, so that generated values are not generated again.

    A renamed column is identified by its physical name.
    """
    marks = {
        physical_name(column, now.column_mapping_mode): identity.high_water_mark
        for column in now.schema
        if (identity := identity_column(column)) is not None and identity.high_water_mark is not None
    }
    generated = {column.name: physical_name(column, past.column_mapping_mode) for column in past.schema}
    kept = {
        identity.name: marks[generated[identity.name]]
        for identity in identity_columns(past.schema)
        if generated[identity.name] in marks
    }
    schema = with_marks_after(past.schema, kept)
    return metadata if schema == past.schema else replace(metadata, schema_string=schema_to_json(schema))


def _result(then: Snapshot, gone: pa.Table, back: pa.Table) -> RestoreResult:
    files = then.live_files(["size"])
    return RestoreResult(
        total_size(files), files.num_rows, gone.num_rows, back.num_rows, total_size(gone), total_size(back)
    )


def _text(timestamp: dt.datetime | dt.date | str | int | None) -> str:
    if timestamp is None:
        return ""
    return timestamp if isinstance(timestamp, str) else str(to_ms(timestamp))
