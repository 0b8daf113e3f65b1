"""What transactions over many tables cost: against commits to one table each, and from many clients at once."""

from __future__ import annotations

import itertools
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.harness import Row, command_of, interleaved, timed
from benchmarks.managed_work import append
from benchmarks.scales import Scale
from benchmarks.timestamp_real import timestamps_real
from benchmarks.transactions_work import TABLES, add, make_tables, paths_of
from benchmarks.write_work import actions_of
from benchmarks.writing import CommitsLost, race, started
from slackwater.lake.lake import LogLake
from tests.contract.postgres import PostgresServer

_MODULE = "benchmarks.transactions_work"
_THREADS = 4
_MOST_S = 0.01
_MANY = 100
_ROUND = 20
_AS_OF_ROUND = 20
_CHANGED_EVERY = 2
_SERVED = {
    "appends": f"two blind appends, {len(TABLES)} tables",
    "hot": "two blind appends, everybody the same two tables",
    "mixed": f"two appends, half of the transactions read a third of {len(TABLES)} tables",
    "requests": f"two blind appends, {len(TABLES)} tables, straight to the owner",
}
_UNMARKED = ("hot",)


def transactions_two(data: Path, scale: Scale) -> list[Row]:
    """One after another in one process: a file for each of two tables in one transaction, or in a commit each."""
    count = min(_ROUND, scale.appends)
    root = data / "transactions"
    shutil.rmtree(root, ignore_errors=True)
    repetitions = 3 * scale.log_repetitions
    with LogLake.open(root) as lake:
        pair = _Pairs(lake, iter(actions_of(0, 10 * count * (repetitions + 2))))
        sides = {
            "transaction": partial(pair.drained, pair.in_transaction, count),
            "known": partial(pair.drained, pair.on_known, count),
            "opened": partial(pair.drained, pair.opening, count),
        }
        found = interleaved(sides, repetitions, 1)
        rounds = count * (repetitions + 1)
        versions = {name: lake.snapshot(name).version for name in _Pairs.names}
    if versions != dict.fromkeys(_Pairs.names, rounds):
        raise CommitsLost(f"each of the tables was to have {rounds} commits: {versions}")
    least = {side: min(runs) / count for side, runs in found.items()}
    work = "a transaction over two tables, one file each, embedded owner, SQLite"
    middles = ", ".join(f"{side} {1000 * median(runs) / count:.1f} ms" for side, runs in found.items())
    note = f"medians of {repetitions} rounds: {middles}"
    return [
        Row("transactions-two", work, "two commits, each on the version that the one before made",
            least["transaction"], least["known"], 1.5, note=note),
        Row("transactions-two", work, "two commits, opening the table each time, as the transaction does",
            least["transaction"], least["opened"]),
    ]  # fmt: skip


class _Pairs:
    """Two tables for each way to add a file to both."""

    names = ("joint-a", "joint-b", "known-a", "known-b", "opened-a", "opened-b")

    def __init__(self, lake: LogLake, actions: Iterator[dict[str, Any]]) -> None:
        make_tables(lake, self.names)
        self._lake, self._actions = lake, actions
        self._known = {name: lake.snapshot(name) for name in self.names}

    def drained(self, work: Callable[[], None], count: int) -> float:
        """Seconds for so many times `work`; what is to be backfilled afterwards is nobody else's time."""
        seconds, _ = timed(lambda: [work() for _ in range(count)])  # type: ignore[func-returns-value]
        for name in self.names:
            self._lake.backfill(name)
        return seconds

    def in_transaction(self) -> None:
        with self._lake.transaction() as transaction:
            for name in self.names[:2]:
                add(transaction, name, next(self._actions))

    def on_known(self) -> None:
        for name in self.names[2:4]:
            self._known[name] = append(self._known[name], next(self._actions)).snapshot

    def opening(self) -> None:
        for name in self.names[4:]:
            append(self._lake.snapshot(name), next(self._actions))


@dataclass(frozen=True)
class _Race:
    """Transactions of all clients: the time until all were done, of each, and how many were run again."""

    seconds: float
    latencies: Sequence[float]
    again: int

    @property
    def rate(self) -> float:
        """Transactions per second."""
        return len(self.latencies) / self.seconds

    @property
    def percentiles(self) -> tuple[float, float]:
        """The 99th percentile and the median."""
        return quantiles(self.latencies, n=100)[98], median(self.latencies)


