"""Records of the live files of a table, and the result of data skipping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slackwater.html.number_format import counted
from slackwater.log.table_detail import to_moment
from slackwater.protocol.features.column_mapping import physical_name
from slackwater.scan.snapshot import Snapshot

if TYPE_CHECKING:
    from slackwater.scan.pruning.file_pruning import PruneReport

_COLUMNS = (
    "path",
    "size",
    "partitionValues",
    "modificationTime",
    "deletionVector",
    "stats",
    "stats_parsed.numRecords",
)

RECORD = ("path", "size", "numRecords", "partitionValues", "deletionVectorCardinality", "modificationTime")
"""Keys of a record."""


@dataclass(frozen=True, slots=True)
class FileListing:
    """Records of files, and the report on all files of the table. With a limit, fewer records than kept files."""

    records: list[dict[str, Any]]
    report: PruneReport


def list_files(snapshot: Snapshot, where: str | None = None, limit: int | None = None) -> FileListing:
    """List the live files of `snapshot`, with `where` only files that may contain a match; at most `limit` records.

    Keys of a record:

    - `path`: URI-encoded as in the log.
    - `size`: Bytes.
    - `numRecords`: Physical rows, None without statistics.
    - `partitionValues`: Texts as in the log, by display names.
    - `deletionVectorCardinality`: Deleted rows, None without a vector.
    - `modificationTime`: A datetime in UTC.

    Raises InvalidArgument if `where` is not a condition on this table, CorruptCheckpoint, InvalidSchema.
    """
    # Imported here, because other commands need no statistics of files.
    from slackwater.scan.pruning.file_pruning import PruneReport
    from slackwater.stats.file_stats import record_counts

    if where is None:
        files = snapshot.live_files(_COLUMNS)
        report = PruneReport(files.num_rows, 0, 0)
    else:
        planned = snapshot.plan(where, _COLUMNS)
        files, report = planned.files, planned.report
    shown = files if limit is None else files.slice(0, limit)
    shown = shown.append_column("numRecords", record_counts(shown))
    partitions = _physical_partition_columns(snapshot)
    columns = ["path", "size", "numRecords", "partitionValues", "deletionVector", "modificationTime"]
    return FileListing([_record(row, partitions) for row in shown.select(columns).to_pylist()], report)


def account(report: PruneReport, where: str | None) -> str:
    """Return a one-line summary of data skipping: `1 of 6 files may hold a match of …`."""
    if where is None:
        return counted(report.total_files, "file")
    return (
        f"{report.kept_files} of {counted(report.total_files, 'file')} may hold a match of {where} "
        f"(ruled out: {report.pruned_by_partition} by partition values, {report.pruned_by_stats} by statistics)"
    )


def _physical_partition_columns(snapshot: Snapshot) -> dict[str, str]:
    """Map the display name of each partition column to its physical name in the log."""
    names: dict[str, str] = {}
    for name in snapshot.metadata.partition_columns:
        column = snapshot.schema.get(name)
        names[name] = name if column is None else physical_name(column, snapshot.column_mapping_mode)
    return names


def _record(row: Mapping[str, Any], partitions: Mapping[str, str]) -> dict[str, Any]:
    values = dict(row["partitionValues"] or ())
    vector = row["deletionVector"]
    return {
        "path": row["path"],
        "size": row["size"],
        "numRecords": row["numRecords"],
        "partitionValues": {name: values.get(physical) for name, physical in partitions.items()},
        "deletionVectorCardinality": None if vector is None else vector["cardinality"],
        "modificationTime": to_moment(row["modificationTime"]),
    }
