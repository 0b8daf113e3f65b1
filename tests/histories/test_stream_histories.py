"""Micro-batches of two streaming queries beside concurrent transactions, in one recorded history.

The whole is serializable in the order of its timestamps, and each batch is there once.
Source: docs/guarantees.md.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import slackwater
from tests.histories.checker import dependencies
from tests.histories.contents import PARQUET
from tests.histories.crew import Crew, crew_of
from tests.histories.history import Outcome
from tests.histories.recording import Recorder, Run, events_in
from tests.histories.streamed import Query
from tests.histories.verdicts import faults_of
from tests.histories.workload import Workload
from tests.spark.streams.queries import batches, finished

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Through Connect the batches run elsewhere, by the same functions: the short run has them in one mode.
pytestmark = [pytest.mark.spark, pytest.mark.shared]
TABLES = ("t0", "t1")
_IN_THE_WAY = 3


@pytest.mark.parametrize(
    ("first", "second"), [(1, 1), pytest.param(25, 25, marks=pytest.mark.long)], ids=["short", "long"]
)
def test_micro_batches_and_transactions_have_one_serial_order_and_each_batch_is_there_once(
    spark: SparkSession, tmp_path: Path, first: int, second: int
) -> None:
    slackwater.enable(spark)
    root, record, database = tmp_path / "lake", tmp_path / "record", f"sqlite:///{tmp_path}/owner.db"
    root.mkdir()
    # Each reads what the other one writes.
    queries = [
        Query("even", tmp_path, ("t0", "a"), ("t1", "b"), asks=True),
        Query("odd", tmp_path, ("t1", "a"), ("t0", "b"), asks=False),
    ]
    # A batch takes as long as many of the others' transactions: were those not led, one was always in its way.
    workload = Workload(tables=TABLES, form=PARQUET, is_led=True)
    chance = random.Random(first)  # noqa: S311  (a run is repeated by its seed)
    with crew_of(root, database, workload, record, seed=first) as crew:
        crew.start(2)
        recorder = Recorder(record / "streams.jsonl")
        with slackwater.Lake.open(root, database, spark=spark) as lake:
            for run, (begin, count) in enumerate([(0, first), (first, second)]):
                for query in queries:
                    query.feed(spark, begin, count)
                _beside(crew, chance, [query.start(spark, lake, record, run) for query in queries], record)
                if not run:
                    for query in queries:
                        query.forget_the_last()
        for query in queries:
            assert query.tell_what_is_done(recorder) == list(range(first + second))
        recorder.close()
        crew.stop()
        run_ = crew.run()
    found = faults_of(run_)
    assert not found, f"of {run_.counts}; the record is in {record}:\n" + "\n".join(found)
    _require_each_batch_in_the_logs(root, first + second)
    _require_a_contest(run_, first + second)


def _beside(crew: Crew, chance: random.Random, running: list[Any], record: Path) -> None:
    """Let clients of the crew do some transactions whenever a micro-batch was tried, until the queries end.

    No more of them than a batch can have in its way, and still lands: it is tried 11 times.
    """
    before = _tried(record)
    seen = asked = 0
    while any(query.isActive for query in running):
        tried = _tried(record)[len(before) :]
        if asked == 0 or (len(tried) > seen and asked <= _IN_THE_WAY * len(set(tried))):
            asked += (number := chance.randint(1, 2))
            crew.ask_for(number, chance)
            crew.watch()
        seen = len(tried)
        time.sleep(0.05)
    for query in running:
        finished(query)


def _tried(record: Path) -> list[tuple[str, int]]:
    """The micro-batch of each attempt so far."""
    return [tuple(event["batch"]) for event in events_in(record) if event.get("batch")]


def _require_each_batch_in_the_logs(root: Path, count: int) -> None:
    for table in TABLES:
        of_queries: dict[str, list[int]] = {}
        for query, number in batches(str(root / table)):
            of_queries.setdefault(query, []).append(number)
        assert sorted(of_queries.values()) == [list(range(count))] * 2


def _require_a_contest(run: Run, count: int) -> None:
    """Batches were beside transactions that they depended on, and that depended on them."""
    landed = {t.id for t in run.history.transactions if t.batch is not None and t.versions}
    assert len(landed) == 2 * count
    others = [t for t in run.history.transactions if t.batch is None and t.outcome is Outcome.COMMITTED]
    assert others
    edges = Counter((edge.kind, edge.source in landed, edge.target in landed) for edge in dependencies(run.history))
    across = sum(number for (_, source, target), number in edges.items() if source != target)
    among = sum(number for (kind, source, target), number in edges.items() if source and target and kind != "ww")
    assert across, edges
    assert among >= count, edges
