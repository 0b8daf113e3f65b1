"""Resolves dynamic names in a statement: `${variable}`, `IDENTIFIER('a.b')`, and the tables of TRUNCATE.

Source: Spark's variable substitution and its IDENTIFIER clause.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from slackwater.sql.lexer import TEXT, SqlName, Token, closing, name_at, tokens_of
from slackwater.sql.text_edits import TextEdit, apply_edits

_VARIABLE = re.compile(r"\$\{(?:(\w+?):)?(\S+?)\}")
# Prefixes of Spark settings. Variables of the system and the environment belong to the server.
_OF_SETTINGS = (None, "spark", "sparkconf", "hivevar", "hiveconf")


def with_variables(text: str, value_of: Callable[[str], str | None]) -> str:
    """Substitute settings for `${name}` in `text`, also inside substituted values. Unknown names remain.

    `value_of` returns the value of a setting, None if it is not set.
    """

    def substituted(part: str, within: frozenset[str]) -> str:
        def value(match: re.Match[str]) -> str:
            prefix, name = match.groups()
            found = value_of(name) if prefix in _OF_SETTINGS and name not in within else None
            return match[0] if found is None else substituted(found, within | {name})

        return _VARIABLE.sub(value, part)

    return substituted(text, frozenset())


def with_constant_names(text: str, tokens: Sequence[Token]) -> str:
    """Replace each `IDENTIFIER('a.b')` and `IDENTIFIER('a' || '.b')` in `text` by the name."""
    closes, found = closing(tokens), []
    for at, token in enumerate(tokens):
        if token.upper != "IDENTIFIER" or at + 1 not in closes:
            continue
        end = closes[at + 1]
        name = _constant(tokens[at + 2 : end])
        if name is not None and _is_name(name):
            found.append(TextEdit(token.start, tokens[end].end, name))
    return apply_edits(text, found) if found else text


def truncated(tokens: Sequence[Token]) -> list[SqlName | None]:
    """Return the table of each `TRUNCATE TABLE` in a statement or script. None if the table is not a plain name."""
    places = [
        at for at, token in enumerate(tokens[:-1]) if token.upper == "TRUNCATE" and tokens[at + 1].upper == "TABLE"
    ]
    names = [name_at(tokens, at + 2) for at in places]
    return [
        None if name is None or (name.parts[-1].upper() == "IDENTIFIER" and _is_call(tokens, name.next)) else name
        for name in names
    ]


def _is_call(tokens: Sequence[Token], at: int) -> bool:
    return at < len(tokens) and tokens[at].upper == "("


def _constant(tokens: Sequence[Token]) -> str | None:
    """Join string literals separated by `||`. None for any other expression."""
    texts, signs = tokens[::2], tokens[1::2]
    if len(tokens) % 2 == 0 or any(t.kind != TEXT for t in texts) or any(s.upper != "||" for s in signs):
        return None
    return "".join(text.value for text in texts)


def _is_name(text: str) -> bool:
    tokens = tokens_of(text)
    name = name_at(tokens, 0) if tokens else None
    return tokens is not None and name is not None and name.next == len(tokens)
