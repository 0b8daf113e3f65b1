"""Embedded commit owner: runs in the writing process, on a database shared by such processes.

Source: docs/commit-owner.md.
"""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from slackwater.errors import InvalidArgument, SlackwaterError, TableNotFound
from slackwater.log.files.segment import LAKE_DATABASE
from slackwater.owner.api.commits import (
    LATEST,
    CommitConflict,
    CommitRequest,
    CommitResponse,
    GetCommitsResponse,
    ManagedTable,
    OwnershipProposal,
    StagedCommit,
    TableState,
)
from slackwater.owner.api.monitoring import Activity, RecentCommit
from slackwater.owner.api.owner_registry import reopened
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
from slackwater.owner.commit.pipeline import MAX_BACKLOG, CommitPipeline
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import owner, tables
from slackwater.owner.lock_manager import LockManager
from slackwater.owner.monitoring.activity import activity
from slackwater.owner.monitoring.recent_commits import RecentCommitReader
from slackwater.owner.ownership_transfer import OwnershipTransfer
from slackwater.owner.publish.backfill import BACKFILL_DELAY_S, ROWS_KEPT, Backfill
from slackwater.owner.publish.unbackfilled_commits import UnbackfilledCommits
from slackwater.owner.recovery.database_state import is_under_way
from slackwater.owner.recovery.fences import Fences
from slackwater.owner.recovery.lake_identity import require_same_lake
from slackwater.owner.repair import TableRepair, named_table
from slackwater.owner.state.clock import LEASE_MS, OwnerClock
from slackwater.owner.state.notifications import ChangeNotifier
from slackwater.owner.state.read_timestamps import resize
from slackwater.owner.state.shared_clock import last_ms
from slackwater.owner.state.table_stores import TableStores
from slackwater.owner.time.time_slices import TimeSlices
from slackwater.owner.time.timestamp_requests import TimestampRequests
from slackwater.owner.two_phase_commit import TwoPhaseCommit
from slackwater.protocol.actions.file_names import LOG
from slackwater.storage.location import LOCAL, parse_location
from slackwater.storage.store import ObjectStore

DATABASE_FILE = LAKE_DATABASE
"""Path of a local lake's SQLite database, below its root."""


