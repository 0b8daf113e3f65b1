"""Text edits that replace the table names of a statement with temporary views. All other text stays unchanged."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from slackwater.errors import InvalidArgument
from slackwater.sql.lexer import OPENS_QUERY, Token, is_star, name_at, quoted
from slackwater.sql.relations import Block, Relation

# With these, columns that the statement does not name decide its rows.
_USES_ALL_COLUMNS = frozenset({"NATURAL", "PIVOT", "UNPIVOT", "|>"})
# Behind these is an alias or a table.
_BEFORE_OTHER_NAMES = frozenset({"AS", "FROM", "JOIN", "TABLE"})


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replacement text for the offsets `start` to `end`."""

    start: int
    end: int
    text: str


def apply_edits(text: str, replacements: Sequence[TextEdit]) -> str:
    """Apply all edits to `text`. A space separates adjacent words that would otherwise join."""
    pieces, at, last = [], 0, ""
    for start, end, new in [*sorted((r.start, r.end, r.text) for r in replacements), (len(text), len(text), "")]:
        for piece in (text[at:start], new):
            if piece:
                pieces.append(f" {piece}" if _is_word(last) and _is_word(piece[0]) else piece)
                last = piece[-1]
        at = end
    return "".join(pieces)


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def as_view(relation: Relation, view: str) -> Iterator[TextEdit]:
    """Yield edits that replace the relation by `view`, with the old name for an alias."""
    yield TextEdit(relation.start, relation.end, view)
    if relation.alias is None and relation.takes_alias:
        yield TextEdit(relation.alias_at, relation.alias_at, f" AS {quoted(relation.shown)}")


def without_database(
    tokens: Sequence[Token], qualified: Mapping[Relation, Collection[tuple[str, ...]]]
) -> Iterator[TextEdit]:
    """Yield edits that shorten `db.t.c` to `t.c` in expressions, because a view has no database.

    `qualified` maps relations replaced by views to their qualified names.
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
            yield TextEdit(name.start, tokens[at + 2 * (longest - 1)].start, "")
        at = name.next


def reads_column(tokens: Sequence[Token], column: str, relation: Relation, is_taken: bool = False) -> bool:
    """Return whether the statement may name `column` of the relation: by its name, or without a qualifier.

    If `is_taken`, names without a qualifier are those of another relation, which has a real column of this name. A name
    without a field is that of an alias, if the statement has such an alias.
    """
    named = [at for at, token in enumerate(tokens) if token.is_name and token.value.lower() == column]
    before = {at: tokens[at - 1].upper if at else "" for at in named}
    is_alias = "AS" in before.values()
    for at in named:
        has_field = at + 1 < len(tokens) and tokens[at + 1].upper == "."
        if before[at] == ".":
            if at > 1 and tokens[at - 2].value.lower() == relation.shown.lower():
                return True
        elif before[at] not in _BEFORE_OTHER_NAMES and not is_taken and (has_field or not is_alias):
            return True
    return False


def without_hidden_column(
    tokens: Sequence[Token], blocks: Sequence[Block], column: str, hiding: Collection[Relation]
) -> Iterator[TextEdit]:
    """Yield edits after which no `*` includes `column` of the relations `hiding`, whose views have it as a column.

    Raises InvalidArgument if the statement may use all columns in another way.
    """
    if not hiding:
        return
    known = {at for block in blocks for at in block.stars if block.relations or block.others}
    uses = next((t.raw for t in tokens if t.upper in _USES_ALL_COLUMNS), None)
    uses = uses or next((r.shown for r in hiding if not r.takes_alias), None)
    if uses is None and any(is_star(tokens, at) and at not in known for at in range(len(tokens))):
        uses = "a * outside of the list of columns"
    if uses is not None:
        raise InvalidArgument(
            f"{column} is named in a statement with {uses}, which would include it. Name the columns in a sub-query, "
            "or read the table with the option rowTracking"
        )
    for block in blocks:
        for at in block.stars:
            qualifier = tokens[at - 2].value.lower() if tokens[at - 1].upper == "." else None
            left_out = [
                f"{quoted(shown)}.{quoted(column)}"
                for shown in _shown(block, hiding)
                if qualifier in (None, shown.lower())
            ]
            if left_out:
                yield except_edit(tokens, at, ", ".join(left_out))


def _shown(block: Block, hiding: Collection[Relation]) -> list[str]:
    """Return the qualifiers of the relations `hiding` whose columns a `*` of the block includes."""
    found = [relation.shown for relation in block.relations if relation in hiding and not relation.is_semi]
    for inner, alias in block.nested:
        names = _shown(inner, hiding)
        found += names if alias is None else [alias] * bool(names)
    return found


def except_edit(tokens: Sequence[Token], star: int, columns: str) -> TextEdit:
    """Return the edit after which the `*` does not include `columns`."""
    following = [token.upper for token in tokens[star + 1 : star + 4]]
    if following[:2] == ["EXCEPT", "("] and following[2:] and following[2] not in OPENS_QUERY:
        place = tokens[star + 2].end
        return TextEdit(place, place, f"{columns}, ")
    return TextEdit(tokens[star].end, tokens[star].end, f" EXCEPT ({columns})")