def transactions_served(data: Path, scale: Scale, works: Sequence[str] = tuple(_SERVED)) -> list[Row]:
    """Clients in some processes, their owner in another, on PostgreSQL; `works` are of those of `_SERVED`."""
    clients = scale.managed_writers
    processes = max(1, clients // _THREADS)
    postgres = PostgresServer()
    try:
        postgres.start()
        sides: dict[str, Callable[[], _Race]] = {
            work: partial(_raced, data / "transactions-served", postgres, work, processes, clients // processes, scale)
            for work in works
        }
        found = interleaved(sides, (scale.log_repetitions + 1) // 2, 0)
    finally:
        postgres.remove()
    rows = []
    for work in works:
        best = max(found[work], key=lambda run: run.rate)
        rates = ", ".join(f"{run.rate:.0f}" for run in found[work])
        rows.append(
            Row("transactions-served", f"{_SERVED[work]}: a transaction, {clients} clients, HTTP, PostgreSQL", "",
                1 / best.rate, None, None if work in _UNMARKED else _MOST_S,
                note=f"{rates} transactions/s, {best.again} run again")
        )  # fmt: skip
    for work in works:
        ninety_ninth, middle = min((run.percentiles for run in found[work]), key=lambda p: p[0] / p[1])
        rows.append(Row("transactions-served", f"{_SERVED[work]}: p99", "their median", ninety_ninth, middle, 10.0))
    return rows


def _raced(root: Path, postgres: PostgresServer, work: str, processes: int, clients: int, scale: Scale) -> _Race:
    """So many processes of so many clients; every file that they add lands once."""
    shutil.rmtree(root, ignore_errors=True)
    count = scale.appends
    with _served(root, postgres.new_database(), TABLES) as url:
        commands = [command_of(_MODULE, work, url, process, clients, count) for process in range(processes)]
        seconds, said = race(commands)
        with LogLake.connect(url) as lake:
            landed = Counter(
                path for name in TABLES for path in lake.snapshot(name).files(columns=["path"])["path"].to_pylist()
            )
    expected = Counter(path for process in range(processes) for path in paths_of(process, clients, count))
    if landed != expected:
        raise CommitsLost(f"{work}: {expected.total()} files were added, {landed.total()} are there, or others")
    shutil.rmtree(root)
    found = [json.loads(line) for line in said]
    return _Race(seconds, [s for one in found for s in one["seconds"]], sum(one["again"] for one in found))


def as_of(data: Path, scale: Scale, many: int = _MANY) -> list[Row]:
    """All of `many` tables of a lake at an instant that was asked for before, or at the newest one."""
    postgres = PostgresServer()
    try:
        postgres.start()
        with ExitStack() as stack:
            lakes = {
                (access, tables): stack.enter_context(_lake_of(data / "as-of", access, tables, postgres))
                for access in ("embedded", "served")
                for tables in (many, 1)
            }
            rows = [row for access in ("embedded", "served") for row in _as_of_rows(access, many, lakes, scale)]
    finally:
        postgres.remove()
    return rows


def _as_of_rows(access: str, many: int, lakes: dict[tuple[str, int], LogLake], scale: Scale) -> list[Row]:
    sides = {}
    for tables in (many, 1):
        lake = lakes[access, tables]
        # Between the versions of every table that has two.
        before_ms = min(t.timestamp_ms or 0 for t in lake.owner.cut().tables if (t.version or 0) > 0) - 1
        sides[f"past {tables}"] = partial(_sliced, lake, itertools.repeat(before_ms))
        sides[f"new {tables}"] = partial(_sliced, lake, _now_ms(lake))
    found = interleaved(sides, 3 * scale.log_repetitions, 1)
    least = {side: min(runs) for side, runs in found.items()}
    where = {"embedded": "embedded owner, SQLite", "served": "HTTP, PostgreSQL"}[access]
    return [
        Row("as-of", f"as_of over {many} tables, {name}, {where}", "the same, over one table",
            least[f"{kind} {many}"], least[f"{kind} 1"], 3.0)
        for kind, name in (("past", "an instant asked for before"), ("new", "the newest instant"))
    ]  # fmt: skip


def _sliced(lake: LogLake, instants: Iterator[int]) -> float:
    """Seconds of one `as_of` among some, which tells the versions of all tables."""

    def work() -> None:
        for at_ms in itertools.islice(instants, _AS_OF_ROUND):
            lake.as_of(at_ms)

    return timed(work)[0] / _AS_OF_ROUND


def _now_ms(lake: LogLake) -> Iterator[int]:
    """Instants of which none was asked for before."""
    previous = 0
    while True:
        now_ms = lake.owner.cut().timestamp_ms
        if now_ms > previous:
            previous = now_ms
            yield now_ms


@contextmanager
def _lake_of(below: Path, access: str, tables: int, postgres: PostgresServer) -> Iterator[LogLake]:
    """A lake of so many tables, of which every other has a second version."""
    root = below / f"{access}-{tables}"
    shutil.rmtree(root, ignore_errors=True)
    names = tuple(f"t{number}" for number in range(tables))
    if access == "served":
        with _served(root, postgres.new_database(), names) as url, LogLake.connect(url) as lake:
            _change(lake, names)
            yield lake
    else:
        with LogLake.open(root) as lake:
            make_tables(lake, names)
            _change(lake, names)
            yield lake
    shutil.rmtree(root)


def _change(lake: LogLake, names: Sequence[str]) -> None:
    for name, action in zip(names[::_CHANGED_EVERY], actions_of(0, len(names)), strict=False):
        append(lake.snapshot(name), action)
        lake.backfill(name)


@contextmanager
def _served(root: Path, database: str, names: tuple[str, ...]) -> Iterator[str]:
    """The URL of a lake with these tables, its owner in a process of its own."""
    with LogLake.open(root, database) as lake:
        make_tables(lake, names)
    with started([command_of("benchmarks.managed_work", "server", root, database, 0.0)]) as (process,):
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()
        process.wait()


TRANSACTION_CASES = {
    "transactions-two": transactions_two,
    "transactions-served": transactions_served,
    "as-of": as_of,
    "timestamps-real": timestamps_real,
}
"""The cases of transactions over many tables, by name."""
