"""Threads in which the owner's calls, which block, are made; those that commit do not keep others waiting."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import TypeVar

import anyio
from anyio import CapacityLimiter, to_thread

from slackwater.errors import CommitOwnerBusy, CommitUnknown, SlackwaterError
from slackwater.owner.served.settings import ServedSettings

A = TypeVar("A")
T = TypeVar("T")

_log = logging.getLogger(__name__)


class Workers:
    """Calls the owner, many at once. Raises CommitOwnerBusy where too many wait already."""

    def __init__(self, settings: ServedSettings) -> None:
        self._commits = _Queue(settings.concurrent_commits, settings.waiting_calls)
        self._reads = _Queue(settings.concurrent_reads, settings.waiting_calls)
        self._health = CapacityLimiter(1)
        self._health_timeout_s = settings.health_timeout_s

    async def ratify(self, call: Callable[[A], T], request: A) -> T:
        """What `call` answers, which commits. Raises CommitUnknown for what is no error of ours: it may have landed."""
        try:
            return await self._commits.run(functools.partial(call, request))
        except SlackwaterError:
            raise
        except Exception as error:
            _log.exception("the owner failed while it committed")
            raise CommitUnknown(
                "the commit owner failed while it committed, and whether the commit counts is not known: ask again"
            ) from error

    async def settle(self, call: Callable[[], T]) -> T:
        """What `call` answers, which may take as long as a commit does."""
        return await self._commits.run(call)

    async def look(self, call: Callable[[], T]) -> T:
        """What `call` answers, which only reads."""
        return await self._reads.run(call)

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


class _Queue:
    """So many calls at once, and so many behind them."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self._limiter = CapacityLimiter(at_once)
        self._most = at_once + waiting
        self._inside = 0

    async def run(self, call: Callable[[], T]) -> T:
        if self._inside >= self._most:
            raise CommitOwnerBusy(f"{self._inside} requests are with the commit owner or wait for it already")
        self._inside += 1
        try:
            return await to_thread.run_sync(call, limiter=self._limiter)
        finally:
            self._inside -= 1
