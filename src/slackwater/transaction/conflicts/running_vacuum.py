"""Whether a VACUUM deletes files of a table just now, as its history tells: then no file is to come back to it.

A VACUUM says when it begins and when it has ended, and looks at the log in between, so of two that do not know of each
other one comes first in the log: either it sees the files that came back, or who brings them back sees it here.
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
"""The tag by which an end is told to be that of a beginning; others' commits have none."""
SPARES = "slackwater.vacuum.sparesYoungerThanMs"
"""The tag that says how old the files at least are that go though the log never named them."""
SPARED_BY_OTHERS_MS = 24 * 3_600_000
SIGN_OF_LIFE_MS = 10 * 60_000
"""So often a VACUUM that lasts says again that it has begun."""
AT_WORK_MS = 30 * 60_000
"""For so long after it said so a VACUUM that has not ended counts as one at work: it may have been killed."""


@dataclass(frozen=True, slots=True)
class VacuumAtWork:
    """A VACUUM that has begun by `version`, of the time `begun_ms`, and not ended.

    It leaves files that the log never named alone where they are younger than `spares_ms`.
    """

    version: int
    begun_ms: int
    spares_ms: int


def require_no_vacuum(snapshot: Snapshot, now_ms: int, what: str) -> None:
    """Raise ConcurrentWriteException where a VACUUM is at work on the newest version, `snapshot`; `what` is in its way.

    `now_ms` is compared with the times that the commits bear in their store.
    """
    for found in vacuums_at_work(snapshot, now_ms):
        raise ConcurrentWriteException(
            f"{snapshot.store.root_url}: {what} needs files that a VACUUM may be about to delete: version "
            f"{found.version} says that one has begun, and none that it has ended; nothing was changed. Repeat the "
            f"work when it has ended. Where it was killed it counts as ended from "
            f"{format_ms(found.begun_ms + AT_WORK_MS)} on"
        )


def vacuums_at_work(snapshot: Snapshot, now_ms: int) -> list[VacuumAtWork]:
    """Those that have begun on the table of `snapshot` and not ended, as of now, the newest first."""
    history = snapshot.history()
    recent = [version for version in reversed(history.versions) if history.file_ms(version) > now_ms - AT_WORK_MS]
    if not recent:
        return []

    def info_of(version: int) -> Mapping[str, Any]:
        try:
            return history.info(version)
        except VersionNotFound:
            # Cleaned up since it was listed: it was not so young.
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
