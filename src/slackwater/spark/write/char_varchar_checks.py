"""Length checks for columns of type CHAR(n) and VARCHAR(n).

Source: Spark's CharVarcharUtils.stringLengthCheck. Unlike Spark, trailing spaces are part of the length.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from slackwater.protocol.schema.char_varchar import text_limits, text_type
from slackwater.protocol.schema.schema import ArrayType, ColumnPath, DataType, MapType, StructType
from slackwater.spark.write.row_checks import RowCheck
from slackwater.sql.lexer import quoted


def length_checks(schema: StructType) -> list[RowCheck]:
    """Return the length checks for rows of a table with this schema."""
    checks = []
    for column in schema:
        limits = text_limits(column)
        if limits:
            lengths = {path: int(kind[kind.index("(") + 1 : -1]) for path, kind in limits.items()}
            holds = _fits(F.col(quoted(column.name)), column.type, lengths, ())
            says = f"the length of column {column.name}, {text_type(column)},"
            checks.append(RowCheck(says, holds, (column.name,), "DELTA_EXCEED_CHAR_VARCHAR_LIMIT"))
    return checks


def _fits(value: Column, kind: DataType, lengths: Mapping[ColumnPath, int], path: ColumnPath) -> Column:
    """Return whether no text in `value` exceeds its limit in `lengths`."""
    holds = F.lit(True)
    if not any(at[: len(path)] == path for at in lengths):
        return holds
    if path in lengths:
        holds = F.char_length(value) <= F.lit(lengths[path])
    elif isinstance(kind, ArrayType):
        element = kind.element_type
        holds = F.forall(value, lambda each: _fits(each, element, lengths, (*path, "element")))
    elif isinstance(kind, MapType):
        key, item = kind.key_type, kind.value_type
        keys = F.forall(F.map_keys(value), lambda each: _fits(each, key, lengths, (*path, "key")))
        holds = keys & F.forall(F.map_values(value), lambda each: _fits(each, item, lengths, (*path, "value")))
    elif isinstance(kind, StructType):
        for part in kind:
            holds = holds & _fits(value.getField(part.name), part.type, lengths, (*path, part.name))
    return value.isNull() | holds
