"""A small CommitOwner in memory: what the server and the client are tested with, apart from any database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import orjson

from slackwater.errors import (
    InvalidArgument,
    LockTimeout,
    TableAlreadyExists,
    TableNotFound,
    TimestampConflict,
    TimestampOutOfRange,
)
from slackwater.owner.api.commits import (
    LATEST,
    Commit,
    CommitConflict,
    CommitRequest,
    CommitResponse,
    GetCommitsResponse,
    ManagedTable,
    OwnershipProposal,
    StagedCommit,
    TableState,
)
from slackwater.owner.api.monitoring import Activity, LockInfo, ReadTimestampLoad, RecentCommit
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import (
    Cut,
    InDoubt,
    Item,
    LockRequest,
    TableVersion,
    TableWrite,
    TimeRequest,
    TransactionConflict,
    TransactionRequest,
    TransactionResponse,
    Vote,
)
from slackwater.storage.store import ObjectStore

OWNER_ID = "5f0c7f65-8f8e-4e5c-9a63-6f1f1a9b3f10"
NOW_MS = 1_700_000_000_000 + 1_000_000
"""The time of this owner, always; commits got theirs before."""


@dataclass
class _Log:
    table: ManagedTable
    commits: list[Commit] = field(default_factory=list)
    by_id: dict[str, CommitResponse] = field(default_factory=dict)


class MemoryOwner:
    """Thread-safe; conflicts wherever the version is not the next one, and locks that it does not wait for.

    `before_commit` is called outside its lock.
    """

    def __init__(self, before_commit: Callable[[], object] = lambda: None) -> None:
        self._lock = threading.Lock()
        self._logs: dict[str, _Log] = {}
        self._before_commit = before_commit
        self.requests: list[CommitRequest] = []
        self.time_requests: list[TimeRequest] = []
        self.lock_requests: list[LockRequest] = []
        self.transactions: list[TransactionRequest] = []
        self.alive: list[str] = []
        self.ended: list[str] = []
        self.repaired: list[str | None] = []
        self.promised: list[tuple[TransactionRequest, str]] = []
        self.acknowledged: list[tuple[str, str]] = []
        self.decisions: dict[str, tuple[int | None, list[str]]] = {}
        self._by_txn: dict[str, TransactionResponse] = {}
        self._prepared: dict[str, tuple[TransactionRequest, str, Vote]] = {}
        self._held: dict[Item, str] = {}
        self.is_closed = False

    @property
    def owner_id(self) -> str:
        return OWNER_ID

    @property
    def endpoint(self) -> str | None:
        return None

    root_url = "file:///nowhere"

    def require_creatable(self, name: str) -> None:
        """Every name will do."""

    def register(self, name: str, location: str) -> CommitResponse | CommitConflict:
        raise InvalidArgument(f"{location} has no version 0 for {name!r}")

    def commit(self, request: CommitRequest) -> CommitResponse | CommitConflict:
        self._before_commit()
        with self._lock:
            self.requests.append(request)
            return self._ratify(self._log(request.table_id), request)

    def store(self, table_id: str) -> ObjectStore:
        raise TableNotFound(f"the table {table_id} has no files")

    def commit_staged(self, asked: StagedCommit) -> CommitResponse | CommitConflict:
        info = {"commitInfo": {"txnId": asked.file_name, "operation": "WRITE"}}
        return self.commit(CommitRequest(asked.table_id, asked.file_name, asked.version, [info]))

    def commit_staged_group(
        self, txn_id: str, asked: Sequence[StagedCommit]
    ) -> TransactionResponse | TransactionConflict:
        info = {"commitInfo": {"txnId": txn_id, "operation": "WRITE"}}
        writes = [TableWrite(each.table_id, each.version, [info]) for each in asked]
        return self.commit_transaction(TransactionRequest(txn_id, TimestampRange(0), writes=writes))

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
                raise TableAlreadyExists(f"a table named {proposal.name!r} already exists")
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
            self.repaired.append(table_id)
            return []

    def cut(self, timestamp_ms: int | None = None) -> Cut:
        if timestamp_ms is not None and timestamp_ms > NOW_MS:
            raise TimestampOutOfRange(f"{timestamp_ms} is in the future: it is {NOW_MS}")
        with self._lock:
            logs = sorted(self._logs.values(), key=lambda log: log.table.name)
            at_ms = NOW_MS if timestamp_ms is None else timestamp_ms
            return Cut(at_ms, [_version_at(log, at_ms) for log in logs])

    def narrow(self, request: TimeRequest) -> TimestampRange:
        with self._lock:
            self.time_requests.append(request)
        narrowed = request.range.narrowed(NOW_MS + request.ahead_ms, request.precision, request.zone)
        if narrowed.is_empty:
            raise TimestampConflict(f"no timestamp is left of {request.range}")
        return narrowed

    def lock(self, request: LockRequest) -> None:
        with self._lock:
            self.lock_requests.append(request)
            self._hold(request.txn_id, request.items)

    def keep_alive(self, txn_id: str) -> None:
        self.alive.append(txn_id)

    def commit_transaction(self, request: TransactionRequest) -> TransactionResponse | TransactionConflict:
        self._before_commit()
        with self._lock:
            self.transactions.append(request)
            if request.txn_id in self._by_txn:
                return self._by_txn[request.txn_id]
            behind = self._behind(request)
            if behind:
                return TransactionConflict(behind)
            if request.range.is_empty:
                raise TimestampConflict(f"no timestamp is left of {request.range}")
            return self._carry_out(request, request.range.choose(NOW_MS))

    def end(self, txn_id: str) -> None:
        with self._lock:
            self.ended.append(txn_id)
            if txn_id not in self._prepared:
                self._free(txn_id)

    def prepare(self, request: TransactionRequest, coordinator_id: str) -> Vote | TransactionConflict:
        with self._lock:
            self.promised.append((request, coordinator_id))
            if request.txn_id in self._prepared:
                return self._prepared[request.txn_id][2]
            behind = self._behind(request)
            self._hold(request.txn_id, [Item(write.table_id) for write in request.writes])
            if behind:
                return TransactionConflict(behind)
            if request.range.is_empty:
                raise TimestampConflict(f"no timestamp is left of {request.range}")
            vote = Vote(request.range, NOW_MS)
            self._prepared[request.txn_id] = (request, coordinator_id, vote)
            return vote

    def decide(self, txn_id: str, timestamp_ms: int | None, participants: Sequence[str]) -> int | None:
        with self._lock:
            return self.decisions.setdefault(txn_id, (timestamp_ms, list(participants)))[0]

    def decision(self, txn_id: str) -> int | None:
        return self.decide(txn_id, None, ())

    def finish(self, txn_id: str, timestamp_ms: int | None) -> TransactionResponse | None:
        with self._lock:
            request, _, vote = self._prepared.get(txn_id, (None, "", None))
            if request is None or vote is None:
                return None
            if timestamp_ms is not None and not vote.range.low_ms < timestamp_ms <= vote.range.high_ms:
                raise InvalidArgument(
                    f"the decided timestamp {timestamp_ms} is outside the vote, which allows {vote.range}"
                )
            del self._prepared[txn_id]
            self._free(txn_id)
            return None if timestamp_ms is None else self._carry_out(request, timestamp_ms)

    def acknowledge(self, txn_id: str, participant_id: str) -> None:
        with self._lock:
            self.acknowledged.append((txn_id, participant_id))

    def in_doubt(self) -> list[InDoubt]:
        with self._lock:
            return [
                InDoubt(txn_id, coordinator_id, NOW_MS) for txn_id, (_, coordinator_id, _) in self._prepared.items()
            ]

    def activity(self) -> Activity:
        with self._lock:
            names = {table_id: log.table.name for table_id, log in self._logs.items()}
            held = [
                LockInfo(
                    names.get(item.table_id, item.table_id), item.granule, txn_id[:8], "X", "", [], NOW_MS, NOW_MS,
                    "memory:1:0", False
                )
                for item, txn_id in self._held.items()
            ]  # fmt: skip
        return Activity(NOW_MS, [], held, [], ReadTimestampLoad(4096, 0, 0, 0), 0)

    def recent_commits(self, limit: int = 50) -> list[RecentCommit]:
        with self._lock:
            found = [
                RecentCommit(
                    table_id, log.table.name, commit.version, commit.timestamp_ms, "", commit.size_bytes,
                    commit.version <= log.table.backfilled_version, None, None, {}
                )
                for table_id, log in self._logs.items()
                for commit in log.commits
            ]  # fmt: skip
        return sorted(found, key=lambda commit: -commit.timestamp_ms)[:limit]

    def close(self) -> None:
        with self._lock:
            for log in self._logs.values():
                log.table = replace(log.table, backfilled_version=log.table.ratified_version)
            self.is_closed = True

    def _behind(self, request: TransactionRequest) -> dict[str, int]:
        latest = {write.table_id: self._log(write.table_id).table.ratified_version for write in request.writes}
        return {w.table_id: latest[w.table_id] for w in request.writes if w.version <= latest[w.table_id]}

    def _carry_out(self, request: TransactionRequest, timestamp_ms: int) -> TransactionResponse:
        commits: dict[str, CommitResponse] = {}
        for write in request.writes:
            part = CommitRequest(write.table_id, request.txn_id, write.version, write.actions)
            answer = self._ratify(self._log(write.table_id), part)
            assert isinstance(answer, CommitResponse)
            commits[write.table_id] = answer
        self._free(request.txn_id)
        self._by_txn[request.txn_id] = TransactionResponse(timestamp_ms, commits)
        return self._by_txn[request.txn_id]

    def _hold(self, txn_id: str, items: Sequence[Item]) -> None:
        for item in items:
            self._log(item.table_id)
            if self._held.get(item, txn_id) != txn_id:
                raise LockTimeout(f"transaction {self._held[item]} holds {item}")
        self._held.update(dict.fromkeys(items, txn_id))

    def _free(self, txn_id: str) -> None:
        self._held = {item: holder for item, holder in self._held.items() if holder != txn_id}

    def _log(self, table_id: str) -> _Log:
        if table_id not in self._logs:
            raise TableNotFound(f"the commit owner knows no table {table_id}")
        return self._logs[table_id]

    def _ratify(self, log: _Log, request: CommitRequest) -> CommitResponse | CommitConflict:
        if request.commit_id in log.by_id:
            return log.by_id[request.commit_id]
        latest = log.table.ratified_version
        if request.version > latest + 1:
            raise InvalidArgument(f"version {request.version - 1} does not exist. The latest is {latest}")
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


def _version_at(log: _Log, at_ms: int) -> TableVersion:
    table = log.table
    found = [commit for commit in log.commits if commit.timestamp_ms <= at_ms]
    version, timestamp_ms = (found[-1].version, found[-1].timestamp_ms) if found else (None, None)
    return TableVersion(
        table.table_id, table.name, table.location, version, timestamp_ms, log.commits[0].version if log.commits else 0
    )
