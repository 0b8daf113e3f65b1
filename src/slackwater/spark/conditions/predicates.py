"""Filter conditions as predicates: SQL text, and Columns of classic and of Connect sessions."""

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
    """What `condition` says of the rows of a table with this `schema`: true of every row that Spark would keep.

    A str is SQL text. As `translate` does it. Never raises: what cannot be read, or names something that is not in the
    schema, is `Unprunable`, and is left to Spark to judge.
    """
    if isinstance(condition, str) and has_variables(condition):
        return Unprunable(condition)
    try:
        tree = ConditionTree(SQL, (), condition) if isinstance(condition, str) else read_condition(condition)
    except ValueError:
        return Unprunable("unreadable condition")
    return predicate_of_tree(tree, schema, zone)


def predicate_of_tree(tree: ConditionTree, schema: StructType, zone: str) -> Predicate:
    """What the condition `tree` says, as `predicate_of` does it."""
    try:
        return translate(tree, schema, zone)
    except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError):
        # Trees are made of internals of PySpark, which may look different in another version.
        return Unprunable("unreadable condition")
