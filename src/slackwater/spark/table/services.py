"""The methods of `DeltaTable` that keep a table healthy, with delta-spark's names, arguments and results."""

from __future__ import annotations

import datetime as dt

from pyspark.sql import DataFrame, SparkSession

from slackwater.log.table import Table
from slackwater.maintenance.manifests import generate
from slackwater.maintenance.vacuum import UNTRACKED_HOURS, VacuumRequest
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.maintenance.builder import DeltaOptimizeBuilder, DeltaReorgBuilder
from slackwater.spark.maintenance.restore import restore_table
from slackwater.spark.maintenance.vacuum import vacuum_table
from slackwater.spark.session.argument_checks import require_timestamp, require_type, text_argument


class TableServices:
    """What looks after a table; mixed into `DeltaTable`."""

    @property
    def _spark(self) -> SparkSession:
        raise NotImplementedError

    _table: Table

    def optimize(self) -> DeltaOptimizeBuilder:
        """A builder for an OPTIMIZE: `executeCompaction` lets small files become one.

        >>> table.toDF().write.format("delta").mode("append").save(place)
        >>> table.optimize().executeCompaction().first().metrics.numFilesRemoved
        2
        """
        return DeltaOptimizeBuilder(self._spark, self._changing, self._table.root_url)

    def reorg(self) -> DeltaReorgBuilder:
        """A builder for a REORG: `applyPurge` rewrites files with deleted rows or dropped columns.

        >>> table.reorg().applyPurge().first().metrics.numFilesRemoved  # nothing was deleted
        0
        """
        return DeltaReorgBuilder(self._spark, self._changing, self._table.root_url)

    def restoreToVersion(self, version: int) -> DataFrame:
        """Make the table again what it was in `version`, by a new commit: one row, RESTORE_RESULT.

        What was committed since stays in the history. Raises VersionNotFound; DataFileNotFound where files of then
        were vacuumed, unless `spark.sql.files.ignoreMissingFiles` is true; OperationNotAllowed for an append-only
        table, and DeltaConcurrentModificationException and its kinds: the table is unchanged then.

        >>> table.delete()
        >>> table.restoreToVersion(0).first().num_restored_files, table.toDF().count()
        (1, 2)
        """
        require_type("version", version, int)
        return self._restore(version=version)

    def restoreToTimestamp(self, timestamp: str | dt.datetime) -> DataFrame:
        """Make the table again what it was at `timestamp`, as `timestampAsOf` takes it: one row, RESTORE_RESULT.

        A datetime without a zone, as a text without one, is in the session's time zone.
        Raises as `restoreToVersion`, and TimestampOutOfRange for a time before the first version that is left, or after
        the last.

        >>> before = table.history().selectExpr("string(timestamp)").first()[0]
        >>> table.setProperties({"team": "sales"})
        >>> table.restoreToTimestamp(before).count(), table.detail().first().properties
        (1, {})
        """
        require_timestamp(timestamp)
        return self._restore(timestamp=timestamp)

    def vacuum(
        self,
        retentionHours: float | None = None,
        *,
        dry_run: bool = False,
        lite: bool | None = None,
        inventory: DataFrame | None = None,
        untracked_hours: float = UNTRACKED_HOURS,
    ) -> DataFrame:
        """Delete files that no version of the last `retentionHours` needs; the root of the table, as `path`.

        By default so long as `delta.deletedFileRetentionDuration` says; less is refused, unless
        `spark.slackwater.retentionDurationCheck.enabled` is false. With `dry_run` nothing goes, and the answer
        has the files that would. `lite` goes by the log and lists nothing; None: as
        `spark.databricks.delta.vacuum.lite.enabled` says. `inventory` has the files that there are (`path STRING`,
        `length BIGINT`, `isDir BOOLEAN`, `modificationTime BIGINT` in ms), instead of a listing. Files that the log
        never named may be those of a writer at work, and stay for `untracked_hours` at least.

        Raises InvalidArgument, UnsupportedFeature, OperationNotAllowed for a LITE one where the log was cleaned up
        further than the last one came; StorageError: what is deleted by then is not needed, and the next call goes on.

        >>> table.delete("id = 1")
        >>> table.vacuum(dry_run=True).count()
        0
        """
        self._snapshot_for_upkeep("VACUUM")
        request = VacuumRequest(retentionHours, dry_run, untracked_hours=untracked_hours)
        return vacuum_table(self._spark, self._table, request, lite, inventory)

    def generate(self, mode: str) -> None:
        """Write manifests of the newest version's files, for engines that read no Delta log.

        `mode` is "symlink_format_manifest", in any case: `_symlink_format_manifest/[partition/]manifest` names a data
        file a line. Raises InvalidArgument for another one; UnsupportedFeature for a table with column mapping, or of
        which rows are deleted by vectors; StorageError.

        >>> from pathlib import Path
        >>> table.generate("symlink_format_manifest")
        >>> Path(place, "_symlink_format_manifest", "manifest").read_text().endswith(".parquet\\n")
        True
        """
        generate(self._snapshot_for_upkeep("manifests"), text_argument("mode", mode))

    def _snapshot_for_upkeep(self, what: str) -> Snapshot:
        raise NotImplementedError

    def _restore(self, version: int | None = None, timestamp: str | dt.datetime | None = None) -> DataFrame:
        return restore_table(self._spark, self._changing(), version, timestamp)

    def _changing(self) -> Table:
        """The table, for what changes it."""
        return self._table
