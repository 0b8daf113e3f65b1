"""Time limits and growing delays of repeated attempts. The clock and the sleep are injected."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator


def backoff(first_s: float, longest_s: float) -> Iterator[float]:
    """Yield delays in seconds: `first_s`, then twice the previous delay, at most `longest_s`."""
    while True:
        yield first_s
        first_s = min(2 * first_s, longest_s)


class Deadline:
    """Time limit of a wait in steps. The longer of elapsed time and slept time is used up.

    A test's `sleep` may pass time unknown to the machine's clock. `delays` are the steps in seconds.
    """

    def __init__(
        self,
        timeout_s: float,
        delays: Iterator[float],
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._delays, self._sleep, self._monotonic = delays, sleep, monotonic
        self._timeout_s, self._started_s, self._slept_s = timeout_s, monotonic(), 0.0

    @property
    def left_s(self) -> float:
        """Remaining time in seconds, 0 or negative after the deadline."""
        return self._timeout_s - max(self._slept_s, self._monotonic() - self._started_s)

    def next_s(self) -> float:
        """Return the duration of the next step in seconds, at most the remaining time."""
        return max(0.0, min(next(self._delays), self.left_s))

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""
        self._sleep(seconds)
        self._slept_s += seconds
