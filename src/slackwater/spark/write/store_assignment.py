"""Store assignment: casts values to the types of a table's columns, without silent loss.

Source: delta-spark's UPDATE and MERGE, with casts by `spark.sql.storeAssignmentPolicy`. ANSI allows all ANSI casts of
Spark, STRICT all lossless casts, LEGACY all casts of Spark, with their non-ANSI results.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater.errors import InvalidArgument, ValueDoesNotFit
from slackwater.spark.write.row_checks import raised_text
from slackwater.sql.lexer import quoted

_INTEGRAL_DIGITS: dict[type[spark_types.DataType], int] = {
    spark_types.ByteType: 3,
    spark_types.ShortType: 5,
    spark_types.IntegerType: 10,
    spark_types.LongType: 19,
}
_DECIMAL_DIGITS = _INTEGRAL_DIGITS | {spark_types.LongType: 20}
"""Digits of the decimal types that stand for integers in Spark's type rules."""
_FRACTIONAL = (spark_types.FloatType, spark_types.DoubleType)
_DATETIMES = (spark_types.DateType, spark_types.TimestampType, spark_types.TimestampNTZType)
_PARSED = (spark_types.BooleanType, spark_types.NumericType, *_DATETIMES)
"""Types with casts from text that can fail."""
_INTERVALS = (spark_types.DayTimeIntervalType, spark_types.YearMonthIntervalType)
_BY_WIDTH = (*_INTEGRAL_DIGITS, *_FRACTIONAL)
_EXACT = (*_INTEGRAL_DIGITS, spark_types.DecimalType)
_ANSI, _STRICT, _LEGACY = "ANSI", "STRICT", "LEGACY"
_MISFIT = "slackwater-misfit:"
_OVERFLOW, _MALFORMED = "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE", "CAST_INVALID_INPUT"


