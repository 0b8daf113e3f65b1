"""Changes of a table without changes of rows: settings, columns, constraints, protocol, clustering, domains.

Each function returns the `Alteration` to commit. The caller must first validate the rows (a new constraint, NOT NULL).
Source: delta-protocol.md "Change Metadata", "Protocol Evolution", "Domain Metadata"; operation names as delta-spark's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import InvalidArgument, OperationNotAllowed
from slackwater.protocol.actions.actions import DomainMetadata, Metadata, Protocol
from slackwater.protocol.features import clustering
from slackwater.protocol.features.column_mapping_ids import validate_mapping_change, with_mapped_schema
from slackwater.protocol.features.iceberg_compat import with_required_properties
from slackwater.protocol.features.identity_columns import is_identity, synchronize
from slackwater.protocol.features.managed_commits import validate_not_by_hand
from slackwater.protocol.features.protocol_upgrade import with_features, with_required_features, with_versions
from slackwater.protocol.features.sql_columns import missing_columns
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.features.write_expressions import checks
from slackwater.protocol.properties.properties import (
    COLUMN_MAPPING_MODE,
    CONSTRAINT_PREFIX,
    find_property,
    split_properties,
    validate_properties,
)
from slackwater.protocol.schema.column_paths import format_column_path
from slackwater.protocol.schema.schema import StructType, schema_to_json
from slackwater.scan.snapshot import Snapshot
from slackwater.stats.file_stats import ColumnStats, StatsColumns
from slackwater.stats.stats_columns import validate_stats_columns
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.commit_result import CommitResult
from slackwater.transaction.definition import ColumnName, clustering_domain, with_nested_ids

SYSTEM_DOMAIN_PREFIX = "delta."


@dataclass(frozen=True)
class Alteration:
    """The changes of one operation. Empty if the table already has the requested state."""

    operation: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    domains: tuple[DomainMetadata, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to commit."""
        return self.metadata is None and self.protocol is None and not self.domains

    def commit(
        self, transaction: TableTransaction, user_metadata: str | None = None, user_name: str | None = None
    ) -> CommitResult:
        """Commit the change by `transaction`. The history records `user_metadata` and `user_name`.

        Raises the errors of `TableTransaction.commit`.
        """
        if self.metadata is not None:
            transaction.set_metadata(self.metadata)
        if self.protocol is not None:
            transaction.set_protocol(self.protocol)
        for domain in self.domains:
            transaction.set_domain(domain)
        return transaction.commit(self.operation, self.parameters, user_metadata=user_metadata, user_name=user_name)


def change_table(
    snapshot: Snapshot, operation: str, table: TableConfiguration, parameters: Mapping[str, str] | None = None
) -> Alteration:
    """Return the change to the metadata of `table`, whose schema may be new. Empty if the metadata is unchanged."""
    changed = with_nested_ids(table)
    if changed.metadata == snapshot.metadata:
        return Alteration(operation)
    protocol = with_required_features(changed).protocol
    return Alteration(operation, parameters or {}, changed.metadata, _unless_same(protocol, snapshot))


def set_properties(snapshot: Snapshot, properties: Mapping[str, str]) -> Alteration:
    """Return the change that sets table properties. Features enabled by the properties are added to the protocol.

    `delta.feature.…`, `delta.minReaderVersion` and `delta.minWriterVersion` change the protocol. Raises InvalidArgument
    for invalid keys and values, and for constraints, because `add_constraint` adds them individually.
    """
    given = split_properties(properties)
    if given.constraints:
        raise InvalidArgument(
            f"{min(given.constraints)} is the property of a constraint. Add a constraint with addConstraint, which "
            "checks the rows",
            error_class="DELTA_ADD_CONSTRAINTS",
        )
    old = snapshot.metadata
    plain = validate_properties(given.plain, old.configuration)
    folded = {key.lower() for key in plain}
    configuration = {k: v for k, v in old.configuration.items() if k.lower() not in folded} | plain
    configuration = with_required_properties(configuration)
    table = snapshot.configuration.changed(metadata=replace(old, configuration=configuration))
    before, after = snapshot.column_mapping_mode, table.properties.get(COLUMN_MAPPING_MODE, "none")
    if after != before:
        validate_mapping_change(before, after, is_new_table=False)
        table = with_mapped_schema(table, snapshot.schema, after, existing=snapshot.schema)
    table = with_nested_ids(table)
    validate_stats_columns(table.schema, old.partition_columns, plain)
    protocol = with_required_features(table, given.features).protocol
    if given.min_reader_version is not None or given.min_writer_version is not None:
        protocol = with_versions(protocol, given.min_reader_version or 1, given.min_writer_version or 2)
    return Alteration(
        "SET TBLPROPERTIES",
        {"properties": parameter_text(dict(properties))},
        None if table.metadata == old else table.metadata,
        _unless_same(protocol, snapshot),
    )


