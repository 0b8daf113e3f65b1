"""Whose turn it is to write to a SQLite database: a queue of the operating system, waited in for so long and no longer.

A process that is stopped during its turn keeps all others from theirs, until it goes on or ends.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from slackwater.errors import CommitOwnerUnavailable
from slackwater.owner.database.private_files import create_private

try:
    import fcntl
except ImportError:  # Windows: SQLite's own waiting has to do.
    fcntl = None  # type: ignore[assignment]

_STOPPED = ("T", "t")


class WriterQueue:
    """One writer at a time, of this process and of others on this machine, in the order of their coming."""

    def __init__(self, database: Path, patience_s: float) -> None:
        """A file beside the database is locked, which is made where it is not there, for those that may write it."""
        self._database = database
        self._path = database.with_name(f"{database.name}.lock")
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._file: int | None = None
        self._pid = os.getpid()

    def __enter__(self) -> None:
        """Raises CommitOwnerUnavailable where others keep it for too long, naming who: then nothing was done."""
        if not self._lock.acquire(timeout=self._patience_s):
            raise self._kept("another thread of this process")
        try:
            if fcntl is not None:
                self._lock_file()
        except BaseException:
            self._lock.release()
            raise

    def __exit__(self, *error: object) -> None:
        try:
            if self._file is not None:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        finally:
            self._lock.release()

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None and self._pid == os.getpid():
            os.close(self._file)
        self._file = None

    def _lock_file(self) -> None:
        if self._file is None or self._pid != os.getpid():
            # A lock belongs to the open file: one that a parent process opened would be shared with it.
            self._file, self._pid = create_private(self._path, like=self._database), os.getpid()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._queue(self._file)

    def _queue(self, file: int) -> None:
        """Wait in the system's queue: that cannot be told to end, so a thread of its own does."""
        waiter = _Waiter(file)
        waiter.start()
        try:
            waiter.join(self._patience_s)
        except BaseException:
            if waiter.has_lock():
                fcntl.flock(file, fcntl.LOCK_UN)
            else:
                self._file = None
            raise
        if waiter.has_lock():
            return
        # The thread has the file now, and lets go of it when its turn comes at last.
        self._file = None
        raise self._kept(_holders(self._path))

    def _kept(self, by: str) -> CommitOwnerUnavailable:
        error = CommitOwnerUnavailable(
            f"{self._path} was kept for more than {self._patience_s:g} s by {by}: let it go on, or end it; nothing was "
            "changed, try again then"
        )
        error.changed_nothing = True
        return error


class _Waiter(threading.Thread):
    """Locks a file, however long that takes; where the caller gives up meanwhile, this thread closes the file."""

    def __init__(self, file: int) -> None:
        super().__init__(name="slackwater-turn", daemon=True)
        self._file = file
        self._decided = threading.Lock()
        self._is_locked = False
        self._is_given_up = False

    def run(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        with self._decided:
            self._is_locked = True
            if self._is_given_up:
                os.close(self._file)

    def has_lock(self) -> bool:
        """Whether the file is locked; if not, it is given up."""
        with self._decided:
            if not self._is_locked:
                self._is_given_up = True
            return self._is_locked


def _holders(path: Path) -> str:
    """Who has the file locked, as far as the system tells."""
    try:
        inode = str(path.stat().st_ino)
        lines = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
    except OSError:
        return "another process"
    # 12: FLOCK ADVISORY WRITE 4711 08:01:1234 0 EOF
    pids = {int(f[4]) for f in lines if len(f) > 5 and f[1] == "FLOCK" and f[5].rpartition(":")[2] == inode}
    told = [f"process {pid}{_state(pid)}" for pid in sorted(pids)]
    return " and ".join(told) or "another process"


def _state(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    return ", which is stopped" if text.rpartition(")")[2].split()[0] in _STOPPED else ""
