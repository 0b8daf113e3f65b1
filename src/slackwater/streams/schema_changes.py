"""Whether a stream that reads with one schema may go on where the table got another.

Source: delta-spark's SchemaUtils.isReadCompatible and DeltaSourceBase.
"""

from __future__ import annotations

from slackwater.errors import UnsupportedFeature
from slackwater.protocol.configuration import TableConfiguration
from slackwater.protocol.features.column_mapping import NONE, PHYSICAL_NAME
from slackwater.protocol.schema.schema import ArrayType, DataType, MapType, StructType
from slackwater.protocol.schema.type_widening import can_change_in_place, is_type_widening

_ADVICE = (
    "start the query again, which then reads with the new schema; where that does not help, the change is one that "
    "streams cannot follow: begin with a new checkpoint"
)


def require_readable(
    read: TableConfiguration, read_version: int, changed: TableConfiguration, version: int, where: str
) -> None:
    """Let pass a commit whose metadata is `changed`, for a stream that reads with `read`, of `read_version`.

    Raises UnsupportedFeature for columns that were renamed or dropped, and for other changes with which rows would be
    read wrongly, or less of them than there is; the latter are over when the stream is started again.
    """
    if changed.metadata.schema_string == read.metadata.schema_string and _same_partitions(changed, read):
        return
    older, newer = (changed, read) if version < read_version else (read, changed)
    if NONE not in (older.column_mapping_mode, newer.column_mapping_mode) and (
        lost := _renamed_or_dropped(older.schema, newer.schema)
    ):
        raise UnsupportedFeature(
            f"{where}: version {version} of the table has columns that were renamed or dropped ({', '.join(lost)}), "
            "which a stream that reads it cannot follow: begin with a new checkpoint at a version after that "
            "(startingVersion)",
            error_class="DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG",
        )
    if not _same_partitions(changed, read) or not _reads(changed.schema, read.schema):
        raise UnsupportedFeature(
            f"{where}: version {version} of the table has another schema than the stream reads with: {_ADVICE}\n"
            f"the stream's: {read.schema}\nthe version's: {changed.schema}",
            error_class="DELTA_SCHEMA_CHANGED_WITH_VERSION",
        )


def _same_partitions(left: TableConfiguration, right: TableConfiguration) -> bool:
    return left.metadata.partition_columns == right.metadata.partition_columns


def _renamed_or_dropped(older: StructType, newer: StructType, path: str = "") -> list[str]:
    """The columns of `older` that `newer` knows by another name, or not at all."""
    by_physical = {column.metadata.get(PHYSICAL_NAME): column for column in newer}
    found: list[str] = []
    for column in older:
        name = f"{path}{column.name}"
        now = by_physical.get(column.metadata.get(PHYSICAL_NAME))
        if now is None or now.name != column.name:
            found.append(name)
        elif isinstance(column.type, StructType) and isinstance(now.type, StructType):
            found += _renamed_or_dropped(column.type, now.type, f"{name}.")
    return found


def _reads(files: StructType, read: StructType) -> bool:
    """Whether rows with the schema `files` are read in full, and rightly, with `read`."""
    known = {column.name.lower(): column for column in read}
    columns = [(column, known.get(column.name.lower())) for column in files]
    return all(found is not None and _reads_type(column.type, found.type) for column, found in columns)


def _reads_type(file: DataType, read: DataType) -> bool:
    if isinstance(file, StructType) and isinstance(read, StructType):
        return _reads(file, read)
    if isinstance(file, ArrayType) and isinstance(read, ArrayType):
        return _reads_type(file.element_type, read.element_type)
    if isinstance(file, MapType) and isinstance(read, MapType):
        return _reads_type(file.key_type, read.key_type) and _reads_type(file.value_type, read.value_type)
    return file == read or can_change_in_place(file, read) or is_type_widening(file, read)
