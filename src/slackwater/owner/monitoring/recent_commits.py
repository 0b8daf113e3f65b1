"""The latest commits of all tables, newest first, with facts from their `commitInfo`. Source: docs/commit-owner.md."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy import Connection, Row

from slackwater.errors import InvalidArgument, StorageError
from slackwater.owner.api.commits import TableState
from slackwater.owner.api.monitoring import MOST_COMMITS, RecentCommit
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import commits, tables
from slackwater.owner.locks.deadlock_detection import short_id
from slackwater.owner.state.log_head import RATIFIED
from slackwater.protocol.actions.file_names import commit_path, staged_path
from slackwater.storage.store import ObjectStore

_LATEST = (
    sa.select(commits, tables.c.name, tables.c.backfilled_version)
    .join(tables, tables.c.table_id == commits.c.table_id)
    .where(commits.c.state == RATIFIED, tables.c.state != TableState.RELEASED.value)
    .order_by(commits.c.timestamp_ms.desc(), tables.c.name, commits.c.version.desc())
    .limit(sa.bindparam("most"))
)
_MOST_REMEMBERED = 4096
# The owner writes `commitInfo` into the first line. Longer lines are ignored.
_LONGEST_LINE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class _Said:
    operation: str | None = None
    user_name: str | None = None
    metrics: Mapping[str, str] | None = None


class RecentCommitReader:
    """Implements `recent_commits`. The `commitInfo` of a commit is read once and cached. Thread-safe."""

    def __init__(self, database: Database, store_of: Callable[[str], ObjectStore]) -> None:
        self._database = database
        self._store_of = store_of
        self._lock = threading.Lock()
        self._said: OrderedDict[tuple[str, int], _Said] = OrderedDict()

    def get(self, limit: int) -> list[RecentCommit]:
        """Return the latest commits. See `CommitOwner.recent_commits`."""
        if not 1 <= limit <= MOST_COMMITS:
            raise InvalidArgument(f"the limit must be 1 to {MOST_COMMITS} commits, found {limit}")
        return [self._told(row) for row in self._database.read(lambda c: _latest(c, limit))]

    def _told(self, row: Row[Any]) -> RecentCommit:
        said = self._what_it_says(row)
        return RecentCommit(
            row.table_id,
            row.name,
            row.version,
            row.timestamp_ms,
            short_id(row.txn_id or row.commit_id),
            row.size_bytes,
            row.version <= row.backfilled_version,
            said.operation,
            said.user_name,
            said.metrics or {},
        )

    def _what_it_says(self, row: Row[Any]) -> _Said:
        key = (row.table_id, row.version)
        with self._lock:
            found = self._said.get(key)
        if found is None:
            try:
                found = _said(_first_line(self._store_of(row.table_id), row))
            except StorageError:
                # Return the commit without its facts and do not cache, because the file may be readable later.
                return _Said()
            with self._lock:
                self._said[key] = found
                if len(self._said) > _MOST_REMEMBERED:
                    self._said.popitem(last=False)
        return found


def _latest(connection: Connection, limit: int) -> list[Row[Any]]:
    return list(connection.execute(_LATEST, {"most": limit}).all())


def _first_line(store: ObjectStore, row: Row[Any]) -> bytes:
    """Return the first line of the commit's file. Raises StorageError."""
    length = min(row.size_bytes, _LONGEST_LINE_BYTES)
    if row.version <= row.backfilled_version:
        paths = [commit_path(row.version), staged_path(row.file_name)]
    else:
        paths = [staged_path(row.file_name), commit_path(row.version)]
    try:
        data = _read(store, paths[0], length)
    except StorageError:
        data = _read(store, paths[1], length)
    return data.partition(b"\n")[0]


def _read(store: ObjectStore, path: str, length: int) -> bytes:
    # Read all of an adopting commit, because the owner does not know its size.
    return store.read_range(path, 0, length) if length else store.read(path)


def _said(line: bytes) -> _Said:
    try:
        info = orjson.loads(line)["commitInfo"]
        metrics = info.get("operationMetrics") or {}
        texts = {str(name): value for name, value in metrics.items() if isinstance(value, str)}
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return _Said()
    return _Said(_text(info.get("operation")), _text(info.get("userName")), texts)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
