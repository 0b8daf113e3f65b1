"""The tables that the queries of a statement name, block by block: where, under which alias, as of when."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from slackwater.sql.tokens import Token, closing, name_at, quoted_name
from slackwater.sql.travel import Travel, at_suffix, travel_at

_QUERY = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE"})
# What ends the list of relations of a block, at its depth.
_ENDS_FROM = frozenset(
    {
        "WHERE",
        "GROUP",
        "HAVING",
        "ORDER",
        "SORT",
        "CLUSTER",
        "DISTRIBUTE",
        "LIMIT",
        "OFFSET",
        "WINDOW",
        "UNION",
        "EXCEPT",
    }
    | {"MINUS", "INTERSECT", "SELECT", "QUALIFY", "SET", "WHEN", "|>", "INSERT", "PIVOT", "UNPIVOT", ";"}
)
_ENDS_WHERE = frozenset(_ENDS_FROM - {"WHERE", "SET", "WHEN"})
_JOIN_KINDS = frozenset({"INNER", "CROSS", "LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "NATURAL"})
_NO_ALIAS = frozenset(
    {"ON", "USING", "JOIN", "LATERAL", "TABLESAMPLE", "WATERMARK", "WITH", "AS", "FOR", "DO", "THEN", "END", "ELSE"}
    | _ENDS_FROM
    | _JOIN_KINDS
)
# These open a new query behind the one before them.
_SET_OPERATIONS = frozenset({"UNION", "EXCEPT", "MINUS", "INTERSECT"})


@dataclass(frozen=True, slots=True)
class Relation:
    """A table in FROM, JOIN or TABLE: its name, where it stands (`start`, `end`, travel included), its alias.

    Without an alias, `alias_at` is where one can be written. `function_end` is set for a function of tables, `f(…)`:
    the place behind its arguments, which are `arguments`.
    """

    parts: tuple[str, ...]
    start: int
    end: int
    alias: str | None
    alias_at: int
    travel: Travel | None = None
    arguments: tuple[str, ...] | None = None
    is_nullable: bool = False
    takes_alias: bool = True

    @property
    def shown(self) -> str:
        """The name by which columns are qualified."""
        return self.alias if self.alias is not None else self.parts[-1]


@dataclass(slots=True)
class Block:
    """One SELECT: its relations in their order, and its WHERE; `others` are relations that are no named tables.

    `is_plain`: nothing in it gives rows of a table another meaning before WHERE is asked.
    """

    relations: list[Relation] = field(default_factory=list)
    where: str | None = None
    others: int = 0
    is_plain: bool = True


def blocks_of(text: str, tokens: Sequence[Token], start: int = 0, end: int | None = None) -> list[Block]:
    """The blocks of all queries in `tokens[start:end]`, sub-queries and common tables included.

    Names of common tables are no relations. What only looks like a query gives relations that nobody may know.
    Raises InvalidArgument for a time travel that does not go on as it must.
    """
    reader = _Reader(text, tokens)
    reader.read(start, len(tokens) if end is None else end, frozenset(), reader.new_block())
    return [block for block in reader.blocks if block.relations]


def relations_of(text: str, tokens: Sequence[Token]) -> list[Relation]:
    """The relations of all blocks."""
    return [relation for block in blocks_of(text, tokens) for relation in block.relations]


class _Reader:
    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.closes = closing(tokens)
        self.blocks: list[Block] = []

    def new_block(self) -> Block:
        self.blocks.append(Block())
        return self.blocks[-1]

    def upper(self, at: int) -> str:
        return self.tokens[at].upper if 0 <= at < len(self.tokens) else ""

    def read(self, at: int, end: int, common: frozenset[str], block: Block, in_from: bool = False) -> None:
        """Read one query, or the inner of parentheses among relations, which are `in_from` from the start."""
        expects, nullable, before = in_from, False, ""
        while at < end:
            upper = self.upper(at)
            if self.upper(at - 1) == "." and upper not in ("(", ")"):
                at += 1
            elif upper == "WITH" and not in_from:
                at, common = self._common_tables(at, end, common)
            elif expects and upper not in ("LATERAL", "STREAM"):
                at, expects = self._relation(at, end, common, block, nullable), False
                in_from = True
            elif upper == "FROM" and self._is_clause(at):
                if block.relations or block.where is not None:
                    block = self.new_block()
                expects, in_from, nullable = True, True, False
                at += 1
            elif upper == "JOIN":
                nullable = self._joined(block, at)
                expects = True
                at += 1
            elif upper == "," and in_from:
                expects, nullable = True, False
                at += 1
            elif upper == "TABLE" and before in ("", "(", *_SET_OPERATIONS, "ALL", "DISTINCT", "AS") and not in_from:
                at = self._named(at + 1, end, common)
            elif upper == "WHERE" and in_from:
                at, in_from = self._where(at, end, common, block), False
            elif upper == "(":
                at = self._parentheses(at, common)
            else:
                block, goes_on = self._word(at, block)
                in_from = in_from and goes_on
                at += 1
            before = upper

    def _word(self, at: int, block: Block) -> tuple[Block, bool]:
        """Step over a word that names no relation; the block that goes on, and whether its relations do."""
        upper = self.upper(at)
        goes_on = upper not in _ENDS_FROM
        if upper == "LATERAL" and self.upper(at + 1) == "VIEW":
            block.others += 1
            goes_on = False
        elif upper in ("PIVOT", "UNPIVOT", "|>", "TABLESAMPLE"):
            block.is_plain = False
        if upper in ("SELECT", "|>") and (block.relations or block.where is not None):
            block = self.new_block()
        return block, goes_on

    def _is_clause(self, at: int) -> bool:
        """Whether FROM begins a clause: not so in IS DISTINCT FROM, which parentheses of functions are asked first."""
        return not (self.upper(at - 1) == "DISTINCT" and self.upper(at - 2) in ("IS", "NOT"))

    def _joined(self, block: Block, at: int) -> bool:
        """What a JOIN makes of the relations before it; whether the one behind it may be all NULL, or unseen."""
        kinds = set()
        at -= 1
        while self.upper(at) in _JOIN_KINDS:
            kinds.add(self.upper(at))
            at -= 1
        if kinds & {"RIGHT", "FULL"}:
            block.relations[:] = [_changed(relation, is_nullable=True) for relation in block.relations]
        return bool(kinds & {"LEFT", "FULL", "SEMI", "ANTI"})

    def _relation(self, at: int, end: int, common: frozenset[str], block: Block, nullable: bool) -> int:
        """Read one relation; the index behind it and its alias."""
        upper = self.upper(at)
        if upper == "(":
            stop = self.closes.get(at, end)
            if self._opens_query(at + 1):
                self.read(at + 1, stop, common, self.new_block())
            else:
                # Tables within parentheses are joined before the others; their rows keep no order of their own.
                self.read(at + 1, stop, common, self.new_block(), in_from=True)
            block.others += 1
            return stop + 1
        name = name_at(self.tokens, at) if upper not in ("VALUES", "SELECT", "TABLE") else None
        if name is None or name.next > end:
            block.others += 1
            return at + 1 if upper == "TABLE" else at if upper in ("VALUES", "SELECT") else at + 1
        behind, arguments, travel = name.next, None, None
        if self.upper(behind) == "(":
            stop = self.closes.get(behind, end)
            arguments = self._arguments(behind + 1, stop)
            self._parentheses(behind, common)
            behind = stop + 1
        elif len(name.parts) == 1 and name.parts[0].lower() in common:
            block.others += 1
            return self._alias(behind)[1]
        else:
            found = at_suffix(self.tokens, behind) or travel_at(self.text, self.tokens, behind)
            if found is not None:
                travel, behind = found
        place = self.tokens[behind - 1].end
        while self.upper(behind) in ("TABLESAMPLE", "REPEATABLE") and self.upper(behind + 1) == "(":
            block.is_plain = False
            behind = self.closes.get(behind + 1, end) + 1
        alias_at = self.tokens[behind - 1].end
        alias, behind = self._alias(behind)
        relation = Relation(name.parts, name.start, place, alias, alias_at, travel, arguments, nullable)
        block.relations.append(relation)
        return behind

    def _named(self, at: int, end: int, common: frozenset[str]) -> int:
        """Read the table behind TABLE, which takes no alias."""
        block = self.new_block()
        behind = self._relation(at, end, common, block, False)
        block.relations[:] = [_changed(each, takes_alias=False) for each in block.relations]
        return behind

    def _alias(self, at: int) -> tuple[str | None, int]:
        if self.upper(at) == "AS":
            at += 1
        elif at >= len(self.tokens) or not self.tokens[at].is_name or self.upper(at) in _NO_ALIAS:
            return None, at
        if at >= len(self.tokens) or not self.tokens[at].is_name:
            return None, at
        alias = self.tokens[at].value
        at += 1
        return alias, self.closes[at] + 1 if self.upper(at) == "(" and at in self.closes else at

    def _arguments(self, at: int, stop: int) -> tuple[str, ...]:
        found, start = [], at
        while at < stop:
            if self.upper(at) == "(":
                at = self.closes.get(at, stop)
            elif self.upper(at) == ",":
                found.append(self._text(start, at))
                start = at + 1
            at += 1
        last = self._text(start, stop)
        return (*found, last) if last else tuple(found)

    def _parentheses(self, at: int, common: frozenset[str]) -> int:
        """Read what stands in parentheses that are no relation: a sub-query, or arguments, which may hold some."""
        stop = self.closes.get(at, len(self.tokens))
        if self._opens_query(at + 1) and not (
            self.upper(at + 1) in ("MAP", "TABLE", "VALUES") and self.upper(at + 2) == "("
        ):
            self.read(at + 1, stop, common, self.new_block())
            return stop + 1
        inner = at + 1
        while inner < stop:
            if self.upper(inner) == "TABLE" and self.upper(inner - 1) in ("(", ",", "=>"):
                inner = self._table_argument(inner + 1, stop, common)
            elif self.upper(inner) == "(":
                inner = self._parentheses(inner, common)
            else:
                inner += 1
        return stop + 1

    def _table_argument(self, at: int, stop: int, common: frozenset[str]) -> int:
        if self.upper(at) == "(":
            inner = self.closes.get(at, stop)
            if self._opens_query(at + 1):
                self.read(at + 1, inner, common, self.new_block())
            else:
                self._named(at + 1, inner, common)
            return inner + 1
        return self._named(at, stop, common)

    def _opens_query(self, at: int) -> bool:
        while self.upper(at) == "(":
            at += 1
        return self.upper(at) in _QUERY

    def _common_tables(self, at: int, end: int, common: frozenset[str]) -> tuple[int, frozenset[str]]:
        """Read `WITH a AS (…), b AS (…)`; the index behind, and the names that are known from there on."""
        at += 1
        is_recursive = self.upper(at) == "RECURSIVE"
        at += is_recursive
        while at < end and self.tokens[at].is_name:
            name = self.tokens[at].value.lower()
            at += 1
            if self.upper(at) == "(":
                at = self.closes.get(at, end) + 1
            while at < end and self.upper(at) not in ("AS", "("):
                at += 1
            at += self.upper(at) == "AS"
            if self.upper(at) != "(":
                return at, common
            stop = self.closes.get(at, end)
            self.read(at + 1, stop, common | {name} if is_recursive else common, self.new_block())
            common |= {name}
            at = stop + 1
            if self.upper(at) != ",":
                break
            at += 1
        return at, common

    def _where(self, at: int, end: int, common: frozenset[str], block: Block) -> int:
        start, at = at + 1, at + 1
        while at < end and (self.upper(at) not in _ENDS_WHERE or self.upper(at - 1) == "."):
            at = self._parentheses(at, common) if self.upper(at) == "(" else at + 1
        block.where = self._text(start, at)
        return at

    def _text(self, start: int, stop: int) -> str:
        return self.text[self.tokens[start].start : self.tokens[stop - 1].end] if stop > start else ""


def _changed(relation: Relation, **changes: bool) -> Relation:
    return replace(relation, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Replacement:
    """Text that takes the place of `start` to `end`."""

    start: int
    end: int
    text: str


def replaced(text: str, replacements: Sequence[Replacement]) -> str:
    """`text` with all of these done, and nothing else of it changed."""
    pieces, at = [], 0
    for each in sorted(replacements, key=lambda r: (r.start, r.end)):
        pieces += [text[at : each.start], each.text]
        at = each.end
    return "".join([*pieces, text[at:]])


def as_view(relation: Relation, view: str) -> Iterator[Replacement]:
    """What lets the relation be `view`, known by the name that it had."""
    yield Replacement(relation.start, relation.end, view)
    if relation.alias is None and relation.takes_alias:
        yield Replacement(relation.alias_at, relation.alias_at, f" AS {quoted_name(relation.shown)}")


def without_database(
    tokens: Sequence[Token], qualified: Mapping[Relation, Collection[tuple[str, ...]]]
) -> Iterator[Replacement]:
    """What lets `db.t.c` be `t.c` in expressions, as a view has no database.

    `qualified` are the relations with views, each with the names of several parts that it goes by.
    """
    names = {
        tuple(part.lower() for part in name) for r, known in qualified.items() if r.alias is None for name in known
    }
    taken = {relation.start for relation in qualified}
    at = 0
    while names and at < len(tokens):
        name = name_at(tokens, at)
        if name is None:
            at += 1
            continue
        lowered = tuple(part.lower() for part in name.parts)
        is_star = name.next + 1 < len(tokens) and tokens[name.next].upper == "." and tokens[name.next + 1].upper == "*"
        longest = max((len(n) for n in names if lowered[: len(n)] == n), default=0)
        if longest > 1 and name.start not in taken and (len(lowered) > longest or is_star):
            yield Replacement(name.start, tokens[at + 2 * (longest - 1)].start, "")
        at = name.next
