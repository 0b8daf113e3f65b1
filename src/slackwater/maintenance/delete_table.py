"""Deleting a table for good: its log first, from its first version on, then everything else at its place."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from slackwater.protocol.actions.file_names import LOG
from slackwater.storage.store import ObjectStore

_BATCH = 1000


def delete_all(store: ObjectStore) -> int:
    """Delete every object at the place of a table that is not written to any more; how many there were.

    The log goes first, oldest version before newer ones: who opens the table meanwhile finds that it lacks its
    beginning, and never an older state of it. Raises StorageError: the rest is there then, and may be deleted by hand.
    """
    log = [meta.path for meta in store.list_from(LOG, recursive=True)]
    beside = [meta.path for meta in store.list_from("", recursive=True) if not meta.path.startswith(f"{LOG}/")]
    paths = [*log, *beside]
    for start in range(0, len(paths), _BATCH):
        store.delete(paths[start : start + _BATCH])
    if store.local_root is not None:
        _delete_directories(Path(store.local_root))
    return len(paths)


def _delete_directories(root: Path) -> None:
    # What others put there meanwhile stays, and its directories.
    for directory, _, _ in os.walk(root, topdown=False):
        with contextlib.suppress(OSError):
            Path(directory).rmdir()
