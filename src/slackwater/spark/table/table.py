"""`DeltaTable`: the table as an object, with delta-spark's names, arguments and results."""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import types as spark_types
from typing_extensions import Self

from slackwater.errors import InvalidArgument, TableNotFound
from slackwater.html.components import badge, card_or_reason
from slackwater.html.element import Markup
from slackwater.html.number_format import visible
from slackwater.html.redaction import without_secrets
from slackwater.lake.time_slice import Instant
from slackwater.log.history import to_ms
from slackwater.log.segment import list_log, not_a_table
from slackwater.log.table import Table
from slackwater.log.table_detail import describe_detail, describe_history
from slackwater.maintenance.clone import CloneResult
from slackwater.maintenance.truncate_history import truncate_history
from slackwater.protocol.actions.time_zones import time_zone
from slackwater.scan.snapshot import Snapshot
from slackwater.scan.snapshot_html import LAST_COMMITS, snapshot_card
from slackwater.spark.catalog.resolve import parts_of, require
from slackwater.spark.history.system_time import SystemTimeRelation
from slackwater.spark.maintenance.clone import clone_table
from slackwater.spark.maintenance.convert import convert_to_table
from slackwater.spark.progress.progress import Progress
from slackwater.spark.read.load import load_table
from slackwater.spark.session.argument_checks import require_timestamp, require_type
from slackwater.spark.session.enabled_sessions import require_running
from slackwater.spark.session.identifiers import path_in_text
from slackwater.spark.session.local_frame import result_frame
from slackwater.spark.session.reader_options import Options
from slackwater.spark.session.settings import SessionSettings, session_zone
from slackwater.spark.storage.stores import table_at
from slackwater.spark.table.alter import TableAlterations
from slackwater.spark.table.builder import (
    CREATE,
    CREATE_IF_NOT_EXISTS,
    CREATE_OR_REPLACE,
    REPLACE,
    DeltaTableBuilder,
)
from slackwater.spark.table.changes import TableChanges
from slackwater.spark.table.services import TableServices
from slackwater.transaction.clock import Clock
from slackwater.transaction.committers.factory import require_not_past_transaction
from slackwater.transaction.log_maintenance import checkpoint_newest, clean_up, compact

_TEXTS = spark_types.MapType(spark_types.StringType(), spark_types.StringType())
_NAMES = spark_types.ArrayType(spark_types.StringType())
_JOB = spark_types.StructType()
for _name in ("jobId", "jobName", "jobRunId", "runId", "jobOwnerId", "triggerType"):
    _JOB = _JOB.add(_name, "string")

HISTORY_SCHEMA = (
    spark_types.StructType()
    .add("version", "long")
    .add("timestamp", "timestamp")
    .add("userId", "string")
    .add("userName", "string")
    .add("operation", "string")
    .add("operationParameters", _TEXTS)
    .add("job", _JOB)
    .add("notebook", spark_types.StructType().add("notebookId", "string"))
    .add("clusterId", "string")
    .add("readVersion", "long")
    .add("isolationLevel", "string")
    .add("isBlindAppend", "boolean")
    .add("operationMetrics", _TEXTS)
    .add("userMetadata", "string")
    .add("engineInfo", "string")
)
"""The columns of `DeltaTable.history`."""
_SHOWN_OF_HISTORY = (
    "version",
    "timestamp",
    "operation",
    "operationMetrics",
    "operationParameters",
    "userName",
    "userMetadata",
)

DETAIL_SCHEMA = (
    spark_types.StructType()
    .add("format", "string")
    .add("id", "string")
    .add("name", "string")
    .add("description", "string")
    .add("location", "string")
    .add("createdAt", "timestamp")
    .add("lastModified", "timestamp")
    .add("partitionColumns", _NAMES)
    .add("clusteringColumns", _NAMES)
    .add("numFiles", "long")
    .add("sizeInBytes", "long")
    .add("properties", _TEXTS)
    .add("minReaderVersion", "integer")
    .add("minWriterVersion", "integer")
    .add("tableFeatures", _NAMES)
)
"""The columns of `DeltaTable.detail`; sizes in bytes."""


