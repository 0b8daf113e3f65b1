"""Servers of a lake's owner that can be killed, and writers that tell what became of each of their commits."""

from __future__ import annotations

import itertools
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from slackwater.errors import CommitOwnerUnavailable, CommitUnknown
from slackwater.lake.lake import LogLake
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.served.server import Binding, OwnerServer
from tests.faults.checked_log import check_log
from tests.faults.dying_owner import OPERATIONS, append, die_at, opened, processes

PATIENCE_S = 120.0
"""For how long what is sure to come is waited for."""


class Server:
    """A served owner of a lake, in a process of its own; it comes back at the same URL."""

    def __init__(self, root: Path, database: str) -> None:
        self._where = root, database
        self._port = 0
        self._process: BaseProcess | None = None
        self.url = ""

    def start(self, operation: str = "", point: str = "") -> None:
        """Serve; with an operation of OPERATIONS and one of its points, until death comes there."""
        ready, theirs = processes.Pipe(duplex=False)
        self._process = processes.Process(target=_serve, args=(*self._where, self._port, operation, point, theirs))
        self._process.start()
        theirs.close()
        assert ready.poll(PATIENCE_S)
        self.url = ready.recv()
        self._port = int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        """End the server with SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self.await_death()

    def await_death(self) -> None:
        """Wait until the server has died."""
        assert self._ended() == -signal.SIGKILL

    def terminate(self) -> None:
        """Let the server end in order."""
        assert self._process is not None
        self._process.terminate()
        assert self._ended() == 0

    def close(self) -> None:
        """End the server if it still runs."""
        if self._process is not None:
            self._process.kill()
            self._ended()

    def _ended(self) -> int | None:
        assert self._process is not None
        self._process.join(PATIENCE_S)
        code = self._process.exitcode
        self._process = None
        return code


@contextmanager
def serving(root: Path, database: str, operation: str = "", point: str = "") -> Iterator[Server]:
    """A server that runs; it does not outlive the context."""
    server = Server(root, database)
    server.start(operation, point)
    try:
        yield server
    finally:
        server.close()


@dataclass
class Writer:
    """A process that appends to one table until it is told to stop, or killed."""

    process: BaseProcess
    told: Connection
    tried: str | None = None
    has_landed: bool = False


@dataclass
class Writers:
    """Many writers of one table, and what they were told: that a commit landed, as which version, or that it did not.

    `doubtful` are the commits of which nobody told anything. Where there is `data`, it is what they write to each file.
    """

    root: Path
    database: str
    name: str
    url: str | None = None
    data: bytes | None = None
    landed: dict[str, int] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    _alive: list[Writer] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def start(self, number: int, **settings: Any) -> None:
        """Let so many more writers begin; `settings` are those of `opened`."""
        for _ in range(number):
            ours, theirs = processes.Pipe()
            where = self.root, self.database, self.name, self.url
            what = f"w{next(self._numbers)}", self.data, theirs, settings
            process = processes.Process(target=_write, args=(*where, *what))
            process.start()
            theirs.close()
            self._alive.append(Writer(process, ours))

    def let_land(self, number: int) -> None:
        """Wait until so many more commits have landed, and at least one of each writer that lives."""
        enough = len(self.landed) + number
        while len(self.landed) < enough or not all(writer.has_landed for writer in self._alive):
            ready = wait([writer.told for writer in self._alive], PATIENCE_S)
            assert ready, "no writer says anything"
            for writer in self._alive:
                if writer.told in ready:
                    self._hear(writer)

    def kill(self, chance: random.Random) -> None:
        """End one of the writers with SIGKILL."""
        writer = self._alive.pop(chance.randrange(len(self._alive)))
        writer.process.kill()
        self._hear_the_rest(writer)
        assert writer.process.exitcode == -signal.SIGKILL
        if writer.tried is not None:
            self.doubtful.add(writer.tried)

    def stop(self) -> None:
        """Let all writers end after the commit that they are at."""
        for writer in self._alive:
            writer.told.send(None)
        for writer in self._alive:
            self._hear_the_rest(writer)
            assert writer.process.exitcode == 0
            assert writer.tried is None
        self._alive = []

    def close(self) -> None:
        """End all writers that still run."""
        for writer in self._alive:
            writer.process.kill()
            writer.process.join()

    def check(self) -> None:
        """The table, all of it backfilled, is what its writers were told."""
        files = check_log(self.root / self.name)
        assert {file: version for version, file in enumerate(files, 1) if file in self.landed} == self.landed
        assert set(files) - self.landed.keys() <= self.doubtful | self.unknown
        assert self.failed.isdisjoint(files)

    def _hear_the_rest(self, writer: Writer) -> None:
        while self._hear(writer):
            pass
        writer.process.join(PATIENCE_S)
        writer.told.close()

    def _hear(self, writer: Writer) -> bool:
        """One word of a writer; whether there was one."""
        try:
            what, file, version = writer.told.recv()
        except EOFError:
            return False
        writer.tried = file if what == "tries" else None
        if what == "landed":
            assert file not in self.landed
            self.landed[file] = version
            writer.has_landed = True
        elif what == "failed":
            self.failed.add(file)
        elif what == "unknown":
            self.unknown.add(file)
        return True


@contextmanager
def writing(
    root: Path, database: str, name: str, url: str | None = None, data: bytes | None = None
) -> Iterator[Writers]:
    """Writers that do not outlive the context."""
    writers = Writers(root, database, name, url, data)
    try:
        yield writers
    finally:
        writers.close()


def _serve(root: Path, database: str, port: int, operation: str, point: str, ready: Connection) -> None:
    if operation:
        die_at(OPERATIONS[operation][1][point])
    owner = EmbeddedOwner.open(root, database, roots=[root])
    OwnerServer(owner, None, Binding(port=port)).run(ready.send)


def _write(
    root: Path,
    database: str,
    name: str,
    url: str | None,
    writer: str,
    data: bytes | None,
    told: Connection,
    settings: dict[str, Any],
) -> None:
    lake = (
        opened(root, database, **{"backfill_delay_s": 0.02, **settings})
        if url is None
        else LogLake.connect(url, timeout_s=2 * PATIENCE_S)
    )
    with lake:
        snapshot = None
        for number in itertools.count():
            if told.poll():
                told.recv()
                return
            file = f"{writer}-{number}"
            told.send(("tries", file, -1))
            try:
                # Some commits move behind those that their writers did not see, others are tried again by them.
                if snapshot is None or number % 4 == 0:
                    snapshot = lake.snapshot(name)
                version = append(snapshot, file, may_move=number % 2 == 0, data=data).version
            except CommitOwnerUnavailable:
                told.send(("failed", file, -1))
            except CommitUnknown:
                told.send(("unknown", file, -1))
            else:
                told.send(("landed", file, version))
