"""Requests for transactions over many tables, for the suites of the commit owner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import (
    WHOLE,
    Item,
    LockRequest,
    TableRead,
    TableWrite,
    TimeRequest,
    TransactionConflict,
    TransactionRequest,
    TransactionResponse,
)
from tests.contract.owners import Table, added, new_id


@dataclass
class Txn:
    """A transaction at its owner: what it has read, is to write and was told of the time."""

    owner: CommitOwner
    txn_id: str = field(default_factory=new_id)
    range: TimestampRange = field(init=False)
    versions: Mapping[str, int] = field(init=False)
    reads: list[TableRead] = field(default_factory=list)
    writes: list[TableWrite] = field(default_factory=list)

    def __post_init__(self) -> None:
        cut = self.owner.cut()
        self.started_ms = cut.timestamp_ms
        self.range = TimestampRange(cut.timestamp_ms - 1)
        self.versions = {table.table_id: table.version or 0 for table in cut.tables}
        self.stamps = {table.table_id: table.timestamp_ms or 0 for table in cut.tables}

    def read(self, table: Table, *granules: str) -> Txn:
        """Read a table as of the beginning, or of it what is in `granules`."""
        self.range = self.range.above(self.stamps[table.table_id])
        self.reads.append(TableRead(table.table_id, self.versions[table.table_id], granules or (WHOLE,)))
        return self

    def write(self, table: Table, *actions: Any, may_move: bool = False) -> Txn:
        """Stage a commit."""
        info = {"commitInfo": {"txnId": self.txn_id, "operation": "WRITE"}}
        version = self.versions[table.table_id] + 1
        write = TableWrite(table.table_id, version, [info, *(actions or (added(),))], may_move)
        self.writes.append(write)
        return self

    def ask(
        self, precision: str = "millisecond", zone: str = "UTC", ahead_ms: int = 0, holds: Sequence[Table] = ()
    ) -> TimestampRange:
        """Ask for the current time."""
        items = [Item(write.table_id) for write in self.writes]
        held = tuple(table.table_id for table in holds)
        asked = TimeRequest(self.txn_id, self.range, precision, zone, items, ahead_ms, held)
        self.range = self.owner.narrow(asked)
        return self.range

    def lock(self, *tables: Table, exclusive: bool = False, timeout_s: float = 5.0, granule: str = WHOLE) -> None:
        """Lock tables, or a granule of each."""
        items = [Item(table.table_id, granule) for table in tables]
        self.owner.lock(LockRequest(self.txn_id, self.started_ms, items, exclusive, timeout_s))

    def request(self, **fields: Any) -> TransactionRequest:
        """What is asked of the owner."""
        return TransactionRequest(self.txn_id, self.range, self.reads, self.writes, **fields)

    def commit(self) -> TransactionResponse:
        """Have it ratified."""
        outcome = self.owner.commit_transaction(self.request())
        assert isinstance(outcome, TransactionResponse), outcome
        return outcome

    def conflict(self) -> Mapping[str, int]:
        """The tables that have newer versions, by which it is refused."""
        outcome = self.owner.commit_transaction(self.request())
        assert isinstance(outcome, TransactionConflict), outcome
        return outcome.latest_versions
