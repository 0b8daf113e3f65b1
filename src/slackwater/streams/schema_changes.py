"""Schema compatibility checks between the schema of a stream and a new schema of the table.

Source: delta-spark's SchemaUtils.isReadCompatible and DeltaSourceBase.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from slackwater.errors import OperationNotAllowed, UnsupportedFeature
from slackwater.protocol.features.column_mapping import NONE, PHYSICAL_NAME, physical_name, replaced_column
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.schema.nested_columns import Key, paired_columns
from slackwater.protocol.schema.schema import (
    CURRENT_DEFAULT,
    GENERATION_EXPRESSION,
    IDENTITY_PREFIX,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    without_metadata,
)
from slackwater.protocol.schema.type_widening import can_change_in_place, is_type_widening
from slackwater.scan.file_changes import FileChange

_OF_WRITERS = frozenset({CURRENT_DEFAULT, GENERATION_EXPRESSION})
_ADVICE = (
    "Start the query again, which then reads with the new schema. If that does not help, streams cannot follow this "
    "change: begin with a new checkpoint"
)


def require_readable(
    read: TableConfiguration, read_version: int, changed: TableConfiguration, version: int, where: str
) -> None:
    """Check a commit with configuration `changed` for a stream with configuration `read`, of `read_version`.

    Raises UnsupportedFeature for renamed or dropped columns, and for other changes that would cause wrong or missing
    rows. A restart of the stream usually resolves the other changes.
    """
    if changed.metadata.schema_string == read.metadata.schema_string and _same_partitions(changed, read):
        return
    older, newer = (changed, read) if version < read_version else (read, changed)
    is_mapped = {older.column_mapping_mode, newer.column_mapping_mode} != {NONE}
    if is_mapped and (lost := _lost(older, newer)):
        raise UnsupportedFeature(
            f"{where}: version {version} of the table has renamed or dropped columns ({', '.join(lost)}). A stream "
            "follows that only with the option schemaTrackingLocation, a directory in its checkpoint. Set the "
            "option, or begin with a new checkpoint at a later version (startingVersion)",
            error_class="DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG",
        )
    if not _same_partitions(changed, read) or not _reads(changed.schema, read.schema, may_widen=version < read_version):
        raise UnsupportedFeature(
            f"{where}: version {version} of the table has another schema than the stream reads with. {_ADVICE}\nthe "
            f"stream's: {read.schema}\nthe version's: {changed.schema}",
            error_class="DELTA_SCHEMA_CHANGED_WITH_VERSION",
        )


def require_partitions(read: TableConfiguration, changes: Iterable[FileChange], version: int, where: str) -> None:
    """Check that changed files have the partition columns of `read`.

    Raises UnsupportedFeature for other files, which a repartitioning commit removed. For such a file, the stream would
    look for partition values in the wrong source, the log or the file.
    """
    mode = read.column_mapping_mode
    physical = {column.name: physical_name(column, mode) for column in read.schema}
    columns, wanted = set(physical.values()), {physical[name] for name in read.metadata.partition_columns}
    for change in changes:
        if columns & {name for name, _ in change.partition_values} != wanted:
            raise UnsupportedFeature(
                f"{where}: version {version} partitioned the table by other columns. A stream cannot read the rows "
                f"that it removed. Begin with a new checkpoint after it (startingVersion = {version + 1}), or read "
                "the change feed of that version as a batch",
                error_class="DELTA_SCHEMA_CHANGED_WITH_VERSION",
            )


def require_same_columns(read: TableConfiguration, then: TableConfiguration, version: int, where: str) -> None:
    """Check rows removed by `version`, written with the configuration `then` before it.

    Raises UnsupportedFeature if another column has replaced one of their columns.
    """
    name = replaced_column(then.schema, then.column_mapping_mode, read.schema, read.column_mapping_mode)
    if name is not None:
        raise UnsupportedFeature(
            f"{where}: version {version} replaced the column {name} by another one. A stream cannot read the rows "
            f"that it removed. Begin with a new checkpoint after it (startingVersion = {version + 1})",
            error_class="DELTA_SCHEMA_CHANGED_WITH_VERSION",
        )


def differs(read: TableConfiguration, changed: TableConfiguration) -> bool:
    """Return whether a stream with schema tracking and configuration `read` must continue with `changed` instead.

    Source: delta-spark's DeltaSourceMetadataEvolutionSupport: schema, partitioning, protocol, properties of Delta.
    """
    return (
        read.protocol != changed.protocol
        or _as_read(read.schema) != _as_read(changed.schema)
        or not _same_partitions(read, changed)
        or _of_delta(read) != _of_delta(changed)
    )


def _as_read(schema: StructType) -> StructType:
    """Return `schema` without metadata for writers, such as the identity high-water mark.

    Each append may change such metadata.
    """
    return without_metadata(schema, lambda key: key in _OF_WRITERS or key.startswith(IDENTITY_PREFIX))


def _of_delta(table: TableConfiguration) -> dict[str, str]:
    return {key: value for key, value in table.metadata.configuration.items() if key.lower().startswith("delta.")}


@dataclass(frozen=True)
class AllowedSchemaChanges:
    """Schema changes accepted by the user: each is `always`, or the version of the change."""

    renamed: str | None = None
    dropped: str | None = None
    retyped: str | None = None


def require_unblocked(
    older: TableConfiguration, newer: TableConfiguration, version: int, allowed: AllowedSchemaChanges, where: str
) -> None:
    """Check a schema change of `version`: it must only add columns, or be accepted by the user.

    Raises OperationNotAllowed for renamed, dropped or retyped columns not `allowed`, because the sink may need the same
    change first. The message names the options that accept the change.
    """
    renamed, dropped, retyped = _changes(older, newer)
    blocking = [
        (what, columns, option)
        for what, columns, option, given in (
            ("renamed", renamed, "allowSourceColumnRename", allowed.renamed),
            ("dropped", dropped, "allowSourceColumnDrop", allowed.dropped),
            ("changed in type", retyped, "allowSourceColumnTypeChange", allowed.retyped),
        )
        if columns and (given or "").strip().lower() not in ("always", str(version))
    ]
    if not blocking:
        return
    said = "; ".join(f"{what}: {', '.join(columns)}" for what, columns, _ in blocking)
    options = ", ".join(f"{option} = {version}" for _, _, option in blocking)
    raise OperationNotAllowed(
        f"{where}: version {version} changed columns of the table ({said}). If that is intended, change what the "
        f"stream writes to, then start it with the option {options} (or always)",
        error_class="DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION",
    )


def _changes(older: TableConfiguration, newer: TableConfiguration) -> tuple[list[str], list[str], list[str]]:
    """Return the renamed, the dropped and the retyped columns, at the top level and in structs."""
    is_mapped = NONE not in (older.column_mapping_mode, newer.column_mapping_mode)
    renamed: list[str] = []
    dropped: list[str] = []
    retyped: list[str] = []

    def key(column: StructField) -> Any:
        return column.metadata.get(PHYSICAL_NAME) if is_mapped else column.name

    def compare(before: StructType, after: StructType, path: str) -> None:
        now = {key(column): column for column in after}
        for column in before:
            name, found = f"{path}{column.name}", now.get(key(column))
            if found is None:
                dropped.append(name)
                continue
            if found.name != column.name:
                renamed.append(f"{name} to {path}{found.name}")
            if isinstance(column.type, StructType) and isinstance(found.type, StructType):
                compare(column.type, found.type, f"{name}.")
            elif column.type != found.type:
                retyped.append(name)

    compare(older.schema, newer.schema, "")
    return renamed, dropped, retyped


def _same_partitions(left: TableConfiguration, right: TableConfiguration) -> bool:
    return left.metadata.partition_columns == right.metadata.partition_columns


def _key(table: TableConfiguration) -> Key:
    """Return the function for a column's name in data files. Tables mapped later retain their original names."""
    is_mapped = table.column_mapping_mode != NONE
    return lambda column: column.metadata.get(PHYSICAL_NAME) if is_mapped else column.name


