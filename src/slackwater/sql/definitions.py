"""Parsers of CREATE TABLE and REPLACE TABLE, and of column definitions for ALTER TABLE."""

from __future__ import annotations

from dataclasses import dataclass, field

from slackwater.errors import InvalidArgument, UnsupportedFeature
from slackwater.sql.lexer import OPENS_QUERY, SqlName, TokenCursor
from slackwater.sql.time_travel import Travel, travel_at

CREATE, CREATE_IF_NOT_EXISTS, REPLACE, CREATE_OR_REPLACE = (
    "create",
    "create if not exists",
    "replace",
    "create or replace",
)
_CONSTRAINTS = ("PRIMARY", "FOREIGN", "UNIQUE", "CHECK", "REFERENCES")
_TABLE_CONSTRAINTS = (("PRIMARY", "KEY"), ("FOREIGN", "KEY"), ("UNIQUE", "("), ("CHECK", "("))
_COLUMN_WORDS = ("NOT", "NULL", "GENERATED", "DEFAULT", "COMMENT", "FIRST", "AFTER", "CONSTRAINT", *_CONSTRAINTS, ",")


@dataclass(frozen=True)
class Identity:
    """GENERATED … AS IDENTITY (START WITH start INCREMENT BY step)."""

    always: bool
    start: int
    step: int


@dataclass(frozen=True)
class ColumnDefinition:
    """The definition of a column. `type` is DDL text, None for a bare name (PARTITIONED BY)."""

    name: SqlName
    type: str | None
    nullable: bool = True
    generated: str | None = None
    identity: Identity | None = None
    default: str | None = None
    comment: str | None = None
    first: bool = False
    after: str | None = None


@dataclass(frozen=True)
class TableCreation:
    """A parsed CREATE or REPLACE TABLE. At most one of `query`, `like` and `clones` is set."""

    mode: str
    table: SqlName
    columns: tuple[ColumnDefinition, ...] = ()
    provider: str | None = None
    partitioned_by: tuple[ColumnDefinition, ...] = ()
    clustered_by: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    comment: str | None = None
    location: str | None = None
    query: str | None = None
    like: SqlName | None = None
    clones: SqlName | None = None
    clones_travel: Travel | None = None
    refused: str | None = None


def creation_of(cursor: TokenCursor) -> TableCreation:
    """Parse the CREATE TABLE or REPLACE TABLE at the cursor. Raises InvalidArgument for another statement."""
    mode = REPLACE
    if cursor.accept("CREATE"):
        mode = CREATE_OR_REPLACE if cursor.accept("OR", "REPLACE") else CREATE
    else:
        cursor.expect("REPLACE")
    cursor.expect("TABLE")
    if cursor.accept("IF", "NOT", "EXISTS"):
        if mode != CREATE:
            raise InvalidArgument("IF NOT EXISTS is only valid with CREATE TABLE, not with REPLACE")
        mode = CREATE_IF_NOT_EXISTS
    found: dict[str, object] = {"mode": mode, "table": cursor.name()}
    if cursor.peek("("):
        found["columns"] = columns_in(cursor.inner())
    if cursor.accept("LIKE"):
        found["like"] = cursor.name()
    elif cursor.accept("SHALLOW", "CLONE") or cursor.accept("CLONE"):
        found["clones"] = cursor.name()
        travel = travel_at(cursor.text, cursor.tokens, cursor.at)
        if travel is not None:
            found["clones_travel"], cursor.at = travel
    elif cursor.accept("DEEP", "CLONE"):
        found["clones"] = cursor.name()
        found["refused"] = "DEEP CLONE: use SHALLOW CLONE, or CREATE TABLE … AS SELECT, for DEEP CLONE"
        cursor.rest()
    while not cursor.is_done:
        _add(found, *_clause(cursor), cursor.text.strip()[:200])
    return TableCreation(**found)  # type: ignore[arg-type]


def _clause(cursor: TokenCursor) -> tuple[str, object]:
    """Parse the next clause: the name of its field, and its value."""
    if cursor.accept("USING"):
        return "provider", cursor.name("a format").parts[-1].lower()
    if cursor.accept("PARTITIONED", "BY"):
        return "partitioned_by", columns_in(cursor.inner())
    if cursor.accept("CLUSTER", "BY"):
        return "clustered_by", () if cursor.accept("NONE") else paths_of(cursor)
    if cursor.accept("TBLPROPERTIES"):
        return "properties", properties_of(cursor)
    if cursor.accept("OPTIONS"):
        return "options", properties_of(cursor)
    if cursor.accept("COMMENT"):
        return "comment", cursor.literal()
    if cursor.accept("LOCATION"):
        return "location", cursor.literal()
    if cursor.ahead() in ("CLUSTERED", "SKEWED", "ROW", "STORED", "DEFAULT", "SORTED"):
        # Clause of other formats, or unknown. The caller reports the error.
        refused = cursor.ahead()
        cursor.rest()
        return "refused", refused
    cursor.accept("AS")
    if cursor.ahead() not in {"(", *OPENS_QUERY}:
        raise cursor.unexpected("a query after AS")
    return "query", cursor.rest()


def _add(found: dict[str, object], key: str, value: object, of: str) -> None:
    if key in found:
        raise InvalidArgument(f"{of} contains {key.replace('_', ' ')} more than once")
    found[key] = value


def paths_of(cursor: TokenCursor) -> tuple[str, ...]:
    """Parse the column paths in the next parentheses."""
    inner = cursor.inner()
    found = () if inner.is_done else tuple(inner.names())
    inner.done()
    return found


