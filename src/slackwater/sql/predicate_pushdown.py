"""Predicate pushdown: conjuncts of WHERE on a single table, for file pruning before Spark plans the query.

A condition is pushed only if the result never contains rows of the table for which it is not true. Spark evaluates it
again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from slackwater.predicate.sql_split import conjuncts
from slackwater.sql.lexer import (
    NAME,
    SIGN,
    TEXT,
    WORD,
    Token,
    closing,
    is_behind_dot,
    is_star,
    name_at,
    quoted,
    tokens_of,
)
from slackwater.sql.relations import ENDS_FROM, Block, Relation
from slackwater.sql.text_edits import TextEdit, apply_edits

# Words other than columns in conditions supported by predicates. A column may have such a name.
_NOT_COLUMNS = frozenset({"AND", "AS", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE"})
_NUMBER = re.compile(r"\d+(?:E\d+)?(?:[LSYDF]|BD)?\Z|\d+E\Z")

# Words after FROM that change the rows or columns of a single relation.
_NO_FILTER = (ENDS_FROM - {"WHERE"}) | {"JOIN", ",", "LATERAL", "PIVOT", "UNPIVOT", "TABLESAMPLE"}
# Words of expressions that may read other rows than their own.
_OTHER_ROWS = frozenset({"OVER", "SELECT", "FROM", "EXISTS", "DISTINCT", "ALL"})
# Words before `(` in an expression on one row: operators, types, and functions that return the same for each call.
_BEFORE_ARGUMENTS = frozenset(
    """
    AND AS BETWEEN CASE ELSE IN LIKE NOT OR THEN WHEN
    BIGINT BOOLEAN CHAR DATE DECIMAL DOUBLE FLOAT INT SMALLINT STRING TIMESTAMP TINYINT VARCHAR
    ABS ADD_MONTHS ARRAY BTRIM CAST CEIL CEILING CHAR_LENGTH COALESCE CONCAT CONCAT_WS CONTAINS DATEDIFF DATE_ADD
    DATE_FORMAT DATE_SUB DATE_TRUNC DAY DAYOFMONTH DAYOFWEEK DAYOFYEAR ELEMENT_AT ENDSWITH FLOOR GET_JSON_OBJECT
    GREATEST HASH HOUR IF IFNULL INITCAP INSTR ISNOTNULL ISNULL LAST_DAY LCASE LEAST LEFT LENGTH LOWER LPAD LTRIM MAP
    MD5 MINUTE MOD MONTH NAMED_STRUCT NULLIF NVL NVL2 PMOD POW POWER QUARTER REGEXP_EXTRACT REGEXP_REPLACE REPLACE
    REVERSE RIGHT ROUND RPAD RTRIM SECOND SHA1 SHA2 SIGN SIZE SPLIT SPLIT_PART SQRT STARTSWITH STRUCT SUBSTR SUBSTRING
    TO_DATE TO_TIMESTAMP TRANSLATE TRIM TRUNC TRY_CAST UCASE UNIX_TIMESTAMP UPPER WEEKOFYEAR XXHASH64 YEAR
    """.split()
)
_SIGNS = frozenset("( ) , . : :: ? + - * / % = == != <> < <= > >= <=> || & | ^ ~ [ ]".split())

_Texts: TypeAlias = Mapping[str, "str | None"]
"""The columns of a relation by name: the text for the column in conditions, None for the unchanged name."""


def pushed_conditions(
    block: Block,
    columns: Mapping[Relation, Collection[str]],
    tokens: Sequence[Token] = (),
    *,
    case_counts: bool = False,
) -> dict[Relation, list[str]]:
    """Return the conditions on each relation of `columns` alone. The mapping holds the column names of each relation.

    The conditions name columns without a qualifier. Column names are case-sensitive if `case_counts`. The `tokens` of
    the statement add conditions of outer queries on columns passed through by a sub-query or a common table, also with
    a new name or a cast.
    """
    folded = str if case_counts else str.lower
    texts: dict[Relation, _Texts] = {each: dict.fromkeys(map(folded, names)) for each, names in columns.items()}
    found = _Pushing(block, texts, folded, _keywords(*texts.values())).found()
    if len(columns) == 1 and tokens:
        (relation,) = columns
        found[relation] += _around(block, tokens, texts[relation], folded)
    return found


def _around(block: Block, tokens: Sequence[Token], names: _Texts, folded: Callable[[str], str]) -> list[str]:
    """Return conditions of the enclosing queries on the columns `names` of the block's only relation."""
    found: list[str] = []
    keywords = _keywords(names)
    while block.user is not None:
        passed = _passed_on(block, tokens, names, folded)
        if passed is None:
            break
        names = passed
        keywords |= _keywords(names)
        outer, place = block.user
        derived = outer.derived[place]
        others = outer.others - len(outer.derived)
        as_table = replace(outer, relations=[*outer.relations, *outer.derived], others=others)
        found += _Pushing(as_table, {derived: names}, folded, keywords).found()[derived]
        block = outer
    return found


