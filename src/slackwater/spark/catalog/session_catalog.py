"""Lookup of names in Spark's own catalog of a session."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.session.enabled_sessions import cached_in_statement
from slackwater.spark.session.jvm_objects import java_class, static_member
from slackwater.spark.session.settings import is_case_sensitive
from slackwater.spark.session.spark_errors import condition_of
from slackwater.sql.lexer import quoted
from slackwater.sql.parameters import text_literal

SPARK_CATALOG = "spark_catalog"
_LINE = re.compile(r"(?m)^(Provider|Location|Type): ?(.*)$")
_MISSING = ("SCHEMA_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND", "NO_SUCH_DATABASE")
GLOBAL_TEMP = "global_temp"
_CATALOG, _PUBLIC, _IDENTIFIERS = "_slackwater_catalog", "_slackwater_public_catalog", "_slackwater_identifiers"
_MOST_IDENTIFIERS = 256
# A separator that no table comment contains.
_BETWEEN = uuid.uuid4().hex


@dataclass(frozen=True)
class CatalogEntry:
    """A table or view of the catalog. `parts` are database and table.

    Views have no provider. `is_view` is True only for persisted views.
    """

    parts: tuple[str, str]
    provider: str | None
    location: str | None
    is_managed: bool
    is_temporary: bool = False
    is_view: bool = False

    @property
    def is_delta(self) -> bool:
        """True for a table of format `delta`."""
        return self.provider is not None and self.provider.lower() == "delta"

    @property
    def text(self) -> str:
        """The full name in SQL, independent of the current catalog and database."""
        return ".".join(quoted(part) for part in (SPARK_CATALOG, *self.parts))


def plain_sql(spark: SparkSession, text: str, args: Any = None) -> DataFrame:
    """Return the result of Spark's own `spark.sql(text, args)`."""
    method: Any = type(spark).sql
    frame: DataFrame = getattr(method, "__wrapped__", method)(spark, text, args)
    return frame


def entry_of(spark: SparkSession, parts: Sequence[str]) -> CatalogEntry | None:
    """Return the entry of the name in Spark's session catalog. None if missing, or for another catalog."""
    given = list(parts)
    if len(given) > 1 and given[0].lower() == SPARK_CATALOG:
        given = given[1:]
    elif not _is_current_catalog(spark):
        return None
    if len(given) > 2 or (len(given) == 2 and given[0].lower() == GLOBAL_TEMP):
        return None
    find = _by_statement if is_connect(spark) else _by_catalog
    return cached_in_statement(spark, "\0".join(["entry", *given]), lambda: find(spark, given))


def catalog_metadata(spark: SparkSession, parts: tuple[str, str]) -> Any:
    """Return Spark's object for a table or view of the catalog, in a classic session."""
    return java_catalog(spark).getTableMetadata(_identifier(spark, parts))


def current_database(spark: SparkSession) -> str:
    """Return the current database of the session's catalog."""
    if is_connect(spark):
        return str(spark.catalog.currentDatabase())
    return str(java_catalog(spark).getCurrentDatabase())


def java_catalog(spark: SparkSession) -> Any:
    """Return Spark's catalog object of a classic session, cached per session."""
    return _kept(spark, _CATALOG, lambda: spark._jsparkSession.sessionState().catalog())


def _kept(spark: SparkSession, key: str, make: Callable[[], Any]) -> Any:
    found = spark.__dict__.get(key)
    if found is None:
        found = spark.__dict__[key] = make()
    return found


def _is_current_catalog(spark: SparkSession) -> bool:
    if is_connect(spark):
        return True
    public = _kept(spark, _PUBLIC, spark._jsparkSession.catalog)
    return cached_in_statement(spark, _PUBLIC, lambda: str(public.currentCatalog())) == SPARK_CATALOG


def _by_catalog(spark: SparkSession, parts: Sequence[str]) -> CatalogEntry | None:
    try:
        found = java_catalog(spark).getTempViewOrPermanentTableMetadata(_identifier(spark, tuple(parts)))
    except AnalysisException as error:
        if condition_of(error) in _MISSING:
            return None
        raise
    # Read all metadata in one text, because each property would cost a round trip to the JVM.
    pairs = str(found.toLinkedHashMap().mkString(_BETWEEN)).split(_BETWEEN)
    said = dict(pair.split(" -> ", 1) for pair in pairs)
    if "Database" not in said:
        return CatalogEntry(("", parts[-1]), None, None, is_managed=False, is_temporary=True)
    kind = said.get("Type", "")
    return CatalogEntry(
        (said["Database"], said["Table"]),
        said.get("Provider") if kind != "VIEW" else None,
        _local(said.get("Location")),
        is_managed=kind == "MANAGED",
        is_view=kind == "VIEW",
    )


def _identifier(spark: SparkSession, parts: tuple[str, ...]) -> Any:
    """Return Spark's object for a name of one or two parts, from a cache of recent names."""
    known: dict[tuple[str, ...], Any] = _kept(spark, _IDENTIFIERS, dict)
    found = known.pop(parts, None)
    if found is None:
        database = static_member(spark, "scala.Option", "apply")(parts[0] if len(parts) == 2 else None)
        found = java_class(spark, "org.apache.spark.sql.catalyst.TableIdentifier")(parts[-1], database)
    known[parts] = found
    while len(known) > _MOST_IDENTIFIERS:
        known.pop(next(iter(known)), None)
    return found


def _by_statement(spark: SparkSession, parts: Sequence[str]) -> CatalogEntry | None:
    database = f" IN {quoted(parts[0])}" if len(parts) == 2 else ""
    pattern = text_literal(parts[-1].replace("*", "?").replace("|", "?"))
    try:
        rows = plain_sql(spark, f"SHOW TABLE EXTENDED{database} LIKE {pattern}").collect()
    except PySparkException as error:
        if condition_of(error) in _MISSING or isinstance(error, AnalysisException):
            return None
        raise
    # Spark lists temporary views with every database, but their names have only one part.
    rows = [row for row in rows if len(parts) == 1 or not row.isTemporary]
    # The pattern is case-insensitive.
    same = [row for row in rows if row.tableName == parts[-1]]
    if not same and not is_case_sensitive(spark):
        same = [row for row in rows if row.tableName.lower() == parts[-1].lower()]
    if not same:
        return None
    row = max(same, key=lambda each: bool(each.isTemporary))
    if row.isTemporary:
        return CatalogEntry(("", row.tableName), None, None, is_managed=False, is_temporary=True)
    said: dict[str, str] = {}
    for key, value in _LINE.findall(row.information):
        said.setdefault(key, value)
    kind = said.get("Type", "")
    return CatalogEntry(
        (row.namespace, row.tableName),
        said.get("Provider") if kind != "VIEW" else None,
        _local(said.get("Location")),
        is_managed=kind == "MANAGED",
        is_view=kind == "VIEW",
    )


def _local(location: str | None) -> str | None:
    """Return the path of a `file:` URL on this machine. Other URLs stay unchanged."""
    if location is None or not location.startswith("file:"):
        return location
    path = location.removeprefix("file:")
    return "/" + path.lstrip("/")
