"""Schema of a table, in records and in a tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text
from rich.tree import Tree

from slackwater.html.number_format import visible
from slackwater.log.snapshot import LogSnapshot
from slackwater.protocol.features.column_mapping import FIELD_ID, NONE, PHYSICAL_NAME
from slackwater.protocol.schema.schema import ArrayType, DataType, MapType, StructField, StructType

COLUMN_RECORD = ("column", "type", "nullable", "partition", "comment", "id", "physicalName")
"""Keys of a column's record."""


def column_records(snapshot: LogSnapshot) -> list[dict[str, Any]]:
    """Return the columns of `snapshot`, with fields of structs after their parent by dotted paths, with COLUMN_RECORD.

    The content of arrays and maps appears in their type only. Raises InvalidSchema.
    """
    partition_columns = frozenset(snapshot.metadata.partition_columns)
    return list(_records(snapshot.schema, "", partition_columns))


def _records(struct: StructType, above: str, partition_columns: frozenset[str]) -> Iterator[dict[str, Any]]:
    for column in struct:
        yield {
            "column": f"{above}{column.name}",
            "type": str(column.type),
            "nullable": column.nullable,
            "partition": not above and column.name in partition_columns,
            "comment": column.metadata.get("comment"),
            "id": column.metadata.get(FIELD_ID),
            "physicalName": column.metadata.get(PHYSICAL_NAME),
        }
        if isinstance(column.type, StructType):
            yield from _records(column.type, f"{above}{column.name}.", partition_columns)


def schema_tree(snapshot: LogSnapshot) -> Tree:
    """Return the columns of `snapshot`, with nested columns below their parent.

    A line has `name: type`, `not null`, `partition` and the comment, with column mapping also the field id and physical
    name. Raises InvalidSchema, CorruptTable.
    """
    tree = Tree(Text(f"{snapshot.store.root_url}, version {snapshot.version}", style="bold"))
    is_mapped = snapshot.column_mapping_mode != NONE
    partition_columns = frozenset(snapshot.metadata.partition_columns)
    for column in snapshot.schema:
        _add_field(tree, column, is_mapped, column.name in partition_columns)
    return tree


def _add_field(parent: Tree, column: StructField, is_mapped: bool, is_partition: bool = False) -> None:
    marks = []
    if is_partition:
        marks.append("partition")
    if is_mapped:
        marks.append(f"id {column.metadata.get(FIELD_ID)} as {column.metadata.get(PHYSICAL_NAME)}")
    if (comment := column.metadata.get("comment")) is not None:
        marks.append(f"-- {comment}")
    _add_type(parent, column.name, column.type, column.nullable, is_mapped, "  ".join(marks))


def _add_type(parent: Tree, name: str, data_type: DataType, nullable: bool, is_mapped: bool, marks: str = "") -> None:
    label = Text(visible(name), style="bold")
    label.append(f": {_type_name(data_type)}{'' if nullable else ' not null'}", style="not bold")
    if marks:
        label.append(f"  {visible(marks)}", style="not bold dim")
    node = parent.add(label)
    if isinstance(data_type, StructType):
        for column in data_type:
            _add_field(node, column, is_mapped)
    elif not _fits_a_line(data_type):
        if isinstance(data_type, ArrayType):
            _add_type(node, "element", data_type.element_type, data_type.contains_null, is_mapped)
        elif isinstance(data_type, MapType):
            _add_type(node, "key", data_type.key_type, True, is_mapped)
            _add_type(node, "value", data_type.value_type, data_type.value_contains_null, is_mapped)


def _type_name(data_type: DataType) -> str:
    """Return the whole type if it fits a line, else only its kind; its parts follow below."""
    if _fits_a_line(data_type):
        return str(data_type)
    return {StructType: "struct", ArrayType: "array", MapType: "map"}[type(data_type)]


def _fits_a_line(data_type: DataType) -> bool:
    """Return whether the type's name is complete: without structs and without non-nullable elements."""
    if isinstance(data_type, ArrayType):
        return data_type.contains_null and _fits_a_line(data_type.element_type)
    if isinstance(data_type, MapType):
        parts = (data_type.key_type, data_type.value_type)
        return data_type.value_contains_null and all(_fits_a_line(part) for part in parts)
    return not isinstance(data_type, StructType)
