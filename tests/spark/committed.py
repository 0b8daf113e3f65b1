"""What a table is after its commits, for the Spark tests: the actions of its log, its files, its rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from slackwater import Snapshot


def commit_file(path: str, version: int) -> Path:
    """The commit `version` in the log."""
    return Path(path) / "_delta_log" / f"{version:020d}.json"


def actions(path: str, version: int, kind: str) -> list[dict[str, Any]]:
    """The actions of one kind in the commit `version`."""
    text = commit_file(path, version).read_text()
    return [node[kind] for node in map(json.loads, text.splitlines()) if kind in node]


def operation(path: str, version: int | None = None) -> tuple[str, dict[str, Any]]:
    """The name of a commit's operation and its parameters; of the newest commit by default."""
    (info,) = actions(path, Snapshot.load(path).version if version is None else version, "commitInfo")
    return info["operation"], info["operationParameters"]


def column_metadata(path: str, name: str) -> dict[str, Any]:
    """The metadata of a top-level column, in the newest version."""
    column = Snapshot.load(path).schema.get(name)
    assert column is not None
    return dict(column.metadata)


def names_below(path: str) -> list[str]:
    """Everything in the table's directory, hidden things too."""
    return sorted(str(p.relative_to(path)) for p in Path(path).rglob("*"))


def live_paths(path: str) -> list[Path]:
    """The data files of the newest version, in the order of their paths."""
    return sorted(Path(path) / unquote(name) for name in Snapshot.load(path).files()["path"].to_pylist())


def parquet_schema(file: Path) -> pa.Schema:
    """The Arrow schema of one data file; field ids are in the metadata of its fields."""
    return pq.read_schema(file)


def append(spark: SparkSession, path: str, rows: list[tuple[Any, ...]], ddl: str, **options: str) -> None:
    """Append rows to a table, as one file where it has no partitions."""
    frame = spark.createDataFrame(rows, ddl).coalesce(1)
    frame.write.format("delta").mode("append").options(**options).save(path)


def read(spark: SparkSession, path: str, **options: Any) -> DataFrame:
    """The table as a DataFrame."""
    return spark.read.format("delta").options(**options).load(path)


def rows(spark: SparkSession, path: str, **options: Any) -> list[tuple[Any, ...]]:
    """The rows of the table, sorted."""
    return sorted((tuple(row) for row in read(spark, path, **options).collect()), key=repr)
