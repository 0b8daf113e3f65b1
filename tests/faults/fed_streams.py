"""Queries that are started again and again on batches of known rows, and what must be in their tables then."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

from pyspark.sql import SparkSession

import slackwater
from slackwater import Snapshot
from slackwater.errors import TableNotFound
from tests.faults import dying_lake_stream
from tests.spark.streams.queries import batches, drop, files, writer
from tests.spark.written import read, rows

ROWS = 3


class TableFeed:
    """Files in a folder, each a batch of ROWS rows, into one table."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.source, self.checkpoint = spark, root / "source", root / "check"
        self.target = str(root / "t")
        self.count = 0

    def more(self, count: int) -> None:
        """So many further batches."""
        for number in range(self.count, self.count + count):
            drop(self.source, id=[number * ROWS + each for each in range(ROWS)])
        self.count += count

    def frame(self) -> Any:
        """The stream of what there is."""
        return files(self.spark, self.source, "id BIGINT")

    def start(self, frame: Any = None) -> Any:
        """The query, running to the end of what there is; of `frame`, if something is to happen on the way."""
        return writer(self.frame() if frame is None else frame, self.checkpoint).start(self.target)

    def require_whole_batches(self) -> int:
        """Batches are there whole and once, from the first on: so many."""
        try:
            Snapshot.load(self.target)
        except TableNotFound:
            return 0
        found = batches(self.target)
        assert [number for _, number in found] == list(range(len(found)))
        assert len({query for query, _ in found}) == 1
        ids = rows(read(self.spark, self.target))
        assert sorted(ids) == [(n,) for n in range(len(found) * ROWS)]
        return len(found)

    def require_all(self) -> None:
        """Every batch is there, once."""
        assert self.require_whole_batches() == self.count


class LakeFeed:
    """A table whose files are each a batch of ROWS rows, into two tables of a lake."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.source, self.checkpoint = spark, str(root / "s"), str(root / "check")
        self.target = str(root / "lake")
        self.lake = slackwater.Lake.open(self.target, spark=spark)
        if not self.lake.tables():
            self.lake.create_table("rows", "id BIGINT")
            self.lake.create_table("sums", "n BIGINT, total BIGINT, at TIMESTAMP")
        self.count = 0

    def __enter__(self) -> LakeFeed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.lake.close()

    def more(self, count: int) -> None:
        """So many further batches."""
        for number in range(self.count, self.count + count):
            new = self.spark.range(number * ROWS, (number + 1) * ROWS, 1, 1)
            new.write.format("delta").mode("append").save(self.source)
        self.count += count

    def frame(self) -> Any:
        """The stream of what there is."""
        return self.spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(self.source)

    def start(self, frame: Any = None) -> Any:
        """The query, running to the end of what there is; of `frame`, if something is to happen on the way."""
        return dying_lake_stream.started(self.frame() if frame is None else frame, self.checkpoint, self.lake)

    def require_whole_batches(self) -> int:
        """Both tables tell of the same batches, each whole and once and at its one time: so many."""
        ids = sorted(row[0] for row in self.lake.table("rows").toDF().collect())
        sums = self.lake.table("sums").toDF().collect()
        assert ids == list(range(len(sums) * ROWS))
        assert sorted(row.total for row in sums) == [3 * ROWS * n + 3 for n in range(len(sums))]
        history = self.lake.history().where("size(tables) = 2").collect()
        assert sorted(row.at for row in sums) == sorted(row.timestamp for row in history)
        return len(sums)

    def require_all(self) -> None:
        """Every batch is there, once."""
        assert self.require_whole_batches() == self.count
