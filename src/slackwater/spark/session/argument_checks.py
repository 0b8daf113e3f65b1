"""Checks of arguments of `DeltaTable` and its builder: data types and texts."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

from pyspark.errors import ParseException
from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from slackwater.error_classes import StatementPlace
from slackwater.errors import InvalidArgument, SqlSyntaxError, UnsupportedFeature, WrongArgumentType
from slackwater.spark.session.frames import empty_frame
from slackwater.spark.session.spark_errors import spark_error_text

_PLACE = re.compile(r"\(line (\d+), pos (\d+)\)")
_COLLATE, _UNKNOWN_COLLATION = "string collate ", "COLLATION_INVALID_NAME"
_LIMITED_COLLATION = re.compile(r"\b(?:var)?char(?:acter)?\s*\(\s*\d+\s*\)\s*collate\s+\w+", re.IGNORECASE)
_WORD = re.compile(r"\w+")
_KINDS = {str: "a string", bool: "a boolean", dict: "a dict", int: "an int"}


def parsed_type(given: Any) -> spark_types.DataType:
    """Return a Spark type, or the type of a DDL text. Raises InvalidArgument."""
    if isinstance(given, spark_types.DataType):
        return given
    if not isinstance(given, str):
        raise WrongArgumentType(f"dataType must be a Spark type or its DDL text, found {given!r}")
    _refuse_limited_collation(given)
    try:
        found = spark_types.DataType.fromDDL(given)
    except ParseException as error:
        raise _no_data_type(given, error) from error
    if isinstance(found, spark_types.StructType) and not given.strip().lower().startswith("struct"):
        raise InvalidArgument(
            f"{given!r} is a list of columns, not a data type. Write struct<{given}>, or add each column"
        )
    return found


def with_known_collations(spark: SparkSession, schema: spark_types.StructType) -> spark_types.StructType:
    """Return `schema` with the session's spelling of its collations. Raises InvalidArgument for an unknown collation.

    PySpark does not validate the names of collations in types.
    """
    return spark_types.StructType([_with_known_collations(spark, field) for field in schema.fields])


def _with_known_collations(spark: SparkSession, field: spark_types.StructField) -> spark_types.StructField:
    if _COLLATE not in field.dataType.simpleString():
        return field
    try:
        (known,) = empty_frame(spark, spark_types.StructType([field])).schema.fields
    except Exception as error:
        # Connect reports the JSON of the type as text that is not DDL.
        if _UNKNOWN_COLLATION not in str(error) and not isinstance(error, ParseException):
            raise
        says = f"column {field.name}: Spark does not know a collation of {field.dataType.simpleString()}"
        raise InvalidArgument(f"{says}. The table function collations() lists the names") from error
    return known


def parsed_columns(given: str) -> spark_types.DataType:
    """Return the columns of a DDL text, such as `id BIGINT, v STRING`. Raises InvalidArgument."""
    _refuse_limited_collation(given)
    try:
        return spark_types.StructType.fromDDL(given)
    except ParseException as error:
        raise _at_its_place(given, f"{given!r} is not a list of columns", error) from error


def _refuse_limited_collation(ddl: str) -> None:
    """Raise UnsupportedFeature for CHAR(n) and VARCHAR(n) with COLLATE, because PySpark drops their collation."""
    if match := _LIMITED_COLLATION.search(ddl):
        raise UnsupportedFeature(
            f"a column cannot have a limited length and a collation, found {match[0]}. Use STRING COLLATE, and a CHECK "
            "constraint for the length",
            error_class="DELTA_UNSUPPORTED_DATA_TYPES",
        )


def _no_data_type(given: str, error: ParseException) -> SqlSyntaxError:
    """Return the error for an invalid type, parsed again as the type of a column.

    Spark parses an unknown type as a list of columns. For the type of one column, its message is specific.
    """
    before = "c "
    try:
        spark_types.StructType.fromDDL(before + given)
    except ParseException as of_column:
        return _at_its_place(given, f"{given!r} is not a data type", of_column, len(before))
    return _at_its_place(given, f"{given!r} is not a data type", error)


def _at_its_place(given: str, what: str, error: ParseException, shift: int = 0) -> SqlSyntaxError:
    """Return the error for a text, with its position if Spark reports one.

    `shift` is the number of characters parsed before the text.
    """
    told = _PLACE.search(str(error))
    said = f"{what}: {spark_error_text(error)}"
    if told is None:
        return SqlSyntaxError(said)
    line, position = int(told[1]), int(told[2])
    before = sum(len(each) + 1 for each in given.split("\n")[: line - 1])
    start = min(len(given), before + position - (shift if line == 1 else 0))
    word = _WORD.match(given, start)
    place = StatementPlace(given, start, max(start, (word.end() if word else start) - 1))
    return SqlSyntaxError(f"{said} (line {place.line}, position {place.column})", place=place)


def text_argument(what: str, value: Any) -> str:
    """Return `value` if it is a text. Raises WrongArgumentType, with `what` for the argument's name."""
    if not isinstance(value, str):
        raise WrongArgumentType(f"{what} must be a text, found {value!r} of type {type(value).__name__}")
    return value


def require_timestamp(value: object) -> None:
    """Raise ValueError, like delta-spark, for a timestamp that is neither a text nor a datetime."""
    if not isinstance(value, dt.datetime):
        require_type("timestamp", value, str)


def require_type(name: str, value: object, kind: type) -> None:
    """Raise ValueError, like delta-spark, for a `value` of the argument `name` of another type."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{name} needs to be {_KINDS[kind]} but got '{type(value)}'.")
