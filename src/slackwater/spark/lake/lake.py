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
from slackwater.lake.rerun import RETRIES, run_again
from slackwater.lake.time_slice import Instant
from slackwater.lake.transaction import LOCK_TIMEOUT_S, OPTIMISTIC, SERIALIZABLE
from slackwater.maintenance.clone import CloneResult
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.protocol.schema.schema import StructType
from slackwater.spark.catalog.attached import attach, detach, forget
from slackwater.spark.lake.time_slice import TimeSlice, history_frame
from slackwater.spark.lake.transaction import LakeTransaction
from slackwater.spark.services.restore import RESTORE_RESULT, ignores_missing_files
from slackwater.spark.session import stores
from slackwater.spark.session.defaults import SessionSettings, session_instant_ms
from slackwater.spark.session.given_rows import given_rows
from slackwater.spark.session.progress import Progress
from slackwater.spark.session.types import from_spark_schema
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
        """As `LogLake.open`, for the session `spark`, whose Hadoop settings reach the root's store as well.

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
        """As `LogLake.connect`, for the session `spark`.

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
        """As `LogLake.transaction`, for the session `spark`, by default the lake's.

        >>> with lake.transaction(spark) as tx:
        ...     tx.table("stock").update("sku = 'A1'", {"qty": "qty - 1"})
        >>> tx.versions
        {'stock': 2}
        """
        return LakeTransaction(self, spark or self._session(), isolation, control, writes, lock_timeout_s, others)

    def run(self, work: Callable[[LakeTransaction], T], retries: int = RETRIES, **options: Any) -> T:
        """As `LogLake.run`; `options` as `transaction`.

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
        """As `LogLake.as_of`, with tables to read.

        Text and dates that name no zone are of the session's; datetimes that name none, as PySpark gives them, of this
        machine's.

        >>> with lake.transaction(spark) as tx:
        ...     tx.table("stock").delete()
        >>> [lake.as_of(at).table("stock").toDF().count() for at in (tx.begun_at, tx.commit_timestamp)]
        [1, 0]
        """
        session = self._session()
        return TimeSlice(self, session, session_instant_ms(session, timestamp))

    def history(self, limit: int | None = None) -> DataFrame:  # type: ignore[override]  # as tables are DataFrames here
        """The transactions of all tables in one order of time, newest first: LAKE_HISTORY_SCHEMA, at most `limit`.

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
        """As `LogLake.restore`: one row a table, LAKE_RESTORE_RESULT.

        What the session says counts where nothing is said: `spark.sql.files.ignoreMissingFiles`, and the metadata of
        commits.

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
        return given_rows(session, rows, LAKE_RESTORE_RESULT)

    def clone(  # type: ignore[override]  # as answers are DataFrames here
        self,
        as_of: Instant,
        to: LogLake | str | os.PathLike[str],
        tables: Sequence[str] | None = None,
        *,
        user_metadata: str | None = None,
        user_name: str | None = None,
    ) -> DataFrame:
        """As `LogLake.clone`: one row a table, LAKE_CLONE_RESULT.

        The clones are read where the setting `spark.slackwater.allowPathsOutsideRoot` is true.

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
        return given_rows(session, rows, LAKE_CLONE_RESULT)

    def backfill(self, name: str) -> int:
        """As `LogLake.backfill`; where it lasts, it shows that it goes on.

        >>> lake.backfill("stock")
        1
        """
        with Progress.during(self._known_session(), "BACKFILL", f"putting commits of {name} into its log"):
            return super().backfill(name)

    def repair(self, name: str | None = None) -> list[str]:
        """As `LogLake.repair`; where it lasts, it shows that it goes on.

        >>> lake.repair("orders")  # all is well
        []
        """
        with Progress.during(self._known_session(), "REPAIR", f"looking at {name or 'all tables'}"):
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
        """As `LogLake.close`; sessions forget its names, and transactions that SQL began are rolled back.

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
        return session is not None and stores.follows_outside(session)

    def _options_at(self, location: str | os.PathLike[str]) -> Mapping[str, str]:
        session = self._spark or SparkSession.getActiveSession()
        known = {} if session is None else stores.storage_options(session, str(location))
        return merged_options(known, self._storage_options)

    def _known_session(self) -> SparkSession | None:
        return self._spark or SparkSession.getActiveSession()

    def _session(self) -> SparkSession:
        session = self._known_session()
        if session is None:
            raise InvalidArgument("there is no active Spark session: give the lake one, with spark=")
        return session


def _schema(given: spark_types.StructType | StructType | str) -> StructType:
    if isinstance(given, StructType):
        return given
    parsed = spark_types.StructType.fromDDL(given) if isinstance(given, str) else given
    if not isinstance(parsed, spark_types.StructType):
        raise InvalidArgument(f"schema must be a StructType or DDL text, found {given!r}")
    return from_spark_schema(parsed)
