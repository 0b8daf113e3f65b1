"""Transaction time in SQL expressions: the transaction timestamp replaces Spark's clock.

Source: paper §1, §3.2.1 (CURRENT_DATE, CURRENT_TIME, CURRENT_TIMESTAMP: the answer narrows the range).
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Collection
from dataclasses import replace
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.errors import InvalidArgument, TransactionEnded
from slackwater.lake.transaction import LogTransaction
from slackwater.log.table import Table
from slackwater.predicate.sql_split import is_time_dependent, plan_is_time_dependent
from slackwater.protocol.actions.time_zones import time_zone
from slackwater.protocol.features.write_expressions import WriteExpressions
from slackwater.protocol.schema.schema import StructType
from slackwater.spark.conditions.time_functions import replaced_in_column, replaced_in_text
from slackwater.spark.session.frames import empty_frame
from slackwater.spark.session.plan_text import analysed_text
from slackwater.spark.session.types import to_spark_schema, to_spark_type

_MOMENTS = r"(?:now|today|tomorrow|yesterday)\b"
_TYPED_MOMENT = re.compile(rf"(?i)\b(?:date|timestamp(?:_ltz|_ntz)?)\s*['\"]\s*{_MOMENTS}")
_QUOTED_MOMENT = re.compile(rf"(?i)['\"]\s*{_MOMENTS}")
_DIGITS = 3


class TransactionTime:
    """The current time of a transaction, as SQL literals and in expressions."""

    def __init__(self, transaction: LogTransaction) -> None:
        # A weak reference, because readers hold this object and can outlive the transaction.
        self._transaction = weakref.ref(transaction)

    @staticmethod
    def of(table: Table) -> TransactionTime | None:
        """Return the time of the transaction of `table`, or None if `table` is outside a transaction."""
        transaction = None if table.branch is None else table.branch.transaction()
        return TransactionTime(transaction) if isinstance(transaction, LogTransaction) else None

    def answer(self, function: str, digits: int) -> str:
        """Return a SQL literal for the value of the SQL function `function`, and narrow the timestamp range.

        Raises TransactionEnded, TimestampConflict.
        """
        asked = self._transaction()
        if asked is None:
            raise TransactionEnded("the transaction no longer exists. Begin another one")
        if function in ("current_date", "curdate"):
            return f"DATE '{asked.current_date().isoformat()}'"
        if function == "current_time":
            return f"TIME '{asked.current_time(min(digits, _DIGITS)).replace(tzinfo=None).isoformat()}'"
        if function == "unix_timestamp":
            return f"{round(asked.current_timestamp('second').timestamp())}L"
        now = asked.current_timestamp()
        if function == "localtimestamp":
            here = now.astimezone(time_zone(asked.time_zone)).replace(tzinfo=None)
            return f"TIMESTAMP_NTZ '{here.isoformat(' ', 'milliseconds')}'"
        return f"TIMESTAMP '{now.isoformat(' ', 'milliseconds')}'"

    def in_text(self, sql: str, columns: Collection[str]) -> str:
        """Replace time functions in SQL text by the transaction's time. `columns` are the visible columns.

        Raises InvalidArgument for `TIMESTAMP 'now'` and similar literals, and TimestampConflict.
        """
        _require_no_moment(sql)
        return replaced_in_text(sql, self.answer, {name.lower() for name in columns})

    def given(self, expression: str | Column, columns: Collection[str]) -> str | Column:
        """Replace time functions in text or a Column, as `in_text`."""
        if isinstance(expression, str):
            return self.in_text(expression, columns)
        _require_no_moment(str(expression))
        return replaced_in_column(expression, self.answer, {name.lower() for name in columns})

    def of_rules(self, rules: WriteExpressions, schema: StructType) -> WriteExpressions:
        """Return `rules` with expressions evaluated at the transaction's time."""
        return replace(rules, timed=partial(self.in_text, columns=schema.names))

    def require_rules(self, rules: WriteExpressions, schema: StructType, spark: SparkSession) -> None:
        """Raise InvalidArgument if `rules` use Spark's clock in a form not replaceable by the transaction's time."""
        checks = [rule.sql for rule in rules.checks] + [rule.sql for rule in rules.invariants]
        columns = [F.expr(rules.timed(sql)) for sql in checks if self._is_doubtful(sql, schema)]
        made = [(rule.name, rule.sql) for rule in rules.generated] + [(rule.name, rule.sql) for rule in rules.defaults]
        for name, sql in made:
            column = schema.get(name)
            if column is not None and self._is_doubtful(sql, schema):
                columns.append(F.expr(rules.timed(sql)).cast(to_spark_type(column.type)))
        if columns:
            nothing = empty_frame(spark, to_spark_schema(schema))
            self.require(nothing.select(*columns), "a default, a generated column or a constraint of the table")

    def _is_doubtful(self, sql: str, schema: StructType) -> bool:
        """Return whether only the analysed plan can decide. The transaction's range stays unchanged."""
        names = {name.lower() for name in schema.names}
        left = replaced_in_text(sql, lambda *_: "0", names)
        return _QUOTED_MOMENT.search(sql) is not None or is_time_dependent(left)

    def require(self, frame: DataFrame, what: str) -> None:
        """Raise InvalidArgument if the analysed plan of `frame` uses Spark's clock."""
        if plan_is_time_dependent(analysed_text(frame)):
            raise InvalidArgument(_refusal(what))


def _require_no_moment(text: str) -> None:
    if _TYPED_MOMENT.search(text):
        raise InvalidArgument(_refusal(f"the expression {text}"))


def _refusal(what: str) -> str:
    return (
        f"{what}: Spark's current time is not the time of the transaction, which is the time of its commit. Use "
        "tx.current_timestamp(), as in F.lit(tx.current_timestamp()), or tx.current_date()"
    )
