"""Validation before a commit attempt: rules of the table, and requirements of staged changes.

Source: delta-protocol.md "Requirements for Writers", "Table Features", and the writer requirements of each feature.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import CorruptTable, InvalidArgument, OperationNotAllowed
from slackwater.log.checkpoint_protection import with_own_boundary
from slackwater.log.files.file_actions import file_keys, one_array
from slackwater.log.files.plain_arrays import text_array
from slackwater.protocol.actions.actions import Metadata
from slackwater.protocol.actions.files import AddCDCFile, AddFile, RemoveFile
from slackwater.protocol.actions.partition_values import parse_partition_column
from slackwater.protocol.actions.paths import canonical_path, canonical_paths
from slackwater.protocol.features import iceberg_compat, managed_commits, row_tracking
from slackwater.protocol.features.column_mapping import NONE, physical_schema
from slackwater.protocol.features.column_mapping_ids import with_usage_tracking
from slackwater.protocol.features.protocol_upgrade import validate_feature_combination, with_required_features
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import (
    APPEND_ONLY,
    COLUMN_MAPPING_MODE,
    ENABLE_CHANGE_DATA_FEED,
    ENABLE_DELETION_VECTORS,
)
from slackwater.scan.snapshot import Snapshot
from slackwater.stats.file_stats import record_counts
from slackwater.transaction.clock import Clock
from slackwater.transaction.staged import StagedActions


def prepare(staged: StagedActions, before: Snapshot | None, clock: Clock) -> None:
    """Validate `staged`, and add the features of new metadata and the row ids of re-added files.

    Raises:
        UnsupportedFeature: If the table needs a feature or a format that this package cannot write.
        OperationNotAllowed: If the table does not permit a staged action.
        InvalidArgument: If staged actions are wrong or contradict each other.
    """
    where = before.store.root_url if before else "the new table"
    if before is not None:
        before.configuration.require_writable(where)
    staged.validate_single_entry()
    _complete_metadata(staged, before, clock)
    table = _table_after(staged, before)
    _validate_exchange(staged, table, before, clock)
    table.require_writable(where)
    _ = table.schema  # parsing reports an invalid schema first
    _validate_domains(staged, table)
    _validate_table(staged, table, before)
    if staged.has_file_actions:
        _validate_files(staged, table, before)


def _validate_exchange(staged: StagedActions, table: TableConfiguration, before: Snapshot | None, clock: Clock) -> None:
    """Convert bulk files to single actions unless the commit can use the bulk actions unchanged."""
    others = staged.adds or staged.removes or staged.change_files
    if staged.stream is not None and (others or before is not None or not staged.stream.is_plain(table)):
        staged.hold(clock.now_ms())
    if staged.exchange is None:
        return
    if others or not staged.exchange.is_plain(table, before):
        staged.unpack(clock.now_ms())
        staged.validate_single_entry()


def validate_not_append_only(table: TableConfiguration) -> None:
    """Raise OperationNotAllowed if the table is append-only.

    Source: delta-protocol.md "Append-only Tables".
    """
    if table.is_active("appendOnly"):
        raise OperationNotAllowed(
            f"the table is append-only ({APPEND_ONLY} is true), so rows cannot be removed or changed. If that is "
            "intended, set the property to false first",
            error_class="DELTA_CANNOT_MODIFY_APPEND_ONLY",
        )


def validate_vectors_enabled(table: TableConfiguration, path: str) -> None:
    """Raise OperationNotAllowed if the table does not permit new deletion vectors. `path` is for the message.

    Source: delta-protocol.md "Writer Requirement for Deletion Vectors".
    """
    if not table.supports("deletionVectors"):
        raise OperationNotAllowed(
            f"{path}: the table does not support deletion vectors",
            error_class="DELTA_ADDING_DELETION_VECTORS_DISALLOWED",
        )
    if not table.properties.flag(ENABLE_DELETION_VECTORS):
        raise OperationNotAllowed(
            f"{path}: new deletion vectors need {ENABLE_DELETION_VECTORS} to be true",
            error_class="DELTA_ADDING_DELETION_VECTORS_DISALLOWED",
        )


def _table_after(staged: StagedActions, before: Snapshot | None) -> TableConfiguration:
    return staged.table_after(None if before is None else before.configuration)


def _complete_metadata(staged: StagedActions, before: Snapshot | None, clock: Clock) -> None:
    if staged.metadata is None and staged.protocol is None:
        return
    table = with_required_features(_table_after(staged, before))
    if before is None or table.protocol != before.protocol:
        staged.protocol = table.protocol
    earlier = None if before is None else before.configuration
    for complete in (with_usage_tracking, with_own_boundary):
        metadata = complete(earlier, table)
        if metadata != table.metadata:
            staged.metadata, table = metadata, table.changed(metadata=metadata)
    if row_tracking.is_enabled(table):
        staged.metadata = _with_row_id_columns(table, clock)
        if before is not None and not row_tracking.is_enabled(before.configuration):
            # The commit re-adds files without row ids.
            staged.restates = True


def _with_row_id_columns(table: TableConfiguration, clock: Clock) -> Metadata:
    """Return the metadata with names of the materialized row id columns. Existing names are retained."""
    metadata = table.metadata
    named = row_tracking.materialized_names(table.properties, _all_names(table), clock.new_id)
    configuration = {**metadata.configuration, **named}
    return metadata if configuration == dict(metadata.configuration) else replace(metadata, configuration=configuration)


def _validate_domains(staged: StagedActions, table: TableConfiguration) -> None:
    if staged.domains and not table.supports("domainMetadata"):
        raise OperationNotAllowed(
            f"the metadata domain {min(staged.domains)} needs the table feature domainMetadata. Add it with "
            "addFeatureSupport('domainMetadata')",
            error_class="DELTA_DOMAIN_METADATA_NOT_SUPPORTED",
        )


def _validate_table(staged: StagedActions, table: TableConfiguration, before: Snapshot | None) -> None:
    if staged.metadata is None and staged.protocol is None:
        return
    _validate_owner(staged, table, before)
    validate_feature_combination(table)
    previous = before.configuration if before else None
    iceberg_compat.validate_iceberg_compat(table, previous, _keeps_files(staged, before))
    _validate_earlier_stats(staged, table, before)
    row_tracking.validate_column_names(table.properties, _all_names(table))


def _validate_owner(staged: StagedActions, table: TableConfiguration, before: Snapshot | None) -> None:
    """Validate the ownership properties of the new table.

    Only calls of the commit owner change the owner. Raises InvalidArgument for any other change of the owner,
    OperationNotAllowed if the new ownership properties are invalid.
    """
    where = before.store.root_url if before else "the new table"
    if not staged.changes_owner:
        managed_commits.validate_same_owner(before.configuration if before else None, table)
    try:
        managed_commits.ownership(table, where)
    except CorruptTable as error:
        raise OperationNotAllowed(
            f"the change would leave the table in an invalid state: {error}", error_class=error.error_class
        ) from error


def _validate_earlier_stats(staged: StagedActions, table: TableConfiguration, before: Snapshot | None) -> None:
    """Raise InvalidArgument if Iceberg compatibility is enabled and an unchanged file lacks its number of records."""
    version = iceberg_compat.active_version(table)
    if before is None or version is None or version == iceberg_compat.active_version(before.configuration):
        return
    files = before.live_files(["path", "stats", "stats_parsed.numRecords"])
    silent = files.filter(pc.is_null(record_counts(files)))["path"].to_pylist()
    spoken_of: list[AddFile | RemoveFile] = [*staged.removes, *staged.adds]
    gone = {canonical_path(action.path) for action in spoken_of}
    kept = [path for path in silent if canonical_path(path) not in gone]
    if kept:
        raise InvalidArgument(
            f"{before.store.root_url}: Iceberg compatibility needs numRecords in the stats of every file, but "
            f"{len(kept)} files of the table have none, the first is {kept[0]}. Write their rows again first",
            error_class="DELTA_ICEBERG_COMPAT_VIOLATION",
        )


def _keeps_files(staged: StagedActions, before: Snapshot | None) -> bool:
    """Return whether files of the version before are still live after the commit."""
    return before is not None and before.live_files(["path"]).num_rows > staged.num_removed_files


def _all_names(table: TableConfiguration) -> set[str]:
    """Return the logical and the physical names of the top-level columns."""
    mode = table.properties.get(COLUMN_MAPPING_MODE, NONE).lower()
    return {*table.schema.names, *physical_schema(table.schema, mode).names}


def _validate_files(staged: StagedActions, table: TableConfiguration, before: Snapshot | None) -> None:
    if any(remove.data_change for remove in staged.removes):
        validate_not_append_only(table)
    if staged.change_files and not table.is_active("changeDataFeed"):
        raise OperationNotAllowed(f"change data files need {ENABLE_CHANGE_DATA_FEED} to be true")
    _validate_partition_values(staged, table)
    _validate_deletion_vectors(staged, table)
    compat = iceberg_compat.active_version(table)
    if compat or row_tracking.is_supported(table):
        _require_num_records(staged.adds, "Iceberg compatibility" if compat else "row tracking")
    if before is not None:
        _validate_removes(staged, before)
        _validate_one_add_per_path(staged, before)
    elif staged.removes:
        raise InvalidArgument("a new table has no files to remove")
    if before is not None and row_tracking.is_supported(table) and not staged.fresh_adds:
        _keep_row_ids(staged, before)


def _validate_partition_values(staged: StagedActions, table: TableConfiguration) -> None:
    named = zip(table.schema.names, physical_schema(table.schema, table.column_mapping_mode), strict=True)
    physical = dict(named)
    columns = {physical[name].name: physical[name].type for name in table.metadata.partition_columns}
    files: list[AddFile | AddCDCFile] = [*staged.adds, *staged.change_files]
    wrong = next((f for f in files if set(f.partition_values) != set(columns)), None)
    if wrong is not None:
        raise InvalidArgument(
            f"{wrong.path}: a file must have a value for each of the partition columns {sorted(columns)}, found "
            f"{dict(wrong.partition_values)}",
            error_class="DELTA_INVALID_PARTITIONING_SCHEMA",
        )
    for name, data_type in columns.items():
        # Parsing reports an invalid value. Every distinct text is parsed once.
        parse_partition_column(text_array([f.partition_values[name] for f in files]), data_type)


def _validate_deletion_vectors(staged: StagedActions, table: TableConfiguration) -> None:
    with_vector = [add for add in staged.adds if add.deletion_vector is not None]
    if not with_vector:
        return
    if not table.supports("deletionVectors"):
        raise OperationNotAllowed(
            f"{with_vector[0].path}: the table does not support deletion vectors",
            error_class="DELTA_ADDING_DELETION_VECTORS_DISALLOWED",
        )
    fresh = [] if staged.known_files else [add for add in with_vector if add.data_change]
    if fresh:
        validate_vectors_enabled(table, fresh[0].path)
    _require_num_records(with_vector, "a deletion vector")


def _require_num_records(adds: list[AddFile], why: str) -> None:
    for add in adds:
        if add.num_records is None:
            raise InvalidArgument(f"{add.path}: {why} needs numRecords in the statistics of the file")


def _validate_removes(staged: StagedActions, before: Snapshot) -> None:
    if not staged.removes:
        return
    live = file_keys(before.live_files(["path", "deletionVector"]))
    wanted = pa.array([_key(remove) for remove in staged.removes], pa.string())
    known = pc.is_in(wanted, value_set=one_array(live))
    if not pc.all(known).as_py():
        missing = staged.removes[pc.index(known, False).as_py()]
        vector = f" with the deletion vector {missing.deletion_vector_id}" if missing.deletion_vector else ""
        raise InvalidArgument(
            f"{before.store.root_url}: {missing.path}{vector} is not a file of version {before.version}, so it cannot "
            "be removed"
        )


def _validate_one_add_per_path(staged: StagedActions, before: Snapshot) -> None:
    """Raise InvalidArgument if a re-added file changes its deletion vector without a remove of the old state.

    Source: "Add File and Remove File".
    """
    if staged.fresh_adds or not staged.adds:
        return
    live = before.live_files(["path", "deletionVector"])
    adds = {canonical_path(add.path): add for add in staged.adds}
    again = live.filter(pc.is_in(canonical_paths(live["path"]), value_set=pa.array(list(adds), pa.string())))
    staged.restates = staged.restates or again.num_rows > 0
    removed = {_key(remove) for remove in staged.removes}
    for path, key in zip(canonical_paths(again["path"]).to_pylist(), file_keys(again).to_pylist(), strict=True):
        if key not in removed and key != _key(adds[path]):
            raise InvalidArgument(
                f"{before.store.root_url}: {adds[path].path} is a file of version {before.version} with another "
                "deletion vector. Remove the file as it is in the same commit"
            )


def _keep_row_ids(staged: StagedActions, before: Snapshot) -> None:
    """Set the row ids and the commit version of each re-added file to the values of its last `add`."""
    paths = pa.array([canonical_path(add.path) for add in staged.adds if add.base_row_id is None], pa.string())
    if not len(paths):
        return
    live = before.live_files(["path", "baseRowId", "defaultRowCommitVersion"])
    again = live.filter(pc.is_in(canonical_paths(live["path"]), value_set=paths))
    known: Mapping[str, tuple[int | None, int | None]] = {
        canonical_path(row["path"]): (row["baseRowId"], row["defaultRowCommitVersion"]) for row in again.to_pylist()
    }
    staged.adds[:] = [_with_ids(add, *known.get(canonical_path(add.path), (None, None))) for add in staged.adds]


def _with_ids(add: AddFile, base_row_id: int | None, commit_version: int | None) -> AddFile:
    if add.base_row_id is not None or base_row_id is None:
        return add
    return replace(add, base_row_id=base_row_id, default_row_commit_version=commit_version)


def _key(action: AddFile | RemoveFile) -> str:
    """Return the primary key of the logical file, in the form of `file_keys`."""
    path, vector = canonical_path(action.path), action.deletion_vector_id
    return path if vector is None else f"{path}\t{vector}"
