"""The actions of one commit attempt: the staged actions, completed for the version before.

Row ids, re-added files without row ids, row commit versions, in-commit timestamps and their enablement record depend on
the version before. The boundary of protected checkpoints, and the version of a type change of the preview of type
widening, are the version of the commit. All are recomputed at every attempt.
Source: delta-protocol.md "Writer Requirements for Row Tracking", "Writer Requirements for In-Commit Timestamps";
docs/concurrent-changes.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow.compute as pc

from slackwater.log.checkpoint_protection import protected
from slackwater.log.files.file_actions import ADD_SCHEMA
from slackwater.protocol.actions.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from slackwater.protocol.actions.commit_info import ROW_TRACKING_PRESERVED, CommitInfo
from slackwater.protocol.actions.files import AddFile, FileAction
from slackwater.protocol.actions.paths import canonical_path
from slackwater.protocol.features import in_commit_timestamps, row_tracking
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.schema_changes.type_change_versions import with_change_versions
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.rows.file_action_rows import as_adds
from slackwater.transaction.rows.row_id_high_water import highest_row_id
from slackwater.transaction.staged import StagedActions


def assemble(
    staged: StagedActions, before: Snapshot | None, info: CommitInfo, clock_ms: int, rows_preserved: bool = True
) -> Sequence[Mapping[str, Any]]:
    """Return the actions of the commit that follows `before`, `commitInfo` first.

    `before` is None for the first commit of a table. `clock_ms` is the time of the attempt in milliseconds since the
    epoch. Raises InvalidArgument if row ids are assigned and a file has no number of records.
    """
    version = 0 if before is None else before.version + 1
    table = staged.table_after(None if before is None else before.configuration)
    stamp = clock_ms
    info = replace(info, timestamp=clock_ms)
    if in_commit_timestamps.is_enabled(table):
        stamp = in_commit_timestamps.next_timestamp(clock_ms, None if before is None else before.timestamp_ms)
        info = replace(info, timestamp=stamp, in_commit_timestamp=stamp)
    adds = [*staged.adds, *_without_row_ids(staged, before, table)]
    domains = dict(staged.domains)
    if adds and row_tracking.assigns_row_ids(table):
        stated = row_tracking.high_water_mark({} if before is None else before.domain_metadata)
        # A clone continues from the high-water mark of its source.
        brought = row_tracking.high_water_mark(staged.domains)
        adds, new_mark = row_tracking.assign(adds, max(highest_row_id(before), brought), version)
        if new_mark != stated or row_tracking.DOMAIN in domains:
            domain = row_tracking.domain_metadata(new_mark)
            domains[domain.domain] = domain
    if row_tracking.is_enabled(table):
        preserved = {ROW_TRACKING_PRESERVED: "true" if rows_preserved else "false"}
        info = replace(info, tags={**(info.tags or {}), **preserved})
    return _in_order(info, _metadata(staged, before, table, version, stamp), staged, domains, adds, table)


def _without_row_ids(staged: StagedActions, before: Snapshot | None, table: TableConfiguration) -> list[AddFile]:
    """Return the files to re-add when the commit enables row tracking, so that every row has an id."""
    if before is None or not row_tracking.is_enabled(table):
        return []
    if row_tracking.is_enabled(before.configuration):
        return []
    files = before.live_files(ADD_SCHEMA.names)
    without = files.filter(pc.or_(pc.is_null(files["baseRowId"]), pc.is_null(files["defaultRowCommitVersion"])))
    spoken_of = {canonical_path(path) for path in (*(r.path for r in staged.removes), *(a.path for a in staged.adds))}
    return [add for add in as_adds(without, data_change=False) if canonical_path(add.path) not in spoken_of]


def _metadata(
    staged: StagedActions, before: Snapshot | None, table: TableConfiguration, version: int, stamp_ms: int
) -> Metadata | None:
    """Return the metadata to commit, with the version and time at which in-commit timestamps were enabled.

    With the preview of type widening, new type changes have the version of the commit. If the commit protects the
    history, the metadata has the new boundary. None if the commit changes no metadata.
    """
    if before is None:
        return in_commit_timestamps.enablement(None, table, 0, stamp_ms)
    if staged.metadata is None:
        # A new protocol also enables the feature if it supports a property that was set before.
        was_supported = before.configuration.supports("inCommitTimestamp")
        if was_supported or not in_commit_timestamps.is_enabled(table):
            return None
    metadata = in_commit_timestamps.enablement(before.configuration, table, version, stamp_ms)
    metadata = with_change_versions(before.configuration, table.changed(metadata=metadata), version)
    return protected(metadata, version) if staged.protects_history else metadata


def _in_order(
    info: CommitInfo,
    metadata: Metadata | None,
    staged: StagedActions,
    domains: Mapping[str, DomainMetadata],
    adds: Sequence[AddFile],
    table: TableConfiguration,
) -> Sequence[Mapping[str, Any]]:
    small: list[Protocol | Metadata | SetTransaction | DomainMetadata] = [
        *([staged.protocol] if staged.protocol else ()),
        *([metadata] if metadata else ()),
        *staged.transactions.values(),
        *domains.values(),
    ]
    nodes = [info.to_json(), *(a.to_json() for a in small)]
    if staged.stream is not None:
        return staged.stream.actions(nodes, table)
    if staged.exchange is not None:
        return staged.exchange.actions(nodes)
    files: list[FileAction] = [*staged.removes, *adds, *staged.change_files]
    return [*nodes, *(f.to_json() for f in files)]
