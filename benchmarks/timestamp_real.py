"""`python -m benchmarks --only timestamps-real`: the transactions of the model, run for real, beside its figures.

The owner is embedded, on SQLite; each client is a thread that sleeps where the model's clients would work. Everything
takes `STRETCH` times as long as in the model, so that the owner's own work, which the model has none of, is as little
of it as if each client had a processor.
"""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.harness import Row, interleaved
from benchmarks.log_tables import METADATA
from benchmarks.scales import FULL, Scale
from benchmarks.timestamp_clients import Attempt, Session, Shelf
from benchmarks.timestamp_curves import DOCS, markdown_table, percent, with_table
from benchmarks.timestamp_grid import BASE, HOLD, LEAST_THROUGHPUT, MOST_STAMP_ABORTS, Runs
from benchmarks.timestamp_history import Committed, require_order
from benchmarks.timestamp_policies import EXACT, Policy
from benchmarks.timestamp_workload import Work, Workload, works
from slackwater.lake.lake import LogLake
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.state.read_timestamps import DEFAULT_SLOTS

_PAGE = "timestamp-curves.md"
STRETCH = 4
"""How much longer transactions, and the thinking between them, take than in the model."""

_SECONDS, _QUICK_SECONDS = 15.0, 0.5
_ROUNDS = 2
_MODEL_COMMITS, _QUICK_COMMITS = 4800, 40
_BACKOFF_S = 0.02
_PRECISIONS = {1: "ms", 1000: "s"}


