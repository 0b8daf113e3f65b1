"""Rewrite of a table's files with unchanged rows.

The executors copy the rows in Python if possible. Else Spark copies them, with a job per bin.

Source: delta-protocol.md "Add File and Remove File" (dataChange), "Writer Requirements for Row Tracking".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame

from slackwater.maintenance.layout.bin_packing import PACKED_BYTES, Bin
from slackwater.protocol.actions.files import AddFile
from slackwater.scan.row_count import live_row_counts, total
from slackwater.spark.dml.dml_command import DmlCommand, PendingWrite
from slackwater.spark.dml.executor_rewrite import ExecutorRewrite, Finished
from slackwater.spark.read.file_columns import FILE, ROW
from slackwater.spark.read.row_addresses import ADDRESS
from slackwater.spark.write.files.data_files import write_data_files
from slackwater.spark.write.table_writer import WriteResult
from slackwater.transaction.clock import Clock
from slackwater.transaction.rows.file_action_rows import as_removes

_JOBS_AT_ONCE = 4
_CLOCK = Clock()


class RewriteCommand(DmlCommand):
    """An operation that writes the same rows, with their row ids, to other files.

    It conflicts only with writers that change or remove the same files, because concurrent writes do not invalidate its
    reads.
    """

    is_by_application = False
    tells_time = False

    def rewrite(self, bins: Sequence[Bin], finished: Finished) -> None:
        """Write the rows of each bin to one file. Raises InvalidArgument if some rows were not written."""
        if not bins:
            return
        if ExecutorRewrite(self).move(bins, finished) is None:
            self._by_spark(bins, finished)
        self.remove_moved(pa.concat_tables([each.files for each in bins]))

    def rewrite_along(
        self, bins: Sequence[Bin], finished: Finished, ordered: Callable[[Bin, DataFrame], DataFrame]
    ) -> None:
        """Write the rows of each bin, one file per task of the frame returned by `ordered`.

        Raises InvalidArgument if some rows were not written.
        """
        for first in range(0, len(bins), _JOBS_AT_ONCE):
            chosen = bins[first : first + _JOBS_AT_ONCE]
            self.at_once([self._work(each, ordered(each, self._frame(each)), finished) for each in chosen])
        if bins:
            self.remove_moved(pa.concat_tables([each.files for each in bins]))

    def _frame(self, each: Bin) -> DataFrame:
        """Return the rows of a bin, with their row ids if tracked."""
        if not self.is_tracked:
            return self.scan.frame_of(each.files)
        return self.scan.located(each.files).frame.drop(ADDRESS, FILE, ROW)

    def remove_moved(self, files: pa.Table) -> None:
        """Remove files after the copy of their rows to other files."""
        self.transaction.remove(as_removes(files, _CLOCK.now_ms(), data_change=False))

    # Rewrite by Spark.

    def _by_spark(self, bins: Sequence[Bin], finished: Finished) -> None:
        for first in range(0, len(bins), _JOBS_AT_ONCE):
            chosen = bins[first : first + _JOBS_AT_ONCE]
            self.at_once([self._work(each, self._one_task(each), finished) for each in chosen])

    def _one_task(self, each: Bin) -> DataFrame:
        """Return the rows in the order of the files, because Spark assigns large files to tasks first."""
        return self.scan.located(each.files, in_order=True).frame.coalesce(1).sortWithinPartitions(ADDRESS)

    def _work(self, each: Bin, rows: DataFrame, finished: Finished) -> PendingWrite:
        frame, hidden = self.rows.with_kept_ids(rows)
        layout = self.rows.layout(hidden)

        def write() -> WriteResult:
            options = self.rows.parquet_options({})
            values = each.partition_values
            files = write_data_files(frame, self.snapshot.store, layout, options, data_change=False, partition=values)
            files.adds[:] = [finished(each, add) for add in files.adds]
            return self.keep(WriteResult(files))

        return PendingWrite(write, total(live_row_counts(each.files).values()))


def as_purged(each: Bin, add: AddFile) -> AddFile:
    """Return `as_compacted` for merged files. A single rewritten file retains its tags, such as those of a Z-cube."""
    if each.files.num_rows > 1:
        return as_compacted(each, add)
    (before,) = each.files.select(["tags", "clusteringProvider"]).to_pylist()
    tags = {name: text for name, text in before["tags"] or () if text is not None}
    return replace(add, tags=tags or None, clustering_provider=before["clusteringProvider"])


def as_compacted(each: Bin, add: AddFile) -> AddFile:
    """Return `add` with a tag for the size of its bin before the compaction."""
    return replace(add, tags={**(add.tags or {}), PACKED_BYTES: str(each.packed_bytes)})
