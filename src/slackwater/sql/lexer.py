"""Lexer for SQL text. Tokens have offsets, so statements are cut between tokens and all parts keep their text.

Distinguishes only the token kinds of Spark's lexer: words, quoted names, texts, comments and signs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from slackwater.error_classes import StatementPlace
from slackwater.errors import SqlSyntaxError

WORD, NAME, TEXT, SIGN = "word", "name", "text", "sign"
_LEXER = re.compile(
    r"(?P<gap>\s+|--(?:\\\r?\n|[^\r\n])*)"
    r"|(?P<comment>/\*)"
    r"|(?P<text>[rR](?:'[^']*'|\"[^\"]*\")|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")"
    r"|(?P<name>`(?:[^`]|``)*`)"
    r"|(?P<word>\w+)"
    r"|(?P<sign>\|>|<=>|<=|>=|<>|!=|==|=>|->|\|\||::|[^'\"`\w\s])",
    re.DOTALL,
)
# Words at the start of a query; a column or a function may have the same name.
OPENS_QUERY = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE"})
# Tokens always followed by an operand, even if it is a keyword.
BEFORE_OPERANDS = frozenset(
    {"SELECT", ",", "AND", "OR", "NOT", "=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">=", "+", "-", "/", "%", "||"}
    | {"|", "&", "^", "~", "LIKE", "ILIKE", "RLIKE", "BETWEEN", "DIV"}
)
# Longer texts are not cached.
_MOST_KEPT = 1 << 16
_COMMENT_EDGE = re.compile(r"/\*|\*/")
# A quote inside a text is doubled; the other kind of quote is not.
_ESCAPES = {
    quote: re.compile(rf"\\(u[0-9A-Fa-f]{{4}}|U[0-9A-Fa-f]{{8}}|[01][0-7]{{2}}|.)|{quote}({quote})", re.DOTALL)
    for quote in "'\""
}
_SURROGATES = re.compile("[\ud800-\udfff]+")
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


@dataclass(frozen=True, slots=True)
class Token:
    """A token of SQL: `text[start:end]`, of a `kind`. `upper` is a word in upper case, a sign unchanged, else ""."""

    kind: str
    raw: str
    start: int
    end: int
    upper: str

    @property
    def value(self) -> str:
        """Value of a name or a text without its quotes."""
        if self.kind == NAME:
            return self.raw[1:-1].replace("``", "`")
        if self.kind == TEXT:
            if self.raw[0] in "rR":
                return self.raw[2:-1]
            return _SURROGATES.sub(_paired, _ESCAPES[self.raw[0]].sub(_unescaped, self.raw[1:-1]))
        return self.raw

    @property
    def is_name(self) -> bool:
        """Return whether the token can be part of the name of a table or column."""
        return self.kind in (WORD, NAME)


def tokens_of(text: str) -> list[Token] | None:
    """Return the tokens of `text` without comments, or None if a quote or a comment does not end."""
    found = _tokens_of(text) if len(text) <= _MOST_KEPT else _tokens_of.__wrapped__(text)
    return None if found is None else list(found)


@lru_cache(64)
def _tokens_of(text: str) -> tuple[Token, ...] | None:
    """Cached, because several steps tokenize the same statement."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _LEXER.match(text, at)
        if match is None:
            return None
        kind, at = str(match.lastgroup), match.end()
        if kind == "gap":
            continue
        if kind == "comment":
            end = _comment_end(text, at)
            if end is None:
                return None
            at = end
            continue
        raw = match[0]
        upper = raw.upper() if kind == WORD else raw if kind == SIGN else ""
        found.append(Token(kind, raw, match.start(), at, upper))
    return tuple(found)


def with_quoted_names(text: str, tokens: Sequence[Token]) -> str:
    """Convert `"a b"` in `text` to a name in backticks, for sessions with double-quoted identifiers."""
    pieces, at = [], 0
    for token in tokens:
        if token.kind == TEXT and token.raw[0] == '"':
            pieces += [text[at : token.start], quoted(token.raw[1:-1].replace('""', '"'))]
            at = token.end
    return "".join([*pieces, text[at:]])


def closing(tokens: Sequence[Token]) -> dict[int, int]:
    """Return the index of the `)` for each closed `(`."""
    opened: list[int] = []
    found: dict[int, int] = {}
    for at, token in enumerate(tokens):
        if token.upper == "(":
            opened.append(at)
        elif token.upper == ")" and opened:
            found[opened.pop()] = at
    return found


def is_star(tokens: Sequence[Token], at: int) -> bool:
    """Return whether the token is a `*` that stands for columns, except in `count(*)`."""
    if tokens[at].upper != "*":
        return False
    before = tokens[at - 1].upper if at else ""
    behind = tokens[at + 1].upper if at + 1 < len(tokens) else ""
    if before == "(" and behind == ")" and at > 1 and tokens[at - 2].upper == "COUNT":
        return False
    # A product has an operand before the sign: a literal, parentheses, or any word except those that start a list.
    return before in ("", "SELECT", "DISTINCT", "ALL", ",", ".", "(") or behind in ("", ",", ")", "FROM", "EXCEPT")


