"""Statements as the kernel of SQL reads them, for the tests of this room."""

from __future__ import annotations

from slackwater.sql.lexer import Token, TokenCursor, tokens_of
from slackwater.sql.relations import Block, Relation, blocks_of, relations_of


def tokens(text: str) -> list[Token]:
    """The tokens of a text that has some."""
    found = tokens_of(text)
    assert found is not None, text
    return found


def cursor(text: str) -> TokenCursor:
    """The begin of a statement."""
    return TokenCursor(text, tokens(text))


def relations(text: str) -> list[Relation]:
    """The relations of a statement in the order of the text."""
    return sorted(relations_of(text, tokens(text)), key=lambda relation: relation.start)


def blocks(text: str) -> list[Block]:
    """The blocks of a statement that have relations."""
    return blocks_of(text, tokens(text))


def tables(text: str) -> str:
    """The tables that a statement names, in the order of the text; functions of tables have `()` behind them."""
    return " ".join(
        ".".join(relation.parts) + ("()" if relation.arguments is not None else "") for relation in relations(text)
    )
