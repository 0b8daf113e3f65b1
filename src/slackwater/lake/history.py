"""Commit history of all tables of a lake, in order of time. The commits of one transaction form one entry.

Source: docs/time-travel.md "What was done"; delta-protocol.md "Commit Provenance Information".
"""

from __future__ import annotations

import datetime as dt
import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson

from slackwater.errors import InvalidArgument
from slackwater.log.files.commit_changes import CommitChanges, commit_changes
from slackwater.log.table import Table
from slackwater.owner.api.timestamp_range import at_ms
from slackwater.owner.api.transactions import TableVersion
from slackwater.protocol.actions.commit_info import info_of
from slackwater.scan.snapshot import Snapshot

_LISTED_FIRST = 1_000

OpenTable = Callable[[TableVersion], Table]


@dataclass(frozen=True, slots=True)
class TableCommit:
    """The provenance information of one commit. Fields omitted by the writer are None or empty."""

    version: int
    operation: str | None
    operation_parameters: Mapping[str, str | None]
    operation_metrics: Mapping[str, str | None]
    user_metadata: str | None
    user_name: str | None
    engine_info: str | None
    changes: CommitChanges


@dataclass(frozen=True, slots=True)
class LakeCommit:
    """A transaction in the logs: commits with the same timestamp, by table name.

    `timestamp` is in UTC, with whole milliseconds. A commit without `txnId` is an entry of its own.
    """

    timestamp: dt.datetime
    transaction_id: str | None
    commits: Mapping[str, TableCommit]

    @property
    def tables(self) -> Mapping[str, int]:
        """The versions made by the transaction, by table name."""
        return {name: commit.version for name, commit in self.commits.items()}

    @property
    def operations(self) -> Mapping[str, str | None]:
        """The operations of the transaction, by table name."""
        return {name: commit.operation for name, commit in self.commits.items()}

    @property
    def user_metadata(self) -> Mapping[str, str]:
        """The user's texts, by table name. Tables without a text are omitted."""
        return {name: c.user_metadata for name, c in self.commits.items() if c.user_metadata is not None}


def lake_history(tables: Sequence[TableVersion], open_table: OpenTable, limit: int | None = None) -> list[LakeCommit]:
    """Return the transactions up to the versions `tables`, newest first, at most `limit`.

    Each table is in version order. Transactions of one instant are sorted by their first table's name. Logs are read
    lazily: a log is listed when its newest commit is due. Commits older than the last result are not read. `open_table`
    opens a table. Histories end at the oldest commit left by log cleanup. Raises CorruptLog, StorageError.
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise InvalidArgument(f"limit must be a whole number from 0, found {limit!r}")
    return list(islice(lake_transactions(tables, open_table), limit))


@dataclass(frozen=True, slots=True)
class _Entry:
    timestamp_ms: int
    name: str
    transaction_id: str | None
    commit: TableCommit


def table_transactions(snapshot: Snapshot, name: str) -> Iterator[LakeCommit]:
    """Yield the commits of the table `name` up to `snapshot`, newest first. Each commit is read on demand.

    Raises CorruptLog, StorageError.
    """
    for entry in _read(snapshot, name):
        yield LakeCommit(at_ms(entry.timestamp_ms), entry.transaction_id, {name: entry.commit})


def lake_transactions(tables: Sequence[TableVersion], open_table: OpenTable) -> Iterator[LakeCommit]:
    """Yield the transactions of `lake_history` lazily.

    A heap merges the tables. It contains the next entry of each table.
    """
    waiting: list[tuple[int, int, _Entry | None]] = []
    logs: list[Iterator[_Entry]] = []
    for at in sorted(tables, key=lambda table: table.name):
        if at.version is None or at.timestamp_ms is None:
            raise InvalidArgument(f"the history of the table {at.name!r} needs its newest version")
        # The owner's timestamp orders the first entry, so that no log is opened for it.
        waiting.append((-at.timestamp_ms, len(logs), None))
        logs.append(_entries(at, at.version, open_table))
    heapq.heapify(waiting)
    while waiting:
        order = waiting[0][0]
        found: list[_Entry] = []
        while waiting and waiting[0][0] == order:
            _, number, entry = heapq.heappop(waiting)
            if entry is not None:
                found.append(entry)
            following = next(logs[number], None)
            if following is not None:
                # Keep the version order of a table even if copied files have wrong modification times.
                earliest = order if entry is None else order + 1
                heapq.heappush(waiting, (max(-following.timestamp_ms, earliest), number, following))
        yield from _grouped(found)


def _entries(at: TableVersion, version: int, open_table: OpenTable) -> Iterator[_Entry]:
    # A generator, so that the table opens only on the first entry.
    yield from _read(Snapshot.open(open_table(at), version), at.name)


def _read(snapshot: Snapshot, name: str) -> Iterator[_Entry]:
    for version, timestamp_ms, actions in _newest_first(snapshot):
        info = info_of(actions)
        txn_id = info.get("txnId")
        commit = _commit(version, info, commit_changes(actions))
        yield _Entry(timestamp_ms, name, txn_id if isinstance(txn_id, str) else None, commit)


def _newest_first(snapshot: Snapshot) -> Iterator[tuple[int, int, list[dict[str, Any]]]]:
    """Yield (version, timestamp in ms, actions) of every commit. The whole log is listed after the newest commits."""
    recent = snapshot.history_up_to(_LISTED_FIRST)
    yield from recent.commits()
    oldest = min(recent.versions, default=0)
    if oldest > 0:
        yield from snapshot.history_up_to().commits(before=oldest)


def _grouped(entries: Sequence[_Entry]) -> list[LakeCommit]:
    groups: dict[tuple[int, str | None, str | None], list[_Entry]] = {}
    for entry in sorted(entries, key=lambda e: e.name):
        alone = entry.name if entry.transaction_id is None else None
        groups.setdefault((entry.timestamp_ms, entry.transaction_id, alone), []).append(entry)
    return [
        LakeCommit(at_ms(timestamp_ms), txn_id, {e.name: e.commit for e in group})
        for (timestamp_ms, txn_id, _), group in groups.items()
    ]


def _commit(version: int, info: Mapping[str, Any], changes: CommitChanges) -> TableCommit:
    return TableCommit(
        version,
        _text(info.get("operation")),
        _texts(info.get("operationParameters")),
        _texts(info.get("operationMetrics")),
        _text(info.get("userMetadata")),
        _text(info.get("userName")),
        _text(info.get("engineInfo")),
        changes,
    )


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else orjson.dumps(value).decode()


def _texts(value: Any) -> Mapping[str, str | None]:
    return {key: _text(item) for key, item in value.items()} if isinstance(value, dict) else {}
