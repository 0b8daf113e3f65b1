"""Parsers of DELETE, UPDATE, MERGE and INSERT. Names, conditions and values keep their original text."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.errors import InvalidArgument
from slackwater.sql.lexer import OPENS_QUERY, SqlName, TokenCursor, is_behind_dot, wants_operand

UPDATE, DELETE, INSERT = "update", "delete", "insert"
MATCHED, NOT_MATCHED, NOT_MATCHED_BY_SOURCE = "matched", "not matched", "not matched by source"
# After a condition, MAP( and REDUCE( are functions in the condition.
_ENDS_CONDITION = OPENS_QUERY - {"MAP", "REDUCE"}
_COMPARISONS = ("=", "==", "<=>", "<", "<=", ">", ">=", "<>", "!=", "IS", "IN")
_ALIAS_ENDS = ("WHERE", "SET", "USING", "ON", "WHEN")


@dataclass(frozen=True)
class Delete:
    """`DELETE FROM table [alias] [WHERE condition]`."""

    table: SqlName
    alias: str | None
    condition: str | None


@dataclass(frozen=True)
class Update:
    """`UPDATE table [alias] SET column = value, … [WHERE condition]`. Columns are paths in their original text."""

    table: SqlName
    alias: str | None
    values: dict[str, str]
    condition: str | None


@dataclass(frozen=True)
class Clause:
    """A WHEN clause of a MERGE. `values` is None for all columns (`*`)."""

    kind: str
    action: str
    condition: str | None
    values: dict[str, str] | None


@dataclass(frozen=True)
class Merge:
    """`MERGE INTO table [alias] USING source [alias] ON condition WHEN …`. The source is a relation in SQL."""

    table: SqlName
    alias: str | None
    source: str
    condition: str
    clauses: tuple[Clause, ...]
    evolves: bool


@dataclass(frozen=True)
class Insert:
    """INSERT. `columns` is None without a column list; the `replace_…` fields hold the condition or columns of REPLACE.

    `query` is the whole query for the rows, including common tables before INSERT. `alias` and `query_alias` are the
    names of the table and the rows in `replace_on`.
    """

    table: SqlName
    overwrites: bool
    columns: tuple[str, ...] | None
    by_name: bool
    evolves: bool
    partition: str | None
    replace_where: str | None
    replace_using: tuple[str, ...] | None
    replace_on: str | None
    query: str
    alias: str | None = None
    query_alias: str | None = None


def delete_of(cursor: TokenCursor) -> Delete:
    """Parse the DELETE at the cursor. Raises InvalidArgument for another statement."""
    cursor.expect("DELETE", "FROM")
    table, alias = cursor.name(), _alias(cursor)
    condition = _where(cursor)
    cursor.done()
    return Delete(table, alias, condition)


def update_of(cursor: TokenCursor) -> Update:
    """Parse the UPDATE at the cursor. Raises InvalidArgument for another statement."""
    cursor.expect("UPDATE")
    table, alias = cursor.name(), _alias(cursor)
    cursor.expect("SET")
    values = _assignments(cursor, ("WHERE",))
    condition = _where(cursor)
    cursor.done()
    return Update(table, alias, values, condition)


def merge_of(cursor: TokenCursor) -> Merge:
    """Parse the MERGE at the cursor. Raises InvalidArgument for another statement."""
    cursor.expect("MERGE")
    evolves = cursor.accept("WITH", "SCHEMA", "EVOLUTION")
    cursor.expect("INTO")
    table, alias = cursor.name(), _alias(cursor)
    cursor.expect("USING")
    source = _some(cursor, "a table or a query in parentheses", "ON")
    cursor.expect("ON")
    condition = _some(cursor, "a condition", "WHEN")
    clauses = []
    while cursor.accept("WHEN"):
        clauses.append(_clause(cursor))
    cursor.done()
    if not clauses:
        raise cursor.unexpected("WHEN MATCHED or WHEN NOT MATCHED")
    return Merge(table, alias, source, condition, tuple(clauses), evolves)


def insert_of(cursor: TokenCursor) -> Insert:
    """Parse the INSERT at the cursor, or the WITH before the INSERT. Raises InvalidArgument for another statement."""
    common = cursor.until("INSERT") if cursor.peek("WITH") else ""
    cursor.expect("INSERT")
    evolves = cursor.accept("WITH", "SCHEMA", "EVOLUTION")
    overwrites = cursor.accept("OVERWRITE")
    if not overwrites:
        cursor.expect("INTO")
    cursor.accept("TABLE")
    table = cursor.name()
    partition = cursor.group() if cursor.accept("PARTITION") else None
    if cursor.peek("IF", "NOT", "EXISTS"):
        raise cursor.unexpected("rows; only other formats support IF NOT EXISTS")
    by_name = cursor.accept("BY", "NAME")
    columns = None
    alias = _insert_alias(cursor)
    if cursor.peek("(") and not _opens_query(cursor):
        columns = tuple(_names(cursor))
    if cursor.accept("BY", "NAME"):
        raise InvalidArgument("INSERT takes a list of columns, or BY NAME, not both")
    where = using = on = None
    if cursor.accept("REPLACE", "WHERE"):
        where = _until_query(cursor)
    elif cursor.accept("REPLACE", "USING"):
        using = tuple(_names(cursor))
    elif cursor.accept("REPLACE", "ON"):
        on = _until_query(cursor)
    query, query_alias = _rows(cursor, common, is_named=on is not None)
    return Insert(table, overwrites, columns, by_name, evolves, partition, where, using, on, query, alias, query_alias)


def _rows(cursor: TokenCursor, common: str, is_named: bool) -> tuple[str, str | None]:
    """Return the query at the cursor with the common tables before INSERT, and its alias, if it `is_named`."""
    if cursor.ahead() not in {"(", *OPENS_QUERY}:
        raise cursor.unexpected("rows: VALUES or a query")
    opens_with, alias = cursor.peek("WITH"), None
    if is_named and cursor.peek("("):
        start = cursor.at
        cursor.group_places()
        query = cursor.between(start, cursor.at)
        alias = _alias(cursor)
        cursor.done()
    else:
        query = cursor.rest()
    # A nested WITH sees the tables of the outer WITH.
    return (f"{common} ({query})" if common and opens_with else f"{common} {query}".strip()), alias


def _insert_alias(cursor: TokenCursor) -> str | None:
    """Parse the alias of the table, only valid with REPLACE ON."""
    if cursor.peek("AS"):
        return _alias(cursor)
    is_alias = not cursor.is_done and cursor.tokens[cursor.at].is_name and cursor.ahead(1) == "REPLACE"
    return _alias(cursor) if is_alias and not cursor.peek("REPLACE", "ON") else None


def _until_query(cursor: TokenCursor) -> str:
    """Return the condition before a query, and advance to the query. Both may start with a parenthesis."""
    start = cursor.at
    while not cursor.is_done and not (cursor.at > start and _begins_rows(cursor)):
        if cursor.peek("("):
            cursor.group_places()
        else:
            cursor.at += 1
    if cursor.at == start:
        raise cursor.unexpected("a condition")
    return cursor.between(start, cursor.at)


def _begins_rows(cursor: TokenCursor) -> bool:
    """Return whether the rows begin at the cursor. False if an operand must follow, and inside IS DISTINCT FROM."""
    if wants_operand(cursor.tokens, cursor.at) or is_behind_dot(cursor.tokens, cursor.at):
        return False
    if cursor.ahead(-1) in ("IN", "EXISTS", "DISTINCT"):
        return False
    return _opens_query(cursor)


def _opens_query(cursor: TokenCursor) -> bool:
    offset = 0
    while cursor.ahead(offset) == "(":
        offset += 1
    # A column may have the same name.
    return cursor.ahead(offset) in _ENDS_CONDITION and cursor.ahead(offset + 1) not in (",", ")", ".", *_COMPARISONS)


def _names(cursor: TokenCursor, what: str = "(") -> list[str]:
    """Parse the column names in the next parentheses."""
    inner = cursor.inner(what)
    found = inner.names()
    inner.done()
    return found


def _alias(cursor: TokenCursor) -> str | None:
    if not cursor.accept("AS") and (cursor.ahead() in _ALIAS_ENDS or cursor.is_done):
        return None
    name = cursor.name("an alias")
    if len(name.parts) != 1:
        raise InvalidArgument(f"an alias must have one part, found {name.text}")
    return name.parts[0]


def _where(cursor: TokenCursor) -> str | None:
    if not cursor.accept("WHERE"):
        return None
    condition = cursor.rest()
    if not condition:
        raise cursor.unexpected("a condition")
    return condition


def _assignments(cursor: TokenCursor, ends: tuple[str, ...]) -> dict[str, str]:
    values: dict[str, str] = {}
    while True:
        column = cursor.name("a column").text
        if not cursor.accept("=") and not cursor.accept("=="):
            raise cursor.unexpected("=")
        value = _some(cursor, "a value", ",", *ends)
        if column in values:
            raise InvalidArgument(
                f"the column {column} is assigned more than once", error_class="DELTA_DUPLICATE_COLUMNS_ON_UPDATE_TABLE"
            )
        values[column] = value
        if not cursor.accept(","):
            return values


def _clause(cursor: TokenCursor) -> Clause:
    if cursor.accept("MATCHED"):
        kind = MATCHED
    else:
        cursor.expect("NOT", "MATCHED")
        kind = NOT_MATCHED_BY_SOURCE if cursor.accept("BY", "SOURCE") else NOT_MATCHED
        if kind == NOT_MATCHED:
            cursor.accept("BY", "TARGET")
    condition = None
    if cursor.accept("AND"):
        condition = _some(cursor, "a condition", "THEN")
    cursor.expect("THEN")
    action = cursor.accept_any("UPDATE", "DELETE", "INSERT")
    if action is None or (action == "INSERT") != (kind == NOT_MATCHED):
        raise cursor.unexpected("INSERT" if kind == NOT_MATCHED else "UPDATE or DELETE")
    if action == "DELETE":
        return Clause(kind, DELETE, condition, None)
    if action == "UPDATE":
        cursor.expect("SET")
        if kind == MATCHED and cursor.accept("*"):
            return Clause(kind, UPDATE, condition, None)
        return Clause(kind, UPDATE, condition, _assignments(cursor, ("WHEN",)))
    if cursor.accept("*"):
        return Clause(kind, INSERT, condition, None)
    columns = _names(cursor, "the columns, or *")
    cursor.expect("VALUES")
    values = _values(cursor.inner())
    if len(values) != len(columns):
        raise InvalidArgument(
            f"INSERT has {len(columns)} columns and {len(values)} values",
            error_class="DELTA_INSERT_COLUMN_ARITY_MISMATCH",
        )
    if len(set(columns)) != len(columns):
        raise InvalidArgument(
            f"INSERT names a column more than once: {', '.join(columns)}",
            error_class="DELTA_DUPLICATE_COLUMNS_ON_INSERT",
        )
    return Clause(kind, INSERT, condition, dict(zip(columns, values, strict=True)))


def _values(inner: TokenCursor) -> list[str]:
    """Parse expressions separated by commas, to the end."""
    found = [_some(inner, "a value", ",")]
    while inner.accept(","):
        found.append(_some(inner, "a value", ","))
    return found


def _some(cursor: TokenCursor, what: str, *ends: str) -> str:
    """Return the text up to the next of `ends`. Raises SqlSyntaxError if the text is empty."""
    found = cursor.until(*ends)
    if not found:
        raise cursor.unexpected(what)
    return found
