"""Clients that append to lists and read them, in transactions over several tables, and write down what they saw.

A list is a key in a partition of a table. Its values are in data files of their own form: one for each value where the
key begins with BLIND, else one file that every append replaces, as an update of a row does.
"""

from __future__ import annotations

import datetime as dt
import random
import traceback
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import orjson

from slackwater.errors import CommitError, CommitOwnerUnavailable, CommitUnknown, TimestampOutOfRange
from slackwater.lake.lake import LogLake
from slackwater.lake.transaction import LogTransaction
from slackwater.owner.api.timestamp_range import at_ms, instants
from slackwater.predicate.predicate import Predicate
from slackwater.predicate.sql import parse_predicate
from slackwater.protocol.actions.files import AddFile
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.store import ObjectStore
from slackwater.transaction.clock import Clock
from slackwater.transaction.table.public_transaction import Transaction
from tests.histories.contents import JSON, SCHEMAS, decoded, encoded
from tests.histories.history import Outcome
from tests.histories.recording import BLIND, Recorder, now

PARTITIONS = ("a", "b")
STAMPED, SLICE, IDLE = "stamped", "slice", "idle"
"""What is told besides outcomes: a commit whose rows in several tables carry its time, a time slice, nothing done."""
REFUSALS = (CommitError, CommitOwnerUnavailable)
"""What a client may be told; every other error is a fault."""
PRECISIONS: Sequence[tuple[str, float]] = (
    ("millisecond", 6), ("centisecond", 1), ("decisecond", 1), ("second", 2), ("minute", 1), ("hour", 1), ("day", 2),
)  # fmt: skip


@dataclass(frozen=True)
class Workload:
    """What is done how often; shares are of all transactions, `early` and `locking` of those over many tables.

    `keys` are those of each partition of each table; `lock_timeout_s` is how long a lock is waited for. `form` is that
    of the data files. With `has_groups`, the logs describe the transactions. Clients that are `led` begin no
    transaction that the crew has not asked for.
    """

    tables: tuple[str, ...] = ("t0", "t1", "t2")
    keys: tuple[str, ...] = ("row0", "row1", "log0")
    lone: float = 0.12
    slices: float = 0.08
    idle: float = 0.06
    read_only: float = 0.12
    early: float = 0.5
    locking: float = 0.35
    lock_timeout_s: float = 2.0
    retries: int = 2
    form: str = JSON
    is_led: bool = False
    has_groups: bool = False

    def create(self, lake: LogLake) -> None:
        """Make the tables, each second one with row tracking; the first two of three are managed by catalogManaged.

        With `has_groups`, all have the feature multiTableTransaction, as every table of a transaction must.
        """
        for number, name in enumerate(self.tables):
            properties = {"delta.enableRowTracking": "true"} if self.is_tracked(name) else {}
            managed = "catalogManaged" if number % 3 < 2 or self.has_groups else "managedCommit"
            if self.has_groups:
                properties["delta.feature.multiTableTransaction-dev"] = "supported"
            lake._create_log(name, SCHEMAS[self.form], partition_by=["p"], properties=properties, managed=managed)

    def is_tracked(self, table: str) -> bool:
        """Whether it has row tracking, and so takes one change of a row in a transaction."""
        return self.tables.index(table) % 2 == 1


@dataclass
class _Try:
    """One attempt at a transaction, as it is written down."""

    id: str
    order: int
    begin: float
    is_joint: bool
    has_locks: bool = False
    owner_time_ms: int | None = None
    operations: list[Any] = field(default_factory=list)
    stamps: list[int] = field(default_factory=list)
    asked: list[tuple[int, int]] = field(default_factory=list)
    files: list[tuple[str, str]] = field(default_factory=list)
    transaction: LogTransaction | None = None
    stamp_ms: int | None = None
    worked: float = 0.0


@dataclass(frozen=True)
class _Plan:
    """What a transaction over many tables does; the same at each attempt."""

    control: str
    steps: tuple[tuple[str, ...], ...]
    asks: tuple[tuple[int, str], ...]
    declares: bool
    locks_partitions: bool

    @property
    def written(self) -> list[str]:
        return sorted({step[1] for step in self.steps if step[0] == "append"})


