"""SHOW COLUMNS, TBLPROPERTIES, CREATE TABLE and PARTITIONS of Delta tables, and SHOW TABLES of a lake."""

from __future__ import annotations

import re

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as spark_types

from slackwater.errors import InvalidArgument
from slackwater.protocol.actions.partition_values import parse_partition_column
from slackwater.protocol.features.column_mapping import physical_name
from slackwater.protocol.features.managed_commits import FEATURES, kept_properties
from slackwater.protocol.properties.properties import ENABLE_IN_COMMIT_TIMESTAMPS
from slackwater.protocol.schema.column_paths import format_column_path
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.catalog.namespaces import namespaces_of, tables_of
from slackwater.spark.catalog.session_lakes import AttachedLake, SessionNames
from slackwater.spark.session.local_frame import local_frame
from slackwater.spark.session.settings import session_zone
from slackwater.spark.session.types import to_spark_type
from slackwater.spark.sql.changes import partition_values
from slackwater.spark.sql.describe import catalog_name, shown_properties
from slackwater.spark.sql.statement import Statement, pairs, texts
from slackwater.spark.table.builder import CREATE, DeltaTableBuilder
from slackwater.spark.table.named import NamedTable, named_table
from slackwater.spark.table.table import DeltaTable
from slackwater.sql.definitions import property_key
from slackwater.sql.lexer import SqlName, TokenCursor, name_at, quoted
from slackwater.sql.show_create import TableText, creation_text
from slackwater.transaction.table.alteration import clustering_columns

_NAMESPACES = spark_types.StructType().add("namespace", "string", False)
_TABLES = (
    spark_types.StructType()
    .add("namespace", "string", False)
    .add("tableName", "string", False)
    .add("isTemporary", "boolean", False)
)


def columns(statement: Statement) -> DataFrame | None:
    """Run `SHOW COLUMNS IN t [IN database]`: `col_name`."""
    cursor = statement.cursor()
    if not cursor.accept("SHOW", "COLUMNS") or cursor.accept_any("IN", "FROM") is None:
        return None
    name = name_at(cursor.tokens, cursor.at)
    if name is None:
        return None
    cursor.at, parts = name.next, name.parts
    if cursor.accept_any("IN", "FROM"):
        database = name_at(cursor.tokens, cursor.at)
        if database is None:
            return None
        cursor.at, parts = database.next, (*database.parts, parts[-1])
    named = named_table(statement.spark, parts)
    if named is None:
        return None
    cursor.done()
    return texts(statement.spark, ("col_name",), [(name,) for name in named.table._snapshot().schema.names])


def properties(statement: Statement) -> DataFrame | None:
    """Run `SHOW TBLPROPERTIES t [('key')]`: `key`, `value`, including versions and features of the protocol."""
    found = _shown(statement, "TBLPROPERTIES")
    if found is None:
        return None
    named, cursor = found
    known = shown_properties(named.table._snapshot())
    if not cursor.peek("("):
        cursor.done()
        return pairs(statement.spark, known)
    inner = cursor.inner()
    key = property_key(inner)
    inner.done()
    missing = f"Table {catalog_name(named) or named.place.shown} does not have property: {key}"
    return pairs(statement.spark, {key: known.get(key, missing)})


def creation(statement: Statement) -> DataFrame | None:
    """Run `SHOW CREATE TABLE t`: `createtab_stmt`, a statement for a table with the same columns and properties."""
    found = _shown(statement, "CREATE", "TABLE")
    if found is None:
        return None
    named, cursor = found
    cursor.done()
    text = creation_text(_definition(statement, named))
    return texts(statement.spark, ("createtab_stmt",), [(text,)])


def partitions(statement: Statement) -> DataFrame | None:
    """Run `SHOW PARTITIONS t [PARTITION (c = v, …)]`: the partitions with files, a column per partition column."""
    found = _shown(statement, "PARTITIONS")
    if found is None:
        return None
    named, cursor = found
    snapshot = named.table._snapshot()
    names = snapshot.metadata.partition_columns
    if not names:
        raise InvalidArgument(
            f"{named.place.shown} is not partitioned. SHOW PARTITIONS needs a partitioned table",
            error_class="DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_TABLE",
        )
    spec = cursor.group() if cursor.accept("PARTITION") else None
    cursor.done()
    frame = _partitions(statement, snapshot)
    for name, value in partition_values(spec, names).items():
        frame = frame if value is None else frame.where(f"{quoted(name)} <=> ({value})")
    return frame


def _partitions(statement: Statement, snapshot: Snapshot) -> DataFrame:
    mode, zone = snapshot.column_mapping_mode, session_zone(statement.spark)
    split_by = [column for name in snapshot.metadata.partition_columns if (column := snapshot.schema.get(name))]
    keys = [physical_name(column, mode) for column in split_by]
    files = snapshot.live_files(["partitionValues"])["partitionValues"].to_pylist()
    found = sorted({tuple(dict(values).get(key) for key in keys) for values in files}, key=str)
    parsed = [
        parse_partition_column(pa.array([values[at] for values in found], pa.string()), column.type, zone).to_pylist()
        for at, column in enumerate(split_by)
    ]
    schema = spark_types.StructType([spark_types.StructField(c.name, to_spark_type(c.type)) for c in split_by])
    return local_frame(statement.spark, list(zip(*parsed, strict=True)), schema)


