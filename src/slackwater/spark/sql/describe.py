"""DESCRIBE HISTORY, DETAIL and TABLE of Delta tables, from their logs, with delta-spark's columns.

Columns and properties in the session's catalog are not read, because table changes do not update the catalog.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import types as spark_types

from slackwater.errors import InvalidArgument, TableNotFound, UnsupportedFeature
from slackwater.log.table_detail import describe_detail
from slackwater.protocol.features.write_expressions import row_rules
from slackwater.protocol.schema.char_varchar import text_type
from slackwater.protocol.schema.schema import COMMENT, StructField
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.catalog.session_catalog import SPARK_CATALOG, entry_of
from slackwater.spark.session.local_frame import local_frame
from slackwater.spark.session.types import to_spark_type
from slackwater.spark.sql.services import required
from slackwater.spark.sql.statement import Statement
from slackwater.spark.table.named import NamedTable, named_table
from slackwater.sql import maintenance as parsed

_COLUMNS = (
    spark_types.StructType().add("col_name", "string", False).add("data_type", "string", False).add("comment", "string")
)
_COLUMN = spark_types.StructType().add("info_name", "string", False).add("info_value", "string", False)
_EMPTY = ("", "", "")


def log(statement: Statement) -> DataFrame | None:
    """Run `DESCRIBE HISTORY t [LIMIT n]`, HISTORY_SCHEMA, and `DESCRIBE DETAIL t`, DETAIL_SCHEMA; t may be a path."""
    word = statement.cursor().ahead(1)
    if word not in ("HISTORY", "DETAIL") or entry_of(statement.spark, (word.lower(),)) is not None:
        # Another statement, or a table with this name.
        return None
    given = parsed.log_of(statement.with_values().cursor())
    if given is None:
        return None
    named = required(statement, given.target)
    if given.is_history:
        return named.table.history(given.limit)
    record = describe_detail(named.table._snapshot())
    shown = catalog_name(named)
    record["name"] = record["name"] if shown is None else shown
    return named.table._described(record)


def catalog_name(named: NamedTable) -> str | None:
    """Return the full name of a table in its catalog or its lake, None for a table named by its path."""
    if named.place.entry is not None:
        return ".".join((SPARK_CATALOG, *named.place.entry.parts))
    return None if named.place.in_lake is None else f"{named.place.in_lake.attached}.{named.place.in_lake.name}"


def table(statement: Statement) -> DataFrame | None:
    """Run `DESCRIBE [TABLE] [EXTENDED] t [column]`: `col_name`, `data_type`, `comment`."""
    given = parsed.description_of(statement.cursor())
    named = None if given is None else _table(statement, given)
    if given is None or named is None:
        return None
    for word, instead in (("AS JSON", given.as_json), ("PARTITION", given.has_partition)):
        if instead:
            raise UnsupportedFeature(
                f"{named.place.shown}: Delta tables do not support DESCRIBE … {word}. Use DESCRIBE EXTENDED, DESCRIBE "
                "DETAIL or SHOW PARTITIONS"
            )
    snapshot = named.table._snapshot()
    if given.column is not None:
        return local_frame(statement.spark, _of_column(snapshot, given.column), _COLUMN)
    rows = [*_columns(snapshot), *(_details(named, snapshot) if given.extended else ())]
    return local_frame(statement.spark, rows, _COLUMNS)


def _table(statement: Statement, given: parsed.Description) -> NamedTable | None:
    try:
        return named_table(statement.spark, given.table.parts)
    except TableNotFound:
        # With a current lake, words of other statements look like names of its tables.
        if given.column is not None:
            return None
        raise


def type_text(column: StructField) -> str:
    """Return Spark's text of a column's type."""
    return text_type(column) or str(to_spark_type(column.type).simpleString())


def _row(column: StructField) -> tuple[str, str, str | None]:
    return (column.name, type_text(column), column.metadata.get(COMMENT))


def _columns(snapshot: Snapshot) -> Iterator[tuple[str, str, str | None]]:
    yield from map(_row, snapshot.schema)
    partitioned_by = snapshot.metadata.partition_columns
    if partitioned_by:
        yield ("# Partition Information", "", "")
        yield ("# col_name", "data_type", "comment")
        yield from (_row(column) for name in partitioned_by if (column := snapshot.schema.get(name)) is not None)


def _details(named: NamedTable, snapshot: Snapshot) -> Iterator[tuple[str, str, str | None]]:
    yield _EMPTY
    yield ("# Detailed Table Information", "", "")
    entry, in_lake = named.place.entry, named.place.in_lake
    found: dict[str, str | None] = {}
    if entry is not None:
        found |= {"Catalog": SPARK_CATALOG, "Namespace": entry.parts[0], "Database": entry.parts[0]}
        found |= {"Table": entry.parts[1], "Type": "MANAGED" if entry.is_managed else "EXTERNAL"}
    elif in_lake is not None:
        found |= {"Catalog": in_lake.attached, "Table": in_lake.name, "Type": "MANAGED"}
    else:
        found |= {"Name": f"delta.`{named.place.location}`", "Type": "EXTERNAL"}
    found |= {"Comment": snapshot.metadata.description, "Location": snapshot.store.root_url, "Provider": "delta"}
    if entry is not None and entry.is_managed:
        found["Is_managed_location"] = "true"
    pairs = ",".join(f"{key}={value}" for key, value in sorted(shown_properties(snapshot).items()))
    found["Table Properties"] = f"[{pairs}]"
    yield from ((key, value, "") for key, value in found.items() if value is not None)
    defaults = {default.name: default.sql for default in row_rules(snapshot.configuration).defaults}
    if defaults:
        yield _EMPTY
        yield ("# Column Default Values", "", "")
        yield from ((c.name, type_text(c), defaults[c.name]) for c in snapshot.schema if c.name in defaults)


def _of_column(snapshot: Snapshot, path: tuple[str, ...]) -> list[tuple[str, str]]:
    if len(path) != 1:
        raise InvalidArgument(f"DESCRIBE expected a top-level column, found {'.'.join(path)}")
    column = snapshot.schema.get(path[0])
    if column is None:
        raise InvalidArgument(
            f"{snapshot.store.root_url} has no column {path[0]}. Its columns are {', '.join(snapshot.schema.names)}",
            error_class="DELTA_COLUMN_NOT_FOUND",
        )
    name, kind, comment = _row(column)
    return [("col_name", name), ("data_type", kind), ("comment", "NULL" if comment is None else comment)]


def shown_properties(snapshot: Snapshot) -> dict[str, str]:
    """Return the table's properties, with its protocol in properties: versions, and `delta.feature.…` per feature."""
    protocol = snapshot.protocol
    features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    return {
        **snapshot.metadata.configuration,
        **{f"delta.feature.{name}": "supported" for name in features},
        "delta.minReaderVersion": str(protocol.min_reader_version),
        "delta.minWriterVersion": str(protocol.min_writer_version),
    }
