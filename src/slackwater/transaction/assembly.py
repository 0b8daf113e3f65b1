"""The actions of one attempt: what is staged, made to follow the version that it is to follow.

Row ids, the files that must be given some, row commit versions, in-commit timestamps and the record of their
enablement depend on the version before, so they are made anew at every attempt.
Source: delta-protocol.md "Writer Requirements for Row Tracking", "Writer Requirements for In-Commit Timestamps";
docs/concurrent-changes.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow.compute as pc

from slackwater.log.file_actions import ADD_SCHEMA
from slackwater.protocol.actions.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from slackwater.protocol.actions.commit_info import ROW_TRACKING_PRESERVED, CommitInfo
from slackwater.protocol.actions.files import AddFile, FileAction
from slackwater.protocol.actions.paths import canonical_path
from slackwater.protocol.features import in_commit_timestamps, row_tracking
from slackwater.protocol.features.table_features import supported_features
from slackwater.protocol.properties.properties import TableProperties
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.rows.given_row_ids import highest_row_id
from slackwater.transaction.rows.recommit import as_adds
from slackwater.transaction.staged import StagedActions


def assemble(
    staged: StagedActions, before: Snapshot | None, info: CommitInfo, clock_ms: int, rows_preserved: bool = True
) -> list[Mapping[str, Any]]:
    """The actions of the commit that follows `before` (None: the first of a table), `commitInfo` first.

    `clock_ms` is the time of the attempt. Raises InvalidArgument for a file without a number of records where row
    ids are assigned.
    """
    version = 0 if before is None else before.version + 1
    protocol = staged.protocol or _of(before).protocol
    properties = TableProperties((staged.metadata or _of(before).metadata).configuration)
    stamp = clock_ms
    info = replace(info, timestamp=clock_ms)
    if in_commit_timestamps.is_enabled(protocol, properties):
        stamp = in_commit_timestamps.next_timestamp(clock_ms, None if before is None else before.timestamp_ms)
        info = replace(info, timestamp=stamp, in_commit_timestamp=stamp)
    adds = [*staged.adds, *_without_row_ids(staged, before, protocol, properties)]
    domains = dict(staged.domains)
    if adds and row_tracking.assigns_row_ids(protocol, properties):
        stated = row_tracking.high_water_mark({} if before is None else before.domain_metadata)
        adds, new_mark = row_tracking.assign(adds, highest_row_id(before), version)
        if new_mark != stated:
            domain = row_tracking.domain_metadata(new_mark)
            domains[domain.domain] = domain
    if row_tracking.is_enabled(protocol, properties):
        preserved = {ROW_TRACKING_PRESERVED: "true" if rows_preserved else "false"}
        info = replace(info, tags={**(info.tags or {}), **preserved})
    return _in_order(info, _metadata(staged, before, protocol, version, stamp), staged, domains, adds)


def _without_row_ids(
    staged: StagedActions, before: Snapshot | None, protocol: Protocol, properties: TableProperties
) -> list[AddFile]:
    """The files that the commit which turns row tracking on commits again, so that every row has an id."""
    if before is None or not row_tracking.is_enabled(protocol, properties):
        return []
    if row_tracking.is_enabled(before.protocol, before.properties):
        return []
    files = before.live_files(ADD_SCHEMA.names)
    without = files.filter(pc.or_(pc.is_null(files["baseRowId"]), pc.is_null(files["defaultRowCommitVersion"])))
    spoken_of = {canonical_path(path) for path in (*(r.path for r in staged.removes), *(a.path for a in staged.adds))}
    return [add for add in as_adds(without, data_change=False) if canonical_path(add.path) not in spoken_of]


def _metadata(
    staged: StagedActions, before: Snapshot | None, protocol: Protocol, version: int, stamp_ms: int
) -> Metadata | None:
    """The metadata to commit, with a true record of since when commits have timestamps of their own."""
    metadata = staged.metadata
    if before is None:
        return None if metadata is None else in_commit_timestamps.enablement(None, metadata, 0, stamp_ms, False)
    was_supported = "inCommitTimestamp" in supported_features(before.protocol)
    if metadata is None:
        # A protocol that begins to support what the properties asked for all along turns it on as well.
        turned_on = not was_supported and in_commit_timestamps.is_enabled(protocol, before.properties)
        metadata = before.metadata if turned_on else None
    if metadata is None:
        return None
    return in_commit_timestamps.enablement(before.metadata, metadata, version, stamp_ms, True, was_supported)


def _in_order(
    info: CommitInfo,
    metadata: Metadata | None,
    staged: StagedActions,
    domains: Mapping[str, DomainMetadata],
    adds: Sequence[AddFile],
) -> list[Mapping[str, Any]]:
    small: list[Protocol | Metadata | SetTransaction | DomainMetadata] = [
        *([staged.protocol] if staged.protocol else ()),
        *([metadata] if metadata else ()),
        *staged.transactions.values(),
        *domains.values(),
    ]
    files: list[FileAction] = [*staged.removes, *adds, *staged.change_files]
    return [info.to_json(), *(a.to_json() for a in small), *(f.to_json() for f in files)]


def _of(before: Snapshot | None) -> Snapshot:
    if before is None:
        raise ValueError("the first commit of a table must hold its protocol and metadata")
    return before