class StoreAssignment:
    """The session's rules for storing values in columns of other types. Reads the policy once, on first use."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    @cached_property
    def policy(self) -> str:
        """`ANSI`, `STRICT` or `LEGACY`."""
        return str(self._session.conf.get("spark.sql.storeAssignmentPolicy", _ANSI)).upper()

    def knows_cast(self, given: spark_types.DataType, wanted: spark_types.DataType) -> bool:
        """Return whether the session supports a cast between the types."""
        try:
            _ = self._session.range(0).select(F.lit(None).cast(given).cast(wanted)).schema
        except AnalysisException:
            return False
        return True


def stored(
    value: Column,
    given: spark_types.DataType,
    wanted: spark_types.DataType,
    column: str,
    assignment: StoreAssignment,
    is_column: bool = False,
    fills: bool = False,
) -> Column:
    """Return `value` of type `given`, cast to the type `wanted`: its fields in that order and spelling, all nullable.

    `column` names the column in messages. A value that does not fit (a number out of range, a malformed date) fails the
    job with an error for the column, see `name_overflow_errors`. Under the policy LEGACY, the session's cast decides
    the result instead. Fractions are truncated or rounded like in Spark. `is_column`: `value` is a plain column, so
    evaluating it repeatedly is cheap. `fills`: missing struct fields become NULL, at every depth; otherwise a value
    with missing fields is rejected. Raises InvalidArgument if `assignment` does not allow values of this type in the
    column.
    """
    source, target = _plain(given), _plain(wanted)
    _Storable(assignment, fills).require(source, target, column)
    if source == target:
        return value
    guarded = _may_fail(source, target) and assignment.policy != _LEGACY
    if _casts_by_position(source, target) and not guarded:
        return value.cast(target)
    conversion = _Conversion(column, guarded)
    if is_column:
        return conversion.of(value, source, target)
    # A lambda, so that the value is evaluated once although the conversion uses it several times.
    return F.transform(F.array(value), lambda one: conversion.of(one, source, target)).getItem(0)


def stored_columns(frame: DataFrame, table: spark_types.StructType) -> DataFrame:
    """Return `frame` with its values cast to the column types of `table`, by the session's store assignment.

    Columns, and fields at every depth, match by name in any case. They keep their names and order. Columns present on
    one side only are left to the row writer. Raises the errors of `stored`.
    """
    assignment = StoreAssignment(frame.sparkSession)
    names = [name.lower() for name in frame.columns]
    changed = {}
    for column in frame.schema.fields:
        target = _find(table, column.name)
        # Duplicate column names are ambiguous; the row writer rejects them.
        if target is None or names.count(column.name.lower()) > 1:
            continue
        given, wanted = _plain(column.dataType), _retyped(_plain(column.dataType), _plain(target.dataType))
        if given != wanted:
            changed[column.name] = stored(
                F.col(quoted(column.name)), given, wanted, target.name, assignment, is_column=True
            )
    return frame.withColumns(changed) if changed else frame


def _retyped(given: spark_types.DataType, table: spark_types.DataType) -> spark_types.DataType:
    """Return `given` with the types of `table` for the common parts."""
    if isinstance(given, spark_types.ArrayType) and isinstance(table, spark_types.ArrayType):
        return spark_types.ArrayType(_retyped(given.elementType, table.elementType))
    if isinstance(given, spark_types.MapType) and isinstance(table, spark_types.MapType):
        return spark_types.MapType(_retyped(given.keyType, table.keyType), _retyped(given.valueType, table.valueType))
    if not (isinstance(given, spark_types.StructType) and isinstance(table, spark_types.StructType)):
        return given if isinstance(given, spark_types.NullType) else table
    targets = [(field, _find(table, field.name)) for field in given.fields]
    return spark_types.StructType(
        [spark_types.StructField(f.name, _retyped(f.dataType, t.dataType) if t else f.dataType) for f, t in targets]
    )


@contextmanager
def name_overflow_errors(where: str) -> Iterator[None]:
    """Raise ValueDoesNotFit if a job within the block fails because of a value that does not fit its column.

    `where` names the table. Other errors pass.
    """
    try:
        yield
    except PySparkException as error:
        told = raised_text(error, _MISFIT)
        if told is None:
            raise
        error_class, _, says = told.partition(":")
        raise ValueDoesNotFit(
            f"{where}: {says}. Nothing was written. Correct the value, or use try_cast to write NULL",
            error_class=error_class,
        ) from error


@dataclass(frozen=True)
class _Storable:
    assignment: StoreAssignment
    fills: bool

    def require(self, given: spark_types.DataType, wanted: spark_types.DataType, column: str) -> None:
        if given == wanted or isinstance(given, spark_types.NullType):
            return
        if isinstance(given, spark_types.ArrayType) and isinstance(wanted, spark_types.ArrayType):
            self.require(given.elementType, wanted.elementType, f"{column}.element")
        elif isinstance(given, spark_types.MapType) and isinstance(wanted, spark_types.MapType):
            self.require(given.keyType, wanted.keyType, f"{column}.key")
            self.require(given.valueType, wanted.valueType, f"{column}.value")
        elif isinstance(given, spark_types.StructType) and isinstance(wanted, spark_types.StructType):
            _require_same_fields(given, wanted, column, self.fills)
            for source, target in _common_fields(given, wanted):
                self.require(source.dataType, target.dataType, f"{column}.{target.name}")
        elif not self._allows(given, wanted):
            raise InvalidArgument(
                f"column {column} is of type {wanted.simpleString()}, and a value of type {given.simpleString()} "
                f"cannot be stored in it under spark.sql.storeAssignmentPolicy={self.assignment.policy}. Cast the "
                "value explicitly",
                error_class="DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION",
            )

    def _allows(self, given: spark_types.DataType, wanted: spark_types.DataType) -> bool:
        if self.assignment.policy == _STRICT:
            return _is_upcast(given, wanted)
        return _is_ansi_cast(given, wanted) or (
            self.assignment.policy == _LEGACY and self.assignment.knows_cast(given, wanted)
        )


def _require_same_fields(
    given: spark_types.StructType, wanted: spark_types.StructType, column: str, fills: bool
) -> None:
    there, expected = ([name.lower() for name in struct.names] for struct in (given, wanted))
    missing = [] if fills else [name for name in wanted.names if name.lower() not in there]
    extra = [name for name in given.names if name.lower() not in expected]
    if missing or extra or len(there) != len(set(there)):
        raise InvalidArgument(
            f"column {column} has the fields {wanted.names}, but the value has {given.names}. Provide each field of "
            "the column exactly once and no other, with nulls for missing fields if necessary",
            error_class="DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION",
        )


def _is_ansi_cast(given: spark_types.DataType, wanted: spark_types.DataType) -> bool:
    """Return whether the policy ANSI allows the cast.

    Source: Spark's `Cast.canAnsiCast`.
    """
    if isinstance(wanted, spark_types.StringType):
        return True
    if isinstance(given, spark_types.StringType):
        return isinstance(wanted, (*_PARSED, spark_types.BinaryType))
    if isinstance(wanted, spark_types.NumericType):
        if isinstance(given, _INTERVALS):
            return isinstance(wanted, _EXACT)
        return isinstance(given, (spark_types.NumericType, spark_types.BooleanType, spark_types.TimestampType))
    if isinstance(given, spark_types.NumericType):
        return isinstance(wanted, (spark_types.BooleanType, spark_types.TimestampType))
    return isinstance(given, _DATETIMES) and isinstance(wanted, _DATETIMES)


def _is_upcast(given: spark_types.DataType, wanted: spark_types.DataType) -> bool:
    """Return whether the policy STRICT allows the cast.

    Source: Spark's `UpCastRule.canUpCast`.
    """
    if isinstance(wanted, spark_types.StringType):
        return not isinstance(given, (spark_types.ArrayType, spark_types.MapType, spark_types.StructType))
    if isinstance(given, spark_types.NumericType) and isinstance(wanted, spark_types.NumericType):
        if isinstance(given, _FRACTIONAL) or isinstance(wanted, _FRACTIONAL):
            widths = [_BY_WIDTH.index(type(one)) for one in (given, wanted) if type(one) in _BY_WIDTH]
            return len(widths) == 2 and widths[0] <= widths[1]
        (whole, scale), (room, places) = _decimal_digits(given), _decimal_digits(wanted)
        if isinstance(given, spark_types.DecimalType) and not isinstance(wanted, spark_types.DecimalType):
            # One digit less, because the integer type lacks some numbers of its full number of digits.
            room -= 1
        return whole <= room and scale <= places
    if {type(given), type(wanted)} == {spark_types.LongType, spark_types.TimestampType}:
        # Spark allows both directions, although the cast to long loses fractions of seconds.
        return True
    return isinstance(given, _DATETIMES) and isinstance(
        wanted, (spark_types.TimestampType, spark_types.TimestampNTZType)
    )


def _decimal_digits(exact: spark_types.DataType) -> tuple[int, int]:
    """Return the digits before and after the point of the decimal type that stands for an exact type in Spark."""
    if isinstance(exact, spark_types.DecimalType):
        return exact.precision - exact.scale, exact.scale
    return _DECIMAL_DIGITS[type(exact)], 0


def _may_fail(given: spark_types.DataType, wanted: spark_types.DataType) -> bool:
    """Return whether some value of `given` has no counterpart in `wanted`, so that a non-ANSI cast changes it."""
    if isinstance(given, spark_types.ArrayType) and isinstance(wanted, spark_types.ArrayType):
        return _may_fail(given.elementType, wanted.elementType)
    if isinstance(given, spark_types.MapType) and isinstance(wanted, spark_types.MapType):
        return _may_fail(given.keyType, wanted.keyType) or _may_fail(given.valueType, wanted.valueType)
    if isinstance(given, spark_types.StructType) and isinstance(wanted, spark_types.StructType):
        return any(_may_fail(source.dataType, target.dataType) for source, target in _common_fields(given, wanted))
    if isinstance(given, spark_types.StringType):
        return isinstance(wanted, _PARSED)
    if isinstance(wanted, spark_types.NumericType) and given != wanted:
        return isinstance(given, (*_INTERVALS, spark_types.TimestampType)) or _may_overflow(given, wanted)
    # A number of seconds may be out of a timestamp's range, or NaN.
    return isinstance(given, spark_types.NumericType) and isinstance(wanted, spark_types.TimestampType)


def _may_overflow(given: spark_types.DataType, wanted: spark_types.NumericType) -> bool:
    if isinstance(given, spark_types.BooleanType):
        return _room(wanted) < 1
    if isinstance(wanted, _FRACTIONAL):
        return False
    return _whole_digits(given, wanted) > _room(wanted)


def _whole_digits(given: spark_types.DataType, wanted: spark_types.DataType) -> int:
    """Return the maximum number of digits before the point. For floats, more digits than any type holds."""
    if isinstance(given, spark_types.DecimalType):
        scale = wanted.scale if isinstance(wanted, spark_types.DecimalType) else 0
        # Rounding to a smaller scale may carry into one more digit.
        return given.precision - given.scale + (1 if scale < given.scale else 0)
    return _INTEGRAL_DIGITS.get(type(given), 1000)


def _room(wanted: spark_types.DataType) -> int:
    """Return the number of digits before the point that fit whatever the digits are."""
    if isinstance(wanted, _FRACTIONAL):
        return 1000
    if isinstance(wanted, spark_types.DecimalType):
        return wanted.precision - wanted.scale
    return _INTEGRAL_DIGITS[type(wanted)] - 1


def _casts_by_position(given: spark_types.DataType, wanted: spark_types.DataType) -> bool:
    """Return whether Spark's own cast is right.

    Spark casts structs by position, and does not check map keys for duplicates.
    """
    if isinstance(given, spark_types.ArrayType) and isinstance(wanted, spark_types.ArrayType):
        return _casts_by_position(given.elementType, wanted.elementType)
    if isinstance(given, spark_types.MapType) and isinstance(wanted, spark_types.MapType):
        return given.keyType == wanted.keyType and _casts_by_position(given.valueType, wanted.valueType)
    if isinstance(given, spark_types.StructType) and isinstance(wanted, spark_types.StructType):
        return len(given) == len(wanted) and all(
            g.name.lower() == w.name.lower() and _casts_by_position(g.dataType, w.dataType)
            for g, w in zip(given.fields, wanted.fields, strict=True)
        )
    return True


@dataclass(frozen=True)
class _Conversion:
    """A cast part by part. If `guarded`, a value that does not fit is an error for `column`."""

    column: str
    guarded: bool

    def of(self, value: Column, given: spark_types.DataType, wanted: spark_types.DataType) -> Column:
        if given == wanted:
            return value
        if isinstance(given, spark_types.ArrayType) and isinstance(wanted, spark_types.ArrayType):
            item, to = given.elementType, wanted.elementType
            return F.transform(value, lambda element: self.of(element, item, to))
        if isinstance(given, spark_types.MapType) and isinstance(wanted, spark_types.MapType):
            return self._map(value, given, wanted)
        if isinstance(given, spark_types.StructType) and isinstance(wanted, spark_types.StructType):
            return self._struct(value, given, wanted)
        if self.guarded and _may_fail(given, wanted):
            return self._fitting(value, given, wanted)
        return value.cast(wanted)

    def _map(self, value: Column, given: spark_types.MapType, wanted: spark_types.MapType) -> Column:
        def entry(pair: Column) -> Column:
            key = self.of(pair.getField("key"), given.keyType, wanted.keyType)
            item = self.of(pair.getField("value"), given.valueType, wanted.valueType)
            return F.struct(key.alias("key"), item.alias("value"))

        # Rebuilt from entries, so that keys that become equal are an error; a cast of the map would keep both.
        return F.map_from_entries(F.transform(F.map_entries(value), entry))

    def _struct(self, value: Column, given: spark_types.StructType, wanted: spark_types.StructType) -> Column:
        fields = []
        for target in wanted.fields:
            source = _find(given, target.name)
            if source is None:
                part = F.lit(None).cast(target.dataType)
            else:
                part = self.of(value.getField(source.name), source.dataType, target.dataType)
            fields.append(part.alias(target.name))
        return F.when(value.isNull(), F.lit(None)).otherwise(F.struct(*fields))

    def _fitting(self, value: Column, given: spark_types.DataType, wanted: spark_types.DataType) -> Column:
        says = f"column {self.column} is of type {wanted.simpleString()}, and a value of type {given.simpleString()} "
        text = F.concat(F.lit(f"{says}does not fit into it: "), value.cast("string"))
        mark = F.lit(f"{_MISFIT}{_MALFORMED if isinstance(given, spark_types.StringType) else _OVERFLOW}:")
        fitting = F.coalesce(value.try_cast(wanted), F.raise_error(F.concat(mark, text)).cast(wanted))
        return F.when(value.isNull(), F.lit(None)).otherwise(fitting)


def _common_fields(
    given: spark_types.StructType, wanted: spark_types.StructType
) -> list[tuple[spark_types.StructField, spark_types.StructField]]:
    """Return pairs of fields present in both types, first of `given`, then of `wanted`, in the order of `wanted`."""
    pairs = ((_find(given, target.name), target) for target in wanted.fields)
    return [(source, target) for source, target in pairs if source is not None]


def _find(struct: spark_types.StructType, name: str) -> spark_types.StructField | None:
    return next((field for field in struct.fields if field.name.lower() == name.lower()), None)


def _plain(data_type: spark_types.DataType) -> spark_types.DataType:
    """Return `data_type` with all parts nullable, without comments, text lengths and other metadata."""
    if isinstance(data_type, spark_types.StructType):
        fields = [spark_types.StructField(f.name, _plain(f.dataType)) for f in data_type.fields]
        return spark_types.StructType(fields)
    if isinstance(data_type, spark_types.ArrayType):
        return spark_types.ArrayType(_plain(data_type.elementType))
    if isinstance(data_type, spark_types.MapType):
        return spark_types.MapType(_plain(data_type.keyType), _plain(data_type.valueType))
    if isinstance(data_type, (spark_types.CharType, spark_types.VarcharType)):
        return spark_types.StringType()
    return data_type
