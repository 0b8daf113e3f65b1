"""Removal of the rows that satisfy a condition, staged in a transaction: whole files, deletion vectors, or rewrites.

Source: delta-protocol.md "Add File and Remove File", "Deletion Vectors", "Add CDC File"; docs/concurrent-changes.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from slackwater.log.files.file_actions import ADD_SCHEMA
from slackwater.predicate.predicate import Constant, Predicate, not_true
from slackwater.rows.row_writer import RowWriter
from slackwater.scan.arrow_scan import FILE_COLUMNS, ArrowScan
from slackwater.scan.file_changes import DELETE
from slackwater.scan.pruning.file_pruning import prune
from slackwater.scan.row_count import files_of, live_row_counts, total
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.row_reads import RowsRead
from slackwater.transaction.rows.file_action_rows import as_removes


@dataclass(frozen=True)
class MatchingRows:
    """The rows that satisfy a predicate: all rows of the files `whole`, and some rows of each file in `partial`.

    Files have the columns of ADD_SCHEMA. `rows` are the indexes of the matching rows of partial files, by path.
    """

    snapshot: Snapshot
    predicate: Predicate
    whole: pa.Table
    partial: pa.Table
    rows: Mapping[str, BitMap64]

    @property
    def num_rows(self) -> int | None:
        """The number of matching rows, None if the log does not record it."""
        return total([*live_row_counts(self.whole).values(), *(len(rows) for rows in self.rows.values())])

    @property
    def is_empty(self) -> bool:
        """Return whether no file has a matching row."""
        return not (self.whole.num_rows or self.partial.num_rows)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the matching rows."""
        scan = ArrowScan.of(self.snapshot, None, None)
        files = pa.concat_tables([self.whole, self.partial]).select(list(FILE_COLUMNS))
        yield from scan.batches(files, only=self.rows)

    def reads(self) -> RowsRead:
        """Return the matching rows for conflict detection, with the test of files added by other writers."""
        found: dict[str, BitMap64 | None] = dict.fromkeys(self.whole["path"].to_pylist())
        found.update(self.rows)
        return RowsRead(found, self._any_match)

    def _any_match(self, snapshot: Snapshot, files: pa.Table) -> bool:
        scan = ArrowScan.of(snapshot, [], self.predicate)
        return any(batch.num_rows for batch in scan.batches(files.select(list(FILE_COLUMNS)), limit=1))


def matching_rows(snapshot: Snapshot, predicate: Predicate) -> MatchingRows:
    """Return the rows of `snapshot` that satisfy `predicate`, accepted by `require_decidable`.

    Reads data only of files undecided by partition values and statistics, and only the columns of the predicate.
    """
    files = snapshot.files(predicate, ADD_SCHEMA.names)
    nothing = files.slice(0, 0)
    if predicate == Constant(True):
        return MatchingRows(snapshot, predicate, files, nothing, {})
    partitions = snapshot.metadata.partition_columns
    others = prune(files, not_true(predicate), snapshot.schema, partitions, snapshot.physical_paths)
    is_other = pc.is_in(files["path"], value_set=others["path"].combine_chunks())
    whole = files.filter(pc.invert(is_other))
    if not others.num_rows:
        return MatchingRows(snapshot, predicate, whole, nothing, {})
    found = ArrowScan.of(snapshot, [], predicate).addresses(others.select(list(FILE_COLUMNS)))
    live = live_row_counts(files_of(others, found.keys()))
    gone = {path for path, rows in found.items() if len(rows) == live[path]}
    rows = {path: bitmap for path, bitmap in found.items() if path not in gone}
    whole = pa.concat_tables([whole, files_of(others, gone)])
    return MatchingRows(snapshot, predicate, whole, files_of(others, rows.keys()), rows)


def remove_rows(transaction: TableTransaction, writer: RowWriter, matching: MatchingRows) -> dict[str, int]:
    """Stage the removal of `matching` and return its metrics. The caller discards the files after an error.

    Partly matching files get deletion vectors if the table has them enabled, and are rewritten otherwise. With a change
    data feed, the removed rows are recorded unless all of their files are removed as a whole.
    """
    transaction.read_where(matching.predicate, matching.reads())
    now_ms = transaction.clock.now_ms()
    configuration = matching.snapshot.configuration
    transaction.remove(as_removes(matching.whole, now_ms))
    copied, metrics = 0, {}
    if matching.partial.num_rows and configuration.is_active("deletionVectors"):
        done = transaction.delete_rows(matching.partial, matching.rows)
        metrics = {
            "numDeletionVectorsAdded": done.vectors_added,
            "numDeletionVectorsUpdated": done.vectors_updated,
            "numDeletionVectorsRemoved": done.vectors_removed,
        }
    elif matching.partial.num_rows:
        adds = writer.copy_without(matching.partial, matching.rows)
        copied = sum(add.num_records or 0 for add in adds)
        transaction.add(adds, fresh=True)
        transaction.remove(as_removes(matching.partial, now_ms))
    if matching.partial.num_rows and configuration.is_active("changeDataFeed"):
        transaction.add_change_files(writer.write_changes(matching.batches(), DELETE))
    num_rows = matching.num_rows
    return {**({} if num_rows is None else {"numDeletedRows": num_rows}), "numCopiedRows": copied, **metrics}
