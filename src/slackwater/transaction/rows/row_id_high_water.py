"""Row id high-water mark, derived from the log. New row ids start above it.

The metadata domain of row tracking stores the mark, if the domain exists and every writer maintains it. Assigned ids
can exceed the domain: the feature was dropped, the domain was removed, or a writer assigned ids without an update.
Source: delta-protocol.md "Row Tracking", "Writer Requirements for Row Tracking".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow.compute as pc

from slackwater.errors import CorruptTable, SlackwaterError
from slackwater.log.files.managed_log import read_commits
from slackwater.log.files.segment import CommitFile
from slackwater.log.table import Table
from slackwater.protocol.actions.actions import DomainMetadata, parse_actions
from slackwater.protocol.actions.files import num_records_of
from slackwater.protocol.features import row_tracking
from slackwater.scan.snapshot import Snapshot
from slackwater.stats.file_stats import record_counts
from slackwater.stats.footers import parquet_footer
from slackwater.storage.path_guard import resolve_file
from slackwater.storage.store import ObjectStore

_COMMITS_AT_ONCE = 100
_SPEAKS_OF_IDS = (b"baseRowId", row_tracking.DOMAIN.encode())


def highest_row_id(before: Snapshot | None) -> int:
    """Return the highest row id known to `before` and to the retained earlier versions, -1 if there is none.

    The domain suffices if the table assigns row ids, has the domain, and no file has a `baseRowId` above the mark.
    Otherwise all live files, tombstones and commits in the log are read. This happens once, because the next commit
    with files writes the domain again. Raises CorruptTable if a file has ids but an unknown number of rows, and the
    errors of reading a table.
    """
    if before is None:
        return row_tracking.NO_ROW_IDS
    mark = row_tracking.high_water_mark(before.domain_metadata)
    if row_tracking.DOMAIN in before.domain_metadata and row_tracking.assigns_row_ids(before.configuration):
        highest_base = before.highest_base_row_id()
        if highest_base is None or highest_base <= mark:
            return mark
    return max(mark, _highest_of_files(before), _highest_in_log(before.table))


def _highest_of_files(before: Snapshot) -> int:
    """Return the highest last id of live files, and at least the first ids of removed files."""
    live = before.live_files(["path", "baseRowId", "stats", "stats_parsed.numRecords"])
    live = live.filter(pc.is_valid(live["baseRowId"]))
    columns = (live["path"], live["baseRowId"], record_counts(live))
    ends = [
        _last_id(base, rows, before.store, path)
        for path, base, rows in zip(*(column.to_pylist() for column in columns), strict=True)
    ]
    # A tombstone in a checkpoint has no number of rows, but the file may still exist.
    gone = before.tombstones()
    gone = gone.filter(pc.is_valid(gone["baseRowId"]))
    for path, base in zip(gone["path"].to_pylist(), gone["baseRowId"].to_pylist(), strict=True):
        ends.append(base)
        with suppress(SlackwaterError):
            ends.append(_last_id(base, None, before.store, path))
    return max(ends, default=row_tracking.NO_ROW_IDS)


def _highest_in_log(table: Table) -> int:
    """Return the highest id in file actions and domains of the commits in the log, including obsolete actions."""
    store = table.store
    commits = [file for _, file in sorted(table.list_log().commits.items())]
    highest = row_tracking.NO_ROW_IDS
    for start in range(0, len(commits), _COMMITS_AT_ONCE):
        for file, data in _speaking_of_ids(store, commits[start : start + _COMMITS_AT_ONCE]):
            actions = parse_actions(data, f"{store.root_url}/{file.path}")
            highest = max(highest, *map(_highest_of_action, actions), row_tracking.NO_ROW_IDS)
    return highest


def _speaking_of_ids(store: ObjectStore, files: Sequence[CommitFile]) -> Iterator[tuple[CommitFile, bytes]]:
    for file, data in zip(files, read_commits(store, files), strict=True):
        if any(word in data for word in _SPEAKS_OF_IDS):
            yield file, data


def _highest_of_action(action: Mapping[str, Any]) -> int:
    node = action.get("add") or action.get("remove") or {}
    base = node.get("baseRowId")
    if isinstance(base, int):
        return base + max((num_records_of(node.get("stats")) or 0) - 1, 0)
    domain = action.get("domainMetadata") or {}
    if domain.get("domain") != row_tracking.DOMAIN:
        return row_tracking.NO_ROW_IDS
    # A removed domain still contains its last mark.
    with suppress(CorruptTable):
        known = DomainMetadata(row_tracking.DOMAIN, str(domain.get("configuration")))
        return row_tracking.high_water_mark({row_tracking.DOMAIN: known})
    return row_tracking.NO_ROW_IDS


def _last_id(base: int, rows: int | None, store: ObjectStore, path: str) -> int:
    if rows is None:
        try:
            rows = parquet_footer(store, resolve_file(store, path))[0].num_rows
        except SlackwaterError as error:
            raise CorruptTable(
                f"{store.root_url}: {path} has row ids from {base}, but neither its statistics nor the file record "
                f"its number of rows. New row ids cannot be assigned: {error}"
            ) from error
    return base + max(rows - 1, 0)
