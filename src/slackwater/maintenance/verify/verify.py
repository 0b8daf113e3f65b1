"""Read-only verification of a table: its log, its checksums and the files of a version.

Source: delta-protocol.md "Delta Log Entries", "Checkpoints", "Data Files"; managed-commits.md "Reading managed-commit
tables".
"""

from __future__ import annotations

from slackwater.errors import CorruptCheckpoint, InvalidSchema, SlackwaterError, TableNotFound, VersionNotFound
from slackwater.log.files.segment import not_a_table
from slackwater.log.table import Table
from slackwater.maintenance.verify.data_files import COLUMNS, data_places, verify_data_files, verify_deletion_vectors
from slackwater.maintenance.verify.findings import FaultKind, Findings, Verification
from slackwater.maintenance.verify.footers import verify_statistics
from slackwater.maintenance.verify.log_walk import LogWalk
from slackwater.maintenance.verify.transaction_groups import GroupVerification, ParticipantOf
from slackwater.maintenance.verify.version_claims import VersionClaim
from slackwater.protocol.features.managed_commits import ownership


def verify(
    table: Table, version: int | None = None, footers: bool = False, participant_of: ParticipantOf | None = None
) -> Verification:
    """Verify `table` up to `version`, by default the newest, and return the faults.

    The log is verified from its oldest version: gaps, in-commit timestamps, checkpoints and compactions against
    commits, sidecars, version checksums, multi-table transactions. In the version itself: live files with sizes,
    deletion vectors, and with `footers` also statistics. `participant_of` returns the tables of multi-table
    transactions by their ids; without it, their logs are not compared. Memory O(live files). Raises TableNotFound,
    VersionNotFound, UnsupportedFeature, StorageError.
    """
    listing = table.list_log()
    latest = listing.latest_version
    if latest is None:
        raise TableNotFound(not_a_table(table.store))
    target = latest if version is None else version
    if target > latest:
        raise VersionNotFound(f"{table.root_url} has no version {target}: its newest version is {latest}")
    findings = Findings()
    groups = GroupVerification(table, findings, participant_of)
    walk = LogWalk(table.store, listing, target, findings, groups.add)
    if target < walk.oldest:
        raise VersionNotFound(
            f"{table.root_url} can no longer show version {target}: the log was cleaned up. The oldest version it can "
            f"show is {walk.oldest}"
        )
    told = walk.run()
    if told is None:
        says = "the log no longer contains this version. Its files were not checked"
        findings.fault(FaultKind.GAP, f"version {target}", says)
    else:
        _look_at_files(table, told, footers, findings)
        _note_owner(table, told, findings)
    groups.finish(listing, target)
    return Verification(
        table.location, walk.oldest, target, dict(findings.counts), tuple(findings.notes), tuple(findings.faults)
    )


def _look_at_files(table: Table, told: VersionClaim, footers: bool, findings: Findings) -> None:
    try:
        files = told.files(COLUMNS)
    except CorruptCheckpoint as error:
        findings.fault(FaultKind.CHECKPOINT, f"version {told.version}", f"files were not checked: {error}")
        return
    places = data_places(table, files, findings)
    are_there = verify_data_files(table, files, places, findings)
    verify_deletion_vectors(table, files, findings)
    try:
        told.configuration.schema  # noqa: B018  (access parses the schema)
    except InvalidSchema as error:
        findings.fault(FaultKind.SCHEMA, f"version {told.version}", str(error))
        return
    if footers:
        readable = [place if is_there else None for place, is_there in zip(places, are_there, strict=True)]
        verify_statistics(table, told.configuration, files, readable, findings)


def _note_owner(table: Table, told: VersionClaim, findings: Findings) -> None:
    try:
        found = None if table.owned is not None else ownership(told.configuration, table.root_url)
    except SlackwaterError as error:
        findings.notes.append(str(error))
        return
    if found is not None:
        findings.notes.append(
            f"the table belongs to {found.description}. Its commits that are not backfilled were not checked"
        )
