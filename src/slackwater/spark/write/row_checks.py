"""Rules of a table as part of the write plan: the first row that breaks one fails the job, and nothing is committed.

Source: delta-protocol.md "Column Invariants", "CHECK Constraints", "Generated Columns".
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slackwater.errors import InvalidArgument, InvariantViolationException, SlackwaterError, SqlSyntaxError
from slackwater.protocol.schema.schema import ArrayType, ColumnPath, DataType, MapType, StructType
from slackwater.spark.session.modes import condition_of
from slackwater.spark.session.names import quoted, without_our_names

_RAISED = "USER_RAISED_EXCEPTION"
_MARK = "slackwater-row-check"
NOT_NULL_VIOLATED = "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"


@dataclass(frozen=True)
class RowCheck:
    """What every row must satisfy: `holds` must be true, not null. `says` names the rule, `shows` what to show.

    `error_class` is that of the error for a row which breaks it.
    """

    says: str
    holds: Column
    shows: Sequence[str] = ()
    error_class: str = "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"


def sql_check(says: str, expression: str, shows: Sequence[str], timed: Callable[[str], str] = str) -> RowCheck:
    """A check by a SQL text over the table's columns, which must be true; `timed` as in `RowRules`."""
    return RowCheck(f"{says} ({expression})", F.expr(timed(expression)), shows)


def not_null_check(path: ColumnPath, schema: StructType) -> RowCheck:
    """What `path` leads to must not be null; a part of something that is null itself breaks nothing."""
    name = ".".join(path)
    holds = _never_null(F.col(quoted(path[0])), _type_of(schema, path[0]), path[1:])
    return RowCheck(f"NOT NULL constraint of column {name}", holds, (path[0],), NOT_NULL_VIOLATED)


def checked(frame: DataFrame, checks: Sequence[RowCheck], token: str) -> DataFrame:
    """`frame`, whose evaluation fails at the first row that breaks one of `checks`; `token` marks the error as ours."""
    if not checks:
        return frame
    # What depends on the partition is not deterministic, so no optimizer moves it below a join or an aggregate of the
    # user's, where it would see rows that are not to be written.
    here = F.spark_partition_id() >= F.lit(0)
    tests = [F.when(c.holds & here, F.lit(True)).otherwise(_violation(c, token)) for c in checks]
    return frame.filter(reduce(lambda left, right: left & right, tests))


def new_token() -> str:
    """What marks the errors of one write."""
    return f"{_MARK}:{uuid.uuid4()}:"


def marked(token: str, error_class: str = "") -> str:
    """What the text of `raise_error` begins with, so that its error is ours and has the error class."""
    return f"{token}{error_class}:"


@contextmanager
def violations_named(token: str, where: str) -> Iterator[None]:
    """Within the block, a job that failed by a check raises InvariantViolationException; other errors pass."""
    try:
        yield
    except PySparkException as error:
        message = _raised(error)
        if message is None or token not in message:
            raise
        error_class, _, says = message.partition(token)[2].partition(":")
        raise InvariantViolationException(
            f"{where}: {says}; nothing was written: fix the rows, or the rule", error_class=error_class or None
        ) from error


@contextmanager
def expressions_named(what: str) -> Iterator[None]:
    """Within the block, SQL text that Spark cannot make sense of raises InvalidArgument."""
    try:
        yield
    except (AnalysisException, ParseException) as error:
        if isinstance(error, SlackwaterError):
            raise
        kind = SqlSyntaxError if isinstance(error, ParseException) else InvalidArgument
        raise kind(f"{what}: {said_by_spark(error)}", **class_of(error)) from error


def said_by_spark(error: PySparkException) -> str:
    """The first line of Spark's error, which suggests no name that only this package has given."""
    return without_our_names(str(error).strip().splitlines()[0])


def class_of(error: PySparkException) -> dict[str, str | None]:
    """The error class and the SQLSTATE of Spark's error, for one of ours that stands for it."""
    return {"error_class": condition_of(error), "sqlstate": error.getSqlState()}


def _raised(error: PySparkException) -> str | None:
    """The text given to `raise_error`, None where the error is another."""
    if condition_of(error) != _RAISED:
        return None
    parameters = error.getMessageParameters() or {}
    return next(iter(parameters.values()), None)


def _violation(check: RowCheck, token: str) -> Column:
    parts = [F.lit(f"{marked(token, check.error_class)}{check.says} is broken by a row")]
    if check.shows:
        shown = [F.col(quoted(name)).alias(name) for name in check.shows]
        values = F.to_json(F.struct(*shown), {"ignoreNullFields": "false"})
        parts += [F.lit(" with the values "), F.coalesce(values, F.lit("null"))]
    return F.raise_error(F.concat(*parts)).cast("boolean")


def _type_of(data_type: DataType, name: str) -> DataType:
    column = data_type.get(name) if isinstance(data_type, StructType) else None
    if column is None:
        raise InvalidArgument(f"there is no column {name!r}")
    return column.type


def _never_null(value: Column, data_type: DataType, path: ColumnPath) -> Column:
    """Whether what `path` leads to inside `value` is never null where its surroundings are not."""
    if not path:
        return value.isNotNull()
    step, rest = path[0], path[1:]
    if isinstance(data_type, MapType):
        entries = F.map_keys(value) if step == "key" else F.map_values(value)
        part_type = data_type.key_type if step == "key" else data_type.value_type
        inner = F.forall(entries, lambda entry: _never_null(entry, part_type, rest))
    elif isinstance(data_type, ArrayType):
        element_type = data_type.element_type
        inner = F.forall(value, lambda element: _never_null(element, element_type, rest))
    else:
        inner = _never_null(value.getField(step), _type_of(data_type, step), rest)
    return value.isNull() | inner
