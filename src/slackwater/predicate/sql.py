"""SQL text as a predicate: `a.b < 5 AND s LIKE 'x%'`, in Spark's dialect."""

from __future__ import annotations

from slackwater.predicate.columns import resolve_column
from slackwater.predicate.condition_tree import ConditionTree, column_names
from slackwater.predicate.predicate import Predicate
from slackwater.predicate.sql_conditions import read_sql
from slackwater.predicate.translation import translate
from slackwater.protocol.schema.schema import StructType


def parse_predicate(text: str, schema: StructType, zone: str = "UTC") -> Predicate:
    """The predicate that the SQL condition `text` says of the rows of a table with this `schema`.

    As `translate` does it; what a predicate cannot express becomes `Unprunable` with its text. Raises InvalidArgument
    where `text` is not one SQL condition, with the position, and where a column is not in the schema, with the columns
    there are; not inside functions, where names may be something else.
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