@dataclass(frozen=True, slots=True)
class Setting:
    """What is asked, and what the owner does about it."""

    early: float
    precision_ms: int = 1
    slots: int = DEFAULT_SLOTS
    is_declared: bool = False
    ahead_ms: int = 0

    def workload(self, base: Workload) -> Workload:
        """Its transactions, in the model's time."""
        return replace(base, early=self.early, precision_ms=max(1, self.precision_ms // STRETCH))

    @property
    def policy(self) -> Policy:
        """What the model calls it."""
        kept = HOLD if self.is_declared else EXACT
        return replace(kept, slots=self.slots, ahead_ms=self.ahead_ms / STRETCH)

    @property
    def told(self) -> str:
        """What is declared, and how far ahead of the clock the answer is."""
        ahead = f"ahead {self.ahead_ms} ms" if self.ahead_ms else ""
        return " + ".join(filter(None, ("declared" if self.is_declared else "", ahead))) or "-"


LATE, EARLY = Setting(0.0), Setting(0.5)
DECLARED = replace(EARLY, is_declared=True)
DECIDING = (LATE, EARLY, DECLARED)
SETTINGS = (
    LATE,
    *(Setting(early, slots=slots) for early in (0.5, 1.0) for slots in (DEFAULT_SLOTS, 64, 1)),
    *(Setting(early, precision_ms=1000) for early in (0.5, 1.0)),
    *(Setting(early, is_declared=True) for early in (0.5, 1.0)),
    Setting(0.5, ahead_ms=200),
    Setting(0.5, is_declared=True, ahead_ms=200),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of some runs: how attempts ended, by `commit`, `stamp` and `read`, and how many seconds there were.

    `late_s`: for each attempt that committed, how much longer it took than it was to take.
    """

    counts: Counter[str]
    seconds: float
    late_s: Sequence[float]

    @property
    def throughput(self) -> float:
        """Commits per second."""
        return self.counts["commit"] / self.seconds

    def share(self, reason: str) -> float:
        """Of all attempts those that ended so."""
        return self.counts[reason] / max(1, self.counts.total())


def timestamps_real(data: Path, scale: Scale) -> list[Row]:
    """Real runs of the model's transactions; at full scale their table in docs is made anew."""
    is_full = scale is FULL
    workload = BASE if is_full else replace(BASE, tables=8, clients=scale.managed_writers)
    settings = SETTINGS if is_full else DECIDING
    seconds, rounds = (_SECONDS, _ROUNDS) if is_full else (_QUICK_SECONDS, 1)
    found = real_runs(data / "timestamps-real", workload, settings, seconds, rounds)
    if is_full:
        runs = Runs(_MODEL_COMMITS)
        page = DOCS / _PAGE
        page.write_text(with_table(page.read_text(encoding="utf-8"), "real", _compared(found, runs)), encoding="utf-8")
    late, early, held = (found[setting] for setting in DECIDING)
    work = f"{workload.tables} tables, {EARLY.early:.0%} ask early at ms, {workload.clients} threads"
    return [
        Row("timestamps-real", f"{work}: aborts for want of a stamp, declared", "",
            100 * held.share("stamp"), None, 100 * MOST_STAMP_ABORTS, unit="%",
            note=f"undeclared {early.share('stamp'):.1%}, declared {held.share('stamp'):.1%}"),
        Row("timestamps-real", f"{work}: time of a commit, declared", "late choosers",
            1 / max(held.throughput, 1e-9), 1 / max(late.throughput, 1e-9), 1 / LEAST_THROUGHPUT,
            note=f"{held.throughput:.0f} and {late.throughput:.0f} commits/s"),
    ]  # fmt: skip


def real_runs(
    root: Path, workload: Workload, settings: Sequence[Setting], seconds: float, rounds: int
) -> dict[Setting, Outcome]:
    """What `rounds` runs of so many seconds find for each of `settings`, which take turns, on tables below `root`.

    Raises OrderViolated where the timestamps of what committed and its dependencies disagree.
    """
    shutil.rmtree(root, ignore_errors=True)
    names = [f"t{number}" for number in range(workload.tables)]
    with LogLake.open(root) as lake:
        for name in names:
            lake._create_log(name, METADATA["schemaString"], METADATA["partitionColumns"])
    sides = {
        str(number): partial(_run, root, names, setting, setting.workload(workload), seconds)
        for number, setting in enumerate(settings)
    }
    found = interleaved(sides, rounds, 0)
    shutil.rmtree(root)
    return {
        setting: Outcome(
            sum((counts for counts, _ in found[str(number)]), Counter()),
            rounds * seconds,
            [late_s for _, run in found[str(number)] for late_s in run],
        )
        for number, setting in enumerate(settings)
    }


def _run(
    root: Path, names: list[str], setting: Setting, workload: Workload, seconds: float
) -> tuple[Counter[str], list[float]]:
    """How the attempts of one run ended, and how late."""
    owner = EmbeddedOwner.open(root, read_slots=setting.slots, backfill_delay_s=None)
    try:
        shelf = Shelf.of(owner, names)
        end = time.monotonic() + seconds
        clients = [_Client(shelf, setting, workload, number, end) for number in range(workload.clients)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        # The next run begins with every commit in the log.
        for table_id in shelf.table_ids:
            owner.backfill_to_version(table_id)
    finally:
        owner.close()
    for client in clients:
        if client.error is not None:
            raise client.error
    require_order([one for client in clients for one in client.history])
    late_s = [late_s for client in clients for late_s in client.late_s]
    return sum((client.counts for client in clients), Counter()), late_s


class _Client(threading.Thread):
    """A client in a closed loop until `end`; what it began before is finished, and not counted."""

    def __init__(self, shelf: Shelf, setting: Setting, workload: Workload, number: int, end: float) -> None:
        super().__init__(daemon=True)
        self.counts: Counter[str] = Counter()
        self.history: list[Committed] = []
        self.late_s: list[float] = []
        self.error: BaseException | None = None
        self._shelf, self._setting, self._workload, self._end = shelf, setting, workload, end
        self._works = works(workload, 1000 + number)
        self._rng = random.Random(number)  # noqa: S311 - a simulation

    def run(self) -> None:
        try:
            time.sleep(0.1 * self._rng.random())
            while time.monotonic() < self._end:
                work = next(self._works)
                work = replace(work, duration_ms=STRETCH * work.duration_ms, think_ms=STRETCH * work.think_ms)
                self._commit(work)
                time.sleep(min(work.think_ms / 1000, max(0.0, self._end - time.monotonic())))
        except BaseException as error:  # noqa: BLE001 - raised by whoever waits for the thread
            self.error = error

    def _commit(self, work: Work) -> None:
        for number in range(1, self._workload.attempts + 1):
            outcome = self._attempt(work)
            if time.monotonic() >= self._end:
                return
            self.counts[outcome] += 1
            if outcome == "commit":
                return
            time.sleep(self._rng.random() * STRETCH * _BACKOFF_S * number)

    def _attempt(self, work: Work) -> str:
        attempt = Attempt(Session(self._shelf, self._setting.is_declared, self._setting.ahead_ms), work)
        outcome = attempt.run(_PRECISIONS[self._setting.precision_ms])
        if attempt.committed is not None:
            done = attempt.committed
            self.history.append(done)
            self.late_s.append(done.acknowledged - done.began - work.duration_ms / 1000)
        return outcome


def _compared(found: dict[Setting, Outcome], runs: Runs) -> str:
    """Each setting as it was found, beside what the model says of it."""
    late = found[LATE].throughput
    rows = []
    for setting, outcome in found.items():
        workload, policy = setting.workload(BASE), setting.policy
        model = runs.of(workload, policy)
        asks = [f"{setting.early:.0%}", _PRECISIONS[setting.precision_ms]] if setting.early else ["0%", "-"]
        rows.append([
            *asks, str(setting.slots), setting.told,
            percent(outcome.share("stamp")), percent(model.stamp_share),
            percent(outcome.share("read")), percent(model.conflict_share),
            f"{outcome.throughput / late:.2f}", f"{runs.relative(workload, policy):.2f}",
            f"{1000 * median(outcome.late_s):.0f}",
        ])  # fmt: skip
    heads = ["ask early", "at", "slots", "told", "stamp aborts", "model", "conflicts", "model", "throughput", "model",
             "late ms"]  # fmt: skip
    return markdown_table(heads, rows)
