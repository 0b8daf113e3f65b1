"""Detects a running VACUUM in the table's history. No commit may re-add files during a VACUUM.

VACUUM commits a START and an END marker and reads the log in between. The log orders a VACUUM and a writer that re-adds
files. Either VACUUM sees the re-added files, or the writer sees the START marker here.
Source: delta-spark's VACUUM (names of operations); docs/guides/maintenance.md "What may go on meanwhile".
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from slackwater.errors import ConcurrentWriteException, VersionNotFound
from slackwater.log.history import format_ms
from slackwater.scan.snapshot import Snapshot

START, END = "VACUUM START", "VACUUM END"
SIGN = "slackwater.vacuum"
"""The tag that pairs an END marker with its START marker. Markers of other engines have no such tag."""
SPARES = "slackwater.vacuum.sparesYoungerThanMs"
"""The tag with the minimum age of the untracked files that VACUUM deletes, in milliseconds."""
SPARED_BY_OTHERS_MS = 24 * 3_600_000
SIGN_OF_LIFE_MS = 10 * 60_000
"""Interval, in milliseconds, after which a running VACUUM commits its START marker again."""
AT_WORK_MS = 30 * 60_000
"""Milliseconds since its last START marker until VACUUM is treated as ended, because it may have been killed."""


@dataclass(frozen=True, slots=True)
class VacuumAtWork:
    """A running VACUUM, with a START marker in `version` at `begun_ms` and no END marker.

    Untracked files younger than `spares_ms` are not deleted. Times are in milliseconds.
    """

    version: int
    begun_ms: int
    spares_ms: int


def require_no_vacuum(snapshot: Snapshot, now_ms: int, what: str) -> None:
    """Raise ConcurrentWriteException if a VACUUM is running on the table of the newest version, `snapshot`.

    `what` names the blocked work. `now_ms` is compared with the modification times of commits in the store.
    """
    for found in vacuums_at_work(snapshot, now_ms):
        raise ConcurrentWriteException(
            f"{snapshot.store.root_url}: {what} needs files that a running VACUUM may delete. Version {found.version} "
            "records its start, no version records its end, and nothing was changed. Retry after its end, or from "
            f"{format_ms(found.begun_ms + AT_WORK_MS)} if it was killed"
        )


def vacuums_at_work(snapshot: Snapshot, now_ms: int) -> list[VacuumAtWork]:
    """Return the running VACUUMs of the table of `snapshot` at `now_ms`, newest first."""
    history = snapshot.history()
    recent = [version for version in reversed(history.versions) if history.file_ms(version) > now_ms - AT_WORK_MS]
    if not recent:
        return []

    def info_of(version: int) -> Mapping[str, Any]:
        try:
            return history.info(version)
        except VersionNotFound:
            # Log cleanup deleted the commit after the listing, so it was not recent.
            return {}

    with ThreadPoolExecutor(min(16, len(recent))) as pool:
        infos = list(pool.map(info_of, recent))
    found: list[VacuumAtWork] = []
    ended: set[str] = set()
    ends_without_sign = 0
    for version, info in zip(recent, infos, strict=True):
        operation, sign = info.get("operation"), _tag(info, SIGN)
        if operation == END and sign is None:
            ends_without_sign += 1
        elif operation == END and sign is not None:
            ended.add(sign)
        elif operation == START and sign is None and ends_without_sign:
            ends_without_sign -= 1
        elif operation == START and sign not in ended:
            spares = _tag(info, SPARES) or ""
            spares_ms = int(spares) if spares.isdecimal() else SPARED_BY_OTHERS_MS
            found.append(VacuumAtWork(version, history.file_ms(version), spares_ms))
    return found


def _tag(info: Mapping[str, Any], name: str) -> str | None:
    tags = info.get("tags")
    found = tags.get(name) if isinstance(tags, Mapping) else None
    return found if isinstance(found, str) else None
