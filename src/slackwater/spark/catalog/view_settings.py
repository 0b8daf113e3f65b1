"""Settings of views: the query of a view has the settings of the view's creation.

In a classic session, Spark resolves the query with the view's settings. Through Connect, the session must have the same
settings.

Source: Spark's `ViewHelper.sqlConfigsToProps`, `View.effectiveSQLConf`, `SessionCatalog.fromCatalogTable`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from slackwater.errors import UnsupportedFeature
from slackwater.spark.catalog.frames import StatementOnViews, new_view_name, session_views, sql_over
from slackwater.spark.catalog.session_catalog import java_catalog, plain_sql
from slackwater.spark.session.classic_connect import all_settings, is_connect
from slackwater.spark.session.frames import frame_of_later_plan
from slackwater.spark.session.jvm_objects import copied, java_class, scala_object, scala_texts
from slackwater.spark.session.settings import CASE_SENSITIVE, SESSION_ZONE, STANDARD_SQL, session_zone

_STORED, _SCHEMA_MODE, _REFERRED = "view.sqlConfig.", "view.schemaMode", "view.referredTempViewNames"
# Views created with delta-spark stored the class of its catalog.
_CATALOGS = f"{_STORED}spark.sql.catalog."
# The beginnings of settings that change the meaning or the result of a query.
_MEANINGS = """
    allowNamedFunctionArguments analyzer.prefer ansi. caseSensitive charAsVarchar chunkBase64String.
    collation. columnNameOfCorruptRecord crossJoin. decimalOperations. function. functionResolution. groupBy
    icu. json. jsonGenerator. lateralColumnAlias. legacy. listagg. mapKeyDedupPolicy operatorPipeSyntaxEnabled
    orderByOrdinal parser. preserveCharVarcharTypeInfo prioritizeOrdinalResolutionInSort. readSideCharPadding
    retainGroupColumns session.timeZone stableDerivedColumnAlias. timestampNanosTypes. timestampType timeType.
    variant.allowDuplicateKeys
"""
# Static settings, which views never store, and settings of tables and views.
_WITHOUT_MEANING = """
    json.filterPushdown. legacy.allowNonEmptyLocationInCTAS legacy.createHiveTableByDefault legacy.hive.
    legacy.sessionInitWithConfigDefaults legacy.setCommandRejectsSparkCoreConfs
    legacy.storeAnalyzedPlanForView parser.manageParserCaches parser.parserDfa
