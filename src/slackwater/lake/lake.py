"""Named tables under one commit owner: opened, read, changed together, and as they were."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import Self

from slackwater.errors import (
    SlackwaterError,
)
from slackwater.html.components import card_or_reason
from slackwater.html.element import Markup
from slackwater.lake.bulk_restore import TableCloned, TableRestored, restore_tables
from slackwater.lake.history import LakeCommit, lake_history
from slackwater.lake.html_repr import lake_card, place_of
from slackwater.lake.retry import RETRIES, run_again
from slackwater.lake.table_registration import LakeMembership
from slackwater.lake.time_slice import Instant, LogTimeSlice, instant_ms
from slackwater.lake.transaction import LOCK_TIMEOUT_S, OPTIMISTIC, SERIALIZABLE, LogTransaction
from slackwater.lake.two_phase_commit import resolve
from slackwater.log.table import Table
from slackwater.maintenance.clone import commit_clone, require_empty
from slackwater.optional_dependencies import require
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.commits import ManagedTable
from slackwater.owner.api.monitoring import Activity
from slackwater.owner.api.owner_registry import attach, attached_owners, detach, is_attached
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.store import ObjectStore

if TYPE_CHECKING:
    from slackwater.lake.recovery.recovery import Recovery, RecoveryOptions

T = TypeVar("T")


class LogLake(LakeMembership):
    """The tables of one commit owner, without Spark; `slackwater.Lake` adds `table`.

    While a lake is open, tables that are named by their path are read and written through its owner as well, except
    within the block of a transaction over them.
    """

    def __init__(self, owner: CommitOwner, root: str | None, storage_options: Mapping[str, str] | None = None) -> None:
        """`root`: where tables are created that are not told where; `storage_options` as `Snapshot.load`."""
        super().__init__(owner, root, storage_options)
        attach(owner)

    @classmethod
    def open(
        cls,
        root: str | os.PathLike[str],
        database: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        *,
        recover: bool = False,
        group: str | None = None,
        read_slots: int | None = None,
    ) -> Self:
        """The lake at `root`, a path or URL, with its owner in this process; any number of processes may open it.

        `database`: a SQLAlchemy URL (`postgresql://host/database`), by default a SQLite file below `root`, which then
        is a directory of this machine. That file is for this user alone, or for the members of `group` where one is
        given. `storage_options` as in `Snapshot.load`. With `recover`, as after `recover_state`. `read_slots`: the size
        of the owner's read timestamp table from now on, for all processes (paper §4.1): with more slots fewer
        transactions are taken for readers of what another writes. Raises InvalidArgument, OperationNotAllowed for a
        copy of another lake, or one whose state is lost or old, CommitOwnerUnavailable.
        """
        require("lake", "a lake")
        # SQLAlchemy is loaded where a lake is opened.
        from slackwater.lake.recovery.recovery import require_no_orphaned_tables
        from slackwater.owner.embedded import EmbeddedOwner

        if recover:
            cls.recover_state(root, database, storage_options)
        owner = EmbeddedOwner.open(
            root,
            database,
            storage_options,
            group=group,
            when_new=lambda: require_no_orphaned_tables(root, storage_options),
            read_slots=read_slots,
        )
        return cls(owner, owner.root_url, storage_options)

    @classmethod
    def recover_state(
        cls,
        root: str | os.PathLike[str],
        database: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        choices: RecoveryOptions | None = None,
        dry_run: bool = False,
    ) -> Recovery:
        """Make the owner's state, that is lost or older than the tables, anew from the tables; the lake is not open.

        `root`, `database` and `storage_options` as in `open`. Every other process of the lake is to be stopped before;
        one that is not cannot commit any more. With `dry_run` nothing is done, and the answer says what would be.
        Raises RecoveryUndecided where the user has to say what counted: `choices`.

        >>> with slackwater.Lake.open(path, spark=spark) as opened:
        ...     sales = opened.create_table("sales", "id INT")
        >>> print(*slackwater.Lake.recover_state(path, dry_run=True).lines)  # doctest: +ELLIPSIS
        sales (...): version 0 is in the log
        """
        require("lake", "a lake")
        from slackwater.lake.recovery.recovery import recover
        from slackwater.owner.database.database import Database, sqlite_file
        from slackwater.owner.embedded import EmbeddedOwner, database_url
        from slackwater.owner.state.table_stores import TableStores

        url = database_url(root, database)
        file = sqlite_file(url)
        if file is not None and not file.exists():
            # Before all is known nothing is made.
            with tempfile.TemporaryDirectory() as directory:
                empty = Database(f"sqlite:///{directory}/owner.db")
                try:
                    expected = recover(root, empty, storage_options, choices)
                finally:
                    empty.close()
            if dry_run:
                return expected
        opened = Database(url)
        lakes: list[LogLake] = []

        def take(name: str, store: ObjectStore, table_id: str) -> None:
            if not lakes:
                owner = EmbeddedOwner(opened, TableStores(root, None, storage_options))
                lakes.append(LogLake(owner, owner.root_url, storage_options))
            lakes[0]._take_anew(name, store, table_id)

        try:
            return recover(root, opened, storage_options, choices, None if dry_run else take)
        finally:
            for lake in lakes:
                lake.close()
            opened.close()

    @classmethod
    def connect(
        cls,
        url: str,
        token: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
        allow_http: bool = False,
        ca_file: str | None = None,
    ) -> Self:
        """The lake whose owner is served at `url`; data and logs are read and written from here.

        `storage_options` as in `Snapshot.load`. An answer is waited for `timeout_s` seconds, attempts together; that of
        backfills, releases, repairs and slices of the past ten times as long; waits for locks come on top. A `token` is
        sent to `https:` addresses and this machine only, unless `allow_http`. `ca_file`: the certificates to trust
        (PEM), where the server's is signed by none that is known. Raises InvalidArgument, NotAuthorized,
        CommitOwnerUnavailable.
        """
        require("lake", "a lake")
        from slackwater.owner.served.client.http_owner import HttpOwner

        owner = HttpOwner(url, token, timeout_s, allow_http=allow_http, ca_file=ca_file)
        try:
            return cls(owner, None, storage_options)
        except BaseException:
            owner.close()
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        """For other processes, which open the same lake, through the same owner."""
        return type(self), (self._owner, self._root, self._storage_options)

    def close(self) -> None:
        """Backfill what this process committed, and let go of the owner and its tables.

        Whatever the lake is asked for afterwards raises InvalidArgument.
        """
        self._is_closed = True
        detach(self._owner)
        self._owner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = "" if is_attached(self._owner) else " (closed)"
        return f"<{type(self).__name__.removeprefix('Log')} {place_of(self._root, self._owner)}{closed}>"

    def _repr_html_(self) -> str:
        kind, place = type(self).__name__.removeprefix("Log"), place_of(self._root, self._owner)
        return card_or_reason(kind, place, self._card)

    def _card(self) -> Markup:
        kind = type(self).__name__.removeprefix("Log")
        return lake_card(kind, self._root, self._owner, is_attached(self._owner))

    def tables(self) -> list[ManagedTable]:
        """The tables, by name. Raises InvalidArgument where the lake was closed.

        >>> [table.name for table in lake.tables()]
        ['orders', 'stock']
        """
        return self.owner.tables()

    def activity(self) -> Activity:
        """Tell who is at work: open transactions, locks and who waits for whom, promises; it may be old news.

        Raises InvalidArgument where the lake was closed.

        >>> with lake.transaction() as tx:
        ...     tx.lock("stock", exclusive=True)
        ...     [(lock.table, lock.held) for lock in lake.activity().locks]
        [('stock', 'X')]
        """
        return self.owner.activity()

    def snapshot(self, name: str) -> Snapshot:
        """The newest version of the table `name`. Raises TableNotFound and what reading a table raises.

        >>> lake.snapshot("stock").to_arrow().to_pylist()
        [{'sku': 'A1', 'qty': 10}]
        """
        return Snapshot.open(self._table(name))

    def backfill(self, name: str) -> int:
        """Put all commits of the table `name` into `_delta_log`; the newest version there. Raises TableNotFound."""
        return self.owner.backfill_to_version(self.owner.table(name).table_id)

    def repair(self, name: str | None = None) -> list[str]:
        """As `CommitOwner.repair`, for the table `name`, or for all (None): what was done, in words.

        For all, transactions over several lakes that are in doubt are settled too, as far as these lakes are open here.
        """
        if name is None:
            return [*resolve(attached_owners()), *self.owner.repair()]
        # To ask for the table itself finishes what was cut short, and the caller would not be told.
        known = next((table.table_id for table in self.owner.tables() if table.name == name), None)
        return self.owner.repair(known or self.owner.table(name).table_id)

    def transaction(
        self,
        *,
        isolation: str = SERIALIZABLE,
        control: str = OPTIMISTIC,
        writes: Sequence[str] | None = None,
        lock_timeout_s: float = LOCK_TIMEOUT_S,
        others: Sequence[LogLake] = (),
    ) -> LogTransaction:
        """Begin a transaction over any of the tables: `with lake.transaction() as tx`.

        `isolation`: `serializable`, or `snapshot`, where what was read may change meanwhile. `control`: `optimistic`,
        or `locking`, where tables are locked when first read or written. `writes` declares tables that will be
        written: from the first question for the time on they are this transaction's alone. `others`: lakes whose tables
        take part as well, under their own owners. A lock is waited for `lock_timeout_s` seconds. Raises
        InvalidArgument, TableNotFound.
        """
        return LogTransaction(self, isolation, control, writes, lock_timeout_s, others)

    def run(self, work: Callable[[LogTransaction], T], retries: int = RETRIES, **options: Any) -> T:
        """What `work(tx)` answers in a transaction that commits; where others were in the way, it is run again.

        `options` as `transaction`. `work` is done up to `retries` + 1 times, so it should have no other effects. Raises
        the last conflict, and every other error at once.
        """
        return run_again(lambda seniority_ms: self._begin(seniority_ms, options), work, retries, self.clock)

    def _begin(self, seniority_ms: int | None, options: Mapping[str, Any]) -> LogTransaction:
        """A transaction that goes before those that began after `seniority_ms`, where it comes to locks."""
        return LogTransaction(self, seniority_ms=seniority_ms, **options)

    def as_of(self, timestamp: Instant) -> LogTimeSlice:
        """All tables as they were at one instant: one question to the owner, and the same answer for ever.

        `timestamp`: a datetime, a date (its first instant), ISO 8601 text, or ms since the epoch; what names no zone
        is UTC. Raises InvalidArgument for what is no instant, TimestampOutOfRange for one of the future.
        """
        return LogTimeSlice(self, instant_ms(timestamp))

    def restore(
        self,
        as_of: Instant,
        tables: Sequence[str] | None = None,
        *,
        ignore_missing_files: bool = False,
        user_metadata: str | None = None,
        user_name: str | None = None,
        retries: int = RETRIES,
    ) -> list[TableRestored]:
        """Make `tables`, by default all that there were, again what they were at the instant `as_of`, all at once.

        `as_of` as in `as_of`. One transaction: every table gets a new version with one timestamp, or none does. What
        was committed since stays in the histories; tables that are newer are left alone. Where others are in the way
        it is done again, up to `retries` times. `ignore_missing_files`: also where files of then were vacuumed.
        `user_metadata`: a text for the histories, `user_name`: who did it. Raises TableNotFound, TimestampOutOfRange,
        DataFileNotFound, InvalidArgument and what every transaction raises: no table is changed then.
        """
        past = self.as_of(as_of)

        def work(transaction: LogTransaction) -> list[TableRestored]:
            return restore_tables(transaction, past, tables, ignore_missing_files, user_metadata, user_name)

        return self.run(work, retries)

    def clone(
        self,
        as_of: Instant,
        to: LogLake | str | os.PathLike[str],
        tables: Sequence[str] | None = None,
        *,
        user_metadata: str | None = None,
        user_name: str | None = None,
    ) -> list[TableCloned]:
        """Make `tables`, by default all that there were, as they were at the instant `as_of`, tables of the lake `to`.

        `to` is an open lake, or the root of a new one. Nothing is copied: the clones name the files of this lake's
        tables where they are, and are written to on their own. VACUUM here deletes what only they still need. One table
        follows the other, and an error names those that are made by then. `user_metadata`: a text for the histories,
        `user_name`: who did it. Raises TableNotFound, TableAlreadyExists, TimestampOutOfRange, InvalidArgument.
        """
        past = self.as_of(as_of)
        wanted = past.tables() if tables is None else list(tables)
        sources = {name: past.snapshot(name) for name in wanted}
        if isinstance(to, LogLake):
            return to._take_clones(sources, user_metadata, user_name)
        with self._opened_beside(to) as opened:
            return opened._take_clones(sources, user_metadata, user_name)

    def _opened_beside(self, root: str | os.PathLike[str]) -> LogLake:
        return type(self).open(root, storage_options=self._storage_options)

    def _take_clones(
        self, sources: Mapping[str, Snapshot], user_metadata: str | None, user_name: str | None
    ) -> list[TableCloned]:
        places: dict[str, Table] = {}
        for name in sources:
            self._require_free(name)
            places[name] = self._place(name, None)
            require_empty(places[name])
        made: list[TableCloned] = []
        for name, source in sources.items():
            try:
                transaction = self._taking_clone(name, places[name], source, {})
                result = commit_clone(transaction, source, None, user_metadata, user_name)
                made.append(TableCloned(name, source.version, result))
            except SlackwaterError as error:
                done = ", ".join(each.name for each in made) or "none"
                raise type(error)(f"cloning the table {name!r}: {error}; cloned by then: {done}") from error
        return made

    def history(self, limit: int | None = None) -> list[LakeCommit]:
        """The transactions of all tables in one order of time, newest first, at most `limit`; None: all.

        A `limit` is a whole number from 0. Raises InvalidArgument, and what reading logs raises.
        """
        return lake_history(self.owner.cut().tables, self.table_of, limit)

    def _table(self, name: str) -> Table:
        return self.table_of(self.owner.table(name))
