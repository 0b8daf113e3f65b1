"""A task of a month: the lines that do it, the lines with delta-spark, and a condition on the result."""

from __future__ import annotations

import datetime
import re
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SAME = "the same"
"""`theirs` of a task that delta-spark does with the same lines."""

FEED = '.property("delta.enableChangeDataFeed", "true")'
_SETTING = re.compile(r'spark\.conf\.set\("([\w.]+)"')


@dataclass(frozen=True)
class Task:
    """A task of a data engineer in the first month.

    The table at `path` has the rows of the frame `rows`, partitioned by `p`, unless the task `is_fresh`. `given` runs
    before the task and is not counted. `lines` do the task. `holds` is an expression that must be true afterwards.
    `theirs` are the lines with delta-spark, `SAME`, or None if delta-spark does not do the task.
    """

    name: str
    lines: str
    holds: str
    given: str = ""
    is_fresh: bool = False
    theirs: str | None = SAME

    @property
    def count(self) -> int:
        """Number of lines with Slackwater."""
        return number_of_lines(self.lines)

    @property
    def their_count(self) -> int | None:
        """Number of lines with delta-spark, None if it does not do the task."""
        return None if self.theirs is None else number_of_lines(self.lines_of_delta_spark)

    @property
    def lines_of_delta_spark(self) -> str:
        """Lines to run with delta-spark. It rejects them if `theirs` is None."""
        return self.lines if self.theirs in (SAME, None) else str(self.theirs)


def number_of_lines(text: str) -> int:
    """Return the number of lines that are not empty."""
    return sum(bool(line.strip()) for line in text.splitlines())


def carry_out(task: Task, lines: str, name: str, spark: Any, folder: Path, table_class: Any) -> bool:
    """Run `lines` of the task in an empty folder, with tables `name…`, and return whether its condition holds."""
    names = _names(spark, folder, name, table_class)
    path, rows = names["path"], names["rows"]
    settings = {key: spark.conf.get(key, None) for key in _SETTING.findall(task.given + lines)}
    with ExitStack() as stack:
        stack.callback(_drop, spark, name)
        for key, value in settings.items():
            stack.callback(spark.conf.unset, key) if value is None else stack.callback(spark.conf.set, key, value)
        stack.callback(lambda: names["lake"].close() if "lake" in names else None)
        if not task.is_fresh:
            rows.write.format("delta").partitionBy("p").save(path)
        for text in (task.given, lines):
            exec(textwrap.dedent(text).strip(), names)  # noqa: S102  (lines of this suite)
        return bool(eval(task.holds, names))  # noqa: S307


def _names(spark: Any, folder: Path, name: str, table_class: Any) -> dict[str, Any]:
    """Names of the lines, and of the conditions: `ids`, `read`, `rejects`."""
    import pandas as pd  # type: ignore[import-untyped]
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    columns = "id BIGINT, s STRING, p INT"
    frames = {
        "rows": spark.createDataFrame([(1, "a", 1), (2, "b", 1), (3, "c", 2)], columns),
        "news": spark.createDataFrame([(3, "new", 2), (4, "new", 2)], columns),
    }
    modules = {"pd": pd, "pa": pa, "F": F, "Path": Path, "datetime": datetime, "ThreadPoolExecutor": ThreadPoolExecutor}
    places = {"folder": str(folder), "path": f"{folder}/table", "out": f"{folder}/out", "name": name}

    def read(path: str, **options: Any) -> Any:
        return spark.read.format("delta").options(**options).load(path)

    helpers = {"ids": ids, "read": read, "rejects": rejects}
    return (
        {"spark": spark, "DeltaTable": table_class, "SparkSession": SparkSession} | frames | modules | places | helpers
    )


def ids(frame: Any) -> list[int]:
    """Return the ids of the rows, sorted."""
    return sorted(row.id for row in frame.collect())


def rejects(write: Callable[[], Any], word: str) -> bool:
    """Return whether the write fails with an error that contains the word."""
    try:
        write()
    except Exception as error:  # noqa: BLE001  (delta-spark raises Py4JJavaError too)
        return word in str(error)
    return False


def _drop(spark: Any, name: str) -> None:
    """Drop the view and the tables that a task may have created."""
    spark.catalog.dropTempView(f"{name}_t")
    spark.sql(f"DROP VIEW IF EXISTS {name}_v")
    for suffix in ("", "_2", "_3"):
        spark.sql(f"DROP TABLE IF EXISTS {name}{suffix}")
