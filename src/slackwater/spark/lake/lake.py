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
from slackwater.lake.retry import RETRIES, run_again
from slackwater.lake.time_slice import Instant
from slackwater.lake.transaction import LOCK_TIMEOUT_S, OPTIMISTIC, SERIALIZABLE
from slackwater.maintenance.clone import CloneResult
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.protocol.schema.schema import StructType
from slackwater.spark.catalog.session_lakes import attach, detach, forget
from slackwater.spark.lake.time_slice import TimeSlice, history_frame
from slackwater.spark.lake.transaction import LakeTransaction
from slackwater.spark.maintenance.restore import RESTORE_RESULT, ignores_missing_files
from slackwater.spark.progress.progress import Progress
from slackwater.spark.session import stores
from slackwater.spark.session.enabled_sessions import is_stopped, require_running
from slackwater.spark.session.local_frame import result_frame
from slackwater.spark.session.settings import SessionSettings, session_instant_ms
from slackwater.spark.session.types import from_spark_schema
from slackwater.spark.table.argument_checks import parsed_columns
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
"""The columns of what `Lake.restore` answers: `version` is the one that the table was; sizes in bytes."""

LAKE_CLONE_RESULT = spark_types.StructType(
    [
        *LAKE_RESTORE_RESULT.fields[:2],
        *(spark_types.StructField(name, spark_types.LongType()) for name in CloneResult.__dataclass_fields__),
    ]
)
"""The columns of what `Lake.clone` answers: `version` is the one that was cloned; sizes in bytes."""


