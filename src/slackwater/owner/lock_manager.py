"""Lock manager: two-phase locking for multi-table transactions, with waiting requests and leases.

A lock belongs to its transaction until the end of the transaction. The lease defines how long the transaction counts as
active. An expired lease has no effect until another transaction wants the item. The transaction then loses all its
locks: its next `lock` or `keep_alive` raises an error, and it cannot commit. Source: paper §3.1; docs/transactions.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import sqlalchemy as sa
from sqlalchemy import Connection

from slackwater.errors import CommitOwnerUnavailable, DeadlockDetected, InvalidArgument, LockTimeout
from slackwater.owner.api.transactions import LockRequest
from slackwater.owner.commit.ratification import resolve_expired
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import tables
from slackwater.owner.locks import lock_queue
from slackwater.owner.locks.lock_queue import BlockingLock, LockWait
from slackwater.owner.state.clock import LEASE_MS, OwnerClock, is_dead
from slackwater.owner.state.notifications import DOUBT_EVERY, FIRST_WAIT_S, ChangeNotifier
from slackwater.owner.state.shared_clock import SharedTime, read_clock
from slackwater.waiting import Deadline, backoff

_LONGEST_WAIT_S = 0.05
_NAMED_BLOCKERS = 3

_HEADS = sa.select(tables.c.table_id, tables.c.name, tables.c.allocated_version, tables.c.ratified_version).where(
    tables.c.table_id.in_(sa.bindparam("table_ids", expanding=True))
)


class LockManager:
    """Locks for transactions of this process and of other processes. Thread-safe for one call per transaction.

    Database transactions that release locks together with other changes must notify `changes` afterwards.
    """

    def __init__(self, database: Database, clock: OwnerClock, changes: ChangeNotifier | None = None) -> None:
        self._database = database
        self._clock = clock
        self._lease_ms = LEASE_MS
        self._changes = changes or ChangeNotifier()

    def lock(self, request: LockRequest) -> None:
        """Lock the items. On return, no commit to their tables is in progress. See `CommitOwner.lock`.

        After LockTimeout the transaction retains its earlier locks. It also retains the new locks if the wait was for
        commits in progress. After DeadlockDetected it has no locks and gets none. Raises InvalidArgument,
        TableNotFound.
        """
        if not request.timeout_s >= 0:
            raise InvalidArgument(f"the timeout of a lock is a number of seconds from 0, found {request.timeout_s}")
        patience = Deadline(request.timeout_s, backoff(FIRST_WAIT_S, _LONGEST_WAIT_S), self._clock.sleep)
        try:
            self._acquire(request, patience)
        except DeadlockDetected:
            self._free(lambda c: lock_queue.release_as_victim(c, request.txn_id, read_clock(c, self._clock)))
            raise
        except BaseException:
            # Withdraw now, so that other transactions do not wait for the lease to expire.
            with suppress(CommitOwnerUnavailable):
                self._free(lambda c: lock_queue.withdraw(c, request.txn_id))
            raise
        self._settle(request, patience)

    def keep_alive(self, txn_id: str) -> None:
        """Renew the lease of the transaction's locks. Raises LockTimeout if it has none or lost them."""
        if not self._database.write(lambda c: self.keep(c, txn_id), durable=False):
            raise LockTimeout(
                f"transaction {txn_id} has no locks: it ended, or its lease expired and other transactions "
                "acquired them. Retry the transaction, and renew its lease more often"
            )

    def keep(self, connection: Connection, txn_id: str) -> bool:
        """Renew the lease of the locks for the duration of a lease. See `lock_queue.renew`."""
        now = SharedTime.of(connection, self._clock)
        is_kept = lock_queue.renew(connection, txn_id, now.now_ms + self._lease_ms, now.now_ms)
        if is_kept:
            now.pass_on(connection)
        return is_kept

    def release(self, txn_id: str) -> None:
        """Release all locks of the transaction."""
        self._free(lambda c: lock_queue.release(c, txn_id))

    def _acquire(self, request: LockRequest, patience: Deadline) -> None:
        while True:
            waiting = self._database.write(lambda c: self._attempt(c, request), durable=False)
            if waiting is None:
                return
            if patience.left_s <= 0:
                raise LockTimeout(self._why(request, waiting.blockers))
            self._await_change(request, waiting, patience)

    def _attempt(self, connection: Connection, request: LockRequest) -> LockWait | None:
        now = SharedTime.of(connection, self._clock)
        until_ms = now.now_ms + self._lease_ms
        waiting = lock_queue.acquire(connection, request, self._clock.holder, now.now_ms, until_ms, is_dead)
        now.pass_on(connection)
        return waiting

    def _await_change(self, request: LockRequest, waiting: LockWait, patience: Deadline) -> None:
        """Return if the request may be granted now, or if it is time to check for crashed processes."""
        is_ours = any(blocker.holder == self._clock.holder for blocker in waiting.blockers)
        for _ in range(DOUBT_EVERY):
            if patience.left_s <= 0:
                return
            if is_ours:
                self._changes.wait(patience.next_s())
            else:
                patience.sleep(patience.next_s())
            if self._database.read(lambda c: lock_queue.blockers_of(c, request)) != waiting.seen:
                return

    def _settle(self, request: LockRequest, patience: Deadline) -> None:
        """Wait until the versions allocated before the locks were granted are ratified or released."""
        table_ids = sorted({item.table_id for item in request.items})
        goals: dict[str, int] = {}
        looks = 0
        while True:
            heads = self._database.read(lambda c: c.execute(_HEADS, {"table_ids": table_ids}).all())
            for head in heads:
                goals.setdefault(head.table_id, head.allocated_version)
            open_heads = [
                head for head in heads if head.ratified_version < min(goals[head.table_id], head.allocated_version)
            ]
            if not open_heads:
                return
            if patience.left_s <= 0:
                named = ", ".join(f"{head.name} after version {head.ratified_version}" for head in open_heads)
                raise LockTimeout(
                    f"transaction {request.txn_id} has its locks, but earlier commits of other writers to {named} "
                    f"did not end within {request.timeout_s} seconds. Lock again, with a longer timeout"
                )
            looks += 1
            if looks % DOUBT_EVERY == 0:
                for head in open_heads:
                    resolve_expired(self._database, self._clock, head.table_id)
            self._changes.wait(patience.next_s())

    def _free(self, work: Callable[[Connection], None]) -> None:
        self._database.write(work, durable=False)
        self._changes.notify()

    def _why(self, request: LockRequest, blockers: Sequence[BlockingLock]) -> str:
        table_ids = sorted({blocker.item.table_id for blocker in blockers})
        heads = self._database.read(lambda c: c.execute(_HEADS, {"table_ids": table_ids}).all())
        names = {head.table_id: head.name for head in heads}
        told = [
            blocker.described(names.get(blocker.item.table_id, blocker.item.table_id))
            for blocker in blockers[:_NAMED_BLOCKERS]
        ]
        if len(blockers) > len(told):
            told.append(f"and {len(blockers) - len(told)} more")
        kind = "exclusive" if request.is_exclusive else "shared"
        return (
            f"transaction {request.txn_id} waited {request.timeout_s} seconds for {kind} locks: {'; '.join(told)}. "
            "Retry when those transactions have ended, or wait longer"
        )
