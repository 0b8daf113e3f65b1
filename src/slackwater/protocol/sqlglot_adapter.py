"""Adapter of sqlglot: tokens and syntax trees of SQL in Spark's dialect, corrected to match Spark's parser."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

from slackwater.error_classes import StatementPlace
from slackwater.errors import SqlSyntaxError

# The base class of the trees and the module of the tokens differ between the supported sqlglot versions.
SqlNode: TypeAlias = Any
SqlToken: TypeAlias = Any


class _Expressions:
    """Lazy proxy of sqlglot's expression module. Loads the module on first use, because most processes parse no SQL."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module("sqlglot.expressions"), name)
        setattr(self, name, value)
        return value


exp = _Expressions()

# Escapes, decimals and names with a different meaning in sqlglot, or in some sqlglot versions, and in Spark.
_READ_OTHERWISE = re.compile(r"(?i)\\|[0-9.]bd|0x")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[0-3][0-7]{2}|.)", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def parse_sql(text: str, what: str = "expression") -> SqlNode:
    """Return the syntax tree of `text`, a single SQL expression.

    `what` names the expected thing in error messages. Raises SqlSyntaxError (an InvalidArgument) if `text` has no
    expression, more than one, or a syntax error. The error reports the position of a syntax error.
    """
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import ParseError, SqlglotError

    try:
        trees = _parser_class()(dialect=Dialect.get_or_raise("spark")).parse_into(
            exp.Condition, sql_tokens(text, what), text
        )
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        where = f"line {first.get('line', '?')}, column {first.get('col', '?')}"
        # Drop the parser's class name, because users do not know it.
        says = str(first.get("description", error)).partition(" for <class ")[0]
        raise SqlSyntaxError(f"not an SQL {what}: {text!r}, at {where}: {says}", place=_place(text, first)) from error
    except (SqlglotError, RecursionError) as error:
        raise SqlSyntaxError(f"not an SQL {what}: {text!r}: {error.__cause__ or error}") from error
    if len(trees) != 1 or trees[0] is None:
        found = sum(tree is not None for tree in trees)
        raise SqlSyntaxError(f"expected one SQL {what}, found {found}: {text!r}")
    return trees[0]


@cache
def _parser_class() -> Any:
    from sqlglot.dialects.dialect import Dialect

    # Spark reads `v:a` as a path into a variant, but sqlglot only in the dialect of Databricks.
    return type("SparkParser", (Dialect.get_or_raise("spark").parser_class,), {"COLON_IS_VARIANT_EXTRACT": True})


_TYPED_LITERALS = ("date", "timestamp", "timestamp_ntz", "timestamp_ltz", "x")


def is_literal(text: str) -> bool:
    """Return whether `text` is a literal of Spark's SQL: a number with or without a sign, a text, a date, NULL, …."""
    try:
        node = parse_sql(text)
    except SqlSyntaxError:
        return False
    inner = node.this if isinstance(node, exp.Neg) else node
    if isinstance(inner, exp.Literal):
        return not isinstance(node, exp.Neg) or not inner.is_string
    if inner is not node:
        return False
    if isinstance(node, exp.Boolean | exp.Null | exp.HexString | exp.Interval):
        return True
    # `DATE '2026-01-02'` is a cast of a text for the parser.
    words = [token.text.lower() for token in sql_tokens(text)]
    return isinstance(node, exp.Cast) and len(words) == 2 and words[0] in _TYPED_LITERALS


def _place(text: str, said: dict[str, Any]) -> StatementPlace | None:
    """Return the position of the token with the syntax error, None if the parser does not report one.

    `said` is the parser's error: the line, and the column of the token's last character.
    """
    marked = said.get("highlight")
    lines = text.split("\n")
    if not marked or not 0 < said.get("line", 0) <= len(lines):
        return None
    stop = sum(len(line) + 1 for line in lines[: said["line"] - 1]) + said["col"] - 1
    return StatementPlace(text, stop + 1 - len(marked), stop)


def sql_tokens(text: str, what: str = "expression") -> list[SqlToken]:
    """Return the tokens of `text`. `start` and `end` are the offsets of a token's first and last character.

    Raises SqlSyntaxError if a quote or a comment is not closed.
    """
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import SqlglotError

    try:
        given = Dialect.get_or_raise("spark").tokenize(text)
    except SqlglotError as error:
        raise SqlSyntaxError(f"not an SQL {what}: {text!r}: {error.__cause__ or error}") from error
    if not _READ_OTHERWISE.search(text):
        return list(given)
    tokens: list[SqlToken] = []
    for token in given:
        kind, raw = token.token_type.name, text[token.start : token.end + 1]
        if kind == "DECIMAL" and raw[:1].isdigit() and "e" not in raw.lower():
            # sqlglot reads `1.25BD` as `1.25 :: DECIMAL`, a cast to a whole number. `1.25` is the right decimal.
            del tokens[-1]
            continue
        if kind == "STRING" and "\\" in raw and raw[:1] in ("'", '"'):
            token.text = _ESCAPE.sub(_unescape, raw[1:-1])
        elif kind == "HEX_STRING" and raw[:1] == "0":
            # Spark reads `0x1F` as a name. Binary literals are written X'1F'.
            token.token_type, token.text = type(token.token_type).VAR, raw
        tokens.append(token)
    return tokens


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) > 1:
        number = int(code[1:], 16) if code[0] in "uU" else int(code, 8)
        return chr(number) if number <= 0x10FFFF else "\ufffd"
    return _ESCAPED.get(code, code)


def column_path(node: SqlNode | None) -> tuple[str, ...] | None:
    """Return the names of a column reference `a.b.c`, None if `node` is not a column reference."""
    node = None if node is None else node.unnest()
    if isinstance(node, exp.Dot):
        parent = column_path(node.this)
        return (*parent, str(node.name)) if parent and isinstance(node.expression, exp.Identifier) else None
    if not isinstance(node, exp.Column) or not all(isinstance(part, exp.Identifier) for part in node.parts):
        return None
    return tuple(str(part.name) for part in node.parts)
