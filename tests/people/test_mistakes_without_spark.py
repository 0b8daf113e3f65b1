"""Mistakes of people who read and commit tables without Spark: one sentence each, and nothing is written."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import slackwater
from slackwater import AddFile, Snapshot, Transaction
from tests.people.mistakes import require_plain

TABLE = Path(__file__).parents[1] / "data" / "tables" / "basic-partitioned"
SCHEMA = Snapshot.load(TABLE).schema
Call = Callable[[str], Any]


def rows(**asked: Any) -> Call:
    return lambda table: Snapshot.load(table).to_arrow(**asked)


def _other_partition(table: str) -> None:
    transaction = Transaction(table)
    transaction.add(AddFile("x.parquet", {}, size=1, modification_time=1))
    transaction.commit("WRITE")


def _again(table: str) -> None:
    transaction = Transaction(f"{table}/../again")
    transaction.set_transaction("loader", 1)
    transaction.commit("WRITE")
    transaction.commit("WRITE")


def _gone(table: str) -> None:
    for file in Path(f"{table}/../again").rglob("*.parquet"):
        file.unlink()
    Snapshot.load(f"{table}/../again").to_arrow()


# `{table}` is its place. What is caught is of our tree, or Python's own for an argument of a wrong type.
MISTAKES: list[tuple[str, Call, tuple[str, ...]]] = [
    ("wrong path", lambda table: Snapshot.load(f"{table}/nope"), ("{table}/nope", "not a Delta table")),
    ("a folder of Parquet files", lambda table: Snapshot.load(f"{table}/../files"), ("files", "not a Delta table")),
    ("a file", lambda table: Snapshot.load(f"{table}/../files/a.parquet"), ("a.parquet", "not a Delta table")),
    (
        "the log",
        lambda table: Snapshot.load(f"{table}/_delta_log"),
        ("{table}/_delta_log", "directory that contains it"),
    ),
    ("no path", lambda table: Snapshot.load(""), ("a path or a URL",)),
    ("None for a path", lambda table: Snapshot.load(None), ("NoneType",)),  # type: ignore[arg-type]
    ("a scheme that is none", lambda table: Snapshot.load("s4://bucket/t"), ("'s4'", "s3a")),
    ("a path of Databricks", lambda table: Snapshot.load("dbfs:/mnt/t"), ("'dbfs'",)),
    ("options that are text", lambda table: Snapshot.load(table, storage_options="x"), ("dict", "str")),  # type: ignore[arg-type]
    ("version as text", lambda table: Snapshot.load(table, "1"), ("'1'", "whole number")),  # type: ignore[arg-type]
    ("negative version", lambda table: Snapshot.load(table, -1), ("-1",)),
    ("version too new", lambda table: Snapshot.load(table, 99), ("{table}", "99", "newest version is 1")),
    ("version and timestamp", lambda table: Snapshot.load(table, 1, "2026-01-01"), ("not both",)),
    ("timestamp rubbish", lambda table: Snapshot.load(table, timestamp="soon"), ("'soon'", "2026-11-21T10:00:00Z")),
    ("timestamp before", lambda table: Snapshot.load(table, timestamp="2001-01-01"), ("{table}", "2001-01-01")),
    ("timestamp in the future", lambda table: Snapshot.load(table, timestamp="2100-01-01"), ("{table}", "2100-01-01")),
    ("typo in a column", rows(columns=["numbr"]), ("numbr", "Did you mean number?")),
    ("a name for a list of names", rows(columns="number"), ("['number']",)),
    ("typo in where", rows(where="numbr = 1"), ("numbr", "Did you mean number?")),
    ("where is no SQL", rows(where="number = = 1"), ("number = = 1", "column 10")),
    ("where is a number", rows(where=3), ("SQL text", "int")),
    ("where of pyarrow", rows(where=pc.field("number") == 1), ("SQL text", "Expression")),
    ("where with a sub-query", rows(where="number IN (SELECT 1)"), ("number IN (SELECT 1)", "DuckDB")),
    ("a limit below 0", rows(limit=-1), ("-1",)),
    ("a limit that is text", rows(limit="3"), ("'3'",)),
    ("files of a number", lambda table: Snapshot.load(table).files(where=3), ("SQL text", "int")),  # type: ignore[arg-type]
    ("a file that is gone", _gone, ("version 1", "again", "VACUUM")),
    ("typo in a name", lambda table: slackwater.Snapshott, ("Snapshott", "'Snapshot'")),  # type: ignore[attr-defined]
    ("a commit to no table", lambda table: Transaction(f"{table}/nope"), ("{table}/nope",)),
    ("a file of no partition", _other_partition, ("x.parquet", "'letter'")),
    ("a transaction twice", _again, ("already committed",)),
    ("create what is there", lambda table: Transaction.create(table, SCHEMA), ("{table}", "already")),
    (
        "a partition column that is none",
        lambda table: Transaction.create(f"{table}/../new", SCHEMA, partition_by=["day"]),
        ("'day'", "'letter'"),
    ),
]


@pytest.mark.parametrize(("call", "says"), [each[1:] for each in MISTAKES], ids=[each[0] for each in MISTAKES])
def test_a_mistake_without_spark_is_answered_by_one_sentence(tmp_path: Path, call: Call, says: tuple[str, ...]) -> None:
    table = tmp_path / "t"
    shutil.copytree(TABLE, table)
    shutil.copytree(TABLE, tmp_path / "again")
    (tmp_path / "files").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "files" / "a.parquet")
    before = sorted(table.rglob("*"))
    with pytest.raises((slackwater.errors.SlackwaterError, TypeError, AttributeError)) as caught:
        call(str(table))
    told = str(caught.value)
    # How long the name of a place is, is not for us to say.
    require_plain(told.replace(str(tmp_path), ""))
    for said in says:
        assert said.format(table=table) in told, told
    if isinstance(caught.value, AttributeError):
        assert "has no attribute 'Snapshott'" in told
    assert sorted(table.rglob("*")) == before
    assert not (tmp_path / "new").exists()
