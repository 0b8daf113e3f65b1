"""A streaming query without Spark: what Spark does with a source and a sink of this package, step by step.

It runs in a process of its own, and may be killed at a point on its way. The package's own source plans and reads its
batches, and its own transactions write them; only the loop between them is a model.
Source: Spark's MicroBatchExecution, HDFSMetadataLog, OffsetSeqLog and CommitLog.
"""

from __future__ import annotations

import io
import json
import os
import signal
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.data_files.reader import ReadProjection
from slackwater.lake.lake import LogLake
from slackwater.lake.transaction import LogTransaction
from slackwater.owner.commit import ratification
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.protocol.actions.files import AddFile
from slackwater.scan.file_changes import CHANGE_TYPE, COMMIT_VERSION
from slackwater.scan.snapshot import Snapshot
from slackwater.storage import open_store
from slackwater.storage.local_store import LocalObjectStore
from slackwater.storage.store import ObjectStore
from slackwater.streams.checkpoint import read_checkpoint
from slackwater.streams.file_tasks import read_task
from slackwater.streams.offsets import SourceOffset
from slackwater.streams.options import StreamOptions
from slackwater.streams.source import TableSource
from slackwater.streams.stream_planner import StreamReadSpec, plan_tasks
from slackwater.transaction.table.public_transaction import Transaction
from tests.faults.dying_owner import Point, die_at, opened, processes

APPENDED, FEED = "appended rows", "change feed"
TABLE, LAKE = "one table", "several tables"
ROWS, TOTALS = "rows", "totals"
OPERATION = "STREAMING UPDATE"
OPTIONS = {APPENDED: StreamOptions(skip_change_commits=True), FEED: StreamOptions(change_feed=True)}
MOST_FILES = 2
COLUMNS = pa.schema({"id": pa.int64(), "v": pa.int64()})
_CHANGES = pa.schema({CHANGE_TYPE: pa.string(), COMMIT_VERSION: pa.int64()})


