"""The tables of a statement's block, with their rows before the conditions of the statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from slackwater.errors import InvalidArgument
from slackwater.predicate.predicate import columns_of, is_understood
from slackwater.protocol.schema.schema import StructType
from slackwater.spark.catalog.frames import StatementOnViews, sql_over
from slackwater.spark.catalog.resolve import parts_of
from slackwater.spark.catalog.view_settings import ViewSettings
from slackwater.spark.conditions.predicates import predicate_of
from slackwater.spark.lake.transaction import TransactionTable
from slackwater.spark.read.pushdown_frame import prune_files
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.session.settings import SESSION_ZONE, session_zone
from slackwater.spark.session.types import from_spark_schema
from slackwater.spark.table.named import NamedTable, frame_of, moment, required_table, utc_text, zoned
from slackwater.sql.lexer import tokens_of
from slackwater.sql.relations import Relation

_CHANGES, _CHANGES_BY_PATH = "table_changes", "table_changes_by_path"
_INTEGERS = ("tinyint", "smallint", "int", "bigint")


@dataclass
class TableUse:
    """A table of a block. `whole` has all its rows, None for a table of a transaction, to minimize its reads.

    `spark` is the session of the statement.
    """

    spark: SparkSession
    named: NamedTable
    whole: DataFrame | None = None

    @cached_property
    def schema(self) -> StructType:
        """The columns available to a condition."""
        if self.whole is None:
            return self.named.table._snapshot().schema
        return from_spark_schema(self.whole.schema)

    def useful(self, conditions: Sequence[str]) -> list[str]:
        """Return the fully understood conditions, because Spark evaluates them again and must get the same result."""
        found = {each: predicate_of(each, self.schema, session_zone(self.spark)) for each in conditions}
        return [each for each, predicate in found.items() if columns_of(predicate) and is_understood(predicate)]

    def frame(self, conditions: Sequence[str]) -> DataFrame:
        """Return the rows, without some for which a condition is false. The statement still checks all conditions."""
        if not conditions:
            return self.named.table.toDF() if self.whole is None else self.whole
        condition = all_of(conditions)
        if self.whole is None:
            return self.named.table.where(condition)
        return prune_files(self.whole, condition, session_zone(self.spark))


def table_use(spark: SparkSession, relation: Relation, named: NamedTable) -> TableUse:
    """Return the use of a table by a relation: a version, changes, or the state of a transaction.

    Raises InvalidArgument for another version in a transaction, and the errors of every read.
    """
    if relation.arguments is not None:
        return TableUse(spark, named, _changes_frame(spark, named, relation))
    if not isinstance(named.table, TransactionTable):
        return TableUse(spark, named, frame_of(spark, named, relation.travel))
    if relation.travel is not None:
        raise InvalidArgument(
            f"{named.place.shown}: a transaction reads one version of each table. Read other versions outside of the "
            "transaction"
        )
    return TableUse(spark, named)


def all_of(conditions: Sequence[str]) -> str:
    """Return the conjunction of conditions."""
    return " AND ".join(f"({each})" for each in conditions)


def with_zones(spark: SparkSession, relation: Relation, settings: ViewSettings | None) -> Relation:
    """Return the relation with times in texts with a zone, if the view with these settings has another zone."""
    zone = None if settings is None or is_connect(spark) else settings.values.get(SESSION_ZONE)
    if settings is None or zone is None or zone == session_zone(spark):
        return relation

    def with_zone(text: str) -> str:
        query = f"SELECT typeof({text}), unix_micros(TRY_CAST(({text}) AS TIMESTAMP_LTZ))"
        kind, micros = settings.of_query().rows(spark, text, StatementOnViews(query)).collect()[0]
        return text if micros is None or kind in _INTEGERS else f"'{utc_text(micros)}'"

    if relation.arguments is not None:
        table, *times = relation.arguments
        return replace(relation, arguments=(table, *map(with_zone, times)))
    return relation if relation.travel is None else replace(relation, travel=zoned(relation.travel, zone, with_zone))


def changes_function(relation: Relation) -> str | None:
    """Return the name of the function if the relation is `table_changes` or `table_changes_by_path`."""
    name = relation.parts[-1].lower()
    return name if name in (_CHANGES, _CHANGES_BY_PATH) and len(relation.parts) == 1 else None


def changed_table(spark: SparkSession, relation: Relation) -> NamedTable:
    """Return the table of `table_changes`. Raises InvalidArgument for other arguments, and TableNotFound."""
    arguments = relation.arguments or ()
    if not 2 <= len(arguments) <= 3:
        raise InvalidArgument(f"{relation.parts[-1]} expected a table, a start and an optional end, found {arguments}")
    tokens = tokens_of(arguments[0]) or []
    if len(tokens) != 1 or tokens[0].value == tokens[0].raw:
        raise InvalidArgument(f"{relation.parts[-1]} expected the table as a quoted text, found {arguments[0]}")
    parts = ("delta", tokens[0].value) if changes_function(relation) == _CHANGES_BY_PATH else parts_of(tokens[0].value)
    return required_table(spark, parts)


def _changes_frame(spark: SparkSession, named: NamedTable, relation: Relation) -> DataFrame:
    arguments = relation.arguments or ()
    options: dict[str, Any] = {"readChangeFeed": "true"}
    for name, text in zip(("starting", "ending"), arguments[1:], strict=False):
        row = sql_over(spark, f"SELECT {text} AS v, typeof({text}) AS t", {}).collect()[0]
        if row.t in _INTEGERS:
            options[f"{name}Version"] = row.v
        else:
            # Python shows a timestamp in the zone of the process.
            options[f"{name}Timestamp"] = moment(spark, text) if row.t == "timestamp" else str(row.v)
    return named.table.toDF(**options)
