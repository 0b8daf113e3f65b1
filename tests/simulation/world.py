"""A simulated world: processes with the real owner on one real database, their clocks, their stores, and their faults.

Nothing in it is by chance but by the `Random` of its seed, and nothing waits: time is what the scheduler makes it.
"""

from __future__ import annotations

import os
import shutil
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import orjson
from sqlalchemy.exc import OperationalError

from slackwater.errors import CommitOwnerUnavailable, ObjectNotFound
from slackwater.owner.api.commits import OwnershipProposal
from slackwater.owner.api.granules import granule
from slackwater.owner.api.transactions import TableVersion
from slackwater.owner.database.database import Database
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.state import clock
from slackwater.owner.state.clock import OwnerClock
from slackwater.owner.state.commit_content import timestamp_of
from slackwater.owner.time import timestamp_requests
from slackwater.protocol.actions.file_names import commit_path
from tests.contract.owners import PROTOCOL, START_MS, metadata
from tests.histories.history import Item, Values
from tests.simulation.stores import SimulatedPlaces, SimulatedStore

ROOT = "memory://simulation"
PARTITIONS = ("a", "b", "c")
KEYS = (0, 1)
TABLES = ("orders", "stock", "audit")
HERE, ELSEWHERE = socket.gethostname(), "elsewhere"

_NO_PID = 100_000_000
_SCHEMA = '{"type":"struct","fields":[{"name":"p","type":"string","nullable":true,"metadata":{}}]}'

T = TypeVar("T")
DatabaseT = TypeVar("DatabaseT", bound=Database)
Lists = dict[Item, Values]


@dataclass(frozen=True, slots=True)
class Settings:
    """What a world is like: how many there are, how likely something is, 0 to 1, and what the owner is set to.

    The world's time is short: what takes minutes or hours elsewhere takes less than seconds in it.
    """

    tables: int
    processes: int
    clients: int
    transactions: int
    asks: float
    locks: float
    lone: float
    reads: float
    contention: float
    slices: float
    faults: float
    jumps: float
    crashes: float
    joins: float
    backfills: float
    is_quick: bool
    read_slots: tuple[int, ...]
    rows_kept: int
    lease_ms: int
    read_kept_ms: int
    asked_lease_ms: int

    @staticmethod
    def drawn(random: Random) -> Settings:
        """Each world stresses something else: what is drawn for all at once would hide what is rare."""
        read_kept_ms, asked_lease_ms = random.choice([(5, 20), (5, 20), (300, 2000), (600_000, 3_600_000)])
        return Settings(
            tables=random.choice([2, 2, 3]),
            processes=random.choice([1, 2, 3]),
            clients=random.choice([3, 4, 6]),
            transactions=random.choice([2, 3, 4]),
            asks=random.choice([0.2, 0.6, 0.9]),
            locks=random.choice([0.0, 0.0, 0.3, 0.8]),
            lone=random.choice([0.0, 0.1, 0.4]),
            reads=random.choice([0.3, 0.6]),
            contention=random.choice([0.3, 0.8]),
            slices=random.choice([0.0, 0.01, 0.04]),
            faults=random.choice([0.0, 0.0, 0.01, 0.03]),
            jumps=random.choice([0.0, 0.0, 0.01, 0.05]),
            crashes=random.choice([0.0, 0.0, 0.01, 0.03]),
            joins=random.choice([0.0, 0.05]),
            backfills=random.choice([0.03, 0.15]),
            is_quick=random.random() < 0.5,
            read_slots=random.choice([(2,), (4096,), (4095, 4096), (15, 16)]),
            rows_kept=random.choice([1, 3, 1000, 1000]),
            lease_ms=random.choice([20, 200, 30_000]),
            read_kept_ms=read_kept_ms,
            asked_lease_ms=asked_lease_ms,
        )


@dataclass(frozen=True, slots=True)
class SimulatedTable:
    """A table of the lake, its place and its store."""

    name: str
    table_id: str
    store: SimulatedStore


@dataclass
class Process:
    """A process that has an owner; one that has crashed is never used again, another takes its place."""

    name: str
    machine: str
    owner: EmbeddedOwner
    is_alive: bool = True

    @property
    def database(self) -> Database:
        return self.owner.database

    @property
    def clock(self) -> OwnerClock:
        return self.owner._clock


