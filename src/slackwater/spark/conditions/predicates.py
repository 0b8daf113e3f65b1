"""Filter conditions as predicates: SQL text, and Columns of classic and Connect sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.predicate.condition_tree import SQL, ConditionTree
from slackwater.predicate.predicate import Predicate, Unprunable
from slackwater.predicate.translation import translate
from slackwater.protocol.schema.schema import StructType
from slackwater.spark.conditions.column_trees import has_variables, read_condition

if TYPE_CHECKING:
    from pyspark.sql import Column


def predicate_of(condition: Column | str, schema: StructType, zone: str) -> Predicate:
    """Return a predicate for `condition` over `schema`. The predicate is true for every row selected by Spark.

    Text is SQL. The translation is that of `translate`. Never raises: a condition with unreadable parts or unknown
    names is `Unprunable`, and Spark evaluates it.
    """
    if isinstance(condition, str) and has_variables(condition):
        return Unprunable(condition)
    try:
        tree = ConditionTree(SQL, (), condition) if isinstance(condition, str) else read_condition(condition)
    except ValueError:
        return Unprunable("unreadable condition")
    return predicate_of_tree(tree, schema, zone)


def predicate_of_tree(tree: ConditionTree, schema: StructType, zone: str) -> Predicate:
    """Return a predicate for the condition `tree`; see `predicate_of`."""
    try:
        return translate(tree, schema, zone)
    except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError):
        # Trees come from internals of PySpark, which may change between versions.
        return Unprunable("unreadable condition")
