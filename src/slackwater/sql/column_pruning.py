"""Which columns of its tables a statement can need: those whose names it says, where all that it needs is named."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from slackwater.sql.lexer import NAME, WORD, Token
from slackwater.sql.relations import Relation

_COLUMN_LIST = re.compile(r"(?is)(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:as\b(?:\s|/\*.*?\*/)*)?(?:\w+|`(?:[^`]|``)*`)\s*\(")

# What takes columns that it does not name.
_TAKES_ALL = frozenset({"NATURAL", "PIVOT", "UNPIVOT", "TABLE", "IDENTIFIER", "|>", "TRANSFORM", "MAP", "REDUCE"})


def needed_columns(tokens: Sequence[Token], names: Collection[str]) -> frozenset[str] | None:
    """Of the columns `names` those that are said somewhere in the statement; None where it may need others, too.

    `*` needs all of them, but in `count(*)` and as a product.
    """
    if any(token.upper in _TAKES_ALL or _is_star(tokens, at) for at, token in enumerate(tokens)):
        return None
    said = {token.value.lower() for token in tokens if token.kind in (WORD, NAME)}
    return frozenset(name for name in names if name.lower() in said)


def renames_columns(text: str, relation: Relation) -> bool:
    """Whether the relation's alias has a list of columns, `t AS a (x, y)`: then each column has its place."""
    return relation.alias is not None and _COLUMN_LIST.match(text, relation.alias_at) is not None


def _is_star(tokens: Sequence[Token], at: int) -> bool:
    if tokens[at].upper != "*":
        return False
    before = tokens[at - 1].upper if at else ""
    behind = tokens[at + 1].upper if at + 1 < len(tokens) else ""
    if before == "(" and behind == ")" and at > 1 and tokens[at - 2].upper == "COUNT":
        return False
    # A product has an operand before it: a word that begins no list, a literal, or what parentheses gave.
    return before in ("", "SELECT", "DISTINCT", "ALL", ",", ".", "(") or behind in ("", ",", ")", "FROM", "EXCEPT")
