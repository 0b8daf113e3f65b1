"""Cleanup after a failed job, including files written later by tasks that still run.

Spark ends a job at the first task that fails permanently, and does not wait for the other tasks. Python workers and
uploads in progress continue for a while.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

_FIRST_WAIT_S = 0.02
_MAX_REMOVALS = 8
# The waiting time doubles after each removal; the last removal is over a minute after the job.
_MAX_LOOKS = 12


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