def columns_in(inner: TokenCursor) -> tuple[ColumnDefinition, ...]:
    """Parse column definitions separated by commas, to the end of the cursor."""
    if inner.is_done:
        return ()
    found = [column_of(inner)]
    while inner.accept(","):
        found.append(column_of(inner))
    inner.done()
    return tuple(found)


def column_of(cursor: TokenCursor) -> ColumnDefinition:
    """Parse the next column definition."""
    if any(cursor.peek(*words) for words in _TABLE_CONSTRAINTS) or (
        cursor.peek("CONSTRAINT") and cursor.ahead(2) in _CONSTRAINTS
    ):
        raise _constraint()
    name = cursor.name("a column")
    found: dict[str, object] = {"name": name, "type": type_of(cursor)}
    while not cursor.is_done and cursor.ahead() != ",":
        _add(found, *_descriptor(cursor), f"the column {name.text}")
    return ColumnDefinition(**found)  # type: ignore[arg-type]


def _descriptor(cursor: TokenCursor) -> tuple[str, object]:
    """Parse the next clause after a column type: the name of its field, and its value."""
    if cursor.accept("NOT", "NULL"):
        return "nullable", False
    if cursor.accept("NULL"):
        return "nullable", True
    if cursor.accept("DEFAULT"):
        return "default", _default(cursor)
    if cursor.accept("COMMENT"):
        return "comment", cursor.literal()
    if cursor.accept("FIRST"):
        return "first", True
    if cursor.accept("AFTER"):
        return "after", cursor.name("a column").parts[-1]
    if cursor.ahead() in ("CONSTRAINT", *_CONSTRAINTS):
        raise _constraint()
    return _generation(cursor)


def _constraint() -> UnsupportedFeature:
    return UnsupportedFeature(
        "constraints in CREATE TABLE are not supported. Create the table, then use ALTER TABLE … ADD CONSTRAINT name "
        "CHECK (…)"
    )


def _default(cursor: TokenCursor) -> str:
    """Parse the expression after DEFAULT. It may contain NOT and NULL, but NOT NULL after an operand ends it."""
    start = cursor.at
    while True:
        cursor.at = cursor.place_of("COMMENT", "NOT", "GENERATED", "DEFAULT", "FIRST", "AFTER", ",")
        goes_on = cursor.peek("NOT") and (cursor.ahead(1) != "NULL" or cursor.ahead(-1) == "IS" or cursor.at == start)
        if not goes_on:
            break
        cursor.at += 1
    if cursor.at == start:
        raise cursor.unexpected("a value")
    return cursor.between(start, cursor.at)


def _generation(cursor: TokenCursor) -> tuple[str, object]:
    cursor.expect("GENERATED")
    always = not cursor.accept("BY", "DEFAULT")
    if always:
        cursor.expect("ALWAYS")
    cursor.expect("AS")
    if cursor.accept("IDENTITY"):
        return "identity", _identity(cursor, always)
    if not always:
        raise cursor.unexpected("IDENTITY")
    return "generated", cursor.group("an expression in parentheses")


def type_of(cursor: TokenCursor) -> str | None:
    """Return the text of the next type, up to a keyword of column definitions outside of all brackets."""
    start, depth = cursor.at, 0
    if cursor.peek("("):
        raise UnsupportedFeature(
            "PARTITIONED BY expressions are not supported. Add a generated column, and partition by it"
        )
    while not cursor.is_done:
        upper = cursor.ahead()
        if depth == 0 and cursor.at > start and upper in _COLUMN_WORDS:
            break
        if depth == 0 and cursor.at == start and upper in _COLUMN_WORDS:
            return None
        depth += (upper in ("<", "(")) - (upper in (">", ")"))
        cursor.at += 1
    return cursor.between(start, cursor.at) or None


def _identity(cursor: TokenCursor, always: bool) -> Identity:
    start, step = 1, 1
    if cursor.peek("("):
        inner = cursor.inner()
        while not inner.is_done:
            if inner.accept("START", "WITH"):
                start = _whole(inner)
            elif inner.accept("INCREMENT", "BY"):
                step = _whole(inner)
            else:
                raise inner.unexpected("START WITH or INCREMENT BY")
            inner.accept(",")
    return Identity(always, start, step)


def _whole(cursor: TokenCursor) -> int:
    found = cursor.number("a whole number")
    try:
        return int(found)
    except ValueError:
        raise InvalidArgument(f"IDENTITY needs a whole number, found {found}") from None


def properties_of(cursor: TokenCursor) -> dict[str, str]:
    """Parse the pairs in the next parentheses: `'a.b' = 'c', d.e = true`."""
    inner = cursor.inner()
    found: dict[str, str] = {}
    while not inner.is_done:
        key = property_key(inner)
        inner.accept("=") or inner.accept("==")
        if inner.is_done or inner.ahead() == ",":
            raise inner.unexpected(f"a value of {key}")
        if key in found:
            raise InvalidArgument(f"the property {key} occurs more than once")
        if inner.sees_literal():
            found[key] = inner.literal()
        else:
            value = inner.until(",")
            found[key] = value.lower() if value.upper() in ("TRUE", "FALSE") else value
        if not inner.accept(","):
            inner.done()
        elif inner.is_done:
            raise inner.unexpected("a key")
    return found


def property_keys(cursor: TokenCursor) -> list[str]:
    """Parse the keys in the next parentheses."""
    inner = cursor.inner()
    found = [property_key(inner)]
    while inner.accept(","):
        found.append(property_key(inner))
    inner.done()
    return found


def property_key(cursor: TokenCursor) -> str:
    """Parse the next property key, in quotes or as a name."""
    return cursor.one_literal() if cursor.sees_literal() else ".".join(cursor.name("a key").parts)
