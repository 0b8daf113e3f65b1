"""What a write left behind: files and directories, the log's lines, rows in an order that two reads share."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType

from slackwater.storage.store import ObjectStore
from slackwater.transaction.committers.filesystem import FilesystemCommitter


def save(frame: DataFrame, path: str | Path, mode: str = "append", **options: Any) -> None:
    """Write `frame` to the Delta table at `path`."""
    frame.write.format("delta").mode(mode).options(**options).save(str(path))


def read(spark: SparkSession, path: str | Path, **options: Any) -> DataFrame:
    """The Delta table at `path`."""
    return spark.read.format("delta").options(**options).load(str(path))


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """The rows, sorted by their text, nulls and NaN included."""
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def first_row(frame: DataFrame) -> Row:
    """The first row of a frame that has one."""
    row = frame.first()
    assert row is not None
    return row


def struct_of(ddl: str) -> StructType:
    """The columns of a DDL text."""
    found = StructType.fromDDL(ddl)
    assert isinstance(found, StructType)
    return found


def collected(moment: dt.datetime) -> dt.datetime:
    """How PySpark gives a TIMESTAMP of `moment`, in UTC: in the zone of this machine, without saying so."""
    return moment.replace(tzinfo=dt.timezone.utc).astimezone().replace(tzinfo=None)


def changes(spark: SparkSession, path: str | Path, version: int, *columns: str) -> list[tuple[Any, ...]]:
    """The change feed of one version: the kind of each change, then `columns`."""
    options = {"readChangeFeed": "true", "startingVersion": str(version), "endingVersion": str(version)}
    return rows(read(spark, path, **options).select("_change_type", *columns))


def listing(path: str | Path) -> list[str]:
    """Everything under `path`, hidden files too, by relative names."""
    return sorted(found.relative_to(path).as_posix() for found in Path(path).rglob("*"))


def actions(path: str | Path, version: int, kind: str | None = None) -> list[dict[str, Any]]:
    """The actions of one commit; with `kind`, what those of it say."""
    lines = (Path(path) / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    found: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return found if kind is None else [action[kind] for action in found if kind in action]


def data_files(path: str | Path) -> list[Path]:
    """The Parquet files of the table, whether or not the log knows them."""
    return sorted(p for p in Path(path).rglob("*.parquet") if "_delta_log" not in p.parts)


def table_log(
    path: Path,
    fields: Sequence[dict[str, Any]],
    configuration: dict[str, str] | None = None,
    features: Sequence[str] = (),
    partition_by: Sequence[str] = (),
) -> Path:
    """A table without rows, whose first commit is written by hand; `features` are writer features."""
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": list(features)}
    metadata = {
        "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": list(fields)}),
        "partitionColumns": list(partition_by),
        "configuration": configuration or {},
        "createdTime": 1_700_000_000_000,
    }
    log = path / "_delta_log"
    log.mkdir(parents=True)
    lines = [{"protocol": protocol}, {"metaData": metadata}]
    (log / f"{0:020d}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def column(name: str, kind: Any, nullable: bool = True, **metadata: Any) -> dict[str, Any]:
    """One field of a schema string; `metadata` with underscores where the key has dots."""
    found = {key.replace("_", "."): value for key, value in metadata.items()}
    return {"name": name, "type": kind, "nullable": nullable, "metadata": found}


class Interloper:
    """A committer before which, once, another writer gets its way."""

    def __init__(self, store: ObjectStore, step: Callable[[], object]) -> None:
        self._inner = FilesystemCommitter(store, sleep=lambda seconds: None)
        self._step: Callable[[], object] | None = step
        self.publishes_at_once = True
        self.published_version = self._inner.published_version

    def commit(self, version: int, actions: Sequence[Any], may_move: bool = False) -> Any:
        step, self._step = self._step, None
        if step is not None:
            step()
        return self._inner.commit(version, actions, may_move)

    def commits_after(self, version: int) -> Any:
        return self._inner.commits_after(version)
