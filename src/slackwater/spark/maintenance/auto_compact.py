"""Compaction by itself, after a commit that left many small files; the commit stands whatever becomes of it.

Source: delta-spark's auto compaction, by its settings.
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
    """The commit, after small files became one where the table or the session wants that; a failure is told in it.

    Nothing is done in a transaction over many tables, for a clustered table, and where there are too few files.
    """
    if result is None or result.table.branch is not None:
        return result
    try:
        settings = SessionSettings.of(spark)
        # What the session says goes before the table's own wish.
        if settings.auto_compact == "false":
            return result
        snapshot = result.snapshot
        told = settings.auto_compact or str(snapshot.properties.get(AUTO_COMPACT) or "false").lower()
        if told not in _ON or clustering.DOMAIN in snapshot.domain_metadata:
            return result
        if _too_few(snapshot, settings):
            return result
        done = compact(spark, result.table, PartitionFilter(), auto_packing(settings), settings.auto_compact_min_files)
    except Exception as error:  # noqa: BLE001  (the commit stands, whatever fails after it)
        told = f"auto compaction failed: {type(error).__name__}: {error}"
        return replace(result, upkeep_errors=(*result.upkeep_errors, told))
    if not done.removed:
        return result
    return replace(result, upkeep=(*result.upkeep, f"auto compaction of {len(done.removed)} files"))


def auto_packing(settings: SessionSettings) -> BinPackingOptions:
    """How large files shall be: half as many bytes as fit one are small."""
    most = settings.auto_compact_max_bytes
    return BinPackingOptions(settings.auto_compact_min_bytes or most // 2, most, settings.optimize_max_deleted_ratio)


def _too_few(snapshot: Snapshot, settings: SessionSettings) -> bool:
    return int(snapshot.live_files(["path"]).num_rows) < settings.auto_compact_min_files
