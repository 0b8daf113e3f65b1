"""Column paths: parsing, formatting, and lookup in a schema.

A path is a tuple of names from the table to the column: `("a", "b")` is field b of struct a. The step into an array is
`element`. The steps into a map are `key` and `value`. Lookup ignores case and prefers exact spellings.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from slackwater.errors import InvalidArgument
from slackwater.protocol.schema.schema import ArrayType, ColumnPath, DataType, MapType, StructField, StructType

ILLEGAL_CHARACTERS = " ,;{}()\n\t="
"""Characters forbidden in Parquet column names. With column mapping, files use physical names instead."""

_STEP = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")
_LISTED = re.compile(r"(?:`(?:[^`]|``)*`|[^,`])+")
# As Spark quotes names: its parser reads no other ones without backticks.
_PLAIN = re.compile(r"(?!\d+\Z)[A-Za-z0-9_]+\Z")


def parse_column_path(text: str) -> ColumnPath:
    """Return the path written in `text`: names separated by dots.

    A name with a dot or a backtick is quoted in backticks, with inner backticks doubled. Raises InvalidArgument for an
    empty name or an unpaired backtick.
    """
    names = []
    at = 0
    while match := _STEP.match(text, at):
        names.append(match[2] if match[1] is None else match[1].replace("``", "`"))
        at = match.end()
        if at == len(text):
            return tuple(names)
        if text[at] != ".":
            break
        at += 1
    raise InvalidArgument(
        f"not a column: {text!r}, at position {at + 1}. Separate names by dots, and quote a name that contains a dot "
        "or a backtick in backticks, as in `a.b`.c"
    )


def listed_column_paths(text: str) -> list[tuple[str, ColumnPath]]:
    """Return each path of a list separated by commas, with its text. An empty list has none.

    Raises InvalidArgument if an item is not a path.
    """
    items = _LISTED.findall(text)
    if text.strip() and len(items) != len(re.sub(_LISTED, "", text)) + 1:
        raise InvalidArgument(f"not names of columns separated by commas: {text!r}")
    listed = [item.strip() for item in items if text.strip()]
    return [(item, parse_column_path(item)) for item in listed]


def format_column_path(path: ColumnPath) -> str:
    """Return the text of `path`. `parse_column_path` is the inverse."""
    return ".".join(name if _PLAIN.match(name) else f"`{name.replace('`', '``')}`" for name in path)


def resolve_path(schema: StructType, path: ColumnPath) -> tuple[ColumnPath, DataType]:
    """Return `path` in the spelling of `schema`, and the type at `path`. The empty path is `schema` itself.

    Raises InvalidArgument if the column does not exist. The message lists the available names.
    """
    spelled: ColumnPath = ()
    found: DataType = schema
    for name in path:
        step, found = _step(found, name, spelled, path)
        spelled = (*spelled, step)
    return spelled, found


def has_path(schema: StructType, path: ColumnPath) -> bool:
    """Return whether `path` exists in `schema`, including the elements, keys and values of arrays and maps."""
    try:
        resolve_path(schema, path)
    except InvalidArgument:
        return False
    return True


def resolve_field(schema: StructType, path: ColumnPath) -> tuple[ColumnPath, StructField]:
    """Return `path` in the spelling of `schema`, and the field at `path`.

    Raises InvalidArgument if the column does not exist. Also raised for the `element`, `key` and `value` of an array or
    a map: these have a type, but are not fields.
    """
    spelled, _ = resolve_path(schema, path)
    parent = resolve_path(schema, spelled[:-1])[1]
    column = parent.get(spelled[-1]) if spelled and isinstance(parent, StructType) else None
    if column is None:
        raise InvalidArgument(
            f"not a column: {format_column_path(path)!r}. Elements of arrays and maps have a type, but no name, "
            "comment, default or nullability to change"
        )
    return spelled, column


def with_type_at(schema: StructType, path: ColumnPath, change: Callable[[DataType], DataType]) -> StructType:
    """Return `schema` with `change` applied to the type at `path`; the empty path is the schema itself.

    Raises InvalidArgument if the column does not exist, or if the new schema is not a struct.
    """
    changed = _changed(schema, resolve_path(schema, path)[0], change)
    if not isinstance(changed, StructType):
        raise InvalidArgument(f"a schema must be a struct, not {changed}")
    return changed


def with_field_at(schema: StructType, path: ColumnPath, change: Callable[[StructField], StructField]) -> StructType:
    """Return `schema` with `change` applied to the field at `path`.

    Raises InvalidArgument if `path` is not a field (see `resolve_field`).
    """
    spelled, column = resolve_field(schema, path)
    parent = resolve_path(schema, spelled[:-1])[1]
    fields = parent.fields if isinstance(parent, StructType) else ()
    changed = StructType(tuple(change(f) if f.name == column.name else f for f in fields))
    return with_type_at(schema, spelled[:-1], lambda _: changed)


def _changed(data_type: DataType, path: ColumnPath, change: Callable[[DataType], DataType]) -> DataType:
    if not path:
        return change(data_type)
    name, inside = _step(data_type, path[0], (), path)
    inner = _changed(inside, path[1:], change)
    if isinstance(data_type, StructType):
        return StructType(tuple(replace(f, type=inner) if f.name == name else f for f in data_type))
    if isinstance(data_type, ArrayType):
        return replace(data_type, element_type=inner)
    if isinstance(data_type, MapType):
        return replace(data_type, key_type=inner) if name == "key" else replace(data_type, value_type=inner)
    return data_type


def _step(data_type: DataType, name: str, spelled: ColumnPath, path: ColumnPath) -> tuple[str, DataType]:
    """Return the spelling and the type of `name` inside `data_type`, one step of `path` after `spelled`."""
    if isinstance(data_type, StructType):
        column = data_type.get(name)
        if column is not None:
            return column.name, column.type
        known = f"{format_column_path(spelled)} has the fields" if spelled else "the columns are"
        there = f"{known} {', '.join(data_type.names)}"
    elif isinstance(data_type, ArrayType):
        if name.lower() == "element":
            return "element", data_type.element_type
        there = f"{format_column_path(spelled)} is an array, with the step 'element'"
    elif isinstance(data_type, MapType):
        if name.lower() in ("key", "value"):
            return name.lower(), data_type.key_type if name.lower() == "key" else data_type.value_type
        there = f"{format_column_path(spelled)} is a map, with the steps 'key' and 'value'"
    else:
        there = f"{format_column_path(spelled)} has the type {data_type}"
    raise InvalidArgument(
        f"no column {format_column_path(path)}: {there}",
        error_class="DELTA_COLUMN_NOT_FOUND_IN_SCHEMA",
    )
