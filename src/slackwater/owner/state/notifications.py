"""Waiting until something was ratified or given back, by this process or by another."""

from __future__ import annotations

import threading
from collections.abc import Callable

FIRST_WAIT_S = 0.001
"""How long is waited at first; each further time it is longer."""
DOUBT_EVERY = 10
"""Whether those who come first are dead is asked when they have been waited for so often."""

_LONGEST_WAIT_S = 0.02


class ChangeNotifier:
    """Wakes the threads of this process that wait; what other processes do is looked for again after a moment."""

    def __init__(self) -> None:
        self._changed = threading.Condition()

    def notify(self) -> None:
        """Something changed."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait for a change, at most `seconds`, and never long."""
        with self._changed:
            self._changed.wait(min(_LONGEST_WAIT_S, seconds))


class WaitLoop:
    """One who waits for others again and again; now and then `doubt` sees to those who are gone."""

    def __init__(self, changes: ChangeNotifier, doubt: Callable[[], None]) -> None:
        self._changes = changes
        self._doubt = doubt
        self._count = 0

    def wait(self, num_before: int = 0) -> None:
        """Wait, longer than the time before, and for `num_before` who come first."""
        self._count += 1
        if self._count % DOUBT_EVERY == 0:
            self._doubt()
        self._changes.wait(FIRST_WAIT_S * (num_before + self._count))
