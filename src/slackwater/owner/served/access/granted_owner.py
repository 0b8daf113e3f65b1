"""View of a commit owner restricted to the grants of one caller.

Every table that the caller may not read is unknown to the view, so that names are not disclosed. Source:
docs/security.md "Grants".
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol, cast

from slackwater.errors import NotAuthorized, TableAlreadyExists, TableNotFound
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.commits import (
    LATEST,
    CommitConflict,
    CommitRequest,
    CommitResponse,
    GetCommitsResponse,
    ManagedTable,
    OwnershipProposal,
    StagedCommit,
)
from slackwater.owner.api.monitoring import MOST_COMMITS, Activity, OpenTransaction, RecentCommit
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import (
    Cut,
    InDoubt,
    LockRequest,
    TimeRequest,
    TransactionConflict,
    TransactionRequest,
    TransactionResponse,
    Vote,
)
from slackwater.owner.served.access.permissions import Principal, Scope
from slackwater.storage.store import ObjectStore

NAMES_CACHED_S = 3.0
"""Maximum time in seconds for which the grants use the earlier name of a table that was adopted under another name."""


class ServedOwner(CommitOwner, Protocol):
    """A commit owner with the calls of the Unity Catalog routes."""

    def store(self, table_id: str) -> ObjectStore:
        """Return the store of the table. Raises TableNotFound."""
        ...

    def commit_staged(self, asked: StagedCommit) -> CommitResponse | CommitConflict:
        """Ratify a commit that its client staged. See `StagedCommitOwner`."""
        ...

    def commit_staged_group(
        self, txn_id: str, asked: Sequence[StagedCommit]
    ) -> TransactionResponse | TransactionConflict:
        """Ratify the commits of a group that its client staged. See `StagedCommitOwner`."""
        ...

    @property
    def root_url(self) -> str:
        """URL of the lake's root."""
        ...

    def register(self, name: str, location: str) -> CommitResponse | CommitConflict:
        """Acquire ownership of a new table whose client wrote version 0."""
        ...


class TableNames:
    """Names of the owner's tables by id, cached. Thread-safe. The name of a released table stays known."""

    def __init__(
        self, tables: Callable[[], Sequence[ManagedTable]], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._tables = tables
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}
        self._read_s: float | None = None

    def name(self, table_id: str) -> str | None:
        """Return the name of the table, None if the owner does not know the table. May call the owner."""
        now_s = self._monotonic()
        with self._lock:
            found, read_s = self._names.get(table_id), self._read_s
        if found is not None and read_s is not None and now_s - read_s < NAMES_CACHED_S:
            return found
        names = {table.table_id: table.name for table in self._tables()}
        with self._lock:
            self._names |= names
            self._read_s = now_s
            return self._names.get(table_id)


def owner_for(owner: CommitOwner, principal: Principal, names: TableNames) -> CommitOwner:
    """Return `owner`, or the view of `owner` for a principal with grants."""
    return owner if principal.grants is None else GrantedOwner(cast(ServedOwner, owner), principal, names)


