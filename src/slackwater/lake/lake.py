"""Lake: named tables under one commit owner, with reads, transactions, time travel, restore and clone."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from typing_extensions import Self

from slackwater.errors import InvalidArgument, SlackwaterError
from slackwater.html.components import card_or_reason
from slackwater.html.element import Markup
from slackwater.html.number_format import counted
from slackwater.lake.bulk_restore import TableCloned, TableRestored, restore_tables
from slackwater.lake.history import LakeCommit, lake_history
from slackwater.lake.html_repr import lake_card, place_of
from slackwater.lake.maintenance.maintain import TableMaintenance, chosen_tables, maintain_tables
from slackwater.lake.maintenance.tasks import MaintenanceThresholds, TableTasks
from slackwater.lake.retry import RETRIES, run_again
from slackwater.lake.table_registration import LakeMembership, features_with_owner
from slackwater.lake.time_slice import Instant, LogTimeSlice, instant_ms
from slackwater.lake.transaction import LOCK_TIMEOUT_S, OPTIMISTIC, SERIALIZABLE, LogTransaction
from slackwater.lake.two_phase_commit import resolve
from slackwater.log.table import Table
from slackwater.maintenance.clone import commit_clone, require_empty
from slackwater.optional_dependencies import require
from slackwater.owner.api.catalog import UNITY_SCHEME, Catalog
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.commits import ManagedTable
from slackwater.owner.api.monitoring import Activity
from slackwater.owner.api.owner_registry import attach, attached_owners, detach, is_attached
from slackwater.protocol.features.managed_commits import MANAGED_COMMIT, form_of
from slackwater.protocol.schema.ddl_columns import parse_column_list
from slackwater.protocol.schema.schema import StructType, parse_schema
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.store import ObjectStore

if TYPE_CHECKING:
    from slackwater.lake.recovery.recovery import Recovery, RecoveryOptions

T = TypeVar("T")


class LogLake(LakeMembership):
    """The tables of one commit owner, without Spark. `slackwater.Lake` adds `table`.

    `lake["orders"]` is the newest version of a table, `"orders" in lake` tells whether the table exists, `len(lake)` is
    the number of tables, and `for name in lake` iterates over their names. An open lake also routes tables opened by
    path through its owner, except inside the block of a transaction over these tables.

    >>> import pyarrow as pa
    >>> with slackwater.LogLake.open(path) as lake:
    ...     created = lake.create_table("orders", "sku STRING, qty INT")
    ...     with lake.transaction() as tx:
    ...         tx.table("orders").append(pa.table({"sku": ["A1"], "qty": [2]}))
    ...     "orders" in lake, list(lake), lake["orders"].count()
    (True, ['orders'], 1)
    """

    def __init__(self, owner: CommitOwner, root: str | None, storage_options: Mapping[str, str] | None = None) -> None:
        """Attach `owner`. `root` contains new tables without a location. `storage_options` as `Snapshot.load`."""
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
        """Open the lake at `root`, a path or URL, with its owner in this process. Any number of processes may open it.

        `database`: a SQLAlchemy URL (`postgresql://host/database`). Default: a SQLite file below `root`; then `root`
        must be a directory of this machine. Only this user, or the members of `group`, can use the file.
        `storage_options` as in `Snapshot.load`. `recover` runs `recover_state` first. `read_slots`: the new size of the
        owner's read timestamp table, for all processes (paper §4.1). More slots reduce false conflicts between readers
        and writers.

        Raises InvalidArgument; OperationNotAllowed if the lake is a copy of another lake, or if its state is lost or
        old; CommitOwnerUnavailable.

        >>> with slackwater.LogLake.open(path) as opened:
        ...     opened.table_names()
        []
        """
        require("lake", "a lake")
        # Imported here so that SQLAlchemy loads only when a lake is opened.
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
        """Rebuild a lost or outdated owner state from the tables. The lake must not be open.

        `root`, `database` and `storage_options` as in `open`. Stop every other process of the lake first; a process
        still running cannot commit any more. With `dry_run` nothing changes, and the result describes the recovery.
        Raises RecoveryUndecided if the user must decide about a commit: see `choices`.

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
            # Inspect with a temporary database, because a recovery that fails must not create the file.
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
        *,
        catalog: str | None = None,
    ) -> Self:
        """Connect to the lake of the owner served at `url`. This process reads and writes data and logs itself.

        `uc:` before the URL of a Unity Catalog's API, with the name of its `catalog`, connects to tables managed there.
        `storage_options` as in `Snapshot.load`. `timeout_s`: seconds to wait for a response, over all attempts.
        Backfills, releases, repairs and slices of the past have ten times the limit. Waits for locks extend the limit.
        The client sends `token` to `https:` addresses and to this machine only, unless `allow_http`. `ca_file`:
        certificates to trust (PEM), if no known authority signed the server's certificate. Raises InvalidArgument,
        NotAuthorized, CommitOwnerUnavailable.

        >>> with slackwater.LogLake.connect(url, token) as opened:
        ...     opened.table_names()
        []
        """
        require("lake", "a lake")
        owner: CommitOwner
        if url.startswith(UNITY_SCHEME) or catalog is not None:
            from slackwater.owner.unity.unity_owner import connect_catalog

            owner = connect_catalog(url, catalog, token, storage_options, timeout_s, allow_http, ca_file)
        else:
            from slackwater.owner.served.client.http_owner import HttpOwner

            owner = HttpOwner(url, token, timeout_s, allow_http=allow_http, ca_file=ca_file)
        try:
            return cls(owner, None, storage_options)
        except BaseException:
            owner.close()
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the lake for other processes. The copy uses the same owner."""
        return type(self), (self._owner, self._root, self._storage_options)

    def close(self) -> None:
        """Backfill the commits of this process, and release the owner and its tables.

        Every later use of the lake raises InvalidArgument.

        >>> opened = slackwater.LogLake.open(path)
        >>> opened.close()
        """
        self._closed.set()
        detach(self._owner)
        self._owner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        place = place_of(self._root, self._owner)
        return f"<{type(self).__name__.removeprefix('Log')} {place}{self._brief()}>"

    def _brief(self) -> str:
        """Return the end of the text form. A served owner is not asked, because it may be slow."""
        if not is_attached(self._owner):
            return " (closed)"
        try:
            return "" if self._owner.endpoint is not None else f": {counted(len(self._owner.tables()), 'table')}"
        except SlackwaterError:
            return ""

    def _repr_html_(self) -> str:
        kind, place = type(self).__name__.removeprefix("Log"), place_of(self._root, self._owner)
        return card_or_reason(kind, place, self._card)

    def _card(self) -> Markup:
        kind = type(self).__name__.removeprefix("Log")
        return lake_card(kind, self._root, self._owner, is_attached(self._owner))

    def tables(self) -> list[ManagedTable]:
        """List the tables by name. Raises InvalidArgument if the lake is closed.

        >>> [table.name for table in lake.tables()]
        ['orders', 'stock']
        """
        return self.owner.tables()

    def table_names(self) -> list[str]:
        """List the names of the tables, sorted. Raises InvalidArgument if the lake is closed.

        >>> lake.table_names()
        ['orders', 'stock']
        """
        owner = self.owner
        return owner.table_names() if isinstance(owner, Catalog) else [table.name for table in owner.tables()]

    def __contains__(self, name: object) -> bool:
        """Return whether the lake has a table called `name`. Raises InvalidArgument if the lake is closed.

        >>> "stock" in lake, "missing" in lake
        (True, False)
        """
        owner = self.owner
        if isinstance(owner, Catalog):
            return isinstance(name, str) and owner.has_table(name)
        return name in self.table_names()

    def __getitem__(self, name: str) -> Snapshot:
        """Return the newest version of the table `name`, like `snapshot`. Raises TableNotFound."""
        return self.snapshot(name)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the tables, sorted. Raises InvalidArgument if the lake is closed."""
        return iter(self.table_names())

    def __len__(self) -> int:
        """Return the number of tables. Raises InvalidArgument if the lake is closed.

        >>> len(lake), list(lake)
        (2, ['orders', 'stock'])
        """
        return len(self.table_names())

    def __bool__(self) -> bool:
        """Return True: a lake without tables is a lake."""
        return True

    def create_table(
        self,
        name: str,
        schema: pa.Schema | StructType | str,
        partition_by: Sequence[str] = (),
        cluster_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        description: str | None = None,
        location: str | os.PathLike[str] | None = None,
        managed: str | None = None,
    ) -> Snapshot:
        """Create the empty table `name`, and return its first version.

        `schema` is an Arrow schema, a list of columns (`id BIGINT, day DATE`), a `StructType` or its `schemaString`.
        `partition_by`: columns of the top level. `cluster_by`: at most four columns, by dotted paths; excludes
        `partition_by`. `properties`: texts by their keys. `description`: None for none. `location`: default is the name
        below the lake's root. `managed`: the feature of the table's commits, `managedCommit` (the default) or
        `catalogManaged`. Raises TableAlreadyExists if the name or location is taken, InvalidArgument or
        UnsupportedFeature if the definition is invalid.

        >>> with slackwater.LogLake.open(path) as opened:
        ...     opened.create_table("orders", "sku STRING, qty INT").version
        0
        """
        columns = columns_of_table(schema)
        return self._create_log(
            name, columns, partition_by, cluster_by, properties, description, location, managed=managed
        ).snapshot

    def location(self, name: str) -> str:
        """Return the path or URL of the table `name`. Raises TableNotFound.

        >>> with slackwater.LogLake.open(path) as opened:
        ...     created = opened.create_table("orders", "sku STRING")
        ...     opened.location("orders").endswith("/orders")
        True
        """
        return self._table(name).location

    def activity(self) -> Activity:
        """Return open transactions, locks, blocked transactions and timestamp reservations.

        The result may be out of date. Raises InvalidArgument if the lake is closed.

        >>> with lake.transaction() as tx:
        ...     tx.lock("stock", exclusive=True)
        ...     [(lock.table, lock.held) for lock in lake.activity().locks]
        [('stock', 'X')]
        """
        return self.owner.activity()

    def snapshot(self, name: str) -> Snapshot:
        """Return the newest version of the table `name`. Raises TableNotFound, and the errors of reading a table.

        >>> lake.snapshot("stock").to_arrow().to_pylist()
        [{'sku': 'A1', 'qty': 10}]
        """
        return self._snapshot_of(self.owner.table(name))

    def backfill(self, name: str) -> int:
        """Copy all commits of the table `name` to `_delta_log`. Return the newest version. Raises TableNotFound.

        >>> lake.backfill("stock")
        1
        """
        return self.owner.backfill_to_version(self.owner.table(name).table_id)

    def repair(self, name: str | None = None) -> list[str]:
        """Repair the table `name`, or all tables (None); see `CommitOwner.repair`. Return a text for each repair.

        For all tables, the call also resolves in-doubt transactions over several lakes, if these lakes are open here.
        Raises TableNotFound, StorageError.

        >>> lake.backfill("stock"), lake.repair("stock")
        (1, [])
        """
        if name is None:
            return [*resolve(attached_owners()), *self.owner.repair()]
        # Look the id up in the list, because `owner.table` would already repair the table without a report.
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

        `isolation`: `serializable`, or `snapshot`, which ignores concurrent changes of rows read. `control`:
        `optimistic`, or `locking`, which locks tables on first read or write. `writes` declares tables to be written.
        The first request for the time reserves these tables for this transaction. `others`: lakes under their own
        owners, with tables for this transaction. `lock_timeout_s`: seconds to wait for a lock. Raises InvalidArgument,
        TableNotFound.

        >>> with slackwater.LogLake.open(path) as opened:
        ...     created = opened.create_table("orders", "sku STRING")
        ...     with opened.transaction() as tx:
        ...         tx.snapshot("orders").version
        0
        """
        return LogTransaction(self, isolation, control, writes, lock_timeout_s, others)

    def run(self, work: Callable[[LogTransaction], T], retries: int = RETRIES, **options: Any) -> T:
        """Run `work(tx)` in a transaction, commit and return the result. Retry after a conflict.

        `options` as `transaction`. `work` runs up to `retries` + 1 times and should have no other effects. Raises the
        last conflict after all retries, and every other error immediately.

        >>> with slackwater.LogLake.open(path) as opened:
        ...     created = opened.create_table("orders", "sku STRING")
        ...     opened.run(lambda tx: tx.snapshot("orders").version)
        0
        """
        return run_again(lambda seniority_ms: self._begin(seniority_ms, options), work, retries, self.clock)

    def _begin(self, seniority_ms: int | None, options: Mapping[str, Any]) -> LogTransaction:
        """Begin a transaction with deadlock priority over transactions begun after `seniority_ms`."""
        return LogTransaction(self, seniority_ms=seniority_ms, **options)

    def as_of(self, timestamp: Instant) -> LogTimeSlice:
        """Return the consistent state of all tables at one instant, from one owner request. The state never changes.

        `timestamp`: a datetime, a date (its first instant), ISO 8601 text, or ms since the epoch; UTC without a zone.
        Raises InvalidArgument if `timestamp` is not an instant, TimestampOutOfRange if it is in the future.

        >>> with slackwater.LogLake.open(path) as opened:
        ...     created = opened.create_table("orders", "sku STRING")
        ...     opened.as_of(created.timestamp).version("orders")
        0
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
        """Restore `tables`, by default all tables of that instant, to the state at `as_of`, in one transaction.

        `as_of` as in `as_of`. Every table gets a new version with one timestamp, or none does. Later commits stay in
        the histories; newer tables stay unchanged. A conflict repeats the restore up to `retries` times.
        `ignore_missing_files`: restore despite vacuumed files. `user_metadata`: a text for the histories. `user_name`:
        the user in the histories. Raises TableNotFound, TimestampOutOfRange, DataFileNotFound, InvalidArgument and the
        errors of every transaction. An error leaves all tables unchanged.

        >>> with slackwater.LogLake.open(path) as opened:
        ...     created = opened.create_table("orders", "sku STRING")
        ...     [(each.name, each.version) for each in opened.restore(created.timestamp)]
        [('orders', 0)]
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
        """Clone `tables`, by default all tables of that instant, as of `as_of` into the lake `to`.

        `to` is an open lake, or the root of a new one. The clones refer to the files of this lake's tables, without a
        copy, are managed by the same feature, and accept their own writes. VACUUM of a source also deletes files still
        used only by its clone. Tables are cloned one after another; an error names the clones already made.
        `user_metadata`: a text for the histories. `user_name`: the user in the histories. Raises TableNotFound,
        TableAlreadyExists, TimestampOutOfRange, InvalidArgument.

        >>> with slackwater.LogLake.open(path) as opened:
        ...     created = opened.create_table("orders", "sku STRING")
        ...     [each.name for each in opened.clone(created.timestamp, path + "-copy")]
        ['orders']
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
                form, features = form_of(source.configuration), features_with_owner(source.configuration)
                transaction = self._taking_clone(name, places[name], source, {}, form or MANAGED_COMMIT, features)
                result = commit_clone(transaction, source, None, user_metadata, user_name)
                made.append(TableCloned(name, source.version, result))
            except SlackwaterError as error:
                done = ", ".join(each.name for each in made) or "none"
                raise type(error)(f"the table {name!r} was not cloned: {error}. Cloned before: {done}") from error
        return made

    def maintain(
        self,
        tables: Sequence[str] | None = None,
        *,
        dry_run: bool = True,
        tasks: Sequence[str] | None = None,
        small_files: int = 10,
        commits: int | None = None,
        log_files: int = 1,
        removed_files: int = 1,
    ) -> list[TableMaintenance]:
        """Report the due maintenance of `tables`, by default all tables. Do it if `dry_run` is false.

        `tasks`: `optimize`, `vacuum`, `checkpoint` and `cleanup`, by default all, in this order. OPTIMIZE needs Spark,
        so only `slackwater.Lake` does it. A task is due if it reaches its threshold. `small_files`: files of one
        partition that OPTIMIZE would rewrite. `commits`: commits since the last checkpoint, None for
        `delta.checkpointInterval`. `log_files`: log files past `delta.logRetentionDuration`. `removed_files`: files not
        needed within `delta.deletedFileRetentionDuration`. The result has a row for each table and task. An error is a
        row with the state `failed`, and all other tasks still run. Raises InvalidArgument, TableNotFound.

        >>> with slackwater.LogLake.open(path) as opened:
        ...     created = opened.create_table("orders", "sku STRING")
        ...     [(row.task, row.state) for row in opened.maintain()][:2]
        [('optimize', 'not due'), ('vacuum', 'not due')]
        """
        thresholds = MaintenanceThresholds(small_files, commits, log_files, removed_files)
        return list(self._maintain(TableTasks(thresholds, self.clock), tables, tasks, dry_run))

    def _maintain(
        self,
        work: TableTasks,
        tables: Sequence[str] | None,
        tasks: Sequence[str] | None,
        dry_run: bool,
        working: Callable[[str, int], None] = lambda what, done: None,  # noqa: ARG005  (the names are the interface)
    ) -> Iterator[TableMaintenance]:
        names = chosen_tables(self.table_names(), tables)
        return maintain_tables(names, self._table, work, tasks, dry_run, working)

    def history(self, limit: int | None = None) -> list[LakeCommit]:
        """Return at most `limit` transactions of all tables, newest first. None returns all.

        Raises InvalidArgument if `limit` is not a whole number from 0, and the errors of reading logs.

        >>> with slackwater.LogLake.open(path) as opened:
        ...     created = opened.create_table("orders", "sku STRING")
        ...     len(opened.history())
        1
        """
        return lake_history(self.owner.cut().tables, self._table_of, limit)

    def _table(self, name: str) -> Table:
        return self._table_of(self.owner.table(name))


def columns_of_table(schema: pa.Schema | StructType | str) -> StructType:
    """Return the columns in `schema`, in any form that `LogLake.create_table` accepts. Raises InvalidArgument."""
    if isinstance(schema, StructType):
        return schema
    if isinstance(schema, str):
        return parse_schema(schema) if schema.lstrip().startswith("{") else parse_column_list(schema)
    if isinstance(schema, pa.Schema):
        # Imported here, because only writes of rows need conversions.
        from slackwater.rows.arrow_types import delta_schema

        return delta_schema(schema)
    raise InvalidArgument(
        f"schema is an Arrow schema, a list of columns such as 'id BIGINT, day DATE', or a StructType, found {schema!r}"
    )
