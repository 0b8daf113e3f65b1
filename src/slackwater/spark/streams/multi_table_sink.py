"""A stream into several tables of a lake. Each micro-batch is one transaction: all of its tables commit, or none.

The commits of a batch record the query's progress in each table (`txn`), ratified together with the rows. A repeated
batch finds this record and is skipped. The batch's time is its commit timestamp.

Source: delta-protocol.md "Transaction Identifiers"; paper §3 (deferring timestamp choice); docs/guarantees.md.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from slackwater.errors import CommitError, InvalidArgument
from slackwater.html.components import badge, card, card_or_reason, code, facts, settings
from slackwater.html.element import Markup, element
from slackwater.lake.retry import RETRIES
from slackwater.lake.transaction import LOCKING
from slackwater.spark.lake.lake import Lake
from slackwater.spark.lake.transaction import LakeTransaction
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.session.reader_options import Options
from slackwater.spark.session.settings import SessionSettings
from slackwater.spark.streams.apply_changes import KeyedChanges
from slackwater.spark.streams.connect_foreach_batch import remote_batch_writer
from slackwater.spark.streams.server_python import require_server_python
from slackwater.spark.streams.sink import CHECKPOINT, checkpoint_of, drain_batch, query_id

_log = logging.getLogger(__name__)
OPERATION = "STREAMING UPDATE"
FREE_RETRIES = 3
"""The number of retries of a micro-batch before it locks the tables that it reads and writes."""

TableFunction = Callable[..., DataFrame | None]
"""A function of a batch for a table: `f(batch)` returns rows to append, `f(batch, tx)` can do more with the
transaction.
"""


def stream(frame: DataFrame) -> Stream:
    """Return the stream `frame` for writes to several tables: `slackwater.stream(df).to(lake, {...}).start()`.

    Raises InvalidArgument for a frame that is not streaming.

    >>> orders = spark.readStream.format("delta").load(flights)
    >>> def count(batch, tx):
    ...     return batch.groupBy("carrier").count().withColumn("at", F.lit(tx.current_timestamp()))
    >>> tables = {"orders": lambda batch: batch, "counts": count}
    """
    if not getattr(frame, "isStreaming", False):
        raise InvalidArgument(
            "slackwater.stream expected the frame of a stream, as from spark.readStream, found "
            f"{type(frame).__name__}{'' if not isinstance(frame, DataFrame) else ' without a stream'}"
        )
    return Stream(frame)


@dataclass(frozen=True)
class Stream:
    """A streaming frame, to write to tables."""

    frame: DataFrame

    def __repr__(self) -> str:
        return "<Stream: .to(lake, {name: function}) says into which tables>"

    def to(self, lake: Lake, tables: Mapping[str, TableFunction]) -> LakeStreamWriter:
        """Return a writer of each micro-batch to the `tables` of the `lake` in one transaction, not started yet.

        Each table has a function. A function of one argument, the batch, returns the rows to append. A function of two,
        the batch and the transaction, can read and change any table of the lake. Its result, if any, is appended to its
        own table. The functions run in their order, and see the changes of earlier functions. They run again if the
        transaction is retried: three times optimistically, then under locks that block other writers. Raises
        TableNotFound, InvalidArgument.
        """
        if not isinstance(lake, Lake):
            raise InvalidArgument(f"Stream.to expected a slackwater.Lake, found {type(lake).__name__}")
        if not isinstance(tables, Mapping) or not tables:
            raise InvalidArgument("Stream.to expected a function for each table name, as in {'orders': lambda b: b}")
        for name in tables:
            lake.location(name)
        return LakeStreamWriter(self.frame, lake, {name: _meaning(name, f) for name, f in tables.items()})


@dataclass(frozen=True)
class LakeStreamWriter:
    """A stream into tables of a lake, not started yet. Its methods are those of PySpark's DataStreamWriter."""

    frame: DataFrame
    lake: Lake
    tables: Mapping[str, _BatchFunction]
    given: Mapping[str, Any] = field(default_factory=dict)
    mode: str = "append"
    name: str | None = None
    triggers: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} into {', '.join(self.tables)} of {self.lake!r}: not started>"

    def _repr_html_(self) -> str:
        return card_or_reason(type(self).__name__, ", ".join(self.tables), self._card)

    def _card(self) -> Markup:
        told = {**self.triggers, **self.given}
        return card(
            type(self).__name__,
            self.name or "a stream without a name",
            element("p", "into ", *(part for name in self.tables for part in (code(name), " ")), f"of {self.lake!r}"),
            facts({"output mode": self.mode}),
            settings({key: str(value) for key, value in told.items()}) if told else None,
            badges=[badge("not started", "warn")],
            note="start() gives the running query; each micro-batch is one transaction in all of the tables.",
        )

    def option(self, key: str, value: Any) -> LakeStreamWriter:
        """Set one option.

        `checkpointLocation` is for the query; `mergeSchema`, `userMetadata`, `userName` are for the appends.
        """
        return self.options(**{key: value})

    def options(self, **options: Any) -> LakeStreamWriter:
        """Set several options, see `option`."""
        return replace(self, given={**self.given, **options})

    def outputMode(self, outputMode: str) -> LakeStreamWriter:
        """Set `append`, `update` or `complete`: the rows of an aggregation in a batch."""
        return replace(self, mode=outputMode)

    def queryName(self, queryName: str) -> LakeStreamWriter:
        """Set the name of the query in `spark.streams`."""
        return replace(self, name=queryName)

    def trigger(self, **trigger: Any) -> LakeStreamWriter:
        """Set the trigger of batches: `availableNow=True`, `processingTime="10 seconds"`, `once=True`."""
        return replace(self, triggers=trigger)

    def start(self) -> Any:
        """Start the query. Return its StreamingQuery.

        Raises InvalidArgument if neither `checkpointLocation` nor the session sets a checkpoint, UnsupportedFeature if
        a Connect server lacks Slackwater.
        """
        given = Options(self.given)
        checkpoint = checkpoint_of(self.frame.sparkSession, given, self.name)
        appending = {key: given[key] for key in given if key.lower() != CHECKPOINT.lower()}
        batches = _BatchWriter(self.lake, self.tables, checkpoint, appending, self.mode)
        plain = self.frame.writeStream.outputMode(self.mode).option(CHECKPOINT, checkpoint)
        if self.name is not None:
            plain = plain.queryName(self.name)
        if self.triggers:
            plain = plain.trigger(**self.triggers)
        connect = is_connect(self.frame.sparkSession)
        if connect:
            require_server_python(self.frame.sparkSession)
        return plain.foreachBatch(remote_batch_writer(batches.on) if connect else batches.write).start()


