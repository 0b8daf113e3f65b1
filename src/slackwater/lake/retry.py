"""Retries: runs work again in a new transaction after a conflict.

Source: docs/transactions.md (a fresh timestamp for every attempt).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from slackwater.errors import CommitError, InvalidArgument
from slackwater.lake.transaction import LogTransaction
from slackwater.transaction.clock import Clock
from slackwater.waiting import backoff

_log = logging.getLogger(__name__)
RETRIES = 10
"""Default number of retries of a transaction."""

_FIRST_WAIT_S = 0.01
_LONGEST_WAIT_S = 0.5
Txn = TypeVar("Txn", bound=LogTransaction)
T = TypeVar("T")


def run_again(begin: Callable[[int | None], Txn], work: Callable[[Txn], T], retries: int, clock: Clock) -> T:
    """Return the result of `work`, as `LogLake.run`.

    `begin` receives the begin of the first attempt, because the oldest transaction wins a deadlock.
    """
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise InvalidArgument(f"retries is a whole number from 0, found {retries!r}")
    seniority_ms: int | None = None
    waits = backoff(_FIRST_WAIT_S, _LONGEST_WAIT_S)
    for attempt in range(1, retries + 1):
        transaction = begin(seniority_ms)
        seniority_ms = transaction.seniority_ms
        try:
            with transaction:
                answer = work(transaction)
        except CommitError as error:
            if not error.retryable:
                raise
            _log.info("attempt %d of %d of a transaction failed and is retried: %s", attempt, retries + 1, error)
            # Wait a random time, because the conflicting transactions would otherwise collide again.
            clock.sleep(next(waits) * clock.jitter())
        else:
            return answer
    with begin(seniority_ms) as transaction:
        return work(transaction)
