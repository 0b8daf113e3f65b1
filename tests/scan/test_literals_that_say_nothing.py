"""Literals whose comparison Spark makes in another type than the column's: they must not prune."""

from __future__ import annotations

import pytest

from slackwater.predicate.predicate import Not, Unprunable
from slackwater.predicate.sql import parse_predicate
from slackwater.protocol.schema.schema import parse_schema

SCHEMA = parse_schema(
    '{"type":"struct","fields":[{"name":"l","type":"long","nullable":true,"metadata":{}},'
    '{"name":"b","type":"byte","nullable":true,"metadata":{}}]}'
)


@pytest.mark.parametrize(
    "text",
    [
        "l = CAST(16777217 AS FLOAT)",
        "l < 1234567890123456789012345678",
        "l >= -9223372036854775809",
        "l IN (0.0D, '5')",
        "l IN (1, '5')",
    ],
)
def test_a_comparison_in_another_type_is_unknown(text: str) -> None:
    assert isinstance(parse_predicate(text, SCHEMA), Unprunable)


def test_its_negation_is_unknown_too() -> None:
    negated = parse_predicate("l NOT IN (0.0D, '5')", SCHEMA)
    assert isinstance(negated, Unprunable) or (isinstance(negated, Not) and isinstance(negated.child, Unprunable))
