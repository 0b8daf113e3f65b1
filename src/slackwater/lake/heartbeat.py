"""Lease heartbeat of a transaction. The lease protects its locks and reservations.

Source: docs/transactions.md (leased, as locks are).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from slackwater.errors import LockTimeout, SlackwaterError

_KEEP_ALIVE_S = 10.0
_log = logging.getLogger(__name__)


class Heartbeat:
    """A thread for periodic renewal of a transaction's lease."""

    def __init__(self, keep_alive: Callable[[], None]) -> None:
        self.problem: LockTimeout | None = None
        self._keep_alive = keep_alive
        self._stopped = threading.Event()
        threading.Thread(target=self._work, name="slackwater-transaction", daemon=True).start()

    def stop(self) -> None:
        """Stop the renewal."""
        self._stopped.set()

    def _work(self) -> None:
        while not self._stopped.wait(_KEEP_ALIVE_S):
            try:
                self._keep_alive()
            except LockTimeout as error:
                self.problem = error
                return
            except SlackwaterError as error:
                _log.warning("a transaction could not renew its lease: %s", error)
