"""Definition of a table: columns and settings, and the actions that create or replace the table.

Source: delta-protocol.md "Change Metadata", "Table Features for New and Existing Tables", "Column Mapping", "Clustered
Table".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from slackwater.errors import InvalidArgument
from slackwater.protocol.actions.actions import DomainMetadata, Metadata
from slackwater.protocol.features import clustering
from slackwater.protocol.features.column_mapping import NONE
from slackwater.protocol.features.column_mapping_ids import (
    USAGE_TRACKING,
    assign_column_mapping,
    has_names_by_id,
    strip_mapping,
)
from slackwater.protocol.features.iceberg_compat import (
    assign_nested_ids,
    is_requested,
    requests_nested_ids,
    with_required_properties,
)
from slackwater.protocol.features.identity_columns import is_identity, validate_identity_columns
from slackwater.protocol.features.managed_commits import validate_not_by_hand, with_same_owner
from slackwater.protocol.features.protocol_upgrade import (
    DEFAULT_PROTOCOL,
    protocol_for,
    required_features,
    with_features,
    with_versions,
)
from slackwater.protocol.features.sql_columns import is_generated, missing_columns, read_columns
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import (
    COLUMN_MAPPING_MODE,
    CONSTRAINT_PREFIX,
    ENABLE_CHANGE_DATA_FEED,
    MAX_COLUMN_ID,
    TableProperties,
    split_properties,
    validate_properties,
)
from slackwater.protocol.schema.column_paths import format_column_path, parse_column_path
from slackwater.protocol.schema.schema import GENERATION_EXPRESSION, StructType, parse_schema, schema_to_json
from slackwater.protocol.schema_changes.column_names import (
    validate_column_names,
    validate_column_types,
    validate_partition_columns,
)
from slackwater.stats.stats_columns import validate_stats_columns

ColumnName = tuple[str, ...]


@dataclass(frozen=True)
class TableDefinition:
    """A user's definition of a table.

    `clustering_columns` is None if unspecified, and empty for CLUSTER BY NONE. `properties` may contain
    `delta.feature.…`, `delta.constraints.…` and the protocol versions, like TBLPROPERTIES.
    """

    schema: StructType
    partition_columns: Sequence[str] = ()
    clustering_columns: Sequence[ColumnName] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None

    @classmethod
    def of(
        cls,
        schema: StructType | str,
        partition_by: Sequence[str],
        cluster_by: Sequence[str] | None,
        properties: Mapping[str, str] | None = None,
        description: str | None = None,
    ) -> TableDefinition:
        """Return the definition from arguments of public methods: a schema or `schemaString`, and dotted column names.

        Raises InvalidArgument and InvalidSchema.
        """
        parsed = parse_schema(schema) if isinstance(schema, str) else schema
        clustered = None if cluster_by is None else [parse_column_path(name) for name in cluster_by]
        return cls(parsed, partition_by, clustered, properties or {}, description=description)


@dataclass(frozen=True)
class TableActions:
    """The actions that create a defined table."""

    configuration: TableConfiguration
    domains: tuple[DomainMetadata, ...] = ()


def define_table(
    definition: TableDefinition,
    created_ms: int,
    new_id: Callable[[], str],
    replaces: TableConfiguration | None = None,
    domains: Mapping[str, DomainMetadata] | None = None,
) -> TableActions:
    """Return the protocol, metadata and domains of a new table, or of a replacement for the table `replaces`.

    `created_ms` is in milliseconds since the epoch. `domains` are the domains of the replaced table. A replacement
    retains the table's id, never weakens the protocol, and assigns new ids to all columns. Raises InvalidArgument for
    invalid names, types, properties or combinations, UnsupportedFeature for features that this package cannot write.
    """
    given = split_properties(definition.properties)
    validate_not_by_hand(given.features)
    plain = validate_properties(given.plain)
    plain = _with_mapping_for_iceberg(with_required_properties(plain))
    properties = TableProperties(plain)
    mode = properties.get(COLUMN_MAPPING_MODE, NONE)
    schema = strip_mapping(definition.schema)
    validate_column_names(schema, mode, change_feed=properties.flag(ENABLE_CHANGE_DATA_FEED))
    validate_column_types(schema)
    partition_columns = validate_partition_columns(schema, definition.partition_columns)
    validate_identity_columns(schema, partition_columns)
    validate_stats_columns(schema, partition_columns, plain)
    _validate_expressions(schema, given.constraints)
    old = replaces.metadata if replaces else None
    highest = int(old.configuration.get(MAX_COLUMN_ID, "0")) if old else 0
    is_tracked = replaces is None and USAGE_TRACKING in given.features
    schema, highest = assign_column_mapping(
        schema,
        mode,
        highest,
        physical=lambda: f"col-{new_id()}",
        keeps_names=is_tracked,
        names_by_id=has_names_by_id(properties),
    )
    if requests_nested_ids(properties):
        schema, highest = assign_nested_ids(schema, highest)
    configuration = {**plain, **given.constraints}
    if mode != NONE:
        configuration[MAX_COLUMN_ID] = str(highest)
    metadata = Metadata(
        old.id if old else new_id(),
        schema_to_json(schema),
        partition_columns,
        configuration,
        definition.name,
        definition.description,
        created_time=old.created_time if old else created_ms,
    )
    if old is not None:
        metadata = with_same_owner(old, metadata)
    columns = definition.clustering_columns
    table = TableConfiguration(replaces.protocol if replaces else DEFAULT_PROTOCOL, metadata)
    features = set(given.features) | required_features(table) | ({"clustering"} if columns else set())
    if replaces is None:
        protocol = protocol_for(features, given.min_reader_version, given.min_writer_version)
    else:
        protocol = with_features(replaces.protocol, features)
        if given.min_reader_version or given.min_writer_version:
            protocol = with_versions(protocol, given.min_reader_version or 1, given.min_writer_version or 2)
    changed = _domains(metadata, schema, columns, mode, domains or {})
    return TableActions(table.changed(protocol), changed)


def with_nested_ids(table: TableConfiguration) -> TableConfiguration:
    """Return `table`, whose schema may be new, with ids for array and map parts if Iceberg compatibility needs them."""
    if not requests_nested_ids(table.properties):
        return table
    schema, highest = assign_nested_ids(table.schema, table.properties.integer(MAX_COLUMN_ID) or 0)
    configuration = {**table.metadata.configuration, MAX_COLUMN_ID: str(highest)}
    metadata = replace(table.metadata, schema_string=schema_to_json(schema), configuration=configuration)
    return table.changed(metadata=metadata)


def clustering_domain(
    metadata: Metadata, schema: StructType, columns: Sequence[ColumnName], mode: str
) -> DomainMetadata:
    """Return the domain with the clustering columns `columns`.

    Raises InvalidArgument if they cannot cluster the table.
    """
    clustering.validate_clustering_columns(metadata, schema, columns)
    return clustering.domain_metadata(schema, clustering.resolve(schema, columns), mode)


def _validate_expressions(schema: StructType, constraints: Mapping[str, str]) -> None:
    """Raise InvalidArgument if an expression reads a missing column, or a generated column reads a generated column.

    Source: delta-spark's rules for generated columns. Other engines compute the columns by these rules.
    """
    made = {column.name for column in schema if is_generated(column) or is_identity(column)}
    texts = {
        f"CHECK constraint {key[len(CONSTRAINT_PREFIX) :]}": (sql, "DELTA_INVALID_CHECK_CONSTRAINT_REFERENCES")
        for key, sql in constraints.items()
    }
    for column in schema:
        sql = column.metadata.get(GENERATION_EXPRESSION)
        if not isinstance(sql, str):
            continue
        label = f"generated column {column.name}"
        texts[label] = (sql, "DELTA_INVALID_GENERATED_COLUMN_REFERENCES")
        computed = sorted(path[0] for path in read_columns(sql, schema) if path[0] in made)
        if computed:
            raise InvalidArgument(
                f"{label} ({sql}) reads the column {computed[0]}, whose values are generated too. Compute it from "
                "columns that are not generated",
                error_class="DELTA_INVALID_GENERATED_COLUMN_REFERENCES",
            )
    for label, (sql, error_class) in texts.items():
        missing = missing_columns(sql, schema)
        if missing:
            raise InvalidArgument(
                f"{label} ({sql}) reads {format_column_path(missing[0])}, which is not a column of the table. The "
                f"table has {', '.join(schema.names)}",
                error_class=error_class,
            )


def _domains(
    metadata: Metadata,
    schema: StructType,
    columns: Sequence[ColumnName] | None,
    mode: str,
    existing: Mapping[str, DomainMetadata],
) -> tuple[DomainMetadata, ...]:
    if columns:
        return (clustering_domain(metadata, schema, columns, mode),)
    old = existing.get(clustering.DOMAIN)
    ended = None if old is None else clustering.without_domain(old)
    return () if ended is None else (ended,)


def _with_mapping_for_iceberg(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a new table, with a column mapping mode if Iceberg compatibility needs one.

    The mode is `name`, and `id` for Iceberg's writers.

    Raises InvalidArgument if the mode is explicitly `none`.
    """
    found = TableProperties(properties)
    compat = is_requested(found)
    if compat and found.get(COLUMN_MAPPING_MODE) is None:
        return {**properties, COLUMN_MAPPING_MODE: "id" if has_names_by_id(found) else "name"}
    if compat and found[COLUMN_MAPPING_MODE].lower() == NONE:
        raise InvalidArgument(
            f"Iceberg compatibility needs {COLUMN_MAPPING_MODE} to be name or id",
            error_class="DELTA_ICEBERG_COMPAT_VIOLATION",
        )
    return dict(properties)