class Client:
    """One client, with its own chance; `told` is called after each transaction, whether that committed or not."""

    def __init__(self, lake: LogLake, name: str, workload: Workload, recorder: Recorder, seed: str) -> None:
        self._lake = lake
        self._name = name
        self._workload = workload
        self._recorder = recorder
        self._chance = random.Random(seed)  # noqa: S311  (a run is repeated by its seed)
        self._order = 0
        self._number = 0
        self._contents: dict[str, list[Any]] = {}
        self._instants: list[int] = []

    def run(self, is_over: Callable[[], bool], told: Callable[[str], None]) -> None:
        """Do one transaction after another until it is over."""
        try:
            while not is_over():
                told(self._one())
        except BaseException:
            self._recorder.tell("fails", client=self._name, trace=traceback.format_exc())
            raise

    def _one(self) -> str:
        kind = self._chance.random()
        workload = self._workload
        if kind < workload.lone:
            return self._lone_append()
        if kind < workload.lone + workload.slices:
            return self._slice()
        kind -= workload.lone + workload.slices
        if kind < workload.idle:
            return self._idle()
        plan = self._plan(is_read_only=kind < workload.idle + workload.read_only)
        return self._joint(plan)

    # What it does.

    def _plan(self, is_read_only: bool) -> _Plan:
        chance, workload = self._chance, self._workload
        steps: list[tuple[str, ...]] = []
        for _ in range(chance.randint(1, 3) if is_read_only else chance.randint(0, 2)):
            kind = chance.choices(("table", "partition", "row"), (2, 4, 5))[0]
            steps.append((kind, *self._item()))
        if not is_read_only:
            steps += [("append", *self._item()) for _ in range(chance.randint(1, 3))]
            chance.shuffle(steps)
        asks: list[tuple[int, str]] = []
        if not is_read_only and chance.random() < workload.early:
            names, weights = zip(*PRECISIONS, strict=True)
            units = chance.choices(names, weights, k=chance.choices((1, 2), (4, 1))[0])
            asks = [(chance.randrange(len(steps)), unit) for unit in units]
        return _Plan(
            "locking" if chance.random() < workload.locking else "optimistic",
            tuple(steps),
            tuple(asks),
            declares=chance.random() < 0.3,
            locks_partitions=chance.random() < 0.5,
        )

    def _item(self) -> tuple[str, str, str]:
        workload = self._workload
        return self._chance.choice(workload.tables), self._chance.choice(PARTITIONS), self._chance.choice(workload.keys)

    def _joint(self, plan: _Plan) -> str:
        attempts: list[_Try] = []

        def work(transaction: LogTransaction) -> None:
            if attempts:
                # It is run again only where it did not land.
                self._ends(attempts[-1], Outcome.ABORTED, "run again")
            begin = attempts[-1].worked if attempts else began
            attempt = self._begun(transaction.id, begin, is_joint=True)
            attempt.owner_time_ms = ms_of(transaction.begun_at)
            attempt.transaction = transaction
            attempt.has_locks = plan.control == "locking"
            attempts.append(attempt)
            try:
                self._do(plan, transaction, attempt)
            finally:
                attempt.worked = now()
                self._tries(attempt)

        options: dict[str, Any] = {"control": plan.control, "lock_timeout_s": self._workload.lock_timeout_s}
        if plan.declares and plan.written:
            options["writes"] = plan.written
        is_rerun = self._chance.random() < 0.5
        began = now()
        outcome, error = Outcome.COMMITTED, ""
        try:
            if is_rerun:
                self._lake.run(work, retries=self._workload.retries, **options)
            else:
                with self._lake.transaction(**options) as transaction:
                    work(transaction)
        except CommitUnknown as unknown:
            outcome, error = Outcome.UNKNOWN, type(unknown).__name__
        except REFUSALS as refusal:
            outcome, error = Outcome.ABORTED, f"{type(refusal).__name__}: {refusal}"
        if not attempts:
            return error
        self._ends(attempts[-1], outcome, error)
        if outcome is Outcome.COMMITTED and len({table for table, _ in attempts[-1].files}) > 1 and attempts[-1].stamps:
            return STAMPED
        return outcome.value

    def _idle(self) -> str:
        """A transaction of which nothing is looked at: it asks the time, or reads a snapshot, or does nothing."""
        does, begin = self._chance.choice(("asks", "reads", "nothing")), now()
        try:
            transaction = self._lake.transaction(isolation="snapshot")
        except REFUSALS as refusal:
            return type(refusal).__name__
        attempt = self._begun(transaction.id, begin, is_joint=True)
        attempt.owner_time_ms, attempt.transaction = ms_of(transaction.begun_at), transaction
        outcome, error = Outcome.COMMITTED, ""
        try:
            with transaction:
                if does == "asks":
                    self._ask(transaction, attempt, "millisecond")
                elif does == "reads":
                    # What is read is of no serial order, so it is not noted.
                    transaction.snapshot(self._item()[0])
        except CommitUnknown as unknown:
            outcome, error = Outcome.UNKNOWN, type(unknown).__name__
        except REFUSALS as refusal:
            outcome, error = Outcome.ABORTED, f"{type(refusal).__name__}: {refusal}"
        self._tries(attempt)
        self._ends(attempt, outcome, error)
        # Those that are counted change something.
        return IDLE

    def _do(self, plan: _Plan, transaction: LogTransaction, attempt: _Try) -> None:
        if plan.control == "locking" and plan.locks_partitions:
            self._lock_partitions(plan, transaction)
        for number, (kind, table, partition, key) in enumerate(plan.steps):
            for _, unit in (ask for ask in plan.asks if ask[0] == number):
                self._ask(transaction, attempt, unit)
            if kind == "append":
                step = (kind, table, partition, key)
                if self._workload.is_tracked(table) and not key.startswith(BLIND) and step in plan.steps[:number]:
                    continue
                self._append(transaction, attempt, table, partition, key)
            else:
                self._read(transaction, attempt, kind, table, partition, key)

    def _lock_partitions(self, plan: _Plan, transaction: LogTransaction) -> None:
        """Lock no more than is used; where a whole table is read, all of it."""
        for table in sorted({step[1] for step in plan.steps}):
            steps = [step for step in plan.steps if step[1] == table]
            if any(step[0] == "table" for step in steps):
                transaction.lock(table, exclusive=table in plan.written)
                continue
            for partition in sorted({step[2] for step in steps}):
                is_written = any(step[0] == "append" and step[2] == partition for step in steps)
                transaction.lock(table, where=f"p = '{partition}'", exclusive=is_written)

    def _ask(self, transaction: LogTransaction, attempt: _Try, unit: str) -> None:
        if unit == "day":
            day = transaction.current_date()
            answer = dt.datetime.combine(day, dt.time(), dt.timezone.utc)
        else:
            answer = transaction.current_timestamp(unit)
        first, last = instants(ms_of(answer), unit)
        # A coarse answer to one who knows it finer already is that instant, cut off.
        attempt.asked.append((first, last + 1))
        if unit == "millisecond":
            attempt.stamp_ms = first

    def _read(
        self, transaction: LogTransaction, attempt: _Try, kind: str, table: str, partition: str, key: str
    ) -> list[tuple[str, Any]]:
        """The files that were read, with what is in them."""
        if kind == "table":
            files = self._files(transaction.snapshot(table))
            attempt.operations.append(("table", table, _lists(files)))
            return files
        seen = transaction.reading(table)
        text = f"p = '{partition}'" if kind == "partition" else f"p = '{partition}' AND k = '{key}'"
        predicate = parse_predicate(text, seen.snapshot.schema)
        seen.read(predicate)
        files = [
            (path, content) for path, content in self._files(seen.snapshot, predicate) if _is_at(content, partition)
        ]
        if kind == "partition":
            attempt.operations.append(("partition", table, partition, _lists(files)))
            return files
        files = [(path, content) for path, content in files if content["key"] == key]
        values = [value for _, content in files for value in content["values"]]
        attempt.operations.append(("row", table, partition, key, values))
        return files

    def _append(self, transaction: LogTransaction, attempt: _Try, table: str, partition: str, key: str) -> None:
        value = self._value()
        old: list[tuple[str, Any]] = []
        if not key.startswith(BLIND):
            old = self._read(transaction, attempt, "row", table, partition, key)
        attempt.operations.append(("append", table, partition, key, value))
        values = [*(value for _, content in old for value in content["values"]), value]
        part = transaction.log(table)
        assert isinstance(part.snapshot, Snapshot)
        part.add(self._file(part.snapshot.store, attempt, table, partition, key, values), fresh=True)
        part.remove(*(path for path, _ in old))
        part.commit("UPDATE" if old else "WRITE")

    def _lone_append(self) -> str:
        table, partition, _ = self._item()
        key = self._chance.choice([key for key in self._workload.keys if key.startswith(BLIND)])
        attempt = self._begun(str(uuid.uuid4()), now(), is_joint=False)
        try:
            snapshot = self._lake.snapshot(table)
        except REFUSALS as refusal:
            return type(refusal).__name__
        value = self._value()
        attempt.operations.append(("append", table, partition, key, value))
        part = Transaction(snapshot, clock=Clock(new_id=lambda: attempt.id))
        file = self._file(snapshot.store, attempt, table, partition, key, [value])
        part.add(file, fresh=self._chance.random() < 0.7)
        self._tries(attempt)
        try:
            result = part.commit("WRITE")
        except CommitUnknown as unknown:
            self._ends(attempt, Outcome.UNKNOWN, type(unknown).__name__)
            return Outcome.UNKNOWN.value
        except REFUSALS as refusal:
            self._ends(attempt, Outcome.ABORTED, f"{type(refusal).__name__}: {refusal}")
            return Outcome.ABORTED.value
        self._ends(attempt, Outcome.COMMITTED, "", result.timestamp_ms, {table: result.version})
        return Outcome.COMMITTED.value

    def _slice(self) -> str:
        begin = now()
        # By another process the clock may be behind, and then what this one calls now has not come.
        with suppress(TimestampOutOfRange, *REFUSALS):
            at = self._instant()
            cut = self._lake.owner.cut(at)
            lists: dict[str, Any] = {}
            for table in cut.tables:
                # Where the database does not reach back so far the log would tell.
                if table.version is not None:
                    snapshot = Snapshot.open(self._lake._table_of(table), table.version)
                    lists[table.name] = _lists(self._files(snapshot))
            self._order += 1
            identity = f"{self._name}-{self._order}"
            self._recorder.tell(
                "slices", id=identity, at_ms=at, begin=begin, end=now(), lists=lists, tables=sorted(lists)
            )
        return SLICE

    def _instant(self) -> int:
        """Now, a moment ago, or what was asked before."""
        if self._instants and self._chance.random() < 0.3:
            return self._chance.choice(self._instants)
        at = self._lake.owner.cut().timestamp_ms - self._chance.choice((0, 0, 0, 1, 5, 50))
        self._instants.append(at)
        return at

    # Files.

    def _files(self, snapshot: Snapshot, predicate: Predicate | None = None) -> list[tuple[str, Any]]:
        paths = snapshot.files(predicate, ["path"])["path"].to_pylist()
        return [(path, content) for path in paths for content in self._content(snapshot.store, path)]

    def _content(self, store: ObjectStore, path: str) -> list[Any]:
        if path not in self._contents:
            self._contents[path] = decoded(path, store.read(path))
        return self._contents[path]

    def _file(
        self, store: ObjectStore, attempt: _Try, table: str, partition: str, key: str, values: Sequence[str]
    ) -> AddFile:
        form = self._workload.form
        path = f"p={partition}/{key}-{uuid.uuid4()}.{form}"
        stamp_ms = attempt.stamp_ms
        if stamp_ms is not None:
            attempt.stamps.append(stamp_ms)
        data = encoded(form, partition, key, values, stamp_ms)
        attempt.files.append((table, path))
        store.put(path, data)
        stats = {"numRecords": 1, "minValues": {"k": key}, "maxValues": {"k": key}, "nullCount": {"k": 0}}
        return AddFile(path, {"p": partition}, len(data), 0, stats=orjson.dumps(stats).decode())

    def _value(self) -> str:
        self._number += 1
        return f"{self._name}.{self._number}"

    # What is written down.

    def _begun(self, identity: str, begin: float, is_joint: bool) -> _Try:
        self._order += 1
        return _Try(identity, self._order, begin, is_joint)

    def _tries(self, attempt: _Try) -> None:
        self._recorder.tell(
            "tries",
            id=attempt.id,
            client=self._name,
            order=attempt.order,
            begin=attempt.begin,
            is_joint=attempt.is_joint,
            has_locks=attempt.has_locks,
            operations=attempt.operations,
            stamps=attempt.stamps,
            asked=attempt.asked,
            files=attempt.files,
            owner_time_ms=attempt.owner_time_ms,
        )

    def _ends(
        self,
        attempt: _Try,
        outcome: Outcome,
        error: str,
        timestamp_ms: int | None = None,
        versions: dict[str, int] | None = None,
    ) -> None:
        if outcome is Outcome.COMMITTED and attempt.transaction is not None:
            timestamp_ms = ms_of(attempt.transaction.commit_timestamp)
            versions = dict(attempt.transaction.versions)
        self._recorder.tell(
            "ends",
            id=attempt.id,
            end=now(),
            outcome=outcome.value,
            error=error,
            timestamp_ms=timestamp_ms,
            versions=versions or {},
        )


def ms_of(instant: dt.datetime) -> int:
    """The instant in ms since the epoch."""
    return round((instant - at_ms(0)) / dt.timedelta(milliseconds=1))


def _is_at(content: Any, partition: str) -> bool:
    return bool(content["partition"] == partition)


def _lists(files: Sequence[tuple[str, Any]]) -> list[tuple[str, str, list[str]]]:
    found: dict[tuple[str, str], list[str]] = {}
    for _, content in files:
        found.setdefault((content["partition"], content["key"]), []).extend(content["values"])
    return [(partition, key, values) for (partition, key), values in found.items()]
