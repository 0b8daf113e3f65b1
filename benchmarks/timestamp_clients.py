"""A transaction of the model, done at a real owner: requests only, no log is read and no data is written."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import orjson

from benchmarks.timestamp_history import Committed
from benchmarks.timestamp_workload import Access, Granule, Work
from slackwater.errors import TimestampConflict
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.granules import granule, written_granules
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import (
    WHOLE,
    Item,
    TableRead,
    TableWrite,
    TimeRequest,
    TransactionConflict,
    TransactionRequest,
    TransactionResponse,
)

_COLUMN = "month"
_PRECISIONS = {"ms": "millisecond", "s": "second"}


@dataclass(frozen=True, slots=True)
class Shelf:
    """Tables of an owner by their numbers, and the version that each had at first, which a history counts from."""

    owner: CommitOwner
    table_ids: Sequence[str]
    first_versions: Sequence[int]

    @staticmethod
    def of(owner: CommitOwner, names: Sequence[str]) -> Shelf:
        """The tables of these names as they are now."""
        cut = owner.cut()
        tables = [table for table in map(cut.named, names) if table is not None]
        return Shelf(owner, [t.table_id for t in tables], [t.version or 0 for t in tables])


@dataclass(frozen=True, slots=True)
class Session:
    """How transactions are done: what they write `is_declared`, and times are told so far ahead of the clock."""

    shelf: Shelf
    is_declared: bool
    ahead_ms: int


class Attempt:
    """One attempt at the work of a transaction; `committed` is what it did, once it has."""

    def __init__(self, session: Session, work: Work) -> None:
        self.committed: Committed | None = None
        self._session, self._work = session, work
        self._owner = session.shelf.owner
        self._txn_id = str(uuid.uuid4())
        self._began = time.monotonic()
        cut = self._owner.cut()
        self._started_ms = cut.timestamp_ms
        self._range = TimestampRange(cut.timestamp_ms - 1)
        self._versions = {table.table_id: table.version or 0 for table in cut.tables}
        self._reads: dict[str, TableRead] = {}
        self._writes: dict[str, TableWrite] = {}

    def run(self, precision: str) -> str:
        """Do it in the time that it takes, and commit: `commit`, or why not: `stamp`, `read`."""
        moments: list[tuple[float, Callable[[], None]]] = [
            (access.at, partial(self._reach, access)) for access in self._work.accesses
        ]
        if self._work.asks_at is not None:
            moments.append((self._work.asks_at, partial(self._ask, _PRECISIONS[precision])))
        outcome = "read"
        try:
            for at, do in sorted(moments, key=lambda moment: moment[0]):
                self._wait_until(at)
                do()
            self._wait_until(1.0)
            response = self._response()
            if response is not None:
                outcome = "commit"
                self.committed = self._done(response)
        except TimestampConflict:
            outcome = "stamp"
        if outcome != "commit":
            self._owner.end(self._txn_id)
        return outcome

    def _wait_until(self, at: float) -> None:
        time.sleep(max(0.0, self._began + at * self._work.duration_ms / 1000 - time.monotonic()))

    def _reach(self, access: Access) -> None:
        table_id = self._id(access.granule)
        version = self._versions[table_id]
        if access.reads:
            self._reads[table_id] = TableRead(table_id, version, [_granule(access.granule)])
        if access.writes:
            values = {_COLUMN: str(access.granule.partition or 0)}
            node = {"path": f"{uuid.uuid4()}.parquet", "partitionValues": values, "size": 1, "modificationTime": 1}
            actions: list[dict[str, Any]] = [
                {"commitInfo": {"txnId": self._txn_id, "operation": "WRITE"}},
                {"add": {**node, "dataChange": True}},
            ]
            self._writes[table_id] = TableWrite(table_id, version + 1, actions, not access.reads)

    def _ask(self, precision: str) -> None:
        holds = sorted({self._id(granule) for granule in self._work.writes}) if self._session.is_declared else []
        written = [Item(table_id) for table_id in self._writes]
        self._range = self._owner.narrow(
            TimeRequest(self._txn_id, self._range, precision, "UTC", written, self._session.ahead_ms, holds)
        )

    def _response(self) -> TransactionResponse | None:
        """The answer; None where what was read was overtaken."""
        while True:
            reads, writes = list(self._reads.values()), list(self._writes.values())
            outcome = self._owner.commit_transaction(TransactionRequest(self._txn_id, self._range, reads, writes))
            if isinstance(outcome, TransactionResponse):
                return outcome
            if not self._follows(outcome):
                return None

    def _follows(self, conflict: TransactionConflict) -> bool:
        """Go behind what others committed; whether none of it would have been read."""
        for table_id, latest in conflict.latest_versions.items():
            read, write = self._reads.get(table_id), self._writes.get(table_id)
            known = read.version if read is not None else write.version - 1 if write is not None else latest
            found = self._owner.get_commits(table_id, known + 1, latest, with_data=True).commits
            if read is not None:
                if any(_meets(read.granules, commit.data) for commit in found):
                    return False
                self._reads[table_id] = replace(read, version=latest)
            if write is not None:
                self._writes[table_id] = replace(write, version=latest + 1)
        return True

    def _done(self, response: TransactionResponse) -> Committed:
        shelf = self._session.shelf
        made: Mapping[str, int] = {t: answer.commit.version for t, answer in response.commits.items()}

        def since(granule: Granule, version: int) -> tuple[Granule, int]:
            return granule, version - shelf.first_versions[granule.table]

        return Committed(
            response.timestamp_ms, self._started_ms, self._began, time.monotonic(),
            tuple(since(g, self._versions[self._id(g)]) for g in self._work.reads),
            tuple(since(g, made[self._id(g)]) for g in self._work.writes),
        )  # fmt: skip

    def _id(self, granule: Granule) -> str:
        return self._session.shelf.table_ids[granule.table]


def _granule(of: Granule) -> str:
    return WHOLE if of.partition is None else granule(_COLUMN, str(of.partition))


def _meets(read: Sequence[str], data: bytes | None) -> bool:
    """Whether a commit changes what was read."""
    actions: list[Any] = [orjson.loads(line) for line in (data or b"").splitlines()]
    written = written_granules(actions)
    return written is None or WHOLE in read or not set(read).isdisjoint(written)
