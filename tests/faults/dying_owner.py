"""Processes that do one thing to a lake with an embedded owner, and are killed on the way with SIGKILL."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

from slackwater.lake.lake import LogLake
from slackwater.owner import ownership_transfer, repair
from slackwater.owner.commit import ratification
from slackwater.owner.commit.allocation import Allocation
from slackwater.owner.commit.pipeline import CommitPipeline
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.ownership_transfer import OwnershipTransfer
from slackwater.owner.publish.backfill import Backfill
from slackwater.owner.state.clock import OwnerClock
from slackwater.protocol.actions.files import AddFile
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.local_store import LocalObjectStore
from slackwater.storage.store import ChunkedBytes
from slackwater.transaction.commit_result import CommitResult
from slackwater.transaction.table.public_transaction import Transaction

# Children of a process that has loaded everything: they begin at once.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(
    [
        "pytest",
        "pandas",
        "psycopg",
        "tests.faults.owner_processes",
        "tests.faults.restless_tables",
        "tests.faults.dying_service",
        "tests.faults.killed",
    ]
)

SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
SIZE = 100
_LOG = "_delta_log/"
_STAGED = _LOG + "_commits/"
_CATALOG_STAGED = _LOG + "_staged_commits/"
_BACKFILLED = _LOG + "0"
# What is written before it is visible.
_HIDDEN = ".slackwater-"


@dataclass(frozen=True)
class Point:
    """Where death comes: at a call of `owner.name` that names `part`, once `survived` such calls have succeeded."""

    owner: Any
    name: str
    part: str = ""
    survived: int = 0
    afterwards: bool = True


COMMIT = {
    "a version given out, its database transaction open": Point(Allocation, "allocate"),
    "a version given out": Point(CommitPipeline, "_allocate_batch"),
    "the commit written, not yet visible": Point(os, "link", _STAGED + _HIDDEN, afterwards=False),
    "the commit staged": Point(LocalObjectStore, "put_if_absent", _STAGED),
    "ratified, its database transaction open": Point(ratification, "ratify"),
    "ratified, not yet answered": Point(CommitPipeline, "_ratify_batch"),
    "answered, its backfill not asked for": Point(Backfill, "soon", afterwards=False),
}
BACKFILL = {
    "before the first copy": Point(os, "link", _BACKFILLED, afterwards=False),
    "one copied": Point(LocalObjectStore, "copy_if_absent"),
    "two copied": Point(LocalObjectStore, "copy_if_absent", survived=1),
    "all copied, none recorded": Point(Backfill, "_record", afterwards=False),
    "recorded, its database transaction open": Point(Backfill, "_record"),
    "recorded, not yet answered": Point(Backfill, "now"),
}
BACKFILL_BY_ITSELF = {
    "claimed": Point(LocalObjectStore, "copy_if_absent", afterwards=False),
    "claimed, one copied": Point(LocalObjectStore, "copy_if_absent"),
    "copied, nothing recorded": Point(Backfill, "_record", afterwards=False),
    "recorded and let go, its database transaction open": Point(Backfill, "_record"),
}
TAKE = {
    "the commit written, not yet visible": Point(os, "link", _STAGED + _HIDDEN, afterwards=False),
    "the commit staged": Point(LocalObjectStore, "put_if_absent", _STAGED),
    "promised, its database transaction open": Point(OwnershipTransfer, "_promise"),
    "promised": Point(OwnershipTransfer, "_finish_take", afterwards=False),
    "before the put-if-absent": Point(LocalObjectStore, "put_if_absent", _BACKFILLED, afterwards=False),
    "the put-if-absent half done": Point(os, "link", _LOG + _HIDDEN, afterwards=False),
    "after the put-if-absent": Point(LocalObjectStore, "put_if_absent", _BACKFILLED),
    "activated, its database transaction open": Point(OwnershipTransfer, "_activate"),
    "activated, not yet answered": Point(OwnershipTransfer, "_response", afterwards=False),
}
LOST_TAKE = {
    "lost, not yet forgotten": Point(ownership_transfer, "_forget", afterwards=False),
    "lost, forgotten in an open database transaction": Point(ownership_transfer, "_forget"),
    "forgotten, its file not yet deleted": Point(LocalObjectStore, "delete", _STAGED, afterwards=False),
}
RELEASE = {
    "backfilled": Point(Backfill, "now"),
    "the commit written, not yet visible": Point(os, "link", _STAGED + _HIDDEN, afterwards=False),
    "the commit staged": Point(LocalObjectStore, "put_if_absent", _STAGED),
    "commits stopped, its database transaction open": Point(OwnershipTransfer, "_stop_commits"),
    "commits stopped": Point(OwnershipTransfer, "_finish_release", afterwards=False),
    "before the put-if-absent": Point(LocalObjectStore, "put_if_absent", _BACKFILLED, afterwards=False),
    "the put-if-absent half done": Point(os, "link", _LOG + _HIDDEN, afterwards=False),
    "after the put-if-absent": Point(LocalObjectStore, "put_if_absent", _BACKFILLED),
    "let go, its database transaction open": Point(OwnershipTransfer, "_let_go"),
    "let go, not yet answered": Point(OwnershipTransfer, "_response", afterwards=False),
}
REPAIR = {
    "versions given back, its database transaction open": Point(repair, "free_abandoned"),
    "versions given back": Point(Backfill, "now", afterwards=False),
    "one copied": Point(LocalObjectStore, "copy_if_absent"),
    "backfilled": Point(Backfill, "now"),
    "before the deletion": Point(LocalObjectStore, "delete", _STAGED, afterwards=False),
    "after the deletion": Point(LocalObjectStore, "delete", _STAGED),
}

RESTORE = {**COMMIT, "one of two commits staged": Point(LocalObjectStore, "put_if_absent", _STAGED)}
RESTORE["the commit staged"] = Point(LocalObjectStore, "put_if_absent", _STAGED, survived=1)
# Of tables with the feature multiTableTransaction: the other directory of staged commits.
GROUP = {name: replace(point, part=point.part.replace(_STAGED, _CATALOG_STAGED)) for name, point in {**RESTORE}.items()}
GROUP["one of two published"] = Point(LocalObjectStore, "copy_if_absent")
# Of the second of two tables, each of which has a checksum beside its first commit.
_VERSION_0 = f"{_LOG}{0:020d}.json"
CLONE = {
    name: replace(point, survived=1, part=_VERSION_0 if point.part in (_BACKFILLED, _LOG + _HIDDEN) else point.part)
    for name, point in TAKE.items()
}


def kill_while(operation: str, point: str, root: Path, database: str, name: str, **settings: Any) -> None:
    """Let another process do an operation of OPERATIONS to the table `name`, and die at a point of it.

    `settings` are those of `opened`.
    """
    _run(-signal.SIGKILL, operation, point, root, database, name, settings)


def let(operation: str, root: Path, database: str, name: str, **settings: Any) -> None:
    """Let another process do an operation of OPERATIONS to the table `name`, and end well."""
    _run(0, operation, None, root, database, name, settings)


def opened(root: Path, database: str, later_ms: int = 0, **settings: Any) -> LogLake:
    """A lake in this process, which backfills on request only unless told otherwise; its clock is `later_ms` ahead."""
    real = OwnerClock()
    clock = OwnerClock(now_ms=lambda: real.now_ms() + later_ms)
    owner = EmbeddedOwner.open(root, database, **{"clock": clock, "backfill_delay_s": None, **settings})
    return LogLake(owner, owner.root_url)


def append(snapshot: Snapshot, path: str, may_move: bool = True, data: bytes | None = None) -> CommitResult:
    """Commit one file called `path`, of ten rows as it says; it is written where `data` says what is in it."""
    transaction = Transaction(snapshot)
    if data is not None:
        snapshot.store.put(path, data)
    size = SIZE if data is None else len(data)
    transaction.add(AddFile(path, {}, size, 0, stats='{"numRecords":10}'), fresh=True)
    if not may_move:
        transaction.set_transaction(path, 1)
    return transaction.commit("WRITE")


def place(lake: LogLake, name: str) -> str:
    """Where the table `name` is, below the lake's root."""
    assert isinstance(lake.owner, EmbeddedOwner)
    return f"{lake.owner.root_url}/{name}"