class Lake(LogLake):
    """The tables of one commit owner.

    `spark` is the active session unless it is given. While a lake is open, its tables are read and written by their
    path as well, with `spark.read.format("delta")` and all else; within a transaction, through the transaction only.

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
        """Open the lake at `root`, a path or URL, with its owner in this process; any number of processes may do so.

        `database`: a SQLAlchemy URL (`postgresql://host/database`), by default a SQLite file below `root`, which then
        is a directory of this machine. That file is for this user alone, or for the members of `group` where one is
        given. `storage_options` as in `Snapshot.load`; Hadoop settings of the session `spark`, by default the active
        one, reach the root's store as well. With `recover` the owner's state is made anew first, as `recover_state`
        does. `read_slots`: the size of the owner's read timestamp table from now on, for all processes: with more slots
        fewer transactions are taken for readers of what another writes. Raises InvalidArgument, OperationNotAllowed for
        a copy of another lake, or one whose state is lost or old, CommitOwnerUnavailable.

        >>> with slackwater.Lake.open(path, spark=spark) as opened:
        ...     opened.create_table("orders", "id INT").toDF().columns
        ['id']
        """
        session = spark or SparkSession.getActiveSession()
        known = {} if session is None else stores.storage_options(session, str(root))
        at_root = merged_options(known, storage_options or {})
        lake = super().open(root, database, at_root, recover=recover, group=group, read_slots=read_slots)
        # What the session knows of the root's bucket is not for tables in others: they are asked for one by one.
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
    ) -> Self:
        """Open the lake whose owner is served at `url`; data and logs are read and written from here.

        `storage_options` as in `Snapshot.load`; `spark` is by default the active session. An answer is waited for
        `timeout_s` seconds, attempts together; that of backfills, releases, repairs and slices of the past ten times as
        long; waits for locks come on top. A `token` is sent to `https:` addresses and this machine only, unless
        `allow_http`. `ca_file`: the certificates to trust (PEM), where the server's is signed by none that is known.
        Raises InvalidArgument, NotAuthorized, CommitOwnerUnavailable.

        >>> with slackwater.Lake.connect(url, token, spark=spark) as served:
        ...     [table.name for table in served.tables()]
        []
        """
        lake = super().connect(url, token, storage_options, timeout_s, allow_http, ca_file)
        lake._spark = spark
        return lake

    def table(self, name: str) -> DeltaTable:
        """The table `name`. Raises TableNotFound.

        >>> lake.table("stock").toDF().first().qty
        10
        """
        return DeltaTable(self._session(), self._table(name), self._storage_options)

    def location(self, name: str) -> str:
        """The path or URL of the table `name`, for `load` and `save`. Raises TableNotFound.

        >>> spark.read.format("delta").load(lake.location("stock")).columns
        ['sku', 'qty']
        """
        return self._table(name).location

    def create_table(
        self,
        name: str,
        schema: spark_types.StructType | StructType | str,
        partition_by: Sequence[str] = (),
        cluster_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        description: str | None = None,
        location: str | os.PathLike[str] | None = None,
    ) -> DeltaTable:
        """Create the empty table `name`; `schema` is Spark's type, or DDL text (`id BIGINT, day DATE`).

        `partition_by`: columns of the top level. `cluster_by`: four columns at most, by dotted paths; not both.
        `properties`: texts by their keys, which go before the session's defaults. `description`: None for none.
        `location` is by default the name below the lake's root. Raises TableAlreadyExists for a name or a place that
        is taken, InvalidArgument and UnsupportedFeature for a table that cannot be.

        >>> lake.create_table("days", "day DATE, n INT", partition_by=["day"]).detail().first().partitionColumns
        ['day']
        """
        given = dict(properties or {})
        settings = SessionSettings.of(self._session())
        properties = {**settings.properties_beside(given), **given}
        self.create_log(
            name,
            _schema(schema),
            partition_by,
            cluster_by,
            properties,
            description,
            location,
            user_metadata=settings.user_metadata,
            user_name=settings.user_name,
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

        `isolation`: `serializable`, or `snapshot`, where what was read may change meanwhile. `control`: `optimistic`,
        or `locking`, where a table is locked at its first read or write. `writes` declares tables that will be
        written: from the first question for the time on they are this transaction's alone. `others`: lakes whose tables
        take part as well, under their own owners. A lock is waited for `lock_timeout_s` seconds. Raises
        InvalidArgument, TableNotFound.

        >>> with lake.transaction(spark) as tx:
        ...     tx.table("stock").update("sku = 'A1'", {"qty": "qty - 1"})
        >>> tx.versions
        {'stock': 2}
        """
        return LakeTransaction(self, spark or self._session(), isolation, control, writes, lock_timeout_s, others)

    def run(self, work: Callable[[LakeTransaction], T], retries: int = RETRIES, **options: Any) -> T:
        """Give what `work(tx)` answers in a transaction that commits; where others were in the way, it is run again.

        `options` as `transaction` takes them. `work` is done up to `retries` + 1 times, so it should have no other
        effects. Raises the last conflict, and every other error at once.

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
        """Give all tables as they were at one instant: one question to the owner, and the same answer for ever.

        `timestamp`: a datetime, a date (its first instant), ISO 8601 text, or ms since the epoch. Text and dates that
        name no zone are of the session's; datetimes that name none, as PySpark gives them, of this machine's. Raises
        InvalidArgument for what is no instant, TimestampOutOfRange for one of the future.

        >>> with lake.transaction(spark) as tx:
        ...     tx.table("stock").delete()
        >>> [lake.as_of(at).table("stock").toDF().count() for at in (tx.begun_at, tx.commit_timestamp)]
        [1, 0]
        """
        session = self._session()
        return TimeSlice(self, session, session_instant_ms(session, timestamp))

    def history(self, limit: int | None = None) -> DataFrame:  # type: ignore[override]  # as tables are DataFrames here
        """The transactions of all tables in one order of time, newest first: LAKE_HISTORY_SCHEMA, at most `limit`.

        Raises InvalidArgument for a `limit` that is no whole number from 0, and what reading logs raises.

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
        """Make `tables`, by default all that there were, again what they were at the instant `as_of`, all at once.

        `as_of` as the method of that name takes it. One transaction: every table gets a new version with one timestamp,
        or none does. What was committed since stays in the histories; tables that are newer are left alone. Where
        others are in the way it is done again, up to `retries` times. `ignore_missing_files`: also where files of then
        were vacuumed; None: as `spark.sql.files.ignoreMissingFiles` says. `user_metadata`: a text for the histories,
        `user_name`: who did it; None: as the session says. The answer has one row a table: LAKE_RESTORE_RESULT.
        Raises TableNotFound, TimestampOutOfRange, DataFileNotFound, InvalidArgument and what every transaction raises:
        no table is changed then.

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
        """Make `tables`, by default all that there were, as they were at the instant `as_of`, tables of the lake `to`.

        `as_of` as the method of that name takes it. `to` is an open lake, or the root of a new one. Nothing is copied:
        the clones name the files of this lake's tables where they are, and are written to on their own. They are
        read unless the setting `spark.slackwater.allowPathsOutsideRoot` is false. VACUUM here deletes what only they
        still need. One table follows the other, and an error names those that are made by then. `user_metadata`: a
        text for the histories, `user_name`: who did it; None: as the session says. The answer has one row a table:
        LAKE_CLONE_RESULT. Raises TableNotFound, TableAlreadyExists, TimestampOutOfRange, InvalidArgument.

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

    def backfill(self, name: str) -> int:
        """Put all commits of the table `name` into `_delta_log`; the newest version there.

        Where it lasts, it shows that it goes on. Raises TableNotFound, and StorageError where a commit cannot be put
        there.

        >>> lake.backfill("stock")
        1
        """
        with Progress.during(self._running_session(), "BACKFILL", f"putting commits of {name} into its log"):
            return super().backfill(name)

    def repair(self, name: str | None = None) -> list[str]:
        """Finish what was cut short with the table `name`, or with all (None): what was done, in words.

        Promises and releases are carried out or forgotten, commits of dead processes dropped, ratified ones backfilled,
        staged files without a record deleted after a time of grace, foreign commits reported. For all, transactions
        over several lakes that are in doubt are settled too, as far as these lakes are open here. Where it lasts, it
        shows that it goes on. Raises TableNotFound, StorageError.

        >>> lake.repair("orders")  # all is well
        []
        """
        with Progress.during(self._running_session(), "REPAIR", f"looking at {name or 'all tables'}"):
            return super().repair(name)

    def attach(self, spark: SparkSession | None = None, name: str = "lake") -> Self:
        """Let `name` stand for this lake in the session's SQL and names: `lake.flights`, `USE lake`; itself.

        `spark` is by default the lake's session. Raises InvalidArgument for a name that stands for another lake.

        >>> attached = lake.attach(spark)
        >>> spark.sql("SELECT qty FROM lake.stock").first().qty
        10
        >>> lake.detach(spark)
        """
        attach(spark or self._session(), self, name)
        return self

    def detach(self, spark: SparkSession | None = None) -> None:
        """Forget its names in the session `spark`, by default the lake's.

        Raises OperationNotAllowed while a transaction that SQL began is open there.

        >>> shop = lake.attach(spark, "shop")
        >>> spark.table("shop.stock").columns
        ['sku', 'qty']
        >>> lake.detach(spark)
        """
        detach(spark or self._session(), self)

    def close(self) -> None:
        """Backfill what this process committed, and let go of the owner and its tables.

        Sessions forget its names, and transactions that SQL began are rolled back. What the lake is asked for
        afterwards raises InvalidArgument.

        >>> opened = slackwater.Lake.open(path, spark=spark)
        >>> opened.close()
        >>> repr(opened).endswith("(closed)>")
        True
        """
        try:
            forget(self)
        finally:
            super().close()

    def _opened_beside(self, root: str | os.PathLike[str]) -> LogLake:
        return type(self).open(root, storage_options=self._storage_options, spark=self._session())

    def _follows_outside(self) -> bool:
        session = self._spark or SparkSession.getActiveSession()
        return session is None or stores.follows_outside(session)

    def _options_at(self, location: str | os.PathLike[str]) -> Mapping[str, str]:
        session = self._spark or SparkSession.getActiveSession()
        known = {} if session is None else stores.storage_options(session, str(location))
        return merged_options(known, self._storage_options)

    def _known_session(self) -> SparkSession | None:
        return self._spark or SparkSession.getActiveSession()

    def _running_session(self) -> SparkSession | None:
        """The session that shows the progress of work that needs no Spark; None once it was stopped."""
        session = self._known_session()
        return None if session is None or is_stopped(session) else session

    def _session(self) -> SparkSession:
        session = self._known_session()
        if session is None:
            raise InvalidArgument("there is no active Spark session: give the lake one, with spark=")
        require_running(session)
        return session


def _schema(given: spark_types.StructType | StructType | str) -> StructType:
    if isinstance(given, StructType):
        return given
    parsed = parsed_columns(given) if isinstance(given, str) else given
    if not isinstance(parsed, spark_types.StructType):
        raise InvalidArgument(f"schema must be a StructType or DDL text, found {given!r}")
    return from_spark_schema(parsed)
