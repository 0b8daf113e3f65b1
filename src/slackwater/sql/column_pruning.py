"""Column pruning: the columns a statement may use, by their names in its text."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from slackwater.sql.lexer import NAME, WORD, Token, is_star
from slackwater.sql.relations import Relation

_COLUMN_LIST = re.compile(r"(?is)(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:as\b(?:\s|/\*.*?\*/)*)?(?:\w+|`(?:[^`]|``)*`)\s*\(")

# Words for a use of columns without their names.
_TAKES_ALL = frozenset({"NATURAL", "PIVOT", "UNPIVOT", "TABLE", "IDENTIFIER", "|>", "TRANSFORM", "MAP", "REDUCE"})


def needed_columns(tokens: Sequence[Token], names: Collection[str]) -> frozenset[str] | None:
    """Return the columns of `names` mentioned in the statement, or None if the statement may use other columns too.

    `*` uses all columns, except in `count(*)` and in a product.
    """
    if any(token.upper in _TAKES_ALL or is_star(tokens, at) for at, token in enumerate(tokens)):
        return None
    said = {token.value.lower() for token in tokens if token.kind in (WORD, NAME)}
    return frozenset(name for name in names if name.lower() in said)


def renames_columns(text: str, relation: Relation) -> bool:
    """Return whether the relation's alias has a column list, `t AS a (x, y)`, so the order of columns matters."""
    return relation.alias is not None and _COLUMN_LIST.match(text, relation.alias_at) is not None