"""
# A view stores no setting with Spark's default.
_DEFAULTS = {
    CASE_SENSITIVE: "false",
    **STANDARD_SQL,
    "spark.sql.ansi.enabled": "true",
    "spark.sql.crossJoin.enabled": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.groupByAliases": "true",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    "spark.sql.legacy.setopsPrecedence.enabled": "false",
    "spark.sql.legacy.sizeOfNull": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.orderByOrdinal": "true",
}
_DEFAULT_ZONE = "_slackwater_default_zone"


@dataclass(frozen=True)
class ViewSettings:
    """The settings of a view by name. `metadata`: Spark's object for such a view, in a classic session."""

    values: Mapping[str, str]
    metadata: Any = None

    @staticmethod
    def of_session(spark: SparkSession) -> ViewSettings:
        """Return the settings of a temporary view created now."""
        if is_connect(spark):
            return ViewSettings(_settings_now(spark.client))
        catalog, name = java_catalog(spark), new_view_name()
        plain_sql(spark, f"CREATE TEMPORARY VIEW {name} AS SELECT 1")
        try:
            metadata = catalog.getRawTempView(name).get().tableMeta()
        finally:
            catalog.dropTempView(name)
        return ViewSettings.of_catalog(metadata).of_query()

    @staticmethod
    def of_catalog(metadata: Any) -> ViewSettings:
        """Return the settings in Spark's object for a view, in a classic session."""
        return ViewSettings(scala_texts(metadata.viewSQLConfigs()), metadata)

    @staticmethod
    def of_description(described: Mapping[str, Any]) -> ViewSettings:
        """Return the settings in the fields of `DESCRIBE TABLE EXTENDED … AS JSON`, through Connect."""
        stored: Mapping[str, str] = described.get("view_creation_spark_configuration") or {}
        return ViewSettings(_with_meaning(stored))

    def of_query(self) -> ViewSettings:
        """Return the settings for a query with other columns, in a classic session."""
        # Without a database and names of temporary views, names in the text are those of a query.
        properties = _without(self.metadata.properties(), lambda key: not key.startswith(_STORED))
        return ViewSettings(
            self.values, copied(self.metadata, properties=properties.updated(_SCHEMA_MODE, "EVOLUTION"))
        )

    @property
    def is_case_sensitive(self) -> bool:
        """Whether names in the view's text are case-sensitive."""
        return self.values.get(CASE_SENSITIVE, "false").lower() == "true"

    def read_conditions_as(self, spark: SparkSession) -> bool:
        """Return whether a condition in the view's text has the same meaning in the session."""
        if self.values.get(SESSION_ZONE, session_zone(spark)) != session_zone(spark):
            return False
        now = all_settings(spark)
        return all(
            now.get(key, default).lower() == self.values.get(key, default).lower()
            for key, default in {CASE_SENSITIVE: "false", **STANDARD_SQL}.items()
        )

    def require(self, spark: SparkSession, shown: str) -> None:
        """Raise UnsupportedFeature if a Connect session has settings other than the view `shown`."""
        if is_connect(spark):
            self._require(spark.client, shown)

    def rows(
        self, spark: SparkSession, shown: str, statement: StatementOnViews, items: Sequence[str] = ()
    ) -> DataFrame:
        """Return the rows of `statement`, the query of the view `shown`, resolved with these settings.

        `items`: SQL text of the columns over the query's columns, empty for the query's columns. Through Connect, each
        query raises UnsupportedFeature if the session's settings differ. Call `require` before.
        """
        if not is_connect(spark):
            return self._by_catalog(spark, statement, items or ["*"])
        frame = self._by_sql(spark, shown, statement)
        return frame.selectExpr(*items) if items else frame

    def _by_catalog(self, spark: SparkSession, statement: StatementOnViews, items: Sequence[str]) -> DataFrame:
        """Make Spark resolve a temporary view with the statement's text, and with all that the view has stored."""
        properties = _without(self.metadata.properties(), lambda key: key.startswith(_CATALOGS))
        properties = properties.updated(_REFERRED, json.dumps([[name] for name in statement.views]))
        text = java_class(spark, "scala.Some")(statement.text)
        catalog, name = java_catalog(spark), new_view_name()
        # A temporary view with a text instead of a plan.
        relation = java_class(spark, "org.apache.spark.sql.catalyst.catalog.TemporaryViewRelation")
        view = copied(self.metadata, viewText=text, properties=properties)
        with session_views(spark, statement.views):
            catalog.createTempView(name, relation(view, scala_object(spark, "scala.None")), True)
            try:
                return plain_sql(spark, f"FROM {name} SELECT {', '.join(items)}")
            finally:
                catalog.dropTempView(name)

    def _require(self, client: Any, shown: str) -> None:
        now = _settings_now(client)
        for key in sorted(self.values.keys() | now.keys()):
            default = _DEFAULTS.get(key)
            created, found = self.values.get(key, default), now.get(key, default)
            if str(created).lower() != str(found).lower():
                raise UnsupportedFeature(
                    f"{shown}: the view was created with {key}{f'={created}' if created else ' unset'}, but this "
                    f"session has {found or 'no value'}. {f'Set {key} to {created}' if created else f'Unset {key}'}"
                    " or create the view again: through Spark Connect, a view over Delta tables needs the settings of "
                    "its creation"
                )

    def _by_sql(self, spark: SparkSession, shown: str, statement: StatementOnViews) -> DataFrame:
        frame = sql_over(spark, statement.text, statement.views)
        return frame_of_later_plan(spark, None, lambda _: frame, lambda client: self._require(client, shown))


def _without(properties: Any, is_left_out: Callable[[str], bool]) -> Any:
    """Return a Scala map of properties without some keys."""
    for key in filter(is_left_out, scala_texts(properties)):
        properties = properties.removed(key)
    return properties


def _with_meaning(settings: Mapping[str, str]) -> dict[str, str]:
    meanings, others = (tuple(f"spark.sql.{name}" for name in names.split()) for names in (_MEANINGS, _WITHOUT_MEANING))
    return {key: value for key, value in settings.items() if key.startswith(meanings) and not key.startswith(others)}


def _settings_now(client: Any) -> dict[str, str]:
    """Return the set settings of a Connect session that have a meaning for queries, and its time zone."""
    from pyspark.sql.connect.conf import RuntimeConf

    found = _with_meaning(RuntimeConf(client).getAll)
    if SESSION_ZONE not in found:
        # The default is that of the server's machine, so ask for it once.
        if _DEFAULT_ZONE not in client.__dict__:
            client.__dict__[_DEFAULT_ZONE] = client.get_configs(SESSION_ZONE)[0]
        found[SESSION_ZONE] = client.__dict__[_DEFAULT_ZONE]
    return found