class SimulatedDatabase(Database):
    """The database of all processes of a world.

    Now and then its answer is lost, so that it is asked again, or it does not answer at all: as `fails` says.
    """

    fails: Callable[[], str] = staticmethod(lambda: "")

    def close(self) -> None:
        """Others use it."""

    def let_go(self) -> None:
        super().close()

    def _run(self, work: Any, begin: str, durable: bool) -> Any:
        failure = self.fails()
        if not failure:
            return super()._run(work, begin, durable)
        if failure.startswith("done"):
            super()._run(work, begin, durable)
        if failure.endswith("asked again"):
            raise OperationalError("", {}, ConnectionError("the answer was lost"))
        raise CommitOwnerUnavailable("the database does not answer")


@dataclass
class World:
    """`now_ms` is the true time, which nobody knows; machines are as wrong as `skews_ms` says."""

    random: Random
    settings: Settings
    database: SimulatedDatabase
    lake: list[SimulatedTable] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    now_ms: int = START_MS + 1000
    skews_ms: dict[str, int] = field(default_factory=lambda: {HERE: 0, ELSEWHERE: 0})
    first_ms: int = START_MS
    is_calm: bool = False
    before_allocation: Callable[[Process, Any], None] | None = None
    _ticks: int = 0
    _started: int = 0
    _dead_pids: set[int] = field(default_factory=set)
    _seen: dict[tuple[str, int], Lists] = field(default_factory=dict)

    @property
    def tables(self) -> list[SimulatedTable]:
        """Those that are used."""
        return self.lake[: self.settings.tables]

    def tick(self) -> int:
        """The next instant of the axis of real time."""
        self._ticks += 1
        return self._ticks

    def chance(self, likely: float) -> bool:
        return likely > 0 and self.random.random() < likely

    def goes_wrong(self) -> bool:
        return not self.is_calm and self.chance(self.settings.faults)

    def new_id(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128)))

    def start(self) -> Process:
        """Another process, of this machine, of which can be known whether it lives, or of one where it cannot."""
        self._started += 1
        machine = HERE if self.chance(0.6) else ELSEWHERE
        pid = _NO_PID + self._started
        owner_clock = OwnerClock(
            now_ms=lambda: self.now_ms + self.skews_ms[machine],
            sleep=lambda seconds: None,
            new_id=self.new_id,
            holder=f"{machine}:{pid}:1",
            elapsed_ms=lambda: self.now_ms,
        )
        owner = self.calmly(
            lambda: EmbeddedOwner(
                self.database,
                SimulatedPlaces(ROOT, {table.store.root_url: table.store for table in self.lake}),
                owner_clock,
                backfill_delay_s=None,
                lease_ms=self.settings.lease_ms,
                rows_kept=self.settings.rows_kept,
                read_slots=self.settings.read_slots[self._started % len(self.settings.read_slots)],
            )
        )
        owner._locking._lease_ms = self.settings.lease_ms * 10
        process = Process(f"p{self._started}", machine, owner)
        self.processes.append(process)
        return process

    def crash(self, process: Process) -> None:
        """The process is gone, with all that it knew."""
        process.is_alive = False
        if process.machine == HERE:
            self._dead_pids.add(int(process.clock.holder.split(":")[1]))
        if process in self.processes:
            self.processes.remove(process)
        process.owner.close()

    def calmly(self, work: Callable[[], T]) -> T:
        """What `work` answers while nothing goes wrong."""
        was_calm, self.is_calm = self.is_calm, True
        try:
            return work()
        finally:
            self.is_calm = was_calm

    def failure(self) -> str:
        """What becomes of a piece of the database's work: "" where it goes well, else whether it counts and is told."""
        if not self.goes_wrong():
            return ""
        return self.random.choice(["done, asked again", "done, asked again", "undone, asked again", "done", "undone"])

    def any_process(self) -> Process:
        return self.random.choice(self.processes)

    def table(self, table_id: str) -> SimulatedTable:
        return next(table for table in self.lake if table.table_id == table_id)

    def lists(self, process: Process, table: SimulatedTable, version: int) -> Lists:
        """The lists of a table as of a version, as a client of `process` reads them."""
        known = (table.table_id, version)
        if known not in self._seen:
            before = self.lists(process, table, version - 1) if version > 0 else {}
            self._seen[known] = after(before, table.name, _actions(process, table, version))
        return self._seen[known]

    def version_as_of(self, process: Process, at: TableVersion, at_ms: int) -> int:
        """The version that a cut of the past is of, which only the log may know."""
        if at.version is not None:
            return at.version
        store, version = self.table(at.table_id).store, at.known_from - 1
        while version > 0 and timestamp_of(store.read(commit_path(version))) > at_ms:
            version -= 1
        return version

    def pid_is_dead(self, pid: int) -> bool:
        return pid in self._dead_pids