def _commit(lake: LogLake, name: str) -> None:
    append(lake.snapshot(name), "in-doubt")


def _commit_in_place(lake: LogLake, name: str) -> None:
    append(lake.snapshot(name), "in-doubt", may_move=False)


def _commit_together(lake: LogLake, name: str) -> None:
    at_once, snapshot = Barrier(4), lake.snapshot(name)

    def work(number: int) -> None:
        at_once.wait()
        append(snapshot, f"in-doubt-{number}")

    for number in range(at_once.parties):
        Thread(target=work, args=(number,)).start()
    _await_death()


def _commit_and_wait(lake: LogLake, name: str) -> None:
    _commit(lake, name)
    _await_death()


def _backfill(lake: LogLake, name: str) -> None:
    lake.backfill(name)


def _create(lake: LogLake, name: str) -> None:
    lake._create_log(name, SCHEMA)


def _adopt(lake: LogLake, name: str) -> None:
    lake.adopt(name, place(lake, name))


def _adopt_too_late(lake: LogLake, name: str) -> None:
    """Another writer of the file system is faster."""
    put, table = LocalObjectStore.put_if_absent, place(lake, name)

    def put_behind_another(self: LocalObjectStore, path: str, data: bytes | ChunkedBytes, durable: bool = True) -> None:
        if path.startswith(_BACKFILLED):
            LocalObjectStore.put_if_absent = put  # type: ignore[method-assign]
            append(Snapshot.load(table), "faster")
        put(self, path, data, durable)

    LocalObjectStore.put_if_absent = put_behind_another  # type: ignore[method-assign]
    _adopt(lake, name)


