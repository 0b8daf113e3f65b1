"""Protection of old checkpoints: the feature `checkpointProtection` and its table property.

After a feature was dropped, checkpoints hide the older commits from clients without the dropped feature. The table
property is the boundary. Checkpoints before the boundary are deleted only together with all commits before the
boundary. Source: the RFC "Checkpoint Protection"; delta-spark's DROP FEATURE.
"""

from __future__ import annotations

from dataclasses import replace

from slackwater.log.files.segment import LogListing
from slackwater.protocol.actions.actions import Metadata
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import REQUIRE_CHECKPOINT_PROTECTION

FEATURE = "checkpointProtection"


def protected_before(table: TableConfiguration) -> int:
    """Return the version before which checkpoints are protected, 0 without protection.

    Raises CorruptTable if the property is not a whole number.
    """
    if not table.supports(FEATURE):
        return 0
    return table.properties.integer(REQUIRE_CHECKPOINT_PROTECTION) or 0


def protected(metadata: Metadata, version: int) -> Metadata:
    """Return `metadata` with the protection of all checkpoints before `version`, without protection for version 0."""
    folded = REQUIRE_CHECKPOINT_PROTECTION.lower()
    others = {key: value for key, value in metadata.configuration.items() if key.lower() != folded}
    boundary = {REQUIRE_CHECKPOINT_PROTECTION: str(version)} if version else {}
    return replace(metadata, configuration={**others, **boundary})


def with_own_boundary(before: TableConfiguration | None, after: TableConfiguration) -> Metadata:
    """Return the metadata of `after` with the boundary of `before`, the table before the commit; None for a new table.

    The boundary belongs to the history of the table. A restored or replaced table keeps it, and a clone has none.
    """
    boundary = 0 if before is None else protected_before(before)
    if not after.supports(FEATURE) or boundary == protected_before(after):
        return after.metadata
    return protected(after.metadata, boundary)


def has_protected_versions(listing: LogListing, boundary: int) -> bool:
    """Return whether the complete `listing` of a log has a commit or a checkpoint before `boundary`."""
    return any(version < boundary for version in (*listing.commits, *(c.version for c in listing.checkpoints)))


def may_truncate(listing: LogListing, kept_version: int, boundary: int) -> bool:
    """Return whether all files before `kept_version` may be deleted from the log in `listing`.

    True if the deletion includes every version before `boundary`, or if no such version is left.
    Source: "Writer Requirements for Checkpoint Protection", rules a and c.
    """
    return kept_version >= boundary or not has_protected_versions(listing, boundary)