def after(before: Mapping[Item, Values], table: str, actions: list[Mapping[str, Any]]) -> Lists:
    """The lists after a commit."""
    lists = dict(before)
    for action in actions:
        add: Any = action.get("add")
        for key, value in orjson.loads(add["tags"]["values"]) if add else ():
            item = Item(table, add["partitionValues"]["p"], key)
            lists[item] = (*lists.get(item, ()), value)
    return lists


def granule_of(partition: str) -> str:
    """The granule of one of PARTITIONS."""
    return granule("p", partition)


class Template:
    """A lake with its tables, made once in an empty directory; the worlds that begin with it live one at a time."""

    def __init__(self, directory: Path) -> None:
        self._empty, self._used = directory / "empty.db", directory / "owner.db"
        stores = {_url(name): SimulatedStore(_url(name), {}, lambda: False) for name in TABLES}
        still = OwnerClock(now_ms=lambda: START_MS)
        owner = EmbeddedOwner(
            _opened(Database, self._empty), SimulatedPlaces(ROOT, stores), still, backfill_delay_s=None
        )
        for name in TABLES:
            info = {"commitInfo": {"txnId": f"create {name}", "operation": "CREATE TABLE"}}
            node = {**metadata(_id(name)), "id": _id(name), "schemaString": _SCHEMA, "partitionColumns": ["p"]}
            actions: list[dict[str, Any]] = [info, {"protocol": PROTOCOL}, {"metaData": node}]
            owner.take(OwnershipProposal(_id(name), name, _url(name), f"create {name}", 0, actions))
        owner.close()
        self._objects = {name: stores[_url(name)].objects for name in TABLES}
        shutil.copy(self._empty, self._used)
        self._database = _opened(SimulatedDatabase, self._used)

    @contextmanager
    def world(self, seed: int, focus: Mapping[str, Any] | None = None) -> Iterator[World]:
        """The world of `seed`, as it begins; `focus` are settings that are not drawn."""
        self._database.let_go()
        for path in self._used.parent.glob(f"{self._used.name}*"):
            path.unlink()
        shutil.copy(self._empty, self._used)
        random = Random(seed)  # noqa: S311  (no secret)
        world = World(random, replace(Settings.drawn(random), **(focus or {})), self._database)
        for name in TABLES:
            objects = dict(self._objects[name])
            world.lake.append(SimulatedTable(name, _id(name), SimulatedStore(_url(name), objects, world.goes_wrong)))
        with _laws_of(world):
            for _ in range(world.settings.processes):
                world.start()
            self._database.fails = world.failure
            try:
                yield world
            finally:
                self._database.fails = _never
                for process in list(world.processes):
                    world.crash(process)

    def close(self) -> None:
        self._database.let_go()


@contextmanager
def _laws_of(world: World) -> Iterator[None]:
    """Which processes are dead is the world's to say, and its time is short."""
    module: Any = clock
    kept = module.os, module._started, timestamp_requests.KEPT_MS, timestamp_requests._LEASE_MS
    module.os, module._started = _Processes(world), lambda pid: "1"
    timestamp_requests.KEPT_MS, timestamp_requests._LEASE_MS = (
        world.settings.read_kept_ms,
        world.settings.asked_lease_ms,
    )
    try:
        yield
    finally:
        module.os, module._started, timestamp_requests.KEPT_MS, timestamp_requests._LEASE_MS = kept


@dataclass(frozen=True)
class _Processes:
    """In place of `os` where it is asked whether a process lives."""

    world: World

    def getpid(self) -> int:
        return os.getpid()

    def kill(self, pid: int, signal: int) -> None:
        if self.world.pid_is_dead(pid):
            raise ProcessLookupError(pid)


def _actions(process: Process, table: SimulatedTable, version: int) -> list[Mapping[str, Any]]:
    try:
        data = table.store.read(commit_path(version))
    except ObjectNotFound:
        found = process.owner.get_commits(table.table_id, version, version, with_data=True).commits
        data = found[0].data or b"" if found else table.store.read(commit_path(version))
    return actions_in(data)


def actions_in(data: bytes) -> list[Mapping[str, Any]]:
    """The actions of a commit's file."""
    return [orjson.loads(line) for line in data.splitlines()]


def _opened(kind: type[DatabaseT], path: Path) -> DatabaseT:
    return kind(f"sqlite:////{str(path).strip('/')}", sleep=lambda seconds: None)


def _never() -> str:
    return ""


def _id(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{ROOT}/{name}"))


def _url(name: str) -> str:
    return f"{ROOT}/{name}"
