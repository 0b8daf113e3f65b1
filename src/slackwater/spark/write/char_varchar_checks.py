"""That texts are not longer than their columns, CHAR(n) and VARCHAR(n), allow.

Source: Spark's CharVarcharUtils.stringLengthCheck, which besides cuts off spaces at the end: here they count.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater.protocol.schema.char_varchar import text_type
from slackwater.protocol.schema.schema import StructType
from slackwater.spark.write.row_checks import RowCheck
from slackwater.sql.lexer import quoted


def length_checks(schema: StructType) -> list[RowCheck]:
    """What rows of a table with this schema must satisfy."""
    checks = []
    for column in schema:
        declared = text_type(column)
        if declared is not None:
            holds = _fits(F.col(quoted(column.name)), spark_types.DataType.fromDDL(declared))
            says = f"the length of column {column.name}, {declared},"
            checks.append(RowCheck(says, holds, (column.name,), "DELTA_EXCEED_CHAR_VARCHAR_LIMIT"))
    return checks


def _fits(value: Column, kind: spark_types.DataType) -> Column:
    """Whether no text in `value` is longer than its type says."""
    holds = F.lit(True)
    if isinstance(kind, (spark_types.CharType, spark_types.VarcharType)):
        holds = F.char_length(value) <= F.lit(kind.length)
    elif isinstance(kind, spark_types.ArrayType):
        element = kind.elementType
        holds = F.forall(value, lambda each: _fits(each, element))
    elif isinstance(kind, spark_types.MapType):
        key, item = kind.keyType, kind.valueType
        keys = F.forall(F.map_keys(value), lambda each: _fits(each, key))
        holds = keys & F.forall(F.map_values(value), lambda each: _fits(each, item))
    elif isinstance(kind, spark_types.StructType):
        for part in kind.fields:
            holds = holds & _fits(value.getField(part.name), part.dataType)
    return value.isNull() | holds
