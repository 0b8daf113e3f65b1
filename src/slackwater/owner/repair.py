"""Repair of one table: completes interrupted work, and deletes staged files that no commit needs.

A staged commit of a multi-table transaction describes the whole group. The repair deletes the staged commits of all
participants together, after it confirmed that the group was never ratified. Source: docs/commit-owner.md
"Maintenance"; the RFC "Multi-Table Transactions", "Recovery and Cleanup".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from slackwater.errors import StorageError
from slackwater.owner.api.commits import TableState
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import commits, owner, tables
from slackwater.owner.ownership_transfer import OwnershipTransfer
from slackwater.owner.publish.backfill import Backfill
from slackwater.owner.publish.orphaned_files import GRACE_MS, group_in, group_of_version, unrecorded
from slackwater.owner.state.clock import OwnerClock
from slackwater.owner.state.expired_allocations import free_abandoned
from slackwater.owner.state.log_head import RATIFIED, locked_table
from slackwater.owner.state.shared_clock import read_clock
from slackwater.owner.state.table_stores import TableStores
from slackwater.protocol.actions.transaction_groups import TransactionGroup


class TableRepair:
    """Repairs tables of an owner. Each repair of `repair` is described by a text."""

    def __init__(
        self, database: Database, places: TableStores, clock: OwnerClock, transfers: OwnershipTransfer,
        backfill: Backfill,
    ) -> None:  # fmt: skip
        self._database = database
        self._places = places
        self._clock = clock
        self._transfers = transfers
        self._backfill = backfill

    def repair(self, row: Row[Any], done: list[str]) -> None:
        """Repair the table of `row`, and add a text to `done` for each repair. See `CommitOwner.repair`."""
        resumed = self._transfers.resume(row.table_id)
        if resumed is not None:
            done.append(resumed)
        started_ms = self._clock.now_ms()

        def free(connection: Connection) -> bool:
            locked = locked_table(connection, row.table_id)
            now_ms = read_clock(connection, self._clock)
            return locked is not None and free_abandoned(connection, locked, now_ms)

        if self._database.write(free):
            done.append(f"{row.name}: the versions allocated to a crashed process were released")
        now = self._database.read(lambda c: named_table(c, row.name))
        if now is None or now.table_id != row.table_id:
            return
        if now.problem:
            self._database.write(
                lambda c: c.execute(sa.update(tables).where(tables.c.table_id == row.table_id).values(problem=""))
            )
        reached = self._backfill.now(row.table_id)
        if reached > now.backfilled_version:
            done.append(f"{row.name}: versions {now.backfilled_version + 1} to {reached} were backfilled")
        self._backfill.require_ratified(row.table_id)
        if now.problem:
            done.append(f"{row.name}: accepts commits again. The problem was: {now.problem}")
        done += self._delete_orphans(now, started_ms - GRACE_MS, reached)

    def _delete_orphans(self, row: Row[Any], before_ms: int, backfilled_version: int) -> list[str]:
        """Delete the staged files of the table without a record, and their groups. Return texts."""
        lost = self._unrecorded(row, before_ms, backfilled_version + 1)
        groups: dict[TransactionGroup, list[str]] = defaultdict(list)
        store = self._places.store(row.location)
        for path in lost:
            group = group_in(store, path)
            if group is not None:
                groups[group].append(path)
        done = [self._delete_group(row, paths, group, before_ms) for group, paths in groups.items()]
        grouped = {path for paths in groups.values() for path in paths}
        lone = [path for path in lost if path not in grouped]
        if not lone:
            return done
        try:
            store.delete(lone)
        except StorageError as error:
            return [*done, f"{row.name}: {len(lone)} staged files without a record could not be deleted: {error}"]
        return [*done, f"{row.name}: {len(lone)} staged files without a record were deleted"]

    def _delete_group(self, row: Row[Any], paths: Sequence[str], group: TransactionGroup, before_ms: int) -> str:
        """Delete the staged files `paths` of the table, and those of the group in its other tables. Return a text."""
        rows = self._database.read(lambda c: _of_group(c, group))
        named = _named(group, {each.table_id: each.name for each in rows})
        ratified = next((each for each in rows if self._is_ratified(each, group)), None)
        if ratified is not None and not self._has_commit(row.table_id, group):
            return (
                f"{row.name}: transaction {group.transaction_id} ({named}) is in the log of table {ratified.name}, but "
                "the commit owner has no record of it in this table. Its staged files were kept. If the database is "
                "older than the tables, run `slackwater lake recover`"
            )
        orphans = {row.location: list(paths)}
        for each in rows:
            version = group.versions[each.table_id]
            # The owner deletes the records of old versions, so that a file of such a version may be a ratified one.
            if each.table_id != row.table_id and version > each.purged_version:
                store, found = self._places.store(each.location), self._unrecorded(each, before_ms, version, version)
                orphans[each.location] = [path for path in found if group_in(store, path) == group]
        try:
            for location, found in orphans.items():
                self._places.store(location).delete(found)
        except StorageError as error:
            return f"{row.name}: staged files of transaction {group.transaction_id} could not be deleted: {error}"
        number = sum(map(len, orphans.values()))
        return (
            f"{row.name}: {number} staged files of transaction {group.transaction_id} ({named}) were deleted, because "
            "no commit needs them"
        )

    def _is_ratified(self, row: Row[Any], group: TransactionGroup) -> bool:
        """Return whether the table of `row` has the commit of this group, with the same participants."""
        version = group.versions[row.table_id]
        recorded = self._database.read(lambda c: _file_name(c, row.table_id, version))
        return group_of_version(self._places.store(row.location), version, recorded) == group

    def _has_commit(self, table_id: str, group: TransactionGroup) -> bool:
        """Return whether the owner ratified a commit of the transaction as the group's version of the table."""
        ratified = sa.select(commits.c.commit_id).where(
            commits.c.table_id == table_id,
            commits.c.version == group.versions.get(table_id),
            commits.c.state == RATIFIED,
        )
        return self._database.read(lambda c: c.execute(ratified).scalar()) == group.transaction_id

    def _unrecorded(self, row: Row[Any], before_ms: int, first: int, last: int | None = None) -> list[str]:
        def recorded(connection: Connection) -> tuple[Sequence[str], int]:
            names = connection.execute(sa.select(commits.c.file_name).where(commits.c.table_id == row.table_id))
            # Files from before a recovery stay, because the user may want to inspect them. The database has no record
            # of them.
            return names.scalars().all(), connection.execute(sa.select(owner.c.recovered_ms)).scalar_one()

        names, after_ms = self._database.read(recorded)
        return unrecorded(self._places.store(row.location), set(names), before_ms, first, after_ms, last)


def named_table(connection: Connection, name: str) -> Row[Any] | None:
    """Return the row of the owner's table with this name, None without one."""
    return connection.execute(
        sa.select(tables).where(tables.c.name == name, tables.c.state != TableState.RELEASED.value)
    ).first()


def _of_group(connection: Connection, group: TransactionGroup) -> Sequence[Row[Any]]:
    """Return the rows of the group's tables that this owner has, by name."""
    wanted = sa.select(tables).where(
        tables.c.table_id.in_(sorted(group.versions)), tables.c.state != TableState.RELEASED.value
    )
    return connection.execute(wanted.order_by(tables.c.name)).all()


def _file_name(connection: Connection, table_id: str, version: int) -> str | None:
    """Return the name of the staged file of a ratified version, None without a record."""
    return connection.execute(
        sa.select(commits.c.file_name).where(
            commits.c.table_id == table_id, commits.c.version == version, commits.c.state == RATIFIED
        )
    ).scalar()


def _named(group: TransactionGroup, names: Mapping[str, str]) -> str:
    return ", ".join(f"{names.get(part.table_id, part.table_id)} version {part.version}" for part in group.participants)
