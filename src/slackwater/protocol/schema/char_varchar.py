"""Texts of a limited length: columns of type CHAR(n) and VARCHAR(n) are strings, whose type is in their metadata.

The metadata of a column of the top level has the type of the whole column, as Spark spells types. Other writers leave
it as it was when fields of a struct are renamed, moved or dropped.
Source: Spark's CharVarcharUtils, which delta-spark's tables follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from slackwater.errors import InvalidArgument
from slackwater.protocol.schema.column_paths import format_column_path, parse_column_path
from slackwater.protocol.schema.schema import (
    ArrayType,
    ColumnPath,
    DataType,
    MapType,
    StructField,
    StructType,
    is_string,
    walk_fields,
    without_metadata,
)

_LIMITED = re.compile(r"(var)?char\((\d+)\)")
_NAME = re.compile(r"`(?:[^`]|``)*`|[^:`]+")
_LEAF = re.compile(r"[^<>,()]+(?:\([^()]*\))?")
SPARK_NAMES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}
"""Spark's names of the types that have another name in the schema of a table."""

TEXT_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
"""The key of the type, `varchar(3)` or `array<char(2)>`, in the metadata of a column of the top level."""

_Node = str | tuple[str, "list[tuple[str, _Node]]"]


def text_type(column: StructField) -> str | None:
    """The type of a column by Spark's names, if texts in it have a limited length."""
    limits = text_limits(column)
    return _text(column.type, limits, ()) if limits else None


def text_limits(column: StructField) -> dict[ColumnPath, str]:
    """The types CHAR(n) and VARCHAR(n) of the texts in `column`, by their paths inside it: () is the column itself.

    Fields of structs match by name; those that are left match in their order, if as many are left on both sides. A
    type that cannot be parsed limits nothing.
    """
    found = dict(_declared(column, ()))
    for path, field in walk_fields(column.type):
        found.update(_declared(field, path))
    return found


def schema_limits(schema: StructType) -> dict[ColumnPath, str]:
    """The same of all columns, by their paths in the schema."""
    return {(column.name, *path): kind for column in schema for path, kind in text_limits(column).items()}


def with_limits(schema: StructType, limits: Mapping[ColumnPath, str]) -> StructType:
    """`schema` whose texts have exactly `limits`, in the metadata of the columns of the top level."""
    return StructType(tuple(_with_limits(c, {p[1:]: k for p, k in limits.items() if p[0] == c.name}) for c in schema))


def is_padded(column: StructField) -> bool:
    """Return whether the column is CHAR(n). Its values are padded with spaces to the declared length."""
    return (text_type(column) or "").lower().startswith("char")


def is_longer(before: str | None, after: str) -> bool:
    """Return whether type `after` allows every text of type `before`: VARCHAR(n) or the same type."""
    found = [_LIMITED.fullmatch(text.lower()) for text in (before or "", after)]
    old, new = found
    if old is None or new is None:
        return False
    return old[0] == new[0] or (new[1] is not None and int(old[2]) <= int(new[2]))


def _with_limits(column: StructField, limits: Mapping[ColumnPath, str]) -> StructField:
    if not limits and not text_limits(column):
        return column
    (plain,) = without_metadata(StructType((column,)), lambda key: key == TEXT_TYPE)
    if not limits:
        return plain
    return replace(plain, metadata={**plain.metadata, TEXT_TYPE: _text(column.type, limits, ())})


def _declared(column: StructField, path: ColumnPath) -> Iterator[tuple[ColumnPath, str]]:
    text = column.metadata.get(TEXT_TYPE)
    if isinstance(text, str):
        try:
            node = _Parser(text).whole()
        except InvalidArgument:
            return
        yield from _matched(node, column.type, path)


def _matched(node: _Node, data_type: DataType, path: ColumnPath) -> Iterator[tuple[ColumnPath, str]]:
    if isinstance(node, str):
        if is_string(data_type) and _LIMITED.fullmatch(node.lower()):
            yield path, node
        return
    kind, parts = node
    if kind == "array" and isinstance(data_type, ArrayType):
        yield from _matched(parts[0][1], data_type.element_type, (*path, "element"))
    elif kind == "map" and isinstance(data_type, MapType) and len(parts) == 2:
        yield from _matched(parts[0][1], data_type.key_type, (*path, "key"))
        yield from _matched(parts[1][1], data_type.value_type, (*path, "value"))
    elif kind == "struct" and isinstance(data_type, StructType):
        for part, field in _pairs(parts, data_type):
            yield from _matched(part, field.type, (*path, field.name))


def _pairs(parts: list[tuple[str, _Node]], struct: StructType) -> Iterator[tuple[_Node, StructField]]:
    named = {name.lower(): part for name, part in parts}
    present = {field.name.lower() for field in struct}
    yield from ((named[field.name.lower()], field) for field in struct if field.name.lower() in named)
    left = [part for name, part in parts if name.lower() not in present]
    others = [field for field in struct if field.name.lower() not in named]
    if len(left) == len(others):
        yield from zip(left, others, strict=True)


def _text(data_type: DataType, limits: Mapping[ColumnPath, str], path: ColumnPath) -> str:
    if isinstance(data_type, StructType):
        fields = (f"{format_column_path((f.name,))}:{_text(f.type, limits, (*path, f.name))}" for f in data_type)
        return f"struct<{','.join(fields)}>"
    if isinstance(data_type, ArrayType):
        return f"array<{_text(data_type.element_type, limits, (*path, 'element'))}>"
    if isinstance(data_type, MapType):
        key = _text(data_type.key_type, limits, (*path, "key"))
        return f"map<{key},{_text(data_type.value_type, limits, (*path, 'value'))}>"
    return limits.get(path) or SPARK_NAMES.get(str(data_type), str(data_type))


@dataclass(slots=True)
class _Parser:
    """A type by Spark's names: a leaf as its text, others as their kind and their parts."""

    text: str
    at: int = 0

    def whole(self) -> _Node:
        node = self.node()
        if self.at != len(self.text):
            raise self.malformed()
        return node

    def node(self) -> _Node:
        leaf = self.take(_LEAF).strip()
        kind = leaf.lower()
        if kind not in ("array", "map", "struct") or not self.takes("<"):
            return leaf
        parts: list[tuple[str, _Node]] = []
        while not (parts and self.takes(">")):
            if parts and not self.takes(","):
                raise self.malformed()
            name = ""
            if kind == "struct":
                name = self.take(_NAME).strip()
                name = parse_column_path(name)[0] if name.startswith("`") else name
                if not self.takes(":"):
                    raise self.malformed()
            parts.append((name, self.node()))
        return kind, parts

    def take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            raise self.malformed()
        self.at = match.end()
        return match[0]

    def takes(self, sign: str) -> bool:
        if not self.text.startswith(sign, self.at):
            return False
        self.at += 1
        return True

    def malformed(self) -> InvalidArgument:
        return InvalidArgument(f"not a type: {self.text!r}, at position {self.at + 1}")
