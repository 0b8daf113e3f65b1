"""What a transaction over many tables holds until it ends: files that it wrote, locks and promises, signs of life.

It knows nothing of the transaction itself, so that one that is never ended is collected, and this is let go of.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
from contextlib import suppress

from slackwater.errors import SlackwaterError
from slackwater.lake.heartbeat import Heartbeat
from slackwater.lake.transaction_table import TransactionTableState
from slackwater.owner.api.commit_owner import CommitOwner

_log = logging.getLogger(__name__)


class TransactionResources:
    """Of one transaction; `owner` is the one that is asked for the time."""

    def __init__(self, txn_id: str, owner: CommitOwner) -> None:
        self.txn_id = txn_id
        self.tables: dict[str, TransactionTableState] = {}
        self.lock_owners: dict[str, CommitOwner] = {}
        self.is_known_to_owner = False
        self._owner = owner
        self._process = os.getpid()
        self._alive: Heartbeat | None = None

    def keep_alive(self) -> None:
        """Say from now on that the transaction goes on."""
        if self._alive is None:
            self._alive = Heartbeat(self._say_alive)

    def require_lease(self) -> None:
        """Raise LockTimeout where its owner has given it up."""
        if self._alive is not None and self._alive.problem is not None:
            raise self._alive.problem

    def staged_files(self) -> list[str]:
        """The files that were written for it, with the roots of their tables."""
        return [f"{t.table.root_url}/{path}" for t in self.tables.values() for path in t.staged_paths()]

    def discard(self) -> list[str]:
        """Delete the files of a transaction that certainly did not land; those that could not be deleted."""
        left: list[str] = []
        for table in self.tables.values():
            try:
                table.discard()
            except SlackwaterError:
                left += [f"{table.table.root_url}/{path}" for path in table.staged_paths()]
        return left

    def close(self) -> None:
        """Nothing goes on any more."""
        if self._alive is not None:
            self._alive.stop()
        for table in self.tables.values():
            table.close()

    def release_at_owner(self) -> None:
        """Give back locks and promises; where that fails the lease ends them."""
        if self.is_known_to_owner:
            for owner in {self._owner.owner_id: self._owner, **self.lock_owners}.values():
                with suppress(SlackwaterError):
                    owner.end(self.txn_id)

    def abandon(self) -> None:
        """Let go of what is left of a transaction that was not ended, and cannot be ended any more."""
        if os.getpid() != self._process:
            # It is the parent's, who may go on with it.
            return
        was_written = any(table.is_written for table in self.tables.values())
        told = (
            f"transaction {self.txn_id} was neither committed nor rolled back, so nothing of it counts: begin it by "
            "`with`, or call commit()"
        )
        if threading.main_thread().is_alive():
            # The garbage collector may be at work within whatever holds the locks that this needs.
            threading.Thread(target=self._let_go, name="slackwater-abandoned", daemon=True).start()
        else:
            # At the end of the process no thread can be started, and no other thread is at work.
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


def undeleted_files_message(files: list[str]) -> str:
    """What to tell of files that stay behind."""
    return f"{len(files)} files of the transaction could not be deleted: {', '.join(files)}"
