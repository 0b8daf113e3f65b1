"""The tables of a model query, and the process that changes them while the query runs and dies."""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import pyarrow as pa

from slackwater.errors import CommitError
from slackwater.scan.file_changes import CHANGE_TYPE, COMMIT_VERSION
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.table.public_transaction import Transaction
from tests.faults.dying_owner import processes
from tests.faults.model_query import COLUMNS, FEED, LAKE, ROWS, TOTALS, lake_at, put_file
from tests.faults.other_changes import DONE_TO_A_SOURCE, change
from tests.transaction.tables import schema

ROWS_OF_A_FILE = 3
_PATIENCE_S = 120.0
_PROPERTIES = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
_IDS = {"id": "long", "v": "long"}
_TOTALS = {"batch": "long", "n": "long", "at": "timestamp"}
_OF_A_FEED = {CHANGE_TYPE: "string", COMMIT_VERSION: "long"}
_OFTEN = 3


class Source:
    """The table that is read; `appended` are the ids of rows that came by appends, by the versions these made."""

    def __init__(self, root: Path) -> None:
        self.path = root / "source"
        self.count = 0
        self.appended: dict[int, list[int]] = {}
        Transaction.create(self.path, schema(_IDS), properties=_PROPERTIES).commit("CREATE TABLE")

    def append(self, files: int) -> None:
        """So many further files, in one commit."""
        transaction = Transaction(self.path)
        ids = range(self.count, self.count + files * ROWS_OF_A_FILE)
        self.count = ids.stop
        rows = pa.table({"id": list(ids), "v": [0] * len(ids)}, COLUMNS)
        for start in range(0, len(ids), ROWS_OF_A_FILE):
            transaction.add(put_file(transaction._inner.store, rows.slice(start, ROWS_OF_A_FILE)), fresh=True)
        self.appended[transaction.commit("WRITE").version] = list(ids)

    def rows(self, version: int | None = None) -> Counter[tuple[int, int]]:
        """How often each pair of `id` and `v` is there, in a version, the newest by default."""
        return pairs(Snapshot.load(self.path, version).to_arrow(COLUMNS.names))


def pairs(rows: pa.Table) -> Counter[tuple[int, int]]:
    """How often each pair of `id` and `v` is there."""
    return Counter(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))


def create_sinks(root: Path, kind: str, into: str) -> None:
    """The tables that the query writes to, which are empty."""
    rows = schema({"batch": "long", **_IDS, **(_OF_A_FEED if kind == FEED else {})})
    if into != LAKE:
        Transaction.create(root / "sink", rows).commit("CREATE TABLE")
        return
    (root / "lake").mkdir()
    with lake_at(root) as lake:
        lake._create_log(ROWS, rows)
        lake._create_log(TOTALS, schema(_TOTALS))


class Others:
    """The process that changes the source, and rearranges the sinks."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seed = 0
        self._process: BaseProcess | None = None
        self._told: Connection | None = None

    def begin(self, count: int) -> None:
        """Let it do so many things from now on."""
        if self._process is None:
            self._told, theirs = processes.Pipe()
            self._seed += 1
            self._process = processes.Process(target=_change, args=(self._root, self._seed, theirs), daemon=True)
            self._process.start()
            theirs.close()
        assert self._told is not None
        self._told.send(count)

    def await_end(self) -> None:
        """Wait until it has done what it was told."""
        assert self._told is not None
        assert self._told.poll(_PATIENCE_S), "the others say nothing"
        assert self._told.recv()

    def kill(self) -> None:
        """End it with SIGKILL, wherever it is."""
        if self._process is None:
            return
        self._process.kill()
        self._process.join(_PATIENCE_S)
        assert self._process.exitcode == -signal.SIGKILL, self._process.exitcode
        self._process = None


def _change(root: Path, seed: int, told: Connection) -> None:
    chance = random.Random(seed)  # noqa: S311  (no secret)
    with ExitStack() as stack:
        sinks: list[Callable[[], Snapshot]] = [lambda: Snapshot.load(root / "sink")]
        if (root / "lake").exists():
            lake = stack.enter_context(lake_at(root))
            sinks = [lambda: lake.snapshot(ROWS), lambda: lake.snapshot(TOTALS)]
        while True:
            for _ in range(told.recv()):
                _change_one(root, chance, sinks)
            told.send(True)


def _change_one(root: Path, chance: random.Random, sinks: Sequence[Callable[[], Snapshot]]) -> None:
    acts: list[str | Callable[[], Snapshot]] = [*DONE_TO_A_SOURCE, *["OPTIMIZE"] * _OFTEN, *sinks]
    act = chance.choice(acts)
    try:
        if isinstance(act, str):
            change(Snapshot.load(root / "source"), act, chance)
        else:
            change(act(), "OPTIMIZE", chance)
    except CommitError:
        # Somebody was in the way: there will be more.
        return
