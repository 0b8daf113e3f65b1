"""Processes of clients that work on one lake until they are told to stop, are killed, or are paused for a while."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import httpx

from slackwater.lake.lake import LogLake
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.served.client.http_owner import HttpOwner
from slackwater.owner.state.clock import OwnerClock
from slackwater.scan.snapshot import Snapshot
from tests.faults.dying_owner import processes
from tests.histories.client_staging import ClientStaging
from tests.histories.history import Outcome
from tests.histories.recording import Recorder, Run, recorded_history
from tests.histories.workload import STAMPED, Client, Workload

PATIENCE_S = 120.0
"""For how long what is sure to come is waited for."""
PAUSE_S = 1.0
"""How long the others are watched while one is paused, if they do nothing because of that."""
BACKFILL_DELAY_S = 0.02
STEP_CHANCE = 0.05


@dataclass(frozen=True)
class Conditions:
    """What a process has to live with; `late_ms` and `drift_ms` are for owners in the process.

    `late_ms`: what its clock is wrong by; `drift_ms`: by how much that changes, now and then, either way. `loss`: the
    share of requests, and of answers, of a served owner that are lost. `settings` are the embedded owner's.
    """

    late_ms: int = 0
    drift_ms: int = 0
    loss: float = 0.0
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class _Member:
    process: BaseProcess
    told: Connection


@dataclass
class Crew:
    """Clients of the lake at `root`; what they write down is in `record`. With `url` the owner is served there."""

    root: Path
    database: str
    workload: Workload
    record: Path
    seed: int
    url: str | None = None
    ends: Counter[str] = field(default_factory=Counter)
    _members: list[_Member] = field(default_factory=list)
    _started: int = 0

    def __post_init__(self) -> None:
        self.record.mkdir()
        owner = EmbeddedOwner.open(self.root, self.database, backfill_delay_s=None)
        with LogLake(owner, owner.root_url) as lake:
            self.workload.create(lake)
        # Not a lake: what this process reads by a path it reads from the file system.
        self._owner: CommitOwner = (
            EmbeddedOwner.open(self.root, self.database, backfill_delay_s=None)
            if self.url is None
            else HttpOwner(self.url, timeout_s=PATIENCE_S)
        )
        self._seen = Recorder(self.record / "watch.jsonl")

    def start(self, number: int, threads: int = 1, conditions: Conditions | None = None) -> None:
        """Let so many more processes begin, with so many clients each."""
        for _ in range(number):
            self._started += 1
            ours, theirs = processes.Pipe()
            where = self.root, self.database, self.url, self.record / f"p{self._started}.jsonl"
            who = f"p{self._started}", threads, f"{self.seed}-{self._started}"
            process = processes.Process(
                target=_work, args=(*where, *who, self.workload, conditions or Conditions(), theirs), daemon=True
            )
            process.start()
            theirs.close()
            self._members.append(_Member(process, ours))

    def let_commit(self, number: int, patience_s: float = PATIENCE_S) -> None:
        """Wait until so many more transactions were committed; with less patience, or until nothing happens so long."""
        self.let_reach(Outcome.COMMITTED.value, self.ends[Outcome.COMMITTED.value] + number, patience_s)

    def let_reach(self, end: str, number: int, patience_s: float = PATIENCE_S) -> None:
        """Wait until so many ended so, of all that began; `patience_s` as above."""
        while self.ends[end] < number:
            ready = wait([member.told for member in self._members], patience_s)
            if not ready and patience_s < PATIENCE_S:
                return
            assert ready, f"seed {self.seed}: no client says anything; the record is in {self.record}"
            for member in self._members:
                if member.told in ready and not self._hear(member):
                    raise AssertionError(f"seed {self.seed}: a client failed; the record is in {self.record}")
            self.watch()

    def ask_for(self, number: int, chance: random.Random) -> None:
        """Let clients of one process, who are led, do so many more transactions."""
        chance.choice(self._members).told.send(number)

    def watch(self) -> None:
        """Note one state of all tables as the owner has it, and one of each table as the file system has it."""
        cut = self._owner.cut()
        self._seen.tell("cut", versions={table.name: table.version for table in cut.tables})
        for name in self.workload.tables:
            snapshot = Snapshot.load(self.root / name, published_only=True)
            paths = snapshot.live_files(["path"])["path"].to_pylist()
            self._seen.tell("sees", table=name, version=snapshot.version, paths=paths)

    def kill(self, chance: random.Random) -> None:
        """End one of the processes with SIGKILL."""
        member = self._members.pop(chance.randrange(len(self._members)))
        member.process.kill()
        self._hear_the_rest(member)
        assert member.process.exitcode == -signal.SIGKILL

    def pause(self, chance: random.Random, commits: int) -> None:
        """Stop one of the processes until the others have committed so often, or cannot; then let it go on."""
        member = chance.choice(self._members)
        pid = member.process.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            self.let_commit(commits, PAUSE_S)
        finally:
            os.kill(pid, signal.SIGCONT)

    def stop(self) -> None:
        """Let all processes end after the transactions that they are at."""
        for member in self._members:
            with suppress(OSError):
                member.told.send(None)
        for member in self._members:
            self._hear_the_rest(member)
        codes = [member.process.exitcode for member in self._members]
        self._members = []
        assert codes == [0] * len(codes), f"seed {self.seed}: ends of {codes}; the record is in {self.record}"

    def run(self) -> Run:
        """What the run left, once all that was ratified is backfilled and the dead are cleared away."""
        self.watch()
        self._owner.close()
        self._seen.close()
        owner = EmbeddedOwner.open(self.root, self.database, backfill_delay_s=None)
        try:
            owner.repair()
            assert owner.repair() == []
        finally:
            owner.close()
        return recorded_history(self.record, self.root, self.workload.tables)

    def close(self) -> None:
        """End all processes that still run."""
        for member in self._members:
            member.process.kill()
            member.process.join()

    def _hear_the_rest(self, member: _Member) -> None:
        while self._hear(member):
            pass
        member.process.join(PATIENCE_S)
        member.told.close()

    def _hear(self, member: _Member) -> bool:
        """One word of a process; whether there was one."""
        try:
            end = member.told.recv()
        except (EOFError, ConnectionResetError):
            return False
        self.ends[end] += 1
        if end == STAMPED:
            self.ends[Outcome.COMMITTED.value] += 1
        return True


@contextmanager
def crew_of(
    root: Path, database: str, workload: Workload, record: Path, seed: int, url: str | None = None
) -> Iterator[Crew]:
    """A crew that does not outlive the context."""
    crew = Crew(root, database, workload, record, seed, url)
    try:
        yield crew
    finally:
        crew.close()


class SteppingClock:
    """The system's clock, wrong by something that changes now and then."""

    def __init__(self, conditions: Conditions, chance: random.Random) -> None:
        self._conditions = conditions
        self._chance = chance
        self._wrong_ms = conditions.late_ms
        self._right = OwnerClock()

    def now_ms(self) -> int:
        drift_ms = self._conditions.drift_ms
        if drift_ms and self._chance.random() < STEP_CHANCE:
            self._wrong_ms = self._conditions.late_ms + self._chance.randint(-drift_ms, drift_ms)
        return self._right.now_ms() + self._wrong_ms


