"""Schema evolution for a write of data with more columns.

Source: delta-spark's `mergeSchema` and `withSchemaEvolution`; delta-protocol.md "Column Mapping".
"""

from __future__ import annotations

from slackwater.protocol.features.column_mapping_ids import keeps_names, with_mapped_schema
from slackwater.protocol.features.protocol_upgrade import with_required_features
from slackwater.protocol.features.sql_columns import fixed_columns
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import ENABLE_CHANGE_DATA_FEED
from slackwater.protocol.schema.schema import StructType
from slackwater.protocol.schema_changes.alter_column import widened_for
from slackwater.protocol.schema_changes.column_names import validate_column_names
from slackwater.protocol.schema_changes.merge_schema import merge_schemas
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.definition import with_nested_ids


def evolved_table(snapshot: Snapshot, data: StructType, merge: bool) -> TableConfiguration:
    """Return the table after a write of `data`. With `merge`, new columns are added and narrower columns widened.

    The protocol supports the features required by the metadata. Raises InvalidArgument for data that does not fit: see
    `slackwater.protocol.schema_changes.merge_schema`.
    """
    old, mode = snapshot.configuration, snapshot.column_mapping_mode
    if merge:
        old = widened_for(old, data)
    merged = merge_schemas(old.schema, data, allow_new_columns=merge, widen=merge, fixed=fixed_columns(old))
    if merged == snapshot.schema:
        return with_required_features(old)
    validate_column_names(merged, mode, change_feed=snapshot.properties.flag(ENABLE_CHANGE_DATA_FEED))
    mapped = with_mapped_schema(old, merged, mode, keeps_names=keeps_names(old))
    return with_required_features(with_nested_ids(mapped))
