"""Arguments of `DeltaTable` and its builder: data types and texts."""

from __future__ import annotations

from typing import Any

from pyspark.errors import ParseException
from pyspark.sql import types as spark_types

from slackwater.errors import InvalidArgument, SqlSyntaxError
from slackwater.spark.write.row_checks import said_by_spark

_KINDS = {str: "string", bool: "boolean", dict: "dict", int: "int"}


def parsed_type(given: Any) -> spark_types.DataType:
    """A Spark type, or what its DDL text says. Raises InvalidArgument."""
    if isinstance(given, spark_types.DataType):
        return given
    if not isinstance(given, str):
        raise InvalidArgument(f"dataType must be a Spark type or its DDL text, found {given!r}")
    try:
        found = spark_types.DataType.fromDDL(given)
    except ParseException as error:
        raise SqlSyntaxError(f"{given!r} is no data type: {said_by_spark(error)}") from error
    if isinstance(found, spark_types.StructType) and not given.strip().lower().startswith("struct"):
        raise InvalidArgument(f"{given!r} is a list of columns, not a data type: write struct<{given}>, or add each")
    return found


def text_argument(what: str, value: Any) -> str:
    """`value` itself, which must be a text: raises InvalidArgument, calling it `what`."""
    if not isinstance(value, str):
        raise InvalidArgument(f"{what} must be a text, found {value!r} of type {type(value).__name__}")
    return value


def require_type(name: str, value: object, kind: type) -> None:
    """Raise ValueError, as delta-spark does, for a `value` of the argument `name` that is of another kind."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{name} needs to be a {_KINDS[kind]} but got '{type(value)}'.")
