"""How long, and in which steps, an answer that does not come is waited for."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from slackwater.errors import LockTimeout

FIRST_WAIT_S = 0.05
LONGEST_WAIT_S = 2.0
LONGEST_ASKED_WAIT_S = 5.0
"""No server makes a client wait longer than this before it asks again."""

_SHORTEST_ATTEMPT_S = 1.0
T = TypeVar("T")


@dataclass(frozen=True)
class ClientClock:
    """Passed in so that tests own it: seconds that only go forward, waiting, and a number in [0, 1) for the jitter."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random


class Deadline:
    """The time that one call has, in seconds, all its attempts together."""

    def __init__(self, total_s: float, clock: ClientClock) -> None:
        self._clock = clock
        self._deadline = clock.monotonic() + total_s
        self._wait_s = FIRST_WAIT_S

    def attempt_s(self) -> float:
        """For how long the next attempt waits for its answer: most of what is left, so that another one has time."""
        return max(_SHORTEST_ATTEMPT_S, (self._deadline - self._clock.monotonic()) * 2 / 3)

    def wait(self, asked_s: float | None = None) -> bool:
        """Wait before the next attempt, longer each time or as long as was asked; False where time is up."""
        if asked_s is None:
            # Half of it is chance: those who failed together do not come back together.
            wait_s = self._wait_s * (0.5 + 0.5 * self._clock.jitter())
            self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)
        else:
            wait_s = min(max(asked_s, FIRST_WAIT_S), LONGEST_ASKED_WAIT_S)
        if self._clock.monotonic() + wait_s >= self._deadline:
            return False
        self._clock.sleep(wait_s)
        return True


def in_shares(ask: Callable[[float], T], total_s: float, share_s: float, clock: ClientClock) -> T:
    """What `ask` for locks answers, which is told for how many seconds to wait: at most `share_s` at once.

    It is asked again until `total_s` are over. Raises the last LockTimeout, and at once one that is not of waiting.
    """
    deadline = clock.monotonic() + total_s
    left_s = total_s
    while True:
        this_s, asked = min(left_s, share_s), clock.monotonic()
        try:
            return ask(this_s)
        except LockTimeout:
            now = clock.monotonic()
            left_s = deadline - now
            if left_s <= 0 or now - asked < this_s / 2:
                raise
