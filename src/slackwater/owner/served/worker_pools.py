"""Thread pools for blocking calls of the owner. Commits do not block other calls.

Commits, votes and lock requests may wait for transactions with locks. So that these transactions can complete, they
have their own threads. Decided transactions, which never wait for other transactions, also have their own threads.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import anyio
from anyio import CapacityLimiter, to_thread

from slackwater.errors import (
    CommitOwnerBusy,
    CommitOwnerUnavailable,
    CommitUnknown,
    LockTimeout,
    SlackwaterError,
)
from slackwater.owner.served.settings import ServedSettings

A = TypeVar("A")
T = TypeVar("T")
P = ParamSpec("P")

_log = logging.getLogger(__name__)


class WorkerPools:
    """Calls the owner concurrently. Raises CommitOwnerBusy if too many calls are waiting."""

    def __init__(self, settings: ServedSettings, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._commits = _Queue(settings.concurrent_commits, settings.waiting_calls)
        self._awaited = _Queue(settings.concurrent_commits, settings.waiting_calls)
        self._decided = _Queue(settings.concurrent_commits, settings.waiting_calls)
        self._waits = _Queue(settings.concurrent_waits, settings.waiting_calls)
        self._steps = _Queue(settings.concurrent_reads, settings.waiting_calls)
        self._reads = _Queue(settings.concurrent_reads, settings.waiting_calls)
        self._past = _Queue(settings.concurrent_reads, settings.waiting_calls)
        self._health = CapacityLimiter(1)
        self._health_timeout_s = settings.health_timeout_s

    async def ratify(self, call: Callable[[A], T], request: A, is_awaited: bool = False) -> T:
        """Return the result of the committing `call`. With `is_awaited`, it has priority over other commits.

        Raises CommitUnknown for unexpected errors, because the commit may be effective.
        """
        queue = self._awaited if is_awaited else self._commits
        try:
            return await queue.run(functools.partial(call, request))
        except SlackwaterError:
            raise
        except Exception as error:
            _log.exception("the owner failed while it committed")
            raise CommitUnknown(
                "the commit owner failed during the commit, and the outcome is unknown. Retry the request"
            ) from error

    async def vote(self, call: Callable[[], T], is_awaited: bool = False) -> T:
        """Return the result of `call`, a repeatable call that waits for locks. `is_awaited`: see `ratify`.

        Raises CommitOwnerUnavailable for unexpected errors. Then the call must be repeated.
        """
        return await _repeatable(self._awaited if is_awaited else self._waits, call)

    async def decide(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of `call`, recording a decision. Raises CommitUnknown if the outcome is unknown."""
        try:
            return await self._steps.run(functools.partial(call, *args, **kwargs))
        except Exception as error:
            if isinstance(error, SlackwaterError) and not isinstance(error, CommitOwnerUnavailable):
                raise
            _log.exception("the owner failed while it decided")
            raise CommitUnknown(
                "the commit owner failed while it decided a transaction, and the decision is unknown. Retry the request"
            ) from error

    async def finish(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of `call`, applying a decision. It waits for no other transaction and is repeatable.

        Raises CommitOwnerUnavailable for unexpected errors. Then the call must be repeated.
        """
        return await _repeatable(self._decided, functools.partial(call, *args, **kwargs))

    async def settle(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of `call`, with the duration of a commit."""
        return await self._commits.run(functools.partial(call, *args, **kwargs))

    async def look(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of the read-only `call`."""
        return await self._reads.run(functools.partial(call, *args, **kwargs))

    async def look_back(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of the read-only `call`, possibly waiting for commits in progress."""
        return await self._past.run(functools.partial(call, *args, **kwargs))

    async def step(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of `call`, a transaction step without waiting for other transactions."""
        return await self._steps.run(functools.partial(call, *args, **kwargs))

    async def lock(self, call: Callable[[float], T], timeout_s: float) -> T:
        """Return the result of `call`. Its argument is its time to wait for other transactions, `timeout_s` in all.

        Free locks are granted without queueing. Raises LockTimeout, also if no thread is available for waiting.
        """
        if self._waits.has_room:
            return await self._waits.run(functools.partial(call, timeout_s))
        deadline = self._monotonic() + timeout_s
        try:
            return await self._steps.run(functools.partial(call, 0.0))
        except LockTimeout as error:
            held = error
        # The timeout only covers the queue, because a started call respects the deadline itself.
        with anyio.move_on_after(deadline - self._monotonic()):
            return await self._waits.run(lambda: call(max(0.0, deadline - self._monotonic())))
        raise held

    async def is_well(self, call: Callable[[], object]) -> bool:
        """Return whether `call` succeeds in time. At most one such call runs."""
        with anyio.move_on_after(self._health_timeout_s):
            try:
                await to_thread.run_sync(call, limiter=self._health, abandon_on_cancel=True)
            except Exception:  # noqa: BLE001 - any error means unhealthy
                _log.warning("the health check of the owner failed", exc_info=True)
                return False
            return True
        return False


async def _repeatable(queue: _Queue, call: Callable[[], T]) -> T:
    try:
        return await queue.run(call)
    except SlackwaterError:
        raise
    except Exception as error:
        _log.exception("the owner failed in a step of a transaction over several owners")
        raise CommitOwnerUnavailable(
            "the commit owner failed. Its log contains the cause. Retry the request"
        ) from error


class _Queue:
    """A limited number of concurrent calls, and a limited number of waiting calls."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self._limiter = CapacityLimiter(at_once)
        self._at_once = at_once
        self._most = at_once + waiting
        self._inside = 0

    @property
    def has_room(self) -> bool:
        """True if a call would start immediately."""
        return self._inside < self._at_once

    async def run(self, call: Callable[[], T]) -> T:
        if self._inside >= self._most:
            raise CommitOwnerBusy(f"{self._inside} requests already wait or are processed at the commit owner")
        self._inside += 1
        try:
            return await to_thread.run_sync(call, limiter=self._limiter)
        finally:
            self._inside -= 1
