"""Text edits that replace the table names of a statement with temporary views. All other text stays unchanged."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from slackwater.sql.lexer import Token, name_at, quoted
from slackwater.sql.relations import Relation


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
