"""Parsers of ALTER TABLE and COMMENT ON TABLE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from slackwater.errors import InvalidArgument
from slackwater.sql.definitions import (
    ColumnDefinition,
    column_of,
    columns_in,
    paths_of,
    properties_of,
    property_keys,
    type_of,
)
from slackwater.sql.lexer import SqlName, TokenCursor


@dataclass(frozen=True)
class AddColumns:
    """ADD COLUMNS: column definitions with paths for names."""

    columns: tuple[ColumnDefinition, ...]


@dataclass(frozen=True)
class DropColumns:
    """DROP COLUMNS: column paths in SQL."""

    columns: tuple[str, ...]
    if_exists: bool


@dataclass(frozen=True)
class RenameColumn:
    """RENAME COLUMN: a column path in SQL, and the new name."""

    column: str
    new: str


@dataclass(frozen=True)
class ColumnClause:
    """Changes of the column at a path in SQL. None and False mean no change.

    `default` is "" to drop the default.
    """

    column: str
    type: str | None = None
    comment: str | None = None
    nullable: bool | None = None
    default: str | None = None
    first: bool = False
    after: str | None = None
    syncs_identity: bool = False


@dataclass(frozen=True)
class ChangeColumns:
    """ALTER COLUMN and CHANGE COLUMN."""

    clauses: tuple[ColumnClause, ...]


@dataclass(frozen=True)
class ReplaceColumns:
    """REPLACE COLUMNS."""

    columns: tuple[ColumnDefinition, ...]


@dataclass(frozen=True)
class SetProperties:
    """SET TBLPROPERTIES."""

    properties: dict[str, str]


@dataclass(frozen=True)
class UnsetProperties:
    """UNSET TBLPROPERTIES."""

    keys: tuple[str, ...]
    if_exists: bool


@dataclass(frozen=True)
class AddConstraint:
    """ADD CONSTRAINT, with the condition in SQL."""

    name: str
    condition: str


@dataclass(frozen=True)
class DropConstraint:
    """DROP CONSTRAINT."""

    name: str
    if_exists: bool


@dataclass(frozen=True)
class ClusterBy:
    """CLUSTER BY: column paths in SQL, empty for NONE."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class DropFeature:
    """DROP FEATURE."""

    name: str
    truncates_history: bool


@dataclass(frozen=True)
class CatalogAlteration:
    """A change of the catalog entry: RENAME TO `name`, or SET LOCATION."""

    words: str
    name: tuple[str, ...] | None = None


@dataclass(frozen=True)
class UnsupportedAlteration:
    """A clause unsupported for Delta tables, and the alternative."""

    words: str
    instead: str


Alteration: TypeAlias = (
    AddColumns
    | DropColumns
    | RenameColumn
    | ChangeColumns
    | ReplaceColumns
    | SetProperties
    | UnsetProperties
    | AddConstraint
    | DropConstraint
    | ClusterBy
    | DropFeature
    | CatalogAlteration
    | UnsupportedAlteration
)

_PARTITIONS = "its partitions come and go with its rows. Use DELETE FROM … WHERE, or write rows"
_FORMAT = "its files are Parquet and are not read by a SerDe"
_OTHERS = {
    ("PARTITION",): _PARTITIONS,
    ("ADD", "PARTITION"): _PARTITIONS,
    ("ADD", "IF", "NOT", "EXISTS", "PARTITION"): _PARTITIONS,
    ("DROP", "PARTITION"): _PARTITIONS,
    ("DROP", "IF", "EXISTS", "PARTITION"): _PARTITIONS,
    ("RECOVER", "PARTITIONS"): "the log names the files of all its partitions",
    ("SET", "SERDE"): _FORMAT,
    ("SET", "SERDEPROPERTIES"): _FORMAT,
    ("UNSET", "SERDEPROPERTIES"): _FORMAT,
    ("DEFAULT", "COLLATION"): "its texts are compared byte by byte",
}


def alteration_of(cursor: TokenCursor) -> tuple[SqlName, Alteration]:
    """Parse the ALTER TABLE at the cursor. Raises InvalidArgument for another statement."""
    cursor.expect("ALTER", "TABLE")
    table = cursor.name()
    found = _alteration(cursor)
    cursor.done()
    return table, found


def _alteration(cursor: TokenCursor) -> Alteration:
    for words, instead in _OTHERS.items():
        if cursor.accept(*words):
            cursor.rest()
            return UnsupportedAlteration(" ".join(words), instead)
    word = cursor.accept_any(*_ACTIONS)
    if word is None:
        raise cursor.unexpected("what to alter, one of " + ", ".join(_ACTIONS))
    return _ACTIONS[word](cursor)


def _add(cursor: TokenCursor) -> Alteration:
    if cursor.accept("CONSTRAINT"):
        name = cursor.name("the name of a constraint").parts[-1]
        cursor.expect("CHECK")
        found = AddConstraint(name, cursor.group("a condition in parentheses"))
        cursor.accept("ENFORCED")
        return found
    if cursor.accept_any("COLUMN", "COLUMNS") is None:
        raise cursor.unexpected("COLUMNS or CONSTRAINT")
    return AddColumns(_definitions(cursor))


def _definitions(cursor: TokenCursor) -> tuple[ColumnDefinition, ...]:
    if cursor.peek("("):
        return columns_in(cursor.inner())
    found = [column_of(cursor)]
    while cursor.accept(","):
        found.append(column_of(cursor))
    return tuple(found)


