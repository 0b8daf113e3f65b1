"""Settings of views: the query of a view has the settings of the view's creation.

In a classic session, Spark resolves the query with the view's settings. Through Connect, the session must have the same
settings.

Source: Spark's `ViewHelper.sqlConfigsToProps`, `View.effectiveSQLConf`, `SessionCatalog.fromCatalogTable`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession

from slackwater.errors import UnsupportedFeature
from slackwater.spark.catalog.frames import new_view_name, session_views, sql_over
from slackwater.spark.catalog.session_catalog import java_catalog, plain_sql
from slackwater.spark.session.classic_connect import all_settings, is_connect
from slackwater.spark.session.frames import frame_of_later_plan
from slackwater.spark.session.jvm_objects import copied, java_class, scala_object, scala_texts
from slackwater.spark.session.settings import CASE_SENSITIVE, SESSION_ZONE, STANDARD_SQL, session_zone

_STORED, _SCHEMA_MODE, _REFERRED = "view.sqlConfig.", "view.schemaMode", "view.referredTempViewNames"
# Views created with delta-spark stored the class of its catalog.
_CATALOGS = f"{_STORED}spark.sql.catalog."
_MEANINGS = tuple(f"spark.sql.{name}" for name in ("ansi.", "caseSensitive", "legacy.", "parser.", "session."))
# A view stores no setting with Spark's default.
_DEFAULTS = {CASE_SENSITIVE: "false", **STANDARD_SQL, "spark.sql.ansi.enabled": "true"}


class Rewritten(Protocol):
    """A statement with frames for its Delta tables, by the names of views in its text."""

    text: str
    views: dict[str, DataFrame]


@dataclass(frozen=True)
class ViewSettings:
    """The settings of a view by name. `metadata`: Spark's object for such a view, in a classic session."""

    values: Mapping[str, str]
    metadata: Any = None

    @staticmethod
    def of_session(spark: SparkSession) -> ViewSettings:
        """Return the settings of a temporary view created now."""
        if is_connect(spark):
            found = spark.client.get_config_dict(SESSION_ZONE, *_DEFAULTS)
            return ViewSettings({key: value for key, value in found.items() if value is not None})
        catalog, name = java_catalog(spark), new_view_name()
        plain_sql(spark, f"CREATE TEMPORARY VIEW {name} AS SELECT 1")
        try:
            metadata = catalog.getRawTempView(name).get().tableMeta()
        finally:
            catalog.dropTempView(name)
        # Without a database and names of temporary views, names in the text are those of a query.
        properties = _without(metadata.properties(), lambda key: not key.startswith(_STORED))
        return ViewSettings.of_catalog(copied(metadata, properties=properties.updated(_SCHEMA_MODE, "EVOLUTION")))

    @staticmethod
    def of_catalog(metadata: Any) -> ViewSettings:
        """Return the settings in Spark's object for a view, in a classic session."""
        return ViewSettings(scala_texts(metadata.viewSQLConfigs()), metadata)

    @staticmethod
    def of_description(described: Mapping[str, Any]) -> ViewSettings:
        """Return the settings in the fields of `DESCRIBE TABLE EXTENDED … AS JSON`, through Connect."""
        stored: Mapping[str, str] = described.get("view_creation_spark_configuration") or {}
        return ViewSettings(_DEFAULTS | {key: value for key, value in stored.items() if key.startswith(_MEANINGS)})

    def read_conditions_as(self, spark: SparkSession) -> bool:
        """Return whether a condition in the view's text has the same meaning in the session."""
        if self.values.get(SESSION_ZONE, session_zone(spark)) != session_zone(spark):
            return False
        now = all_settings(spark)
        return all(
            now.get(key, default).lower() == self.values.get(key, default).lower()
            for key, default in {CASE_SENSITIVE: "false", **STANDARD_SQL}.items()
        )

    def rows(
        self, spark: SparkSession, shown: str, statement: Rewritten, items: Sequence[str] | None = None
    ) -> DataFrame:
        """Return the rows of `statement`, the query of the view `shown`, resolved with these settings.

        `items`: SQL text of the columns over the query's columns, None for the query's columns. Through Connect, the
        session's settings are compared now and by each query. Raises UnsupportedFeature if the settings differ.
        """
        if not is_connect(spark):
            return self._by_catalog(spark, statement, items or ["*"])
        frame = self._by_sql(spark, shown, statement)
        return frame.selectExpr(*items) if items else frame

    def _by_catalog(self, spark: SparkSession, statement: Rewritten, items: Sequence[str]) -> DataFrame:
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

    def _by_sql(self, spark: SparkSession, shown: str, statement: Rewritten) -> DataFrame:
        def require(client: Any) -> None:
            now = client.get_config_dict(*self.values)
            for key, value in self.values.items():
                if str(now.get(key)).lower() != value.lower():
                    raise UnsupportedFeature(
                        f"{shown}: the view was created with {key}={value}, but this session has {now.get(key)}. Set "
                        f"{key} to {value} or create the view again: through Spark Connect, a view over Delta tables "
                        "needs the settings of its creation"
                    )

        require(spark.client)
        frame = sql_over(spark, statement.text, statement.views)
        return frame_of_later_plan(spark, None, lambda _: frame, require)


def _without(properties: Any, is_left_out: Callable[[str], bool]) -> Any:
    """Return a Scala map of properties without some keys."""
    for key in filter(is_left_out, scala_texts(properties)):
        properties = properties.removed(key)
    return properties