class EmbeddedOwner:
    """A `CommitOwner` on a database. Objects of several threads and processes act together as one owner."""

    def __init__(
        self,
        database: Database,
        places: TableStores,
        clock: OwnerClock | None = None,
        *,
        endpoint: str | None = None,
        keeps_tables: bool = False,
        max_backlog: int = MAX_BACKLOG,
        lease_ms: int = LEASE_MS,
        backfill_delay_s: float | None = BACKFILL_DELAY_S,
        rows_kept: int = ROWS_KEPT,
        read_slots: int | None = None,
    ) -> None:
        """Create the owner. `endpoint` is its URL if served. With `keeps_tables`, it never releases tables.

        A commit is backfilled after `backfill_delay_s`, together with later commits. None: only on request. The
        database has the latest `rows_kept` commits of a table, the log has older ones. `read_slots` is the new size of
        the read timestamp table, None for no change.
        """
        self._database = database
        self._places = places
        self._clock = clock or OwnerClock()
        self._endpoint = endpoint
        self._read_slots = read_slots
        self._owner_id = database.write(self._identity)
        require_same_lake(database, places)
        self._locations: dict[str, str] = {}
        self._backfill = Backfill(database, self.store, self._clock, backfill_delay_s, rows_kept)
        changes = ChangeNotifier()
        fences = Fences(self._owner_id)
        self._commits = CommitPipeline(
            database, self.store, self._clock, max_backlog, lease_ms, changes, fences, self._owner_id
        )
        self._locking = LockManager(database, self._clock, changes=changes)
        self._distributed = TwoPhaseCommit(database, self._clock, self._commits, self._locking)
        self._asked_times = TimestampRequests(database, self._clock)
        self._transfers = OwnershipTransfer(database, places, self._backfill, self._clock, keeps_tables)
        self._repairs = TableRepair(database, places, self._clock, self._transfers, self._backfill)
        self._recent = UnbackfilledCommits(database, self.store, self._transfers.resume)
        self._latest = RecentCommitReader(database, self.store)
        self._slices = TimeSlices(database, places, self._clock, self._transfers.resume, changes)
        # Backfill at exit, so that every engine can read the table afterwards.
        self._at_exit = _closer(self)
        atexit.register(self._at_exit)

    @classmethod
    def open(
        cls,
        root: str | os.PathLike[str],
        database: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        roots: Sequence[str | os.PathLike[str]] | None = None,
        group: str | None = None,
        when_new: Callable[[], None] | None = None,
        **settings: Any,
    ) -> EmbeddedOwner:
        """Open the owner of the lake at `root`. `database` is a SQLAlchemy URL, by default a file below a local root.

        `roots` confine the tables, None for no limit. `group`: see `Database`. `when_new` is called if the database has
        no owner yet. An error of `when_new` leaves the database without an owner.

        Raises:
            InvalidArgument: If `root` is not local and `database` is None.
            OperationNotAllowed: If the database belongs to another lake, or is older than the tables.
            CommitOwnerUnavailable: If the database does not respond.
        """
        found = Database(database_url(root, database), group=group)
        try:
            if when_new is not None and found.read(lambda c: c.execute(sa.select(owner.c.owner_id)).first()) is None:
                when_new()
            return cls(found, TableStores(parse_location(root).url, roots, storage_options), **settings)
        except BaseException:
            found.close()
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the owner for processes that reach the database. They open it again."""
        open_owner = partial(_opened, self._places.root_url, self._database.url, dict(self._places.storage_options))
        return reopened, (self._owner_id, open_owner)

    def __repr__(self) -> str:
        return f"EmbeddedOwner({self._database.name!r})"

    @property
    def owner_id(self) -> str:
        return self._owner_id

    @property
    def endpoint(self) -> str | None:
        return self._endpoint

    @property
    def root_url(self) -> str:
        """URL of the lake's root."""
        return self._places.root_url

    @property
    def database(self) -> Database:
        """Database with the owner's state."""
        return self._database

    def commit(self, request: CommitRequest) -> CommitResponse | CommitConflict:
        outcome = self._commits.commit(request)
        if isinstance(outcome, CommitResponse):
            self._backfill.soon(request.table_id)
        return outcome

    def commit_staged(self, asked: StagedCommit) -> CommitResponse | CommitConflict:
        outcome = self._commits.commit_staged(asked)
        if isinstance(outcome, CommitResponse):
            self._backfill.soon(asked.table_id)
        return outcome

    def commit_staged_group(
        self, txn_id: str, asked: Sequence[StagedCommit]
    ) -> TransactionResponse | TransactionConflict:
        outcome = self._commits.commit_staged_group(txn_id, asked)
        if isinstance(outcome, TransactionResponse):
            for table_id in outcome.commits:
                self._backfill.soon(table_id)
        return outcome

    def get_commits(
        self, table_id: str, start_version: int, end_version: int = LATEST, with_data: bool = False
    ) -> GetCommitsResponse:
        return self._recent.get(table_id, start_version, end_version, with_data)

    def backfill_to_version(self, table_id: str, version: int = LATEST) -> int:
        return self._backfill.now(table_id, version)

    def tables(self) -> list[ManagedTable]:
        return [self._managed(row) for row in self._database.read(_taken)]

    def table(self, name: str) -> ManagedTable:
        found = self._named(name)
        if found is not None and found.transfer_version is not None and self._resumes(found.table_id):
            found = self._named(name)
        if found is None:
            known = ", ".join(row.name for row in self._database.read(_taken)[:10]) or "none"
            raise TableNotFound(f"no table named {name!r} exists in {self._places.root_url}. Existing tables: {known}")
        return self._managed(found)

    def take(self, proposal: OwnershipProposal) -> CommitResponse | CommitConflict:
        return self._transfers.take(proposal)

    def require_creatable(self, name: str) -> None:
        """Accept any name, because clients of this process have all permissions."""

    def register(self, name: str, location: str) -> CommitResponse | CommitConflict:
        """Acquire ownership of a new catalog-managed table whose client wrote version 0. See OwnershipTransfer."""
        return self._transfers.register(name, location, self._owner_id)

    def release(self, request: CommitRequest) -> CommitResponse | CommitConflict:
        return self._transfers.release(request)

    def repair(self, table_id: str | None = None) -> list[str]:
        found = [row for row in self._database.read(_taken) if table_id in (None, row.table_id)]
        if table_id is not None and not found:
            raise TableNotFound(f"the commit owner has no table {table_id}")
        done: list[str] = []
        for row in found:
            if is_under_way(row.problem):
                done.append(f"{row.name}: {row.problem}")
                continue
            try:
                self._repairs.repair(row, done)
            except SlackwaterError as error:
                done.append(f"{row.name}: {type(error).__name__}: {error}")
        return done

    def cut(self, timestamp_ms: int | None = None) -> Cut:
        return self._slices.cut(timestamp_ms)

    def narrow(self, request: TimeRequest) -> TimestampRange:
        return self._asked_times.narrow(request)

    def lock(self, request: LockRequest) -> None:
        self._locking.lock(request)

    def keep_alive(self, txn_id: str) -> None:
        if not self._asked_times.keep(txn_id):
            self._locking.keep_alive(txn_id)

    def commit_transaction(self, request: TransactionRequest) -> TransactionResponse | TransactionConflict:
        outcome = self._commits.commit_transaction(request)
        if isinstance(outcome, TransactionResponse):
            for table_id in outcome.commits:
                self._backfill.soon(table_id)
        return outcome

    def end(self, txn_id: str) -> None:
        self._commits.end(txn_id)

    def prepare(self, request: TransactionRequest, coordinator_id: str) -> Vote | TransactionConflict:
        return self._distributed.prepare(request, coordinator_id)

    def decide(self, txn_id: str, timestamp_ms: int | None, participants: Sequence[str]) -> int | None:
        return self._distributed.decide(txn_id, timestamp_ms, participants)

    def decision(self, txn_id: str) -> int | None:
        return self._distributed.decision(txn_id)

    def finish(self, txn_id: str, timestamp_ms: int | None) -> TransactionResponse | None:
        response = self._distributed.finish(txn_id, timestamp_ms)
        for table_id in response.commits if response is not None else ():
            self._backfill.soon(table_id)
        return response

    def acknowledge(self, txn_id: str, participant_id: str) -> None:
        self._distributed.acknowledge(txn_id, participant_id)

    def in_doubt(self) -> list[InDoubt]:
        return self._distributed.in_doubt()

    def activity(self) -> Activity:
        return self._database.read(lambda c: activity(c, self._clock))

    def recent_commits(self, limit: int = 50) -> list[RecentCommit]:
        return self._latest.get(limit)

    def close(self) -> None:
        atexit.unregister(self._at_exit)
        self._backfill.close()
        self._database.close()

    def _identity(self, connection: Connection) -> str:
        if not self._database.is_sqlite:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(7303014)"))
        found = connection.execute(sa.select(owner.c.owner_id)).scalar()
        if found is None:
            found = self._clock.new_id()
            connection.execute(sa.insert(owner).values(owner_id=found, created_ms=self._clock.now_ms(), last_ms=0))
        resize(connection, self._read_slots, last_ms(connection))
        return str(found)

    def store(self, table_id: str) -> ObjectStore:
        """Return the store of the table. Raises TableNotFound."""
        if table_id not in self._locations:
            row = self._database.read(
                lambda c: c.execute(sa.select(tables.c.location).where(tables.c.table_id == table_id)).first()
            )
            if row is None:
                raise TableNotFound(f"the commit owner has no table {table_id}")
            self._locations[table_id] = row.location
        return self._places.store(self._locations[table_id])

    def _named(self, name: str) -> Row[Any] | None:
        return self._database.read(lambda c: named_table(c, name))

    def _resumes(self, table_id: str) -> bool:
        """Complete an interrupted transfer, and return whether there was one.

        Concurrent completions have the same result.
        """
        return self._transfers.resume(table_id) is not None

    def _managed(self, row: Row[Any]) -> ManagedTable:
        return ManagedTable(
            row.table_id,
            row.name,
            self._places.url(row.location),
            TableState(row.state),
            row.ratified_version,
            row.backfilled_version,
            row.ratified_ms,
            row.problem,
        )


