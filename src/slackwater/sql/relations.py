"""Finds the tables in the queries of a statement, block by block, with offset, alias and time travel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from slackwater.errors import InvalidArgument
from slackwater.sql.lexer import (
    OPENS_QUERY,
    TEXT,
    SqlName,
    Token,
    closing,
    is_behind_dot,
    is_star,
    name_at,
    text_between,
    tokens_of,
    wants_operand,
)
from slackwater.sql.time_travel import Travel, at_suffix, travel_at

# These operators start a new query.
_SET_OPERATIONS = frozenset({"UNION", "EXCEPT", "MINUS", "SETMINUS", "INTERSECT"})
# Words at the end of WHERE, at the same depth.
_ENDS_WHERE = frozenset(
    {"GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW", "SELECT", "QUALIFY"}
    | {"INSERT", "|>", ";"}
    | _SET_OPERATIONS
)
# Words at the end of a block's list of relations.
ENDS_FROM = frozenset({"WHERE", "SET", "WHEN"} | _ENDS_WHERE)
_JOIN_KINDS = frozenset({"INNER", "CROSS", "LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "NATURAL"})
_NO_ALIAS = frozenset(
    {"ON", "USING", "JOIN", "LATERAL", "TABLESAMPLE", "WATERMARK", "WITH", "AS", "FOR", "DO", "THEN", "END", "ELSE"}
    | {"PIVOT", "UNPIVOT"}
    | ENDS_FROM
    | _JOIN_KINDS
)
# After these words, TABLE is an object type of a command, not a query.
_BEFORE_KIND = frozenset(
    {"CREATE", "REPLACE", "EXTERNAL", "TEMPORARY", "TEMP", "GLOBAL", "DROP", "ALTER", "TRUNCATE", "REPAIR", "REFRESH"}
    | {"CACHE", "LAZY", "UNCACHE", "ANALYZE", "DESC", "DESCRIBE", "SHOW", "INTO", "OVERWRITE", "ON", "LOCK", "UNLOCK"}
    | {"EXPORT", "IMPORT", "RESTORE", "REORG", "FOR", "OPTIMIZE", "VACUUM", "TO", "RETURNS", "STREAMING", "."}
)
_ENDS_QUERY = frozenset({")"}) | ENDS_FROM
# After a column name, but never after the first word of a query.
_BEHIND_COLUMNS = frozenset({")", ",", "."})


@dataclass(frozen=True, slots=True)
class Relation:
    """A table in FROM, JOIN or TABLE: its name, offsets (`start`, `end`, including time travel) and alias.

    `alias_at` is the offset for a missing alias, if the relation `takes_alias`. `arguments` belong to a table function
    `f(…)`, and `end` is then the offset after them. For `IDENTIFIER('a.b')`, `parts` are the parts of the inner name.
    `is_semi` after SEMI JOIN or ANTI JOIN, because `*` does not include its columns.
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
    is_semi: bool = False

    @property
    def shown(self) -> str:
        """Name that qualifies columns."""
        return self.alias if self.alias is not None else self.parts[-1]


@dataclass(slots=True)
class Block:
    """A SELECT: its relations in order, and its WHERE. `others` is the number of relations without a table name.

    `is_plain` if nothing in the block changes rows or columns of a table before WHERE. `derived` are the sub-queries
    and common tables among the others. `stars` are the token indexes of `*` and `t.*` in its list of columns. `nested`
    are the blocks of joins in parentheses among the others, with their aliases. If exactly one derived relation reads
    this block, `query` are the token indexes of this block, and `user` is the reading block with the index in its
    `derived`.
    """

    relations: list[Relation] = field(default_factory=list)
    where: str | None = None
    others: int = 0
    is_plain: bool = True
    derived: list[Relation] = field(default_factory=list)
    query: tuple[int, int] = (0, 0)
    stars: list[int] = field(default_factory=list)
    nested: list[tuple[Block, str | None]] = field(default_factory=list)
    user: tuple[Block, int] | None = field(default=None, compare=False, repr=False)


def blocks_of(
    text: str, tokens: Sequence[Token], start: int = 0, end: int | None = None, *, case_counts: bool = False
) -> list[Block]:
    """Parse the blocks of all queries in `tokens[start:end]`, including sub-queries and common tables.

    Names of common tables are not relations, case-insensitive unless `case_counts`. Text only similar to a query may
    produce relations without a table. Raises InvalidArgument for a malformed time travel clause, and for too many
    nested queries.
    """
    reader = _Reader(text, tokens, case_counts)
    try:
        reader.read(start, len(tokens) if end is None else end, frozenset())
    except RecursionError:
        raise InvalidArgument("the statement has too many nested queries") from None
    reader.join_common_tables()
    return [block for block in reader.blocks if block.relations or block.stars]


