"""`Lake`: named tables under one commit owner, as DeltaTables."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types
from typing_extensions import Self

from slackwater.errors import InvalidArgument
from slackwater.lake.lake import LogLake
from slackwater.lake.maintenance.tasks import MaintenanceThresholds, TableTasks
from slackwater.lake.retry import RETRIES, run_again
from slackwater.lake.time_slice import Instant
from slackwater.lake.transaction import LOCK_TIMEOUT_S, OPTIMISTIC, SERIALIZABLE
from slackwater.maintenance.clone import CloneResult
from slackwater.owner.api.catalog import Catalog
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.protocol.schema.schema import StructType
from slackwater.spark.catalog.session_lakes import attach, detach, forget
from slackwater.spark.lake.maintenance import SessionOptimizer, maintenance_frame, vacuum_request
from slackwater.spark.lake.time_slice import TimeSlice, history_frame
from slackwater.spark.lake.transaction import LakeTransaction
from slackwater.spark.maintenance.restore import RESTORE_RESULT, ignores_missing_files
from slackwater.spark.progress.progress import Progress
from slackwater.spark.session.argument_checks import parsed_columns, with_known_collations
from slackwater.spark.session.enabled_sessions import is_stopped, require_running
from slackwater.spark.session.local_frame import result_frame
from slackwater.spark.session.settings import SessionSettings, session_instant_ms
from slackwater.spark.session.types import from_spark_schema
from slackwater.spark.storage import stores
from slackwater.spark.table.table import DeltaTable
from slackwater.storage.hadoop_settings import merged_options

T = TypeVar("T")

LAKE_RESTORE_RESULT = spark_types.StructType(
    [
        spark_types.StructField("table", spark_types.StringType()),
        spark_types.StructField("version", spark_types.LongType()),
        *RESTORE_RESULT.fields,
    ]
)
"""The columns of the result of `Lake.restore`. `version` is the restored version; sizes in bytes."""

LAKE_CLONE_RESULT = spark_types.StructType(
    [
        *LAKE_RESTORE_RESULT.fields[:2],
        *(spark_types.StructField(name, spark_types.LongType()) for name in CloneResult.__dataclass_fields__),
    ]
)
"""The columns of the result of `Lake.clone`. `version` is the cloned version; sizes in bytes."""


class Lake(LogLake):
    """The tables of one commit owner.

    `spark` is by default the active session. An open lake also serves its tables by path, with
    `spark.read.format("delta")` and all other APIs. Within a transaction, only the transaction may use them.

    >>> with slackwater.Lake.open(path, spark=spark) as lake:
    ...     flights = lake.create_table("flights", "month INT, carrier STRING", partition_by=["month"])
    ...     rows = spark.createDataFrame([(3, "AA"), (4, "XX")], "month INT, carrier STRING")
    ...     rows.write.format("delta").mode("append").save(lake.location("flights"))
    ...     flights.delete("carrier = 'XX'")
    ...     [table.name for table in lake.tables()], flights.toDF().count()
    (['flights'], 1)
    """

    def __init__(
        self,
        owner: CommitOwner,
        root: str | None,
        storage_options: Mapping[str, str] | None = None,
        spark: SparkSession | None = None,
    ) -> None:
        super().__init__(owner, root, storage_options)
        self._spark = spark
        # The lake that this one is for another session.
        self._opened: Self | None = None

    @classmethod
    def open(
        cls,
        root: str | os.PathLike[str],
        database: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        spark: SparkSession | None = None,
        *,
        recover: bool = False,
        group: str | None = None,
        read_slots: int | None = None,
    ) -> Self:
        """Open the lake at `root`, a path or URL, with its owner in this process. Any number of processes may open it.

        `database`: a SQLAlchemy URL (`postgresql://host/database`). Default: a SQLite file below `root`; then `root`
        must be a directory of this machine. Only this user, or the members of `group`, can use the file.
        `storage_options` as in `Snapshot.load`. The root's store also gets the Hadoop settings of the session `spark`,
        by default the active session. `recover` first rebuilds the owner's state, as `recover_state` does.
        `read_slots`: the new size of the owner's read timestamp table, for all processes. More slots reduce false
        conflicts between readers and writers.

        Raises InvalidArgument; OperationNotAllowed if the lake is a copy of another lake, or if its state is lost or
        old; CommitOwnerUnavailable.

        >>> with slackwater.Lake.open(path, spark=spark) as opened:
        ...     opened.create_table("orders", "id INT").toDF().columns
        ['id']
        """
        session = spark or SparkSession.getActiveSession()
        known = {} if session is None else stores.storage_options(session, str(root))
        at_root = merged_options(known, storage_options or {})
        lake = super().open(root, database, at_root, recover=recover, group=group, read_slots=read_slots)
        # The session's options for the root's bucket must not apply to tables in other buckets.
        lake._storage_options = dict(storage_options or {})
        lake._spark = spark
        return lake

    @classmethod
    def connect(
        cls,
        url: str,
        token: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
        allow_http: bool = False,
        ca_file: str | None = None,
        spark: SparkSession | None = None,
        *,
        catalog: str | None = None,
    ) -> Self:
        """Connect to the lake of the owner served at `url`. This process reads and writes data and logs itself.

        `uc:` before the URL of a Unity Catalog's API, with the name of its `catalog`, connects to tables managed there.
        `storage_options` as in `Snapshot.load`; `spark` is by default the active session. `timeout_s`: seconds to wait
        for a response, over all attempts. Backfills, releases, repairs and slices of the past have ten times the limit.
        Waits for locks extend the limit. The client sends `token` to `https:` addresses and to this machine only,
        unless `allow_http`. `ca_file`: certificates to trust (PEM), if no known authority signed the server's
        certificate. Raises InvalidArgument, NotAuthorized, CommitOwnerUnavailable.

        >>> with slackwater.Lake.connect(url, token, spark=spark) as served:
        ...     [table.name for table in served.tables()]
        []
        """
        lake = super().connect(url, token, storage_options, timeout_s, allow_http, ca_file, catalog=catalog)
        lake._spark = spark
        owner = lake.owner
        if isinstance(owner, Catalog):
            # The owner opens the stores of its tables itself, so it needs the keys of the session.
            owner.use_options(lake._session_options)
        return lake

    def table(self, name: str) -> DeltaTable:
        """Return the table `name`. Raises TableNotFound.

        >>> lake.table("stock").toDF().first().qty
        10
        """
        table = self._table(name)
        return DeltaTable(self._session(), table, super()._options_at(table.root_url))

    def __getitem__(self, name: str) -> DeltaTable:  # type: ignore[override]  # as tables are DeltaTables here
        """Return the table `name`, like `table`. Raises TableNotFound.

        >>> lake["stock"].toDF().first().qty
        10
        """
        return self.table(name)

    def location(self, name: str) -> str:
        """Return the path or URL of the table `name`, for `load` and `save`. Raises TableNotFound.

        >>> spark.read.format("delta").load(lake.location("stock")).columns
        ['sku', 'qty']
        """
        return self._table(name).location

    def create_table(  # type: ignore[override]  # as tables are DeltaTables here
        self,
        name: str,
        schema: spark_types.StructType | StructType | str,
        partition_by: Sequence[str] = (),
        cluster_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        description: str | None = None,
        location: str | os.PathLike[str] | None = None,
        managed: str | None = None,
    ) -> DeltaTable:
        """Create the empty table `name`. `schema` is a Spark type or DDL text (`id BIGINT, day DATE`).

        `partition_by`: columns of the top level. `cluster_by`: at most four columns, by dotted paths; excludes
        `partition_by`. `properties`: texts by their keys; they override the session's defaults. `description`: None for
        none. `location`: default is the name below the lake's root. `managed`: the feature of the table's commits,
        `managedCommit` (the default) or `catalogManaged`. Raises TableAlreadyExists if the name or location is taken,
        InvalidArgument or UnsupportedFeature if the definition is invalid.

        >>> lake.create_table("days", "day DATE, n INT", partition_by=["day"]).detail().first().partitionColumns
        ['day']
        """
        given, session = dict(properties or {}), self._session()
        settings = SessionSettings.of(session)
        properties = {**settings.properties_beside(given), **given}
        self._create_log(
            name,
            _schema(session, schema),
            partition_by,
            cluster_by,
            properties,
            description,
            location,
            user_metadata=settings.user_metadata,
            user_name=settings.user_name,
            managed=managed,
        )
        return self.table(name)

    def transaction(
        self,
        spark: SparkSession | None = None,
        isolation: str = SERIALIZABLE,
        control: str = OPTIMISTIC,
        writes: Sequence[str] | None = None,
        lock_timeout_s: float = LOCK_TIMEOUT_S,
        others: Sequence[LogLake] = (),
    ) -> LakeTransaction:
        """Begin a transaction over any of the tables, for the session `spark`, by default the lake's.

        `isolation`: `serializable`, or `snapshot`, which ignores concurrent changes of rows read. `control`:
        `optimistic`, or `locking`, which locks a table on its first read or write. `writes` declares tables to be
        written. The first request for the time reserves these tables for this transaction. `others`: lakes under their
        own owners, with tables for this transaction. `lock_timeout_s`: seconds to wait for a lock. Raises
        InvalidArgument, TableNotFound.

        >>> with lake.transaction(spark) as tx:
        ...     tx.table("stock").update("sku = 'A1'", {"qty": "qty - 1"})
        >>> tx.versions
        {'stock': 2}
        """
        return LakeTransaction(self, spark or self._session(), isolation, control, writes, lock_timeout_s, others)

    def run(self, work: Callable[[LakeTransaction], T], retries: int = RETRIES, **options: Any) -> T:
        """Run `work(tx)` in a transaction, commit and return the result. Retry after a conflict.

        `options`: parameters of `transaction`. `work` runs up to `retries` + 1 times and should have no other effects.
        Raises the last conflict after all retries, and every other error immediately.

        >>> lake.run(lambda tx: tx.table("stock").delete("sku = 'A1'"))
        >>> lake.table("stock").toDF().count()
        0
        """
        session = options.pop("spark", None) or self._session()
        return run_again(
            lambda seniority_ms: LakeTransaction(self, session, seniority_ms=seniority_ms, **options),
            work,
            retries,
            self.clock,
        )

    def as_of(self, timestamp: Instant) -> TimeSlice:
        """Return the consistent state of all tables at one instant, from one owner request. The state never changes.

        `timestamp`: a datetime, a date (its first instant), ISO 8601 text, or ms since the epoch. Text and dates
        without a zone use the session's zone. Datetimes without a zone, as returned by PySpark, use this machine's
        zone. Raises InvalidArgument if `timestamp` is not an instant, TimestampOutOfRange if it is in the future.

        >>> with lake.transaction(spark) as tx:
        ...     tx.table("stock").delete()
        >>> [lake.as_of(at).table("stock").toDF().count() for at in (tx.begun_at, tx.commit_timestamp)]
        [1, 0]
        """
        session = self._session()
        return TimeSlice(self, session, session_instant_ms(session, timestamp))

    def history(self, limit: int | None = None) -> DataFrame:  # type: ignore[override]  # as tables are DataFrames here
        """Return at most `limit` transactions of all tables, newest first, with the schema LAKE_HISTORY_SCHEMA.

        Raises InvalidArgument if `limit` is not a whole number from 0, and the errors of reading logs.

        >>> [dict(row.tables) for row in lake.history(limit=1).collect()]
        [{'stock': 1}]
        """
        return history_frame(self._session(), super().history(limit))

    def restore(  # type: ignore[override]  # as answers are DataFrames here
        self,
        as_of: Instant,
        tables: Sequence[str] | None = None,
        *,
        ignore_missing_files: bool | None = None,
        user_metadata: str | None = None,
        user_name: str | None = None,
        retries: int = RETRIES,
    ) -> DataFrame:
        """Restore `tables`, by default all tables of that instant, to the state at `as_of`, in one transaction.

        `as_of`: see the method `as_of`. Every table gets a new version with one timestamp, or none does. Later commits
        stay in the histories; newer tables stay unchanged. A conflict repeats the restore up to `retries` times.
        `ignore_missing_files`: restore despite vacuumed files; None uses `spark.sql.files.ignoreMissingFiles`.
        `user_metadata`: a text for the histories. `user_name`: the user in the histories. None uses the session's
        settings. The result has one row per table: LAKE_RESTORE_RESULT. Raises TableNotFound, TimestampOutOfRange,
        DataFileNotFound, InvalidArgument and the errors of every transaction. An error leaves all tables unchanged.

        >>> now = lake.run(lambda tx: tx.current_timestamp())
        >>> lake.table("stock").setProperties({"team": "sales"})
        >>> [(row.table, row.version) for row in lake.restore(now, ["stock"]).collect()]
        [('stock', 1)]
        """
        session = self._session()
        ignored = ignores_missing_files(session) if ignore_missing_files is None else ignore_missing_files
        settings = SessionSettings.of(session)
        said = settings.user_metadata if user_metadata is None else user_metadata
        who = user_name or settings.user_name
        with Progress.during(session, "RESTORE", "comparing versions", settings.progress):
            done = super().restore(
                as_of, tables, ignore_missing_files=ignored, user_metadata=said, user_name=who, retries=retries
            )
        rows = [(each.name, each.version, *each.result.to_dict().values()) for each in done]
        return result_frame(session, rows, LAKE_RESTORE_RESULT, "Lake.restore")

    def clone(  # type: ignore[override]  # as answers are DataFrames here
        self,
        as_of: Instant,
        to: LogLake | str | os.PathLike[str],
        tables: Sequence[str] | None = None,
        *,
        user_metadata: str | None = None,
        user_name: str | None = None,
    ) -> DataFrame:
        """Clone `tables`, by default all tables of that instant, as of `as_of` into the lake `to`.

        `as_of`: see the method `as_of`. `to` is an open lake, or the root of a new one. The clones refer to the files
        of this lake's tables, without a copy, and accept their own writes. The setting
        `spark.slackwater.allowPathsOutsideRoot` must not be false for reads of clones. VACUUM of a source also deletes
        files still used only by its clone. Tables are cloned one after another; an error names the clones already made.
        `user_metadata`: a text for the histories. `user_name`: the user in the histories. None uses the session's
        settings. The result has one row per table: LAKE_CLONE_RESULT. Raises TableNotFound, TableAlreadyExists,
        TimestampOutOfRange, InvalidArgument.

        >>> now = lake.run(lambda tx: tx.current_timestamp())
        >>> [(row.table, row.version) for row in lake.clone(now, path).collect()]
        [('orders', 0), ('stock', 1)]
        """
        session = self._session()
        settings = SessionSettings.of(session)
        said = settings.user_metadata if user_metadata is None else user_metadata
        who = user_name or settings.user_name
        with Progress.during(session, "CLONE", "listing files", settings.progress):
            done = super().clone(as_of, to, tables, user_metadata=said, user_name=who)
        rows = [(each.name, each.version, *each.result.to_dict().values()) for each in done]
        return result_frame(session, rows, LAKE_CLONE_RESULT, "Lake.clone")

    def maintain(  # type: ignore[override]  # as answers are DataFrames here
        self,
        tables: Sequence[str] | None = None,
        *,
        dry_run: bool = True,
        tasks: Sequence[str] | None = None,
        small_files: int = 10,
        commits: int | None = None,
        log_files: int = 1,
        removed_files: int = 1,
    ) -> DataFrame:
        """Report the due maintenance of `tables`, by default all tables. Do it if `dry_run` is false.

        `tasks`: `optimize`, `vacuum`, `checkpoint` and `cleanup`, by default all, in this order. A task is due if it
        reaches its threshold. `small_files`: files of one partition that OPTIMIZE would rewrite. `commits`: commits
        since the last checkpoint, None for `delta.checkpointInterval`. `log_files`: log files past
        `delta.logRetentionDuration`. `removed_files`: files not needed within `delta.deletedFileRetentionDuration`.

        The result has a row for each table and task: LAKE_MAINTENANCE_RESULT. `state` is `not due`, `due`, `done` or
        `failed`. An error is a row with the state `failed`, and all other tasks still run. The work uses the operations
        of single tables, so it has their conflict rules. Raises InvalidArgument, TableNotFound.

        >>> [(row.table, row.task, row.state) for row in lake.maintain(["stock"], commits=2).collect()][2:]
        [('stock', 'checkpoint', 'due'), ('stock', 'cleanup', 'not due')]
        >>> done = lake.maintain(["stock"], dry_run=False, tasks=["checkpoint"], commits=2)
        >>> [(row.state, row.detail) for row in done.collect()]
        [('done', 'checkpoint of version 1')]
        """
        session = self._session()
        thresholds = MaintenanceThresholds(small_files, commits, log_files, removed_files)
        work = TableTasks(thresholds, self.clock, vacuum_request(session), SessionOptimizer(session))
        with Progress.during(session, "MAINTENANCE", "looking for work", SessionSettings.of(session).progress):
            rows = list(self._maintain(work, tables, tasks, dry_run))
        return maintenance_frame(session, rows)

    def backfill(self, name: str) -> int:
        """Copy all commits of the table `name` to `_delta_log`. Return the newest version there.

        Long runs show progress. Raises TableNotFound, and StorageError if a commit cannot be copied.

        >>> lake.backfill("stock")
        1
        """
        with Progress.during(self._running_session(), "BACKFILL", f"putting commits of {name} into its log"):
            return super().backfill(name)

    def repair(self, name: str | None = None) -> list[str]:
        """Complete interrupted work on the table `name`, or on all tables (None). Return a text for each action.

        Ownership proposals and releases are completed or dropped. Commits of crashed processes are dropped, and
        ratified commits backfilled. Staged files without a record are deleted after a grace period. Foreign commits are
        reported. For all tables, the call also resolves in-doubt transactions over several lakes, if these lakes are
        open here. Long runs show progress. Raises TableNotFound, StorageError.

        >>> lake.repair("orders")  # all is well
        []
        """
        with Progress.during(self._running_session(), "REPAIR", f"looking at {name or 'all tables'}"):
            return super().repair(name)

    def attach(self, spark: SparkSession | None = None, name: str = "lake") -> Self:
        """Register this lake as `name` in the session's SQL and names: `lake.flights`, `USE lake`. Return the lake.

        `spark` is by default the lake's session. Raises InvalidArgument if `name` refers to another lake.

        >>> attached = lake.attach(spark)
        >>> spark.sql("SELECT qty FROM lake.stock").first().qty
        10
        >>> lake.detach(spark)
        """
        attach(spark or self._session(), self._opened or self, name)
        return self

    def in_session(self, spark: SparkSession) -> Self:
        """Return this lake for the session `spark`. Reads and writes run in the session, with its settings.

        The session's statements use an attached lake in this way. Closing one of both closes the other. Uses of the
        result raise InvalidArgument after `spark.stop()`.

        >>> lake.in_session(spark.newSession()).table("stock").toDF().first().qty
        10
        """
        if spark is self._spark:
            return self
        # A copy as by `pickle` would have its own state: closed or not, the versions read, the clock.
        found = object.__new__(type(self))
        vars(found).update(vars(self))
        found._spark, found._opened = spark, self._opened or self
        return found

    def detach(self, spark: SparkSession | None = None) -> None:
        """Remove the lake's names from the session `spark`, by default the lake's.

        Raises OperationNotAllowed if a transaction begun in SQL is open in the session.

        >>> shop = lake.attach(spark, "shop")
        >>> spark.table("shop.stock").columns
        ['sku', 'qty']
        >>> lake.detach(spark)
        """
        detach(spark or self._session(), self._opened or self)

    def close(self) -> None:
        """Backfill the commits of this process, and release the owner and its tables.

        Sessions lose the lake's names, and transactions begun in SQL are rolled back. Every later use of the lake
        raises InvalidArgument.

        >>> opened = slackwater.Lake.open(path, spark=spark)
        >>> opened.close()
        >>> repr(opened).endswith("(closed)>")
        True
        """
        try:
            forget(self._opened or self)
        finally:
            super().close()

    def _opened_beside(self, root: str | os.PathLike[str]) -> LogLake:
        return type(self).open(root, storage_options=self._storage_options, spark=self._session())

    def _follows_outside(self) -> bool:
        session = self._spark or SparkSession.getActiveSession()
        return session is None or stores.follows_outside(session)

    def _options_at(self, location: str | os.PathLike[str]) -> Mapping[str, str]:
        return merged_options(self._session_options(str(location)), super()._options_at(location))

    def _session_options(self, location: str) -> dict[str, str]:
        session = self._spark or SparkSession.getActiveSession()
        return {} if session is None else stores.session_options(session, location)

    def _known_session(self) -> SparkSession | None:
        return self._spark or SparkSession.getActiveSession()

    def _running_session(self) -> SparkSession | None:
        """Return the session for progress display of work without Spark, or None if the session was stopped."""
        session = self._known_session()
        return None if session is None or is_stopped(session) else session

    def _session(self) -> SparkSession:
        session = self._known_session()
        if session is None:
            raise InvalidArgument("there is no active Spark session. Create the lake with spark=")
        require_running(session)
        return session


def _schema(spark: SparkSession, given: spark_types.StructType | StructType | str) -> StructType:
    if isinstance(given, StructType):
        return given
    parsed = parsed_columns(given) if isinstance(given, str) else given
    if not isinstance(parsed, spark_types.StructType):
        raise InvalidArgument(f"schema must be a StructType or DDL text, found {given!r}")
    return from_spark_schema(with_known_collations(spark, parsed))
