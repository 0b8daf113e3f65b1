"""Substitutes parameters `:name` and `?` by literals in a statement."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from slackwater.errors import InvalidArgument
from slackwater.sql.lexer import BEFORE_OPERANDS, SIGN, WORD, Token, tokens_of
from slackwater.sql.text_edits import TextEdit, apply_edits


def with_literals(text: str, args: Mapping[str, Any] | Sequence[Any]) -> str:
    """Replace parameters in `text` by literals: `:name` from a mapping, `?` by position from a sequence.

    Raises InvalidArgument for a value without a literal, for a parameter without a value, and for surplus `?`.
    """
    tokens = tokens_of(text)
    found: list[TextEdit] = []
    count = 0
    for at, token in enumerate(tokens or ()):
        if isinstance(args, Mapping):
            follows = tokens[at + 1] if tokens is not None and at + 1 < len(tokens) else None
            if token.upper != ":" or follows is None or not follows.is_name or follows.start != token.end:
                continue
            # `a:b` is a path into a variant, or the type of a field; a parameter is a separate token.
            before = tokens[at - 1] if tokens is not None and at else None
            if before is not None and before.end == token.start and _ends_operand(before):
                continue
            if follows.value not in args:
                known = ", ".join(map(str, args))
                raise InvalidArgument(
                    f"the parameter :{follows.value} has no value in args. The names in args are: {known}"
                )
            found.append(_replacement(text, token.start, follows.end, args[follows.value]))
        elif token.upper == "?":
            if count >= len(args):
                raise InvalidArgument(f"args has {len(args)} values, but the statement has more ? parameters")
            found.append(_replacement(text, token.start, token.end, args[count]))
            count += 1
    return apply_edits(text, found)


# Words allowed directly before a parameter without a space.
_BEFORE_PARAMETERS = BEFORE_OPERANDS | {
    "ALL",
    "DISTINCT",
    "WHERE",
    "HAVING",
    "ON",
    "WHEN",
    "THEN",
    "ELSE",
    "CASE",
    "BY",
}
_BEFORE_PARAMETERS |= {
    "LIMIT",
    "OFFSET",
    "IN",
    "IS",
    "OF",
    "FROM",
    "TO",
    "VALUES",
    "INTERVAL",
    "ESCAPE",
    "DEFAULT",
    "AS",
}


def _ends_operand(token: Token) -> bool:
    if token.kind == WORD:
        return token.upper not in _BEFORE_PARAMETERS
    return token.kind != SIGN or token.upper in (")", "]")


def _replacement(text: str, start: int, end: int, value: Any) -> TextEdit:
    """Return the edit of a parameter. Spaces separate the literal: `--1` is a comment, `r'a'` a raw text."""
    before, behind, literal = text[max(start - 1, 0) : start], text[end : end + 1], sql_literal(value)
    glued = before.isalnum() or before == "_" or before == literal[:1]
    is_open = behind.isalnum() or behind == "_" or behind == literal[-1:]
    return TextEdit(start, end, f"{' ' * glued}{literal}{' ' * is_open}")


def sql_literal(value: Any) -> str:
    """Convert a Python value to SQL. Raises InvalidArgument for an unsupported type, such as a Column."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            return sql_literal(Decimal(value))
        return f"{value}L" if not -(2**31) <= value < 2**31 else str(value)
    if isinstance(value, float):
        return f"{value!r}D" if math.isfinite(value) else f"double('{value}')"
    if isinstance(value, Decimal) and value.is_finite():
        return f"{value}BD"
    if isinstance(value, str):
        return text_literal(value)
    if isinstance(value, (bytes, bytearray)):
        return f"X'{bytes(value).hex()}'"
    if isinstance(value, dt.datetime):
        # A time without a zone is in this machine's zone, like in Spark's `lit`.
        return f"TIMESTAMP '{value.astimezone(dt.timezone.utc).replace(tzinfo=None).isoformat(' ')}Z'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, (list, tuple)):
        return f"array({', '.join(map(sql_literal, value))})"
    if isinstance(value, dict):
        return f"map({', '.join(f'{sql_literal(k)}, {sql_literal(v)}' for k, v in value.items())})"
    raise InvalidArgument(
        f"a parameter of a statement on a Delta table must be a plain value, found {type(value).__name__}. Write the "
        "expression into the statement"
    )


def text_literal(value: str) -> str:
    """Quote `value` as a SQL text, for any characters. Spark substitutes no `${a}` in the result."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return "'" + escaped.replace("${", r"$\{") + "'"