def relations_of(text: str, tokens: Sequence[Token], *, case_counts: bool = False) -> list[Relation]:
    """Return the relations of all blocks. Arguments and errors are those of `blocks_of`."""
    return [relation for block in blocks_of(text, tokens, case_counts=case_counts) for relation in block.relations]


def table_names_of(query: str, *, case_counts: bool) -> Iterator[SqlName]:
    """Yield the names of the relations of `query`, except functions and names in other forms."""
    tokens = tokens_of(query) or []
    starts = {token.start: at for at, token in enumerate(tokens)}
    for relation in relations_of(query, tokens, case_counts=case_counts):
        name = name_at(tokens, starts[relation.start]) if relation.arguments is None else None
        if name is not None and name.parts == relation.parts:
            yield name


@dataclass(slots=True)
class _Query:
    """Parser state of one query: position, visible common tables, and the block of the relations."""

    at: int
    end: int
    common: frozenset[str]
    block: Block
    # Inside the list of relations; before a relation; before a relation with possible NULL rows.
    in_from: bool = False
    expects: bool = False
    nullable: bool = False
    # After SEMI JOIN or ANTI JOIN.
    is_semi: bool = False
    # After the first word of the query.
    is_open: bool = False
    cases: int = 0
    before: str = ""


class _Reader:
    def __init__(self, text: str, tokens: Sequence[Token], case_counts: bool) -> None:
        self.text = text
        self.tokens = tokens
        self.words = [token.upper for token in tokens]
        self.folded = str if case_counts else str.lower
        self.closes = closing(tokens)
        self.blocks: list[Block] = []
        # Queries of each common table by name (None if renaming or recursive), and the blocks reading it.
        self.queries: dict[str, list[Block | None]] = {}
        self.users: dict[str, list[tuple[Block, int]]] = {}

    def new_block(self) -> Block:
        self.blocks.append(Block())
        return self.blocks[-1]

    def upper(self, at: int) -> str:
        return self.words[at] if 0 <= at < len(self.words) else ""

    def join_common_tables(self) -> None:
        """Link the query of a common table to its reader, if no other part of the statement can read it."""
        if not self.queries:
            return
        names = [
            token.value.lower()
            for at, token in enumerate(self.tokens)
            if token.is_name and self.upper(at + 1) != "." and self.upper(at - 1) != "."
        ]
        if "identifier" in names:
            return
        for name, queries in self.queries.items():
            users = self.users.get(name, [])
            # The name appears twice: in the definition and at the reader.
            if len(queries) == len(users) == 1 and queries[0] is not None and names.count(name.lower()) == 2:
                queries[0].user = users[0]

    def _is(self, at: int, words: frozenset[str]) -> bool:
        """Return whether one of the words is at this index, or the statement ends."""
        return at >= len(self.tokens) or self.tokens[at].upper in words

    def read(self, at: int, end: int, common: frozenset[str], in_from: bool = False) -> None:
        """Parse a query, or the content of parentheses among relations, which starts `in_from`."""
        query = _Query(at, end, common, self.new_block(), in_from, in_from, is_open=in_from)
        while query.at < end:
            word = self.words[query.at]
            if word == "*" and not query.in_from and is_star(self.tokens, query.at):
                query.block.stars.append(query.at)
            if is_behind_dot(self.tokens, query.at):
                query.at += 1
            elif query.expects and word != "LATERAL" and not self._is_stream(query.at):
                block, known = query.block, len(query.block.relations)
                joined = len(block.nested)
                query.at = self._relation(query.at, end, query.common, block, query.nullable)
                if query.is_semi:
                    block.relations[known:] = [replace(each, is_semi=True) for each in block.relations[known:]]
                    del block.nested[joined:]
                query.expects, query.in_from, query.is_open, query.is_semi = False, True, True, False
            elif word == "(":
                query.at = self._parentheses(query.at, query.common)
            elif not query.expects and query.at > at and wants_operand(self.tokens, query.at):
                query.cases += word == "CASE"
                query.at += 1
            elif self._is_target(query, word):
                query.at = self._behind_target(query.at)
                query.is_open = query.in_from = False
                word = ""
            elif not self._relations(query, word):
                self._word(query, word)
                if word == ";":
                    query.common = common
            query.before = word

    def _relations(self, query: _Query, word: str) -> bool:
        """Parse a clause with relations. Return False for any other word."""
        if word == "WITH" and not query.in_from and self._opens_common_tables(query.at + 1):
            query.at, query.common = self._common_tables(query.at, query.end, query.common)
        elif word == "FROM" and self._is_clause(query.at):
            self._renew(query)
            query.expects, query.in_from, query.is_open, query.nullable = True, True, True, False
            query.at += 1
        elif word == "JOIN":
            query.nullable = self._joined(query.block, query.at)
            query.is_semi = self.upper(query.at - 1) in ("SEMI", "ANTI")
            query.expects = True
            query.at += 1
        elif word == "," and query.in_from:
            query.expects, query.nullable = True, False
            query.at += 1
        elif self._is_table_query(query, word):
            query.at = self._relation(query.at + 1, query.end, query.common, self.new_block(), takes_alias=False)
            query.is_open = True
        elif word == "WHERE" and query.in_from:
            query.at, query.in_from = self._where(query.at, query.end, query.common, query.block), False
        else:
            return False
        return True

    def _word(self, query: _Query, word: str) -> None:
        """Advance over a word that names no relation."""
        if word == "CASE":
            query.cases += 1
        elif word == "END" and query.cases:
            query.cases -= 1
        elif word == "LATERAL" and self.upper(query.at + 1) == "VIEW":
            query.block.others += 1
            query.in_from = query.expects = False
        elif word in ("PIVOT", "UNPIVOT", "|>", "TABLESAMPLE"):
            query.block.is_plain = False
        if word in ENDS_FROM and not (word == "WHEN" and query.cases):
            query.in_from = False
        if word in _SET_OPERATIONS or word == ";":
            query.is_open = False
        elif word in ("SELECT", "VALUES"):
            query.is_open = True
        if word in ("SELECT", "|>", ";"):
            self._renew(query)
        query.at += 1

    def _renew(self, query: _Query) -> None:
        if query.block.relations or query.block.others or query.block.where is not None:
            query.block = self.new_block()

    def _is_stream(self, at: int) -> bool:
        """Return whether STREAM is a keyword before a relation, not a table name."""
        if self.upper(at) != "STREAM" or at + 1 >= len(self.tokens):
            return False
        behind = self.tokens[at + 1]
        return behind.upper == "(" or (behind.is_name and behind.upper not in _NO_ALIAS)

    def _is_clause(self, at: int) -> bool:
        """Return whether FROM starts a clause. False in IS DISTINCT FROM, and before another FROM."""
        if self.upper(at - 1) == "DISTINCT" and self.upper(at - 2) in ("IS", "NOT"):
            return False
        is_all = self.upper(at - 1) == "*" and self.upper(at - 2) in ("SELECT", "DISTINCT", "ALL", ",", ".")
        return is_all or self.upper(at + 1) != "FROM" or self._is(at + 2, _ENDS_QUERY)

    def _is_table_query(self, query: _Query, word: str) -> bool:
        if word != "TABLE" or query.is_open or query.before in _BEFORE_KIND or query.at + 1 >= query.end:
            return False
        return self.tokens[query.at + 1].is_name

    def _is_target(self, query: _Query, word: str) -> bool:
        return word in ("INTO", "OVERWRITE") and query.before in ("INSERT", "EVOLUTION")

    def _behind_target(self, at: int) -> int:
        """Return the index after the target table of INSERT, which is not read."""
        at += 1 + (self.upper(at + 1) == "TABLE")
        name = name_at(self.tokens, at)
        return name.next if name is not None else at

    def _joined(self, block: Block, at: int) -> bool:
        """Mark relations before a JOIN that may be NULL. Return whether the next relation may be NULL or hidden."""
        kinds = set()
        at -= 1
        while self.upper(at) in _JOIN_KINDS:
            kinds.add(self.upper(at))
            at -= 1
        if kinds & {"RIGHT", "FULL"}:
            for read in (block.relations, block.derived):
                read[:] = [replace(relation, is_nullable=True) for relation in read]
        return bool(kinds & {"LEFT", "FULL", "SEMI", "ANTI"})

    def _relation(
        self,
        at: int,
        end: int,
        common: frozenset[str],
        block: Block,
        nullable: bool = False,
        takes_alias: bool = True,
    ) -> int:
        """Parse a relation, and return the index after the relation and its alias."""
        if self.upper(at) == "(" and at in self.closes:
            # Tables within parentheses are joined first, and their rows have no order of their own.
            stop, inner = self.closes[at], len(self.blocks)
            is_query = self._opens_query(at + 1)
            self.read(at + 1, stop, common, in_from=not is_query)
            behind, place = self._derived(at, stop + 1, block, nullable)
            if is_query:
                self.blocks[inner].query, self.blocks[inner].user = (at + 1, stop), (block, place)
            else:
                block.nested.append((self.blocks[inner], block.derived[place].alias))
            return behind
        if self.upper(at) == "VALUES" and self._has_rows(at + 1):
            block.others += 1
            return self._behind(self._rows(at + 1, end, common), block)[1]
        named = self._named(at)
        if named is None or named[1] > end:
            block.others += 1
            return at + 1
        parts, behind = named
        arguments, travel = None, None
        if self.upper(behind) == "(" and behind in self.closes:
            stop = self.closes[behind]
            arguments = self._arguments(behind + 1, stop)
            self._parentheses(behind, common)
            behind = stop + 1
        elif len(parts) == 1 and self.folded(parts[0]) in common:
            behind, place = self._derived(at, behind, block, nullable, takes_alias)
            self.users.setdefault(self.folded(parts[0]), []).append((block, place))
            return behind
        else:
            found = at_suffix(self.tokens, behind) or travel_at(self.text, self.tokens, behind)
            if found is not None:
                travel, behind = found
        place = alias_at = self.tokens[behind - 1].end
        alias = None
        if takes_alias:
            alias_at, behind, alias = self._behind(behind, block)
        start = self.tokens[at].start
        block.relations.append(Relation(parts, start, place, alias, alias_at, travel, arguments, nullable, takes_alias))
        return behind

    def _derived(self, at: int, behind: int, block: Block, nullable: bool, takes_alias: bool = True) -> tuple[int, int]:
        """Add a sub-query or a common table as a relation.

        Return the index after its alias, and its index in `derived`.
        """
        block.others += 1
        alias_at, alias = self.tokens[behind - 1].end, None
        start, end = self.tokens[at].start, alias_at
        if takes_alias:
            alias_at, behind, alias = self._behind(behind, block)
        name = self.tokens[at].value if self.tokens[at].is_name else ""
        block.derived.append(Relation((name,), start, end, alias, alias_at, is_nullable=nullable))
        return behind, len(block.derived) - 1

    def _named(self, at: int) -> tuple[tuple[str, ...], int] | None:
        """Return the parts of the name at an index, or of the name in `IDENTIFIER('…')`, and the index after it."""
        if self.upper(at) == "IDENTIFIER" and self.upper(at + 1) == "(" and self.closes.get(at + 1) == at + 3:
            inner = self.tokens[at + 2]
            named = tokens_of(inner.value) if inner.kind == TEXT else None
            name = name_at(named, 0) if named else None
            if named and name is not None and name.next == len(named):
                rest = name_at(self.tokens, at + 5) if self.upper(at + 4) == "." else None
                return (name.parts + rest.parts, rest.next) if rest is not None else (name.parts, at + 4)
        name = name_at(self.tokens, at)
        if name is None or self.tokens[at].raw.isdigit():
            return None
        return name.parts, name.next

    def _behind(self, at: int, block: Block) -> tuple[int, int, str | None]:
        """Advance over options, samples and an alias. Return the offset for an alias, the next index, and the alias."""
        while self.upper(at) in ("WITH", "TABLESAMPLE", "REPEATABLE") and at + 1 in self.closes:
            block.is_plain = block.is_plain and self.upper(at) == "WITH"
            at = self.closes[at + 1] + 1
        alias_at = self.tokens[at - 1].end
        alias, at = self._alias(at)
        if alias is not None and self.upper(at - 1) == ")":
            # The alias renames the columns.
            block.is_plain = False
        return alias_at, at, alias

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

    def _has_rows(self, at: int) -> bool:
        """Return whether VALUES before this index has rows, and is not a table name."""
        if at >= len(self.tokens):
            return False
        token = self.tokens[at]
        follows = self.tokens[at + 1] if at + 1 < len(self.tokens) else None
        if token.upper in ("(", "-", "+", ":", "?") or token.kind == TEXT or token.raw[:1].isdigit():
            return True
        return token.is_name and follows is not None and (follows.upper in ("(", ",") or follows.kind == TEXT)

    def _rows(self, at: int, end: int, common: frozenset[str]) -> int:
        """Return the index after the rows starting at an index, at their alias or at the token after the relation."""
        start = at
        while at < end:
            token = self.tokens[at]
            if token.upper == "(":
                at = self._parentheses(at, common)
                continue
            before = self.tokens[at - 1]
            behind_operand = at > start and (before.upper == ")" or before.kind == TEXT or before.raw.isdigit())
            if token.upper in _NO_ALIAS or token.upper == ")" or (token.is_name and behind_operand):
                return at
            at += 1
        return at

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
        """Parse parentheses other than a relation: a sub-query, or arguments that may contain sub-queries."""
        stop = self.closes.get(at, len(self.tokens))
        inner = at
        while inner < stop:
            word = self.words[inner]
            if word == "(" and self._opens_query(inner + 1):
                close = self.closes.get(inner, stop)
                self.read(inner + 1, close, common)
                inner = close
            elif word == "TABLE" and self.upper(inner - 1) in ("(", ",", "=>"):
                inner = self._table_argument(inner + 1, stop, common) - 1
            inner += 1
        return stop + 1

    def _table_argument(self, at: int, stop: int, common: frozenset[str]) -> int:
        """Parse `(t)`, `t` or `(query)` after TABLE in the arguments of a function, and return the index after it."""
        if self.upper(at) != "(":
            is_table = at < stop and self.tokens[at].is_name and self.upper(at - 2) in ("(", ",", "=>")
            return self._relation(at, stop, common, self.new_block(), takes_alias=False) if is_table else at
        inner = self.closes.get(at, stop)
        if self._opens_query(at + 1):
            self.read(at + 1, inner, common)
        elif at + 1 < inner:
            self._relation(at + 1, inner, common, self.new_block(), takes_alias=False)
        return inner + 1

    def _opens_query(self, at: int) -> bool:
        """Return whether a query starts here, with or without parentheses. TABLE and others may be columns too."""
        while self.upper(at) == "(":
            at += 1
        word = self.upper(at)
        if word in ("SELECT", "WITH", "FROM"):
            is_number = self.upper(at + 1) == "." and self.upper(at + 2)[:1].isdigit()
            return is_number or not self._is(at + 1, _BEHIND_COLUMNS)
        if word not in OPENS_QUERY or at + 1 >= len(self.tokens):
            return False
        follows = self.tokens[at + 1]
        if word == "TABLE":
            return follows.is_name
        return follows.upper == "(" if word in ("MAP", "REDUCE") else self._has_rows(at + 1)

    def _opens_common_tables(self, at: int) -> bool:
        """Return whether `a AS (`, `a (x, y) AS (` or `a (SELECT` starts here, after WITH."""
        at += self._is_recursive(at)
        if at >= len(self.tokens) or not self.tokens[at].is_name:
            return False
        return self.upper(self._behind_columns(at + 1)) == "("

    def _is_recursive(self, at: int) -> bool:
        return self.upper(at) == "RECURSIVE" and self.upper(at + 1) not in ("AS", "(")

    def _behind_columns(self, at: int) -> int:
        """Return the index of a common table's parenthesis, after the optional columns, limit and AS."""
        if self.upper(at) == "(" and not self._opens_query(at + 1):
            at = self.closes.get(at, len(self.tokens)) + 1
        if self.upper(at) == "MAX" and self.upper(at + 1) == "RECURSION":
            at += 4
        return at + (self.upper(at) == "AS")

    def _common_tables(self, at: int, end: int, common: frozenset[str]) -> tuple[int, frozenset[str]]:
        """Parse `WITH a AS (…), b AS (…)`, and return the index after it and the visible names."""
        at += 1
        is_recursive = self._is_recursive(at)
        at += is_recursive
        while at < end and self.tokens[at].is_name:
            name = self.folded(self.tokens[at].value)
            renames = self.upper(at + 1) == "("
            at = self._behind_columns(at + 1)
            if self.upper(at) != "(":
                return at, common
            stop, inner = self.closes.get(at, end), len(self.blocks)
            self.read(at + 1, stop, common | {name} if is_recursive else common)
            common |= {name}
            self.blocks[inner].query = (at + 1, stop)
            self.queries.setdefault(name, []).append(None if renames or is_recursive else self.blocks[inner])
            at = stop + 1
            if self.upper(at) != ",":
                break
            at += 1
        return at, common

    def _where(self, at: int, end: int, common: frozenset[str], block: Block) -> int:
        start, at = at + 1, at + 1
        while at < end and not self._ends_where(at):
            at = self._parentheses(at, common) if self.upper(at) == "(" else at + 1
        block.where = self._text(start, min(at, end))
        return at

    def _ends_where(self, at: int) -> bool:
        """Return whether the condition ends here. False at a column with such a name, after a dot or an operator."""
        if self.upper(at) not in _ENDS_WHERE or is_behind_dot(self.tokens, at):
            return False
        return self.upper(at) in (";", "|>") or not wants_operand(self.tokens, at)

    def _text(self, start: int, stop: int) -> str:
        return text_between(self.text, self.tokens, start, stop)
