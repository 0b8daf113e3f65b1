"""The commits of all tables of a lake in one order of time, those of one transaction together.

Source: docs/time-travel.md "What was done"; delta-protocol.md "Commit Provenance Information".
"""

from __future__ import annotations

import datetime as dt
import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import orjson

from slackwater.errors import InvalidArgument
from slackwater.log.commit_changes import CommitChanges, commit_changes
from slackwater.log.history import CommitHistory
from slackwater.log.table import Table
from slackwater.owner.api.timestamp_range import at_ms
from slackwater.owner.api.transactions import TableVersion
from slackwater.protocol.actions.commit_info import info_of
from slackwater.scan.snapshot import Snapshot

OpenTable = Callable[[TableVersion], Table]


@dataclass(frozen=True, slots=True)
class TableCommit:
    """What one commit says of itself; None, or nothing, where its writer left it out."""

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
    """One transaction as the logs hold it: its commits by the names of their tables, all of one timestamp.

    `timestamp` is UTC, whole milliseconds. A commit whose writer gave it no `txnId` stands by itself.
    """

    timestamp: dt.datetime
    transaction_id: str | None
    commits: Mapping[str, TableCommit]

    @property
    def tables(self) -> Mapping[str, int]:
        """The versions that it made, by the names of the tables."""
        return {name: commit.version for name, commit in self.commits.items()}

    @property
    def operations(self) -> Mapping[str, str | None]:
        """What it did, by the names of the tables."""
        return {name: commit.operation for name, commit in self.commits.items()}

    @property
    def user_metadata(self) -> Mapping[str, str]:
        """What the user noted, by the names of the tables where something was noted."""
        return {name: c.user_metadata for name, c in self.commits.items() if c.user_metadata is not None}


def lake_history(tables: Sequence[TableVersion], open_table: OpenTable, limit: int | None = None) -> list[LakeCommit]:
    """The transactions up to the versions `tables`, newest first, at most `limit`; a table's in the order of versions.

    Those of one instant stand in the order of their first table's name. A log is listed when its newest commit is in
    question, and its commits are read one by one: what is older than the last transaction asked for is not read. Logs
    reach back to where they were cleaned up. Raises CorruptLog, StorageError.
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
    """The commits of one table, called `name`, up to `snapshot`, newest first; each is read when needed.

    Raises CorruptLog, StorageError.
    """
    for entry in _read(snapshot, name):
        yield LakeCommit(at_ms(entry.timestamp_ms), entry.transaction_id, {name: entry.commit})


def lake_transactions(tables: Sequence[TableVersion], open_table: OpenTable) -> Iterator[LakeCommit]:
    """As `lake_history`, one after the other.

    One heap has the newest entry of every table that is not passed yet.
    """
    waiting: list[tuple[int, int, _Entry | None]] = []
    logs: list[Iterator[_Entry]] = []
    for at in sorted(tables, key=lambda table: table.name):
        if at.version is None or at.timestamp_ms is None:
            raise InvalidArgument(f"the history of the table {at.name!r} needs its newest version")
        # The owner knows when the newest version is of: no log is opened for that.
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
                # The versions of one table keep their order, whatever the times of copied files say.
                earliest = order if entry is None else order + 1
                heapq.heappush(waiting, (max(-following.timestamp_ms, earliest), number, following))
        yield from _grouped(found)


def _entries(at: TableVersion, version: int, open_table: OpenTable) -> Iterator[_Entry]:
    # Nothing is opened before the first entry is asked for.
    yield from _read(Snapshot.open(open_table(at), version), at.name)


def _read(snapshot: Snapshot, name: str) -> Iterator[_Entry]:
    listing = snapshot.table.list_log()
    seen = {v: commit for v, commit in listing.commits.items() if v <= snapshot.version}
    history = CommitHistory(snapshot.store, replace(listing, commits=seen), snapshot.configuration)
    for version, timestamp_ms, actions in history.commits():
        info = info_of(actions)
        txn_id = info.get("txnId")
        commit = _commit(version, info, commit_changes(actions))
        yield _Entry(timestamp_ms, name, txn_id if isinstance(txn_id, str) else None, commit)


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
