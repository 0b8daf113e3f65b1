"""What commits through an owner cost: against our own filesystem commits, deltalake, and a store that is near."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median, quantiles

from benchmarks.harness import Row, command_of, interleaved, timed
from benchmarks.managed_work import TABLE, append_all, make_table, unbackfilled
from benchmarks.scales import Scale
from benchmarks.write_work import actions_of
from benchmarks.writing import at_once, one_after_another, paths_of, race, require_all, started
from slackwater.lake.lake import LogLake
from slackwater.scan.snapshot import Snapshot
from tests.contract.postgres import PostgresServer

_MODULE = "benchmarks.managed_work"
_FAR_S = 0.06
_RECENT = 100

_Race = tuple[float, list[float]]


def managed_commits(data: Path, scale: Scale) -> list[Row]:
    """Commits of one add, one after another in one process, by an embedded owner on SQLite."""
    count = scale.single_commits
    sides: dict[str, Callable[[], float]] = {
        "managed": partial(_one_after_another, data / "managed", count),
        "filesystem": partial(one_after_another, "ours_appends", data / "commits", count, {}),
    }
    found = interleaved(sides, scale.log_repetitions, 1)
    least = {side: min(runs) / count for side, runs in found.items()}
    work = f"one of {count:,} commits of one add, embedded owner, SQLite"
    return [Row("managed-commits", work, "our filesystem commits", least["managed"], least["filesystem"], 1.5)]


def managed_writers(data: Path, scale: Scale) -> list[Row]:
    """Processes that append to one managed table at the same time, against deltalake on one of the file system."""
    writers, appends = scale.managed_writers, scale.appends
    root, total = data / "managed", scale.managed_writers * scale.appends
    postgres = PostgresServer()
    try:
        postgres.start()
        sides: dict[str, Callable[[], _Race]] = {
            "embedded": partial(_embedded, root, writers, appends),
            "served": partial(_served, root, writers, appends, postgres, 0.0),
            "far": partial(_served, root, writers, appends, postgres, _FAR_S),
            "deltalake": lambda: (at_once("deltalake_appends", data / "writers", writers, appends)[0], []),
        }
        found = interleaved(sides, (scale.log_repetitions + 1) // 2, 0)
    finally:
        postgres.remove()
    seconds = {side: min(run[0] for run in runs) for side, runs in found.items()}
    work = f"{writers} processes × {appends} appends on one table"
    rows = [
        Row("managed-writers", f"{work}: {name}", "deltalake, same", seconds[side], seconds["deltalake"], 0.2,
            note=f"{total / seconds[side]:.0f} commits/s, all {total} landed once in every run")
        for side, name in (("embedded", "embedded owner, SQLite"), ("served", "HTTP, PostgreSQL"))
    ]  # fmt: skip
    for side, name in (("embedded", "embedded owner, SQLite"), ("served", "HTTP, PostgreSQL")):
        ninety_ninth, middle = min((_percentiles(run[1]) for run in found[side]), key=lambda p: p[0] / p[1])
        rows.append(Row("managed-writers", f"p99 of those commits, {name}", "their median", ninety_ninth, middle, 10.0))
    rows.append(
        Row("managed-writers", f"{work}: HTTP, PostgreSQL, every put 60 ms longer", "without", seconds["far"],
            seconds["served"], 2.0, note=f"{total / seconds['far']:.0f} commits/s")
    )  # fmt: skip
    return rows


def managed_open(data: Path, scale: Scale) -> list[Row]:
    """Opening a table whose newest commits are not backfilled."""
    recent, backfilled = data / "managed-recent", data / "managed-backfilled"
    for root in (recent, backfilled):
        shutil.rmtree(root, ignore_errors=True)
        make_table(root)
        with unbackfilled(root) as lake:
            append_all(lake, _RECENT)
    with unbackfilled(backfilled) as lake:
        lake.backfill(TABLE)
    with unbackfilled(recent) as lake, unbackfilled(backfilled) as other:
        sides = {"recent": partial(_opened, lake), "backfilled": partial(_opened, other)}
        found = interleaved(sides, 5 * scale.log_repetitions, 3)
    least = {side: min(runs) for side, runs in found.items()}
    return [
        Row("managed-open", f"open a table with {_RECENT} commits that are not backfilled", "the same, backfilled",
            least["recent"], least["backfilled"], 1.2)
    ]  # fmt: skip


MANAGED_CASES = {
    "managed-commits": managed_commits,
    "managed-writers": managed_writers,
    "managed-open": managed_open,
}
"""The cases of managed tables, by name."""


def _one_after_another(root: Path, count: int) -> float:
    """Seconds for `count` commits to a new table."""
    shutil.rmtree(root, ignore_errors=True)
    table = make_table(root)
    with LogLake.open(root) as lake:
        seconds, _ = timed(partial(append_all, lake, count))
    require_all(table, [action["path"] for action in actions_of(0, count)])
    shutil.rmtree(root)
    return seconds


def _embedded(root: Path, writers: int, appends: int) -> _Race:
    shutil.rmtree(root, ignore_errors=True)
    table = make_table(root)
    return _raced(table, root, "embedded", str(root), writers, appends)


def _served(root: Path, writers: int, appends: int, postgres: PostgresServer, delay_s: float) -> _Race:
    shutil.rmtree(root, ignore_errors=True)
    database = postgres.new_database()
    table = make_table(root, database)
    with _server(root, database, delay_s) as url:
        return _raced(table, root, "served", url, writers, appends)


def _raced(table: Path, root: Path, side: str, where: str, writers: int, appends: int) -> _Race:
    seconds, said = race([command_of(_MODULE, side, where, writer, appends) for writer in range(writers)])
    latencies = [latency for line in said for latency in json.loads(line)]
    with _backfilled(root, where):
        require_all(table, paths_of(writers, appends))
    return seconds, latencies


@contextmanager
def _backfilled(root: Path, where: str) -> Iterator[None]:
    """All that was committed is in the log."""
    with LogLake.connect(where) if where.startswith("http") else LogLake.open(root) as lake:
        lake.backfill(TABLE)
        yield


@contextmanager
def _server(root: Path, database: str, delay_s: float) -> Iterator[str]:
    """The URL of a served owner in a process of its own."""
    with started([command_of(_MODULE, "server", root, database, delay_s)]) as (process,):
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()
        process.wait()


def _opened(lake: LogLake) -> float:
    """Seconds to open the newest version, when the owner is known."""
    seconds, snapshot = timed(partial(lake.snapshot, TABLE))
    assert isinstance(snapshot, Snapshot)
    assert snapshot.version == _RECENT, os.fspath(snapshot.store.root_url)
    return seconds


def _percentiles(latencies: list[float]) -> tuple[float, float]:
    """The 99th percentile and the median."""
    return quantiles(latencies, n=100)[98], median(latencies)
