"""User expressions of UPDATE, DELETE and MERGE within a transaction, with the transaction's time."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slackwater.errors import InvalidArgument, SlackwaterError
from slackwater.protocol.schema.column_paths import has_path, parse_column_path, resolve_path
from slackwater.protocol.schema.schema import StructType
from slackwater.spark.conditions.transaction_time import TransactionTime
from slackwater.spark.dml.merge.builder import MATCHED, NOT_MATCHED, DeltaMergeBuilder
from slackwater.spark.session.types import to_spark_type


@dataclass(frozen=True)
class TimedExpressions:
    """User expressions over a table, with the transaction's time or rejected. `target` has no rows."""

    time: TransactionTime
    schema: StructType
    target: DataFrame

    def condition(self, given: Any) -> Any:
        """Return a condition with the transaction's time.

        Values other than text and Columns pass unchanged, because the operation checks them.
        """
        if not isinstance(given, (str, Column)):
            return given
        found = self.time.given(given, self.schema.names)
        self._require(self.target, [found])
        return found

    def assignments(self, given: Mapping[str, str | Column]) -> dict[str, str | Column]:
        """Return the values of an UPDATE with the transaction's time."""
        found = self._values(given, self.schema.names)
        self._require(self.target, self._stored(found))
        return found

    def merge(self, builder: DeltaMergeBuilder) -> DeltaMergeBuilder:
        """Return a MERGE with the transaction's time, after a check of its source."""
        source = builder.source
        self.time.require(source, "the source of MERGE")
        names = (*self.schema.names, *source.columns)
        both = self.target.join(source)
        condition = self.time.given(builder.condition, names)
        self._require(both, [condition])
        clauses = []
        for clause in builder.clauses:
            on = None if clause.condition is None else self.time.given(clause.condition, names)
            values = None if clause.assignments is None else self._values(clause.assignments, names)
            frame = {MATCHED: both, NOT_MATCHED: source}.get(clause.kind, self.target)
            self._require(frame, [*([] if on is None else [on]), *self._stored(values or {})])
            clauses.append(replace(clause, condition=on, assignments=values))
        return replace(builder, condition=condition, clauses=tuple(clauses))

    def _values(self, given: Mapping[str, str | Column], names: Collection[str]) -> dict[str, str | Column]:
        return {key: self.time.given(value, names) for key, value in given.items()}

    def _stored(self, values: Mapping[str, str | Column]) -> list[Column]:
        """Return the values cast to their columns' types, because the text `now` becomes a time by the cast."""
        found = []
        for key, value in values.items():
            if isinstance(value, str) and value.strip().upper() == "DEFAULT":
                continue
            column = F.expr(value) if isinstance(value, str) else value
            try:
                path = parse_column_path(key)[-1:]
            except InvalidArgument:
                # The assignment itself reports the invalid column.
                continue
            if has_path(self.schema, path):
                column = column.cast(to_spark_type(resolve_path(self.schema, path)[1]))
            found.append(column)
        return found

    def _require(self, frame: DataFrame, expressions: Sequence[str | Column]) -> None:
        for expression in expressions:
            column = F.expr(expression) if isinstance(expression, str) else expression
            try:
                self.time.require(frame.select(column), f"the expression {expression}")
            except (AnalysisException, ParseException) as error:
                if isinstance(error, SlackwaterError):
                    raise
                # Skip unresolvable expressions, because the operation rejects them with the user's own text.
                continue
