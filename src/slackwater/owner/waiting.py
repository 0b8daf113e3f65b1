"""Waiting until something was ratified or given back, by this process or by another."""

from __future__ import annotations

import threading

_LONGEST_WAIT_S = 0.02


class Changes:
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
