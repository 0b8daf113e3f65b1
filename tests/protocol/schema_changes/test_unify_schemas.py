"""One schema by which files of several are read as they are."""

from __future__ import annotations

import itertools

import pytest

from slackwater.errors import InvalidArgument
from slackwater.protocol.schema.ddl_columns import parse_column_list as columns
from slackwater.protocol.schema.schema import ArrayType, DataType, MapType, StructField, StructType
from slackwater.protocol.schema_changes.unify_schemas import united_schema


def _nested(inner: StructType) -> list[DataType]:
    return [inner, ArrayType(inner), MapType(inner, inner)]


def test_new_columns_come_last_and_common_ones_stay() -> None:
    assert united_schema(columns("a INT, b INT"), columns("c INT, b INT")) == columns("a INT, b INT, c INT")


@pytest.mark.parametrize("depth", range(3))
def test_structs_at_every_depth_are_united(depth: int) -> None:
    known, found, both = (_nested(columns(text))[depth] for text in ("a INT", "b INT", "a INT, b INT"))
    assert united_schema(_of(known), _of(found)) == _of(both)


def _of(kind: DataType) -> StructType:
    return StructType((StructField("c", kind),))


def test_only_whole_numbers_that_are_stored_alike_are_widened() -> None:
    alike = ("TINYINT", "SMALLINT", "INT")
    for known, found in itertools.product(alike, repeat=2):
        widest = max(known, found, key=alike.index)
        assert united_schema(columns(f"c {known}"), columns(f"c {found}")) == columns(f"c {widest}")
    for known, found in [
        ("INT", "BIGINT"),
        ("FLOAT", "DOUBLE"),
        ("DATE", "TIMESTAMP_NTZ"),
        ("DECIMAL(3,1)", "DECIMAL(4,1)"),
    ]:
        for first, second in ((known, found), (found, known)):
            with pytest.raises(InvalidArgument, match="column c is of type"):
                united_schema(columns(f"c {first}"), columns(f"c {second}"))


def test_a_name_in_another_case_is_another_name() -> None:
    with pytest.raises(InvalidArgument, match=r"column c\.a is called A in the other"):
        united_schema(_of(columns("a INT")), _of(columns("A INT")))
