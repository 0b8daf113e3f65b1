"""Row checks in the write plan: rows that break a table rule are detected during the write, and not committed.

The Spark job itself succeeds, because a failed job makes Spark print the traces of its tasks to every log.
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
from slackwater.spark.conditions.log_suppression import suppress_spark_errors
from slackwater.spark.session.classic_connect import new_observation, observed
from slackwater.spark.session.spark_errors import class_of, condition_of, spark_error_text
from slackwater.sql.lexer import quoted

_RAISED = "USER_RAISED_EXCEPTION"
_MARK = "slackwater-row-check"
_BROKEN = "broken"
NOT_NULL_VIOLATED = "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"


@dataclass(frozen=True)
class RowCheck:
    """A rule for every row: `holds` must be true, not null. `says` names the rule, `shows` the columns for the message.

    `error_class` is the error class for a row that breaks the rule.
    """

    says: str
    holds: Column
    shows: Sequence[str] = ()
    error_class: str = "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"


def sql_check(says: str, expression: str, shows: Sequence[str], timed: Callable[[str], str] = str) -> RowCheck:
    """Return a check that SQL text over the table's columns is true. For `timed` see `WriteExpressions`."""
    return RowCheck(f"{says} ({expression})", F.expr(timed(expression)), shows)


def not_null_check(path: ColumnPath, schema: StructType) -> RowCheck:
    """Return a check that the part at `path` is not null. A part inside a null value passes."""
    name = ".".join(path)
    holds = _never_null(F.col(quoted(path[0])), _type_of(schema, path[0]), path[1:])
    return RowCheck(f"NOT NULL constraint of column {name}", holds, (path[0],), NOT_NULL_VIOLATED)


class CheckedRows:
    """Rows with `checks`: write `frame` once, then call `require` to find out whether a row breaks a check.

    The result arrives at the end of the job, from the successful task attempts only. All rows are in files by then. The
    files must not be committed before `require` returns. `failing` has the same rows, but its evaluation fails at the
    first row that breaks a check. `token` marks the error as an error of this write. Use `failing` if Spark reports no
    result.
    """

    def __init__(self, frame: DataFrame, checks: Sequence[RowCheck], token: str) -> None:
        self.frame = frame
        self._plain, self._checks, self._token = frame, checks, token
        self._observation = None
        if checks:
            self._observation = new_observation(frame.sparkSession)
            self.frame = frame.observe(self._observation, self._broken)

    @property
    def _broken(self) -> Column:
        """An aggregate over all rows: the message for a row that breaks a check, an empty text if there is none."""
        said = F.coalesce(*(F.when(c.holds, F.lit(None)).otherwise(_says(c)) for c in self._checks))
        return F.coalesce(F.max(said), F.lit("")).alias(_BROKEN)

    def require(self, where: str) -> None:
        """Raise InvariantViolationException for the table at `where` if a written row breaks a check.

        Raises CheckOutcomeUnknown if Spark reports no result, because a listener's event was dropped or late.
        """
        broken = "" if self._observation is None else observed(self._observation, _BROKEN)
        if broken is None:
            raise CheckOutcomeUnknown
        if broken:
            raise _violated(where, broken)

    def require_after_failure(self, where: str) -> None:
        """Raise InvariantViolationException after a failed write if a row that breaks a check may be the cause.

        Evaluates the rows again. Does nothing if this evaluation fails too.
        """
        if not self._checks:
            return
        try:
            broken = self._plain.agg(self._broken).collect()[0][0]
        except PySparkException:
            return
        if broken:
            raise _violated(where, str(broken))

    @property
    def failing(self) -> DataFrame:
        """The rows, with an evaluation that fails if a row breaks a check."""
        return _failing(self._plain, self._checks, self._token)


class CheckOutcomeUnknown(Exception):
    """Error: rows were written, but the result of their checks is unknown."""


def _violated(where: str, broken: str) -> InvariantViolationException:
    error_class, _, says = broken.partition(":")
    return InvariantViolationException(
        f"{where}: {says}. Nothing was written. Correct the rows or the rule", error_class=error_class or None
    )


def _failing(frame: DataFrame, checks: Sequence[RowCheck], token: str) -> DataFrame:
    if not checks:
        return frame
    # Depends on the partition id, so that the filter is not deterministic and the optimizer does not push it below a
    # join or an aggregate of the user. There, it would check rows that are not written.
    here = F.spark_partition_id() >= F.lit(0)
    tests = [F.when(c.holds & here, F.lit(True)).otherwise(_violation(c, token)) for c in checks]
    return frame.filter(reduce(lambda left, right: left & right, tests))


def new_token() -> str:
    """Return a mark for the errors of one write."""
    return f"{_MARK}:{uuid.uuid4()}:"


def marked(token: str) -> str:
    """Return the prefix for the text of `raise_error` that marks its error as an error of this write."""
    return f"{token}:"


@contextmanager
def violations_named(token: str, where: str) -> Iterator[None]:
    """Raise InvariantViolationException if a job within the block fails because of a check. Other errors pass."""
    try:
        yield
    except PySparkException as error:
        broken = raised_text(error, token)
        if broken is None:
            raise
        raise _violated(where, broken) from error


@contextmanager
def expressions_named(what: str) -> Iterator[None]:
    """Raise InvalidArgument if Spark cannot parse or resolve SQL text within the block.

    A parse error becomes SqlSyntaxError.
    """
    try:
        with suppress_spark_errors():
            yield
    except (AnalysisException, ParseException) as error:
        if isinstance(error, SlackwaterError):
            raise
        kind = SqlSyntaxError if isinstance(error, ParseException) else InvalidArgument
        raise kind(f"{what}: {spark_error_text(error)}", **class_of(error)) from error


def raised_text(error: PySparkException, mark: str) -> str | None:
    """Return the text after `mark` in the text of `raise_error`. None for another error or for text without `mark`."""
    if condition_of(error) != _RAISED:
        return None
    parameters = error.getMessageParameters() or {}
    _, found, text = (next(iter(parameters.values()), None) or "").partition(mark)
    return text if found else None


def _violation(check: RowCheck, token: str) -> Column:
    return F.raise_error(F.concat(F.lit(token), _says(check))).cast("boolean")


def _says(check: RowCheck) -> Column:
    """Return the message for a row that breaks `check`, with the error class as prefix."""
    parts = [F.lit(f"{check.error_class}:{check.says} is broken by a row")]
    if check.shows:
        shown = [F.col(quoted(name)).alias(name) for name in check.shows]
        values = F.to_json(F.struct(*shown), {"ignoreNullFields": "false"})
        parts += [F.lit(" with the values "), F.coalesce(values, F.lit("null"))]
    return F.concat(*parts)


def _type_of(data_type: DataType, name: str) -> DataType:
    column = data_type.get(name) if isinstance(data_type, StructType) else None
    if column is None:
        raise InvalidArgument(f"there is no column {name!r}")
    return column.type


def _never_null(value: Column, data_type: DataType, path: ColumnPath) -> Column:
    """Return whether the part at `path` inside `value` is never null inside a non-null value."""
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
