"""What a query, a statement and a change feed cost as a table grows: jobs and bytes are counted, not seconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from py4j.clientserver import JavaClient
from pyspark.sql import SparkSession

import slackwater
from benchmarks.scale.growth_cases import repeat_last_append
from benchmarks.scale.tables import ROWS, many_files
from slackwater.spark.read.load import load

pytestmark = [pytest.mark.spark, pytest.mark.classic]

FILES = 300
"""More than the number up to which a frame lists its files when it is made."""


@pytest.fixture(autouse=True)
def _enabled(spark: SparkSession) -> None:
    slackwater.enable(spark)


@pytest.fixture
def sent(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], tuple[int, int]]:
    """Returns how many commands a work sends to the JVM, and their bytes."""
    found: list[int] = []
    original = JavaClient.send_command

    def counting(self: Any, command: str, *args: Any, **kwargs: Any) -> Any:
        # Python detaches objects of the JVM whenever it collects garbage.
        if not command.startswith("m\n"):
            found.append(len(command))
        return original(self, command, *args, **kwargs)

    monkeypatch.setattr(JavaClient, "send_command", counting)

    def count(work: Callable[[], Any]) -> tuple[int, int]:
        found.clear()
        work()
        return len(found), sum(found)

    return count


@pytest.fixture
def jobs(spark: SparkSession) -> Callable[[Callable[[], Any]], int]:
    """Returns the number of Spark jobs of a work."""

    def count(work: Callable[[], Any]) -> int:
        context = spark.sparkContext
        tag = f"growth-{id(work)}"
        context.addJobTag(tag)
        try:
            work()
        finally:
            context.removeJobTag(tag)
        jvm: Any = context._jsc.sc()
        jvm.listenerBus().waitUntilEmpty()
        return len(jvm.statusTracker().getJobIdsForTag(tag))

    return count


@pytest.mark.parametrize("columns", [["*"], ["id", "upper(v) AS v"]], ids=["the table", "above a projection"])
def test_a_selective_query_sends_as_much_to_the_jvm_for_ten_times_the_files(
    spark: SparkSession, tmp_path: Path, sent: Callable[[Callable[[], Any]], tuple[int, int]], columns: list[str]
) -> None:
    found = []
    for files in (FILES, 10 * FILES):
        path = tmp_path / str(files)
        many_files(path, files)

        def query(at: Path = path) -> int:
            return load(spark, str(at)).selectExpr(*columns).where(f"id BETWEEN {7 * ROWS} AND {9 * ROWS}").count()

        query()
        found.append(sent(query))
    (commands, size), (more_commands, more_size) = found
    assert more_commands <= commands + 5
    assert more_size <= 1.1 * size


def test_a_change_feed_runs_as_many_jobs_for_ten_times_the_versions(
    spark: SparkSession, tmp_path: Path, jobs: Callable[[Callable[[], Any]], int]
) -> None:
    path = str(tmp_path / "t")
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    spark.range(1).coalesce(1).write.format("delta").mode("append").save(path)
    found = []
    for versions in (5, 50):
        repeat_last_append(path, versions)

        def read(expected: int = versions + 1) -> None:
            feed = spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", 0)
            assert feed.load(path).count() == expected

        found.append(jobs(read))
    assert 0 < found[1] <= found[0]


def test_a_statement_sends_as_much_to_the_jvm_after_many_others(
    spark: SparkSession, tmp_path: Path, sent: Callable[[Callable[[], Any]], tuple[int, int]]
) -> None:
    path = str(tmp_path / "t")
    spark.range(0, 40, 1, 2).selectExpr("id", "0 AS v").write.format("delta").save(path)

    def update() -> None:
        spark.sql(f"UPDATE delta.`{path}` SET v = v + 1 WHERE id = 3")

    found = [sent(update) for _ in range(12)]
    # The first ones learn what the session can do.
    assert found[-1][0] <= found[2][0] + 5
    assert found[-1][1] <= 1.1 * found[2][1]
