"""Explains commits in a table's log unknown to the owner: possible causes and remedies.

Source: managed-commits.md "Commit Files", "Backfilled commit files".
"""

from __future__ import annotations

from contextlib import suppress

from slackwater.errors import StorageError
from slackwater.owner.api.staged_files import staged_files
from slackwater.protocol.actions.file_names import commit_path
from slackwater.storage.store import ObjectStore


def explained(store: ObjectStore, version: int) -> str:
    """Return the probable writer of `version` and the remedy. The text continues a message after a colon."""
    if _was_staged(store, version):
        return (
            "a commit owner ratified it. Either this owner's state is older than the table, as after the restore of a "
            "backup, or another owner is running. Stop every other owner, then run `slackwater lake recover`, which "
            "retains committed versions"
        )
    return (
        "a writer bypassed the owner, or a restored backup made the owner's state older than the table. After a "
        "restore, run `slackwater lake recover`. Only if no owner wrote the version, move it and all later ones out "
        "of the log, then run `slackwater lake repair`"
    )


def _was_staged(store: ObjectStore, version: int) -> bool:
    """Return whether the log's `version` has an equal staged file. Only owners stage files."""
    with suppress(StorageError):
        data = store.read(commit_path(version))
        for staged in staged_files(store, version):
            is_candidate = staged.file.version == version and staged.meta.size_bytes == len(data)
            if is_candidate and store.read(staged.meta.path) == data:
                return True
    return False
