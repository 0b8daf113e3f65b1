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

T = TypeVar("T")


@dataclass(frozen=True)
class ClientClock:
    """Clock of the client: monotonic seconds, waiting, and a random number in [0, 1) for jitter. Tests replace it."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random


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
