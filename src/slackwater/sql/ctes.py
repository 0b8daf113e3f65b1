"""Moves common tables of `WITH c AS (…)` before DELETE, UPDATE and MERGE into the queries of the statement.

Source: Spark's grammar, with common tables before every statement that changes rows.
"""

from __future__ import annotations

from slackwater.errors import UnsupportedFeature
from slackwater.sql.lexer import TokenCursor, name_at
from slackwater.sql.text_edits import TextEdit, apply_edits

_CHANGES = ("DELETE", "UPDATE", "MERGE")
_QUERIES = ("SELECT", "FROM", "VALUES", "TABLE")


def with_tables_inside(cursor: TokenCursor) -> str | None:
    """Return the DELETE, UPDATE or MERGE with the common tables inside its queries. None for other statements.

    Raises UnsupportedFeature for recursive common tables, SqlSyntaxError for other malformed text.
    """
    cursor.expect("WITH")
    is_recursive = cursor.accept("RECURSIVE")
    start, names = cursor.at, []
    while True:
        names.append(cursor.name("the name of a common table").parts[-1].lower())
        if cursor.peek("("):
            cursor.group()
        if cursor.accept("MAX", "RECURSION", "LEVEL"):
            cursor.number()
        cursor.accept("AS")
        cursor.group()
        if not cursor.accept(","):
            break
    if cursor.ahead() not in _CHANGES:
        return None
    if is_recursive:
        raise UnsupportedFeature(
            f"WITH RECURSIVE … {cursor.ahead()} is not supported for a Delta table. Create a temporary view of the "
            "query, and use the view"
        )
    tables, first = cursor.between(start, cursor.at), cursor.at
    begin = cursor.tokens[first].start
    # No edit lies before the DELETE, UPDATE or MERGE, so its offset is unchanged.
    return apply_edits(cursor.text, _moved(cursor, first, tables, names))[begin:]


def _moved(cursor: TokenCursor, first: int, tables: str, names: list[str]) -> list[TextEdit]:
    """Return edits that insert `tables` into each outermost query after the token `first`, and into a USING source."""
    tokens, found, depth_end = cursor.tokens, [], first
    for at in range(first, cursor.end):
        token = tokens[at]
        if at < depth_end:
            continue
        if token.upper == "(" and at + 1 < cursor.end:
            inner = TokenCursor(cursor.text, tokens, at, cursor.end)
            _, stop = inner.group_places()
            follows = tokens[at + 1]
            if follows.upper == "WITH":
                found.append(TextEdit(follows.end, follows.end, f" {tables},"))
            elif follows.upper in _QUERIES:
                found.append(TextEdit(token.end, token.end, f"WITH {tables} "))
            else:
                continue
            depth_end = stop
        elif token.upper == "USING":
            name = name_at(tokens, at + 1)
            if name is not None and len(name.parts) == 1 and name.parts[0].lower() in names:
                alias = tokens[name.next].upper if name.next < cursor.end else ""
                known = "" if alias == "AS" or (alias != "ON" and name.next < cursor.end) else f" AS {name.text}"
                query = f"(WITH {tables} TABLE {name.text}){known}"
                found.append(TextEdit(name.start, name.end, query))
    return found
