"""Deadlines and retry delays of client calls."""

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
"""Maximum delay accepted from a server's `Retry-After`."""

_SHORTEST_ATTEMPT_S = 1.0
T = TypeVar("T")


@dataclass(frozen=True)
class ClientClock:
    """Clock of the client: monotonic seconds, waiting, and a random number in [0, 1) for jitter. Tests replace it."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random


class Deadline:
    """Time budget of one call in seconds, including all attempts."""

    def __init__(self, total_s: float, clock: ClientClock) -> None:
        self._clock = clock
        self._deadline = clock.monotonic() + total_s
        self._wait_s = FIRST_WAIT_S

    def attempt_s(self) -> float:
        """Return the timeout of the next attempt: two thirds of the rest, so that a further attempt has time."""
        return max(_SHORTEST_ATTEMPT_S, (self._deadline - self._clock.monotonic()) * 2 / 3)

    def wait(self, asked_s: float | None = None) -> bool:
        """Wait before the next attempt, with growing delays or for `asked_s`. Return False if time is up."""
        if asked_s is None:
            # Half of the delay is random, so that clients do not retry simultaneously.
            wait_s = self._wait_s * (0.5 + 0.5 * self._clock.jitter())
            self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)
        else:
            wait_s = min(max(asked_s, FIRST_WAIT_S), LONGEST_ASKED_WAIT_S)
        if self._clock.monotonic() + wait_s >= self._deadline:
            return False
        self._clock.sleep(wait_s)
        return True


def in_shares(ask: Callable[[float], T], total_s: float, share_s: float, clock: ClientClock) -> T:
    """Return the result of the lock request `ask`. Its argument is its waiting time, at most `share_s` per request.

    Repeats the request until `total_s` are over. Raises the last LockTimeout, and immediately a LockTimeout without
    waiting.
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
