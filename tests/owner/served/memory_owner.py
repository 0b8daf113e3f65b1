"""A small CommitOwner in memory: what the server and the client are tested with, apart from any database."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import orjson

from slackwater.errors import InvalidArgument, TableAlreadyExists, TableNotFound
from slackwater.owner.api import (
    LATEST,
    Commit,
    CommitConflict,
    CommitRequest,
    CommitResponse,
    GetCommitsResponse,
    ManagedTable,
    OwnershipProposal,
    TableState,
)

OWNER_ID = "5f0c7f65-8f8e-4e5c-9a63-6f1f1a9b3f10"


@dataclass
class _Log:
    table: ManagedTable
    commits: list[Commit] = field(default_factory=list)
    by_id: dict[str, CommitResponse] = field(default_factory=dict)


class MemoryOwner:
    """Thread-safe; conflicts wherever the version is not the next one. `before_commit` is called outside its lock."""

    def __init__(self, before_commit: Callable[[], None] = lambda: None) -> None:
        self._lock = threading.Lock()
        self._logs: dict[str, _Log] = {}
        self._before_commit = before_commit
        self.requests: list[CommitRequest] = []
        self.is_closed = False

    @property
    def owner_id(self) -> str:
        return OWNER_ID

    @property
    def endpoint(self) -> str | None:
        return None

    def commit(self, request: CommitRequest) -> CommitResponse | CommitConflict:
        self._before_commit()
        with self._lock:
            self.requests.append(request)
            return self._ratify(self._log(request.table_id), request)

    def get_commits(
        self, table_id: str, start_version: int, end_version: int = LATEST, with_data: bool = False
    ) -> GetCommitsResponse:
        with self._lock:
            log = self._log(table_id)
            last = log.table.ratified_version if end_version == LATEST else end_version
            first = max(start_version, log.table.backfilled_version + 1)
            commits = [commit for commit in log.commits if first <= commit.version <= last]
            if not with_data:
                commits = [replace(commit, data=None) for commit in commits]
            return GetCommitsResponse(commits, log.table.ratified_version)

    def backfill_to_version(self, table_id: str, version: int = LATEST) -> int:
        with self._lock:
            log = self._log(table_id)
            ratified = log.table.ratified_version
            if version > ratified:
                raise InvalidArgument(f"version {version} is not ratified")
            reached = max(log.table.backfilled_version, ratified if version == LATEST else version)
            log.table = replace(log.table, backfilled_version=reached)
            return reached

    def tables(self) -> list[ManagedTable]:
        with self._lock:
            return sorted((log.table for log in self._logs.values()), key=lambda table: table.name)

    def table(self, name: str) -> ManagedTable:
        for table in self.tables():
            if table.name == name:
                return table
        raise TableNotFound(f"the commit owner knows no table named {name!r}")

    def take(self, proposal: OwnershipProposal) -> CommitResponse | CommitConflict:
        with self._lock:
            known = self._logs.get(proposal.table_id)
            if known is not None and proposal.commit_id in known.by_id:
                return known.by_id[proposal.commit_id]
            if known is not None or any(log.table.name == proposal.name for log in self._logs.values()):
                raise TableAlreadyExists(f"there is a table {proposal.name!r}")
            before = proposal.version - 1
            table = ManagedTable(
                proposal.table_id, proposal.name, proposal.location, TableState.ACTIVE, before, before, 0
            )
            self._logs[proposal.table_id] = log = _Log(table)
            request = CommitRequest(proposal.table_id, proposal.commit_id, proposal.version, proposal.actions)
            return self._ratify(log, request)

    def release(self, request: CommitRequest) -> CommitResponse | CommitConflict:
        with self._lock:
            log = self._log(request.table_id)
            answer = self._ratify(log, request)
            if isinstance(answer, CommitResponse):
                log.table = replace(log.table, state=TableState.RELEASED, backfilled_version=answer.commit.version)
            return answer

    def repair(self, table_id: str | None = None) -> list[str]:
        with self._lock:
            if table_id is not None:
                self._log(table_id)
            return []

    def close(self) -> None:
        with self._lock:
            for log in self._logs.values():
                log.table = replace(log.table, backfilled_version=log.table.ratified_version)
            self.is_closed = True

    def _log(self, table_id: str) -> _Log:
        if table_id not in self._logs:
            raise TableNotFound(f"the commit owner knows no table {table_id}")
        return self._logs[table_id]

    def _ratify(self, log: _Log, request: CommitRequest) -> CommitResponse | CommitConflict:
        if request.commit_id in log.by_id:
            return log.by_id[request.commit_id]
        latest = log.table.ratified_version
        if request.version > latest + 1:
            raise InvalidArgument(f"version {request.version - 1} does not exist: the latest is {latest}")
        if request.version <= latest:
            return CommitConflict(latest)
        data = b"".join(orjson.dumps(action) + b"\n" for action in request.actions)
        timestamp_ms = 1_700_000_000_000 + request.version % 1_000_000
        name = f"{request.version:020}.{request.commit_id}.json"
        commit = Commit(request.version, name, timestamp_ms, len(data), data)
        log.commits.append(commit)
        log.table = replace(log.table, ratified_version=request.version, timestamp_ms=timestamp_ms)
        log.by_id[request.commit_id] = CommitResponse(commit, request.version)
        return log.by_id[request.commit_id]
