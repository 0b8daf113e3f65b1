"""Threads in which the owner's calls, which block, are made; those that commit do not keep others waiting.

Commits, votes and locks may wait for transactions that hold locks. So that these come to their end there are threads
that no call takes which waits for them, and others for what is decided, which waits for none.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import TypeVar

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

_log = logging.getLogger(__name__)


class WorkerPools:
    """Calls the owner, many at once. Raises CommitOwnerBusy where too many wait already."""

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
        """What `call` answers, which commits; where others wait for it, as `is_awaited` says, it passes them.

        Raises CommitUnknown for what is no error of ours: it may have landed.
        """
        queue = self._awaited if is_awaited else self._commits
        try:
            return await queue.run(functools.partial(call, request))
        except SlackwaterError:
            raise
        except Exception as error:
            _log.exception("the owner failed while it committed")
            raise CommitUnknown(
                "the commit owner failed while it committed, and whether the commit counts is not known: ask again"
            ) from error

    async def vote(self, call: Callable[[], T], is_awaited: bool = False) -> T:
        """What `call` answers, which waits for locks and may be repeated; `is_awaited` as in `ratify`.

        Raises CommitOwnerUnavailable for what is no error of ours: it is to be repeated.
        """
        return await _repeatable(self._awaited if is_awaited else self._waits, call)

    async def decide(self, call: Callable[[], T]) -> T:
        """What `call` answers, which records a decision. Raises CommitUnknown where it may be recorded all the same."""
        try:
            return await self._steps.run(call)
        except Exception as error:
            if isinstance(error, SlackwaterError) and not isinstance(error, CommitOwnerUnavailable):
                raise
            _log.exception("the owner failed while it decided")
            raise CommitUnknown(
                "the commit owner failed while it decided whether a transaction commits, and what is decided is not "
                "known: ask again"
            ) from error

    async def finish(self, call: Callable[[], T]) -> T:
        """What `call` answers, which carries out a decision: it waits for no other transaction, and may be repeated.

        Raises CommitOwnerUnavailable for what is no error of ours: it is to be repeated.
        """
        return await _repeatable(self._decided, call)

    async def settle(self, call: Callable[[], T]) -> T:
        """What `call` answers, which may take as long as a commit does."""
        return await self._commits.run(call)

    async def look(self, call: Callable[[], T]) -> T:
        """What `call` answers, which only reads."""
        return await self._reads.run(call)

    async def look_back(self, call: Callable[[], T]) -> T:
        """What `call` answers, which only reads, and waits until what it reads is settled."""
        return await self._past.run(call)

    async def step(self, call: Callable[[], T]) -> T:
        """What `call` answers: a step of a transaction that waits for no other one."""
        return await self._steps.run(call)

    async def lock(self, call: Callable[[float], T], timeout_s: float) -> T:
        """What `call` answers, told for how many seconds it may wait for other transactions: `timeout_s` in all.

        What no other transaction holds is not queued for. Raises LockTimeout, also where there is no thread to wait in.
        """
        if self._waits.has_room:
            return await self._waits.run(functools.partial(call, timeout_s))
        deadline = self._monotonic() + timeout_s
        try:
            return await self._steps.run(functools.partial(call, 0.0))
        except LockTimeout as error:
            held = error
        # Once it has begun, the call ends by itself.
        with anyio.move_on_after(deadline - self._monotonic()):
            return await self._waits.run(lambda: call(max(0.0, deadline - self._monotonic())))
        raise held

    async def is_well(self, call: Callable[[], object]) -> bool:
        """Whether `call` answers in time and without an error; one at a time."""
        with anyio.move_on_after(self._health_timeout_s):
            try:
                await to_thread.run_sync(call, limiter=self._health, abandon_on_cancel=True)
            except Exception:  # noqa: BLE001 - whatever it is, the owner is not well
                _log.warning("the owner is not well", exc_info=True)
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
        raise CommitOwnerUnavailable("the commit owner failed, and its log says why: ask again") from error


class _Queue:
    """So many calls at once, and so many behind them."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self._limiter = CapacityLimiter(at_once)
        self._at_once = at_once
        self._most = at_once + waiting
        self._inside = 0

    @property
    def has_room(self) -> bool:
        """Whether a call would begin at once."""
        return self._inside < self._at_once

    async def run(self, call: Callable[[], T]) -> T:
        if self._inside >= self._most:
            raise CommitOwnerBusy(f"{self._inside} requests are with the commit owner or wait for it already")
        self._inside += 1
        try:
            return await to_thread.run_sync(call, limiter=self._limiter)
        finally:
            self._inside -= 1
