"""Table aliases in conditions: columns qualified by an alias."""

from __future__ import annotations

from dataclasses import replace

from slackwater.predicate.predicate import And, Constant, Not, Or, Predicate, Unprunable
from slackwater.protocol.schema.schema import StructField, StructType


def under_alias(schema: StructType, alias: str) -> StructType:
    """Return `schema` with an additional struct `alias` of its columns. The struct hides a column of the same name."""
    others = tuple(field for field in schema.fields if field.name.lower() != alias.lower())
    return StructType((StructField(alias, schema), *others))


def predicate_without_alias(predicate: Predicate, alias: str) -> Predicate:
    """Convert a predicate over `under_alias(schema, alias)` to a predicate over `schema`."""
    if isinstance(predicate, (And, Or)):
        return replace(predicate, children=tuple(predicate_without_alias(child, alias) for child in predicate.children))
    if isinstance(predicate, Not):
        return Not(predicate_without_alias(predicate.child, alias))
    if isinstance(predicate, (Constant, Unprunable)) or predicate.column[0] != alias:
        return predicate
    return replace(predicate, column=predicate.column[1:])
