"""Columns as SQL lists them."""

from __future__ import annotations

import pytest

from slackwater.errors import InvalidArgument
from slackwater.protocol.schema.ddl_columns import parse_column_list


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("day DATE", "struct<day:date>"),
        ("day date, n int", "struct<day:date,n:integer>"),
        ("a: BIGINT ,b STRING", "struct<a:long,b:string>"),
        ("`a b` TINYINT, `c``d` SMALLINT", "struct<a b:byte,c`d:short>"),
        ("d DECIMAL(10, 2), e DECIMAL, f NUMERIC(5)", "struct<d:decimal(10,2),e:decimal(10,0),f:decimal(5,0)>"),
        ("s VARCHAR(3), c CHAR(1)", "struct<s:string,c:string>"),
        ("t TIMESTAMP, u TIMESTAMP_NTZ, b BOOLEAN", "struct<t:timestamp,u:timestamp_ntz,b:boolean>"),
    ],
)
def test_names_and_types_are_found(text: str, expected: str) -> None:
    found = parse_column_list(text)
    assert str(found) == expected
    assert all(column.nullable for column in found)


def test_a_column_may_be_not_null() -> None:
    (first, second) = parse_column_list("a INT not null, b INT")
    assert (first.nullable, second.nullable) == (False, True)


@pytest.mark.parametrize(
    "text",
    ["", "day", "day DATE,", "a ARRAY<INT>", "a INT(3)", "a DECIMAL(39,0)", "a DECIMAL(3,4)", "a INT b INT", "a VOID"],
)
def test_what_is_no_list_of_columns_is_named(text: str) -> None:
    with pytest.raises(InvalidArgument, match="expected columns such as"):
        parse_column_list(text)