def _shown(statement: Statement, *words: str) -> tuple[NamedTable, TokenCursor] | None:
    """Return the Delta table after `SHOW words`, and a cursor after its name. None for other statements and tables."""
    statement = statement.with_values()
    cursor = statement.cursor()
    if not cursor.accept("SHOW", *words):
        return None
    name = name_at(cursor.tokens, cursor.at)
    named = None if name is None else named_table(statement.spark, name.parts)
    if name is None or named is None:
        return None
    cursor.at = name.next
    return named, cursor


def _definition(statement: Statement, named: NamedTable) -> TableText:
    snapshot = named.table._snapshot()
    in_lake = named.place.in_lake
    shown = (in_lake.attached, *in_lake.name.split(".")) if in_lake is not None else named.place.parts
    if named.place.entry is not None:
        shown = ("spark_catalog", *named.place.entry.parts)
    # An external table's location is the one stored in the catalog.
    location = None if named.place.entry is None or named.place.entry.is_managed else named.place.location
    return TableText(
        ".".join(map(quoted, shown)),
        snapshot.schema,
        snapshot.metadata.partition_columns,
        [format_column_path(path) for path in clustering_columns(snapshot)],
        snapshot.metadata.description,
        location,
        _own_properties(statement, snapshot),
    )


def _own_properties(statement: Statement, snapshot: Snapshot) -> dict[str, str]:
    """Return the properties for a copy of this table, without generated properties and properties set by a lake."""
    builder = DeltaTableBuilder(statement.spark, CREATE, DeltaTable)
    builder._like(snapshot)
    configured = snapshot.metadata.configuration
    gone = {key.lower() for key in configured} - {key.lower() for key in builder._properties}
    if FEATURES & snapshot.configuration.supported_features or kept_properties(configured):
        gone |= {f"delta.feature.{name}".lower() for name in FEATURES} | {ENABLE_IN_COMMIT_TIMESTAMPS.lower()}
    return {key: value for key, value in shown_properties(snapshot).items() if key.lower() not in gone}


def tables(statement: Statement) -> DataFrame | None:
    """Run `SHOW TABLES [IN lake[.namespace]] [LIKE 'pattern']` of a lake: `namespace`, `tableName`, `isTemporary`."""
    names = SessionNames.of(statement.spark)
    cursor = statement.cursor()
    if not names.lakes or not cursor.accept("SHOW", "TABLES"):
        return None
    given: SqlName | None = None
    if cursor.accept_any("IN", "FROM"):
        given = name_at(cursor.tokens, cursor.at)
        if given is None:
            return None
        cursor.at = given.next
    attached = names.current if given is None else given.parts[0].lower()
    lake: AttachedLake | None = None if attached is None else names.lake(attached)
    if attached is None or lake is None:
        return None
    namespace = names.namespace if given is None else ".".join(given.parts[1:])
    pattern = _pattern(cursor)
    shown = ".".join([attached, namespace] if namespace else [attached])
    found = tables_of(lake, namespace)
    rows = [(shown, name, False) for name in found if pattern is None or _is_like(name, pattern)]
    return local_frame(statement.spark, rows, _TABLES)


def namespaces(statement: Statement) -> DataFrame | None:
    """Run `SHOW NAMESPACES | SCHEMAS | DATABASES IN lake [LIKE 'pattern']`: `namespace`."""
    names = SessionNames.of(statement.spark)
    cursor = statement.cursor()
    cursor.expect("SHOW")
    if not names.lakes or not cursor.accept_any("NAMESPACES", "SCHEMAS", "DATABASES"):
        return None
    given = name_at(cursor.tokens, cursor.at) if cursor.accept_any("IN", "FROM") else None
    lake = None if given is None or len(given.parts) != 1 else names.lake(given.parts[0])
    if given is None or lake is None:
        return None
    cursor.at = given.next
    pattern = _pattern(cursor)
    found = [(name,) for name in namespaces_of(lake) if pattern is None or _is_like(name, pattern)]
    return local_frame(statement.spark, found, _NAMESPACES)


def _pattern(cursor: TokenCursor) -> str | None:
    """Return the remaining pattern, if any."""
    found = None
    if cursor.accept("LIKE") or not cursor.is_done:
        found = cursor.literal("a pattern")
    cursor.done()
    return found


def _is_like(name: str, pattern: str) -> bool:
    """Return whether a name matches a pattern of Spark: `*` is any text, `|` is or, case-insensitive."""
    parts = (".*".join(re.escape(text) for text in each.strip().split("*")) for each in pattern.split("|"))
    return any(re.fullmatch(part, name, re.IGNORECASE) for part in parts)
