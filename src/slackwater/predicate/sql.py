"""Parses SQL text in Spark's dialect into a predicate: `a.b < 5 AND s LIKE 'x%'`."""

from __future__ import annotations

from slackwater.predicate.columns import resolve_column
from slackwater.predicate.condition_tree import ConditionTree, column_names
from slackwater.predicate.predicate import Predicate
from slackwater.predicate.sql_conditions import read_sql
from slackwater.predicate.translation import translate
from slackwater.protocol.schema.schema import StructType


def parse_predicate(text: str, schema: StructType, zone: str = "UTC") -> Predicate:
    """Parse the SQL condition `text` on rows of a table with this `schema`, like `translate`.

    A part unsupported for pruning becomes `Unprunable` with its text. Names inside functions are not checked, because
    they may not be columns.

    Raises:
        InvalidArgument: If `text` is not a single SQL condition, with the position, or if a column is not in the
            schema,
            with the existing columns.
    """
    tree = read_sql(text)
    _require_columns(tree, schema)
    return translate(tree, schema, zone)


def _require_columns(tree: ConditionTree, schema: StructType) -> None:
    pending = [tree]
    while pending:
        node = pending.pop()
        names = column_names(node)
        if names is not None:
            resolve_column(schema, names)
        pending.extend(reversed(node.children))