def _keywords(*columns: _Texts) -> frozenset[str]:
    """Return the columns whose names are words of conditions or could be a part of `1e-3`, in upper case."""
    names = {name.upper() for each in columns for name in each}
    return frozenset(name for name in names if name in _NOT_COLUMNS or (_NUMBER.match(name) and name.endswith("E")))


def _passed_on(block: Block, tokens: Sequence[Token], names: _Texts, folded: Callable[[str], str]) -> _Texts | None:
    """Return the columns of `SELECT a, t.b AS c, CAST(d AS INT) AS d, f(e) AS e FROM t [WHERE …]` passed through.

    `names` are the columns of `t`. None for any other query.
    """
    read = [*block.relations, *block.derived]
    at, stop = block.query
    if len(read) != 1 or block.others != len(block.derived) or not block.is_plain or tokens[at].upper != "SELECT":
        return None
    shown, closes = folded(read[0].shown), closing(tokens)
    passed: dict[str, str | None] = {}
    while tokens[at].upper in ("SELECT", ","):
        end = at + 1
        while end < stop and (tokens[end].upper not in (",", "FROM") or is_behind_dot(tokens, end)):
            end = closes.get(end, end) + 1
        item = _item(tokens, at + 1, end, shown, names, folded)
        if item is None or any(passed.setdefault(name, text) != text for name, text in item.items()):
            return None
        at = end
    is_from = tokens[at].upper == "FROM" and tokens[at + 1].start == read[0].start
    return passed if is_from and _is_filter(tokens, at + 1, stop) else None


def _item(
    tokens: Sequence[Token], at: int, end: int, shown: str, names: _Texts, folded: Callable[[str], str]
) -> _Texts | None:
    """Return the columns passed through by an item of SELECT, None if the item may depend on other rows.

    `shown` qualifies the columns `names` of the relation.
    """
    item = tokens[at:end]
    words = [token.upper for token in item]
    if words == ["*"] or (words[1:] == [".", "*"] and folded(item[0].value) == shown):
        return names
    if not item or not _is_of_row(tokens, at, end):
        return None
    body, alias = _without_alias(item)
    kind = None
    if len(body) > 2 and words[:2] == ["CAST", "("] and closing(body).get(1) == len(body) - 1:
        body, kind = _cast(body[2:-1])
    name = name_at(body, 0) if body and _may_be_column(body[0], body, 0) else None
    if name is None or name.next != len(body) or len(name.parts) > 2 or (kind and alias is None):
        return {}
    column, text = folded(name.parts[-1]), _spelled(body[-1])
    if column not in names or (len(name.parts) == 2 and folded(name.parts[0]) != shown):
        return {}
    new, before = column if alias is None else folded(alias.value), names[column]
    if kind:
        return {new: f"CAST({before or text} AS {kind})"}
    return {new: before if new == column else before or text}


def _spelled(token: Token) -> str:
    return token.raw if token.kind == NAME else quoted(token.value)


def _is_of_row(tokens: Sequence[Token], start: int, stop: int) -> bool:
    """Return whether the expression has the same value for a row beside fewer other rows."""
    for at in range(start, stop):
        token = tokens[at]
        if token.kind == SIGN and (token.upper not in _SIGNS or is_star(tokens, at)):
            return False
        if token.upper in _OTHER_ROWS and not is_behind_dot(tokens, at):
            return False
        is_called = token.is_name and tokens[at + 1].upper == "("
        if is_called and (token.upper not in _BEFORE_ARGUMENTS or is_behind_dot(tokens, at)):
            return False
    return True


def _without_alias(item: Sequence[Token]) -> tuple[Sequence[Token], Token | None]:
    if len(item) > 2 and item[-2].upper == "AS" and item[-1].is_name:
        return item[:-2], item[-1]
    if len(item) > 1 and item[-1].is_name and (item[-2].is_name or item[-2].upper == ")"):
        return item[:-1], item[-1]
    return item, None


