"""Columns of one schema beside those of another."""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.protocol.schema.nested_columns import paired_columns
from slackwater.protocol.schema.schema import LONG, STRING, ArrayType, MapType, StructField, StructType


def struct(**columns: object) -> StructType:
    return StructType(tuple(StructField(name, type_) for name, type_ in columns.items()))  # type: ignore[arg-type]


NESTED = struct(
    a=LONG,
    s=struct(x=LONG, y=STRING),
    items=ArrayType(struct(v=LONG)),
    pairs=MapType(struct(k=LONG), struct(w=LONG, gone=LONG)),
)


def by_name(column: StructField) -> str:
    return column.name


def told(other: StructType, **rules: Any) -> dict[str, bool]:
    pairs = paired_columns(NESTED, other, by_name, by_name, **rules)
    return {".".join(pair.path): pair.found is not None for pair in pairs}


def test_every_column_has_itself_beside_it_in_the_same_schema() -> None:
    paths = ["a", "s", "s.x", "s.y", "items", "items.element.v"]
    paths += ["pairs", "pairs.key.k", "pairs.value.w", "pairs.value.gone"]
    assert list(told(NESTED)) == paths
    assert all(told(NESTED).values())


def test_parts_are_compared_where_both_have_some_and_not_below_a_column_that_is_gone() -> None:
    other = struct(s=struct(y=STRING), items=LONG, pairs=MapType(struct(k=LONG), struct(w=STRING)))
    found = told(other)
    assert [path for path, has in found.items() if not has] == ["a", "s.x", "pairs.value.gone"]
    # An array beside a number has no parts to compare.
    assert "items.element.v" not in found
    assert "s.x" not in told(struct(a=LONG))


def test_what_stands_for_a_column_may_have_to_be_more_than_its_key() -> None:
    other = struct(a=STRING, s=STRING)
    assert told(other, is_same=lambda column, found: column.type == found.type)["a"] is False
    assert told(other)["a"] is True


@pytest.mark.parametrize("name", ["a", "s"])
def test_each_side_has_a_key_of_its_own_and_the_struct_that_was_looked_in_is_told(name: str) -> None:
    other = struct(A=LONG, S=LONG)
    pairs = {p.path: p for p in paired_columns(NESTED, other, by_name, lambda column: column.name.lower())}
    assert pairs[name,].found == other.get(name.upper())
    assert pairs[name,].beside is other
