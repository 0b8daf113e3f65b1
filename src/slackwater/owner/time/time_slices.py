"""Time slices: a stable state of every table at one instant, and the latest state of all tables.

Source: paper §1 (timeslice); docs/time-travel.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from slackwater.errors import CommitOwnerBusy, TimestampOutOfRange
from slackwater.owner.api.commits import TableState
from slackwater.owner.api.timestamp_range import at_ms
from slackwater.owner.api.transactions import Cut, TableVersion
from slackwater.owner.commit.ratification import resolve_expired
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import commits, owner, prepared, tables
from slackwater.owner.state.clock import OwnerClock
from slackwater.owner.state.group_commit import GroupCommitQueue
from slackwater.owner.state.log_head import RATIFIED
from slackwater.owner.state.notifications import ChangeNotifier, WaitLoop
from slackwater.owner.state.shared_clock import SharedTime, begin_slice, raise_last, read_clock
from slackwater.owner.state.table_stores import TableStores
from slackwater.owner.time.timestamp_requests import has_conflicting_reservation

_KNOWN = (
    sa.select(
        tables.c.table_id,
        tables.c.name,
        tables.c.location,
        tables.c.ratified_version,
        tables.c.ratified_ms,
        tables.c.ratified_change,
        tables.c.purged_version,
    )
    .where(tables.c.state == TableState.ACTIVE.value)
    .order_by(tables.c.name)
)
_RELEASED = sa.select(
    tables.c.table_id, tables.c.name, tables.c.location, tables.c.purged_version, tables.c.allocated_ms
).where(tables.c.state == TableState.RELEASED.value, tables.c.allocated_ms > sa.bindparam("at_ms"))
_SERVE = sa.update(owner).where(owner.c.served_ms < sa.bindparam("at_ms")).values(served_ms=sa.bindparam("at_ms"))
_UNSETTLED = (
    sa.select(commits.c.table_id)
    .where(commits.c.state != RATIFIED, commits.c.timestamp_ms <= sa.bindparam("at_ms"))
    .join(tables, (tables.c.table_id == commits.c.table_id) & (commits.c.version > tables.c.ratified_version))
    .distinct()
)
# Prepared transactions with an undecided timestamp.
_VOTED = sa.select(prepared.c.txn_id).where(prepared.c.low_ms < sa.bindparam("at_ms"))
_IN_TRANSFER = sa.select(tables.c.table_id).where(tables.c.transfer_version.is_not(None))
# The newest version up to an instant, for tables with newer versions.
_UP_TO = (
    sa.select(commits.c.table_id, sa.func.max(commits.c.version).label("version"))
    .join(tables, tables.c.table_id == commits.c.table_id)
    .where(
        tables.c.state == TableState.ACTIVE.value,
        tables.c.ratified_ms > sa.bindparam("at_ms"),
        commits.c.version <= tables.c.ratified_version,
        commits.c.timestamp_ms <= sa.bindparam("at_ms"),
    )
    .group_by(commits.c.table_id)
)
_MOST_WAITS = 6000
TOLD_MS = 15_000
"""Maximum wait for a transaction after its request for the time. Less time than a client waits for a response."""


@dataclass(frozen=True, slots=True)
class _InFlight:
    """Possible commits up to an instant: tables with staged commits, prepared transactions, tables in transfer."""

    staged: Sequence[str]
    voted: Sequence[str]
    in_transfer: Sequence[str]


class TimeSlices:
    """Returns the version of every table: the latest, or the version at an instant.

    `resume` completes the transfer of a table, because only then the outcome of its version is known.
    """

    def __init__(
        self,
        database: Database,
        places: TableStores,
        clock: OwnerClock,
        resume: Callable[[str], object],
        changes: ChangeNotifier,
    ) -> None:
        self._database = database
        self._places = places
        self._clock = clock
        self._resume = resume
        self._changes = changes
        # Concurrent calls share one read, which begins after all of them.
        self._newest: GroupCommitQueue[None, Cut] = GroupCommitQueue(
            lambda calls: [database.read(self._latest)] * len(calls)
        )

    def cut(self, timestamp_ms: int | None = None) -> Cut:
        """Return one state of all tables. See `CommitOwner.cut`."""
        if timestamp_ms is None:
            return self._newest(None)
        served_ms = self._database.read(lambda c: self._served(c, timestamp_ms))
        if served_ms < timestamp_ms:
            self._await_told(timestamp_ms)
        self._settle(timestamp_ms)
        return self._database.read(lambda c: self._of_past(c, timestamp_ms))

    def _latest(self, connection: Connection) -> Cut:
        now = SharedTime.of(connection, self._clock)
        rows = connection.execute(_KNOWN).all()
        known = [self._version(row, row.ratified_version, row.ratified_ms, row.ratified_change) for row in rows]
        return Cut(now.now_ms, known)

    def _served(self, connection: Connection, timestamp_ms: int) -> int:
        now = SharedTime.of(connection, self._clock)
        if timestamp_ms > now.now_ms:
            raise TimestampOutOfRange(
                f"{at_ms(timestamp_ms).isoformat()} is in the future: the commit owner's clock is at "
                f"{at_ms(now.now_ms).isoformat()}. For the current state, read the newest version"
            )
        return now.served_ms

    def _await_told(self, timestamp_ms: int) -> None:
        """Serve the instant, after transactions with a returned time up to it have ended or timed out."""
        waits, ends_s = WaitLoop(self._changes, lambda: None), time.monotonic() + TOLD_MS / 1000
        waits_for_told = True
        while not self._database.write(lambda c, waits_on=waits_for_told: self._serve(c, timestamp_ms, waits_on)):  # type: ignore[misc]
            while waits_for_told and self._database.read(lambda c: self._is_told(c, timestamp_ms)):
                waits.wait()
                waits_for_told = time.monotonic() < ends_s

    def _serve(self, connection: Connection, timestamp_ms: int, waits_for_told: bool) -> bool:
        """Block timestamps up to this instant from now on. All earlier allocations are known afterwards.

        Return False if a transaction with such a reservation must be waited for. Other transactions then get later
        times only.
        """
        begin_slice(connection)
        if waits_for_told and self._is_told(connection, timestamp_ms):
            raise_last(connection, timestamp_ms + 1)
            return False
        connection.execute(_SERVE, {"at_ms": timestamp_ms})
        return True

    def _is_told(self, connection: Connection, timestamp_ms: int) -> bool:
        now_ms = read_clock(connection, self._clock)
        return has_conflicting_reservation(connection, timestamp_ms, now_ms - TOLD_MS, now_ms)

    def _settle(self, timestamp_ms: int) -> None:
        """Wait until no commit with a timestamp up to the instant is in progress."""
        under_way = _InFlight((), (), ())

        def doubt() -> None:
            for table_id in under_way.staged:
                resolve_expired(self._database, self._clock, table_id)

        waits = WaitLoop(self._changes, doubt)
        for _ in range(1, _MOST_WAITS):
            under_way = self._database.read(lambda c: _under_way(c, timestamp_ms))
            for table_id in under_way.in_transfer:
                self._resume(table_id)
            if under_way.staged or under_way.voted:
                waits.wait()
            elif not under_way.in_transfer:
                return
        raise CommitOwnerBusy(
            f"commits before {at_ms(timestamp_ms).isoformat()} are staged all the time. Retry in a moment"
        )

    def _of_past(self, connection: Connection, timestamp_ms: int) -> Cut:
        older = {row.table_id: row.version for row in connection.execute(_UP_TO, {"at_ms": timestamp_ms})}
        found = []
        for row in connection.execute(_KNOWN).all():
            if row.ratified_ms <= timestamp_ms:
                found.append(self._version(row, row.ratified_version, row.ratified_ms))
            else:
                found.append(self._version(row, older.get(row.table_id), None))
        return Cut(timestamp_ms, self._with_released(connection, timestamp_ms, found))

    def _with_released(
        self, connection: Connection, timestamp_ms: int, found: Sequence[TableVersion]
    ) -> Sequence[TableVersion]:
        """Add the tables released after the instant. Their logs have the versions. They retain their names."""
        by_name = {table.name: table for table in found}
        # Of several tables with one name, the first released table had the name at the instant.
        in_order = sorted(connection.execute(_RELEASED, {"at_ms": timestamp_ms}), key=lambda row: -row.allocated_ms)
        for row in in_order:
            by_name[row.name] = replace(self._version(row, None, None), is_released=True)
        return [by_name[name] for name in sorted(by_name)] if in_order else found

    def _version(
        self, row: Any, version: int | None, timestamp_ms: int | None, change_version: int | None = None
    ) -> TableVersion:
        return TableVersion(
            row.table_id,
            row.name,
            self._places.url(row.location),
            version,
            timestamp_ms,
            int(row.purged_version) + 1,
            change_version=change_version,
        )


def _under_way(connection: Connection, timestamp_ms: int) -> _InFlight:
    return _InFlight(
        connection.execute(_UNSETTLED, {"at_ms": timestamp_ms}).scalars().all(),
        connection.execute(_VOTED, {"at_ms": timestamp_ms}).scalars().all(),
        connection.execute(_IN_TRANSFER).scalars().all(),
    )
