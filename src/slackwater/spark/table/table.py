"""`DeltaTable`, the API of one table, with delta-spark's names, arguments and results."""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import types as spark_types
from typing_extensions import Self

from slackwater.errors import InvalidArgument, SlackwaterError, TableNotFound
from slackwater.html.components import badge, card_or_reason
from slackwater.html.element import Markup
from slackwater.html.number_format import visible
from slackwater.html.redaction import without_secrets
from slackwater.lake.time_slice import Instant
from slackwater.log.files.segment import list_log, not_a_table
from slackwater.log.history import to_ms
from slackwater.log.table import Table
from slackwater.log.table_detail import describe_detail, describe_history
from slackwater.maintenance.clone import CloneResult
from slackwater.maintenance.truncate_history import truncate_history
from slackwater.protocol.actions.time_zones import time_zone
from slackwater.scan.snapshot import Snapshot
from slackwater.scan.snapshot_html import LAST_COMMITS, snapshot_card
from slackwater.spark.catalog.resolve import parts_of, path_in_text, require
from slackwater.spark.history.system_time import SystemTimeRelation
from slackwater.spark.maintenance.clone import clone_table
from slackwater.spark.maintenance.convert import convert_to_table
from slackwater.spark.progress.progress import Progress
from slackwater.spark.read.load import load_table
from slackwater.spark.session.argument_checks import require_timestamp, require_type
from slackwater.spark.session.enabled_sessions import require_running
from slackwater.spark.session.local_frame import result_frame
from slackwater.spark.session.reader_options import Options
from slackwater.spark.session.settings import SessionSettings, session_zone, with_machine_zone
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
"""The columns of `DeltaTable.detail`, with sizes in bytes."""


