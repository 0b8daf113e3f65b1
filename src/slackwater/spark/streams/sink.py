"""The target table of a streaming query. Each micro-batch is exactly one commit, despite failures.

A query has its id in its checkpoint. The commit of a batch records the query's progress (`txn`), so a repeated batch is
skipped. A batch is repeated after a restart, or after an error between commit and checkpoint. The check also covers two
queries with one checkpoint by mistake, and batches written by another engine.

Source: delta-protocol.md "Transaction Identifiers"; delta-spark's DeltaSink.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from slackwater.errors import InvalidArgument, SlackwaterError
from slackwater.log.history import CommitHistory
from slackwater.log.table import Table
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.session.reader_options import Options
from slackwater.spark.session.settings import SessionSettings
from slackwater.spark.storage.locations import escaped_path
from slackwater.spark.write.options import MicroBatch, WriteOptions, of_micro_batch, stream_options
from slackwater.spark.writer.save import save_micro_batch, validate_save
from slackwater.transaction.commit_result import CommitResult

CHECKPOINT = "checkpointLocation"
"""The option for the location of a query's checkpoint."""

_log = logging.getLogger(__name__)
_CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
# Spark's local property with the query id of the thread's batch.
_QUERY_ID = "sql.streaming.queryId"


@dataclass(frozen=True)
class SinkRequest:
    """The write request of a query."""

    output_mode: str
    options: Mapping[str, Any]
    checkpoint: str
    partition_by: Sequence[str] = ()
    cluster_by: Sequence[str] = ()

    def write_options(self, settings: SessionSettings) -> WriteOptions:
        """Return `stream_options` for a session with these `settings`. Raises InvalidArgument."""
        return stream_options(settings, self.output_mode, self.options, self.partition_by, self.cluster_by)


class StreamSink:
    """The sink of one running query. `write` is the function for `foreachBatch`.

    Settings of the session are read once, at the start of the query.
    """

    def __init__(self, spark: SparkSession, table: Table, request: SinkRequest) -> None:
        self._table = table
        self._checkpoint = request.checkpoint
        self._settings = SessionSettings.of(spark)
        self._request = request.write_options(self._settings)
        self._query_id: str | None = None

    def validate(self, frame: DataFrame) -> None:
        """Check columns, partitioning and options without a write. Raises like the first batch."""
        validate_save(frame, self._table, self._request, self._settings)

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Commit the rows of a batch, unless the log has them. Raises as `save`."""
        if self._query_id is None:
            self._query_id = query_id(frame.sparkSession, self._checkpoint)
        batch = MicroBatch(self._query_id, batch_id)
        began_s = time.monotonic()
        result = save_micro_batch(frame, self._table, of_micro_batch(self._request, batch), self._settings)
        if result is None:
            _log.info(
                "%s: batch %d of query %s is already in the table and was skipped",
                self._table.root_url,
                batch_id,
                self._query_id,
            )
            drain_batch(frame)
        elif _log.isEnabledFor(logging.INFO):
            _log.info(
                "%s: batch %d of query %s was committed as version %d, %s rows, %d ms",
                self._table.root_url,
                batch_id,
                self._query_id,
                result.version,
                _written_rows(result),
                (time.monotonic() - began_s) * 1000,
            )


def checkpoint_of(spark: SparkSession, options: Mapping[str, Any], query_name: str | None) -> str:
    """Return the location of a query's checkpoint, from `options` or the session.

    Raises InvalidArgument if neither sets the location.
    """
    told = Options(options).get(CHECKPOINT)
    if told:
        return told
    root = spark.conf.get(_CHECKPOINTS, None)
    if not root:
        raise InvalidArgument(
            "the stream has no checkpoint location, so a batch that is sent again is not recognized. Set "
            f'option("{CHECKPOINT}", path), or the setting {_CHECKPOINTS}'
        )
    return f"{root.rstrip('/')}/{query_name or uuid.uuid4()}"


def drain_batch(frame: DataFrame) -> None:
    """Read a skipped batch, because this commits the state that Spark stores for the query."""
    frame.write.format("noop").mode("overwrite").save()


def _written_rows(result: CommitResult) -> str:
    """Return the number of written rows in the commit's metrics, or "unknown"."""
    try:
        listing = result.table.list_log(result.version)
        actions = CommitHistory(result.store, listing, result.snapshot.configuration).actions(result.version)
    except SlackwaterError:
        # The commit is valid, and a log message must not fail the query.
        return "unknown"
    metrics = (action["commitInfo"].get("operationMetrics") for action in actions if "commitInfo" in action)
    return str((next(metrics, None) or {}).get("numOutputRows", "unknown"))


def query_id(spark: SparkSession, checkpoint: str) -> str:
    """Return the id of the current batch's query, stored in its `checkpoint`."""
    if not is_connect(spark):
        told = spark.sparkContext.getLocalProperty(_QUERY_ID)
        if told:
            return str(told)
    # Read through Spark, because Spark has access to its own checkpoint in any store.
    reader = spark.read.format("text").option("wholetext", "true")
    (row,) = reader.load(escaped_path(checkpoint.rstrip("/") + "/metadata")).collect()
    return str(json.loads(row[0])["id"])