@dataclass(frozen=True)
class _BatchWriter:
    """Writer of the micro-batches of one query."""

    lake: Lake
    tables: Mapping[str, _BatchFunction]
    checkpoint: str
    options: Mapping[str, Any]
    output_mode: str

    def on(self, spark: SparkSession) -> _BatchWriter:  # noqa: ARG002  (unpickling opens the lake there)
        """Return the same writer in another process."""
        return self

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Commit a batch to all tables, unless already committed."""
        spark = frame.sparkSession
        app_id = query_id(spark, self.checkpoint)
        # Persist the batch, because several functions read it and must read the same rows.
        several = len(self.tables) > 1
        batch = frame.persist() if several else frame
        try:
            transaction = self._committed(batch, batch_id, app_id)
        finally:
            if several:
                batch.unpersist()
        if transaction is None:
            _log.info("%s: batch %d of query %s is already in the tables and was skipped", self, batch_id, app_id)
            drain_batch(frame)
        else:
            told = transaction.commit_timestamp.isoformat()
            _log.info("%s: batch %d of query %s was committed at %s", self, batch_id, app_id, told)

    def __str__(self) -> str:
        return ", ".join(self.tables)

    def _committed(self, batch: DataFrame, batch_id: int, app_id: str) -> LakeTransaction | None:
        """Return the transaction of the batch, None if an earlier transaction committed the batch."""

        def work(transaction: LakeTransaction) -> LakeTransaction | None:
            return transaction if self._apply(transaction, batch, batch_id, app_id) else None

        spark = batch.sparkSession
        try:
            return self.lake.run(work, FREE_RETRIES, spark=spark)
        except CommitError as error:
            if not error.retryable:
                raise
            # A query that reads a table of another query can conflict with each batch of the other query.
            _log.info("%s: batch %d of query %s is retried under locks: %s", self, batch_id, app_id, error)
            return self.lake.run(work, RETRIES, spark=spark, control=LOCKING, writes=list(self.tables))

    def _apply(self, transaction: LakeTransaction, batch: DataFrame, batch_id: int, app_id: str) -> bool:
        """Apply the batch in the transaction. Return False if one table, and therefore each table, has the batch."""
        progress = {name: transaction.log(name).application_version(app_id) for name in self.tables}
        if any(version is not None and version >= batch_id for version in progress.values()):
            return False
        for name, meaning in self.tables.items():
            table = transaction.table(name)
            rows = meaning.rows(name, batch, transaction)
            if rows is not None:
                table.append(rows, **self.options)
        who = Options(self.options).get("userName", SessionSettings.of(batch.sparkSession).user_name)
        parameters = {"outputMode": self.output_mode.capitalize(), "queryId": app_id, "epochId": str(batch_id)}
        for name in dict.fromkeys([*self.tables, *transaction.written]):
            transaction.writing(name).record_progress(app_id, batch_id, OPERATION, parameters, who)
        return True


@dataclass(frozen=True)
class _BatchFunction:
    """A function of a batch for a table, with or without the transaction."""

    function: TableFunction
    takes_transaction: bool

    def rows(self, name: str, batch: DataFrame, transaction: LakeTransaction) -> DataFrame | None:
        """Return the rows to append to the table `name`, None if the function wrote all changes itself."""
        rows = self.function(batch, transaction) if self.takes_transaction else self.function(batch)
        if rows is None and not self.takes_transaction:
            raise InvalidArgument(f"the function for the table {name} must return the rows to append, found None")
        if rows is not None and not isinstance(rows, DataFrame):
            raise InvalidArgument(
                f"the function for the table {name} must return a DataFrame, found {type(rows).__name__}"
            )
        return rows


def _meaning(name: str, function: Any) -> _BatchFunction:
    """Return a function for `Stream.to`. Raises InvalidArgument unless it takes the batch, or batch and transaction."""
    if isinstance(function, KeyedChanges):
        return _BatchFunction(function.to(name), takes_transaction=True)
    if not callable(function):
        raise InvalidArgument(f"expected a function for the table {name}, found {type(function).__name__}")
    wanted = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.default is parameter.empty
    ]
    if len(wanted) not in (1, 2):
        raise InvalidArgument(
            f"the function for the table {name} must take the batch, or the batch and the transaction, found "
            f"{len(wanted)} arguments"
        )
    return _BatchFunction(function, takes_transaction=len(wanted) == 2)
