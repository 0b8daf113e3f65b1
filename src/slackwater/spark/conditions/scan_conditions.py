"""Conditions on the rows of a scan as predicates for file pruning, in the time zone of the scan.

Spark reads a time without a zone in the zone of the session: in classic mode when `where` is called, through Connect
when the plan is executed. A scan has the zone of its load. In another zone, a condition prunes no files. The same is
true for quotes and backslashes in SQL text, and the settings for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slackwater.predicate.columns import resolve_column
from slackwater.predicate.predicate import And, Predicate, Unprunable, columns_of
from slackwater.protocol.schema.schema import DATE, TIMESTAMP, TIMESTAMP_NTZ, StructType
from slackwater.spark.conditions.aliases import predicate_without_alias, under_alias
from slackwater.spark.conditions.predicates import predicate_of
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.session.enabled_sessions import setting_in_statement
from slackwater.spark.session.settings import STANDARD_SQL, session_zone, zone_of_plan

_OTHER_ZONE = Unprunable("the time zone of the session has changed since the load")
_QUOTED = Unprunable("the meaning of quotes and backslashes depends on the session")


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

    def predicate_of_frame(self, condition: Any) -> Predicate:
        """Return the predicate of `condition` for a frame, to check with `holds_in_plan` when the plan is executed."""
        return self._marked(self.predicate(condition), str(condition))

    def predicate_of_text(self, text: str, zone: str) -> Predicate:
        """Return `predicate_of_frame` for SQL text in the zone `zone`, without a call to Spark for standard SQL."""
        plain = self.reads_standard_sql
        found = predicate_of(text, self.schema, self.zone) if plain else self.predicate(text)
        return self._marked(found, text) if self.holds_in(zone, found) else _OTHER_ZONE

    def _marked(self, predicate: Predicate, text: str) -> Predicate:
        is_quoted = is_connect(self.spark) and any(each in text for each in '"\\')
        return And((predicate, _QUOTED)) if is_quoted else predicate

    def depends_on_plan(self, predicate: Predicate) -> bool:
        """Return whether `holds_in_plan` may be false."""
        return _is_quoted(predicate) or self.depends_on_zone(predicate)

    def holds_in_plan(self, client: Any, predicate: Predicate) -> bool:
        """Return whether `predicate` has the meaning of its condition in a plan sent now by `client` of Connect."""
        if self.depends_on_zone(predicate) and zone_of_plan(self.spark, client) != self.zone:
            return False
        if not _is_quoted(predicate):
            return True
        return _are_standard(dict(zip(STANDARD_SQL, client.get_configs(*STANDARD_SQL), strict=True)))

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
        return _are_standard({key: setting_in_statement(self.spark, key) for key in STANDARD_SQL})

    def _in_session(self, predicate: Predicate) -> Predicate:
        return predicate if self.holds_in(session_zone(self.spark), predicate) else _OTHER_ZONE


def _is_quoted(predicate: Predicate) -> bool:
    return predicate == _QUOTED or (isinstance(predicate, And) and any(map(_is_quoted, predicate.children)))


def _are_standard(settings: Mapping[str, str | None]) -> bool:
    return all((settings[key] or default).lower() == default.lower() for key, default in STANDARD_SQL.items())
