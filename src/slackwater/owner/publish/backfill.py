"""Backfill: copies ratified commits to `_delta_log` in order. Any process may repeat it without harm.

Source: managed-commits.md "Commit Backfills".
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from slackwater.errors import ObjectNotFound, SlackwaterError, TableNotFound, UnratifiedCommit
from slackwater.owner.api.commits import LATEST, TableState
from slackwater.owner.api.unratified_commits import explained
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import commits, tables, transactions
from slackwater.owner.state.clock import LEASE_MS, OwnerClock, is_dead
from slackwater.owner.state.commit_files import publish, versions_after
from slackwater.owner.state.log_head import RATIFIED, locked_table
from slackwater.owner.state.shared_clock import read_clock
from slackwater.protocol.actions.file_names import commit_path, staged_path
from slackwater.storage.store import ObjectStore

BACKFILL_DELAY_S = 0.02
"""Delay of a backfill, so that several commits are copied together."""
ROWS_KEPT = 1000
"""Number of backfilled versions per table with retained rows. They are used to answer repeated requests."""

_FORGET = sa.delete(transactions).where(transactions.c.state == RATIFIED, transactions.c.pending <= 0)
_BATCH = 64
_RETRY_S = 1.0
_log = logging.getLogger(__name__)


class Backfill:
    """Copies ratified commits. `soon` uses a background thread, `now` returns after the copy."""

    def __init__(
        self,
        database: Database,
        store_of: Callable[[str], ObjectStore],
        clock: OwnerClock,
        delay_s: float | None = BACKFILL_DELAY_S,
        rows_kept: int = ROWS_KEPT,
    ) -> None:
        self._database = database
        self._store_of = store_of
        self._clock = clock
        self._delay_s = delay_s
        self._rows_kept = rows_kept
        self._wanted: set[str] = set()
        self._state = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def now(self, table_id: str, version: int = LATEST) -> int:
        """Backfill the table in this thread. See `CommitOwner.backfill_to_version`."""
        while True:
            row, pending = self._database.read(lambda c: _pending(c, table_id, version))
            if not pending:
                return int(row.backfilled_version)
            done = self._copy(row, pending)
            self._database.write(lambda c, done=done: self._record(c, table_id, done))  # type: ignore[misc]

    def require_ratified(self, table_id: str) -> None:
        """Raise and record UnratifiedCommit if `_delta_log` has commits after the latest ratified version."""
        row, _ = self._database.read(lambda c: _pending(c, table_id, LATEST))
        store = self._store_of(table_id)
        listed = versions_after(store, row.backfilled_version)
        # Read again, because versions ratified since then are not foreign.
        row, _ = self._database.read(lambda c: _pending(c, table_id, LATEST))
        foreign = [version for version in listed if version > row.ratified_version]
        if foreign and row.state == TableState.ACTIVE.value:
            problem = (
                f"{store.root_url}/{commit_path(foreign[0])} is after version {row.ratified_version}, the latest "
                f"version that the commit owner ratified: {explained(store, foreign[0])}"
            )
            self._report(table_id, problem)
            raise UnratifiedCommit(problem)

    def soon(self, table_id: str) -> None:
        """Schedule a backfill of the table in this process, unless another process is backfilling."""
        with self._state:
            if self._is_closed or self._delay_s is None:
                return
            self._wanted.add(table_id)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="slackwater-backfill", daemon=True)
                self._thread.start()
            self._state.notify()

    def close(self) -> None:
        """Backfill the scheduled tables, best effort, and end the thread."""
        with self._state:
            self._is_closed = True
            self._state.notify()
            thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        for table_id in sorted(self._wanted):
            self._try(table_id, alone=False)

    def _work(self) -> None:
        while True:
            with self._state:
                while not self._wanted and not self._is_closed:
                    self._state.wait()
                if self._is_closed:
                    return
            # Wait, so that successive commits are copied together.
            self._clock.sleep(self._delay_s or 0.0)
            with self._state:
                wanted, self._wanted = self._wanted, set()
            failed = {table_id for table_id in sorted(wanted) if not self._try(table_id, alone=True)}
            with self._state:
                self._wanted |= failed
                if failed:
                    # Wait even if new commits arrive, because another process is backfilling or the store fails.
                    self._state.wait_for(lambda: self._is_closed, _RETRY_S)

    def _try(self, table_id: str, alone: bool) -> bool:
        """Backfill, and return whether nothing is left to do. With `alone`, only if no other process is backfilling."""
        try:
            if alone and not self._database.write(lambda c: self._claim(c, table_id), durable=False):
                return False
            try:
                self.now(table_id)
            finally:
                if alone:
                    self._database.write(lambda c: self._let_go(c, table_id), durable=False)
        except TableNotFound:
            return True
        except UnratifiedCommit as error:
            _log.error("%s", error)
        except SlackwaterError as error:
            _log.warning("the backfill of table %s failed and is retried: %s", table_id, error)
            return False
        return True

    def _claim(self, connection: Connection, table_id: str) -> bool:
        """Claim the backfill of the table, and return False if another live process has it."""
        row = connection.execute(
            sa.select(tables.c.backfill_holder, tables.c.backfill_until_ms).where(tables.c.table_id == table_id)
        ).first()
        if row is None:
            return True
        now_ms = read_clock(connection, self._clock)
        taken = row.backfill_holder not in (None, self._clock.holder) and (row.backfill_until_ms or 0) > now_ms
        if taken and not is_dead(row.backfill_holder):
            return False
        connection.execute(
            sa.update(tables)
            .where(tables.c.table_id == table_id)
            .values(backfill_holder=self._clock.holder, backfill_until_ms=now_ms + LEASE_MS)
        )
        return True

    def _let_go(self, connection: Connection, table_id: str) -> None:
        connection.execute(
            sa.update(tables)
            .where(tables.c.table_id == table_id, tables.c.backfill_holder == self._clock.holder)
            .values(backfill_holder=None)
        )

    def _copy(self, row: Row[Any], pending: Sequence[Row[Any]]) -> int:
        """Copy `pending` in order, and return the last version."""
        store = self._store_of(row.table_id)
        for commit in pending:
            try:
                is_ours = publish(store, commit.version, commit.file_name, commit.commit_id)
            except ObjectNotFound as error:
                problem = (
                    f"{store.root_url}/{staged_path(commit.file_name)}, the ratified version {commit.version}, is "
                    f"missing and was not backfilled. Restore the file ({error})"
                )
                self._report(row.table_id, problem)
                raise UnratifiedCommit(problem) from error
            if not is_ours:
                problem = (
                    f"{store.root_url}/{commit_path(commit.version)} is not the version {commit.version} that the "
                    f"commit owner ratified (the file {staged_path(commit.file_name)}): "
                    f"{explained(store, commit.version)}"
                )
                self._report(row.table_id, problem)
                raise UnratifiedCommit(problem)
        return int(pending[-1].version)

    def _report(self, table_id: str, problem: str) -> None:
        self._database.write(
            lambda c: c.execute(sa.update(tables).where(tables.c.table_id == table_id).values(problem=problem))
        )

    def _record(self, connection: Connection, table_id: str, version: int) -> None:
        before = locked_table(connection, table_id)
        if before is not None and before.backfilled_version < version:
            connection.execute(
                sa.update(tables).where(tables.c.table_id == table_id).values(backfilled_version=version, problem="")
            )
            _count_backfilled(connection, table_id, before.backfilled_version, version)
        # Purge in larger steps, so that most batches write one row only.
        purge_to = version - self._rows_kept
        row = connection.execute(sa.select(tables.c.purged_version).where(tables.c.table_id == table_id)).first()
        if row is not None and purge_to - row.purged_version > self._rows_kept // 10:
            connection.execute(sa.delete(commits).where(commits.c.table_id == table_id, commits.c.version <= purge_to))
            connection.execute(sa.update(tables).where(tables.c.table_id == table_id).values(purged_version=purge_to))


def _pending(connection: Connection, table_id: str, version: int) -> tuple[Row[Any], Sequence[Row[Any]]]:
    """Return the table, and the next ratified commits to backfill."""
    row = connection.execute(sa.select(tables).where(tables.c.table_id == table_id)).first()
    if row is None:
        raise TableNotFound(f"the commit owner has no table {table_id}")
    last = row.ratified_version if version == LATEST else min(version, row.ratified_version)
    found = connection.execute(
        sa.select(commits)
        .where(
            commits.c.table_id == table_id,
            commits.c.version > row.backfilled_version,
            commits.c.version <= last,
            commits.c.state == RATIFIED,
        )
        .order_by(commits.c.version)
        .limit(_BATCH)
    ).all()
    return row, found


def _count_backfilled(connection: Connection, table_id: str, after: int, up_to: int) -> None:
    """Count the backfilled versions in `(after, up_to]`, and delete transactions without unbackfilled commits.

    Source: paper §4.2.2 (a count of what remains to be timestamped).
    """
    backfilled = sa.select(commits.c.txn_id).where(
        commits.c.table_id == table_id, commits.c.version > after, commits.c.version <= up_to,
        commits.c.txn_id.is_not(None),
    )  # fmt: skip
    txn_ids = list(connection.execute(backfilled).scalars())
    if not txn_ids:
        return
    connection.execute(
        sa.update(transactions).where(transactions.c.txn_id.in_(txn_ids)).values(pending=transactions.c.pending - 1)
    )
    connection.execute(_FORGET)
