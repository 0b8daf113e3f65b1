"""What people do in a week takes as few lines as with delta-spark; docs/what-people-do.md says so of each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

from slackwater import DeltaTable
from tests.people.tasks import TASKS, Task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "what-people-do.md"
INTRODUCTION = """\
# What people do in a week

Tasks as they are written for delta-spark, each run by a test that looks at the result, and how many lines it takes.

| task | lines | with delta-spark |
|-|-|-|
"""


def page() -> str:
    """The page that belongs to `TASKS`; `PAGE.write_text(page())` makes it."""
    return INTRODUCTION + "".join(f"| {t.name} | {t.count} | {t.count_of_theirs} |\n" for t in TASKS)


def test_the_page_tells_of_each_task() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_no_task_takes_more_lines_than_with_delta_spark() -> None:
    assert [task.name for task in TASKS if task.count > task.count_of_theirs] == []


@pytest.mark.spark
@pytest.mark.usefixtures("enabled")
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_task_of_a_week_is_done_by_its_lines(spark: SparkSession, path: str, task: Task) -> None:
    rows = spark.createDataFrame([(1, "a", 1), (2, "b", 1), (3, "c", 2)], "id BIGINT, s STRING, p INT")
    news = spark.createDataFrame([(3, "new", 2), (4, "new", 2)], "id BIGINT, s STRING, p INT")
    name = f"week_{TASKS.index(task)}"
    names: dict[str, Any] = {"spark": spark, "path": path, "rows": rows, "news": news, "name": name, "F": F}
    names |= {"DeltaTable": DeltaTable, "Path": Path, **_given_files(Path(path).parent)}
    if not task.fresh:
        builder = DeltaTable.create(spark).location(path).addColumns(rows.schema).partitionedBy("p")
        for key, value in task.properties.items():
            builder = builder.property(key, value)
        builder.execute()
        rows.write.format("delta").mode("append").save(path)
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    try:
        exec(task.lines, names)  # noqa: S102  (lines of this suite)
        assert eval(task.holds, names)  # noqa: S307
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def _given_files(place: Path) -> dict[str, str]:
    texts = {
        "csv": "id,p\n1,1\n2,2\n",
        "json1": '{"a": {"b": 1}}\n',
        "json2": '{"a": {"b": 2, "c": 3}}\n',
    }
    for name, text in texts.items():
        (place / name).write_text(text)
    return {name: str(place / name) for name in texts}
