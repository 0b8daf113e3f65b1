"""The tables whose rows are changed, the rows that are merged into them, and what has to come out.

Target keys are the even numbers, in order over the files; keys that are new to it are odd and lie between them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.scales import Scale, once
from slackwater import DeltaTable
from slackwater.spark.read.load import load
from slackwater.spark.writer.save import save

BUCKETS = 1_000
"""`bucket < n` is true for about n in so many rows, at random places."""

Answer = tuple[int, int]
"""How many rows there are, and the sum of their hashes."""

_SOURCE_FILES = 4
_MOST_FILE_BYTES = "spark.databricks.delta.optimize.maxFileSize"
_NEW_VALUES = 1


@dataclass(frozen=True)
class Targets:
    """The tables and sources of a scale below `data`, each made at its first use."""

    spark: SparkSession
    data: Path
    scale: Scale

    @property
    def plain(self) -> Path:
        """The target: no table properties, so its changes rewrite files."""
        return once(self.data / "target", self._make_target)

    def with_properties(self, name: str, properties: Mapping[str, str]) -> Path:
        """The same data files, in a table with `properties`."""
        return once(self.data / f"target-{name}", partial(self._make_variant, properties))

    @property
    def shuffled(self) -> Path:
        """The same rows in as many files, in each of which are keys of the whole range."""
        return once(self.data / "target-shuffled", self._make_shuffled)

    @property
    def clustered(self) -> Path:
        """The shuffled table after it was clustered by its key, in about as many files."""
        return once(self.data / "target-clustered", self._make_clustered)

    def upsert_source(self) -> Path:
        """Rows for 1 % of the keys and for 0.1 % new ones, at random places of the whole key range."""
        return self._source("upsert", 0, self.scale.target_rows)

    def narrow_source(self) -> Path:
        """As many rows as `upsert_source`, all between the keys of 5 % of the files."""
        rows, files = self.scale.target_rows, self.scale.target_files
        first, count = files // 2, max(1, files // 20)
        return self._source("narrow", first * rows // files, (first + count) * rows // files)

    def new_source(self) -> Path:
        """Rows for 10 % new keys, spread evenly over the whole key range."""
        new = self.scale.target_rows // 10
        return once(
            self.data / "source-new", partial(self._make_source, self.spark.range(new).selectExpr("id * 20 + 1 as id"))
        )

    def read_source(self, source: Path) -> DataFrame:
        """The rows of a source, as Spark reads its Parquet files."""
        return self.spark.read.parquet(str(source))

    def upserted(self, source: Path) -> Answer:
        """What the target holds after an upsert of `source`, by joins of Spark alone."""
        new = self.read_source(source)
        return answer_of(load(self.spark, str(self.plain)).join(new, "id", "left_anti").unionByName(new))

    def _source(self, name: str, low: int, high: int) -> Path:
        matched, new = self.scale.target_rows // 100, self.scale.target_rows // 1_000
        # Positions by the order of a hash are random, and as many as are asked for.
        places = self.spark.range(low, high)
        even = places.orderBy(F.xxhash64("id")).limit(matched).selectExpr("id * 2 as id")
        odd = places.orderBy(F.xxhash64("id", F.lit(1))).limit(new).selectExpr("id * 2 + 1 as id")
        return once(self.data / f"source-{name}", partial(self._make_source, even.unionByName(odd)))

    def _make_target(self, at: Path) -> None:
        keys = self.spark.range(0, self.scale.target_rows, 1, self.scale.target_files).selectExpr("id * 2 as id")
        save(_rows(keys, 0), str(at))

    def _make_shuffled(self, at: Path) -> None:
        keys = self.spark.range(0, self.scale.target_rows, 1).selectExpr("id * 2 as id")
        save(_rows(keys.repartition(self.scale.target_files, F.xxhash64("id")), 0), str(at))

    def _make_clustered(self, at: Path) -> None:
        linked(self.shuffled, at)
        size = sum(file.stat().st_size for file in at.glob("*.parquet")) // self.scale.target_files + 1
        self.spark.conf.set(_MOST_FILE_BYTES, str(size))
        try:
            table = DeltaTable.forPath(self.spark, str(at))
            table.clusterBy("id")
            table.optimize().executeCompaction()
        finally:
            self.spark.conf.unset(_MOST_FILE_BYTES)

    def _make_variant(self, properties: Mapping[str, str], at: Path) -> None:
        linked(self.plain, at)
        DeltaTable.forPath(self.spark, str(at)).setProperties(dict(properties))

    def _make_source(self, keys: DataFrame, at: Path) -> None:
        shuffled = keys.repartition(_SOURCE_FILES).sortWithinPartitions(F.xxhash64("id"))
        _rows(shuffled, _NEW_VALUES).write.parquet(str(at))


def linked(table: Path, at: Path) -> None:
    """The table again, of hard links: files of a Delta table are never written twice."""
    shutil.rmtree(at, ignore_errors=True)
    shutil.copytree(table, at, copy_function=os.link)


def answer_of(frame: DataFrame) -> Answer:
    """What two tables have in common whose rows are the same, in any order."""
    row = frame.agg(F.count("*"), F.sum(F.hash(*sorted(frame.columns)))).collect()[0]
    return row[0], row[1]


def rewritten_files(table: Path) -> int:
    """How many files the newest commit removes, read without any engine."""
    return sum("remove" in action for action in _newest_commit(table))


def recorded_changes(table: Path) -> int:
    """How many rows the change files of the newest commit hold, read without any engine."""
    paths = [action["cdc"]["path"] for action in _newest_commit(table) if "cdc" in action]
    return sum(pq.read_metadata(table / path).num_rows for path in paths)


def _newest_commit(table: Path) -> list[dict[str, dict[str, str]]]:
    newest = max((table / "_delta_log").glob("*.json"))
    return [json.loads(line) for line in newest.read_text().splitlines()]


def _rows(keys: DataFrame, salt: int) -> DataFrame:
    """A row for each key: the mix of types of a table of orders; another `salt` gives other values."""
    seed = f"id, {salt}"
    return keys.selectExpr(
        "id",
        f"xxhash64({seed}, 'account') as account",
        f"cast(pmod(hash({seed}, 'bucket'), {BUCKETS}) as int) as bucket",
        f"cast(pmod(hash({seed}, 'quantity'), 100) as int) as quantity",
        f"pmod(xxhash64({seed}, 'weight'), 1000000) as weight",
        f"pmod(xxhash64({seed}, 'amount'), 100000000) / 1e2D as amount",
        f"concat('status-', pmod(hash({seed}, 'status'), 20)) as status",
        f"substr(md5(cast(concat(id, '-{salt}') as binary)), 1, 12) as code",
        f"date_add(date'2020-01-01', pmod(hash({seed}, 'day'), 2000)) as day",
        f"timestamp_micros(1600000000000000 + pmod(xxhash64({seed}, 'at'), 100000000000000)) as at",
    )
