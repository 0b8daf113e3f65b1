"""`spark.catalog` for Delta tables. The methods read the logs of tables and write commits.

Source: PySpark's Catalog. For other names, every method is Spark's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.catalog import Column, Table

from slackwater.errors import UnsupportedFeature
from slackwater.protocol.features import clustering
from slackwater.spark.by_name.named_tables import table_exists
from slackwater.spark.catalog.resolve import known_parts
from slackwater.spark.catalog.session_catalog import SPARK_CATALOG
from slackwater.spark.catalog.session_lakes import SessionNames
from slackwater.spark.session.enabled_sessions import is_delta_by_default, is_enabled_for
from slackwater.spark.session.io_requests import wrap_each
from slackwater.spark.session.types import to_spark_type
from slackwater.spark.sql.query import names_delta_tables
from slackwater.spark.sql.views import is_temporary_view
from slackwater.spark.table.named import NamedTable, named_table
from slackwater.sql.lexer import quoted
from slackwater.sql.parameters import text_literal

_NOTHING_TO_DO = ("refreshTable",)
_REFUSED = {
    "cacheTable": "A table can get newer versions. Cache a DataFrame: spark.table(name).cache()",
    "analyzeTable": "The log already contains the statistics of the files",
    "recoverPartitions": "The log already names the files of all partitions",
}
# Spark has the others for tables only.
_OF_VIEWS = ("cacheTable",)


def extend_catalog(catalog: type) -> None:
    """Extend the methods of a session's catalog to Delta tables. A repeated call has no effect."""
    handlers: dict[str, Callable[..., Any]] = {
        "tableExists": _table_exists,
        "getTable": _get_table,
        "listColumns": _list_columns,
        "getTableProperties": _get_table_properties,
        "isCached": _is_cached,
        "truncateTable": _truncate_table,
        "dropTable": _drop_table,
        "createTable": _create_table,
        "setCurrentCatalog": _set_current,
        "setCurrentDatabase": _set_current,
        **dict.fromkeys(_NOTHING_TO_DO, _nothing),
        **{name: _refusing(name, reason) for name, reason in _REFUSED.items()},
    }
    wrap_each(catalog, handlers)


def _named(catalog: Any, name: Any, database: Any = None) -> NamedTable | None:
    """Return the Delta table of a name in the session of `catalog`, None for other names."""
    spark = catalog.__dict__.get("_sparkSession")
    if spark is None or not isinstance(name, str) or not is_enabled_for(spark):
        return None
    parts = known_parts(name if database is None else f"{quoted(database)}.{name}")
    return named_table(spark, parts) if parts else None


def _table_exists(original: Any, self: Any, tableName: Any, dbName: Any = None) -> bool:  # noqa: N803  (PySpark's)
    spark = self.__dict__.get("_sparkSession")
    found = None
    if isinstance(tableName, str) and dbName is None and spark is not None and is_enabled_for(spark):
        found = table_exists(spark, tableName)
    return bool(original(tableName, dbName)) if found is None else found


def _get_table(original: Any, self: Any, tableName: Any) -> Table:  # noqa: N803  (the name PySpark has)
    named = _named(self, tableName)
    if named is None:
        found: Table = original(tableName)
        return found
    metadata = named.table._snapshot().metadata
    entry, in_lake = named.place.entry, named.place.in_lake
    if entry is not None:
        kind = "MANAGED" if entry.is_managed else "EXTERNAL"
        return Table(entry.parts[1], SPARK_CATALOG, [entry.parts[0]], metadata.description, kind, isTemporary=False)
    if in_lake is not None:
        *namespace, last = in_lake.name.split(".")
        return Table(last, in_lake.attached, namespace, metadata.description, "MANAGED", isTemporary=False)
    return Table(named.place.location, None, ["delta"], metadata.description, "EXTERNAL", isTemporary=False)


def _list_columns(original: Any, self: Any, tableName: Any, dbName: Any = None) -> list[Column]:  # noqa: N803
    named = _named(self, tableName, dbName)
    if named is None:
        found: list[Column] = original(tableName) if dbName is None else original(tableName, dbName)
        return found
    snapshot = named.table._snapshot()
    domain = snapshot.domain_metadata.get(clustering.DOMAIN)
    clustered = {path[0] for path in clustering.physical_columns(domain, snapshot.table.root_url) if len(path) == 1}
    return [
        Column(
            field.name,
            field.metadata.get("comment"),
            to_spark_type(field.type).simpleString(),
            field.nullable,
            isPartition=field.name in snapshot.metadata.partition_columns,
            isBucket=False,
            isCluster=snapshot.physical_paths.get((field.name,), (field.name,))[0] in clustered,
        )
        for field in snapshot.schema
    ]


