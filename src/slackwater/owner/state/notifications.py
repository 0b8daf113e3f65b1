"""Waiting for ratified or released commits, of this process or of another."""

from __future__ import annotations

import threading
from collections.abc import Callable

FIRST_WAIT_S = 0.001
"""Duration of the first wait. Each further wait is longer."""
DOUBT_EVERY = 10
"""Number of waits between checks for crashed processes of earlier commits."""

_LONGEST_WAIT_S = 0.02


class ChangeNotifier:
    """Wakes waiting threads of this process. A short timeout covers changes by other processes."""

    def __init__(self) -> None:
        self._changed = threading.Condition()

    def notify(self) -> None:
        """Wake the waiting threads after a change."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait for a change, at most `seconds`, and at most 20 ms."""
        with self._changed:
            self._changed.wait(min(_LONGEST_WAIT_S, seconds))


class WaitLoop:
    """Repeated waiting for other commits. From time to time, `doubt` handles crashed processes."""

    def __init__(self, changes: ChangeNotifier, doubt: Callable[[], None]) -> None:
        self._changes = changes
        self._doubt = doubt
        self._count = 0

    def wait(self, num_before: int = 0) -> None:
        """Wait, longer at each call and for a larger `num_before` (number of earlier commits)."""
        self._count += 1
        if self._count % DOUBT_EVERY == 0:
            self._doubt()
        self._changes.wait(FIRST_WAIT_S * (num_before + self._count))
