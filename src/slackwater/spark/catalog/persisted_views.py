"""Views of the session's catalog over Delta tables. Spark stores the user's text, and each statement expands it.

Every session and every engine with this catalog reads the same view. The view reads its tables at the newest version.

Source: Spark's `CreateViewCommand`, `ViewHelper.generateViewProperties`, `SessionCatalog.fromCatalogTable`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from slackwater.errors import InvalidArgument, UnsupportedFeature
from slackwater.protocol.schema.char_varchar import TEXT_TYPE
from slackwater.spark.catalog.frames import StatementOnViews
from slackwater.spark.catalog.resolve import lake_name_of, parts_of, path_in_parts
from slackwater.spark.catalog.session_catalog import (
    SPARK_CATALOG,
    CatalogEntry,
    catalog_metadata,
    current_database,
    entry_of,
    java_catalog,
    plain_sql,
)
from slackwater.spark.catalog.view_settings import ViewSettings
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.session.jvm_objects import copied, java_class
from slackwater.spark.session.settings import is_case_sensitive
from slackwater.sql.lexer import quoted, tokens_of
from slackwater.sql.parameters import text_literal
from slackwater.sql.relations import relations_of, table_names_of
from slackwater.sql.text_edits import TextEdit, apply_edits

_COMPENSATION, _BINDING, _EVOLUTION = "COMPENSATION", "BINDING", "EVOLUTION"
_UNFINISHED = "the view was not created completely. Create it again, or ALTER VIEW … AS its query"


@dataclass(frozen=True)
class StoredView:
    """A view of the catalog. `query` is its text, with names that have the same meaning in every database.

    `described`: the fields of `DESCRIBE TABLE EXTENDED … AS JSON`, through Connect. `metadata`: Spark's object, in a
    classic session.
    """

    entry: CatalogEntry
    query: str
    settings: ViewSettings
    described: Mapping[str, Any]
    metadata: Any = None

    @cached_property
    def items(self) -> dict[str, str]:
        """The view's columns by name, as SQL text over the query's columns. Empty if these have duplicate names."""
        columns = _columns_in_connect(self.described) if self.metadata is None else _columns_in_classic(self.metadata)
        if len({source.lower() for _, source, _ in columns}) < len(columns):
            return {}
        return {name: f"CAST({quoted(source)} AS {_collated(kind)})" for name, source, kind in columns}


def stored_view(spark: SparkSession, parts: Sequence[str]) -> StoredView | None:
    """Return the view of that name in the session's catalog, None for any other name."""
    entry = entry_of(spark, parts)
    if entry is None or not entry.is_view:
        return None
    described: Mapping[str, Any] = {}
    metadata = None
    if is_connect(spark):
        described = _described(spark, entry)
        text, namespace = described.get("view_text"), parts_of(described.get("view_catalog_and_namespace") or "none")
        settings = ViewSettings.of_description(described)
    else:
        metadata = catalog_metadata(spark, entry.parts)
        text = metadata.viewText().getOrElse(None) if metadata.viewText().isDefined() else None
        namespace = tuple(_texts(metadata.viewCatalogAndNamespace()))
        settings = ViewSettings.of_catalog(metadata)
    if not text or len(namespace) != 2 or namespace[0] != SPARK_CATALOG:
        return None
    # Spark stores names in lower case, unless the session of the creation was case-sensitive.
    folds = not settings.is_case_sensitive and is_case_sensitive(spark)
    query = _with_whole_names(str(text), namespace, folds, settings.is_case_sensitive)
    return StoredView(entry, query, settings, described, metadata)


def expanded(spark: SparkSession, view: StoredView, statement: StatementOnViews) -> DataFrame:
    """Return the rows of `view`. `statement` is the view's rewritten query.

    Raises UnsupportedFeature through Spark Connect for a view created under other SQL settings, and for a view with a
    default collation.
    """
    collation = view.described.get("collation", "UTF8_BINARY")
    if collation != "UTF8_BINARY":
        raise UnsupportedFeature(
            f"{view.entry.text}: through Spark Connect, a view over Delta tables cannot have the default collation "
            f"{collation}. Name the collation in the view's query instead, or read the view in a classic session"
        )
    frame = view.settings.rows(spark, view.entry.text, statement)
    if not is_connect(spark):
        return frame
    mode = str(view.described.get("view_schema_mode") or _COMPENSATION).upper()
    if mode == _EVOLUTION:
        return frame
    fields = _fields(view.described)
    if len({name.lower() for name, _ in fields}) < len(fields):
        # The query's columns have duplicate names.
        fields = [(f"_{at}", field) for at, (_, field) in enumerate(fields)]
        frame = frame.toDF(*(name for name, _ in fields))
    return frame.select(*(_column(name, field, mode) for name, field in fields))