class Checkpoint:
    """The checkpoint of the query, whose files become visible whole, and are never written twice."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = open_store(str(root))
        if not (root / "metadata").exists():
            self._put("metadata", json.dumps({"id": str(uuid.uuid4())}))

    def plan(self, number: int, end: SourceOffset) -> None:
        """A batch is to be done, up to `end`: from now on no start does another one in its place."""
        self._put(f"offsets/{number}", "v1", '{"batchWatermarkMs":0,"batchTimestampMs":0}', json.dumps(end.to_json()))

    def finish(self, number: int) -> None:
        """A batch is done."""
        self._put(f"commits/{number}", "v1", "{}")

    def _put(self, path: str, *lines: str) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        staged = place.with_name(f".{place.name}.{uuid.uuid4()}.tmp")
        staged.write_text("\n".join(lines), encoding="utf-8")
        os.link(staged, place)
        staged.unlink()


class Sink(ABC):
    """Where the batches of the query `app_id` go."""

    def __init__(self, app_id: str) -> None:
        self.app_id = app_id

    @abstractmethod
    def write(self, batch: int, rows: pa.Table) -> None:
        """Let the batch be there, once."""


class TableSink(Sink):
    """One table."""

    def __init__(self, app_id: str, path: Path) -> None:
        super().__init__(app_id)
        self.path = path

    def write(self, batch: int, rows: pa.Table) -> None:
        transaction = Transaction(self.path)
        done = transaction.application_version(self.app_id)
        if done is not None and done >= batch:
            return
        transaction.add(*_two_files(transaction, _numbered(batch, rows)), fresh=True)
        transaction.set_transaction(self.app_id, batch)
        transaction.commit(OPERATION)


class LakeSink(Sink):
    """Two tables of a lake: the rows, and how many of them each batch has, with its time."""

    def __init__(self, app_id: str, lake: LogLake) -> None:
        super().__init__(app_id)
        self.lake = lake

    def write(self, batch: int, rows: pa.Table) -> None:
        self.lake.run(lambda transaction: self._apply(transaction, batch, rows))

    def _apply(self, transaction: LogTransaction, batch: int, rows: pa.Table) -> None:
        done = [transaction.log(name).application_version(self.app_id) for name in (ROWS, TOTALS)]
        if any(version is not None and version >= batch for version in done):
            return
        self._append(transaction, ROWS, batch, rows)
        at = pa.array([transaction.current_timestamp()], pa.timestamp("us", "UTC"))
        self._append(transaction, TOTALS, batch, pa.table({"n": [rows.num_rows], "at": at}))
        for name in (ROWS, TOTALS):
            told = transaction.log(name)
            told.set_transaction(self.app_id, batch)
            told.commit(OPERATION)

    @staticmethod
    def _append(transaction: LogTransaction, name: str, batch: int, rows: pa.Table) -> None:
        log = transaction.log(name)
        log.add(*_two_files(log, _numbered(batch, rows)), fresh=True)
        log.commit("WRITE")


class ModelQuery:
    """The query; `run` begins where its checkpoint says."""

    def __init__(self, checkpoint: Checkpoint, source: Path, kind: str, sink: Sink) -> None:
        snapshot = Snapshot.load(source)
        names = _CHANGES.names if kind == FEED else []
        wanted = ReadProjection(COLUMNS, constants=_CHANGES if kind == FEED else pa.schema([]))
        constants = dict(zip(names, names, strict=True))
        self._checkpoint, self._sink = checkpoint, sink
        self._read = StreamReadSpec(
            snapshot.table, snapshot.configuration, snapshot.version, OPTIONS[kind], wanted, constants
        )

    def run(self) -> None:
        """Do what was begun, then what is there now."""
        source = self._read.source()
        source.stop_at_newest()
        state = read_checkpoint(self._checkpoint.store)
        at = source.first() if state.done is None else _end(state.done)
        number = state.next_batch
        if state.repeats is not None:
            at = self._do(source, number, at, _end(state.planned))
            number += 1
        while (end := source.latest(at, MOST_FILES, None)) != at:
            self._checkpoint.plan(number, end)
            at = self._do(source, number, at, end)
            number += 1

    def _do(self, source: TableSource, number: int, start: SourceOffset, end: SourceOffset) -> SourceOffset:
        self._sink.write(number, self._rows(source, start, end))
        self._checkpoint.finish(number)
        source.committed(end)
        return end

    def _rows(self, source: TableSource, start: SourceOffset, end: SourceOffset) -> pa.Table:
        read = self._read
        batches = (
            batch
            for task in plan_tasks(read, source, start, end)
            for batch in read_task(read.table.store, read.wanted, task)
        )
        return pa.Table.from_batches(batches, read.wanted.schema)


_BEFORE_THE_SINK = {
    "planned, not in the checkpoint": Point(Checkpoint, "plan", afterwards=False),
    "its offsets written, not yet visible": Point(os, "link", "/offsets/", afterwards=False),
    "its offsets in the checkpoint": Point(Checkpoint, "plan"),
    "its rows read": Point(ModelQuery, "_rows"),
    "one of its files written": Point(LocalObjectStore, "put", "part-"),
}
_BEHIND_THE_SINK = {
    "in the sink, not in the checkpoint": Point(Checkpoint, "finish", afterwards=False),
    "its end written, not yet visible": Point(os, "link", "/commits/", afterwards=False),
    "its end in the checkpoint": Point(Checkpoint, "finish"),
}
POINTS: dict[str, dict[str, Point]] = {
    TABLE: {
        **_BEFORE_THE_SINK,
        "all files written, nothing committed": Point(LocalObjectStore, "put_if_absent", ".json", afterwards=False),
        "the commit written, not yet visible": Point(os, "link", ".json", afterwards=False),
        "committed, not answered": Point(LocalObjectStore, "put_if_absent", ".json"),
        **_BEHIND_THE_SINK,
    },
    LAKE: {
        **_BEFORE_THE_SINK,
        "the files of one table written": Point(LogTransaction, "current_timestamp", afterwards=False),
        "all files written, nothing committed": Point(EmbeddedOwner, "commit_transaction", afterwards=False),
        "one of two commits staged": Point(LocalObjectStore, "put_if_absent", ".json"),
        "ratified, its database transaction open": Point(ratification, "ratify"),
        "committed, not answered": Point(LogTransaction, "_committed"),
        **_BEHIND_THE_SINK,
    },
}
"""Where death comes, in the order of one batch, by where it is written to."""
UNPLANNED = {"planned, not in the checkpoint", "its offsets written, not yet visible", "its end in the checkpoint"}
"""Behind these the next start plans a batch; behind the others it does the one that was planned."""
LANDED = {"committed, not answered", "in the sink, not in the checkpoint", "its end written, not yet visible"}
"""Behind these the batch that the next start does is in the sink already."""


def lake_at(root: Path) -> LogLake:
    """The lake of the sinks."""
    return opened(root / "lake", f"sqlite:///{root}/owner.db")


def kill_at(root: Path, kind: str, into: str, point: str, survived: int) -> None:
    """Start the query in another process, which dies at a point of POINTS, of the batch after `survived` others."""
    _start(-signal.SIGKILL, root, kind, into, point, survived)


def let_run(root: Path, kind: str, into: str) -> None:
    """Start the query in another process, to the end of what there is."""
    _start(0, root, kind, into)


def _start(expected: int, *arguments: Any) -> None:
    child = processes.Process(target=_run, args=arguments)
    child.start()
    child.join()
    assert child.exitcode == expected, f"it ended with {child.exitcode}"
    child.close()


def _run(root: Path, kind: str, into: str, point: str | None = None, survived: int = 0) -> None:
    with ExitStack() as stack:
        checkpoint = Checkpoint(root / "check")
        app_id = read_checkpoint(checkpoint.store).query_id
        sink: Sink = (
            TableSink(app_id, root / "sink") if into == TABLE else LakeSink(app_id, stack.enter_context(lake_at(root)))
        )
        query = ModelQuery(checkpoint, root / "source", kind, sink)
        if point is not None:
            die_at(replace(POINTS[into][point], survived=survived))
        query.run()


def put_file(store: ObjectStore, rows: pa.Table, name: str = "part", data_change: bool = True) -> AddFile:
    """Write a file of `rows`, to be added."""
    path, data = f"{name}-{uuid.uuid4()}.parquet", io.BytesIO()
    pq.write_table(rows, data)
    store.put(path, data.getvalue())
    told = json.dumps({"numRecords": rows.num_rows})
    return AddFile(path, {}, data.tell(), 0, data_change, told)


def _two_files(transaction: Transaction, rows: pa.Table) -> Sequence[AddFile]:
    store, half = transaction._inner.store, rows.num_rows // 2
    return [put_file(store, part) for part in (rows.slice(0, half), rows.slice(half)) if part.num_rows]


def _numbered(batch: int, rows: pa.Table) -> pa.Table:
    return rows.add_column(0, "batch", pa.array([batch] * rows.num_rows, pa.int64()))


def _end(batch: Any) -> SourceOffset:
    (progress,) = batch.sources
    assert progress.offset is not None, progress
    offset: SourceOffset = progress.offset
    return offset
