"""What a job that failed leaves in its place, and what tasks of it that still run put there yet.

Spark ends a job at its first task that failed for good, and does not wait for the others: a worker in Python, and an
upload that is on its way, go on for a while.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

_FIRST_WAIT_S = 0.02
_MAX_REMOVALS = 8
# Twice as long after each look: the last one is over a minute after the job.
_MAX_LOOKS = 12


def remove_until_quiet(remove: Callable[[], bool]) -> None:
    """Call `remove`, which says whether it found anything, until it finds nothing; then more, for over a minute.

    The later calls are made in the background, as long as the main thread is alive, and what they raise is not told.
    """
    for attempt in range(_MAX_REMOVALS):
        found = remove()
        if attempt and not found:
            break
        time.sleep(_FIRST_WAIT_S * 2**attempt)
    if threading.main_thread().is_alive():
        # A daemon: the end of the process waits for no store.
        threading.Thread(target=_look_again, args=(remove,), name="slackwater-leftovers", daemon=True).start()


def _look_again(remove: Callable[[], bool]) -> None:
    for look in range(_MAX_LOOKS):
        threading.main_thread().join(_FIRST_WAIT_S * 2**look)
        if not threading.main_thread().is_alive():
            return
        # The caller knows of the failure already; a session, or a store, may be gone by now.
        with contextlib.suppress(Exception):
            remove()
