"""Multi-table transaction of a lake, without Spark: a consistent read view and one atomic commit.

Source: paper §3 (deferring timestamp choice); docs/transactions.md.
"""

from __future__ import annotations

import datetime as dt
import logging
import weakref
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from typing_extensions import Self

from slackwater.errors import (
    CommitUnknown,
    ConcurrentWriteException,
    InvalidArgument,
    NotAuthorized,
    SlackwaterError,
    TimestampConflict,
    TransactionEnded,
)
from slackwater.html.components import card_or_reason
from slackwater.html.element import Markup
from slackwater.lake.html_repr import State, TableUse, TransactionState, transaction_card
from slackwater.lake.read_view import LakeReadView
from slackwater.lake.tables import LakeTables
from slackwater.lake.transaction_locks import SHARED, TransactionLocks
from slackwater.lake.transaction_resources import TransactionResources, undeleted_files_message
from slackwater.lake.transaction_table import TransactionTableState, table_writes
from slackwater.lake.two_phase_commit import commit_joined
from slackwater.owner.api.timestamp_range import TimestampRange, at_ms, cut_off, precision_named
from slackwater.owner.api.transactions import (
    TimeRequest,
    TransactionConflict,
    TransactionRequest,
    TransactionResponse,
)
from slackwater.predicate.predicate import Predicate
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.commit_result import CommitResult
from slackwater.transaction.committers.ambient_transaction import enter, leave
from slackwater.transaction.conflicts.commit_loop import MAX_ATTEMPTS, pause
from slackwater.transaction.conflicts.isolation import IsolationLevel
from slackwater.transaction.observability.commit_metrics import count
from slackwater.transaction.observability.tracing import TRANSACTION, observed, report_rollback
from slackwater.transaction.table.public_transaction import Transaction

if TYPE_CHECKING:
    from slackwater.rows.table_rows import TableRows

SERIALIZABLE, SNAPSHOT = "serializable", "snapshot"
OPTIMISTIC, LOCKING = "optimistic", "locking"
LOCK_TIMEOUT_S = 60.0
"""Default limit in seconds for the wait for a lock."""

_log = logging.getLogger(__name__)
_ISOLATION = {SERIALIZABLE: IsolationLevel.SERIALIZABLE, SNAPSHOT: IsolationLevel.SNAPSHOT_ISOLATION}


