"""Staged files without a record, left by crashed processes or by retried commits.

Source: managed-commits.md "Commit Files" (mere existence means nothing).
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import PurePosixPath

from slackwater.protocol.actions.file_names import COMMITS_DIRECTORY, LogFileKind, parse_log_file, staged_path
from slackwater.storage.store import ObjectStore

GRACE_MS = 3_600_000
"""Minimum age of a staged file without a record before its deletion, because its commit may be in progress."""


def unrecorded(
    store: ObjectStore, recorded: Collection[str], before_ms: int, from_version: int, after_ms: int = 0
) -> list[str]:
    """Return the staged files from `from_version` on, missing in `recorded`.

    The files were changed at or after `after_ms` and before `before_ms`. Files of earlier versions were backfilled or
    never ratified. Metadata cleanup deletes them. Choose `before_ms` first, then read `recorded`, then call. Paths are
    relative to the table's root.
    """
    found = []
    for meta in store.list_from(staged_path("").rstrip("/")):
        name = PurePosixPath(meta.path).name
        file = parse_log_file(f"{COMMITS_DIRECTORY}/{name}")
        if file is None or file.kind is not LogFileKind.STAGED_COMMIT or file.version < from_version:
            continue
        if name not in recorded and after_ms <= meta.modified_ms < before_ms:
            found.append(meta.path)
    return found
