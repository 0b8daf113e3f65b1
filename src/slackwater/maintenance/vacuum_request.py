"""Options of a VACUUM, without the modules that delete files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from slackwater.storage.store import ObjectMeta

UNTRACKED_HOURS = 24.0
"""Default minimum age, in hours, of untracked files deleted by VACUUM. The log never named an untracked file."""


@dataclass(frozen=True)
class VacuumRequest:
    """Options of a VACUUM.

    `retention_hours`: versions current within this period stay readable. None means the table's
    `delta.deletedFileRetentionDuration`; shorter periods are rejected if `checks_retention`. `untracked_hours`: minimum
    age of deleted files never named by the log, regardless of the retention. Such files may belong to a writer before
    its commit. `lite`: take candidates from the log instead of listing the table. `inventory`: replaces the listing.
    `logs`: whether the history records the VACUUM.
    """

    retention_hours: float | None = None
    dry_run: bool = False
    lite: bool = False
    inventory: Iterable[ObjectMeta] | None = None
    untracked_hours: float = UNTRACKED_HOURS
    checks_retention: bool = True
    logs: bool = True
    user_metadata: str | None = None
    user_name: str | None = None
