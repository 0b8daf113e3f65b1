"""Condition trees: the common form of SQL conditions and of Columns from classic and Connect sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from slackwater.predicate.predicate import Value

# Operations are Spark's function names in lower case, or one of these names in upper case. Any other node has the name
# of its class, without a meaning for readers of the tree.
NAME, EXTRACT, LITERAL, CAST, ALIAS, SQL = "NAME", "EXTRACT", "LITERAL", "CAST", "ALIAS", "SQL"


@dataclass(frozen=True, slots=True)
class ConditionTree:
    """An operation and its operands. `payload`: names, a `LiteralValue`, a type or text, by `operation`.

    `text` returns the condition in the author's spelling, if known.
    """

    operation: str
    children: tuple[ConditionTree, ...] = ()
    payload: Any = None
    text: Callable[[], str] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class LiteralValue:
    """The value of a literal. `single` for a FLOAT, which Spark compares with integers in single precision."""

    value: Value | None
    single: bool = False


def operands(tree: ConditionTree) -> Iterator[ConditionTree]:
    """Yield the operands of a chain of the same operation, in order."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if node.operation == tree.operation:
            pending.extend(reversed(node.children))
        else:
            yield node


def column_names(tree: ConditionTree) -> tuple[str, ...] | None:
    """Return the parts of a column reference, or None if `tree` is not a column reference."""
    if tree.operation == NAME:
        names: tuple[str, ...] = tree.payload
        return names
    if tree.operation == ALIAS:
        return column_names(tree.children[0])
    if tree.operation != EXTRACT:
        return None
    parent, name = column_names(tree.children[0]), tree.payload
    if len(tree.children) == 2 and tree.children[1].operation == LITERAL:
        name = tree.children[1].payload.value
    return None if parent is None or not isinstance(name, str) else (*parent, name)