def _drop(cursor: TokenCursor) -> Alteration:
    if cursor.accept("FEATURE"):
        name = cursor.literal() if cursor.sees_literal() else cursor.name("the name of a feature").parts[-1]
        return DropFeature(name, cursor.accept("TRUNCATE", "HISTORY"))
    what = cursor.accept_any("CONSTRAINT", "COLUMN", "COLUMNS")
    if what is None:
        raise cursor.unexpected("COLUMNS, CONSTRAINT or FEATURE")
    if_exists = cursor.accept("IF", "EXISTS")
    if what == "CONSTRAINT":
        return DropConstraint(cursor.name("the name of a constraint").parts[-1], if_exists)
    if cursor.peek("("):
        return DropColumns(paths_of(cursor), if_exists)
    return DropColumns(tuple(cursor.names()), if_exists)


def _rename(cursor: TokenCursor) -> Alteration:
    if cursor.accept("TO"):
        return CatalogAlteration("RENAME TO", cursor.name().parts)
    cursor.expect("COLUMN")
    column = cursor.name("a column").text
    cursor.expect("TO")
    new = cursor.name("a name")
    if len(new.parts) != 1:
        raise InvalidArgument(f"RENAME COLUMN {column}: the new name must be one name, not a path, found {new.text}")
    return RenameColumn(column, new.parts[0])


def _alter_column(cursor: TokenCursor) -> Alteration:
    cursor.accept_any("COLUMN", "COLUMNS")
    found = [_column_clause(cursor)]
    while cursor.accept(","):
        found.append(_column_clause(cursor))
    return ChangeColumns(tuple(found))


def _change_column(cursor: TokenCursor) -> Alteration:
    """Parse `CHANGE COLUMN a a type COMMENT …`, or a clause of ALTER COLUMN."""
    start = cursor.at
    cursor.accept("COLUMN")
    column = cursor.name("a column")
    if cursor.ahead() in ("TYPE", "COMMENT", "FIRST", "AFTER", "SET", "DROP", "SYNC"):
        cursor.at = start
        return _alter_column(cursor)
    new = column_of(cursor)
    if new.name.parts[-1].lower() != column.parts[-1].lower():
        raise InvalidArgument(f"CHANGE COLUMN does not rename {column.text}. Use RENAME COLUMN … TO {new.name.text}")
    nullable = None if new.nullable else False
    clause = ColumnClause(column.text, new.type, new.comment, nullable, new.default, new.first, new.after)
    return ChangeColumns((clause,))


def _column_clause(cursor: TokenCursor) -> ColumnClause:
    column = cursor.name("a column").text
    if cursor.accept("TYPE"):
        return ColumnClause(column, type=type_of(cursor))
    if cursor.accept("COMMENT"):
        return ColumnClause(column, comment=cursor.literal())
    if cursor.accept("FIRST"):
        return ColumnClause(column, first=True)
    if cursor.accept("AFTER"):
        return ColumnClause(column, after=cursor.name("a column").parts[-1])
    if cursor.accept("SET", "NOT", "NULL"):
        return ColumnClause(column, nullable=False)
    if cursor.accept("DROP", "NOT", "NULL"):
        return ColumnClause(column, nullable=True)
    if cursor.accept("DROP", "DEFAULT"):
        return ColumnClause(column, default="")
    if cursor.accept("SET", "DEFAULT"):
        default = cursor.until(",")
        if not default:
            raise cursor.unexpected("an expression after SET DEFAULT")
        return ColumnClause(column, default=default)
    if cursor.accept("SYNC", "IDENTITY"):
        return ColumnClause(column, syncs_identity=True)
    raise cursor.unexpected("TYPE, COMMENT, FIRST, AFTER, SET, DROP or SYNC IDENTITY")


def _replace(cursor: TokenCursor) -> Alteration:
    cursor.expect("COLUMNS")
    return ReplaceColumns(columns_in(cursor.inner()))


def _set(cursor: TokenCursor) -> Alteration:
    if cursor.accept("LOCATION"):
        cursor.literal()
        return CatalogAlteration("SET LOCATION")
    cursor.expect("TBLPROPERTIES")
    return SetProperties(properties_of(cursor))


def _unset(cursor: TokenCursor) -> Alteration:
    cursor.expect("TBLPROPERTIES")
    if_exists = cursor.accept("IF", "EXISTS")
    return UnsetProperties(tuple(property_keys(cursor)), if_exists)


def _cluster(cursor: TokenCursor) -> Alteration:
    cursor.expect("BY")
    return ClusterBy(() if cursor.accept("NONE") else paths_of(cursor))


_ACTIONS: dict[str, Callable[[TokenCursor], Alteration]] = {
    "ADD": _add,
    "DROP": _drop,
    "RENAME": _rename,
    "ALTER": _alter_column,
    "CHANGE": _change_column,
    "REPLACE": _replace,
    "SET": _set,
    "UNSET": _unset,
    "CLUSTER": _cluster,
}


def comment_of(cursor: TokenCursor) -> tuple[SqlName, str | None]:
    """Return the table and the text of the COMMENT ON TABLE at the cursor, None for NULL. Raises InvalidArgument."""
    cursor.expect("COMMENT", "ON", "TABLE")
    name = cursor.name()
    cursor.expect("IS")
    text = None if cursor.accept("NULL") else cursor.literal()
    cursor.done()
    return name, text
