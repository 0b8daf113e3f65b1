"""Change of a table's rows: its reads, the files written and removed, and the commit.

Source: delta-protocol.md "Add File and Remove File", "Add CDC File", "Deletion Vectors", "Row Tracking".
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from slackwater.log.files.file_actions import ADD_SCHEMA
from slackwater.log.files.segment import not_a_table
from slackwater.log.table import Table
from slackwater.predicate.predicate import Predicate, not_true
from slackwater.protocol.actions.files import AddCDCFile
from slackwater.protocol.features import row_tracking
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.schema.schema import StructType
from slackwater.scan.file_changes import CHANGE_TYPE
from slackwater.scan.pruning.file_pruning import prune
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.read.metadata_column import ROW_COMMIT_VERSION, ROW_ID
from slackwater.spark.read.row_addresses import AddressedRows, located_schema, with_metadata
from slackwater.spark.read.table_scan import ScanOptions, TableScan
from slackwater.spark.session.frames import empty_frame, release_checkpoint
from slackwater.spark.session.settings import SessionSettings
from slackwater.spark.session.temporary_settings import with_settings
from slackwater.spark.write.table_writer import TableWriter, WriteResult
from slackwater.sql.lexer import quoted
from slackwater.transaction.clock import Clock
from slackwater.transaction.commit.factory import begin
from slackwater.transaction.commit_result import CommitResult
from slackwater.transaction.commit_validation import validate_not_append_only
from slackwater.transaction.row_reads import RowsRead
from slackwater.transaction.rows.file_action_rows import as_removes
from slackwater.transaction.rows.row_deletion import RowDeletion

SCAN_MS, REWRITE_MS, MATERIALIZE_MS = "scanTimeMs", "rewriteTimeMs", "materializeSourceTimeMs"
"""Operation metrics in ms: time for finding rows, for writing files, for reading the source of a MERGE."""
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
# Spark derives constraints from all pairs of computed columns, but a plan that only writes rows does not need them.
_MANY_COLUMNS, _PLANS_OF_MANY = 100, {"spark.sql.constraintPropagation.enabled": "false"}


@dataclass(frozen=True)
class PendingWrite:
    """A step that writes files, and the expected number of rows, None if unknown."""

    write: Callable[[], WriteResult]
    num_rows: int | None


@dataclass(frozen=True)
class DmlResult:
    """The result of a DELETE or UPDATE. `commit` is None if nothing was committed, `num_rows` None if unknown."""

    commit: CommitResult | None
    num_rows: int | None


class DmlCommand:
    """A DELETE, UPDATE or MERGE on the newest version of `table`.

    `way` is the row transport, see `choose_transport`. `newest` is the newest version, if it was read just now. Written
    files are deleted if the commit failed without effect, and retained if its outcome is unknown. Raises TableNotFound
    if there is no table, UnsupportedFeature if the table cannot be written.
    """

    is_by_application = True
    """Whether the operation runs once per application version of the session."""
    tells_time = True
    """Whether the operation metrics have times, like the metrics of delta-spark's operation."""

    def __init__(
        self,
        spark: SparkSession,
        table: Table,
        operation: str,
        alias: str | None = None,
        settings: SessionSettings | None = None,
        way: str | None = None,
        newest: Snapshot | None = None,
    ) -> None:
        try:
            snapshot = newest or Snapshot.open(table)
        except TableNotFound as error:
            raise TableNotFound(not_a_table(table.store), error_class="DELTA_MISSING_DELTA_TABLE") from error
        snapshot.configuration.require_writable(table.root_url)
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
    def makes_vectors(self) -> bool:
        """Return whether rows are deleted by deletion vectors instead of rewriting their files."""
        return self.snapshot.configuration.is_active("deletionVectors")

    @property
    def makes_feed(self) -> bool:
        """Return whether the change is recorded in change data files."""
        return self.snapshot.configuration.is_active("changeDataFeed")

    @property
    def schema(self) -> StructType:
        """The table's schema after the change."""
        return self.rows.schema

    def evolve(self, table: TableConfiguration) -> None:
        """Set the protocol and metadata for written rows and for the commit."""
        self.rows = replace(self.rows, configuration=table)

    def require_removal_allowed(self) -> None:
        """Raise OperationNotAllowed if the table is append-only."""
        validate_not_append_only(self.snapshot.configuration)

    def nothing(self) -> DataFrame:
        """Return a frame without rows. Spark resolves conditions on the table in it."""
        schema = located_schema(self.snapshot.schema.fields, self.is_tracked)
        return self.target(empty_frame(self.spark, schema))

    def candidates(self, predicate: Predicate) -> pa.Table:
        """Return the live files that may hold a match for `predicate`, with all columns of ADD_SCHEMA."""
        return self.snapshot.files(predicate, ADD_SCHEMA.names, self.scan.zone)

    def decided(self, files: pa.Table, predicate: Predicate) -> tuple[pa.Table, pa.Table]:
        """Return the files with `predicate` proven true for every row, and the other files."""
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
        """Return the live rows of `files` with their addresses.

        With `predicate`, rows that cannot match may be missing.
        """
        return self.scan.located(files, predicate)

    def target(self, located: AddressedRows | DataFrame) -> DataFrame:
        """Return rows of the table under the target's alias, for users' expressions.

        A table with row tracking has `_metadata.row_id` and `_metadata.row_commit_version`.
        """
        frame = located.frame if isinstance(located, AddressedRows) else located
        return (with_metadata(frame) if self.is_tracked else frame).alias(self.alias)

    def rows_of_others(self, snapshot: Snapshot, files: pa.Table) -> DataFrame:
        """Return the rows of `files`, added by concurrent transactions up to `snapshot`, like `target`."""
        options = ScanOptions(row_tracking=row_tracking.is_enabled(snapshot.configuration), rows=self.scan.options.rows)
        frame = TableScan(self.spark, snapshot, options).frame_of(files)
        if options.row_tracking:
            frame = with_metadata(frame, ROW_ID, ROW_COMMIT_VERSION)
        return frame.alias(self.alias)

    def column(self, name: str) -> Column:
        """Return the present value of a top-level column, in a frame with the target under its alias."""
        return F.col(f"{quoted(self.alias)}.{quoted(name)}")

    # Writes.

    def write_changed(
        self,
        frame: DataFrame,
        changed: Column | None = None,
        recomputed: Mapping[str, Column] | None = None,
        change_type: Column | None = None,
    ) -> WriteResult:
        """Write rows to new files. `changed` marks the changed rows among copied rows.

        `recomputed` marks the rows with recomputed generated columns, by column. With `change_type`, the new files are
        change data files too.
        """
        frame, hidden = self.rows.with_kept_ids(frame)
        if change_type is not None:
            frame, hidden = frame.withColumn(CHANGE_TYPE, change_type), [*hidden, CHANGE_TYPE]
        with self._planned():
            written = self.rows.write_changed(frame, changed, recomputed, hidden)
        return self.keep(written, both_roles=change_type is not None)

    def copy(self, frame: DataFrame) -> WriteResult:
        """Copy unchanged rows to new files."""
        frame, hidden = self.rows.with_kept_ids(frame)
        with self._planned():
            return self.keep(self.rows.rewrite(frame, {}, hidden=hidden))

    def insert(
        self, frame: DataFrame, change_type: str | None = None, parquet: Mapping[str, str] | None = None
    ) -> WriteResult:
        """Write new rows, completed and checked like rows of any write. `parquet` are options of the file writer."""
        with self._planned():
            written = self.rows.write(frame, parquet or {}, change_type=change_type)
        return self.keep(written, both_roles=change_type is not None)

    def record_changes(self, frame: DataFrame, change_type: str | None) -> WriteResult:
        """Write rows as change data files. Without `change_type`, the rows contain their change types."""
        with self._planned():
            return self.keep(self.rows.write_changes(frame, change_type, {}))

    def _planned(self) -> AbstractContextManager[None]:
        """Plan the frames within the block with settings for writing rows of the table.

        With `infers_conditions`, constraint propagation stays on, because a frame reads the user's tables again. Spark
        may prune these tables by inferred conditions.
        """
        is_light = len(self.schema) < _MANY_COLUMNS or self.infers_conditions
        return with_settings(self.spark, {} if is_light else _PLANS_OF_MANY)

    def at_once(self, works: Sequence[PendingWrite]) -> list[WriteResult]:
        """Run writes concurrently, so that each write uses the executors left idle by the last tasks of another.

        All writes have ended on return and on error. Raises the error of the first failed write in list order,
        InvalidArgument if the number of written rows differs from the expected number.

        In a partitioned table the writes run one after the other. There, concurrent writes would leave empty
        directories after a failure of the first write.
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
        """Stage written files. The files are deleted if the change fails."""
        with self._keeping:
            self._written.append(written)
            self.transaction.add(written.adds, fresh=True)
            self.transaction.add_change_files(written.change_files)
            if both_roles:
                # A file with only changed rows and their change types may have both roles. Source: "Add CDC File".
                self.transaction.add_change_files(AddCDCFile(a.path, a.partition_values, a.size) for a in written.adds)
        return written

    # Removals.

    def remove(self, files: pa.Table) -> None:
        """Remove whole files."""
        self.transaction.remove(as_removes(files, _CLOCK.now_ms()))

    def delete_rows(self, files: pa.Table, rows: Mapping[str, BitMap64]) -> None:
        """Mark `rows` (by path) of `files` as deleted. A file without remaining rows is removed."""
        self.vectors = self.transaction.delete_rows(files, rows)

    # Commit.

    def read(self, predicate: Predicate, found: RowsRead) -> None:
        """Declare the predicate and the rows read by the change, for conflict detection."""
        self.transaction.read_where(predicate, found)

    def require_rows(self, expected: int | None, written: int) -> None:
        """Raise InvalidArgument if the number of written rows differs from `expected`, so that no row is lost.

        A row may also be written twice. None for `expected` skips the check.
        """
        if expected is not None and written != expected:
            raise InvalidArgument(
                f"{self.snapshot.store.root_url}: {self.operation} found {expected} rows to write, but wrote "
                f"{written}. Its conditions or its source changed during the operation, so nothing was committed. "
                "Retry on data that does not change"
            )

    @contextmanager
    def timed(self, metric: str) -> Iterator[None]:
        """Add the time of the block to `metric`, an operation metric in ms.

        Ignores a metric that the operation lacks.
        """
        began_s = time.monotonic()
        try:
            yield
        finally:
            if metric in self._taken_s:
                self._taken_s[metric] += time.monotonic() - began_s

    def _times(self) -> dict[str, int]:
        """Return the time metrics of the operation, in ms."""
        if not self.tells_time:
            return {}
        taken_s = {"executionTimeMs": time.monotonic() - self._started_s, **self._taken_s}
        return {name: round(seconds * 1000) for name, seconds in taken_s.items()}

    def run_counted(self, work: Callable[[], tuple[Mapping[str, str], Mapping[str, int], int | None]]) -> DmlResult:
        """Run `work` like `run`. `work` also returns the number of changed rows."""
        counted: list[int | None] = [0]

        def told() -> tuple[Mapping[str, str], Mapping[str, int]]:
            parameters, metrics, counted[0] = work()
            return parameters, metrics

        return DmlResult(self.run(told), counted[0])

    def run(self, work: Callable[[], tuple[Mapping[str, str], Mapping[str, int]]]) -> CommitResult | None:
        """Run `work` and commit the change. `work` returns the operation's parameters and metrics.

        Returns None if there is nothing to commit, or if the session's application already committed this operation;
        then `is_skipped` is True. Files are deleted if the commit failed without effect. The checkpointed frames in
        `kept` are released in any case.
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
            why = f"application {app.app_id!r} already committed its write {app.version}"
            _log.info("%s: this %s changes nothing at version %d: %s", where, self.operation, snapshot.version, why)

    def _run(self, work: Callable[[], tuple[Mapping[str, str], Mapping[str, int]]]) -> CommitResult | None:
        try:
            parameters, metrics = work()
            self._stage_table()
        except BaseException:
            self._discard()
            raise
        if self._application is not None:
            # Recorded even if no row changed, because a later repetition might find rows.
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
            # Nothing is left to do if a concurrent run of the same application committed this operation.
            newest = self.snapshot.update() if lost and self._application is not None else self.snapshot
            self.is_skipped = lost and self._is_done(newest)
            if not self.is_skipped:
                raise
            self._log_skipped(newest)
            return None

    def _stage_table(self) -> None:
        """Stage changes of the table itself: evolved columns, and identity columns with a new high-water mark."""
        metadata = next((rows.metadata for rows in self._written if rows.metadata is not None), self.rows.metadata)
        if metadata != self.snapshot.metadata:
            self.transaction.set_metadata(metadata)
        if self.rows.configuration.protocol != self.snapshot.protocol:
            self.transaction.set_protocol(self.rows.configuration.protocol)

    def _discard(self) -> None:
        for rows in self._written:
            rows.files.discard()
        self.transaction.discard_vectors()
