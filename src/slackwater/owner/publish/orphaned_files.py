"""Staged files that no record names: what was left by processes that died, or by commits that were tried again.

Source: managed-commits.md "Commit Files" (mere existence means nothing).
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import PurePosixPath

from slackwater.protocol.actions.file_names import COMMITS_DIRECTORY, LogFileKind, parse_log_file, staged_path
from slackwater.storage.store import ObjectStore

GRACE_MS = 3_600_000
"""How old a staged file without a record must be before it is deleted: its commit may be under way."""


def unrecorded(
    store: ObjectStore, recorded: Collection[str], before_ms: int, from_version: int, after_ms: int = 0
) -> list[str]:
    """The staged files of versions from `from_version` on that `recorded` does not name.

    Of those that were changed after `after_ms` and before `before_ms`.

    Those of earlier versions are backfilled or never counted; metadata cleanup deletes them. `recorded` is to be read
    after `before_ms` was chosen and before this call; paths are relative to the table's root.
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