def _described(spark: SparkSession, entry: CatalogEntry) -> Mapping[str, Any]:
    """Return the fields of `DESCRIBE TABLE EXTENDED … AS JSON`. Columns of type CHAR and VARCHAR have TEXT_TYPE."""
    described: dict[str, Any] = json.loads(
        plain_sql(spark, f"DESCRIBE TABLE EXTENDED {entry.text} AS JSON").collect()[0][0]
    )
    if any(field["type"]["name"] == "string" for field in described.get("columns", ())):
        # In JSON, these types are STRING.
        rows = plain_sql(spark, f"DESCRIBE TABLE {entry.text}").collect()
        for field, row in zip(described["columns"], rows, strict=False):
            if row.data_type.startswith(("char(", "varchar(")):
                field[TEXT_TYPE] = row.data_type
    return described


def _fields(described: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the fields of the view's columns in a description, each with the name of the query's column."""
    fields = described["columns"]
    names = described.get("view_query_output_columns") or [field["name"] for field in fields]
    return list(zip(names, fields, strict=True))


def _columns_in_connect(described: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the view's columns: the name, the name in the query, and the type."""
    return [(field["name"], name, _type_text(field["type"])) for name, field in _fields(described)]


def _columns_in_classic(metadata: Any) -> list[tuple[str, str, str]]:
    """Return the view's columns: the name, the name in the query, and the type."""
    fields = StructType.fromJson(json.loads(metadata.schema().json())).fields
    names = _texts(metadata.viewQueryColumnNames()) or [each.name for each in fields]
    return [(f.name, name, f.dataType.simpleString()) for name, f in zip(names, fields, strict=True)]


def _column(name: str, field: Mapping[str, Any], mode: str) -> Column:
    """Return the column `name` of the query as the column `field` of the view."""
    found = F.col(quoted(name))
    typed = found.cast(_type_text(field["type"])) if mode in (_COMPENSATION, _BINDING) else found
    metadata = {"comment": field["comment"]} if field.get("comment") else {}
    if TEXT_TYPE in field:
        # Spark compares columns of type CHAR with padding.
        metadata[TEXT_TYPE] = field[TEXT_TYPE]
    return typed.alias(field["name"], metadata=metadata) if metadata else typed.alias(field["name"])


def _type_text(kind: Mapping[str, Any]) -> str:
    """Return the SQL text of a type of `DESCRIBE … AS JSON`."""
    name = str(kind["name"])
    if name == "struct":
        fields = ", ".join(f"{quoted(field['name'])}: {_type_text(field['type'])}" for field in kind["fields"])
        return f"struct<{fields}>"
    if name == "array":
        return f"array<{_type_text(kind['element_type'])}>"
    if name == "map":
        return f"map<{_type_text(kind['key_type'])}, {_type_text(kind['value_type'])}>"
    if name == "decimal":
        return f"decimal({kind['precision']}, {kind['scale']})"
    if name == "interval":
        units = dict.fromkeys(kind[unit] for unit in ("start_unit", "end_unit") if unit in kind)
        return " ".join(["interval", " to ".join(units)]).strip()
    if name == "string" and kind.get("collation"):
        return f"string collate {kind['collation']}"
    return "string" if name in ("char", "varchar") else name


def _collated(kind: str) -> str:
    # The type STRING has another collation in the query of a view with a default collation.
    return "string collate utf8_binary" if kind == "string" else kind


def create(spark: SparkSession, text: str, name: Sequence[str], query: str, start: int, frame: DataFrame) -> None:
    """Run `text`, a CREATE VIEW or ALTER VIEW with its `query` at position `start`. `frame` holds the query's rows.

    Raises InvalidArgument if the view reads itself or a temporary view. Raises UnsupportedFeature if the view reads a
    lake's table by name and, through Spark Connect, if the query reads an object unknown to the catalog. Raises as
    Spark does.
    """
    _require_lasting(spark, name, query)
    if _catalog_knows(spark, query, frame):
        plain_sql(spark, text)
        return
    if is_connect(spark):
        raise UnsupportedFeature(
            f"{'.'.join(name)}: through Spark Connect, a view can use only tables of the catalog at their newest "
            "version, with the columns known to the catalog. Create this view in a classic session, or create a "
            "temporary view"
        )
    # Spark cannot read a table by its path or version, so create the view of a stand-in query, then replace its text.
    columns = [frame._jdf.schema().apply(at) for at in range(len(frame.columns))]
    failing = f"raise_error({text_literal('.'.join(name) + ': ' + _UNFINISHED)})"
    stand_in = ", ".join(f"CAST({failing} AS {each.dataType().sql()}) AS {quoted(each.name())}" for each in columns)
    plain_sql(spark, f"{text[:start]}SELECT {stand_in}")
    # A temporary view can have the same name, without a database.
    entry = entry_of(spark, name if len(name) > 1 else (current_database(spark), *name))
    assert entry is not None  # noqa: S101  (it was created)
    metadata = catalog_metadata(spark, entry.parts)
    if _UNFINISHED in str(metadata.viewText()):
        stored = _some(spark, query)
        java_catalog(spark).alterTable(copied(metadata, viewText=stored, viewOriginalText=stored))


def _catalog_knows(spark: SparkSession, query: str, frame: DataFrame) -> bool:
    """Return whether Spark resolves the query with the catalog alone, to the same columns."""
    try:
        plain = plain_sql(spark, query).schema
    except PySparkException:
        return False
    found, wanted = ([(f.name, f.dataType.simpleString()) for f in schema] for schema in (plain, frame.schema))
    return found == wanted


def _require_lasting(spark: SparkSession, name: Sequence[str], query: str) -> None:
    """Check that the query uses only objects available in every session, and not the view `name` itself."""
    own = _whole(spark, name)
    for relation in relations_of(query, tokens_of(query) or [], case_counts=is_case_sensitive(spark)):
        if relation.arguments is not None or path_in_parts(relation.parts) is not None:
            continue
        shown = ".".join(relation.parts)
        in_lake = lake_name_of(spark, relation.parts)
        if in_lake is not None and (in_lake.is_certain or in_lake.is_there):
            raise UnsupportedFeature(
                f"{'.'.join(name)}: other sessions do not have the lake of {shown} under this name. Name its table by "
                "its path in the view, or create a temporary view"
            )
        entry = entry_of(spark, relation.parts)
        if entry is not None and entry.is_temporary:
            raise InvalidArgument(
                f"{'.'.join(name)}: the temporary view {shown} ends with this session. Create a temporary view, or "
                f"create {shown} as a view of the catalog",
                error_class="INVALID_TEMP_OBJ_REFERENCE",
            )
        if entry is not None and own == _whole(spark, relation.parts):
            raise InvalidArgument(f"{'.'.join(name)}: the view reads itself. Name another view or table")
        view = stored_view(spark, relation.parts)
        if view is not None:
            _require_lasting(spark, name, view.query)


def _whole(spark: SparkSession, parts: Sequence[str]) -> tuple[str, ...] | None:
    entry = entry_of(spark, parts)
    return None if entry is None else tuple(part.lower() for part in entry.parts)


def _with_whole_names(query: str, namespace: Sequence[str], folds: bool, case_counts: bool) -> str:
    """Return the query with full names for all its relations, because views do not use the current database.

    With `folds`, the names are in lower case. Names of common tables are case-sensitive if `case_counts`.
    """
    changes = []
    for name in table_names_of(query, case_counts=case_counts):
        if path_in_parts(name.parts) is not None or len(name.parts) > 2:
            continue
        own = [part.lower() if folds else part for part in name.parts]
        whole = ".".join(map(quoted, [*namespace[: 3 - len(own)], *own]))
        changes.append(TextEdit(name.start, name.end, whole))
    return apply_edits(query, changes)


def _texts(found: Any) -> list[str]:
    """Return a Scala sequence of texts, in one call into the JVM. No text is empty or holds a NUL."""
    return [text for text in str(found.mkString("\0")).split("\0") if text]


def _some(spark: SparkSession, value: str) -> Any:
    return java_class(spark, "scala.Some")(value)
