"""Conditions as small trees, whatever they were written in: SQL text, Columns of classic or of Connect sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from slackwater.predicate.predicate import Value

# Operations of a tree are functions, by Spark's names in lower case, and these, which no function can be called.
# What is none of them goes by the name of its class, which says nothing to readers of the tree.
NAME, EXTRACT, LITERAL, CAST, ALIAS, SQL = "NAME", "EXTRACT", "LITERAL", "CAST", "ALIAS", "SQL"


@dataclass(frozen=True, slots=True)
class ConditionTree:
    """One operation and its operands. `payload`: names, a `LiteralValue`, a type or text, by `operation`.

    `text` writes the condition as its author did, where that is known.
    """

    operation: str
    children: tuple[ConditionTree, ...] = ()
    payload: Any = None
    text: Callable[[], str] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class LiteralValue:
    """What a literal says; `single` for a FLOAT, which Spark compares with whole numbers as floats."""

    value: Value | None
    single: bool = False


def operands(tree: ConditionTree) -> Iterator[ConditionTree]:
    """The operands of a chain of one and the same operation, in order."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if node.operation == tree.operation:
            pending.extend(reversed(node.children))
        else:
            yield node


def column_names(tree: ConditionTree) -> tuple[str, ...] | None:
    """The parts of a column reference; None where `tree` is something else."""
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