def _lost(older: TableConfiguration, newer: TableConfiguration) -> list[str]:
    """Return the columns of `older` renamed in `newer`, logically or physically, or dropped."""
    pairs = paired_columns(
        older.schema, newer.schema, _key(older), _key(newer), lambda column, found: column.name == found.name
    )
    return [".".join(pair.path) for pair in pairs if pair.found is None]


def _reads(files: StructType, read: StructType, *, may_widen: bool) -> bool:
    """Return whether rows with the schema `files` are read completely and correctly with `read`.

    `may_widen`: types in `read` may be wider. A stream stops at a later version with a narrower type, because its next
    run and its sink get another type.
    """
    known = {column.name.lower(): column for column in read}
    columns = [(column, known.get(column.name.lower())) for column in files]
    return all(found is not None and _reads_type(column.type, found.type, may_widen) for column, found in columns)


def _reads_type(file: DataType, read: DataType, may_widen: bool) -> bool:
    if isinstance(file, StructType) and isinstance(read, StructType):
        return _reads(file, read, may_widen=may_widen)
    if isinstance(file, ArrayType) and isinstance(read, ArrayType):
        return _reads_type(file.element_type, read.element_type, may_widen)
    if isinstance(file, MapType) and isinstance(read, MapType):
        pairs = ((file.key_type, read.key_type), (file.value_type, read.value_type))
        return all(_reads_type(*pair, may_widen) for pair in pairs)
    return file == read or (may_widen and (can_change_in_place(file, read) or is_type_widening(file, read)))
