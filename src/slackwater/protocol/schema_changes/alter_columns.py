"""Adding, renaming, dropping and moving columns of a table without rewriting files (ALTER TABLE).

Each function takes the table configuration and returns the changed one, including properties and partition columns.
Path lookup ignores case. All functions raise InvalidArgument, with the column and the remedy, for a missing column.
They also raise it for a change forbidden by the data files or the table's rules.
Source: delta-protocol.md "Column Mapping", "Default Columns", "Change Metadata".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from slackwater.errors import InvalidArgument
from slackwater.protocol.actions.actions import Metadata
from slackwater.protocol.features.column_mapping import NONE, PHYSICAL_NAME
from slackwater.protocol.features.column_mapping_ids import (
    NESTED_IDS,
    keeps_names,
    random_physical_name,
    strip_mapping,
    with_mapped_schema,
)
from slackwater.protocol.features.identity_columns import is_identity
from slackwater.protocol.features.sql_columns import dependents, is_generated, overlap
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import (
    DATA_SKIPPING_STATS_COLUMNS,
    ENABLE_CHANGE_DATA_FEED,
)
from slackwater.protocol.schema.char_varchar import schema_limits, text_limits, with_limits
from slackwater.protocol.schema.column_paths import (
    format_column_path,
    has_path,
    listed_column_paths,
    resolve_field,
    resolve_path,
    with_field_at,
    with_type_at,
)
from slackwater.protocol.schema.schema import (
    CURRENT_DEFAULT,
    EXISTS_DEFAULT,
    INVARIANTS,
    STRING,
    VOID,
    ArrayType,
    ColumnPath,
    DataType,
    MapType,
    StructField,
    StructType,
    schema_to_json,
    walk_fields,
)
from slackwater.protocol.schema_changes.column_names import validate_column_names, validate_column_type


@dataclass(frozen=True, slots=True)
class ColumnPosition:
    """The position of a column among its siblings: after the column `after`, or first if `after` is None."""

    after: str | None = None


FIRST = ColumnPosition()


@dataclass(frozen=True, slots=True)
class NewColumn:
    """A column to add to the struct at `parent`; () is the table itself. Without a position, it is added at the end."""

    column: StructField
    parent: ColumnPath = ()
    position: ColumnPosition | None = None


def add_columns(
    table: TableConfiguration,
    columns: Sequence[NewColumn],
    physical: Callable[[], str] = random_physical_name,
) -> TableConfiguration:
    """Add `columns` to the table in order. A later column may be inside or after an earlier one.

    Under column mapping, new columns get ids above every id ever assigned, and physical names from `physical`, or their
    own names if `keeps_names` allows. NOT NULL, generated and identity columns and invariants are rejected, because
    existing rows do not satisfy them. Default values are rejected: set them in a separate step.
    """
    schema, mode = table.schema, table.column_mapping_mode
    change_feed = table.properties.flag(ENABLE_CHANGE_DATA_FEED)
    limits = schema_limits(schema)
    for new in columns:
        parent, found = resolve_path(schema, new.parent)
        if not isinstance(found, StructType):
            raise InvalidArgument(
                _no_struct(parent, found, new.column.name), error_class="DELTA_ADD_COLUMN_PARENT_NOT_STRUCT"
            )
        column = new_column(new.column, (*parent, new.column.name), mode, change_feed)
        _refuse_twin(found, column.name, parent)
        schema = with_type_at(schema, parent, _insertion(column, new.position, parent))
        limits |= {(*parent, column.name, *inside): kind for inside, kind in text_limits(column).items()}
    return with_mapped_schema(
        table, with_limits(schema, limits), mode, physical=physical, keeps_names=keeps_names(table)
    )


def rename_column(table: TableConfiguration, path: ColumnPath, new_name: str) -> TableConfiguration:
    """Rename the column at `path` to `new_name`. The id, the physical name and the data files do not change.

    Requires column mapping. Updates the partition columns and `delta.dataSkippingStatsColumns`. Rejected if a
    constraint, a generated column or an invariant reads the column.
    """
    mode = table.column_mapping_mode
    _require_mapping(mode, "renamed", path)
    schema, metadata = table.schema, table.metadata
    spelled, column = resolve_field(schema, path)
    if new_name == column.name:
        return table
    parent = spelled[:-1]
    change_feed = table.properties.flag(ENABLE_CHANGE_DATA_FEED)
    validate_column_names(StructType((StructField(new_name, STRING),)), mode, change_feed=change_feed, parent=parent)
    _refuse_twin(_struct_at(schema, parent), new_name, parent, besides=column.name)
    _refuse_dependents(table, [spelled], "renamed")
    limits = {
        (*parent, new_name, *at[len(spelled) :]) if at[: len(spelled)] == spelled else at: kind
        for at, kind in schema_limits(schema).items()
    }
    renamed = with_limits(with_field_at(schema, spelled, lambda f: _renamed(f, new_name)), limits)
    partitions = metadata.partition_columns
    if not parent:
        partitions = tuple(new_name if name == column.name else name for name in partitions)
    changed = replace(
        metadata,
        schema_string=schema_to_json(renamed),
        partition_columns=partitions,
        configuration=_with_stats_columns(metadata, spelled, (*parent, new_name)),
    )
    return table.changed(metadata=changed)


def drop_columns(
    table: TableConfiguration,
    paths: Sequence[ColumnPath],
    *,
    clustering: Collection[ColumnPath] = (),
    if_exists: bool = False,
) -> TableConfiguration:
    """Drop the columns at `paths`. Their data remains in the files, but is never read again.

    Requires column mapping. `clustering` lists the clustering columns by the schema's names. `if_exists` ignores
    missing columns. Rejects partition and clustering columns, parts of a map's key, and the last column of a struct or
    of the data files. Rejects columns read by a constraint, or by a remaining generated column or invariant.
    """
    schema, metadata = table.schema, table.metadata
    dropped = [resolve_field(schema, path)[0] for path in paths if not if_exists or has_path(schema, path)]
    if not dropped:
        return table
    validate_drop(table, dropped, clustering)
    remaining = schema
    for path in sorted(set(dropped), key=len, reverse=True):
        remaining = with_type_at(remaining, path[:-1], _removal(path[-1]))
    _refuse_emptied(metadata, remaining, dropped)
    limits = schema_limits(schema)
    remaining = with_limits(remaining, {at: kind for at, kind in limits.items() if has_path(remaining, at)})
    changed = replace(
        metadata,
        schema_string=schema_to_json(remaining),
        configuration=without_stats_columns(metadata.configuration, dropped),
    )
    return table.changed(metadata=changed)


def move_column(table: TableConfiguration, path: ColumnPath, position: ColumnPosition) -> TableConfiguration:
    """Move the column at `path` to another position among its siblings."""
    schema = table.schema
    spelled, column = resolve_field(schema, path)
    parent = spelled[:-1]
    if position.after is not None and position.after.lower() == column.name.lower():
        raise InvalidArgument(f"column {format_column_path(spelled)} cannot be placed after itself")
    without = with_type_at(schema, parent, _removal(column.name))
    moved = with_type_at(without, parent, _insertion(column, position, parent))
    moved = with_limits(moved, schema_limits(schema))
    return table.changed(metadata=replace(table.metadata, schema_string=schema_to_json(moved)))


def new_column(column: StructField, path: ColumnPath, mode: str, change_feed: bool) -> StructField:
    """Return `column` without the column mapping of another table, after validation for a table with rows.

    `path` ends in the name of the column. Raises InvalidArgument by the rules of `add_columns`.
    """
    validate_column_names(StructType((column,)), mode, change_feed=change_feed, parent=path[:-1])
    validate_column_type(column.type, path)
    for inner, field in ((path, column), *walk_fields(column.type, path)):
        here = format_column_path(inner)
        if not field.nullable:
            raise InvalidArgument(
                f"column {here} is NOT NULL, but existing rows have no value for it. Add it as nullable, fill it, "
                "then set it NOT NULL",
                error_class="DELTA_MISSING_NOT_NULL_COLUMN_VALUE",
            )
        if CURRENT_DEFAULT in field.metadata or EXISTS_DEFAULT in field.metadata:
            raise InvalidArgument(
                f"column {here} cannot be added with a default value. Add it without a default, then set its default",
                error_class="WRONG_COLUMN_DEFAULTS_FOR_DELTA_ALTER_TABLE_ADD_COLUMN_NOT_SUPPORTED",
            )
        if is_generated(field) or is_identity(field) or INVARIANTS in field.metadata:
            raise InvalidArgument(
                f"column {here} is generated, an identity column or has an invariant, which existing rows do not "
                "satisfy. Add such columns when the table is created"
            )
    return strip_mapping(StructType((column,))).fields[0]


def validate_drop(table: TableConfiguration, dropped: Sequence[ColumnPath], clustering: Collection[ColumnPath]) -> None:
    """Validate a drop of the columns at `dropped`, in the schema's spelling, by the rules of `drop_columns`.

    Raises InvalidArgument if a column cannot be dropped.
    """
    schema = table.schema
    for path in dropped:
        here = format_column_path(path)
        _require_mapping(table.column_mapping_mode, "dropped", path)
        if len(path) == 1 and path[0] in table.metadata.partition_columns:
            raise InvalidArgument(
                f"column {here} cannot be dropped: the table is partitioned by it",
                error_class="DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN",
            )
        if any(overlap(path, resolve_path(schema, column)[0]) for column in clustering):
            raise InvalidArgument(
                f"column {here} cannot be dropped: the table is clustered by it. Choose other clustering columns first",
                error_class="DELTA_UNSUPPORTED_DROP_CLUSTERING_COLUMN",
            )
        if _is_in_key(schema, path):
            raise InvalidArgument(
                f"column {here} cannot be dropped: it is a part of a map's key",
                error_class="DELTA_UNSUPPORTED_DROP_NESTED_COLUMN_FROM_NON_STRUCT_TYPE",
            )
    _refuse_dependents(table, dropped, "dropped")


def without_stats_columns(configuration: Mapping[str, str], dropped: Sequence[ColumnPath]) -> dict[str, str]:
    """Return `configuration` with the `dropped` columns removed from `delta.dataSkippingStatsColumns`."""
    return _map_stats_columns(configuration, lambda p: None if any(_is_within(p, d) for d in dropped) else p)


def _with_stats_columns(metadata: Metadata, old: ColumnPath, new: ColumnPath) -> dict[str, str]:
    return _map_stats_columns(metadata.configuration, lambda p: (*new, *p[len(old) :]) if _is_within(p, old) else p)


def _is_within(path: ColumnPath, outer: ColumnPath) -> bool:
    return [name.lower() for name in path[: len(outer)]] == [name.lower() for name in outer]


def _map_stats_columns(
    configuration: Mapping[str, str], change: Callable[[ColumnPath], ColumnPath | None]
) -> dict[str, str]:
    """`configuration` with the listed columns as `change` returns them; the others keep their spelling.

    Without any column left the property goes too: the files then have statistics as by default. A list that cannot be
    parsed stays as it is, as nothing of it counts.
    """
    result = dict(configuration)
    for key in [key for key in result if key.lower() == DATA_SKIPPING_STATS_COLUMNS.lower()]:
        try:
            paths = dict(listed_column_paths(result[key]))
        except InvalidArgument:
            continue
        after = {text: change(path) for text, path in paths.items()}
        if after == paths:
            continue
        kept = [text if path == paths[text] else format_column_path(path) for text, path in after.items() if path]
        if kept:
            result[key] = ",".join(kept)
        else:
            del result[key]
    return result


def _insertion(
    column: StructField, position: ColumnPosition | None, parent: ColumnPath
) -> Callable[[DataType], DataType]:
    def insert(struct: DataType) -> DataType:
        fields = list(struct.fields) if isinstance(struct, StructType) else []
        at = len(fields)
        if position is not None and position.after is None:
            at = 0
        elif position is not None and position.after is not None:
            before = StructType(tuple(fields)).get(position.after)
            if before is None:
                raise InvalidArgument(
                    f"column {column.name!r} cannot be placed after {position.after!r}: there is no such "
                    f"column{_inside(parent)}, only {[f.name for f in fields]}",
                    error_class="DELTA_COLUMN_NOT_FOUND_IN_SCHEMA",
                )
            at = fields.index(before) + 1
        return StructType((*fields[:at], column, *fields[at:]))

    return insert


def _removal(name: str) -> Callable[[DataType], DataType]:
    def remove(struct: DataType) -> DataType:
        fields = struct.fields if isinstance(struct, StructType) else ()
        return StructType(tuple(f for f in fields if f.name != name))

    return remove


def _renamed(column: StructField, new_name: str) -> StructField:
    """Return `column` with the name `new_name`.

    Nested ids keyed by the old name get the new name. Nested ids keyed by the physical name do not change.
    """
    metadata = dict(column.metadata)
    old, new = f"{column.name}.", f"{new_name}."
    for key in NESTED_IDS:
        ids = metadata.get(key)
        if isinstance(ids, Mapping) and metadata.get(PHYSICAL_NAME) != column.name:
            metadata[key] = {new + k[len(old) :] if k.startswith(old) else k: number for k, number in ids.items()}
    return replace(column, name=new_name, metadata=metadata)


def _struct_at(schema: StructType, path: ColumnPath) -> StructType:
    found = resolve_path(schema, path)[1]
    return found if isinstance(found, StructType) else StructType()


def _is_in_key(schema: StructType, path: ColumnPath) -> bool:
    return any(
        step == "key" and isinstance(resolve_path(schema, path[:depth])[1], MapType) for depth, step in enumerate(path)
    )


def _require_mapping(mode: str, done: str, path: ColumnPath) -> None:
    if mode == NONE:
        raise InvalidArgument(
            f"column {format_column_path(path)} cannot be {done} without column mapping: the data files use its name. "
            "Set the table property delta.columnMapping.mode to name first",
            error_class="DELTA_UNSUPPORTED_DROP_COLUMN" if done == "dropped" else "DELTA_UNSUPPORTED_RENAME_COLUMN",
        )


def _refuse_twin(struct: StructType, name: str, parent: ColumnPath, besides: str | None = None) -> None:
    for other in struct.names:
        if other.lower() == name.lower() and other != besides:
            raise InvalidArgument(
                f"a column {other!r}{_inside(parent)} already exists. Choose another name",
                error_class="DELTA_DUPLICATE_COLUMNS_FOUND",
            )


def _refuse_dependents(table: TableConfiguration, paths: Sequence[ColumnPath], done: str) -> None:
    """Raise InvalidArgument if an expression reads one of `paths`.

    Expressions of dropped columns are ignored, because the drop removes them.
    """
    gone = paths if done == "dropped" else ()
    for path in paths:
        for expression in dependents(table, path):
            if expression.owner and any(expression.owner[: len(p)] == p for p in gone):
                continue
            raise InvalidArgument(
                f"column {format_column_path(path)} cannot be {done}: {expression.label} reads it ({expression.sql}). "
                "Drop that first",
                error_class="DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE"
                if expression.owner
                else "DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE",
            )


def _refuse_emptied(metadata: Metadata, remaining: StructType, dropped: Sequence[ColumnPath]) -> None:
    if not any(f.name not in metadata.partition_columns and f.type != VOID for f in remaining):
        names = [format_column_path(path) for path in dropped]
        raise InvalidArgument(
            f"columns {names} cannot be dropped: no column would be left in the data files",
            error_class="DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA",
        )
    for path in dropped:
        parent = path[:-1]
        if not any(parent[: len(p)] == p for p in dropped) and not _struct_at(remaining, parent).fields:
            raise InvalidArgument(
                f"column {format_column_path(path)} cannot be dropped: {format_column_path(parent)} would have no "
                f"field left. Drop {format_column_path(parent)}",
                error_class="DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA",
            )


def _no_struct(parent: ColumnPath, found: DataType, name: str) -> str:
    here = format_column_path(parent)
    held = {ArrayType: "element", MapType: "value"}.get(type(found))
    hint = f". Write {here}.{held} for its {held}s" if held else ""
    return f"column {name!r} cannot be added to {here}, which is of type {found}, not a struct{hint}"


def _inside(parent: ColumnPath) -> str:
    return f" in {format_column_path(parent)}" if parent else ""
