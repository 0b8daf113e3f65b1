"""Deletes a table permanently: the log first, oldest version first, then all other files."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from slackwater.maintenance.vacuum_candidates import abandoned_files
from slackwater.protocol.actions.file_names import LOG
from slackwater.storage.store import ObjectStore

_BATCH = 1000


def delete_all(store: ObjectStore) -> int:
    """Delete every object of a table without active writers. Return the number of objects.

    The log is deleted first, oldest version first. A concurrent reader finds an incomplete log, and never an older
    state of the table. Raises StorageError. The remaining objects then exist and can be deleted manually.
    """
    log = [meta.path for meta in store.list_from(LOG, recursive=True)]
    beside = [meta.path for meta in store.list_from("", recursive=True) if not meta.path.startswith(f"{LOG}/")]
    paths = [*log, *beside]
    for start in range(0, len(paths), _BATCH):
        store.delete(paths[start : start + _BATCH])
    # No listing has the files that killed writers left unfinished.
    store.delete([meta.path for meta in abandoned_files(store, sys.maxsize)])
    if store.local_root is not None:
        _delete_directories(Path(store.local_root))
    return len(paths)


def _delete_directories(root: Path) -> None:
    # Files of concurrent writers remain, with their directories.
    for directory, _, _ in os.walk(root, topdown=False):
        with contextlib.suppress(OSError):
            Path(directory).rmdir()
