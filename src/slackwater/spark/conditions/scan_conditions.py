"""Conditions on the rows of a scan as predicates for file pruning, in the time zone of the scan.

Spark reads a time without a zone in the zone of the session: in classic mode when `where` is called, through Connect
when the plan is executed. A scan has the zone of its load. In another zone, a condition prunes no files.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slackwater.predicate.columns import resolve_column
from slackwater.predicate.predicate import Predicate, Unprunable, columns_of
from slackwater.protocol.schema.schema import DATE, TIMESTAMP, TIMESTAMP_NTZ, StructType
from slackwater.spark.conditions.aliases import predicate_without_alias, under_alias
from slackwater.spark.conditions.predicates import predicate_of
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.session.enabled_sessions import setting_in_statement
from slackwater.spark.session.settings import STANDARD_SQL, session_zone

_OTHER_ZONE = Unprunable("the time zone of the session has changed since the load")


@dataclass(frozen=True)
class ScanConditions:
    """Conditions on the columns of `schema`, for a scan with the time zone `zone`."""

    spark: SparkSession
    schema: StructType
    zone: str

    def predicate(self, condition: Any, alias: str | None = None) -> Predicate:
        """Return the predicate of `condition`, a Column or SQL text. The condition may use the table's `alias`."""
        if not is_connect(self.spark):
            # As a Column, so that Spark's own parser reads the text with the session's settings.
            condition = F.expr(condition) if isinstance(condition, str) else condition
        elif not self.reads_standard_sql:
            return Unprunable("the session reads SQL text in another way")
        if alias is None:
            return self._in_session(predicate_of(condition, self.schema, self.zone))
        found = predicate_without_alias(predicate_of(condition, under_alias(self.schema, alias), self.zone), alias)
        return self._in_session(found)

    def predicate_of_text(self, text: str, zone: str) -> Predicate:
        """Return the predicate of SQL text in the time zone `zone`, without a call to Spark for standard SQL."""
        plain = self.reads_standard_sql
        found = predicate_of(text, self.schema, self.zone) if plain else self.predicate(text)
        return found if self.holds_in(zone, found) else _OTHER_ZONE

    def holds_in(self, zone: str, predicate: Predicate) -> bool:
        """Return whether `predicate` has the meaning of its condition in the time zone `zone`."""
        return zone == self.zone or not self.depends_on_zone(predicate)

    def depends_on_zone(self, predicate: Predicate) -> bool:
        """Return whether the meaning of `predicate` may depend on the time zone."""
        types = (resolve_column(self.schema, path).type for path in columns_of(predicate))
        return any(each in (DATE, TIMESTAMP, TIMESTAMP_NTZ) for each in types)

    @cached_property
    def reads_standard_sql(self) -> bool:
        """Whether quotes, backslashes and timestamps in SQL text have their default meaning in the session."""
        found = {key: setting_in_statement(self.spark, key) or default for key, default in STANDARD_SQL.items()}
        return all(found[key].lower() == default.lower() for key, default in STANDARD_SQL.items())

    def _in_session(self, predicate: Predicate) -> Predicate:
        return predicate if self.holds_in(session_zone(self.spark), predicate) else _OTHER_ZONE
