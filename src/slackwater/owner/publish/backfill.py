"""Backfill: copies ratified commits to `_delta_log` in order. Any process may repeat it without harm.

Source: managed-commits.md "Commit Backfills".
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
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
from slackwater.owner.state.log_head import RATIFIED, commits_in, locked_tables
from slackwater.owner.state.shared_clock import read_clock
from slackwater.protocol.actions.file_names import commit_path, staged_path
from slackwater.storage.store import ObjectStore

BACKFILL_DELAY_S = 0.02
"""Delay of a backfill, so that several commits are copied together."""
ROWS_KEPT = 1000
"""Number of backfilled versions per table with retained rows. They are used to answer repeated requests."""

_TABLES = sa.select(tables).where(tables.c.table_id.in_(sa.bindparam("of_tables", expanding=True)))
_BACKFILLED = (
    sa.update(tables)
    .where(tables.c.table_id == sa.bindparam("of_table"))
    .values(backfilled_version=sa.bindparam("up_to"), problem="")
)
_FORGET = sa.delete(transactions).where(transactions.c.state == RATIFIED, transactions.c.pending <= 0)
_BATCH = 64
# SQLite limits the number of values of a statement.
_MOST_IDS = 500
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
            self._copy(row, pending)
            self._database.write(partial(self._record, copied={table_id: pending}))
            if len(pending) < _BATCH:
                return int(pending[-1].version)

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
            self._attempt(table_id, partial(self.now, table_id))

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
            failed = self._together(sorted(wanted))
            with self._state:
                self._wanted |= failed
                if failed:
                    # Wait even if new commits arrive, because another process is backfilling or the store fails.
                    self._state.wait_for(lambda: self._is_closed, _RETRY_S)

    def _together(self, table_ids: Sequence[str]) -> set[str]:
        """Backfill tables without a claim of another process, and return the tables with commits left.

        Two database transactions for all tables, because each costs more than the copies of some commits.
        """
        try:
            claimed = self._database.write(lambda c: self._claim(c, table_ids), durable=False)
        except SlackwaterError as error:
            _log.warning("the backfill of %d tables failed and is retried: %s", len(table_ids), error)
            return set(table_ids)
        failed = {table_id for table_id, found in claimed.items() if found is None}
        copied: dict[str, Sequence[Row[Any]]] = {}

        def copy(row: Row[Any], pending: Sequence[Row[Any]]) -> None:
            self._copy(row, pending)
            # Only now, because a missing or foreign file needs no retry either.
            copied[row.table_id] = pending

        for table_id, found in claimed.items():
            if found is not None and not self._attempt(table_id, partial(copy, *found)):
                failed.add(table_id)
        try:
            self._database.write(lambda c: self._record(c, copied, claimed))
        except SlackwaterError as error:
            _log.warning("the backfill of %d tables was not recorded and is retried: %s", len(copied), error)
            return set(table_ids)
        longer = [table_id for table_id, pending in copied.items() if len(pending) == _BATCH]
        return failed | {each for each in longer if not self._attempt(each, partial(self.now, each))}

    def _attempt(self, table_id: str, work: Callable[[], object]) -> bool:
        """Do `work` for a table, and return whether a retry is useless."""
        try:
            work()
        except TableNotFound:
            return True
        except UnratifiedCommit as error:
            _log.error("%s", error)
        except SlackwaterError as error:
            _log.warning("the backfill of table %s failed and is retried: %s", table_id, error)
            return False
        return True

    def _claim(
        self, connection: Connection, table_ids: Sequence[str]
    ) -> dict[str, tuple[Row[Any], Sequence[Row[Any]]] | None]:
        """Claim the backfill of the known tables, and return what `_pending` returns.

        None for a table with a claim of another live process.
        """
        rows = list(locked_tables(connection, table_ids).values())
        now_ms = read_clock(connection, self._clock)
        free = [row for row in rows if not self._is_taken(row, now_ms)]
        claim = {"backfill_holder": self._clock.holder, "backfill_until_ms": now_ms + LEASE_MS}
        connection.execute(sa.update(tables).where(tables.c.table_id.in_([row.table_id for row in free])).values(claim))
        ranges = {row.table_id: _next_range(row, row.ratified_version) for row in free}
        pending: dict[str, list[Row[Any]]] = {table_id: [] for table_id in ranges}
        for commit in commits_in(connection, ranges):
            pending[commit.table_id].append(commit)
        return {row.table_id: (row, pending[row.table_id]) if row in free else None for row in rows}

    def _is_taken(self, row: Row[Any], now_ms: int) -> bool:
        """Return whether another live process is backfilling the table of `row`."""
        is_claimed = row.backfill_holder not in (None, self._clock.holder) and (row.backfill_until_ms or 0) > now_ms
        return is_claimed and not is_dead(row.backfill_holder)

    def _copy(self, row: Row[Any], pending: Sequence[Row[Any]]) -> None:
        """Copy `pending` in order."""
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

    def _report(self, table_id: str, problem: str) -> None:
        self._database.write(
            lambda c: c.execute(sa.update(tables).where(tables.c.table_id == table_id).values(problem=problem))
        )

    def _record(
        self, connection: Connection, copied: Mapping[str, Sequence[Row[Any]]], claimed: Collection[str] = ()
    ) -> None:
        """Record the `copied` commits by table, and end the claims of the tables `claimed`."""
        rows = locked_tables(connection, {*copied, *claimed})
        done: list[Row[Any]] = []
        for table_id, row in rows.items():
            done += [commit for commit in copied.get(table_id, ()) if commit.version > row.backfilled_version]
        newest = {commit.table_id: commit.version for commit in done}
        if newest:
            connection.execute(_BACKFILLED, [{"of_table": each, "up_to": version} for each, version in newest.items()])
            _count_backfilled(connection, [commit.txn_id for commit in done if commit.txn_id is not None])
        for table_id, version in newest.items():
            self._purge(connection, rows[table_id], version - self._rows_kept)
        if claimed:
            held = tables.c.table_id.in_(sorted(claimed)) & (tables.c.backfill_holder == self._clock.holder)
            connection.execute(sa.update(tables).where(held).values(backfill_holder=None))

    def _purge(self, connection: Connection, row: Row[Any], up_to: int) -> None:
        """Delete the commits of a table up to a version, in larger steps."""
        if up_to - row.purged_version > self._rows_kept // 10:
            own = commits.c.table_id == row.table_id
            connection.execute(sa.delete(commits).where(own, commits.c.version <= up_to))
            connection.execute(sa.update(tables).where(tables.c.table_id == row.table_id).values(purged_version=up_to))


def _pending(connection: Connection, table_id: str, version: int) -> tuple[Row[Any], Sequence[Row[Any]]]:
    """Return the table, and the next ratified commits to backfill. Raises TableNotFound."""
    row = connection.execute(_TABLES, {"of_tables": [table_id]}).first()
    if row is None:
        raise TableNotFound(f"the commit owner has no table {table_id}")
    last = row.ratified_version if version == LATEST else min(version, row.ratified_version)
    return row, commits_in(connection, {table_id: _next_range(row, last)})


def _next_range(row: Row[Any], last: int) -> tuple[int, int]:
    """Return the backfilled version, and the last version of the next batch, at most `last`."""
    return row.backfilled_version, min(last, row.backfilled_version + _BATCH)


def _count_backfilled(connection: Connection, txn_ids: Sequence[str]) -> None:
    """Count backfilled commits of transactions, and delete transactions without unbackfilled commits.

    Source: paper §4.2.2 (a count of what remains to be timestamped).
    """
    counts: dict[int, list[str]] = {}
    for txn_id, count in Counter(txn_ids).items():
        counts.setdefault(count, []).append(txn_id)
    for count, of_count in counts.items():
        pending = transactions.c.pending - count
        for first in range(0, len(of_count), _MOST_IDS):
            part = transactions.c.txn_id.in_(of_count[first : first + _MOST_IDS])
            connection.execute(sa.update(transactions).where(part).values(pending=pending))
    if counts:
        connection.execute(_FORGET)
