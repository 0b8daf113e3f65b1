"""The process of one growth case: `python -m benchmarks.scale.growth_cases CASE SIZE DIRECTORY` prints JSON.

The object has seconds by part of the work, and the peaks of memory in MB at the end.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.transactions_work import add, make_tables
from benchmarks.write_work import actions_of
from slackwater.lake.lake import LogLake
from slackwater.owner.api.transactions import Item, LockRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
}
_MERGE_FILES = 200
_SKEW = 4
_PART = 10
_VALUE_BYTES = 1_000_000
_LAST = 20

Seconds = dict[str, float]


@dataclass(frozen=True)
class Case:
    """A work whose size grows: its sizes, what is counted, and the work, which returns seconds by part."""

    sizes: tuple[int, ...]
    unit: str
    work: Callable[[Path, int], Seconds]


def columns(place: Path, size: int) -> Seconds:
    """Append one row to a table of `size` columns, read one column of it, and delete by one."""
    spark = _spark()
    names = [f"c{number}" for number in range(size)]
    frame = spark.range(1).selectExpr(*(f"id + {number} AS {name}" for number, name in enumerate(names)))
    path = str(place / "t")
    parts = {"create": _timed(lambda: frame.write.format("delta").save(path))}
    parts["append"] = _timed(lambda: frame.write.format("delta").mode("append").save(path))
    parts["load"] = _timed(lambda: spark.read.format("delta").load(path).schema)
    parts["where"] = _timed(lambda: spark.read.format("delta").load(path).where(f"{names[-1]} = -1").count())
    parts["delete"] = _timed(lambda: spark.sql(f"DELETE FROM delta.`{path}` WHERE {names[0]} = 0"))
    return parts


def merge_skew(place: Path, size: int) -> Seconds:
    """Merge `size` rows, half of them with keys of one file, into 5 x `size` rows in 200 files."""
    spark = _spark()
    path, rows = str(place / "t"), 5 * size
    target = spark.range(0, rows, 1, _MERGE_FILES).selectExpr("id", "id % 7 AS v", "repeat('x', 20) AS t")
    parts = {"create": _timed(lambda: target.write.format("delta").save(path))}
    crowded = rows // _MERGE_FILES
    few = spark.range(min(crowded, size // 2)).selectExpr("id", "id AS v", "'a' AS t")
    wide = spark.range(size - size // 2).selectExpr(f"{crowded} + id * {_SKEW} AS id", "id AS v", "'b' AS t")
    few.unionAll(wide).createOrReplaceTempView("changes")
    statement = f"MERGE INTO delta.`{path}` t USING changes s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * "
    parts["merge"] = _timed(lambda: spark.sql(statement + "WHEN NOT MATCHED THEN INSERT *"))
    parts["count"] = _timed(lambda: spark.read.format("delta").load(path).where("t <> 'x'").count())
    return parts


def change_feed(place: Path, size: int) -> Seconds:
    """Read the change feed of all of `size` versions, and of the last 20 versions."""
    spark = _spark()
    path = str(place / "t")
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT) TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    spark.range(1).write.format("delta").mode("append").save(path)
    repeat_last_append(path, size - 1)
    reader = spark.read.format("delta").option("readChangeFeed", True)
    parts = {"last 20": _timed(lambda: reader.option("startingVersion", size - _LAST).load(path).count())}
    parts["all"] = _timed(lambda: _require(reader.option("startingVersion", 0).load(path).count(), size))
    return parts


def statements(place: Path, size: int) -> Seconds:
    """Run `size` DML statements in one session; the first and the last tenth of them show a leak."""
    spark = _spark()
    path = str(place / "t")
    spark.range(0, 1000, 1, 4).selectExpr("id", "0 AS v").write.format("delta").save(path)

    def run(first: int, last: int) -> None:
        for number in range(first, last):
            row = number % 1000
            if number % 2:
                spark.sql(f"UPDATE delta.`{path}` SET v = v + 1 WHERE id = {row}")
            else:
                merged = f"MERGE INTO delta.`{path}` t USING (SELECT {row} AS id) s ON t.id = s.id "
                spark.sql(merged + "WHEN MATCHED THEN UPDATE SET v = t.v + 1")

    return _in_tenths(size, run) | _heap(spark)


def micro_batches(place: Path, size: int) -> Seconds:
    """Stream `size` micro-batches of one file each into a table, in one query."""
    spark = _spark()
    source = place / "source"
    spark.range(1).coalesce(1).write.parquet(str(source))
    (first,) = source.glob("*.parquet")
    for number in range(1, size):
        os.link(first, source / f"part-{number:06d}.parquet")
    stream = spark.readStream.schema("id BIGINT").option("maxFilesPerTrigger", 1).parquet(str(source))
    path = str(place / "t")
    writer = stream.writeStream.format("delta").option("checkpointLocation", str(place / "checkpoint"))
    query = writer.trigger(availableNow=True).start(path)
    seconds = _timed(query.awaitTermination)
    _require(spark.read.format("delta").load(path).count(), size)
    batches = [progress["batchDuration"] / 1000 for progress in query.recentProgress]
    return {"a batch": seconds / size, "a late batch": sum(batches[-_PART:]) / _PART} | _heap(spark)


def values(place: Path, size: int) -> Seconds:
    """Write a row with a text of `size` MB, read it, and delete it."""
    spark = _spark()
    path = str(place / "t")
    frame = spark.range(2).selectExpr("id", f"repeat('x', CAST(if(id = 0, {size * _VALUE_BYTES}, 1) AS INT)) AS v")
    parts = {"write": _timed(lambda: frame.write.format("delta").save(path))}
    loaded = spark.read.format("delta").load(path)
    expected = size * _VALUE_BYTES
    parts["read"] = _timed(lambda: _require(loaded.selectExpr("max(length(v))").collect()[0][0], expected))
    parts["where"] = _timed(lambda: _require(loaded.where("v = 'x'").count(), 1))
    parts["delete"] = _timed(lambda: spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 1"))
    return parts


def owner_commits(place: Path, size: int) -> Seconds:
    """Commit `size` times to one table of a lake; the first and the last tenth show growth."""
    with LogLake.open(place / "lake") as lake:
        make_tables(lake, ("t",))
        actions = actions_of(0, size)

        def run(first: int, last: int) -> None:
            for number in range(first, last):
                with lake.transaction() as transaction:
                    add(transaction, "t", actions[number])

        parts = _in_tenths(size, run)
        lake.backfill("t")
        parts["open"] = _timed(lambda: lake.snapshot("t"))
    with LogLake.open(place / "lake") as lake:
        parts["open anew"] = _timed(lambda: lake.snapshot("t"))
        parts["history, 20"] = _timed(lambda: lake.history(_LAST))
    return parts


def locks(place: Path, size: int) -> Seconds:
    """Take `size` partition locks of one table, and one more by another transaction."""
    with LogLake.open(place / "lake") as lake:
        make_tables(lake, ("t",))
        table_id = lake.owner.table("t").table_id

        def take(txn_id: str, names: list[str]) -> None:
            items = [Item(table_id, f"p={name}") for name in names]
            lake.owner.lock(LockRequest(txn_id, 1, items, True, 5.0))

        holder, other = lake.clock.new_id(), lake.clock.new_id()
        parts = {"all": _timed(lambda: take(holder, [str(number) for number in range(size)]))}
        parts["one more"] = _timed(lambda: take(other, ["other"]))
        for txn_id in (holder, other):
            lake.owner.end(txn_id)
    return parts


def tables(place: Path, size: int) -> Seconds:
    """Begin and commit a transaction over two of `size` tables of a lake, list them, and read one as of an instant."""
    with LogLake.open(place / "lake") as lake:
        names = tuple(f"t{number}" for number in range(size))
        parts = {"create one": _timed(lambda: make_tables(lake, names)) / size}
        actions = iter(actions_of(0, 2 * _LAST + 2))

        def change() -> None:
            with lake.transaction() as transaction:
                for name in (names[0], names[-1]):
                    add(transaction, name, next(actions))

        change()
        start = time.perf_counter()
        for _ in range(_LAST):
            change()
        parts["transaction"] = (time.perf_counter() - start) / _LAST
        parts["list"] = _timed(lake.table_names)
        now = lake.owner.cut().timestamp_ms
        parts["as of"] = _timed(lambda: lake.as_of(now).snapshot(names[-1]))
    return parts


CASES: Mapping[str, Case] = {
    "columns": Case((300, 3_000), "columns", columns),
    "merge-skew": Case((100_000, 1_000_000), "source rows", merge_skew),
    "change-feed": Case((1_000, 10_000), "versions", change_feed),
    "statements": Case((50, 500), "statements", statements),
    "micro-batches": Case((100, 1_000), "micro-batches", micro_batches),
    "values": Case((10, 100), "MB a value", values),
    "owner-commits": Case((10_000, 100_000), "commits", owner_commits),
    "locks": Case((1_000, 10_000), "locks", locks),
    "tables": Case((100, 1_000), "tables", tables),
}
"""The cases by name."""


def _spark() -> SparkSession:
    from pyspark.sql import SparkSession

    import slackwater

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]")
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    slackwater.enable(spark)
    spark.range(1000).selectExpr("sum(id)").collect()
    return spark


def repeat_last_append(path: str, times: int) -> None:
    """Append the file of version 1 `times` times in all, each time as a file of its own."""
    log = Path(path, "_delta_log")
    found = [json.loads(text) for text in (log / f"{1:020d}.json").read_text(encoding="utf-8").splitlines()]
    (file,) = [action["add"] for action in found if "add" in action]
    newest = max(int(each.stem) for each in log.glob("0*.json"))
    for version in range(newest + 1, times + 2):
        name = f"part-{version:08d}.parquet"
        os.link(Path(path, file["path"]), Path(path, name))
        info = {"commitInfo": {"timestamp": file["modificationTime"] + version, "operation": "WRITE"}}
        lines = [json.dumps(info), json.dumps({"add": {**file, "path": name}})]
        (log / f"{version:020d}.json").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _in_tenths(size: int, run: Callable[[int, int], None]) -> Seconds:
    tenth = max(1, size // _PART)
    parts = {"one, first tenth": _timed(lambda: run(0, tenth)) / tenth}
    run(tenth, size - tenth)
    parts["one, last tenth"] = _timed(lambda: run(size - tenth, size)) / tenth
    return parts


def _heap(spark: SparkSession) -> Seconds:
    """Return the MB that stay in the JVM's heap after a collection."""
    jvm: Any = spark._jvm
    runtime = jvm.java.lang.Runtime.getRuntime()
    for _ in range(3):
        jvm.java.lang.System.gc()
    return {"peak of the heap at the end": (runtime.totalMemory() - runtime.freeMemory()) / 1e6}


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _require(found: object, expected: object) -> None:
    if found != expected:
        raise ValueError(f"expected {expected}, found {found}")


def _peaks() -> Seconds:
    found = {"peak of Python": _peak_mb(os.getpid())}
    if "pyspark" in sys.modules:
        from pyspark.sql import SparkSession

        spark = SparkSession.getActiveSession()
        if spark is not None:
            jvm: Any = spark._jvm
            found["peak of the JVM"] = _peak_mb(int(jvm.java.lang.ProcessHandle.current().pid()))
    return found


def _peak_mb(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main(arguments: list[str]) -> None:
    """Run one case, and print what it took."""
    name, size, place = arguments
    found = CASES[name].work(Path(place), int(size))
    print(json.dumps(found | _peaks()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