def unset_properties(snapshot: Snapshot, keys: Sequence[str], if_exists: bool = False) -> Alteration:
    """Return the change that removes properties.

    Raises InvalidArgument if a property is not set, unless `if_exists`, or if it is a constraint. Raises
    OperationNotAllowed for a property managed by the table.
    """
    old = snapshot.metadata
    folded = {key.lower() for key in keys}
    for key in sorted(folded):
        _refuse_protected_key(key)
    missing = sorted(folded - {key.lower() for key in old.configuration})
    if missing and not if_exists:
        raise InvalidArgument(
            f"{snapshot.store.root_url}: the property {missing[0]} is not set",
            error_class="DELTA_UNSET_NON_EXISTENT_PROPERTY",
        )
    if COLUMN_MAPPING_MODE.lower() in folded and snapshot.column_mapping_mode != "none":
        validate_mapping_change(snapshot.column_mapping_mode, "none", is_new_table=False)
    configuration = {k: v for k, v in old.configuration.items() if k.lower() not in folded}
    metadata = replace(old, configuration=configuration)
    parameters = {"properties": parameter_text(list(keys)), "ifExists": parameter_text(if_exists)}
    return Alteration("UNSET TBLPROPERTIES", parameters, None if metadata == old else metadata)


def add_constraint(snapshot: Snapshot, name: str, sql: str) -> Alteration:
    """Return the change that adds the CHECK constraint `name`. The caller must validate all rows.

    Raises InvalidArgument if the name is empty or exists, or if the expression reads missing columns.
    """
    if not name.strip():
        raise InvalidArgument("a constraint must have a name", error_class="DELTA_INVALID_CONSTRAINT_NAME")
    if any(check.name.lower() == name.lower() for check in checks(snapshot.metadata.configuration)):
        raise InvalidArgument(
            f"{snapshot.store.root_url} has a constraint {name} already. Drop it first",
            error_class="DELTA_CONSTRAINT_ALREADY_EXISTS",
        )
    missing = missing_columns(sql, snapshot.schema)
    if missing:
        raise InvalidArgument(
            f"constraint {name} ({sql}) reads columns that the table lacks: {'.'.join(missing[0])}",
            error_class="DELTA_INVALID_CHECK_CONSTRAINT_REFERENCES",
        )
    configuration = {**snapshot.metadata.configuration, f"{CONSTRAINT_PREFIX}{name.lower()}": sql}
    changed = snapshot.configuration.changed(metadata=replace(snapshot.metadata, configuration=configuration))
    return change_table(snapshot, "ADD CONSTRAINT", changed, {"name": name, "expr": sql})


def drop_constraint(snapshot: Snapshot, name: str, if_exists: bool = False) -> Alteration:
    """Return the change that drops the CHECK constraint `name`.

    Raises InvalidArgument if the constraint does not exist, unless `if_exists`.
    """
    found = [check for check in checks(snapshot.metadata.configuration) if check.name.lower() == name.lower()]
    if not found:
        if if_exists:
            return Alteration("DROP CONSTRAINT")
        raise InvalidArgument(
            f"{snapshot.store.root_url} has no constraint {name}", error_class="DELTA_CONSTRAINT_DOES_NOT_EXIST"
        )
    key = f"{CONSTRAINT_PREFIX}{found[0].name}".lower()
    configuration = {k: v for k, v in snapshot.metadata.configuration.items() if k.lower() != key}
    changed = snapshot.configuration.changed(metadata=replace(snapshot.metadata, configuration=configuration))
    parameters = {"name": name, "expr": found[0].sql, "existed": "true"}
    return change_table(snapshot, "DROP CONSTRAINT", changed, parameters)


def sync_identity(snapshot: Snapshot, name: str, extreme: int | None) -> Alteration:
    """Return the change that makes the identity column `name` generate only values not yet in the table.

    The existing values may come from any writer. `extreme` is the largest value if the column's step is positive, else
    the smallest. None without rows. Raises InvalidArgument if the column is not an identity column,
    InvariantViolationException if no value remains.
    """
    column = snapshot.schema.get(name)
    if column is None or not is_identity(column):
        raise InvalidArgument(
            f"{snapshot.store.root_url}: {name} is not an identity column, so there is nothing to synchronize",
            error_class="DELTA_IDENTITY_COLUMNS_ALTER_NON_IDENTITY_COLUMN",
        )
    if extreme is None:
        return Alteration("SYNC IDENTITY")
    synced = StructType(tuple(synchronize(c, extreme) if c.name == column.name else c for c in snapshot.schema))
    metadata = replace(snapshot.metadata, schema_string=schema_to_json(synced))
    changed = snapshot.configuration.changed(metadata=metadata)
    return change_table(snapshot, "SYNC IDENTITY", changed, {"column": column.name})


def cluster_by(snapshot: Snapshot, columns: Sequence[ColumnName]) -> Alteration:
    """Return the change that clusters the table by `columns`. No columns end the clustering.

    Raises InvalidArgument if the table is partitioned, a column cannot cluster or a file lacks statistics of a column.
    """
    metadata, schema, mode = snapshot.metadata, snapshot.schema, snapshot.column_mapping_mode
    old = snapshot.domain_metadata.get(clustering.DOMAIN)
    domain = clustering_domain(metadata, schema, columns, mode)
    if not columns and old is None:
        return Alteration("CLUSTER BY")
    _require_stats(snapshot, clustering.resolve(schema, columns))
    protocol = with_features(snapshot.protocol, ["clustering"])
    parameters = {
        "oldClusteringColumns": ",".join(map(format_column_path, clustering_columns(snapshot))),
        "newClusteringColumns": ",".join(map(format_column_path, clustering.resolve(schema, columns))),
    }
    return Alteration("CLUSTER BY", parameters, protocol=_unless_same(protocol, snapshot), domains=(domain,))