class DeltaTable(TableChanges, TableServices, TableAlterations):
    """A Delta table; made by `forPath` or `forName`, or by the builders that `create` and its kin give.

    >>> spark.range(4).write.format("delta").save(path)
    >>> table = slackwater.DeltaTable.forPath(spark, path)
    >>> table.delete("id = 0")
    >>> table.update("id = 1", {"id": "id + 10"})
    >>> sorted(row.id for row in table.toDF().collect())
    [2, 3, 11]
    >>> [(row.version, row.operation) for row in table.history().collect()]
    [(2, 'UPDATE'), (1, 'DELETE'), (0, 'WRITE')]
    """

    def __init__(self, spark: SparkSession, table: Table, options: Mapping[str, Any] | None = None) -> None:
        self._given_spark = spark
        self._table = table
        self._options = dict(options or {})
        self._alias: str | None = None

    def __repr__(self) -> str:
        known = f" AS {self._alias}" if self._alias else ""
        return f"<{type(self).__name__} {self._told_place()}{known}>"

    def _repr_html_(self) -> str:
        kind = type(self).__name__
        return card_or_reason(kind, self._table.location, self._card)

    def _card(self) -> Markup:
        """The table now, from one look at its log; no Spark job runs."""
        marks = [badge(f"AS {self._alias}")] if self._alias else []
        return snapshot_card(self._snapshot(), type(self).__name__, marks=marks, commits=LAST_COMMITS)

    def _told_place(self) -> str:
        return visible(without_secrets(self._table.location))

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[Self]:
        """A builder for a table that is not there yet: `execute` raises TableAlreadyExists where it is.

        `sparkSession` is by default the active session. Raises InvalidArgument where there is none.

        >>> table = slackwater.DeltaTable.create(spark).location(path).addColumn("id", "BIGINT").execute()
        >>> table.toDF().columns
        ['id']
        """
        return DeltaTableBuilder(_session(sparkSession), CREATE, cls)

    @classmethod
    def createIfNotExists(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[Self]:
        """A builder whose `execute` does not change a table that is there; `sparkSession` as in `create`.

        Raises as `create`.

        >>> builder = slackwater.DeltaTable.createIfNotExists(spark).location(place).addColumn("id", "INT")
        >>> builder.execute().toDF().count()
        2
        """
        return DeltaTableBuilder(_session(sparkSession), CREATE_IF_NOT_EXISTS, cls)

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[Self]:
        """A builder for what takes a table's place: `execute` raises TableNotFound where there is none.

        `sparkSession` as in `create`. Raises as that does.

        >>> table = slackwater.DeltaTable.replace(spark).location(place).addColumn("day", "DATE").execute()
        >>> table.toDF().columns, table.toDF().count()
        (['day'], 0)
        """
        return DeltaTableBuilder(_session(sparkSession), REPLACE, cls)

    @classmethod
    def createOrReplace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[Self]:
        """A builder for a table that is new, or takes the place of the one that is there.

        `sparkSession` as in `create`. Raises as that does.

        >>> slackwater.DeltaTable.createOrReplace(spark).location(path).addColumn("id", "INT").execute().toDF().columns
        ['id']
        """
        return DeltaTableBuilder(_session(sparkSession), CREATE_OR_REPLACE, cls)

    @classmethod
    def forPath(
        cls,
        sparkSession: SparkSession,
        path: str,
        hadoopConf: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """The table at `path`, a directory or URL, for `sparkSession`, whose settings reach its store.

        `hadoopConf`: settings of the store (`fs.…`) that go before the session's; `dfs.…` is let pass and has no
        effect. Raises TableNotFound, InvalidArgument for other keys.

        >>> slackwater.DeltaTable.forPath(spark, place).toDF().count()
        2
        """
        conf = dict(hadoopConf or {})
        wrong = [key for key in conf if not key.startswith(("fs.", "dfs."))]
        if wrong:
            raise InvalidArgument(
                f"hadoopConf takes keys that start with fs. or dfs., found {wrong}",
                error_class="DELTA_TABLE_FOR_PATH_UNSUPPORTED_HADOOP_CONF",
            )
        table = table_at(sparkSession, path, Options(conf))
        if list_log(table.store).latest_version is None:
            raise TableNotFound(not_a_table(table.store), error_class="DELTA_MISSING_DELTA_TABLE")
        return cls(sparkSession, table, conf)

    @classmethod
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:
        """The table that `tableOrViewName` names for `sparkSession`, a name as in SQL.

        It is one of the session's catalog, ``delta.`/path` ``, or one of a lake that is attached: within its open
        transaction, that of the transaction. Raises TableNotFound, InvalidArgument for what is no name.

        >>> slackwater.DeltaTable.forName(spark, f"delta.`{place}`").toDF().count()
        2
        """
        place = require(sparkSession, parts_of(tableOrViewName))
        if place.in_lake is not None:
            found: DeltaTable = place.in_lake.table()
            return found
        return cls.forPath(sparkSession, place.location)

    @classmethod
    def convertToDelta(
        cls,
        sparkSession: SparkSession,
        identifier: str,
        partitionSchema: str | spark_types.StructType | None = None,
        *,
        collect_stats: bool = True,
    ) -> DeltaTable:
        """Make a directory of Parquet files a table for `sparkSession`; `identifier` is ``parquet.`/path` ``.

        `partitionSchema`: the columns that its directories name, a StructType or its DDL text; None: they name none.
        Without `collect_stats` the files get no statistics. No process may write there meanwhile. A table stays
        unchanged.

        Raises InvalidArgument where there is no Parquet file, for files whose columns do not fit together, and for
        partitions other than asked for; UnsupportedFeature for columns that a table cannot have and names in a catalog;
        ProtocolChangedException where somebody else makes it a table meanwhile. Nothing is written then.

        >>> spark.range(3).write.parquet(path)
        >>> slackwater.DeltaTable.convertToDelta(spark, f"parquet.`{path}`").toDF().count()
        3
        """
        return cls(sparkSession, convert_to_table(sparkSession, identifier, partitionSchema, collect_stats))

    @classmethod
    def isDeltaTable(cls, sparkSession: SparkSession, identifier: str) -> bool:
        """Say whether there is a Delta table at the path `identifier`, or called ``delta.`/path` ``.

        The settings of `sparkSession` reach its store. Raises InvalidArgument for a place of no store that is known,
        StorageError.

        >>> slackwater.DeltaTable.isDeltaTable(spark, place), slackwater.DeltaTable.isDeltaTable(spark, path)
        (True, False)
        """
        table = table_at(sparkSession, path_in_text(identifier) or identifier)
        return list_log(table.store).latest_version is not None

    def alias(self, aliasName: str) -> DeltaTable:
        """The same table, whose `toDF` is known as `aliasName`.

        >>> table.alias("t").toDF().select("t.v").columns
        ['v']
        """
        aliased = copy.copy(self)
        aliased._alias = aliasName
        return aliased

    def toDF(self, **options: Any) -> DataFrame:
        """The newest version of the table, read anew at every call; or what `options` ask for (`versionAsOf=3`).

        `options` are those of `spark.read`, which go before those that the table was found with. Raises as
        `spark.read.format("delta").load`.

        >>> table.delete("id = 1")
        >>> table.toDF().count(), table.toDF(versionAsOf=0).count()
        (1, 2)
        """
        return self._framed(load_table(self._spark, self._table, {**self._options, **options}))

    def where(self, condition: str | Column, **options: Any) -> DataFrame:
        """The rows of `toDF` for which `condition`, SQL text or a Column, is true; reads what may have such rows.

        `options` as in `toDF`. Raises as that does.

        >>> [row.v for row in table.where("id = 2").collect()]
        ['b']
        """
        return self.toDF(**options).where(condition)

    def history(self, limit: int | None = None) -> DataFrame:
        """The commits that the log holds, newest first: HISTORY_SCHEMA, at most `limit` rows; None: all.

        Raises InvalidArgument for a `limit` that is no whole number from 0.

        >>> [(row.version, row.operation) for row in table.history(1).collect()]
        [(0, 'WRITE')]
        """
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
            raise InvalidArgument(f"limit must be a whole number from 0, found {limit!r}")
        records = describe_history(self._snapshot(), limit)
        return self._frame(records, HISTORY_SCHEMA, f"the history of {self._told_place()}", _SHOWN_OF_HISTORY)

    def system_time(self, since: Instant | None = None, rowTracking: bool = False) -> SystemTimeRelation:
        """The versions of the table's rows, with when each was current: `.as_of(t)`, `.from_to(a, b)`, `.changes(key)`.

        It is of a table with row tracking and in-commit timestamps, from `since` on, or as far back as rows can be
        followed; `rowTracking` adds `_row_id` and `_row_commit_version`. Instants are as `Lake.as_of` takes them.
        Raises InvalidArgument for a `since` that is no instant.

        >>> versions = lake.table("stock").system_time(rowTracking=True).all()
        >>> [(row.sku, row.qty, row.system_end, row._row_id) for row in versions.collect()]
        [('A1', 10, None, 0)]
        """
        choice = Options(self._options).choice("allowPathsOutsideRoot")
        follows = self._table.follows_outside if choice is None else choice
        return SystemTimeRelation(self._spark, self._snapshot_for_rows, since, rowTracking, follows, self._told_place())

    def detail(self) -> DataFrame:
        """Describe the table by one row: DETAIL_SCHEMA; sizes in bytes. Raises what reading a log raises.

        >>> table.detail().first().numFiles
        1
        """
        return self._described(describe_detail(self._snapshot()))

    def clone(
        self,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """A table of its own at `target`, an absolute path or URL, that has the rows of this one, by its files.

        Nothing is copied: `isShallow` must be true. What is written to either is not seen by the other. `properties` go
        before those of this table. With `replace` a table that is there becomes the clone. Others read it with
        `allowPathsOutsideRoot`, an option and the setting `spark.slackwater.allowPathsOutsideRoot`: its files are not
        below its root. VACUUM of this table deletes what only the clone still needs. Raises UnsupportedFeature,
        TableAlreadyExists, InvalidArgument for a place with other files.

        >>> trial = table.clone(path, isShallow=True)
        >>> trial.delete("id = 1")
        >>> trial.toDF().count(), table.toDF().count()
        (1, 2)
        """
        return self._cloned(self._snapshot_to_clone(), target, isShallow, replace, properties)[0]

    def cloneAtVersion(
        self,
        version: int,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Clone the table as it was in `version`; `target`, `isShallow`, `replace`, `properties` as in `clone`.

        Raises as `clone`, VersionNotFound, DataFileNotFound where files of then were vacuumed.

        >>> table.delete("id = 1")
        >>> table.cloneAtVersion(0, path, isShallow=True).toDF().count()
        2
        """
        require_type("version", version, int)
        return self._cloned(self._snapshot_to_clone(version=version), target, isShallow, replace, properties)[0]

    def cloneAtTimestamp(
        self,
        timestamp: str | dt.datetime,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Clone the table as it was at `timestamp`, as `timestampAsOf` takes it.

        A datetime without a zone, as a text without one, is in the session's time zone.
        `target`, `isShallow`, `replace`, `properties` as in `clone`. Raises as `cloneAtVersion`, TimestampOutOfRange.

        >>> then = table.history().selectExpr("string(timestamp)").first()[0]
        >>> table.setProperties({"team": "sales"})
        >>> table.cloneAtTimestamp(then, path, isShallow=True).detail().first().properties
        {}
        """
        require_timestamp(timestamp)
        moment = to_ms(timestamp, time_zone(session_zone(self._spark)))
        return self._cloned(self._snapshot_to_clone(timestamp=moment), target, isShallow, replace, properties)[0]

    def checkpoint(self) -> None:
        """Write a checkpoint of the newest version now, rather than when `delta.checkpointInterval` asks for it.

        Raises StorageError, and what reading a log raises.

        >>> from pathlib import Path
        >>> table.checkpoint()
        >>> [file.name for file in Path(place, "_delta_log").glob("*.parquet")]
        ['00000000000000000000.checkpoint.parquet']
        """
        with Progress.during(self._spark, "CHECKPOINT", "writing the newest version"):
            checkpoint_newest(self._snapshot_for_upkeep("a checkpoint"), Clock().now_ms())

    def compactLog(self, startVersion: int | None = None, endVersion: int | None = None) -> None:
        """Write one file for the commits from `startVersion` to `endVersion`, both included, which stay.

        By default from the first one after the newest checkpoint, and to the newest one in the log.

        Raises InvalidArgument where that is fewer than two versions, or the log lacks a commit.

        >>> from pathlib import Path
        >>> table.setProperties({"team": "sales"})
        >>> table.compactLog(0, 1)
        >>> [file.name for file in Path(place, "_delta_log").glob("*.compacted.json")]
        ['00000000000000000000.00000000000000000001.compacted.json']
        """
        with Progress.during(self._spark, "LOG COMPACTION", "joining commits"):
            compact(self._snapshot_for_upkeep("log compaction"), startVersion, endVersion)

    def truncateHistory(self) -> int:
        """Delete all of the log before the newest version, whatever its age, and tell so; how many files went.

        Time travel, restores and change feeds begin with that version from now on. Raises OperationNotAllowed.

        >>> table.delete("id = 1")
        >>> table.truncateHistory() > 0
        True
        """
        self._snapshot_for_upkeep("the end of a history")
        settings = SessionSettings.of(self._spark)
        with Progress.during(self._spark, "TRUNCATE HISTORY", "deleting files of the log", settings.progress):
            return len(truncate_history(self._table, settings.user_metadata, user_name=settings.user_name))

    def cleanUpLog(self) -> int:
        """Delete what of the log is older than `delta.logRetentionDuration`, now; how many files went.

        Raises StorageError, and what reading a log raises.

        >>> table.cleanUpLog()
        0
        """
        with Progress.during(self._spark, "LOG CLEANUP", "deleting files of the log"):
            return len(clean_up(self._snapshot_for_upkeep("a cleanup of the log"), Clock().now_ms()).deleted)

    @property
    def _spark(self) -> SparkSession:
        """The session of the table. Raises InvalidArgument where it was stopped."""
        require_running(self._given_spark)
        return self._given_spark

    def _framed(self, frame: DataFrame) -> DataFrame:
        """`frame`, known by the table's alias where it has one."""
        return frame.alias(self._alias) if self._alias else frame

    def _snapshot(self) -> Snapshot:
        return Snapshot.open(self._table)

    def _snapshot_for_rows(self) -> Snapshot:
        snapshot = self._snapshot()
        require_not_past_transaction(snapshot)
        return snapshot

    def _cloned(
        self, source: Snapshot, target: str, is_shallow: bool, is_replaced: bool, properties: Mapping[str, str] | None
    ) -> tuple[DeltaTable, CloneResult]:
        options = {key: value for key, value in self._options.items() if key.lower().startswith("fs.")}
        clone, result = clone_table(self._spark, source, target, is_shallow, is_replaced, properties)
        return DeltaTable(self._spark, clone, options), result

    def _snapshot_to_clone(self, version: int | None = None, timestamp: int | None = None) -> Snapshot:
        """The snapshot that a clone is made of: the current one, unless another version is named."""
        if version is None and timestamp is None:
            return self._snapshot_for_rows()
        return Snapshot.open(self._snapshot_for_rows().table, version, timestamp)

    def _snapshot_for_upkeep(self, what: str) -> Snapshot:
        """The table for `what` is done to its log; not every view of a table lets that happen."""
        del what
        return self._snapshot()

    def _described(self, record: dict[str, Any]) -> DataFrame:
        return self._frame([record], DETAIL_SCHEMA, f"the detail of {self._told_place()}")

    def _frame(
        self,
        records: list[dict[str, Any]],
        schema: spark_types.StructType,
        what: str,
        shown: Sequence[str] | None = None,
    ) -> DataFrame:
        rows = [tuple(_value(record.get(f.name), f.dataType) for f in schema.fields) for record in records]
        return result_frame(self._spark, rows, schema, what, shown)


def _session(given: SparkSession | None) -> SparkSession:
    session = given or SparkSession.getActiveSession()
    if session is None:
        raise InvalidArgument("there is no active Spark session: give one")
    require_running(session)
    return session


def _value(value: Any, kind: spark_types.DataType) -> Any:
    if isinstance(kind, spark_types.StructType) and isinstance(value, Mapping):
        return tuple(None if value.get(f.name) is None else str(value[f.name]) for f in kind.fields)
    return value