class LossyTransport(httpx.HTTPTransport):
    """Loses some requests before they are sent, and some answers after they were given."""

    def __init__(self, chance: random.Random, loss: float) -> None:
        super().__init__()
        self._chance = chance
        self._loss = loss

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self._chance.random() < self._loss:
            raise httpx.ConnectError("lost on the way", request=request)
        response = super().handle_request(request)
        if self._chance.random() < self._loss:
            response.read()
            response.close()
            raise httpx.ReadError("the answer was lost", request=request)
        return response


def _work(
    root: Path,
    database: str,
    url: str | None,
    record: Path,
    name: str,
    threads: int,
    seed: str,
    workload: Workload,
    conditions: Conditions,
    told: Connection,
) -> None:
    recorder, over, turn = Recorder(record), threading.Event(), threading.Lock()
    chance = random.Random(seed)  # noqa: S311  (a run is repeated by its seed)

    asked = 0

    def is_over() -> bool:
        nonlocal asked
        while True:
            with turn:
                if not over.is_set() and told.poll():
                    more = told.recv()
                    if more is None:
                        over.set()
                    else:
                        asked += more
                if over.is_set():
                    return True
                if not workload.is_led or asked:
                    asked -= workload.is_led
                    return False
            time.sleep(0.01)

    def tell(end: str) -> None:
        with turn:
            told.send(end)

    def run(client: Client) -> None:
        try:
            client.run(is_over, tell)
        finally:
            # Where one of them fails, the process ends.
            over.set()

    with _opened(root, database, url, conditions, chance) as lake:
        clients = [Client(lake, f"{name}.{n}", workload, recorder, f"{seed}-{n}") for n in range(threads)]
        workers = [threading.Thread(target=run, args=(client,)) for client in clients]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


def _opened(root: Path, database: str, url: str | None, conditions: Conditions, chance: random.Random) -> LogLake:
    if url is not None:
        client = httpx.Client(transport=LossyTransport(chance, conditions.loss), trust_env=False)
        return LogLake(HttpOwner(url, timeout_s=PATIENCE_S, client=client), None)
    clock = OwnerClock(SteppingClock(conditions, chance).now_ms, elapsed_ms=lambda: time.monotonic_ns() // 1_000_000)
    settings = {"backfill_delay_s": BACKFILL_DELAY_S, **conditions.settings}
    owner = ClientStaging.open(root, database, clock=clock, **settings)
    return LogLake(owner, owner.root_url)
