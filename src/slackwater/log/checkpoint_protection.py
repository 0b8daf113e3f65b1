"""Protection of old checkpoints: the feature `checkpointProtection` and its table property.

After a feature was dropped, checkpoints hide the older commits from clients without the dropped feature. The table
property is the boundary. Checkpoints before the boundary are deleted only together with all commits before the
boundary. Source: the RFC "Checkpoint Protection"; delta-spark's DROP FEATURE.
"""

from __future__ import annotations

from slackwater.log.files.segment import LogListing
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


def has_protected_versions(listing: LogListing, boundary: int) -> bool:
    """Return whether the complete `listing` of a log has a commit or a checkpoint before `boundary`."""
    return any(version < boundary for version in (*listing.commits, *(c.version for c in listing.checkpoints)))


def may_truncate(listing: LogListing, kept_version: int, boundary: int) -> bool:
    """Return whether all files before `kept_version` may be deleted from the log in `listing`.

    True if the deletion includes every version before `boundary`, or if no such version is left.
    Source: "Writer Requirements for Checkpoint Protection", rules a and c.
    """
    return kept_version >= boundary or not has_protected_versions(listing, boundary)