def is_behind_dot(tokens: Sequence[Token], at: int) -> bool:
    """Return whether the token at this index continues a name after a dot. The dot of `1.` does not qualify."""
    if at < 1 or tokens[at - 1].upper != "." or not tokens[at].is_name:
        return False
    ends_number = at > 1 and tokens[at - 2].raw.isdigit() and tokens[at - 2].end == tokens[at - 1].start
    return not ends_number or tokens[at].start == tokens[at - 1].end


def wants_operand(tokens: Sequence[Token], at: int) -> bool:
    """Return whether an operator precedes this index, so that any word here is an operand."""
    if at < 1 or tokens[at - 1].upper not in BEFORE_OPERANDS:
        return False
    before = tokens[at - 1]
    if before.kind == WORD:
        return not is_behind_dot(tokens, at - 1) and (at < 2 or tokens[at - 2].upper != "AS")
    return before.upper not in (">", "<>") or not _ends_type(tokens, at - 1)


def _ends_type(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a `>` is the end of `ARRAY<INT>`, not an operator."""
    depth = 1 if tokens[at].upper == ">" else 0
    while depth and at > 0:
        at -= 1
        depth += (tokens[at].upper == ">") - (tokens[at].upper == "<")
    return at > 0 and tokens[at - 1].upper in ("ARRAY", "MAP", "STRUCT")


@dataclass(frozen=True, slots=True)
class SqlName:
    """A name of one or more parts. `start` and `end` are offsets in the text, `next` is the index of the next token."""

    parts: tuple[str, ...]
    start: int
    end: int
    next: int

    @property
    def text(self) -> str:
        """The name in SQL."""
        return ".".join(quoted(part) for part in self.parts)


def name_at(tokens: Sequence[Token], at: int) -> SqlName | None:
    """Return the name `a.b.c` starting at index `at`, or None if the token is not a name."""
    if at >= len(tokens) or not tokens[at].is_name:
        return None
    parts = [tokens[at].value]
    start = at
    while at + 2 < len(tokens) and tokens[at + 1].upper == "." and tokens[at + 2].is_name:
        at += 2
        parts.append(tokens[at].value)
    return SqlName(tuple(parts), tokens[start].start, tokens[at].end, at + 1)


def text_between(text: str, tokens: Sequence[Token], start: int, stop: int) -> str:
    """Return the original text from the token at index `start` up to the token at `stop`, exclusive."""
    return text[tokens[start].start : tokens[stop - 1].end] if stop > start else ""


def quoted(part: str) -> str:
    """Quote a part of a name in backticks, for any characters."""
    return "`" + part.replace("`", "``") + "`"


class TokenCursor:
    """A cursor over a statement, from left to right. Unexpected tokens raise SqlSyntaxError with the position."""

    def __init__(self, text: str, tokens: Sequence[Token], at: int = 0, end: int | None = None) -> None:
        self.text = text
        self.tokens = list(tokens)
        # A semicolon ends a statement and is not part of it.
        stop = len(self.tokens) if end is None else end
        while end is None and stop and self.tokens[stop - 1].upper == ";":
            stop -= 1
        self.end = stop
        self.at = at

    @property
    def is_done(self) -> bool:
        """Return whether no tokens are left."""
        return self.at >= self.end

    def ahead(self, offset: int = 0) -> str:
        """Return the word or sign `offset` tokens ahead, in upper case. "" for other tokens and after the end."""
        place = self.at + offset
        return self.tokens[place].upper if place < self.end else ""

    def peek(self, *words: str) -> bool:
        """Return whether these words come next."""
        return all(self.ahead(offset) == word for offset, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Return whether these words come next, and advance over them if so."""
        if not self.peek(*words):
            return False
        self.at += len(words)
        return True

    def accept_any(self, *words: str) -> str | None:
        """Return the next word if it is in `words`, and advance over it. None for other words."""
        found = self.ahead()
        if found not in words:
            return None
        self.at += 1
        return found

    def expect(self, *words: str) -> None:
        """Advance over these words. Raises SqlSyntaxError if other words come next."""
        for place, word in enumerate(words):
            if not self.accept(word):
                raise self.unexpected(" ".join(words[place:]))

    def name(self, what: str = "the name of a table") -> SqlName:
        """Parse the next name. Raises SqlSyntaxError."""
        found = name_at(self.tokens, self.at) if not self.is_done else None
        if found is None or found.next > self.end:
            raise self.unexpected(what)
        self.at = found.next
        return found

    def literal(self, what: str = "a text in quotes") -> str:
        """Parse the next text in quotes. Adjacent texts are joined, like in Spark. Raises SqlSyntaxError."""
        found = [self.one_literal(what)]
        while self.sees_literal():
            found.append(self.one_literal(what))
        return "".join(found)

    def one_literal(self, what: str = "a text in quotes") -> str:
        """Parse the next text in quotes, without adjacent texts. Raises SqlSyntaxError."""
        if not self.sees_literal():
            raise self.unexpected(what)
        self.at += 1
        return self.tokens[self.at - 1].value

    def sees_literal(self) -> bool:
        """Return whether a text in quotes comes next."""
        return not self.is_done and self.tokens[self.at].kind == TEXT

    def number(self, what: str = "a number") -> str:
        """Return the text of the next number. Raises SqlSyntaxError."""
        start = self.at
        self.accept("-")
        if self.is_done or not self.tokens[self.at].raw[:1].isdigit():
            raise self.unexpected(what)
        self.at += 1
        if self.ahead() == "." and self.at + 1 < self.end and self.tokens[self.at + 1].raw[:1].isdigit():
            self.at += 2
        return self.text[self.tokens[start].start : self.tokens[self.at - 1].end]

    def names(self, what: str = "a column") -> list[str]:
        """Parse the next names, separated by commas, in SQL. Raises SqlSyntaxError."""
        found = [self.name(what).text]
        while self.accept(","):
            found.append(self.name(what).text)
        return found

    def inner(self, what: str = "(") -> TokenCursor:
        """Return a cursor over the content of the next parentheses, and advance past them. Raises SqlSyntaxError."""
        return TokenCursor(self.text, self.tokens, *self.group_places(what))

    def group(self, what: str = "(") -> str:
        """Return the text in the next parentheses, and advance past them. Raises SqlSyntaxError."""
        start, stop = self.group_places(what)
        return self.between(start, stop)

    def group_places(self, what: str = "(") -> tuple[int, int]:
        """Return the indexes of the first token in the next parentheses and of the `)`, and advance past the `)`.

        Raises SqlSyntaxError.
        """
        if self.ahead() != "(":
            raise self.unexpected(what)
        stop = closing(self.tokens[: self.end]).get(self.at)
        if stop is None:
            raise self.unexpected("a ) for every (")
        start, self.at = self.at + 1, stop + 1
        return start, stop

    def until(self, *words: str) -> str:
        """Return the text up to the next of `words` outside of parentheses and CASE, or to the end; advance to it."""
        start = self.at
        self.at = self.place_of(*words)
        return self.between(start, self.at)

    def place_of(self, *words: str) -> int:
        """Return the index of the next of `words` outside of parentheses and CASE, or the end."""
        closes, at, cases = closing(self.tokens[: self.end]), self.at, 0
        while at < self.end:
            upper = self.tokens[at].upper
            is_word = not is_behind_dot(self.tokens, at)
            if upper == "(":
                at = closes.get(at, self.end - 1)
            elif upper == "CASE" and is_word:
                cases += 1
            elif upper == "END" and cases:
                cases -= 1
            elif upper in words and is_word and not cases:
                return at
            at += 1
        return self.end

    def between(self, start: int, stop: int) -> str:
        """Return the original text of the tokens from index `start` up to `stop`."""
        return text_between(self.text, self.tokens, start, stop)

    def rest(self) -> str:
        """Return the remaining text, and advance to the end."""
        found = self.between(self.at, self.end)
        self.at = self.end
        return found

    def done(self) -> None:
        """Raise SqlSyntaxError if tokens are left."""
        if not self.is_done:
            raise self.unexpected("the end of the statement")

    def unexpected(self, expected: str) -> SqlSyntaxError:
        """Return the error for a statement without `expected` at this position."""
        if self.is_done:
            found, place = "its end", StatementPlace(self.text, len(self.text), len(self.text))
        else:
            token = self.tokens[self.at]
            found, place = repr(token.raw), StatementPlace(self.text, token.start, token.end - 1)
        return SqlSyntaxError(
            f"the statement is not understood at line {place.line}, column {place.column}: expected {expected}, found "
            f"{found}, in: {self.text.strip()[:200]}",
            place=place,
        )


def _comment_end(text: str, at: int) -> int | None:
    """Return the end of the comment around `at`, or None if it does not end. Comments may be nested."""
    depth = 1
    for edge in _COMMENT_EDGE.finditer(text, at):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    return None


def _paired(match: re.Match[str]) -> str:
    """Combine two surrogates, escaped one by one, into one character."""
    return match[0].encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if len(code) > 1:
        number = int(code[1:], 16) if code[0] in "uU" else int(code, 8)
        return chr(number) if number <= 0x10FFFF else "\ufffd"
    return _ESCAPED.get(code, code)
