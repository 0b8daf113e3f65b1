"""Staging directories for the rows written by one job.

On local disks and on Hadoop file systems, the staging directory is a hidden directory of the table. Its files move to
their final names after all files are written. In an object store a move is a copy, so the files stay in place there, in
a directory with a unique name.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from slackwater.errors import StorageError, StorageRefused
from slackwater.spark.hadoop.store import HadoopStore
from slackwater.storage.conditional_puts import put_assuming_single_writer
from slackwater.storage.store import HIDDEN, ObjectStore

_FIRST_WAIT_S = 0.02
_MAX_REMOVALS = 8
# The waiting time doubles after each removal; the last removal is over a minute after the job.
_MAX_LOOKS = 12


@dataclass
class Staging:
    """The staging directory `rows`, by its path in `store`.

    The final files are in `directory`, or in the root if empty.
    """

    store: ObjectStore
    rows: str
    directory: str
    stays: bool = False
    kept: set[str] = field(default_factory=set)

    def token(self) -> str:
        """Write a file with unique content next to the rows, and return its path, so that Spark can be tested on it."""
        path = f"{self.rows.rpartition('/')[0]}/token"
        put_assuming_single_writer(self.store, path, uuid.uuid4().bytes, durable=False)
        return path

    def final_path(self, path: str, name: str) -> str:
        """Return the final path of the file at `path`: `name` in the directory.

        The path is final if files stay in place.
        """
        if self.stays:
            return path
        return f"{self.directory}/{name}" if self.directory else name

    def keep(self, path: str, final_path: str) -> None:
        """Move the file at `path` to `final_path` and keep it."""
        self.kept.add(path)
        if path != final_path:
            self.store.move(path, final_path)


@contextlib.contextmanager
def staging_for(store: ObjectStore, directory: str = "") -> Iterator[Staging]:
    """Yield a staging directory for the rows of one job. After the block, only kept files remain.

    After an error, all files of the staging directory are deleted. Deletion is repeated in the background for over a
    minute, because tasks may still write files. Raises StorageRefused if the directory is not writable.
    """
    if store.local_root is not None:
        with _hidden(store, Path(store.local_root)) as hidden:
            yield Staging(store, f"{hidden}/rows", directory)
        return
    if isinstance(store, HadoopStore):
        with _hidden_on_hadoop(store) as hidden:
            yield Staging(store, f"{hidden}/rows", directory)
        return
    name = str(uuid.uuid4())
    staging = Staging(store, f"{directory}/{name}" if directory else name, directory, stays=True)
    try:
        yield staging
    except BaseException:
        with contextlib.suppress(StorageError):
            remove_until_quiet(partial(_remove_objects, staging))
        raise
    with contextlib.suppress(StorageError):
        left = [meta.path for meta in store.list_from(staging.rows, recursive=True)]
        store.delete([path for path in left if path not in staging.kept])


@contextlib.contextmanager
def _hidden(store: ObjectStore, root: Path) -> Iterator[str]:
    is_new = not root.exists()
    hidden = f"{HIDDEN}{uuid.uuid4()}"
    try:
        (root / hidden).mkdir(parents=True)
    except OSError as error:
        raise StorageRefused(
            f"{store.root_url}: no files can be written there: {error}. Nothing was changed. Check the path, its "
            "permissions and the disk"
        ) from error
    try:
        yield hidden
    except BaseException:
        remove_until_quiet(partial(_remove, root / hidden, is_new))
        raise
    shutil.rmtree(root / hidden, ignore_errors=True)


@contextlib.contextmanager
def _hidden_on_hadoop(store: HadoopStore) -> Iterator[str]:
    is_new = not store.is_directory("")
    hidden = f"{HIDDEN}{uuid.uuid4()}"
    store.make_directory(hidden)
    try:
        yield hidden
    except BaseException:
        with contextlib.suppress(StorageError):
            remove_until_quiet(partial(_remove_on_hadoop, store, hidden, is_new))
        raise
    with contextlib.suppress(StorageError):
        store.remove_directory(hidden)


def _remove(directory: Path, with_parent: bool) -> bool:
    if not directory.exists():
        return False
    shutil.rmtree(directory, ignore_errors=True)
    if with_parent:
        with contextlib.suppress(OSError):
            directory.parent.rmdir()
    return True


def _remove_on_hadoop(store: HadoopStore, directory: str, with_parent: bool) -> bool:
    if not store.is_directory(directory):
        return False
    store.remove_directory(directory)
    if with_parent:
        store.remove_directory("", recursive=False)
    return True


def _remove_objects(staging: Staging) -> bool:
    """Delete the staged objects. Objects that cannot be deleted remain, under a name used by no other write."""
    left = [meta.path for meta in staging.store.list_from(staging.rows, recursive=True)]
    staging.store.delete(left)
    return bool(left)


def remove_until_quiet(remove: Callable[[], bool]) -> None:
    """Call `remove` at least twice, until it returns False, at most 8 times. Then repeat it in the background.

    `remove` returns whether it found files. The background calls go on for over a minute. They end with the main
    thread, and ignore errors.
    """
    for attempt in range(_MAX_REMOVALS):
        found = remove()
        if attempt and not found:
            break
        time.sleep(_FIRST_WAIT_S * 2**attempt)
    if threading.main_thread().is_alive():
        # A daemon, so that the end of the process does not wait for a store.
        threading.Thread(target=_look_again, args=(remove,), name="slackwater-leftovers", daemon=True).start()


def _look_again(remove: Callable[[], bool]) -> None:
    for look in range(_MAX_LOOKS):
        threading.main_thread().join(_FIRST_WAIT_S * 2**look)
        if not threading.main_thread().is_alive():
            return
        # Ignored, because the caller already has the first error, and the session or store may be closed.
        with contextlib.suppress(Exception):
            remove()
