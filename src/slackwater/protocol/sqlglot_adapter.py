"""SQL text in Spark's dialect as sqlglot's tokens and trees, read as Spark reads it where the two differ."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, TypeAlias

from slackwater.error_classes import StatementPlace
from slackwater.errors import SqlSyntaxError

# The root of sqlglot's tree classes, and the module of its tokens, vary between the versions that we allow.
SqlNode: TypeAlias = Any
SqlToken: TypeAlias = Any


class _Expressions:
    """sqlglot's module of trees, loaded when the first of its names is asked for: most processes parse no SQL."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module("sqlglot.expressions"), name)
        setattr(self, name, value)
        return value


exp = _Expressions()

# Text escapes, decimals and names that sqlglot reads in another way than Spark, or in several ways in its versions.
_READ_OTHERWISE = re.compile(r"(?i)\\|[0-9.]bd|0x")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[0-3][0-7]{2}|.)", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def parse_sql(text: str, what: str = "expression") -> SqlNode:
    """The tree of the one SQL expression that `text` is.

    Raises InvalidArgument where it is none, or more than one, with the position; `what` says what was expected.
    """
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import ParseError, SqlglotError

    try:
        trees = Dialect.get_or_raise("spark").parser().parse_into(exp.Condition, sql_tokens(text, what), text)
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        where = f"line {first.get('line', '?')}, column {first.get('col', '?')}"
        # What is missing for which of the parser's classes is not for people.
        says = str(first.get("description", error)).partition(" for <class ")[0]
        raise SqlSyntaxError(f"not an SQL {what}: {text!r}, at {where}: {says}", place=_place(text, first)) from error
    except (SqlglotError, RecursionError) as error:
        raise SqlSyntaxError(f"not an SQL {what}: {text!r}: {error.__cause__ or error}") from error
    if len(trees) != 1 or trees[0] is None:
        found = sum(tree is not None for tree in trees)
        raise SqlSyntaxError(f"expected one SQL {what}, found {found}: {text!r}")
    return trees[0]


def _place(text: str, said: dict[str, Any]) -> StatementPlace | None:
    """Where the parser stopped; it names the line and the last character of the token in it."""
    marked = said.get("highlight")
    lines = text.split("\n")
    if not marked or not 0 < said.get("line", 0) <= len(lines):
        return None
    stop = sum(len(line) + 1 for line in lines[: said["line"] - 1]) + said["col"] - 1
    return StatementPlace(text, stop + 1 - len(marked), stop)


def sql_tokens(text: str, what: str = "expression") -> list[SqlToken]:
    """The tokens of `text`; `start` and `end` are the places of their first and last character.

    Raises SqlSyntaxError where a quote or a comment does not end.
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
            # `1.25BD` comes as `1.25 :: DECIMAL`, which rounds it to a whole number; `1.25` is that decimal already.
            del tokens[-1]
            continue
        if kind == "STRING" and "\\" in raw and raw[:1] in ("'", '"'):
            token.text = _ESCAPE.sub(_unescape, raw[1:-1])
        elif kind == "HEX_STRING" and raw[:1] == "0":
            # Spark takes `0x1F` for a name; bytes are X'1F'.
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
    """The parts of a column reference `a.b.c`; None where `node` is something else."""
    node = None if node is None else node.unnest()
    if isinstance(node, exp.Dot):
        parent = column_path(node.this)
        return (*parent, str(node.name)) if parent and isinstance(node.expression, exp.Identifier) else None
    if not isinstance(node, exp.Column) or not all(isinstance(part, exp.Identifier) for part in node.parts):
        return None
    return tuple(str(part.name) for part in node.parts)
