"""Table services of `DeltaTable`, with delta-spark's names, arguments and results."""

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
    """The methods for table services, a mixin of `DeltaTable`."""

    @property
    def _spark(self) -> SparkSession:
        raise NotImplementedError

    _table: Table

    def optimize(self) -> DeltaOptimizeBuilder:
        """Return a builder for an OPTIMIZE: `executeCompaction` merges small files.

        >>> table.toDF().write.format("delta").mode("append").save(place)
        >>> table.optimize().executeCompaction().first().metrics.numFilesRemoved
        2
        """
        return DeltaOptimizeBuilder(self._spark, self._changing, self._table.root_url)

    def reorg(self) -> DeltaReorgBuilder:
        """Return a builder for a REORG: `applyPurge` rewrites files with deleted rows or dropped columns.

        >>> table.reorg().applyPurge().first().metrics.numFilesRemoved  # nothing was deleted
        0
        """
        return DeltaReorgBuilder(self._spark, self._changing, self._table.root_url)

    def restoreToVersion(self, version: int) -> DataFrame:
        """Restore the table to the state of `version` in a new commit. Return one row, RESTORE_RESULT.

        Later commits stay in the history. After one of these errors, the table is unchanged.

        Raises:
            VersionNotFound: If the log does not have the version.
            DataFileNotFound: If files of the version were vacuumed, unless `spark.sql.files.ignoreMissingFiles` is
                true.
            OperationNotAllowed: If the table is append-only.
            DeltaConcurrentModificationException: If a concurrent commit conflicts, also as a subclass.

        >>> table.delete()
        >>> table.restoreToVersion(0).first().num_restored_files, table.toDF().count()
        (1, 2)
        """
        require_type("version", version, int)
        return self._restore(version=version)

    def restoreToTimestamp(self, timestamp: str | dt.datetime) -> DataFrame:
        """Restore the table to its state at `timestamp`, in a form of `timestampAsOf`. Return one row, RESTORE_RESULT.

        Without a zone, a text is in the session's zone, and a datetime in this machine's zone, like in PySpark. A time
        after the last commit means the newest version. Raises as `restoreToVersion`, and TimestampOutOfRange for a time
        before the first available version.

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
        """Delete files that no version of the last `retentionHours` needs. Return the table's root, as `path`.

        The default retention is `delta.deletedFileRetentionDuration`. A shorter one is rejected, unless
        `spark.slackwater.retentionDurationCheck.enabled` is false. With `dry_run` nothing is deleted, and the result
        lists the files to delete. `lite` reads the log instead of a listing; None: the setting
        `spark.databricks.delta.vacuum.lite.enabled`. `inventory` lists the existing files (`path STRING`,
        `length BIGINT`, `isDir BOOLEAN`, `modificationTime BIGINT` in ms), instead of a listing. Files without an
        action in the log can belong to an active writer, and are retained for at least `untracked_hours`.

        Raises:
            InvalidArgument: If an argument is not valid, or if the retention is too short.
            UnsupportedFeature: If Slackwater cannot write the table's protocol.
            OperationNotAllowed: If log cleanup removed commits after the last vacuum, for a LITE vacuum.
            DataFileNotFound: If another engine re-added a file during its deletion.
            StorageError: If a deletion fails. No deleted file is needed, and the next call continues.

        >>> table.delete("id = 1")
        >>> table.vacuum(dry_run=True).count()
        0
        """
        self._snapshot_for_upkeep("VACUUM")
        request = VacuumRequest(retentionHours, dry_run, untracked_hours=untracked_hours)
        return vacuum_table(self._spark, self._table, request, lite, inventory)

    def generate(self, mode: str) -> None:
        """Write manifests of the newest version's files, for engines without support for Delta logs.

        `mode` is "symlink_format_manifest", case-insensitive: `_symlink_format_manifest/[partition/]manifest` names one
        data file per line.

        Raises:
            InvalidArgument: If `mode` is another one.
            UnsupportedFeature: If the table has column mapping, or rows deleted by vectors.
            StorageError: If the store fails.

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
        """Return the table, for a change of it."""
        return self._table