class DeltaTable(TableChanges, TableServices, TableAlterations):
    """A Delta table, returned by `forPath` or `forName`, or by the builders of `create` and related methods.

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
        return f"<{type(self).__name__} {self._told_place()}{self._brief()}{known}>"

    def _brief(self) -> str:
        """Return version and files of a table on a local disk. Nothing is read from stores and servers for a text."""
        owned = self._table.owned
        if self._table.store.local_root is None or (owned is not None and owned.owner.endpoint is not None):
            return ""
        try:
            return f": {self._snapshot().brief()}"
        except SlackwaterError:
            return ""

    def _repr_html_(self) -> str:
        kind = type(self).__name__
        return card_or_reason(kind, self._table.location, self._card)

    def _card(self) -> Markup:
        """Return the HTML of the table's state from one read of its log. No Spark job runs."""
        marks = [badge(f"AS {self._alias}")] if self._alias else []
        return snapshot_card(self._snapshot(), type(self).__name__, marks=marks, commits=LAST_COMMITS)

    def _told_place(self) -> str:
        return visible(without_secrets(self._table.location))

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[Self]:
        """Return a builder for a new table: `execute` raises TableAlreadyExists if the table exists.

        `sparkSession` is by default the active session. Raises InvalidArgument if there is none.

        >>> table = slackwater.DeltaTable.create(spark).location(path).addColumn("id", "BIGINT").execute()
        >>> table.toDF().columns
        ['id']
        """
        return DeltaTableBuilder(_session(sparkSession), CREATE, cls)

    @classmethod
    def createIfNotExists(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[Self]:
        """Return a builder with an `execute` that leaves an existing table unchanged. `sparkSession` as in `create`.

        Raises as `create`.

        >>> builder = slackwater.DeltaTable.createIfNotExists(spark).location(place).addColumn("id", "INT")
        >>> builder.execute().toDF().count()
        2
        """
        return DeltaTableBuilder(_session(sparkSession), CREATE_IF_NOT_EXISTS, cls)

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[Self]:
        """Return a builder for the replacement of a table: `execute` raises TableNotFound if there is no table.

        `sparkSession` as in `create`. Raises as `create`.

        >>> table = slackwater.DeltaTable.replace(spark).location(place).addColumn("day", "DATE").execute()
        >>> table.toDF().columns, table.toDF().count()
        (['day'], 0)
        """
        return DeltaTableBuilder(_session(sparkSession), REPLACE, cls)

    @classmethod
    def createOrReplace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[Self]:
        """Return a builder for a new table, or for the replacement of an existing one.

        `sparkSession` as in `create`. Raises as `create`.

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
        """Return the table at `path`, a directory or URL. The settings of `sparkSession` give access to its store.

        `hadoopConf`: settings of the store (`fs.…`), with precedence over the session's; `dfs.…` is accepted without
        effect. Raises TableNotFound, InvalidArgument for other keys.

        >>> slackwater.DeltaTable.forPath(spark, place).toDF().count()
        2
        """
        conf = dict(hadoopConf or {})
        wrong = [key for key in conf if not key.startswith(("fs.", "dfs."))]
        if wrong:
            raise InvalidArgument(
                f"hadoopConf keys must start with fs. or dfs., found {wrong}",
                error_class="DELTA_TABLE_FOR_PATH_UNSUPPORTED_HADOOP_CONF",
            )
        table = table_at(sparkSession, path, Options(conf))
        if list_log(table.store).latest_version is None:
            raise TableNotFound(not_a_table(table.store), error_class="DELTA_MISSING_DELTA_TABLE")
        return cls(sparkSession, table, conf)

    @classmethod
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:
        """Return the table with the SQL name `tableOrViewName` in `sparkSession`.

        The name is one of the session's catalog, ``delta.`/path` ``, or one of an attached lake. In the lake's open
        transaction, the table is that of the transaction. Raises TableNotFound, InvalidArgument for an invalid name.

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
        """Convert a directory of Parquet files to a table for `sparkSession`. `identifier` is ``parquet.`/path` ``.

        `partitionSchema`: the columns in its directory names, a StructType or its DDL text; None: there are none.
        Without `collect_stats` the files get no statistics. No process may write there during the conversion. An
        existing table stays unchanged. After one of these errors, nothing is written.

        Raises:
            InvalidArgument: If there is no Parquet file, if columns of files are incompatible, or if partitions differ
                from the requested ones.
            UnsupportedFeature: If tables do not support a column, or if `identifier` is a name in a catalog.
            ProtocolChangedException: If another process creates a table there concurrently.

        >>> spark.range(3).write.parquet(path)
        >>> slackwater.DeltaTable.convertToDelta(spark, f"parquet.`{path}`").toDF().count()
        3
        """
        return cls(sparkSession, convert_to_table(sparkSession, identifier, partitionSchema, collect_stats))

    @classmethod
    def isDeltaTable(cls, sparkSession: SparkSession, identifier: str) -> bool:
        """Return whether there is a Delta table at the path `identifier`, or called ``delta.`/path` ``.

        The settings of `sparkSession` give access to its store. Raises InvalidArgument for a path of an unknown store,
        StorageError.

        >>> slackwater.DeltaTable.isDeltaTable(spark, place), slackwater.DeltaTable.isDeltaTable(spark, path)
        (True, False)
        """
        table = table_at(sparkSession, path_in_text(identifier) or identifier)
        return list_log(table.store).latest_version is not None

    def alias(self, aliasName: str) -> DeltaTable:
        """Return the same table, with the alias `aliasName` for its `toDF`.

        >>> table.alias("t").toDF().select("t.v").columns
        ['v']
        """
        aliased = copy.copy(self)
        aliased._alias = aliasName
        return aliased

    def toDF(self, **options: Any) -> DataFrame:
        """Return the newest version of the table, read again at every call.

        `options` are those of `spark.read`, such as another version (`versionAsOf=3`). They take precedence over the
        options of `forPath`. Raises as `spark.read.format("delta").load`.

        >>> table.delete("id = 1")
        >>> table.toDF().count(), table.toDF(versionAsOf=0).count()
        (1, 2)
        """
        return self._framed(load_table(self._spark, self._table, {**self._options, **options}))

    def where(self, condition: str | Column, **options: Any) -> DataFrame:
        """Return the rows of `toDF` for which `condition`, SQL text or a Column, is true.

        Reads only files with possible matches. `options` as in `toDF`. Raises as `toDF`.

        >>> [row.v for row in table.where("id = 2").collect()]
        ['b']
        """
        return self.toDF(**options).where(condition)

    def history(self, limit: int | None = None) -> DataFrame:
        """Return the commits in the log, newest first: HISTORY_SCHEMA, at most `limit` rows; None: all.

        Raises InvalidArgument for a `limit` that is not a whole number from 0.

        >>> [(row.version, row.operation) for row in table.history(1).collect()]
        [(0, 'WRITE')]
        """
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
            raise InvalidArgument(f"limit must be a whole number from 0, found {limit!r}")
        records = describe_history(self._snapshot(), limit)
        return self._frame(records, HISTORY_SCHEMA, f"the history of {self._told_place()}", _SHOWN_OF_HISTORY)

    def system_time(self, since: Instant | None = None, rowTracking: bool = False) -> SystemTimeRelation:
        """Return the versions of the table's rows, with their times: `.as_of(t)`, `.from_to(a, b)`, `.changes(key)`.

        The table needs row tracking and in-commit timestamps. The versions start at `since`, or as early as rows can be
        traced. `rowTracking` adds `_row_id` and `_row_commit_version`. Instants have the forms of `Lake.as_of`. Raises
        InvalidArgument for a `since` that is not an instant.

        >>> versions = lake.table("stock").system_time(rowTracking=True).all()
        >>> [(row.sku, row.qty, row.system_end, row._row_id) for row in versions.collect()]
        [('A1', 10, None, 0)]
        """
        choice = Options(self._options).choice("allowPathsOutsideRoot")
        follows = self._table.follows_outside if choice is None else choice
        return SystemTimeRelation(self._spark, self._snapshot_for_rows, since, rowTracking, follows, self._told_place())

    def detail(self) -> DataFrame:
        """Describe the table in one row: DETAIL_SCHEMA, with sizes in bytes. Raises the errors of reading a log.

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
        """Create a separate table at `target`, an absolute path or URL, with the rows and the files of this one.

        No file is copied: `isShallow` must be true. Later writes to either table do not affect the other. `properties`
        take precedence over those of this table. With `replace` the clone replaces an existing table. Other readers
        need `allowPathsOutsideRoot`, an option and the setting `spark.slackwater.allowPathsOutsideRoot`, because the
        files are not below the clone's root. VACUUM of this table deletes files needed only by the clone.

        Raises:
            UnsupportedFeature: If the clone is deep, or `target` is a name in a catalog.
            TableAlreadyExists: If there is a table at `target`, without `replace`.
            InvalidArgument: If `target` has other files.

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
        """Clone the table in the state of `version`; `target`, `isShallow`, `replace`, `properties` as in `clone`.

        Raises as `clone`, VersionNotFound, DataFileNotFound if files of the version were vacuumed.

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
        """Clone the table in its state at `timestamp`, in a form of `timestampAsOf`.

        Without a zone, a text is in the session's zone, and a datetime in this machine's zone. `target`, `isShallow`,
        `replace`, `properties` as in `clone`. Raises as `cloneAtVersion`, TimestampOutOfRange.

        >>> then = table.history().selectExpr("string(timestamp)").first()[0]
        >>> table.setProperties({"team": "sales"})
        >>> table.cloneAtTimestamp(then, path, isShallow=True).detail().first().properties
        {}
        """
        require_timestamp(timestamp)
        moment = to_ms(with_machine_zone(timestamp), time_zone(session_zone(self._spark)))
        return self._cloned(self._snapshot_to_clone(timestamp=moment), target, isShallow, replace, properties)[0]

    def checkpoint(self) -> None:
        """Write a checkpoint of the newest version now, independent of `delta.checkpointInterval`.

        Raises StorageError, and the errors of reading a log.

        >>> from pathlib import Path
        >>> table.checkpoint()
        >>> [file.name for file in Path(place, "_delta_log").glob("*.parquet")]
        ['00000000000000000000.checkpoint.parquet']
        """
        with Progress.during(self._spark, "CHECKPOINT", "writing the newest version"):
            checkpoint_newest(self._snapshot_for_upkeep("a checkpoint"), Clock().now_ms())

    def compactLog(self, startVersion: int | None = None, endVersion: int | None = None) -> None:
        """Write one file for the commits from `startVersion` to `endVersion`, both inclusive. The commits stay.

        The default range is from the first commit after the newest checkpoint to the newest commit. Raises
        InvalidArgument for fewer than two versions, or if the log lacks a commit.

        >>> from pathlib import Path
        >>> table.setProperties({"team": "sales"})
        >>> table.compactLog(0, 1)
        >>> [file.name for file in Path(place, "_delta_log").glob("*.compacted.json")]
        ['00000000000000000000.00000000000000000001.compacted.json']
        """
        with Progress.during(self._spark, "LOG COMPACTION", "joining commits"):
            compact(self._snapshot_for_upkeep("log compaction"), startVersion, endVersion)

    def truncateHistory(self) -> int:
        """Delete the log before the newest version, regardless of age, and log this. Return the number of files.

        Time travel, restores and change feeds then start at that version. Raises OperationNotAllowed.

        >>> table.delete("id = 1")
        >>> table.truncateHistory() > 0
        True
        """
        self._snapshot_for_upkeep("the end of a history")
        settings = SessionSettings.of(self._spark)
        with Progress.during(self._spark, "TRUNCATE HISTORY", "deleting files of the log", settings.progress):
            return len(truncate_history(self._table, settings.user_metadata, user_name=settings.user_name))

    def cleanUpLog(self) -> int:
        """Delete log files older than `delta.logRetentionDuration` now. Return the number of deleted files.

        Raises StorageError, and the errors of reading a log.

        >>> table.cleanUpLog()
        0
        """
        with Progress.during(self._spark, "LOG CLEANUP", "deleting files of the log"):
            return len(clean_up(self._snapshot_for_upkeep("a cleanup of the log"), Clock().now_ms()).deleted)

    @property
    def _spark(self) -> SparkSession:
        """The session of the table. Raises InvalidArgument if the session was stopped."""
        require_running(self._given_spark)
        return self._given_spark

    def _framed(self, frame: DataFrame) -> DataFrame:
        """Return `frame` with the table's alias, if set."""
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
        """Return the snapshot for a clone: the current one, or that of a given version or timestamp."""
        if version is None and timestamp is None:
            return self._snapshot_for_rows()
        return Snapshot.open(self._snapshot_for_rows().table, version, timestamp)

    def _snapshot_for_upkeep(self, what: str) -> Snapshot:
        """Return the snapshot for `what`, an operation on the table's log. Overrides can reject the operation."""
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
        raise InvalidArgument("there is no active Spark session. Pass one")
    require_running(session)
    return session


def _value(value: Any, kind: spark_types.DataType) -> Any:
    if isinstance(kind, spark_types.StructType) and isinstance(value, Mapping):
        return tuple(None if value.get(f.name) is None else str(value[f.name]) for f in kind.fields)
    return value
