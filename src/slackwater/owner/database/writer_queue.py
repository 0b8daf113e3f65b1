"""Fair lock for SQLite writers, based on flock(2), with a timeout.

A process suspended while it holds the lock blocks all other writers until it continues or exits.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from slackwater.errors import CommitOwnerUnavailable
from slackwater.owner.database.private_files import create_private

try:
    import fcntl
except ImportError:  # Windows: only SQLite's own waiting is available.
    fcntl = None  # type: ignore[assignment]

_STOPPED = ("T", "t")


class WriterQueue:
    """Lock for one writer at a time among threads and processes of this machine, in the order of arrival."""

    def __init__(self, database: Path, patience_s: float) -> None:
        """Use a lock file next to the database, created if missing, with the access mode of the database."""
        self._database = database
        self._path = database.with_name(f"{database.name}.lock")
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._file: int | None = None
        self._pid = os.getpid()

    def __enter__(self) -> None:
        """Acquire the lock. Raises CommitOwnerUnavailable with the lock holder after a timeout, without effect."""
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
        """Close the lock file."""
        if self._file is not None and self._pid == os.getpid():
            os.close(self._file)
        self._file = None

    def _lock_file(self) -> None:
        if self._file is None or self._pid != os.getpid():
            # Reopen after a fork, because the lock belongs to the open file and would be shared with the parent.
            self._file, self._pid = create_private(self._path, like=self._database), os.getpid()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._queue(self._file)

    def _queue(self, file: int) -> None:
        """Wait in the queue of the system, in a separate thread, because flock(2) cannot time out."""
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
        # The thread now owns the file and closes it after it acquires the lock.
        self._file = None
        raise self._kept(_holders(self._path))

    def _kept(self, by: str) -> CommitOwnerUnavailable:
        error = CommitOwnerUnavailable(
            f"timed out after {self._patience_s:g} s waiting for the lock {self._path}, held by {by}. Nothing was "
            "changed. Resume or stop its holder, then retry"
        )
        error.changed_nothing = True
        return error


class _Waiter(threading.Thread):
    """Thread that locks a file. After a timeout of the caller, this thread closes the file."""

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
        """Return whether the file is locked. If not, the caller abandons the file."""
        with self._decided:
            if not self._is_locked:
                self._is_given_up = True
            return self._is_locked


def _holders(path: Path) -> str:
    """Return a description of the processes with a lock on the file, if known to the system."""
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
