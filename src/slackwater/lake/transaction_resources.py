"""Resources of a multi-table transaction: staged files, locks, timestamp reservations and the lease heartbeat.

Holds no reference to the transaction, so that the garbage collector can finalize an abandoned transaction and release
its resources.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress

from slackwater.errors import LockTimeout, SlackwaterError
from slackwater.lake.transaction_table import TransactionTableState
from slackwater.owner.api.commit_owner import CommitOwner

_KEEP_ALIVE_S = 10.0
_log = logging.getLogger(__name__)


class TransactionResources:
    """The resources of one transaction. `owner` receives the requests for the time."""

    def __init__(self, txn_id: str, owner: CommitOwner) -> None:
        self.txn_id = txn_id
        self.tables: dict[str, TransactionTableState] = {}
        self.lock_owners: dict[str, CommitOwner] = {}
        self.is_known_to_owner = False
        self._owner = owner
        self._process = os.getpid()
        self._alive: Heartbeat | None = None

    def keep_alive(self) -> None:
        """Start the lease heartbeat."""
        if self._alive is None:
            self._alive = Heartbeat(self._say_alive)

    def require_lease(self) -> None:
        """Raise LockTimeout if the owner ended the lease."""
        if self._alive is not None and self._alive.problem is not None:
            raise self._alive.problem

    def staged_files(self) -> list[str]:
        """Return the files written for the transaction, with the roots of their tables."""
        return [f"{t.table.root_url}/{path}" for t in self.tables.values() for path in t.staged_paths()]

    def discard(self) -> list[str]:
        """Delete the files of a transaction known not to be committed. Return the files not deleted."""
        left: list[str] = []
        for table in self.tables.values():
            try:
                table.discard()
            except SlackwaterError:
                left += [f"{table.table.root_url}/{path}" for path in table.staged_paths()]
        return left

    def close(self) -> None:
        """Stop the heartbeat and close the tables."""
        if self._alive is not None:
            self._alive.stop()
        for table in self.tables.values():
            table.close()

    def release_at_owner(self) -> None:
        """Release locks and reservations. If a release fails, the resources are freed when the lease ends."""
        if self.is_known_to_owner:
            for owner in {self._owner.owner_id: self._owner, **self.lock_owners}.values():
                with suppress(SlackwaterError):
                    owner.end(self.txn_id)

    def abandon(self) -> None:
        """Discard a garbage-collected transaction without commit or rollback."""
        if os.getpid() != self._process:
            # A forked child must not end the transaction of its parent process.
            return
        was_written = any(table.is_written for table in self.tables.values())
        told = (
            f"transaction {self.txn_id} was abandoned without commit or rollback, so its changes are discarded. "
            "Begin it by `with`, or call commit()"
        )
        if threading.main_thread().is_alive():
            # Use a thread, because the garbage collector may run in code that holds the required locks.
            threading.Thread(target=self._let_go, name="slackwater-abandoned", daemon=True).start()
        else:
            # No thread can start at the end of the process, and no other thread runs.
            self._let_go()
        if was_written:
            _log.warning("%s", told)
        warnings.warn(told, ResourceWarning, stacklevel=2)

    def _let_go(self) -> None:
        left: list[str] = []
        with suppress(SlackwaterError):
            left = self.discard()
        self.close()
        self.release_at_owner()
        if left:
            _log.warning("%s", undeleted_files_message(left))

    def _say_alive(self) -> None:
        for owner in list(self.lock_owners.values()) or [self._owner]:
            owner.keep_alive(self.txn_id)


class Heartbeat:
    """A thread for periodic renewal of a transaction's lease, which protects its locks and reservations.

    Source: docs/transactions.md (leased, as locks are).
    """

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


def undeleted_files_message(files: list[str]) -> str:
    """Return the message about `files` left undeleted."""
    return f"{len(files)} files of the transaction could not be deleted: {', '.join(files)}"
