"""Time, waiting and identities of an owner, and whether a process that holds something still lives."""

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
"""How long the holder of a lease counts as alive; a holder that needs longer renews it."""
# States of a process that has ended, but whose parent has not fetched its status.
_ENDED = ("Z", "X")
_STANDS_STILL_MS = 1000


def this_process() -> str:
    """`host:pid:start`, which no other process has, also where the system gives the number out again."""
    return f"{socket.gethostname()}:{os.getpid()}:{_started(os.getpid())}"


def system_ms() -> int:
    """What this machine's clock says, in ms since the epoch."""
    return time.time_ns() // 1_000_000


class ClockPacing:
    """How a process goes on from what it has seen of a time that is ahead of its own clock: for threads.

    A little slower than time passes, so that the lead is worked off in about ten times as long, and leases last hardly
    longer than they are to; the last second of it stands still.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest_ms = 0
        # From when on it goes at its own pace, and what time it was then.
        self._since: tuple[int, int] | None = None

    def time(self, elapsed_ms: int, clock_ms: int, least_ms: int) -> int:
        """What time it is where a clock says `clock_ms`, and it is `least_ms` at least.

        `elapsed_ms` is from some beginning until now, however that clock was set.
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
    """Passed in so that tests own it: ms since the epoch, seconds to wait, fresh UUIDs, this process's name.

    `elapsed_ms` passes as time does, wherever the clock is set to; None: as the clock does, where it is not this
    machine's.
    """

    now_ms: Callable[[], int] = system_ms
    sleep: Callable[[float], None] = time.sleep
    new_id: Callable[[], str] = lambda: str(uuid.uuid4())
    holder: str = field(default_factory=this_process)
    elapsed_ms: Callable[[], int] | None = None
    pace: ClockPacing = field(default_factory=ClockPacing, compare=False, repr=False)

    @property
    def is_machines(self) -> bool:
        """Whether it is that of this machine, in place of which a server's that all share is better."""
        return self.now_ms is system_ms

    def goes_on(self, clock_ms: int, least_ms: int) -> int:
        """What time it is for this process where a clock says `clock_ms`, and it is `least_ms` at least."""
        if self.elapsed_ms is not None:
            elapsed_ms = self.elapsed_ms()
        else:
            elapsed_ms = time.monotonic_ns() // 1_000_000 if self.is_machines else clock_ms
        return self.pace.time(elapsed_ms, clock_ms, least_ms)


def is_dead(holder: str) -> bool:
    """Whether `holder` was a process of this machine and has ended; False for another machine: that is not known."""
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
    """When the process began, in the system's own unit; `0` where the system does not tell, `ended` for a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return "0"
    # The name may hold anything; what follows its bracket is the state, then numbers.
    fields = text.rpartition(")")[2].split()
    return "ended" if fields[0] in _ENDED else fields[19]