def clustering_columns(snapshot: Snapshot) -> list[ColumnName]:
    """Return the logical paths of the clustering columns. Raises CorruptTable if the domain lists no columns."""
    physical = clustering.physical_columns(snapshot.domain_metadata.get(clustering.DOMAIN), snapshot.store.root_url)
    shown = {there: here for here, there in snapshot.physical_paths.items()}
    return [shown.get(path, path) for path in physical]


def set_domain(snapshot: Snapshot, domain: str, configuration: str) -> Alteration:
    """Return the change that sets a metadata domain. Raises OperationNotAllowed if the protocol reserves the domain."""
    validate_user_domain(domain)
    protocol = with_features(snapshot.protocol, ["domainMetadata"])
    return Alteration(
        "Manual Update",
        protocol=_unless_same(protocol, snapshot),
        domains=(DomainMetadata(domain, configuration),),
    )


def remove_domain(snapshot: Snapshot, domain: str) -> Alteration:
    """Return the change that removes a metadata domain.

    Raises InvalidArgument if the table does not have the domain.
    """
    validate_user_domain(domain)
    found = snapshot.domain_metadata.get(domain)
    if found is None:
        raise InvalidArgument(f"{snapshot.store.root_url} has no metadata domain {domain!r}")
    return Alteration("DOMAIN METADATA CLEANUP", domains=(replace(found, removed=True),))


def upgrade_protocol(snapshot: Snapshot, reader_version: int, writer_version: int) -> Alteration:
    """Return the change to at least these protocol versions.

    Empty if nothing rises, because versions are never lowered.
    """
    return _with_protocol(snapshot, with_versions(snapshot.protocol, reader_version, writer_version))


def add_feature(snapshot: Snapshot, feature: str) -> Alteration:
    """Return the change that adds `feature` and its required features.

    Raises InvalidArgument, UnsupportedFeature, and OperationNotAllowed for a feature reserved for a commit owner.
    """
    validate_not_by_hand([feature])
    return _with_protocol(snapshot, with_features(snapshot.protocol, [feature]))


def parameter_text(value: object) -> str:
    """Return `value` as JSON, the form of operation parameters in the history."""
    return orjson.dumps(value).decode()


def validate_user_domain(domain: str) -> None:
    """Validate that users may change `domain`.

    Raises InvalidArgument for an empty name, OperationNotAllowed for a domain of the protocol.
    Source: delta-protocol.md "Writer Requirements for Domain Metadata".
    """
    if not domain.strip():
        raise InvalidArgument("a metadata domain must have a name")
    if domain.lower().startswith(SYSTEM_DOMAIN_PREFIX):
        raise OperationNotAllowed(
            f"the metadata domain {domain} belongs to the protocol. Choose a name that does not start with "
            f"{SYSTEM_DOMAIN_PREFIX!r}, like com.example.mine"
        )


def _unless_same(protocol: Protocol, snapshot: Snapshot) -> Protocol | None:
    return None if protocol == snapshot.protocol else protocol


def _with_protocol(snapshot: Snapshot, protocol: Protocol) -> Alteration:
    if protocol == snapshot.protocol:
        return Alteration("UPGRADE PROTOCOL")
    parameters = {"newProtocol": parameter_text(protocol.to_json()["protocol"])}
    return Alteration("UPGRADE PROTOCOL", parameters, protocol=protocol)


def _refuse_protected_key(key: str) -> None:
    if key.startswith(CONSTRAINT_PREFIX):
        raise InvalidArgument(f"{key} is the property of a constraint. Drop a constraint with dropConstraint")
    known = find_property(key)
    if known is not None and not known.settable:
        raise OperationNotAllowed(f"{known.name} is maintained by the table itself and cannot be removed")


def _require_stats(snapshot: Snapshot, columns: Sequence[ColumnName]) -> None:
    if not columns:
        return
    files = snapshot.live_files(["path", "partitionValues", "stats", "stats_parsed"])
    if not files.num_rows:
        return
    stats = StatsColumns(files, snapshot.schema, (), snapshot.physical_paths)
    stats.load(columns)
    for column in columns:
        found = stats.column(column)
        if found is None or not pc.all(_is_known(found)).as_py():
            raise InvalidArgument(
                f"clustering column {'.'.join(column)}: some file has no statistics of the column. Write the rows "
                "again first to collect them",
                error_class="DELTA_CLUSTERING_COLUMN_MISSING_STATS",
            )


def _is_known(column: ColumnStats) -> pa.Array:
    """Return, per file, whether its statistics bound the column or state that all values are null."""
    all_null = pc.equal(column.null_count, column.num_records).fill_null(False)
    return pc.or_(column.min.is_valid(), all_null)
