"""What calls answer is in the reference: every class that one returns, and the columns of every frame."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import types as spark_types

import slackwater
from slackwater.lake.lake import LogLake
from slackwater.log.files.file_actions import ADD_SCHEMA, REMOVE_SCHEMA
from slackwater.spark.history.system_time import SystemTimeRelation
from slackwater.spark.lake.lake import LAKE_CLONE_RESULT, LAKE_RESTORE_RESULT
from slackwater.spark.lake.time_slice import LAKE_HISTORY_SCHEMA, TimeSlice, TimeSliceTable
from slackwater.spark.lake.transaction import LakeTransaction, TransactionTable
from slackwater.spark.maintenance.builder import DeltaReorgBuilder
from slackwater.spark.maintenance.clone import CLONE_RESULT
from slackwater.spark.maintenance.metrics import RESULT
from slackwater.spark.maintenance.restore import RESTORE_RESULT
from slackwater.spark.maintenance.vacuum import VACUUM_RESULT
from slackwater.spark.streams.multi_table_sink import LakeStreamWriter, Stream
from slackwater.spark.streams.query_watcher import QueryWatcher
from slackwater.spark.table.changes import MERGE_RESULT
from slackwater.spark.table.table import DETAIL_SCHEMA, HISTORY_SCHEMA

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
COLUMNS = REFERENCE / "columns.md"
KINDS = [found for name in slackwater.__all__ if inspect.isclass(found := getattr(slackwater, name))]
KINDS += [DeltaReorgBuilder, LakeTransaction, LogLake, SystemTimeRelation, TimeSlice, TimeSliceTable, TransactionTable]
KINDS += [LakeStreamWriter, Stream, QueryWatcher]
# What others have made and explain.
_OF_OTHERS = frozenset(
    "Any Callable Collection Column DataFrame DuckDBPyRelation Iterator Literal Mapping None RecordBatchReader Self "
    "Sequence StreamingQuery T".split()
)
_CALLED = {"PublicSnapshot": "Snapshot"}

INTRODUCTION = """\
# Columns

This page lists the columns of returned DataFrames and Arrow tables, in their order. Sizes are in bytes. Numbers with a
name ending in `Ms` are in milliseconds since the epoch. File times have the same unit.
"""
ANSWERS: dict[str, tuple[str, spark_types.StructType | pa.Schema]] = {
    "HISTORY_SCHEMA": ("`DeltaTable.history`, a row for each commit", HISTORY_SCHEMA),
    "DETAIL_SCHEMA": ("`DeltaTable.detail`, one row", DETAIL_SCHEMA),
    "MERGE_RESULT": ("`DeltaMergeBuilder.execute`, one row", MERGE_RESULT),
    "RESULT": ("`executeCompaction`, `executeZOrderBy` and `applyPurge`, one row", RESULT),
    "VACUUM_RESULT": ("`DeltaTable.vacuum`: the table's root; for a dry run the files", VACUUM_RESULT),
    "RESTORE_RESULT": ("`restoreToVersion` and `restoreToTimestamp`, one row", RESTORE_RESULT),
    "CLONE_RESULT": ("`CREATE TABLE … SHALLOW CLONE` in SQL, one row", CLONE_RESULT),
    "LAKE_HISTORY_SCHEMA": ("`Lake.history`, a row for each transaction", LAKE_HISTORY_SCHEMA),
    "LAKE_RESTORE_RESULT": ("`Lake.restore`, a row for each table", LAKE_RESTORE_RESULT),
    "LAKE_CLONE_RESULT": ("`Lake.clone`, a row for each table", LAKE_CLONE_RESULT),
    "ADD_SCHEMA": ("`Snapshot.files`, a row for each live file", ADD_SCHEMA),
    "REMOVE_SCHEMA": ("`Snapshot.tombstones`, a row for each removed file", REMOVE_SCHEMA),
}


def page() -> str:
    """The page that belongs to the schemas; `COLUMNS.write_text(page())` makes it."""
    return INTRODUCTION + "".join(f"\n## {name}\n\n{of}.\n\n{_table(found)}" for name, (of, found) in ANSWERS.items())


def _table(schema: spark_types.StructType | pa.Schema) -> str:
    rows = _of_arrow(schema) if isinstance(schema, pa.Schema) else _of_spark(schema)
    return "| column | type |\n|-|-|\n" + "".join(f"| `{name}` | {kind} |\n" for name, kind in rows)


def _of_arrow(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    for field in schema:
        if pa.types.is_struct(field.type):
            yield from ((f"{field.name}.{each.name}", str(each.type)) for each in field.type)
        else:
            yield field.name, str(field.type)


def _of_spark(schema: spark_types.StructType, within: str = "") -> Iterator[tuple[str, str]]:
    for field in schema.fields:
        if isinstance(field.dataType, spark_types.StructType):
            yield from _of_spark(field.dataType, f"{within}{field.name}.")
        else:
            yield f"{within}{field.name}", field.dataType.simpleString()


def test_the_columns_of_every_answer_are_in_the_reference() -> None:
    assert COLUMNS.read_text(encoding="utf-8") == page()


def returned() -> dict[str, str]:
    """The classes that public methods and functions say they return, each with one that does."""
    found: dict[str, str] = {}
    for kind in KINDS:
        for name in dir(kind):
            each: Any = inspect.getattr_static(kind, name)
            each = each.fget if isinstance(each, property) else getattr(each, "__func__", each)
            if not name.startswith("_") and inspect.isfunction(each):
                found |= dict.fromkeys(_classes(each), f"{kind.__name__}.{name}")
    for name in slackwater.__all__:
        if inspect.isfunction(function := getattr(slackwater, name)):
            found |= dict.fromkeys(_classes(function), name)
    return found


def _classes(function: Any) -> set[str]:
    if not function.__module__.startswith("slackwater."):
        return set()
    told = re.findall(r"(?<![\w.])[A-Z]\w+", str(function.__annotations__.get("return", "")))
    return {_CALLED.get(word, word) for word in told} - _OF_OTHERS


def test_every_class_that_a_call_returns_is_in_the_reference() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in REFERENCE.glob("*.md"))
    explained = {name.rpartition(".")[2] for name in re.findall(r"^::: ([\w.]+)$", pages, re.MULTILINE)}
    assert {word: by for word, by in returned().items() if word not in explained} == {}


def test_what_the_reference_explains_is_there() -> None:
    for page in REFERENCE.glob("*.md"):
        for name in re.findall(r"^::: ([\w.]+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
            # Raises for a name that is missing.
            pkgutil.resolve_name(name)
