"""What people do in a week, by the lines that they know from delta-spark; docs/what-people-do.md says so of each.

That delta-spark does the same by the same lines is held by tests/interop/test_tasks.py. The tasks of a month run in
tests/spark/test_monthly_tasks.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from slackwater import DeltaTable
from tests.people import test_mistakes_of_changes, test_mistakes_of_reads, test_mistakes_of_writes
from tests.people.tasks import TASKS, Task, carry_out
from tests.spark.monthly.task import SAME
from tests.spark.monthly.task import Task as MonthlyTask
from tests.spark.monthly.tasks import TASKS as MONTHLY_TASKS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "what-people-do.md"
INTRODUCTION = """\
# What people do in a week

This page lists common tasks, written for delta-spark. A test runs each task with Slackwater and checks its result.
Another test runs the same lines with delta-spark. The column *lines* is the number of lines of code.

| task | lines | by delta-spark |
|-|-|-|
"""
OF_A_MONTH = """
## What people do in the first month

These tasks take more steps, with Slackwater and with delta-spark 4.4. Tests run them in both.

| task | lines | by delta-spark |
|-|-|-|
"""
MISTAKES = """
## What people get wrong

Tests also make common mistakes: in reads, writes, changes of rows, lakes, Python without Spark, missing permissions.
Each mistake raises an error with one sentence. The sentence names the problem, its location and the remedy. Nothing is
written.

Spark itself reports the following mistakes, in its own words. It detects them before it calls Slackwater, or while its
tasks cast a value:

"""
MODULES = (test_mistakes_of_reads, test_mistakes_of_writes, test_mistakes_of_changes)


def page() -> str:
    """The page that belongs to `TASKS`; `PAGE.write_text(page())` makes it."""
    theirs = [mistake.name for module in MODULES for mistake in module.MISTAKES if mistake.of_spark]
    monthly = (f"| {task.name} | {task.count} | {_lines_of_delta_spark(task)} |\n" for task in MONTHLY_TASKS)
    parts = INTRODUCTION, *map(_row, TASKS), OF_A_MONTH, *monthly, MISTAKES, *(f"- {name}\n" for name in theirs)
    return "".join(parts)


def _lines_of_delta_spark(task: MonthlyTask) -> str:
    if task.theirs == SAME:
        return "the same"
    return "not possible" if task.their_count is None else f"{task.their_count}, other lines"


def _row(task: Task) -> str:
    return f"| {task.name} | {task.count} | {'the same' if task.by_delta_spark else 'refused'} |\n"


def test_the_page_tells_of_each_task() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.spark
@pytest.mark.usefixtures("enabled")
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_task_of_a_week_is_done_by_its_lines(spark: SparkSession, path: str, task: Task) -> None:
    assert carry_out(task, spark, path, DeltaTable)
