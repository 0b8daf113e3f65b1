"""Streaming queries into the lists of a recorded run: each micro-batch reads lists, and appends to two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import slackwater
from tests.histories.recording import BLIND, Recorder, now
from tests.spark.streams.queries import done_batches

LOG, ROW = f"{BLIND}0", "row0"
Meanings = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True)
class Query:
    """A query: each row `n` of its source, a table at `source`, is the micro-batch of that number.

    It appends a value to the list LOG of `here` and one to the list ROW of `there`, each a table and a partition, and
    reads before that all lists of `there`'s table in the partition of `here`'s, which is another query's to write.
    """

    name: str
    root: Path
    here: tuple[str, str]
    there: tuple[str, str]
    asks: bool

    @property
    def source(self) -> str:
        """The table that the query reads."""
        return str(self.root / f"{self.name}-source")

    @property
    def checkpoint(self) -> Path:
        """Where Spark keeps how far the query is."""
        return self.root / f"{self.name}-checkpoint"

    def feed(self, spark: SparkSession, first: int, count: int) -> None:
        """So many more batches for the query."""
        for number in range(first, first + count):
            rows = spark.range(number, number + 1, 1, 1).withColumnRenamed("id", "n")
            rows.write.format("delta").mode("append").save(self.source)

    def start(self, spark: SparkSession, lake: slackwater.Lake, record: Path, run: int) -> Any:
        """The query, running to the end of what there is; what its batches do is added to a file in `record`."""
        stream = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(self.source)
        writer = slackwater.stream(stream).to(lake, self._meanings(record, run))
        return writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()

    def forget_the_last(self) -> None:
        """Let Spark send the last batch again, as where it was killed before it wrote down that this was done."""
        last = str(max(done_batches(self.checkpoint)))
        (self.checkpoint / "commits" / last).unlink()
        (self.checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)

    def tell_what_is_done(self, recorder: Recorder) -> list[int]:
        """Add to the record which batches Spark says are done: these."""
        done = done_batches(self.checkpoint)
        recorder.tell("stream", query=self.name, tables=[self.here[0], self.there[0]], done=done)
        return done

    def _meanings(self, record: Path, run: int) -> Meanings:
        """What a batch means for the two tables; made here, the functions travel to a Connect server by value."""
        name, asks = self.name, self.asks
        (here, part), (there, other) = self.here, self.there
        file, log, row, client = str(record / f"{name}-{run}.jsonl"), LOG, ROW, f"{name}.{run}"
        # Of the attempt that is under way, and of all of them: when the last one was over, and how many there were.
        attempt: dict[str, Any] = {}
        told: dict[str, Any] = {"begin": now(), "order": 0}

        def lists(frame: Any) -> list[tuple[str, str, list[str]]]:
            found: dict[tuple[str, str], list[str]] = {}
            for each in frame.select("p", "k", "vs").collect():
                found.setdefault((each.p, each.k), []).extend(each.vs)
            return [(*key, values) for key, values in found.items()]

        def append(batch: Any, tx: Any) -> Any:
            from pyspark.sql import functions as F

            (number,) = [each.n for each in batch.collect()]
            value = f"{name}.{number}.{tx.id[:8]}"
            seen = lists(tx.table(there).where(f"p = '{part}'"))
            stamp = round(tx.current_timestamp().timestamp() * 1000) if asks else None
            operations = [("partition", there, part, seen), ("append", here, part, log, value)]
            attempt.update(number=number, value=value, stamp=stamp, operations=operations)
            columns = {"p": F.lit(part), "k": F.lit(log), "vs": F.array(F.lit(value))}
            return batch.select(
                *(column.alias(key) for key, column in columns.items()), F.lit(stamp).cast("bigint").alias("at_ms")
            )

        def change(batch: Any, tx: Any) -> None:
            import json
            import os
            import time

            from pyspark.sql import functions as F

            where = f"p = '{other}' AND k = '{row}'"
            seen = [value for _, _, values in lists(tx.table(there).where(where)) for value in values]
            value, stamp = attempt["value"], attempt["stamp"]
            columns = {"p": F.lit(other), "k": F.lit(row), "vs": F.array(F.lit(value))}
            columns["at_ms"] = F.lit(stamp).cast("bigint")
            news = batch.select(*(column.alias(key) for key, column in columns.items())).alias("s")
            merge = tx.table(there).alias("t").merge(news, f"t.p = '{other}' AND t.k = '{row}' AND t.k = s.k")
            merge = merge.whenMatchedUpdate(set={"vs": "concat(t.vs, s.vs)", "at_ms": "s.at_ms"})
            merge.whenNotMatchedInsertAll().execute()
            event = {
                "what": "tries",
                "id": tx.id,
                "client": client,
                "order": told["order"],
                "begin": told["begin"],
                "is_joint": True,
                "has_locks": False,
                "operations": [
                    *attempt["operations"],
                    ("row", there, other, row, seen),
                    ("append", there, other, row, value),
                ],
                "stamps": [] if stamp is None else [stamp],
                "asked": [] if stamp is None else [(stamp, stamp + 1)],
                "files": [],
                "owner_time_ms": round(tx.begun_at.timestamp() * 1000),
                "batch": (name, attempt["number"]),
            }
            to = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.write(to, json.dumps(event).encode() + b"\n")
            os.close(to)
            told.update(begin=time.monotonic_ns() / 1e9, order=told["order"] + 1)

        return {here: append, there: change}
