"""One change of rows of a table: what it reads, the files that it writes and removes, and its commit.

Source: delta-protocol.md "Add File and Remove File", "Add CDC File", "Deletion Vectors", "Row Tracking".
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.errors import (
    CommitUnknown,
    DeltaConcurrentModificationException,
    InvalidArgument,
    SlackwaterError,
    TableNotFound,
)
from slackwater.log.file_actions import ADD_SCHEMA
from slackwater.log.segment import not_a_table
from slackwater.log.table import Table
from slackwater.predicate.predicate import Predicate, not_true
from slackwater.protocol.actions.files import AddCDCFile, num_records_of
from slackwater.protocol.features import row_tracking
from slackwater.protocol.features.table_features import validate_writable
from slackwater.protocol.schema.schema import StructType
from slackwater.protocol.table_configuration import TableConfiguration
from slackwater.scan.file_changes import CHANGE_TYPE
from slackwater.scan.file_pruning import prune
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.read.row_addresses import AddressedRows, located_schema
from slackwater.spark.read.table_scan import ScanOptions, TableScan
from slackwater.spark.session.classic_connect import empty_frame, release_checkpoint
from slackwater.spark.session.settings import SessionSettings
from slackwater.spark.session.temporary_settings import with_settings
from slackwater.spark.write.table_writer import TableWriter, WriteResult
from slackwater.sql.lexer import quoted
from slackwater.transaction.clock import Clock
from slackwater.transaction.commit_result import CommitResult
from slackwater.transaction.commit_validation import validate_not_append_only
from slackwater.transaction.conflicts.row_reads import RowsRead
from slackwater.transaction.factory import begin
from slackwater.transaction.rows.file_action_rows import as_removes
from slackwater.transaction.rows.row_deletion import RowDeletion

SCAN_MS, REWRITE_MS, MATERIALIZE_MS = "scanTimeMs", "rewriteTimeMs", "materializeSourceTimeMs"
"""Operation metrics: how long rows were looked for, files were written, the source of a MERGE was read."""
_TIMES_OF = {
    "DELETE": (SCAN_MS, REWRITE_MS),
    "UPDATE": (SCAN_MS, REWRITE_MS),
    "MERGE": (SCAN_MS, REWRITE_MS, MATERIALIZE_MS),
}
INSERT, DELETE = "insert", "delete"
UPDATE_PREIMAGE, UPDATE_POSTIMAGE = "update_preimage", "update_postimage"
_CLOCK = Clock()
_log = logging.getLogger(__name__)
_ONLY_TARGET = "__slackwater_target"
# Spark derives constraints from all pairs of computed columns, and a plan that only writes rows needs none of them.
_MANY_COLUMNS, _PLANS_OF_MANY = 100, {"spark.sql.constraintPropagation.enabled": "false"}


@dataclass(frozen=True)
class PendingWrite:
    """What writes files, and how many rows they are to hold; None where that is not known."""

    write: Callable[[], WriteResult]
    num_rows: int | None


@dataclass(frozen=True)
class DmlResult:
    """What a DELETE or UPDATE did: its commit, None where it found no row, and how many rows, None where not known."""

    commit: CommitResult | None
    num_rows: int | None


class DmlCommand:
    """A DELETE, UPDATE or MERGE on the newest version of `table`.

    Rows go by `way`, as `choose_transport` takes it. Files that are written are taken away again unless the commit
    landed or may have landed. Raises TableNotFound, and UnsupportedFeature for a table that cannot be written.
    """

    is_by_application = True
    """Whether an application that says how far it is does it once."""
    tells_time = True
    """Whether the operation metrics have times, as those of delta-spark's operation do."""

    def __init__(
        self,
        spark: SparkSession,
        table: Table,
        operation: str,
        alias: str | None = None,
        settings: SessionSettings | None = None,
        way: str | None = None,
    ) -> None:
        try:
            snapshot = Snapshot.open(table)
        except TableNotFound as error:
            raise TableNotFound(not_a_table(table.store), error_class="DELTA_MISSING_DELTA_TABLE") from error
        validate_writable(snapshot.protocol, table.root_url)
        self.settings = settings or SessionSettings.of(spark)
        self.is_skipped = False
        self._taken_s = dict.fromkeys(_TIMES_OF.get(operation, ()), 0.0)
        self._application = self.settings.application if self.is_by_application else None
        self.spark = spark
        self.snapshot = snapshot
        self.operation = operation
        self.alias = alias or _ONLY_TARGET
        self.is_tracked = row_tracking.is_enabled(snapshot.configuration)
        self.scan = TableScan(spark, snapshot, ScanOptions(row_tracking=self.is_tracked, rows=way))
        self.transaction = begin(snapshot, zone=self.scan.zone)
        self.rows = TableWriter(table, snapshot.configuration, dict(snapshot.domain_metadata), way)
        self.vectors = RowDeletion(0, 0, 0, 0, 0, 0)
        self.kept: list[DataFrame] = []
        self.infers_conditions = False
        self._written: list[WriteResult] = []
        self._keeping = threading.Lock()
        self._started_s = time.monotonic()

    @property
    def others_rows(self) -> ScanOptions:
        """How rows are read that other writers added meanwhile."""
        return ScanOptions(rows=self.scan.options.rows)

    @property
    def makes_vectors(self) -> bool:
        """Whether rows are deleted by deletion vectors, rather than by rewriting their files."""
        return self.snapshot.configuration.is_active("deletionVectors")

    @property
    def makes_feed(self) -> bool:
        """Whether the change is recorded in change data files."""
        return self.snapshot.configuration.is_active("changeDataFeed")

    @property
    def schema(self) -> StructType:
        """The table's schema after the change."""
        return self.rows.schema

    def evolve(self, table: TableConfiguration) -> None:
        """Rows are written for, and the commit sets, this protocol and metadata."""
        self.rows = replace(self.rows, configuration=table)

    def require_removal_allowed(self) -> None:
        """Raise OperationNotAllowed where the table is append-only."""
        validate_not_append_only(self.snapshot.configuration)

    def nothing(self) -> DataFrame:
        """A frame without rows in which conditions on the table can be looked at by Spark."""
        schema = located_schema(self.snapshot.schema.fields, self.is_tracked)
        return empty_frame(self.spark, schema).alias(self.alias)

    def candidates(self, predicate: Predicate) -> pa.Table:
        """The live files that may hold a match for `predicate`, all columns of ADD_SCHEMA."""
        return self.snapshot.files(predicate, ADD_SCHEMA.names, self.scan.zone)

    def decided(self, files: pa.Table, predicate: Predicate) -> tuple[pa.Table, pa.Table]:
        """Those of `files` of which every row makes `predicate` true, by proof, and the others."""
        snapshot = self.snapshot
        others = prune(
            files,
            not_true(predicate),
            snapshot.schema,
            snapshot.metadata.partition_columns,
            snapshot.physical_paths,
            zone=self.scan.zone,
        )
        is_other = pc.is_in(files["path"], value_set=others["path"].combine_chunks())
        return files.filter(pc.invert(is_other)), others

    def located(self, files: pa.Table, predicate: Predicate | None = None) -> AddressedRows:
        """The live rows of `files` with their addresses; with `predicate`, some that cannot match may be missing."""
        return self.scan.located(files, predicate)

    def target(self, located: AddressedRows | DataFrame) -> DataFrame:
        """Rows of the table under its alias, as users' expressions name them."""
        return (located.frame if isinstance(located, AddressedRows) else located).alias(self.alias)

    def column(self, name: str) -> Column:
        """The present value of a top-level column, in a frame that has the target under its alias."""
        return F.col(f"{quoted(self.alias)}.{quoted(name)}")

    # What is written.

    def write_changed(
        self,
        frame: DataFrame,
        changed: Column | None = None,
        recomputed: Mapping[str, Column] | None = None,
        change_type: Column | None = None,
    ) -> WriteResult:
        """Write rows, of which some are `changed`, to new files; with `change_type` these are change data files too."""
        frame, hidden = self.rows.with_kept_ids(frame)
        if change_type is not None:
            frame, hidden = frame.withColumn(CHANGE_TYPE, change_type), [*hidden, CHANGE_TYPE]
        with self._planned():
            written = self.rows.write_changed(frame, changed, recomputed, hidden)
        return self.keep(written, both_roles=change_type is not None)

    def copy(self, frame: DataFrame) -> WriteResult:
        """Write rows that stay unchanged to new files."""
        frame, hidden = self.rows.with_kept_ids(frame)
        with self._planned():
            return self.keep(self.rows.rewrite(frame, {}, hidden=hidden))

    def insert(
        self, frame: DataFrame, change_type: str | None = None, parquet: Mapping[str, str] | None = None
    ) -> WriteResult:
        """Write new rows, completed and checked as those of any write; `parquet` are options of the files' writer."""
        with self._planned():
            written = self.rows.write(frame, parquet or {}, change_type=change_type)
        return self.keep(written, both_roles=change_type is not None)

    def record_changes(self, frame: DataFrame, change_type: str | None) -> WriteResult:
        """Write rows as change data files; without `change_type` they bring their own."""
        with self._planned():
            return self.keep(self.rows.write_changes(frame, change_type, {}))

    def _planned(self) -> AbstractContextManager[None]:
        """Within the block, frames are planned that write rows of the table.

        While `infers_conditions`, a frame reads tables of the user that Spark may prune by conditions that it infers.
        """
        is_light = len(self.schema) < _MANY_COLUMNS or self.infers_conditions
        return with_settings(self.spark, {} if is_light else _PLANS_OF_MANY)

    def at_once(self, works: Sequence[PendingWrite]) -> list[WriteResult]:
        """Do works that each write files, side by side: one fills the gaps that another's last tasks leave.

        All have ended when this returns, or raises what the first of them raised. Raises InvalidArgument for a number
        of rows that is not the expected one.

        In a partitioned table one follows the other: when the first fails, the others would leave empty directories.
        """
        if len(works) < 2 or self.snapshot.metadata.partition_columns:
            written = [work.write() for work in works]
        else:
            with ThreadPoolExecutor(len(works)) as pool:
                written = [future.result() for future in [pool.submit(work.write) for work in works]]
        for work, rows in zip(works, written, strict=True):
            self.require_rows(work.num_rows, rows.num_rows)
        return written

    def keep(self, written: WriteResult, both_roles: bool = False) -> WriteResult:
        """Stage files that were written; they go again where the change fails."""
        with self._keeping:
            self._written.append(written)
            self.transaction.add(written.adds, fresh=True)
            self.transaction.add_change_files(written.change_files)
            if both_roles:
                # What holds nothing but changed rows, each with its type, may be both. Source: "Add CDC File".
                self.transaction.add_change_files(AddCDCFile(a.path, a.partition_values, a.size) for a in written.adds)
        return written

    # What goes.

    def remove(self, files: pa.Table) -> None:
        """Remove whole files."""
        self.transaction.remove(as_removes(files, _CLOCK.now_ms()))

    def delete_rows(self, files: pa.Table, rows: Mapping[str, BitMap64]) -> None:
        """Mark rows of `files` as deleted, by path; a file that has none left is removed."""
        self.vectors = self.transaction.delete_rows(files, rows)

    # The end.

    def read(self, predicate: Predicate, found: RowsRead) -> None:
        """Declare what the change was decided by."""
        self.transaction.read_where(predicate, found)

    def require_rows(self, expected: int | None, written: int) -> None:
        """Raise InvalidArgument where as many rows as were found were not written: none is lost or doubled."""
        if expected is not None and written != expected:
            raise InvalidArgument(
                f"{self.snapshot.store.root_url}: {self.operation} found {expected} rows to write, and wrote "
                f"{written}: its conditions or its source changed while it ran, so nothing was committed: repeat it on "
                "data that stays the same"
            )

    @contextmanager
    def timed(self, metric: str) -> Iterator[None]:
        """Add the time of the block to `metric`, an operation metric in ms; not for operations that have no such."""
        began_s = time.monotonic()
        try:
            yield
        finally:
            if metric in self._taken_s:
                self._taken_s[metric] += time.monotonic() - began_s

    def _times(self) -> dict[str, int]:
        """The operation metrics of time, in ms."""
        if not self.tells_time:
            return {}
        taken_s = {"executionTimeMs": time.monotonic() - self._started_s, **self._taken_s}
        return {name: round(seconds * 1000) for name, seconds in taken_s.items()}

    def run_counted(self, work: Callable[[], tuple[Mapping[str, str], Mapping[str, int], int | None]]) -> DmlResult:
        """As `run`, of work that answers also how many rows it changed."""
        counted: list[int | None] = [0]

        def told() -> tuple[Mapping[str, str], Mapping[str, int]]:
            parameters, metrics, counted[0] = work()
            return parameters, metrics

        return DmlResult(self.run(told), counted[0])

    def run(self, work: Callable[[], tuple[Mapping[str, str], Mapping[str, int]]]) -> CommitResult | None:
        """Do the work, which answers the operation's parameters and metrics, and commit it.

        None where nothing was to be done, and where the session's application has done this before: then it
        `is_skipped`. Files go again where the commit certainly did not land; frames that are `kept` are let go in any
        case.
        """
        try:
            self.is_skipped = self._is_done(self.snapshot)
            if self.is_skipped:
                self._log_skipped(self.snapshot)
            result = None if self.is_skipped else self._run(work)
        finally:
            for frame in self.kept:
                release_checkpoint(frame)
        if self.is_by_application:
            self.settings.application_was_used(self.spark)
        return result

    def _is_done(self, snapshot: Snapshot) -> bool:
        return self._application is not None and self._application.is_reached(snapshot)

    def _log_skipped(self, snapshot: Snapshot) -> None:
        if self._application is not None:
            where, app = snapshot.table.root_url, self._application
            why = f"application {app.app_id!r} has done its write {app.version} before"
            _log.info("%s: this %s changes nothing, as of version %d: %s", where, self.operation, snapshot.version, why)

    def _run(self, work: Callable[[], tuple[Mapping[str, str], Mapping[str, int]]]) -> CommitResult | None:
        try:
            parameters, metrics = work()
            self._stage_table()
        except BaseException:
            self._discard()
            raise
        if self._application is not None:
            # Recorded where no row changed, too: done again later, it might find some.
            self.transaction.application_version(self._application.app_id)
            self.transaction.set_transaction(self._application.app_id, self._application.version)
        staged = self.transaction.staged
        if not (staged.has_file_actions or staged.metadata or staged.protocol or staged.transactions):
            return None
        texts = {key: str(value) for key, value in {**metrics, **self._times()}.items()}
        try:
            said = self.settings
            return self.transaction.commit(
                self.operation, parameters, texts, said.user_metadata, user_name=said.user_name
            )
        except CommitUnknown:
            raise
        except SlackwaterError as error:
            self._discard()
            lost = isinstance(error, DeltaConcurrentModificationException)
            # Where another did this very work, there is nothing left to be done.
            newest = self.snapshot.update() if lost and self._application is not None else self.snapshot
            self.is_skipped = lost and self._is_done(newest)
            if not self.is_skipped:
                raise
            self._log_skipped(newest)
            return None

    def _stage_table(self) -> None:
        """What the change does to the table itself: evolved columns, identity columns that moved on."""
        metadata = next((rows.metadata for rows in self._written if rows.metadata is not None), self.rows.metadata)
        if metadata != self.snapshot.metadata:
            self.transaction.set_metadata(metadata)
        if self.rows.configuration.protocol != self.snapshot.protocol:
            self.transaction.set_protocol(self.rows.configuration.protocol)

    def _discard(self) -> None:
        for rows in self._written:
            rows.files.discard()
        self.transaction.discard_vectors()


def record_counts(files: pa.Table) -> dict[str, int | None]:
    """The live rows of each of `files` by path, None where the log does not say."""
    columns = zip(*(files[name].to_pylist() for name in ("path", "stats", "deletionVector")), strict=True)
    counts: dict[str, int | None] = {}
    for path, stats, vector in columns:
        physical = num_records_of(stats)
        counts[path] = None if physical is None else physical - (vector["cardinality"] if vector else 0)
    return counts


def rows_left(files: pa.Table, taken: Mapping[str, int | None]) -> int | None:
    """The live rows of `files` but those that are `taken`, by path; None where the log does not say."""
    return total(None if n is None else n - (taken[path] or 0) for path, n in record_counts(files).items())


def total(counts: Iterable[int | None]) -> int | None:
    """The sum, None where one of `counts` is not known."""
    found = list(counts)
    return None if None in found else sum(count or 0 for count in found)


def files_of(files: pa.Table, paths: Collection[str]) -> pa.Table:
    """Those of `files` whose path is one of `paths`."""
    return files.filter(pc.is_in(files["path"], value_set=pa.array(list(paths), pa.string())))
