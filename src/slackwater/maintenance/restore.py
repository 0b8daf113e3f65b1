"""RESTORE: the table becomes again what it was in an earlier version, by a commit like any other.

Files come back, and go, whole; nothing is copied. Source: delta-protocol.md "Add File and Remove File", "Domain
Metadata", "Identity Columns"; delta-spark's RESTORE (names of parameters and metrics).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import ConcurrentWriteException, InvalidArgument, TimestampOutOfRange, VersionNotFound
from slackwater.log.file_actions import ADD_SCHEMA, file_keys, one_array, total_size
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
from slackwater.protocol.properties.properties import (
    ENABLE_IN_COMMIT_TIMESTAMPS,
    MAX_COLUMN_ID,
)
from slackwater.protocol.schema.schema import schema_to_json
from slackwater.protocol.table_configuration import TableConfiguration
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.clock import Clock
from slackwater.transaction.commit_validation import validate_not_append_only
from slackwater.transaction.conflicts.running_vacuum import require_no_vacuum
from slackwater.transaction.factory import begin
from slackwater.transaction.transaction import TableTransaction

OPERATION = "RESTORE"
_MOST_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """What a RESTORE did, by delta-spark's names: numbers of files, sizes in bytes."""

    table_size_after_restore: int
    num_of_files_after_restore: int
    num_removed_files: int
    num_restored_files: int
    removed_files_size: int
    restored_files_size: int

    def metrics(self) -> dict[str, str]:
        """The same as operation metrics."""
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
        """The fields by their names."""
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
    """Make `table` what it was in `version`, or at `timestamp` (as `Snapshot.load` takes it): rows, schema, settings.

    A time after the last commit is the newest version. `said` is the timestamp as the history is to tell it.
    Its owner, its in-commit timestamps and how far identity columns and row ids have come stay; a protocol is never
    weakened. Raises DataFileNotFound where files of then are gone, unless `ignore_missing_files`; VersionNotFound,
    TimestampOutOfRange, InvalidArgument for neither or both, OperationNotAllowed for an append-only table; the table is
    unchanged then. What others commit meanwhile is restored over as well: after a number of attempts that they win,
    ConcurrentWriteException, and at once where files are to come back while a VACUUM deletes some.
    """
    if (version is None) == (timestamp is None):
        raise InvalidArgument(
            "name what to restore: a version or a timestamp, and not both", error_class="DELTA_ONEOF_IN_TIMETRAVEL"
        )
    clock = clock or Clock()
    # What a time after the last commit means stays what it was.
    then = _asked(table, version, timestamp)
    parameters = {"version": str(then.version)}
    if said or timestamp is not None:
        parameters["timestamp"] = said or _text(timestamp)
    for attempt in range(1, _MOST_ATTEMPTS + 1):
        transaction, result = _staged(Snapshot.open(table), then, ignore_missing_files, clock)
        try:
            transaction.commit(OPERATION, parameters, result.metrics(), user_metadata, user_name=user_name)
        except ConcurrentWriteException:
            # A transaction over many tables sees no other writer.
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
    """The table as it was `then`; what only ever goes forward comes from `now`."""
    past = without_owner(then)
    protocol = _raised(now.protocol, past)
    return TableConfiguration(protocol, _restored_metadata(now, past))


def restored_domains(now: Mapping[str, DomainMetadata], then: Mapping[str, DomainMetadata]) -> list[DomainMetadata]:
    """The actions that make the metadata domains what they were; row ids go on from where they are."""
    back = [domain for name, domain in then.items() if name != row_tracking.DOMAIN and now.get(name) != domain]
    gone = [domain for name, domain in now.items() if name not in then and name != row_tracking.DOMAIN]
    return [*back, *filter(None, map(without_domain, gone))]


def _difference(newest: Snapshot, then: Snapshot) -> tuple[pa.Table, pa.Table]:
    """The live files that go, and those that come back, all columns of ADD_SCHEMA."""
    now_files, then_files = newest.files(columns=ADD_SCHEMA.names), then.files(columns=ADD_SCHEMA.names)
    now_keys, then_keys = one_array(file_keys(now_files)), one_array(file_keys(then_files))
    gone = now_files.filter(pc.invert(pc.is_in(now_keys, value_set=then_keys)))
    back = then_files.filter(pc.invert(pc.is_in(then_keys, value_set=now_keys)))
    return gone, back


def _raised(protocol: Protocol, past: TableConfiguration) -> Protocol:
    """`protocol` with what the table's files and settings of then need as well."""
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
    """Identity columns go on from where they are: a value that was given out is not given out again.

    A column that was renamed since is known by what it is called in files.
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
