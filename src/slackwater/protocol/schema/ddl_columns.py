"""Parser of SQL column lists such as `day DATE, n INT NOT NULL`. Nested types are not supported.

Source: Spark's SQL names of data types.
"""

from __future__ import annotations

import re

from slackwater.errors import InvalidArgument
from slackwater.protocol.schema.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    DataType,
    DecimalType,
    StructField,
    StructType,
)

_TYPES: dict[str, DataType] = {
    "BIGINT": LONG,
    "LONG": LONG,
    "INT": INTEGER,
    "INTEGER": INTEGER,
    "SMALLINT": SHORT,
    "SHORT": SHORT,
    "TINYINT": BYTE,
    "BYTE": BYTE,
    "FLOAT": FLOAT,
    "REAL": FLOAT,
    "DOUBLE": DOUBLE,
    "STRING": STRING,
    "BINARY": BINARY,
    "BOOLEAN": BOOLEAN,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP_LTZ": TIMESTAMP,
    "TIMESTAMP_NTZ": TIMESTAMP_NTZ,
    "VARIANT": VARIANT,
}
_BETWEEN = re.compile(r",(?![^(]*\))")
_COLUMN = re.compile(
    r"(`(?:[^`]|``)+`|\w+)\s*:?\s*(\w+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?(\s+NOT\s+NULL)?", re.IGNORECASE
)
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
_MOST_DIGITS = 38


def parse_column_list(text: str) -> StructType:
    """Return the columns listed in `text`: each a name, optionally in backticks, and a type.

    Raises InvalidArgument for a malformed column or a nested type.
    """
    return StructType(tuple(_column(part.strip()) for part in _BETWEEN.split(text)))


def _column(text: str) -> StructField:
    match = _COLUMN.fullmatch(text)
    found = None if match is None else _type(match[2].upper(), match[3], match[4])
    if match is None or found is None:
        raise InvalidArgument(f"expected columns such as 'day DATE, n INT', found {text!r}")
    name = match[1][1:-1].replace("``", "`") if match[1].startswith("`") else match[1]
    return StructField(name, found, nullable=match[5] is None)


def _type(name: str, first: str | None, second: str | None) -> DataType | None:
    if name in _DECIMALS:
        digits, scale = int(first or 10), int(second or 0)
        return DecimalType(digits, scale) if 1 <= digits <= _MOST_DIGITS and scale <= digits else None
    if name in ("CHAR", "VARCHAR") and first and not second:
        return STRING
    return None if first else _TYPES.get(name)
