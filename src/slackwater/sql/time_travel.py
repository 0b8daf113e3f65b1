"""Parser of time travel clauses: `VERSION AS OF 3`, `FOR SYSTEM_TIME FROM a TO b`, `t@v3`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.error_classes import StatementPlace
from slackwater.errors import SqlSyntaxError
from slackwater.sql.lexer import TEXT, WORD, Token, closing, is_behind_dot, name_at

VERSION, TIMESTAMP, SYSTEM_TIME = "version", "timestamp", "system time"
FROM_TO, BETWEEN, AT = "from to", "between", "at"
_VERSIONS, _TIMES = ("VERSION", "SYSTEM_VERSION"), ("TIMESTAMP", "SYSTEM_TIME")
_UNITS = re.compile(r"(?i)(?:year|quarter|month|week|day|hour|minute|second|millisecond|microsecond|nanosecond)s?\Z")
_OPERATORS = ("+", "-", "*", "/", "%", "||", "&", "|", "^", "DIV")


@dataclass(frozen=True, slots=True)
class Travel:
    """A time travel clause of a `kind`, with its one or two SQL expressions. For AT, the text after the `@`.

    SYSTEM_TIME reads the rows valid at a time. TIMESTAMP reads the last version committed by a time, and this version
    is not final for a time after the last commit.
    """

    kind: str
    texts: tuple[str, ...]


def travel_at(text: str, tokens: Sequence[Token], at: int) -> tuple[Travel, int] | None:
    """Parse the clause at index `at`, and return it with the index after it. None for any other text.

    Raises SqlSyntaxError for a malformed clause.
    """
    start = at
    words = [token.upper for token in tokens[at : at + 5]] + [""] * 5
    is_for = words[0] == "FOR"
    kind, *after = words[is_for:]
    at += is_for
    if kind not in (*_VERSIONS, *_TIMES):
        return None
    if after[:2] == ["AS", "OF"]:
        stop = _expression_end(tokens, at + 3)
        named = VERSION if kind in _VERSIONS else TIMESTAMP if kind == "TIMESTAMP" else SYSTEM_TIME
        found = Travel(named, (_text(text, tokens, at + 3, stop),))
        return found, stop
    if not is_for or kind != "SYSTEM_TIME" or after[0] not in ("FROM", "BETWEEN"):
        return None
    stop = _expression_end(tokens, at + 2)
    joint = "TO" if after[0] == "FROM" else "AND"
    if stop >= len(tokens) or tokens[stop].upper != joint:
        said = _text(text, tokens, start, stop)
        place = StatementPlace(text, tokens[start].start, tokens[stop - 1].end - 1)
        raise SqlSyntaxError(f"{said}: expected {joint} and a second time after it", place=place)
    end = _expression_end(tokens, stop + 1)
    pair = (_text(text, tokens, at + 2, stop), _text(text, tokens, stop + 1, end))
    return Travel(FROM_TO if joint == "TO" else BETWEEN, pair), end


def at_suffix(tokens: Sequence[Token], at: int) -> tuple[Travel, int] | None:
    """Parse the version suffix `@v3` or `@20261121000000000` at index `at`, directly after a name.

    Return None for other text.
    """
    if at + 1 >= len(tokens) or at == 0 or tokens[at].upper != "@" or tokens[at].start != tokens[at - 1].end:
        return None
    token = tokens[at + 1]
    if token.kind != WORD or not re.fullmatch(r"[vV]\d+|\d{17}", token.raw):
        return None
    return Travel(AT, (token.raw,)), at + 2


def _text(text: str, tokens: Sequence[Token], start: int, stop: int) -> str:
    if stop <= start:
        said = f"a time or a version is missing in the time travel clause of: {text.strip()[:200]}"
        at = tokens[start].start if start < len(tokens) else len(text)
        raise SqlSyntaxError(said, place=StatementPlace(text, at, at))
    return text[tokens[start].start : tokens[stop - 1].end]


def _expression_end(tokens: Sequence[Token], at: int) -> int:
    """Return the index after the expression at `at`: operands joined by operators."""
    while True:
        behind = _operand_end(tokens, at)
        while behind + 1 < len(tokens) and tokens[behind].upper in ("::", ".", "["):
            behind = _postfix_end(tokens, behind)
        if behind == at or behind >= len(tokens) or tokens[behind].upper not in _OPERATORS:
            return behind
        at = behind + 1


def _operand_end(tokens: Sequence[Token], at: int) -> int:
    if at >= len(tokens):
        return at
    while at + 1 < len(tokens) and tokens[at].upper in ("-", "+", "~", ":"):
        at += 1
    token = tokens[at]
    if token.upper == "?":
        return at + 1
    if token.upper == "(":
        return _group_end(tokens, at)
    if token.upper == "INTERVAL":
        return _interval_end(tokens, at + 1)
    if token.upper == "CASE":
        return _case_end(tokens, at + 1)
    if token.kind == TEXT:
        return _texts_end(tokens, at)
    if not token.is_name:
        return at
    if token.raw.isdigit() and at + 1 < len(tokens) and tokens[at + 1].upper == ".":
        return at + 3 if at + 2 < len(tokens) and is_behind_dot(tokens, at + 2) else at + 2
    name = name_at(tokens, at)
    behind = at + 1 if name is None else name.next
    if behind < len(tokens) and tokens[behind].upper == "(":
        return _group_end(tokens, behind)
    return _texts_end(tokens, behind)


def _group_end(tokens: Sequence[Token], at: int) -> int:
    return closing(tokens).get(at, len(tokens) - 1) + 1


def _texts_end(tokens: Sequence[Token], at: int) -> int:
    """Return the index after adjacent texts, which form one text."""
    while at < len(tokens) and tokens[at].kind == TEXT:
        at += 1
    return at


def _postfix_end(tokens: Sequence[Token], at: int) -> int:
    """Return the index after `::decimal(3, 1)`, `.field` or `[0]`."""
    if tokens[at].upper == "[":
        while at < len(tokens) and tokens[at].upper != "]":
            at += 1
        return min(at + 1, len(tokens))
    is_cast = tokens[at].upper == "::"
    at += 2
    return _group_end(tokens, at) if is_cast and at < len(tokens) and tokens[at].upper == "(" else at


def _case_end(tokens: Sequence[Token], at: int) -> int:
    """Return the index after the END of the CASE around this index."""
    depth = 1
    while at < len(tokens) and depth:
        if not is_behind_dot(tokens, at):
            depth += (tokens[at].upper == "CASE") - (tokens[at].upper == "END")
        at += 1
    return at


def _interval_end(tokens: Sequence[Token], at: int) -> int:
    """Return the index after `INTERVAL 1 DAY 2 HOURS`, `INTERVAL '1' DAY TO SECOND`, `INTERVAL '1 day'`."""
    while at < len(tokens) and (tokens[at].kind == TEXT or tokens[at].raw.isdigit() or tokens[at].upper == "-"):
        at += 1
        if at < len(tokens) and _UNITS.match(tokens[at].raw):
            at += 1
            if at + 1 < len(tokens) and tokens[at].upper == "TO" and _UNITS.match(tokens[at + 1].raw):
                at += 2
    return at
