"""Arguments of `DeltaTable` and its builder: data types and texts."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

from pyspark.errors import ParseException
from pyspark.sql import types as spark_types

from slackwater.error_classes import StatementPlace
from slackwater.errors import InvalidArgument, SqlSyntaxError, WrongArgumentType
from slackwater.spark.session.spark_errors import spark_error_text

_PLACE = re.compile(r"\(line (\d+), pos (\d+)\)")
_WORD = re.compile(r"\w+")
_KINDS = {str: "a string", bool: "a boolean", dict: "a dict", int: "an int"}


def parsed_type(given: Any) -> spark_types.DataType:
    """A Spark type, or what its DDL text says. Raises InvalidArgument."""
    if isinstance(given, spark_types.DataType):
        return given
    if not isinstance(given, str):
        raise WrongArgumentType(f"dataType must be a Spark type or its DDL text, found {given!r}")
    try:
        found = spark_types.DataType.fromDDL(given)
    except ParseException as error:
        raise _no_data_type(given, error) from error
    if isinstance(found, spark_types.StructType) and not given.strip().lower().startswith("struct"):
        raise InvalidArgument(f"{given!r} is a list of columns, not a data type: write struct<{given}>, or add each")
    return found


def parsed_columns(given: str) -> spark_types.DataType:
    """What DDL text says that names columns, such as `id BIGINT, v STRING`. Raises InvalidArgument."""
    try:
        return spark_types.StructType.fromDDL(given)
    except ParseException as error:
        raise _at_its_place(given, f"{given!r} is no list of columns", error) from error


def _no_data_type(given: str, error: ParseException) -> SqlSyntaxError:
    """Spark takes a type that it does not know for a list of columns: as the type of one, it says what is wrong."""
    before = "c "
    try:
        spark_types.StructType.fromDDL(before + given)
    except ParseException as of_column:
        return _at_its_place(given, f"{given!r} is no data type", of_column, len(before))
    return _at_its_place(given, f"{given!r} is no data type", error)


def _at_its_place(given: str, what: str, error: ParseException, shift: int = 0) -> SqlSyntaxError:
    """The error of a text, with its place where Spark tells it: `shift` characters were parsed before the text."""
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
    """`value` itself, which must be a text: raises WrongArgumentType, calling it `what`."""
    if not isinstance(value, str):
        raise WrongArgumentType(f"{what} must be a text, found {value!r} of type {type(value).__name__}")
    return value


def require_timestamp(value: object) -> None:
    """Raise ValueError, as delta-spark does for what is no text, for a timestamp that is no datetime either."""
    if not isinstance(value, dt.datetime):
        require_type("timestamp", value, str)


def require_type(name: str, value: object, kind: type) -> None:
    """Raise ValueError, as delta-spark does, for a `value` of the argument `name` that is of another kind."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{name} needs to be {_KINDS[kind]} but got '{type(value)}'.")
