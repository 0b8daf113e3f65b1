"""Delta tables by name: `spark.table`, `read.table`, `saveAsTable`, `insertInto` and `catalog.tableExists`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from slackwater.errors import InvalidArgument, TableAlreadyExists
from slackwater.log.files.segment import list_log
from slackwater.spark.catalog.registration import register_table, unregister_table
from slackwater.spark.catalog.resolve import LakeName, known_parts, lake_name_of, parts_of, path_in_parts
from slackwater.spark.catalog.session_catalog import CatalogEntry, entry_of
from slackwater.spark.session.reader_options import Options
from slackwater.spark.sql.query import view_frame
from slackwater.spark.storage.stores import table_at
from slackwater.spark.table.named import frame_of, named_table
from slackwater.spark.write.alignment import named_by_position
from slackwater.spark.writer.save import save, save_as_definition
from slackwater.sql.lexer import name_at, tokens_of
from slackwater.sql.time_travel import at_suffix


def table_frame(spark: SparkSession, name: str, options: Mapping[str, Any] | None = None) -> DataFrame | None:
    """Return the frame of the Delta table `name`, with or without a version (`t@v3`). None for all other names."""
    tokens = tokens_of(name)
    found = None if not tokens else name_at(tokens, 0)
    if tokens is None or found is None:
        return None
    travel = at_suffix(tokens, found.next)
    if (found.next if travel is None else travel[1]) != len(tokens):
        return None
    named = named_table(spark, found.parts)
    if named is None:
        return view_frame(spark, found.parts) if travel is None else None
    if options and travel is None:
        return named.table.toDF(**options)
    return frame_of(spark, named, None if travel is None else travel[0])


def table_exists(spark: SparkSession, name: str) -> bool | None:
    """Return whether there is a table `name`, at a path or in a lake. None for names of Spark's catalog."""
    tokens = tokens_of(name)
    found = None if not tokens else name_at(tokens, 0)
    if tokens is None or found is None or found.next != len(tokens):
        return None
    path = path_in_parts(found.parts)
    if path is not None:
        return list_log(table_at(spark, path).store).latest_version is not None
    in_lake = lake_name_of(spark, found.parts)
    return True if in_lake is not None and in_lake.is_there else None


def save_as_table(
    frame: DataFrame,
    name: str,
    mode: str,
    partition_by: Sequence[str],
    options: Mapping[str, Any],
    cluster_by: Sequence[str],
    properties: Mapping[str, str] | None = None,
) -> None:
    """Run `df.write.format("delta").saveAsTable(name)` for a table of the catalog or of a lake.

    Creates the table, or writes to it according to `mode`. `properties` are for a created table. Raises as `save`,
    TableAlreadyExists, and InvalidArgument for a name with another meaning in the catalog.
    """
    spark = frame.sparkSession
    parts = parts_of(name)
    path = path_in_parts(parts)
    # Rows of an overwrite keep their types, like those of a created table.
    assigns = mode.lower() == "append"
    if path is not None:
        save(frame, path, mode, partition_by, options, cluster_by, assigns, properties)
        return
    in_lake = lake_name_of(spark, parts, is_new=True)
    if in_lake is not None:
        _save_in_lake(frame, in_lake, mode, partition_by, {**options, **(properties or {})}, cluster_by)
        return
    entry = entry_of(spark, parts)
    location = Options(options).get("path")
    if entry is None or entry.is_temporary:
        entry = register_table(spark, parts, frame.schema, location)
        try:
            save(frame, str(entry.location), mode, partition_by, options, cluster_by, assigns, properties)
        except BaseException:
            unregister_table(spark, entry)
            raise
        return
    require_same(entry, name, location)
    if mode.lower() in ("error", "errorifexists"):
        raise TableAlreadyExists(f"{name} already exists in the catalog. Use mode append or overwrite")
    save(frame, str(entry.location), mode, partition_by, options, cluster_by, assigns)


def insert_into(frame: DataFrame, name: str, overwrite: bool, options: Mapping[str, Any]) -> bool:
    """Run `df.write.insertInto(name)`: columns match by position. Return False if `name` is not a Delta table."""
    parts = known_parts(name)
    named = named_table(frame.sparkSession, parts) if parts else None
    if named is None:
        return False
    schema = named.table._snapshot().schema
    if len(schema) != len(frame.columns):
        raise InvalidArgument(
            f"{name} has {len(schema)} columns, but the rows to insert have {len(frame.columns)}. Pass the table's "
            "columns in their order, because insertInto matches by position"
        )
    rows = named_by_position(frame, schema.names, schema)
    named.table._write(rows, "overwrite" if overwrite else "append", options)
    return True


def _save_in_lake(
    frame: DataFrame,
    name: LakeName,
    mode: str,
    partition_by: Sequence[str],
    options: Mapping[str, Any],
    cluster_by: Sequence[str],
) -> None:
    if name.is_there and mode.lower() == "ignore":
        return
    if name.is_there and mode.lower() in ("error", "errorifexists"):
        raise TableAlreadyExists(
            f"the lake {name.attached} already has a table {name.name}. Use mode append or overwrite"
        )
    if not name.is_there:
        name.require_no_transaction()
        lake: Any = name.lake
        begin = partial(lake._begin_create, name.name, location=Options(options).get("path"))
        save_as_definition(frame, begin, "CREATE TABLE AS SELECT", partition_by, cluster_by, options=options)
        return
    name.table()._write(frame, "overwrite" if mode.lower() == "overwrite" else "append", options)


def require_same(entry: CatalogEntry, name: str, location: str | None) -> None:
    """Raise InvalidArgument if the entry is not a Delta table, or if `location` is not the table's."""
    if not entry.is_delta or entry.location is None:
        raise InvalidArgument(
            f"{name} is in the catalog as {entry.provider or 'a view'}, not as a Delta table. Choose another name"
        )
    if location is not None and location.rstrip("/") != entry.location.rstrip("/"):
        raise InvalidArgument(f"{name} is at {entry.location}, but the option path is {location}. Leave the option out")
