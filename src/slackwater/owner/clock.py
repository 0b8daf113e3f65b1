"""Time, waiting and identities of an owner, and whether a process that holds something still lives."""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

# States of a process that has ended, but whose parent has not fetched its status.
_ENDED = ("Z", "X")


def this_process() -> str:
    """`host:pid:start`, which no other process has, also where the system gives the number out again."""
    return f"{socket.gethostname()}:{os.getpid()}:{_started(os.getpid())}"


@dataclass(frozen=True)
class OwnerClock:
    """Passed in so that tests own it: ms since the epoch, seconds to wait, fresh UUIDs, this process's name."""

    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    sleep: Callable[[float], None] = time.sleep
    new_id: Callable[[], str] = lambda: str(uuid.uuid4())
    holder: str = field(default_factory=this_process)


def is_dead(holder: str) -> bool:
    """Whether `holder` was a process of this machine and is no more; of another machine nobody can say."""
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
