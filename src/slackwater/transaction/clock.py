"""Time, chance and identities of a transaction: its own, and who makes it.

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
"""The environment variable that names who commits, where nothing nearer does."""


@dataclass(frozen=True, slots=True)
class CommitAuthor:
    """Who commits, as histories tell it: by the number and the name that the system has for the user, None for none."""

    user_id: str | None
    user_name: str | None


def system_user() -> CommitAuthor:
    """The user of this process, under the name of SLACKWATER_USER_NAME where that is set and not empty."""
    return CommitAuthor(_user_id(), os.environ.get(USER_NAME_VARIABLE) or _user_name())


@dataclass(frozen=True)
class Clock:
    """Time, chance and identities, passed in so that tests own them: ms since the epoch, seconds to sleep."""

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

        # What the system says, and not the environment, which anybody may set; a container may know no name.
        return pwd.getpwuid(os.geteuid()).pw_name
    except (ImportError, KeyError):
        pass
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return None