def _cast(inner: Sequence[Token]) -> tuple[Sequence[Token], str | None]:
    """Return what `CAST(a AS INT)` casts, and the type."""
    words = [token.upper for token in inner]
    if "AS" not in words:
        return (), None
    at = words.index("AS")
    return inner[:at], " ".join(token.raw for token in inner[at + 1 :])


def _is_filter(tokens: Sequence[Token], at: int, stop: int) -> bool:
    """Return whether only a relation and an optional WHERE follow FROM."""
    closes = closing(tokens)
    while at < stop:
        if tokens[at].upper in _NO_FILTER:
            return False
        at = closes.get(at, at) + 1
    return True


@dataclass
class _Pushing:
    """Finds the conditions of one block. Names are compared after `folded`.

    A condition with one of the `keywords` is not understood, because the word may be a column.
    """

    block: Block
    columns: Mapping[Relation, _Texts]
    folded: Callable[[str], str]
    keywords: frozenset[str]

    def found(self) -> dict[Relation, list[str]]:
        found: dict[Relation, list[str]] = {relation: [] for relation in self.columns}
        if self.block.where is None or not self.block.is_plain:
            return found
        for text in conjuncts(self.block.where):
            for relation in self.columns:
                if not relation.is_nullable and relation in self.block.relations:
                    own = self._of_relation(text, relation)
                    if own is not None:
                        found[relation].append(own)
                        break
        return found

    def _of_relation(self, text: str, relation: Relation) -> str | None:
        """Return `text` without qualifiers if all its columns certainly belong to the relation, else None."""
        tokens = tokens_of(text)
        if not tokens:
            return None
        block, names, shown = self.block, self.columns[relation], self.folded(relation.shown)
        is_only = len(block.relations) == 1 and block.others == 0
        all_known = block.others == 0 and all(each in self.columns for each in block.relations)
        if shown in names or sum(self.folded(each.shown) == shown for each in block.relations) > 1:
            return None
        changes: list[TextEdit] = []
        is_about_it = False
        at = 0
        while at < len(tokens):
            token = tokens[at]
            name = name_at(tokens, at) if _may_be_column(token, tokens, at) else None
            if name is None:
                if token.upper in ("?", ":", "@", "{", "$", "SELECT", "EXISTS") or token.upper in self.keywords:
                    return None
                at = _type_end(tokens, at) if token.upper == "AS" else at + 1
                continue
            column = self.folded(name.parts[0])
            if len(name.parts) > 1 and column == shown and self.folded(name.parts[1]) in names:
                column = self.folded(name.parts[1])
                # Without the qualifier, a word such as NULL would not be a column.
                changes.append(TextEdit(token.start, tokens[at + 2].end, names[column] or _spelled(tokens[at + 2])))
            elif column not in names or not (is_only or (all_known and self._is_single(column, relation))):
                return None
            elif (source := names[column]) is not None:
                changes.append(TextEdit(token.start, token.end, source))
            is_about_it = True
            at = name.next
        # Drop a comment at the end, because it would also comment out the next condition.
        edges = (TextEdit(0, tokens[0].start, ""), TextEdit(tokens[-1].end, len(text), ""))
        return apply_edits(text, [*edges, *changes]) if is_about_it else None

    def _is_single(self, name: str, relation: Relation) -> bool:
        """Return whether no other relation has a column `name`, or the name itself."""
        others = {each: names for each, names in self.columns.items() if each != relation}
        return not any(name in names or self.folded(each.shown) == name for each, names in others.items())


def _type_end(tokens: Sequence[Token], at: int) -> int:
    """Return the index of the `)` after the type of `CAST(a AS DECIMAL(10, 2))`."""
    closes = closing(tokens)
    while at < len(tokens) and tokens[at].upper != ")":
        at = closes.get(at, at) + 1
    return at


def _may_be_column(token: Token, tokens: Sequence[Token], at: int) -> bool:
    if token.kind == NAME:
        return True
    if token.kind != WORD or token.upper in _NOT_COLUMNS or _NUMBER.match(token.upper):
        return False
    if at + 1 == len(tokens):
        return True
    behind = tokens[at + 1]
    # A word before a text is the type of a literal: DATE '2026-11-29', X'1F'.
    return behind.upper != "(" and behind.kind != TEXT
