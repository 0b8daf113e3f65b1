"""Time, randomness and ids of a transaction, and the user of its commits.

Source: delta-protocol.md "Commit Provenance Information"; docs/settings.md "Who commits".
"""

from __future__ import annotations

import getpass
import os
import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

USER_NAME_VARIABLE = "SLACKWATER_USER_NAME"
"""The environment variable with the user name of commits. A name passed to the commit takes precedence."""


@dataclass(frozen=True, slots=True)
class CommitAuthor:
    """The user of a commit in the history: the system's user number and user name, None if unknown."""

    user_id: str | None
    user_name: str | None


def system_user() -> CommitAuthor:
    """Return the user of this process. SLACKWATER_USER_NAME replaces the system's user name if set and not empty."""
    return CommitAuthor(_user_id(), os.environ.get(USER_NAME_VARIABLE) or _user_name())


@dataclass(frozen=True)
class Clock:
    """Time, randomness and ids, injected so that tests control them.

    `now_ms` returns milliseconds since the epoch. `sleep` takes seconds.
    """

    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random
    new_id: Callable[[], str] = lambda: str(uuid.uuid4())
    new_uuid: Callable[[], uuid.UUID] = uuid.uuid4
    user: Callable[[], CommitAuthor] = system_user


def _user_id() -> str | None:
    return str(os.geteuid()) if hasattr(os, "geteuid") else None


def _user_name() -> str | None:
    try:
        import pwd

        # The user database, because any user can set the environment. A container may have no entry.
        return pwd.getpwuid(os.geteuid()).pw_name
    except (ImportError, KeyError):
        pass
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return None