def _get_table_properties(original: Any, self: Any, tableName: Any) -> dict[str, str]:  # noqa: N803
    named = _named(self, tableName)
    return dict(original(tableName) if named is None else named.table._snapshot().metadata.configuration)


def _is_cached(original: Any, self: Any, tableName: Any) -> bool:  # noqa: N803  (the name PySpark has)
    return bool(original(tableName)) if _named(self, tableName) is None else False


def _truncate_table(original: Any, self: Any, tableName: Any) -> None:  # noqa: N803  (the name PySpark has)
    """Delete all rows in one commit. Spark's own method would delete files."""
    named = _named(self, tableName)
    if named is None:
        original(tableName)
    else:
        named.table._delete(None)


def _drop_table(original: Any, self: Any, tableName: Any, ifExists: bool = False, purge: bool = False) -> None:  # noqa: N803
    named = _named(self, tableName)
    if named is None or named.place.entry is not None:
        original(tableName, ifExists, purge)
    else:
        # The statement drops the table, or raises.
        self._sparkSession.sql(f"DROP TABLE {'.'.join(map(quoted, named.place.parts))}")


def _create_table(
    original: Any,
    self: Any,
    tableName: Any,  # noqa: N803  (the name PySpark has)
    path: str | None = None,
    source: str | None = None,
    schema: Any = None,
    description: str | None = None,
    **options: str,
) -> Any:
    spark: SparkSession | None = self.__dict__.get("_sparkSession")
    is_delta = source.lower() == "delta" if source is not None else spark is not None and is_delta_by_default(spark)
    if spark is None or not is_delta or not is_enabled_for(spark):
        return original(tableName, path, source, schema, description, **options)
    columns = "" if schema is None else f" ({_ddl(schema)})"
    place = "" if path is None else f" LOCATION {text_literal(path)}"
    said = "" if description is None else f" COMMENT {text_literal(description)}"
    given = ", ".join(f"{text_literal(key)} = {text_literal(str(value))}" for key, value in options.items())
    spark.sql(f"CREATE TABLE {tableName}{columns} USING delta{place}{said}{f' OPTIONS ({given})' if given else ''}")
    return spark.table(tableName)


def _set_current(original: Any, self: Any, name: Any) -> None:
    """Choose a lake or a catalog of Spark. Another catalog or database replaces the lake chosen by `USE`."""
    spark = self.__dict__.get("_sparkSession")
    names = SessionNames.of(spark) if spark is not None and is_enabled_for(spark) else None
    if names is not None and isinstance(name, str) and names.lake(name) is not None:
        names.choose(name.lower())
        return
    original(name)
    if names is not None:
        names.choose(None)


def _nothing(original: Any, self: Any, tableName: Any) -> None:  # noqa: N803  (the name PySpark has)
    """Do nothing for Delta tables, because nothing cached becomes stale by a commit."""
    if _named(self, tableName) is None:
        original(tableName)


def _is_view_of_delta(catalog: Any, name: Any) -> bool:
    """Return whether a name is that of a view in Spark's catalog with a Delta table."""
    spark = catalog.__dict__.get("_sparkSession")
    if spark is None or not isinstance(name, str) or not is_enabled_for(spark):
        return False
    parts = known_parts(name)
    return bool(parts) and not is_temporary_view(spark, parts) and names_delta_tables(spark, f"TABLE {name}")


def _refusing(method: str, reason: str) -> Callable[..., Any]:
    def refuse(original: Any, self: Any, tableName: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N803
        named = _named(self, tableName)
        if named is not None or (method in _OF_VIEWS and _is_view_of_delta(self, tableName)):
            shown = tableName if named is None else named.place.shown
            raise UnsupportedFeature(
                f"catalog.{method}({shown!r}) does not support Delta tables and views of them. {reason}"
            )
        return original(tableName, *args, **kwargs)

    return refuse


def _ddl(schema: Any) -> str:
    return ", ".join(
        f"{quoted(field.name)} {field.dataType.simpleString()}{'' if field.nullable else ' NOT NULL'}"
        + (f" COMMENT {text_literal(field.metadata['comment'])}" if "comment" in field.metadata else "")
        for field in schema.fields
    )
