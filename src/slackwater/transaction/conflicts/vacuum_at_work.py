"""Whether a VACUUM deletes files of a table just now, as its history tells: then no file is to come back to it.

A VACUUM says when it begins and when it has ended, and looks at the log in between, so of two that do not know of each
other one comes first in the log: either it sees the files that came back, or who brings them back sees it here.
Source: delta-spark's VACUUM (names of operations); docs/guides/maintenance.md "What may go on meanwhile".
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from slackwater.errors import ConcurrentWriteException, VersionNotFound
from slackwater.log.history import CommitHistory, format_ms
from slackwater.scan.snapshot import Snapshot

START, END = "VACUUM START", "VACUUM END"
SIGN = "slackwater.vacuum"
"""The tag by which an end is told to be that of a beginning; others' commits have none."""
SIGN_OF_LIFE_MS = 10 * 60_000
"""So often a VACUUM that lasts says again that it has begun."""
AT_WORK_MS = 30 * 60_000
"""For so long after it said so a VACUUM that has not ended counts as one at work: it may have been killed."""


def require_no_vacuum(snapshot: Snapshot, now_ms: int, what: str) -> None:
    """Raise ConcurrentWriteException where a VACUUM is at work on the newest version, `snapshot`; `what` is in its way.

    `now_ms` is compared with the times that the commits bear in their store.
    """
    history = snapshot.history()
    version = _begun(history, now_ms)
    if version is not None:
        until = format_ms(history.file_ms(version) + AT_WORK_MS)
        raise ConcurrentWriteException(
            f"{snapshot.store.root_url}: {what} needs files that a VACUUM may be about to delete: version {version} "
            "says that one has begun, and none that it has ended; nothing was changed. Repeat the work when it has "
            f"ended. Where it was killed it counts as ended from {until} on"
        )


def _begun(history: CommitHistory, now_ms: int) -> int | None:
    """The newest version of a VACUUM that has begun and not ended."""
    recent = [version for version in reversed(history.versions) if history.file_ms(version) > now_ms - AT_WORK_MS]
    if not recent:
        return None

    def info_of(version: int) -> Mapping[str, Any]:
        try:
            return history.info(version)
        except VersionNotFound:
            # Cleaned up since it was listed: it was not so young.
            return {}

    with ThreadPoolExecutor(min(16, len(recent))) as pool:
        infos = list(pool.map(info_of, recent))
    ended: set[str] = set()
    ends_without_sign = 0
    for version, info in zip(recent, infos, strict=True):
        operation, sign = info.get("operation"), _sign(info)
        if operation == END and sign is None:
            ends_without_sign += 1
        elif operation == END and sign is not None:
            ended.add(sign)
        elif operation == START and sign is None and ends_without_sign:
            ends_without_sign -= 1
        elif operation == START and sign not in ended:
            return version
    return None


def _sign(info: Mapping[str, Any]) -> str | None:
    tags = info.get("tags")
    found = tags.get(SIGN) if isinstance(tags, Mapping) else None
    return found if isinstance(found, str) else None
