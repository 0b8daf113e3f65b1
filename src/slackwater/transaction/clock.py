"""Time, chance and identities of a transaction."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """Time, chance and identities, passed in so that tests own them: ms since the epoch, seconds to sleep."""

    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random
    new_id: Callable[[], str] = lambda: str(uuid.uuid4())
    new_uuid: Callable[[], uuid.UUID] = uuid.uuid4
