"""Rules of a table as part of the write plan: rows that break one are seen while they are written, and not committed.

The job itself goes well: one that fails makes Spark print the traces of its tasks wherever it logs.
Source: delta-protocol.md "Column Invariants", "CHECK Constraints", "Generated Columns".
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slackwater.errors import InvalidArgument, InvariantViolationException, SlackwaterError, SqlSyntaxError
from slackwater.protocol.schema.schema import ArrayType, ColumnPath, DataType, MapType, StructType
from slackwater.spark.conditions.log_suppression import suppress_spark_errors
from slackwater.spark.session.classic_connect import condition_of, new_observation, observed
from slackwater.spark.session.identifiers import without_our_names
from slackwater.sql.lexer import quoted

_RAISED = "USER_RAISED_EXCEPTION"
_MARK = "slackwater-row-check"
_BROKEN = "broken"
_CLASS, _STATE = re.compile(r"\A\[[A-Z][A-Z0-9_.]*\] "), re.compile(r" SQLSTATE: \w{5}.*\Z")
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
    """A check by a SQL text over the table's columns, which must be true; `timed` as in `WriteExpressions`."""
    return RowCheck(f"{says} ({expression})", F.expr(timed(expression)), shows)


def not_null_check(path: ColumnPath, schema: StructType) -> RowCheck:
    """What `path` leads to must not be null; a part of something that is null itself breaks nothing."""
    name = ".".join(path)
    holds = _never_null(F.col(quoted(path[0])), _type_of(schema, path[0]), path[1:])
    return RowCheck(f"NOT NULL constraint of column {name}", holds, (path[0],), NOT_NULL_VIOLATED)


class CheckedRows:
    """Rows that `checks` look at: `frame` is what to write, once, and `require` then says whether a row breaks one.

    The answer comes with the end of the job, from the attempts of tasks that counted for it; all rows are in files
    then, which must not get into the table before it is known. `failing` is the same rows, whose evaluation fails at
    the first row that breaks one, by an error that `token` marks as ours: for where Spark does not tell.
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
        """Over all rows: what is said of one that breaks a check, an empty text where none does."""
        said = F.coalesce(*(F.when(c.holds, F.lit(None)).otherwise(_says(c)) for c in self._checks))
        return F.coalesce(F.max(said), F.lit("")).alias(_BROKEN)

    def require(self, where: str) -> None:
        """Raise InvariantViolationException, for the table at `where`, if a row that was written breaks a check.

        Raises CheckOutcomeUnknown where Spark does not say: a listener's event was dropped or late.
        """
        broken = "" if self._observation is None else observed(self._observation, _BROKEN)
        if broken is None:
            raise CheckOutcomeUnknown
        if broken:
            raise _violated(where, broken)

    def require_after_failure(self, where: str) -> None:
        """As `require`, where writing has failed: a row that breaks a check may be one that nothing can be made of.

        The rows are looked at once more for it. Where that fails too, it says nothing.
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
        """The rows, whose evaluation fails where one breaks a check."""
        return _failing(self._plain, self._checks, self._token)


class CheckOutcomeUnknown(Exception):
    """Rows were written, and it is not known whether one breaks a rule."""


def _violated(where: str, broken: str) -> InvariantViolationException:
    error_class, _, says = broken.partition(":")
    return InvariantViolationException(
        f"{where}: {says}; nothing was written: fix the rows, or the rule", error_class=error_class or None
    )


def _failing(frame: DataFrame, checks: Sequence[RowCheck], token: str) -> DataFrame:
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


def marked(token: str) -> str:
    """What the text of `raise_error` begins with, so that its error is ours."""
    return f"{token}:"


@contextmanager
def violations_named(token: str, where: str) -> Iterator[None]:
    """Within the block, a job that failed by a check raises InvariantViolationException; other errors pass."""
    try:
        yield
    except PySparkException as error:
        broken = raised_text(error, token)
        if broken is None:
            raise
        raise _violated(where, broken) from error


@contextmanager
def expressions_named(what: str) -> Iterator[None]:
    """Within the block, SQL text that Spark cannot make sense of raises InvalidArgument."""
    try:
        with suppress_spark_errors():
            yield
    except (AnalysisException, ParseException) as error:
        if isinstance(error, SlackwaterError):
            raise
        kind = SqlSyntaxError if isinstance(error, ParseException) else InvalidArgument
        raise kind(f"{what}: {spark_error_text(error)}", **class_of(error)) from error


def spark_error_text(error: PySparkException) -> str:
    """The first line of Spark's error, which suggests no name that only this package has given.

    Its error class and SQLSTATE are attributes of the error that says it.
    """
    line = without_our_names(str(error).strip().splitlines()[0])
    return _STATE.sub("", _CLASS.sub("", line)).rstrip(".")


def class_of(error: PySparkException) -> dict[str, Any]:
    """The error class and the SQLSTATE of Spark's error, for one of ours that stands for it."""
    return {"error_class": condition_of(error), "sqlstate": error.getSqlState()}


def raised_text(error: PySparkException, mark: str) -> str | None:
    """What follows `mark` in the text given to `raise_error`, None where the error is another or the text has none."""
    if condition_of(error) != _RAISED:
        return None
    parameters = error.getMessageParameters() or {}
    _, found, text = (next(iter(parameters.values()), None) or "").partition(mark)
    return text if found else None


def _violation(check: RowCheck, token: str) -> Column:
    return F.raise_error(F.concat(F.lit(token), _says(check))).cast("boolean")


def _says(check: RowCheck) -> Column:
    """The text for a row that breaks `check`, which begins with the error class."""
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
