"""The table after a write of rows without Spark: its columns, and its clustering columns.

Source: delta-spark's `mergeSchema` and `overwriteSchema`; delta-protocol.md "Column Mapping", "Clustered Table".
"""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.errors import InvalidArgument
from slackwater.protocol.actions.actions import DomainMetadata
from slackwater.protocol.features import clustering
from slackwater.protocol.features.protocol_upgrade import with_required_features
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.features.write_expressions import row_rules
from slackwater.protocol.schema.schema import StructType, as_nullable
from slackwater.protocol.schema_changes.alter_column import widened_for
from slackwater.protocol.schema_changes.column_names import validate_partition_columns
from slackwater.protocol.schema_changes.replace_schema import replace_schema
from slackwater.rows.arrow_types import assigned_schema
from slackwater.rows.request import WriteRequest
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.definition import clustering_domain, with_nested_ids
from slackwater.transaction.table.alteration import clustering_columns
from slackwater.transaction.table.schema_evolution import evolved_table


def table_after(snapshot: Snapshot, given: StructType, request: WriteRequest) -> TableConfiguration:
    """Return the configuration of the table after a write of rows with the columns `given`.

    Raises InvalidArgument if columns, types or partitioning do not fit.
    """
    old = snapshot.configuration
    if request.overwrites_schema:
        columns = validate_partition_columns(given, _partition_columns(snapshot, request))
        same = str(as_nullable(snapshot.schema)) == str(given) and columns == old.metadata.partition_columns
        return with_required_features(old if same else with_nested_ids(replace_schema(old, given, columns)))
    _require_same_partitioning(snapshot, request)
    base = widened_for(old, given) if request.merges_schema else old
    assigned = assigned_schema(given, base.schema, request.merges_schema)
    table = evolved_table(snapshot, assigned, request.merges_schema)
    _require_partition_columns(snapshot, given)
    return table


def clustering_after(snapshot: Snapshot, table: TableConfiguration) -> DomainMetadata | None:
    """Return the domain of the clustering columns of `table`, whose columns are new. None if unchanged.

    Columns that the new table lacks end the clustering.
    """
    old = snapshot.domain_metadata.get(clustering.DOMAIN)
    if old is None:
        return None
    try:
        columns = clustering.resolve(table.schema, clustering_columns(snapshot))
        new = clustering_domain(table.metadata, table.schema, columns, table.column_mapping_mode)
    except InvalidArgument:
        return clustering.without_domain(old)
    return None if new.configuration == old.configuration else new


def _partition_columns(snapshot: Snapshot, request: WriteRequest) -> Sequence[str]:
    return snapshot.metadata.partition_columns if request.partition_by is None else request.partition_by


def _require_same_partitioning(snapshot: Snapshot, request: WriteRequest) -> None:
    columns = snapshot.metadata.partition_columns
    if request.partition_by is not None and _folded(request.partition_by) != _folded(columns):
        raise InvalidArgument(
            f"{snapshot.store.root_url} is partitioned by {list(columns)}, not by {list(request.partition_by)}. Leave "
            "partition_by out, or replace the table with mode='overwrite' and schema_mode='overwrite'",
            error_class="DELTA_METADATA_MISMATCH",
        )


def _require_partition_columns(snapshot: Snapshot, given: StructType) -> None:
    """Raise InvalidArgument if the rows lack a partition column that the table neither generates nor defaults."""
    rules = row_rules(snapshot.configuration)
    made = {*(each.name for each in rules.generated), *(each.name for each in rules.defaults)}
    for name in snapshot.metadata.partition_columns:
        if given.get(name) is None and name not in made:
            raise InvalidArgument(
                f"{snapshot.store.root_url}: the rows have no partition column {name}. Add the column, with null "
                "values if intended",
                error_class="DELTA_MISSING_PARTITION_COLUMN",
            )


def _folded(names: Sequence[str]) -> list[str]:
    return [name.lower() for name in names]
