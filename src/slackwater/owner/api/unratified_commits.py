"""Explains commits in a table's log unknown to the owner: possible causes and remedies.

Source: managed-commits.md "Commit Files", "Backfilled commit files".
"""

from __future__ import annotations

from contextlib import suppress

from slackwater.errors import StorageError
from slackwater.protocol.actions.file_names import commit_path, staged_path, version_prefix
from slackwater.storage.store import ObjectStore


def explained(store: ObjectStore, version: int) -> str:
    """Return the probable writer of `version` and the remedy. The text continues a message after a colon."""
    if _was_staged(store, version):
        return (
            "a commit owner ratified it, so this one's state is older than the table, as after a backup was restored, "
            "or another one is at work; stop every other owner, then run `slackwater lake recover`, which keeps what "
            "counts"
        )
    return (
        "somebody wrote it who did not ask the owner, or the owner's state is older than the table, as after a backup "
        "was restored: then run `slackwater lake recover`, which keeps what counts; only where you know that no owner "
        "wrote it, move it, and what follows it, out of the log, then run `slackwater lake repair`"
    )


def _was_staged(store: ObjectStore, version: int) -> bool:
    """Return whether the log's `version` has an equal staged file. Only owners stage files."""
    with suppress(StorageError):
        data = store.read(commit_path(version))
        prefix = f"{staged_path(version_prefix(version))}."
        for meta in store.list_from(staged_path("").rstrip("/"), prefix):
            if not meta.path.startswith(prefix):
                break
            if meta.size_bytes == len(data) and store.read(meta.path) == data:
                return True
    return False