def database_url(root: str | os.PathLike[str], database: str | None = None) -> str:
    """Return `database`, or the URL of the SQLite file below `root`. Raises InvalidArgument."""
    location = parse_location(root)
    if database is not None:
        return database
    if location.scheme != LOCAL:
        raise InvalidArgument(
            f"{location.url}: a lake in an object store needs its own database. Pass database='postgresql://…', or "
            "use connect for a served lake"
        )
    place = Path(f"/{location.key}")
    file = next((each for each in (place, *place.parents) if each.is_file()), None)
    if file is not None:
        raise InvalidArgument(f"{file} is a file, but a lake is a directory. Name the directory of the lake")
    # os.path, because it reports a directory without access as absent. Opening the database raises the clear error.
    if not os.path.exists(place / DATABASE_FILE):  # noqa: PTH110
        has_log = (e for e in (place, *place.parents) if e.name == LOG or os.path.isdir(e / LOG))  # noqa: PTH112
        table = next(has_log, None)
        if table is not None:
            raise InvalidArgument(
                f"{table} is a Delta table, but a lake is a directory of tables. Open another directory as the lake, "
                "and adopt the table there"
            )
    return f"sqlite:////{location.key}/{DATABASE_FILE}"


def _taken(connection: Connection) -> Sequence[Row[Any]]:
    return connection.execute(
        sa.select(tables).where(tables.c.state != TableState.RELEASED.value).order_by(tables.c.name)
    ).all()


def _closer(owner_: EmbeddedOwner) -> Any:
    """Return a function that closes the owner at interpreter exit. It holds a weak reference only."""
    reference = weakref.ref(owner_)

    def close() -> None:
        found = reference()
        if found is not None:
            found.close()

    return close


def _opened(root_url: str, database_url: str, storage_options: Mapping[str, str]) -> EmbeddedOwner:
    return EmbeddedOwner.open(root_url, database_url, storage_options)
