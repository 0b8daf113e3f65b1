"""Splits SQL conditions: conjuncts, sides of an equality, time dependence.

Text is cut only if sqlglot's tokens and tree agree, so each part is text in the author's spelling.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from slackwater.errors import InvalidArgument, SqlSyntaxError
from slackwater.protocol.sqlglot_adapter import SqlNode, exp, parse_sql, sql_tokens

_QUERY = re.compile(r"(?i)\(\s*(?:/\*|--|select\b|with\b|from\b)")
_CLOCK = re.compile(r"(?i)\b(current_\w+|now|localtimestamp|curdate|unix_timestamp|to_unix_timestamp)\b")
# In a plan, a column named after such a function has its id after the name: `now()#12`.
_CLOCK_IN_PLAN = re.compile(r"\b(?:current_timestamp|now|localtimestamp|current_date|current_time)\((?!\)#)")
# Texts cast by Spark to a current date or timestamp.
_MOMENT_IN_PLAN = re.compile(r"(?i)\(\s*(?:now|today|tomorrow|yesterday)\b[^,()#]*(?: as (?:date|timestamp)|, None\b)")


@dataclass(frozen=True, slots=True)
class Equality:
    """`a = b`, or `a <=> b` if `null_safe`."""

    sides: tuple[str, str]
    null_safe: bool


def is_time_dependent(text: str) -> bool:
    """Return whether the expression depends on the current time."""
    return _CLOCK.search(text) is not None


def has_subquery(text: str) -> bool:
    """Return whether a condition contains a query, according to its tokens. False for invalid SQL."""
    if _QUERY.search(text) is None:
        return False
    try:
        kinds = [token.token_type.name for token in sql_tokens(text)]
    except SqlSyntaxError:
        return False
    return any(pair in (("L_PAREN", "SELECT"), ("L_PAREN", "WITH"), ("L_PAREN", "FROM")) for pair in pairwise(kinds))


def plan_is_time_dependent(text: str) -> bool:
    """Return whether an analyzed plan in Spark's notation depends on the current time.

    Text similar to such a function also results in True.
    """
    return _CLOCK_IN_PLAN.search(text) is not None or _MOMENT_IN_PLAN.search(text) is not None


def conjuncts(text: str) -> list[str]:
    """Return the conjuncts of `text` verbatim, or the whole text if it cannot be split."""
    found: list[str] = []
    pending = [text]
    while pending:
        part = _without_parentheses(pending.pop())
        root = parsed(part)
        pieces = _split(part, ("AND",)) if isinstance(root, exp.And) else [part]
        if root is not None and len(pieces) > 1 and _trees(pieces) == list(root.flatten()):
            pending.extend(reversed(pieces))
        else:
            found.append(part)
    return found


def equality_of(text: str) -> Equality | None:
    """Return the two sides of `a = b` or `a <=> b`, or None if `text` is not an equality."""
    root = parsed(text)
    if not isinstance(root, (exp.EQ, exp.NullSafeEQ)):
        return None
    sides = _split(text, ("EQ", "NULLSAFE_EQ"))
    if len(sides) != 2 or [parsed(side) for side in sides] != [root.this, root.expression]:
        return None
    return Equality((sides[0], sides[1]), isinstance(root, exp.NullSafeEQ))


def parsed(text: str) -> SqlNode | None:
    """Return the tree of a single SQL condition, or None if `text` is not a condition."""
    try:
        return parse_sql(text, "condition")
    except InvalidArgument:
        return None


def _trees(texts: Sequence[str]) -> list[SqlNode | None]:
    return [_unnested(parsed(text)) for text in texts]


def _unnested(node: SqlNode | None) -> SqlNode | None:
    return None if node is None else node.unnest()


def _split(text: str, kinds: tuple[str, ...]) -> list[str]:
    """Split `text` at tokens of `kinds` outside of all parentheses, CASE and BETWEEN."""
    pieces: list[str] = []
    start = depth = betweens = 0
    previous = ""
    for token in sql_tokens(text):
        kind = token.token_type.name
        is_word = previous != "DOT"
        previous = kind
        if kind in ("L_PAREN", "L_BRACKET", "L_BRACE") or (kind == "CASE" and is_word):
            depth += 1
        elif kind in ("R_PAREN", "R_BRACKET", "R_BRACE") or (kind == "END" and is_word):
            depth -= 1
        elif kind == "BETWEEN" and depth == 0:
            betweens += 1
        elif kind == "AND" and depth == 0 and betweens:
            betweens -= 1
        elif kind in kinds and depth == 0 and is_word:
            pieces.append(text[start : token.start])
            start = token.end + 1
    return [*pieces, text[start:]]


def _without_parentheses(text: str) -> str:
    """Remove parentheses around the whole text."""
    while True:
        tokens = sql_tokens(text)
        kinds = [token.token_type.name for token in tokens]
        depth, closed_at = 0, None
        for place, kind in enumerate(kinds):
            depth += (kind == "L_PAREN") - (kind == "R_PAREN")
            if depth == 0:
                closed_at = place
                break
        if not kinds or kinds[0] != "L_PAREN" or closed_at != len(kinds) - 1:
            return text
        text = text[tokens[0].end + 1 : tokens[-1].start]
