"""Texts of a limited length: columns of type CHAR(n) and VARCHAR(n) are strings, whose type is in their metadata.

Source: Spark's CharVarcharUtils, which delta-spark's tables follow.
"""

from __future__ import annotations

import re

from slackwater.protocol.schema.schema import StructField

_VARCHAR = re.compile(r"varchar\((\d+)\)")

TEXT_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
"""The key of the type, `varchar(3)` or `array<char(2)>`, in the metadata of a column of the top level."""


def text_type(column: StructField) -> str | None:
    """The type that a column was declared with, where texts in it have a limited length."""
    found = column.metadata.get(TEXT_TYPE)
    return found if isinstance(found, str) else None


def is_padded(column: StructField) -> bool:
    """Whether the column is CHAR(n), whose values count with spaces up to their length."""
    return (text_type(column) or "").lower().startswith("char")


def is_longer(before: str | None, after: str) -> bool:
    """Whether every text of the type `before` is one of `after`, both VARCHAR(n)."""
    found = [None if text is None else _VARCHAR.fullmatch(text.lower()) for text in (before, after)]
    lengths = [int(each[1]) for each in found if each is not None]
    return len(lengths) == 2 and lengths[0] <= lengths[1]
