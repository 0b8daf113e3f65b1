"""Waiting for ratified or released commits, of this process or of another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")

FIRST_WAIT_S = 0.001
"""Duration of the first wait. Each further wait is longer."""
DOUBT_EVERY = 10
"""Number of waits between checks for crashed processes of earlier commits."""

LONGEST_WAIT_S = 0.02
"""Maximum duration of a wait for other processes before a query of the database."""

_LONGEST_WAIT_FOR_OWN_S = 0.1
_FORGOTTEN_S = 1.0


class ChangeNotifier:
    """Wakes waiting threads of this process. A short timeout covers changes by other processes."""

    def __init__(self) -> None:
        self._changed = threading.Condition()

    def notify(self) -> None:
        """Wake the waiting threads after a change."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, seconds: float, until: Callable[[], bool] | None = None) -> None:
        """Wait for a change, at most `seconds`. `until`: other changes do not end the wait."""
        with self._changed:
            if until is None:
                self._changed.wait(seconds)
            else:
                self._changed.wait_for(until, seconds)


class InProgress:
    """Operations in progress in this process, by id. An operation without an end is forgotten after a second."""

    def __init__(self) -> None:
        self._started: dict[str, float] = {}
        self._changed = threading.Condition()

    def add(self, operation_ids: Iterable[str]) -> None:
        """Add operations."""
        with self._changed:
            self._started.update(dict.fromkeys(operation_ids, time.monotonic()))

    def remove(self, operation_id: str) -> None:
        """Remove an operation. No effect for an unknown operation."""
        with self._changed:
            self._started.pop(operation_id, None)
            if not self._started:
                self._changed.notify_all()

    def wait_for_none(self, seconds: float) -> None:
        """Wait until no operation is in progress, at most `seconds`."""
        with self._changed:
            if self._started and not self._changed.wait_for(lambda: not self._started, seconds):
                since = time.monotonic() - _FORGOTTEN_S
                self._started = {each: started for each, started in self._started.items() if started > since}


class AwaitedCommits(Generic[T]):
    """Requests of this process waiting for earlier versions, by table and file name of a staged commit.

    A later request reports the results of all ratified commits, so that waiting requests need no query.
    """

    def __init__(self) -> None:
        # A repeated request can wait for the same commit, so the key identifies the wait.
        self._requests: dict[object, tuple[tuple[str, str], T]] = {}
        self._results: dict[object, Mapping[str, int]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def awaiting(self, table_id: str, file_name: str, request: T) -> Iterator[Callable[[], Mapping[str, int] | None]]:
        """Return a function with the newest ratified versions by table, once the commit is reported, else None."""
        key = object()
        with self._lock:
            self._requests[key] = (table_id, file_name), request
        try:
            yield lambda: self._results.get(key)
        finally:
            with self._lock:
                del self._requests[key]
                self._results.pop(key, None)

    @property
    def requests(self) -> list[T]:
        """The waiting requests."""
        with self._lock:
            return [request for _, request in self._requests.values()]

    def report(self, files: Iterable[tuple[str, str]], versions: Mapping[str, int]) -> None:
        """Report ratified `files` by table and file name, and the newest ratified versions by table."""
        ratified = set(files)
        with self._lock:
            self._results.update((key, versions) for key, (file, _) in self._requests.items() if file in ratified)


class WaitLoop:
    """Repeated waiting for other commits. From time to time, `doubt` handles crashed processes."""

    def __init__(self, changes: ChangeNotifier, doubt: Callable[[], None]) -> None:
        self._changes = changes
        self._doubt = doubt
        self._count = 0

    def wait(self, num_before: int = 0, until: Callable[[], bool] | None = None, is_reported: bool = False) -> None:
        """Wait, longer at each call and for a larger `num_before` (number of earlier commits).

        `until`: see `ChangeNotifier.wait`. With `is_reported`, this process reports the expected change, so that a long
        wait costs no time.
        """
        self._count += 1
        if self._count % DOUBT_EVERY == 0:
            self._doubt()
        seconds = min(LONGEST_WAIT_S, FIRST_WAIT_S * (num_before + self._count))
        self._changes.wait(_LONGEST_WAIT_FOR_OWN_S if is_reported else seconds, until)