class GrantedOwner:
    """View of `owner` for `principal`. Implements ServedOwner.

    Calls raise TableNotFound for a table without a grant to read, same as for an unknown table. Calls raise
    NotAuthorized for a readable table without the necessary grant, and for repeated commits to both. Lists contain
    readable tables only.
    """

    def __init__(self, owner: ServedOwner, principal: Principal, names: TableNames) -> None:
        self._owner = owner
        self._principal = principal
        self._names = names

    def require(self, scope: Scope, table_ids: Iterable[str], is_replay: bool = False) -> None:
        """Raise TableNotFound for the first unknown or unreadable table, NotAuthorized without `scope`.

        Raises NotAuthorized for both with `is_replay`. TableNotFound would mean that no earlier attempt is committed,
        and the client would delete the files of the commit.
        """
        for table_id in table_ids:
            name = self._names.name(table_id)
            if name is not None and self._sees(name):
                self._require_named(scope, name)
            elif is_replay:
                raise NotAuthorized(
                    f"table {table_id}: an earlier attempt may be committed, and the token {self._principal.name!r} "
                    "cannot read the table now. Read its log with another token"
                )
            else:
                raise TableNotFound(f"the commit owner has no table {table_id}")

    @property
    def owner_id(self) -> str:
        return self._owner.owner_id

    @property
    def endpoint(self) -> str | None:
        return self._owner.endpoint

    def commit(self, request: CommitRequest) -> CommitResponse | CommitConflict:
        self.require(Scope.COMMIT, [request.table_id], request.is_replay)
        return self._owner.commit(request)

    def commit_staged(self, asked: StagedCommit) -> CommitResponse | CommitConflict:
        self.require(Scope.COMMIT, [asked.table_id])
        return self._owner.commit_staged(asked)

    def commit_staged_group(
        self, txn_id: str, asked: Sequence[StagedCommit]
    ) -> TransactionResponse | TransactionConflict:
        self.require(Scope.COMMIT, [commit.table_id for commit in asked])
        return self._owner.commit_staged_group(txn_id, asked)

    def store(self, table_id: str) -> ObjectStore:
        self.require(Scope.READ, [table_id])
        return self._owner.store(table_id)

    def get_commits(
        self, table_id: str, start_version: int, end_version: int = LATEST, with_data: bool = False
    ) -> GetCommitsResponse:
        self.require(Scope.READ, [table_id])
        return self._owner.get_commits(table_id, start_version, end_version, with_data)

    def backfill_to_version(self, table_id: str, version: int = LATEST) -> int:
        self.require(Scope.COMMIT, [table_id])
        return self._owner.backfill_to_version(table_id, version)

    def tables(self) -> list[ManagedTable]:
        return [table for table in self._owner.tables() if self._sees(table.name)]

    def table(self, name: str) -> ManagedTable:
        # The message of the owner names existing tables, so it is never passed on.
        unknown = TableNotFound(f"no table named {name!r} exists in this lake")
        if not self._sees(name):
            raise unknown
        try:
            return self._owner.table(name)
        except TableNotFound:
            raise unknown from None

    def take(self, proposal: OwnershipProposal) -> CommitResponse | CommitConflict:
        # Not TableNotFound, because the table may be new. The response does not depend on existing tables.
        self._require_named(Scope.ADMIN, proposal.name)
        known = self._names.name(proposal.table_id)
        if known is not None and not self._sees(known):
            # A repeated adoption gets the result of the first, which is about the hidden table.
            raise TableAlreadyExists(
                f"the commit owner already has a table named {proposal.name!r}, or a table at {proposal.location}. "
                "Choose another name, or use the existing table"
            )
        return self._owner.take(proposal)

    @property
    def root_url(self) -> str:
        return self._owner.root_url

    def require_creatable(self, name: str) -> None:
        """Raise NotAuthorized without a grant to create a table called `name`."""
        self._require_named(Scope.ADMIN, name)

    def register(self, name: str, location: str) -> CommitResponse | CommitConflict:
        self._require_named(Scope.ADMIN, name)
        return self._owner.register(name, location)

    def release(self, request: CommitRequest) -> CommitResponse | CommitConflict:
        self.require(Scope.ADMIN, [request.table_id], request.is_replay)
        return self._owner.release(request)

    def repair(self, table_id: str | None = None) -> list[str]:
        if table_id is not None:
            self.require(Scope.ADMIN, [table_id])
            return self._owner.repair(table_id)
        own = [table for table in self._owner.tables() if self._principal.may(Scope.ADMIN, table.name)]
        return [done for table in own for done in self._owner.repair(table.table_id)]

    def cut(self, timestamp_ms: int | None = None) -> Cut:
        cut = self._owner.cut(timestamp_ms)
        return replace(cut, tables=[table for table in cut.tables if self._sees(table.name)])

    def narrow(self, request: TimeRequest) -> TimestampRange:
        self.require(Scope.COMMIT, [*(item.table_id for item in request.writes), *request.holds])
        return self._owner.narrow(request)

    def lock(self, request: LockRequest) -> None:
        scope = Scope.COMMIT if request.is_exclusive else Scope.READ
        self.require(scope, [item.table_id for item in request.items])
        self._owner.lock(request)

    def keep_alive(self, txn_id: str) -> None:
        self._owner.keep_alive(txn_id)

    def commit_transaction(self, request: TransactionRequest) -> TransactionResponse | TransactionConflict:
        self._require_parts(request)
        return self._owner.commit_transaction(request)

    def end(self, txn_id: str) -> None:
        self._owner.end(txn_id)

    def prepare(self, request: TransactionRequest, coordinator_id: str) -> Vote | TransactionConflict:
        self._require_parts(request)
        return self._owner.prepare(request, coordinator_id)

    def decide(self, txn_id: str, timestamp_ms: int | None, participants: Sequence[str]) -> int | None:
        return self._owner.decide(txn_id, timestamp_ms, participants)

    def decision(self, txn_id: str) -> int | None:
        return self._owner.decision(txn_id)

    def finish(self, txn_id: str, timestamp_ms: int | None) -> TransactionResponse | None:
        return self._owner.finish(txn_id, timestamp_ms)

    def acknowledge(self, txn_id: str, participant_id: str) -> None:
        self._owner.acknowledge(txn_id, participant_id)

    def in_doubt(self) -> list[InDoubt]:
        # Ids of transactions, which may be about any table.
        if not self._principal.may_everywhere(Scope.ADMIN):
            raise NotAuthorized(
                f"token {self._principal.name!r}: its grants do not include '*:admin', which the transactions in doubt "
                "need. Use a token for all tables"
            )
        return self._owner.in_doubt()

    def activity(self) -> Activity:
        found = self._owner.activity()
        return replace(
            found,
            transactions=[seen for each in found.transactions if (seen := self._transaction(each)) is not None],
            locks=[lock for lock in found.locks if self._sees(lock.table)],
            promises=[promise for promise in found.promises if self._sees(promise.table)],
        )

    def recent_commits(self, limit: int = 50) -> list[RecentCommit]:
        found = self._owner.recent_commits(MOST_COMMITS)
        return [commit for commit in found if self._sees(commit.table)][:limit]

    def close(self) -> None:
        """Do nothing, because the server closes its owner."""

    def _transaction(self, found: OpenTransaction) -> OpenTransaction | None:
        """Return the transaction with its readable tables, None for a transaction of other tables only."""
        tables = [name for name in found.tables if self._sees(name)]
        is_own = found.opened_by == self._principal.name
        return replace(found, tables=tables) if tables or is_own else None

    def _require_parts(self, request: TransactionRequest) -> None:
        self.require(Scope.READ, [read.table_id for read in request.reads], request.is_replay)
        self.require(Scope.COMMIT, [write.table_id for write in request.writes], request.is_replay)

    def _require_named(self, scope: Scope, name: str) -> None:
        if not self._principal.may(scope, name):
            raise NotAuthorized(
                f"table {name!r}: the token {self._principal.name!r} has no grant with {scope.value!r} for it. Request "
                f"the grant '{name}:{scope.value}'"
            )

    def _sees(self, name: str) -> bool:
        return self._principal.may(Scope.READ, name)
