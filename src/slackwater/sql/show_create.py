"""Generates a CREATE TABLE statement for an existing table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slackwater.protocol.features.identity_columns import identity_column
from slackwater.protocol.schema.char_varchar import text_type
from slackwater.protocol.schema.schema import (
    COMMENT,
    CURRENT_DEFAULT,
    GENERATION_EXPRESSION,
    ArrayType,
    DataType,
    DecimalType,
    GeospatialType,
    MapType,
    StructField,
    StructType,
    VariantType,
)
from slackwater.sql.lexer import TokenCursor, quoted, tokens_of
from slackwater.sql.parameters import text_literal

_WORDS = {"long": "BIGINT", "integer": "INT", "short": "SMALLINT", "byte": "TINYINT"}
_ENDS_DEFAULT = ("COMMENT", "GENERATED", "FIRST", "AFTER", ",")


@dataclass(frozen=True)
class TableText:
    """Properties of a table in its definition. `name` and the paths in `clustered_by` are SQL."""

    name: str
    schema: StructType
    partitioned_by: Sequence[str] = ()
    clustered_by: Sequence[str] = ()
    comment: str | None = None
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def creation_text(table: TableText) -> str:
    """Return the statement, with one clause per line. `creation_of` parses it."""
    columns = ",\n".join(f"  {_column(column)}" for column in table.schema)
    lines = [f"CREATE TABLE {table.name} (\n{columns})", "USING delta"]
    if table.partitioned_by:
        lines.append(f"PARTITIONED BY ({', '.join(map(quoted, table.partitioned_by))})")
    if table.clustered_by:
        lines.append(f"CLUSTER BY ({', '.join(table.clustered_by)})")
    if table.comment is not None:
        lines.append(f"COMMENT {text_literal(table.comment)}")
    if table.location is not None:
        lines.append(f"LOCATION {text_literal(table.location)}")
    if table.properties:
        pairs = (f"  {text_literal(k)} = {text_literal(v)}" for k, v in sorted(table.properties.items()))
        lines.append("TBLPROPERTIES (\n" + ",\n".join(pairs) + ")")
    return "\n".join(lines) + "\n"


def _column(column: StructField) -> str:
    declared = text_type(column) or ""
    found = [quoted(column.name), declared.upper() if declared.startswith(("char", "varchar")) else _type(column.type)]
    if not column.nullable:
        found.append("NOT NULL")
    generated = column.metadata.get(GENERATION_EXPRESSION)
    if generated is not None:
        found.append(f"GENERATED ALWAYS AS ({generated})")
    identity = identity_column(column)
    if identity is not None:
        by = "BY DEFAULT" if identity.allow_explicit_insert else "ALWAYS"
        found.append(f"GENERATED {by} AS IDENTITY (START WITH {identity.start} INCREMENT BY {identity.step})")
    comment = column.metadata.get(COMMENT)
    if comment is not None:
        found.append(f"COMMENT {text_literal(comment)}")
    default = column.metadata.get(CURRENT_DEFAULT)
    if default is not None:
        found.append(f"DEFAULT {_default(default)}")
    return " ".join(found)


def _default(expression: str) -> str:
    """Return the expression, in parentheses if one of its words would end it."""
    cursor = TokenCursor(expression, tokens_of(expression) or [])
    return f"({expression})" if cursor.place_of(*_ENDS_DEFAULT) < cursor.end else expression


def _type(data_type: DataType) -> str:
    if isinstance(data_type, StructType):
        return f"STRUCT<{', '.join(_nested(column) for column in data_type)}>"
    if isinstance(data_type, ArrayType):
        return f"ARRAY<{_type(data_type.element_type)}>"
    if isinstance(data_type, MapType):
        return f"MAP<{_type(data_type.key_type)}, {_type(data_type.value_type)}>"
    if isinstance(data_type, DecimalType):
        return f"DECIMAL({data_type.precision},{data_type.scale})"
    if isinstance(data_type, VariantType):
        return "VARIANT"
    if isinstance(data_type, GeospatialType):
        # Spark's SQL names the system by its number.
        number = "4326" if data_type.crs == GeospatialType("").crs else data_type.crs.rpartition(":")[2]
        return f"{data_type.kind.upper()}({number})"
    word = _WORDS.get(data_type.name, data_type.name.upper())
    return word if data_type.collation is None else f"{word} COLLATE {data_type.collation.partition('.')[2]}"


def _nested(column: StructField) -> str:
    comment = column.metadata.get(COMMENT)
    said = "" if comment is None else f" COMMENT {text_literal(comment)}"
    return f"{quoted(column.name)}: {_type(column.type)}{'' if column.nullable else ' NOT NULL'}{said}"
