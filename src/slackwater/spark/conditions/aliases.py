"""Table aliases in conditions: columns qualified by an alias."""

from __future__ import annotations

from slackwater.predicate.predicate import Predicate, with_columns
from slackwater.protocol.schema.schema import StructField, StructType


def under_alias(schema: StructType, alias: str) -> StructType:
    """Return `schema` with an additional struct `alias` of its columns. The struct hides a column of the same name."""
    others = tuple(field for field in schema.fields if field.name.lower() != alias.lower())
    return StructType((StructField(alias, schema), *others))


def predicate_without_alias(predicate: Predicate, alias: str) -> Predicate:
    """Convert a predicate over `under_alias(schema, alias)` to a predicate over `schema`."""
    return with_columns(predicate, lambda column: column[1:] if column[0] == alias else column)
