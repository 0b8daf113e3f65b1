"""Automatic compaction after a commit with many small files. The commit stays valid if the compaction fails.

Source: delta-spark's auto compaction, with its settings.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from slackwater.maintenance.layout.bin_packing import BinPackingOptions
from slackwater.protocol.features import clustering
from slackwater.protocol.properties.properties import AUTO_COMPACT
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.maintenance.optimize import PartitionFilter, compact
from slackwater.spark.session.settings import SessionSettings
from slackwater.transaction.commit_result import CommitResult

_ON = ("true", "auto", "legacy")


def with_auto_compaction(spark: SparkSession, result: CommitResult | None) -> CommitResult | None:
    """Compact small files after a commit, if the session or the table enables this. Return the commit's result.

    A failure becomes an upkeep error of the result. Nothing is done in a transaction over many tables, for a clustered
    table, and for too few files.
    """
    if result is None or result.table.branch is not None:
        return result
    try:
        settings = SessionSettings.of(spark)
        # The session's setting takes precedence over the table property.
        if settings.auto_compact == "false":
            return result
        snapshot = result.snapshot
        told = settings.auto_compact or str(snapshot.properties.get(AUTO_COMPACT) or "false").lower()
        if told not in _ON or clustering.DOMAIN in snapshot.domain_metadata:
            return result
        if _too_few(snapshot, settings):
            return result
        done = compact(spark, result.table, PartitionFilter(), auto_packing(settings), settings.auto_compact_min_files)
    except Exception as error:  # noqa: BLE001  (the commit is valid despite a later failure)
        told = f"auto compaction failed: {type(error).__name__}: {error}"
        return replace(result, upkeep_errors=(*result.upkeep_errors, told))
    if not done.removed:
        return result
    return replace(result, upkeep=(*result.upkeep, f"auto compaction of {len(done.removed)} files"))


def auto_packing(settings: SessionSettings) -> BinPackingOptions:
    """Return the file sizes for auto compaction, in bytes.

    Without a minimum setting, files below half of the maximum are small.
    """
    most = settings.auto_compact_max_bytes
    return BinPackingOptions(settings.auto_compact_min_bytes or most // 2, most, settings.optimize_max_deleted_ratio)


def _too_few(snapshot: Snapshot, settings: SessionSettings) -> bool:
    return int(snapshot.live_files(["path"]).num_rows) < settings.auto_compact_min_files
