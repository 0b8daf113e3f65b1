"""Predicate pushdown: conjuncts of WHERE on a single table, for file pruning before Spark plans the query.

A condition is pushed only if the result never contains rows of the table for which it is not true. Spark evaluates it
again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from slackwater.predicate.sql_split import conjuncts
from slackwater.sql.lexer import NAME, WORD, Token, closing, name_at, tokens_of
from slackwater.sql.relations import ENDS_FROM, Block, Relation
from slackwater.sql.text_edits import TextEdit, apply_edits

# Words other than columns in conditions supported by predicates.
_NOT_COLUMNS = frozenset(
    {"AND", "OR", "NOT", "IN", "IS", "NULL", "LIKE", "BETWEEN", "TRUE", "FALSE", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ"}
    | {"ESCAPE", "TIMESTAMP_LTZ"}
)

# Words after FROM that change the rows or columns of a single relation.
_NO_FILTER = (ENDS_FROM - {"WHERE"}) | {"JOIN", ",", "LATERAL", "PIVOT", "UNPIVOT", "TABLESAMPLE"}
_ALL = frozenset({"*"})


def pushed_conditions(
    block: Block,
    columns: Mapping[Relation, Collection[str]],
    tokens: Sequence[Token] = (),
    *,
    case_counts: bool = False,
) -> dict[Relation, list[str]]:
    """Return the conditions on each relation of `columns` alone. The mapping holds the column names of each relation.

    The conditions name columns without a qualifier. Column names are case-sensitive if `case_counts`. The `tokens` of
    the statement add conditions of outer queries on columns passed through by a sub-query or a common table.
    """
    folded = str if case_counts else str.lower
    found = _Pushing(block, columns, folded).found()
    if len(columns) == 1 and tokens:
        (relation,) = columns
        found[relation] += _around(block, tokens, frozenset(map(folded, columns[relation])), folded)
    return found


def _around(block: Block, tokens: Sequence[Token], names: frozenset[str], folded: Callable[[str], str]) -> list[str]:
    """Return conditions of the enclosing queries on the columns `names` of the block's only relation."""
    found: list[str] = []
    while block.user is not None:
        passed = _passed_on(block, tokens, folded)
        if passed is None:
            break
        names = names if passed == _ALL else names & passed
        outer, place = block.user
        derived = outer.derived[place]
        others = outer.others - len(outer.derived)
        as_table = replace(outer, relations=[*outer.relations, *outer.derived], others=others)
        found += _Pushing(as_table, {derived: names}, folded).found()[derived]
        block = outer
    return found


def _passed_on(block: Block, tokens: Sequence[Token], folded: Callable[[str], str]) -> frozenset[str] | None:
    """Return the columns passed through by `SELECT a, t.b FROM t [WHERE …]`, or None for any other query."""
    read = [*block.relations, *block.derived]
    at, stop = block.query
    if len(read) != 1 or block.others != len(block.derived) or not block.is_plain or tokens[at].upper != "SELECT":
        return None
    shown, passed = folded(read[0].shown), set()
    while tokens[at].upper in ("SELECT", ","):
        at += 1
        item = _passed_column(tokens, at, shown, folded)
        if item is None or item[1] >= stop:
            return None
        passed.add(item[0])
        at = item[1]
    return frozenset(passed) if tokens[at].upper == "FROM" and _is_filter(tokens, at + 1, stop) else None


def _passed_column(
    tokens: Sequence[Token], at: int, shown: str, folded: Callable[[str], str]
) -> tuple[str, int] | None:
    """Return the column of a SELECT item, `*` for all columns, and the index after the item. None for other items."""
    if tokens[at].upper == "*":
        return "*", at + 1
    name = name_at(tokens, at) if _may_be_column(tokens[at], tokens, at) else None
    if name is None or len(name.parts) > 2 or (len(name.parts) == 2 and folded(name.parts[0]) != shown):
        return None
    if tokens[name.next].upper == "." and tokens[name.next + 1].upper == "*":
        return ("*", name.next + 2) if len(name.parts) == 1 and folded(name.parts[0]) == shown else None
    return folded(name.parts[-1]), name.next


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
    """Finds the conditions of one block. Names are compared after `folded`."""

    block: Block
    named: Mapping[Relation, Collection[str]]
    folded: Callable[[str], str]

    @cached_property
    def columns(self) -> dict[Relation, frozenset[str]]:
        return {relation: frozenset(map(self.folded, names)) for relation, names in self.named.items()}

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
        dropped: list[TextEdit] = []
        is_about_it = False
        at = 0
        while at < len(tokens):
            token = tokens[at]
            name = name_at(tokens, at) if _may_be_column(token, tokens, at) else None
            if name is None:
                if token.upper in ("?", ":", "@", "{", "$", "SELECT", "EXISTS"):
                    return None
                at += 1
                continue
            first = self.folded(name.parts[0])
            if len(name.parts) > 1 and first == shown and self.folded(name.parts[1]) in names:
                dropped.append(TextEdit(token.start, tokens[at + 2].start, ""))
            elif first not in names or not (is_only or (all_known and self._is_single(first, relation))):
                return None
            is_about_it = True
            at = name.next
        # Drop a comment at the end, because it would also comment out the next condition.
        edges = (TextEdit(0, tokens[0].start, ""), TextEdit(tokens[-1].end, len(text), ""))
        return apply_edits(text, [*edges, *dropped]) if is_about_it else None

    def _is_single(self, name: str, relation: Relation) -> bool:
        """Return whether no other relation has a column `name`, or the name itself."""
        others = {each: names for each, names in self.columns.items() if each != relation}
        return not any(name in names or self.folded(each.shown) == name for each, names in others.items())


def _may_be_column(token: Token, tokens: Sequence[Token], at: int) -> bool:
    if token.kind == NAME:
        return True
    if token.kind != WORD or token.raw[0].isdigit() or token.upper in _NOT_COLUMNS:
        return False
    return not (at + 1 < len(tokens) and tokens[at + 1].upper == "(")