class LogTransaction:
    """A transaction begun by `LogLake.transaction` and ended by its `with` block.

    Reads see one consistent state of all tables, plus the transaction's own changes. The end of the block commits all
    tables with one timestamp; an error rolls back. Not thread-safe. Methods raise TransactionEnded after the end.
    """

    def __init__(
        self,
        lake: LakeTables,
        isolation: str = SERIALIZABLE,
        control: str = OPTIMISTIC,
        writes: Sequence[str] | None = None,
        lock_timeout_s: float = LOCK_TIMEOUT_S,
        others: Sequence[LakeTables] = (),
        seniority_ms: int | None = None,
    ) -> None:
        self._isolation = _chosen("isolation", isolation, (SERIALIZABLE, SNAPSHOT))
        self._control = _chosen("control", control, (OPTIMISTIC, LOCKING))
        if not lock_timeout_s >= 0:
            raise InvalidArgument(f"lock_timeout_s is a number of seconds from 0, found {lock_timeout_s!r}")
        self._lakes = LakeReadView([lake, *others])
        # The coordinator if the transaction has several owners.
        self._owner = lake.owner
        self._clock = lake.clock
        self._txn_id = self._clock.new_id()
        self._begun_ms = self._lakes.begun_ms
        self._seniority_ms = self._begun_ms if seniority_ms is None else seniority_ms
        self._range = self._lakes.range
        self._held = TransactionResources(self._txn_id, self._owner)
        self._tables = self._held.tables
        self._locks = TransactionLocks(self._lakes, self._held, self._seniority_ms, lock_timeout_s)
        self._declared = {name: self._lakes.of(name) for name in writes or ()}
        self._ahead_ms = 0
        self._is_open = True
        self._may_have_landed = False
        self._commit_timestamp_ms: int | None = None
        self._results: dict[str, CommitResult] = {}
        self._abandoned = weakref.finalize(self, self._held.abandon)

    def __repr__(self) -> str:
        return repr(self._seen())

    def _repr_html_(self) -> str:
        return card_or_reason(type(self).__name__, self._txn_id, self._card)

    def _card(self) -> Markup:
        return transaction_card(self._seen())

    def _seen(self) -> TransactionState:
        """Return the transaction's state for display, without a request to an owner."""
        state: State = "open" if self._is_open else "unknown" if self._may_have_landed else "rolled back"
        made = self.versions
        tables = [
            TableUse(
                name, each.base.version, each.all_reads, each.is_written, self._locks.by_table.get(name), made.get(name)
            )
            for name, each in self._tables.items()
        ]
        # Tables locked but not yet read or written.
        locked = [name for name in self._locks.by_table if name not in self._tables]
        return TransactionState(
            type(self).__name__,
            self._txn_id,
            state if self._commit_timestamp_ms is None else "committed",
            self._isolation,
            self._control,
            self._begun_ms,
            self._range,
            self._commit_timestamp_ms,
            tables,
            locked,
            list(self._declared),
        )

    @property
    def is_open(self) -> bool:
        """True if the transaction has neither committed nor been rolled back."""
        return self._is_open

    @property
    def owner_ids(self) -> Collection[str]:
        """Ids of the commit owners of the transaction's lakes."""
        return self._lakes.owners.keys()

    @property
    def id(self) -> str:
        """The identity of the transaction: the `txnId` of all its commits."""
        return self._txn_id

    @property
    def seniority_ms(self) -> int:
        """Begin of the transaction, or of the first attempt of this work. The oldest transaction wins a deadlock."""
        return self._seniority_ms

    @property
    def begun_at(self) -> dt.datetime:
        """Begin of the transaction by the owner's clock. The transaction timestamp is not earlier."""
        return at_ms(self._begun_ms)

    @property
    def commit_timestamp(self) -> dt.datetime:
        """The transaction timestamp after the commit, in UTC with whole milliseconds. It orders all transactions.

        Raises TransactionEnded if the transaction was rolled back, InvalidArgument before its end.
        """
        if self._commit_timestamp_ms is None:
            if self._is_open:
                raise InvalidArgument("the transaction has not committed yet. It commits when its block ends")
            raise TransactionEnded("the transaction was rolled back, so it has no timestamp")
        return at_ms(self._commit_timestamp_ms)

    @property
    def versions(self) -> Mapping[str, int]:
        """The versions made by the commits, by table name."""
        return {name: result.version for name, result in self._results.items()}

    @property
    def written(self) -> list[str]:
        """The names of the tables changed so far."""
        return [name for name, table in self._tables.items() if table.is_written]

    @property
    def results(self) -> Mapping[str, CommitResult]:
        """The results of the commits, by table name."""
        return dict(self._results)

    def snapshot(self, name: str) -> Snapshot:
        """Return the table `name` in the transaction's view, and record a full read. Raises TableNotFound.

        >>> with lake.transaction() as tx:
        ...     tx.snapshot("stock").to_arrow(["qty"]).to_pylist()
        [{'qty': 10}]
        """
        table = self.reading(name)
        table.read()
        return table.snapshot

    def log(self, name: str) -> Transaction:
        """Return the table `name` for direct file actions. Its `commit` adds the actions to this transaction.

        Raises as `writing`.

        >>> with lake.transaction() as tx:
        ...     log = tx.log("stock")
        ...     log.set_transaction("my-loader", 17)
        ...     done = log.commit("WRITE")
        >>> lake.snapshot("stock").transactions["my-loader"].version
        17
        """
        return Transaction(self.writing(name).snapshot, clock=self._clock)

    def table(self, name: str) -> TableRows:
        """Return the table `name` for writes and deletes of rows without Spark. Raises as `reading`."""
        # Imported here, because most processes of a lake write no rows themselves.
        from slackwater.rows.table_rows import TableRows

        self.reading(name)
        return TableRows(lambda: self.writing(name).table, self.current_timestamp)

    def lock(self, *names: str, where: str | Predicate | None = None, exclusive: bool = False) -> None:
        """Lock the tables `names` until the end, or the granules in the partitions of `where`.

        `where`: SQL text or a predicate over partition columns. `exclusive` excludes all other transactions; otherwise
        transactions share the lock. Conflicting transactions wait for each other. Call before any read or write of
        these tables.

        Raises:
            LockTimeout: If the wait takes too long. The message names the lock holders.
            DeadlockDetected: If this transaction is the deadlock victim.
            InvalidArgument: If `where` does not select partitions, or the transaction already uses a table.

        >>> with lake.transaction(control="locking") as tx:
        ...     tx.lock("orders", "stock", exclusive=True)  # others cannot write them before the end
        ...     tx.snapshot("stock").version
        1
        """
        self._require_open()
        used = sorted(name for name in set(names) & self._tables.keys() if name not in self._locks.by_table)
        if used:
            raise InvalidArgument(
                f"the transaction already read or wrote {used[0]}. Lock it before the first read or write"
            )
        if where is None:
            self._locks.lock_tables(names, exclusive)
        else:
            self._locks.lock_partitions(names, where, exclusive)

    def current_timestamp(self, precision: int | str = 3) -> dt.datetime:
        """Return the current time in UTC, cut off at `precision`.

        `precision`: 0 to 3 digits of a second, or a unit such as `minute`. At full precision the result *is* the
        transaction timestamp. At lower precision the transaction timestamp agrees with the result. Raises
        TimestampConflict if no timestamp is left: run the transaction again. Source: paper §3.2.1.

        >>> with lake.transaction() as tx:
        ...     minute, now = tx.current_timestamp("minute"), tx.current_timestamp()
        >>> now == tx.commit_timestamp, now.replace(second=0, microsecond=0) == minute
        (True, True)
        """
        unit = precision_named(precision)
        return cut_off(self._narrowed(unit, "UTC"), unit)

    def current_time(self, precision: int | str = 3, zone: str | None = None) -> dt.time:
        """Return the current time of day in `zone`, by default `time_zone`. `precision`: see `current_timestamp`.

        Raises as `current_timestamp`.

        >>> with lake.transaction() as tx:
        ...     here = tx.current_time("minute", zone="Asia/Kathmandu")
        >>> then = tx.commit_timestamp.astimezone(here.tzinfo)
        >>> (here.hour, here.minute) == (then.hour, then.minute)
        True
        """
        unit = precision_named(precision)
        here = self._zone(zone)
        return cut_off(self._narrowed(unit, here), unit, here).timetz()

    def current_date(self, zone: str | None = None) -> dt.date:
        """Return the current day in `zone`, by default `time_zone`. The transaction can only commit within this day.

        Raises as `current_timestamp`.

        >>> with lake.transaction() as tx:
        ...     today = tx.current_date(zone="UTC")
        >>> today == tx.commit_timestamp.date()
        True
        """
        here = self._zone(zone)
        return cut_off(self._narrowed("day", here), "day", here).date()

    @property
    def time_zone(self) -> str:
        """The zone of days and times of day."""
        return "UTC"

    def commit(self) -> None:
        """Commit now, before the end of the block. Raises the errors of every commit.

        The transaction has ended after the call in any case. After CommitUnknown the outcome is unknown, and the
        written files stay. After any other error of this package, nothing is committed. The written files are then
        deleted, or the error names them.

        >>> tx = lake.transaction(spark)
        >>> tx.table("stock").setProperties({"team": "sales"})
        >>> tx.commit()
        >>> tx.versions
        {'stock': 2}
        """
        self._require_not_ended()
        try:
            with observed(TRANSACTION, {"transaction": self._txn_id}, self._begun_ms) as span:
                self._commit_timestamp_ms = self._committed().timestamp_ms
                span.set({"tables": sorted(self._results), "timestamp_ms": self._commit_timestamp_ms})
            count(transactions=bool(self._results))
        except CommitUnknown as error:
            raise CommitUnknown(f"{error}. {self._files_that_stay()}") from error
        except SlackwaterError as error:
            self._roll_back(error)
            raise
        except BaseException as error:
            if not self._may_have_landed:
                self._roll_back(error)
            else:
                # The outcome is unknown, so the files stay: a commit may refer to them.
                _tell(error, f"the transaction may have committed. {self._files_that_stay()}")
            raise
        finally:
            self._close()

    def rollback(self) -> None:
        """Roll the transaction back and delete its written files. Raises TransactionEnded.

        >>> tx = lake.transaction(spark)
        >>> tx.table("stock").setProperties({"team": "sales"})
        >>> tx.rollback()
        >>> lake.snapshot("stock").version
        1
        """
        self._require_not_ended()
        report_rollback(self._txn_id, self._begun_ms, None)
        self._roll_back(None)

    def __enter__(self) -> Self:
        self._require_open()
        try:
            enter(self)
        except BaseException as error:
            # Roll back here, because the caller gets no transaction to end.
            self._roll_back(error)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_open:
            return
        if kind is None:
            self.commit()
        else:
            report_rollback(self._txn_id, self._begun_ms, error)
            self._roll_back(error)

    # Reads and writes.

    def reading(self, name: str) -> TransactionTableState:
        """Return the table `name` for reads.

        Raises TableNotFound, TransactionEnded; with control `locking`, the errors of `lock`.

        >>> with lake.transaction() as tx:
        ...     tx.reading("stock").snapshot.version
        1
        """
        self._require_open()
        if self._control == LOCKING and name not in self._locks.by_table:
            self._locks.lock_tables([name], exclusive=name in self._declared)
        return self._table(name)

    def writing(self, name: str) -> TransactionTableState:
        """Return the table `name` for writes. Raises as `reading`.

        >>> with lake.transaction() as tx:
        ...     tx.writing("stock").is_written
        False
        """
        self._require_open()
        if self._control == LOCKING and self._locks.by_table.get(name, SHARED) == SHARED:
            self._locks.lock_tables([name], exclusive=True)
        return self._table(name)

    def _table(self, name: str) -> TransactionTableState:
        if name not in self._tables:
            place = self._lakes.of(name)
            # The lock prevents newer versions, so the latest version is the visible one.
            is_latest = self._control == LOCKING and name in self._locks.by_table
            base = place.snapshot(None if is_latest else place.version)
            self._bound_by(base)
            self._tables[name] = TransactionTableState(name, place.owned, base, self._clock, self)
        return self._tables[name]

    def _bound_by(self, base: Snapshot) -> None:
        """Raise the lower bound of the range to the timestamp of `base`. Source: paper §3.1.1, §3.1.3 (Read)."""
        bounded = self._range.above(base.timestamp_ms)
        if bounded.is_empty:
            raise TimestampConflict(
                f"{base.store.root_url}: version {base.version} was committed at "
                f"{at_ms(base.timestamp_ms).isoformat()}, not before the time that this transaction requested. "
                "Retry the transaction"
            )
        self._range = bounded

    # Time.

    def _narrowed(self, unit: str, zone: str) -> TimestampRange:
        self._require_open()
        # Other owners report their constraints with their votes.
        writes = [item for t in self._tables.values() if t.owner is self._owner for item in t.written_items]
        own = [place.owned for place in self._declared.values() if place.owned.owner is self._owner]
        # With locks no reservation is needed, because no other transaction writes a locked table.
        holds = [] if self._control == LOCKING else sorted(owned.table_id for owned in own)
        request = TimeRequest(self._txn_id, self._range, unit, zone, writes, self._ahead_ms, holds)
        self._held.is_known_to_owner = True
        self._range = self._owner.narrow(request)
        if holds:
            self._held.keep_alive()
        return self._range

    def _zone(self, zone: str | None) -> str:
        return self.time_zone if zone is None else zone

    # The end.

    def _committed(self) -> TransactionResponse:
        self._held.require_lease()
        isolation = _ISOLATION[self._isolation]
        used = {table.table_id: table for table in self._tables.values()}
        for table in used.values():
            table.prepare(self._txn_id, isolation)
        if not used:
            return self._committed_nothing()
        is_replay = False
        for attempt in range(1, MAX_ATTEMPTS + 1):
            requests = self._requests(list(used.values()), is_replay)
            if not requests:
                return self._committed_nothing()
            outcome = self._asked_again(requests) if is_replay else self._asked(requests)
            if isinstance(outcome, TransactionResponse):
                self._results = {
                    used[table_id].name: used[table_id].on_committed(commit, attempt)
                    for table_id, commit in outcome.commits.items()
                }
                for name, result in self._results.items():
                    self._lakes.of(name).keep(result.known)
                return outcome
            self._held.is_known_to_owner |= attempt > 1  # The owner reserves versions after a second conflict.
            followed = [used[table_id].rebase(latest) for table_id, latest in outcome.latest_versions.items()]
            is_replay |= any(followed)
            count(retries=1)
            pause(self._clock, attempt)
        raise ConcurrentWriteException(
            f"transaction {self._txn_id}: other writers committed first at each of {MAX_ATTEMPTS} attempts. "
            "Nothing was committed. Retry when fewer writers are active, or with control='locking'"
        )

    def _requests(self, used: Sequence[TransactionTableState], is_replay: bool) -> dict[str, TransactionRequest]:
        """Return the request for each participating owner, by owner id."""
        found = {}
        all_writes = table_writes(self._txn_id, used)
        for owner_id, owner in self._lakes.owners.items():
            tables = [table for table in used if table.owner is owner]
            reads = [read for table in tables if (read := table.table_read()) is not None]
            writes = [all_writes[table.table_id] for table in tables if table.table_id in all_writes]
            if self._isolation == SNAPSHOT:
                reads = []
            if reads or writes:
                has_locks = owner_id in self._held.lock_owners
                found[owner_id] = TransactionRequest(self._txn_id, self._range, reads, writes, has_locks, is_replay)
        return found

    def _asked_again(self, requests: Mapping[str, TransactionRequest]) -> TransactionResponse | TransactionConflict:
        """Call `_asked` for a transaction already found in a log. Its errors become CommitUnknown."""
        try:
            return self._asked(requests)
        except SlackwaterError as error:
            raise CommitUnknown(
                f"transaction {self._txn_id} is in the log of a table, but its owner does not confirm it: {error}"
            ) from error

    def _asked(self, requests: Mapping[str, TransactionRequest]) -> TransactionResponse | TransactionConflict:
        self._may_have_landed = True
        if len(requests) == 1:
            ((owner_id, request),) = requests.items()
            outcome = self._lakes.owners[owner_id].commit_transaction(request)
        else:
            outcome = commit_joined(requests, self._lakes.owners, self._owner)
        self._may_have_landed = isinstance(outcome, TransactionResponse)
        return outcome

    def _committed_nothing(self) -> TransactionResponse:
        """Commit without reads and writes, at any timestamp of the range. Later transactions get later timestamps."""
        chosen = TimestampRange(self._range.low_ms, self._range.low_ms + 1)
        for owner in self._lakes.owners.values():
            try:
                owner.commit_transaction(TransactionRequest(self._txn_id, chosen))
            except NotAuthorized:
                # Read-only access leaves no state at the owner unless the owner already knows the transaction.
                if self._held.is_known_to_owner:
                    raise
        self._held.release_at_owner()
        return TransactionResponse(chosen.high_ms, {})

    def _roll_back(self, cause: BaseException | None) -> None:
        """Discard the transaction and end it in any case. The error names files left undeleted."""
        try:
            left = self._held.discard()
        except BaseException as error:
            _tell(error, f"the transaction did not commit. {self._files_that_stay()}")
            raise
        finally:
            self._close()
            self._held.release_at_owner()
        if left:
            _tell(cause, undeleted_files_message(left))

    def _files_that_stay(self) -> str:
        return f"The files of the transaction stay: {', '.join(self._held.staged_files()) or 'none'}"

    def _close(self) -> None:
        self._is_open = False
        leave(self)
        self._abandoned.detach()
        self._held.close()

    def _require_open(self) -> None:
        self._require_not_ended()
        self._held.require_lease()

    def _require_not_ended(self) -> None:
        if not self._is_open:
            raise TransactionEnded("the transaction was already committed or rolled back. Begin a new one")


def _tell(error: BaseException | None, told: str) -> None:
    """Log the message `told`, and attach the same text to `error`."""
    _log.warning("%s", told)
    # Python 3.10 lacks add_note.
    if error is not None and hasattr(error, "add_note"):
        error.add_note(told)


def _chosen(what: str, given: str, known: Sequence[str]) -> str:
    found = str(given).lower()
    if found not in known:
        raise InvalidArgument(f"{what} is {' or '.join(map(repr, known))}, found {given!r}")
    return found