def _release(lake: LogLake, name: str) -> None:
    lake.release(name)


def _repair(lake: LogLake, name: str) -> None:
    lake.repair(name)


def _restore(lake: LogLake, named: str) -> None:
    """`named`: an instant in ms, and the tables."""
    then, *names = named.split()
    lake.restore(int(then), names)


def _group(lake: LogLake, named: str) -> None:
    """A transaction over the tables `named`, which is published at the end."""
    with lake.transaction() as transaction:
        for name in named.split():
            log = transaction.log(name)
            log.add(AddFile("in-doubt", {}, SIZE, 0, stats='{"numRecords":10}'), fresh=True)
            log.commit("WRITE")
    for name in named.split():
        lake.backfill(name)


def _clone(lake: LogLake, named: str) -> None:
    """`named`: an instant in ms, the root of another lake, and the tables."""
    then, to, *names = named.split()
    lake.clone(int(then), to, names)


OPERATIONS: dict[str, tuple[Callable[[LogLake, str], None], dict[str, Point]]] = {
    "commit": (_commit, COMMIT),
    "commit in place": (_commit_in_place, COMMIT),
    "commit together": (_commit_together, COMMIT),
    "backfill": (_backfill, BACKFILL),
    "commit and wait": (_commit_and_wait, BACKFILL_BY_ITSELF),
    "create": (_create, TAKE),
    "adopt": (_adopt, TAKE),
    "adopt too late": (_adopt_too_late, LOST_TAKE),
    "release": (_release, RELEASE),
    "repair": (_repair, REPAIR),
    "restore": (_restore, RESTORE),
    "clone": (_clone, CLONE),
    "group": (_group, GROUP),
}


def _run(expected: int, *arguments: Any) -> None:
    child = processes.Process(target=_do, args=arguments)
    child.start()
    child.join()
    assert child.exitcode == expected, f"it ended with {child.exitcode}"
    child.close()


def _do(operation: str, point: str | None, root: Path, database: str, name: str, settings: dict[str, Any]) -> None:
    do, points = OPERATIONS[operation]
    if point is not None:
        die_at(points[point])
    with opened(root, database, **settings) as lake:
        do(lake, name)


def die_at(point: Point) -> None:
    original: Callable[..., Any] = getattr(point.owner, point.name)
    left = point.survived

    def call(*arguments: Any, **more: Any) -> Any:
        nonlocal left
        if point.part not in " ".join(_texts(arguments)):
            return original(*arguments, **more)
        left -= 1
        if left >= 0:
            return original(*arguments, **more)
        if point.afterwards:
            original(*arguments, **more)
        os.kill(os.getpid(), signal.SIGKILL)
        return None

    setattr(point.owner, point.name, call)


def _texts(arguments: tuple[Any, ...]) -> list[str]:
    """The paths among the arguments, those in lists too."""
    found: list[str] = []
    for argument in arguments:
        if isinstance(argument, (str, os.PathLike)):
            found.append(os.fspath(argument))
        elif isinstance(argument, list):
            found += _texts(tuple(argument))
    return found


def _await_death() -> None:
    # One that does not come is a failure, not a wait without end.
    signal.alarm(60)
    signal.pause()
