"""Clock, waiting and identities of an owner, and detection of crashed lease holders."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

LEASE_MS = 30_000
"""Duration of a lease. A holder that needs more time renews the lease."""
# States of an ended process before its parent has fetched the exit status.
_ENDED = ("Z", "X")
_STANDS_STILL_MS = 1000


def this_process() -> str:
    """Return `host:pid:start`, unique even if the system reuses the process id."""
    return f"{socket.gethostname()}:{os.getpid()}:{_started(os.getpid())}"


def system_ms() -> int:
    """Return the time of this machine's clock in ms since the epoch."""
    return time.time_ns() // 1_000_000


class ClockPacing:
    """Pace of a process whose time is ahead of its clock. Thread-safe.

    The time advances at 90 % of real time, so that the lead vanishes in about ten times its length. Leases last hardly
    longer than intended. During the last second of the lead, the time does not advance.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest_ms = 0
        # Start of the slower pace: elapsed time and owner's time.
        self._since: tuple[int, int] | None = None

    def time(self, elapsed_ms: int, clock_ms: int, least_ms: int) -> int:
        """Return the time for the clock value `clock_ms`, at least `least_ms`.

        `elapsed_ms` is the time since an arbitrary start, independent of clock settings.
        """
        with self._lock:
            given_ms = max(clock_ms, least_ms)
            is_behind = max(self._latest_ms, least_ms) - clock_ms > _STANDS_STILL_MS
            if self._since is not None and is_behind and elapsed_ms >= self._since[0]:
                then_ms, was_ms = self._since
                self._latest_ms = max(self._latest_ms, was_ms + (elapsed_ms - then_ms) * 9 // 10)
            if given_ms >= self._latest_ms or self._since is None or not is_behind or elapsed_ms < self._since[0]:
                self._latest_ms = max(self._latest_ms, given_ms)
                self._since = elapsed_ms, self._latest_ms
            return self._latest_ms


@dataclass(frozen=True)
class OwnerClock:
    """Clock of an owner: ms since the epoch, seconds to wait, new UUIDs, name of this process. Tests replace it.

    `elapsed_ms` advances in real time, independent of clock settings. If None, it uses the monotonic clock for this
    machine's clock, and the value of `now_ms` for any other clock.
    """

    now_ms: Callable[[], int] = system_ms
    sleep: Callable[[float], None] = time.sleep
    new_id: Callable[[], str] = lambda: str(uuid.uuid4())
    holder: str = field(default_factory=this_process)
    elapsed_ms: Callable[[], int] | None = None
    pace: ClockPacing = field(default_factory=ClockPacing, compare=False, repr=False)

    @property
    def is_machines(self) -> bool:
        """True for this machine's clock. A shared clock of a database server is preferable."""
        return self.now_ms is system_ms

    def goes_on(self, clock_ms: int, least_ms: int) -> int:
        """Return the time of this process for the clock value `clock_ms`, at least `least_ms`."""
        if self.elapsed_ms is not None:
            elapsed_ms = self.elapsed_ms()
        else:
            elapsed_ms = time.monotonic_ns() // 1_000_000 if self.is_machines else clock_ms
        return self.pace.time(elapsed_ms, clock_ms, least_ms)


def is_dead(holder: str) -> bool:
    """Return whether `holder` was a process of this machine and has ended. False for other machines: unknown."""
    parts = holder.rsplit(":", 2)
    if len(parts) != 3 or parts[0] != socket.gethostname() or not parts[1].isdigit():
        return False
    pid, started = int(parts[1]), parts[2]
    if pid == os.getpid():
        return started != _started(pid)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return _started(pid) != started


def _started(pid: int) -> str:
    """Return the start time of the process, in the system's unit. `0` if unknown, `ended` for a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return "0"
    # Split after the last bracket, because the process name may contain anything. The state and numbers follow.
    fields = text.rpartition(")")[2].split()
    return "ended" if fields[0] in _ENDED else fields[19]
