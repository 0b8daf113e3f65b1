"""Time slices: every table as of one instant, the same answer for ever; and the latest state of all of them.

Source: paper §1 (timeslice); design §6 (as-of reads over many tables).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from slackwater.errors import CommitOwnerBusy, TimestampOutOfRange
from slackwater.owner.api import TableState
from slackwater.owner.clock import OwnerClock
from slackwater.owner.commits import settle_abandoned
from slackwater.owner.database import Database
from slackwater.owner.database_schema import commits, owner, prepared, tables
from slackwater.owner.heads import RATIFIED
from slackwater.owner.owner_time import OwnerTime, begin_slice
from slackwater.owner.places import Places
from slackwater.owner.timestamp_range import at_ms
from slackwater.owner.transaction_api import Cut, TableVersion
from slackwater.owner.waiting import Changes

_KNOWN = (
    sa.select(
        tables.c.table_id,
        tables.c.name,
        tables.c.location,
        tables.c.ratified_version,
        tables.c.ratified_ms,
        tables.c.purged_version,
    )
    .where(tables.c.state == TableState.ACTIVE.value)
    .order_by(tables.c.name)
)
_SERVE = sa.update(owner).where(owner.c.served_ms < sa.bindparam("at_ms")).values(served_ms=sa.bindparam("at_ms"))
_UNSETTLED = (
    sa.select(commits.c.table_id)
    .where(commits.c.state != RATIFIED, commits.c.timestamp_ms <= sa.bindparam("at_ms"))
    .join(tables, (tables.c.table_id == commits.c.table_id) & (commits.c.version > tables.c.ratified_version))
    .distinct()
)
# What was promised to commit at a time that is to be decided.
_VOTED = sa.select(prepared.c.txn_id).where(prepared.c.low_ms < sa.bindparam("at_ms"))
_IN_TRANSFER = sa.select(tables.c.table_id).where(tables.c.transfer_version.is_not(None))
# The newest version up to an instant, of the tables that have newer ones.
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
_FIRST_WAIT_S = 0.001
_DOUBT_EVERY = 10
_MOST_WAITS = 6000


class TimeSlices:
    """Answers which version of every table is the latest, or was at an instant.

    `resume` finishes the transfer of a table: whether its version counts is known only then.
    """

    def __init__(
        self, database: Database, places: Places, clock: OwnerClock, resume: Callable[[str], object], changes: Changes
    ) -> None:
        self._database = database
        self._places = places
        self._clock = clock
        self._resume = resume
        self._changes = changes

    def cut(self, timestamp_ms: int | None = None) -> Cut:
        """As `CommitOwner.cut`."""
        if timestamp_ms is None:
            return self._database.read(self._latest)
        served_ms = self._database.read(lambda c: self._served(c, timestamp_ms))
        if served_ms < timestamp_ms:
            self._database.write(lambda c: self._serve(c, timestamp_ms))
        self._settle(timestamp_ms)
        return self._database.read(lambda c: self._of_past(c, timestamp_ms))

    def _latest(self, connection: Connection) -> Cut:
        time = OwnerTime.of(connection, self._clock.now_ms())
        known = [self._version(row, row.ratified_version, row.ratified_ms) for row in connection.execute(_KNOWN)]
        return Cut(time.now_ms, known)

    def _served(self, connection: Connection, timestamp_ms: int) -> int:
        time = OwnerTime.of(connection, self._clock.now_ms())
        if timestamp_ms > time.now_ms:
            raise TimestampOutOfRange(
                f"{at_ms(timestamp_ms).isoformat()} has not come yet: by the commit owner's clock it is "
                f"{at_ms(time.now_ms).isoformat()}; what is current is the newest version"
            )
        return time.served_ms

    def _serve(self, connection: Connection, timestamp_ms: int) -> None:
        """From now on no timestamp up to this one is given out; those that were are known when this is done."""
        begin_slice(connection)
        connection.execute(_SERVE, {"at_ms": timestamp_ms})

    def _settle(self, timestamp_ms: int) -> None:
        """Wait until no commit of before then is under way."""
        for waits in range(1, _MOST_WAITS):
            unsettled, in_transfer = self._database.read(lambda c: _unsettled(c, timestamp_ms))
            if not unsettled and not in_transfer:
                return
            for table_id in in_transfer:
                self._resume(table_id)
            if waits % _DOUBT_EVERY == 0:
                for table_id in unsettled:
                    settle_abandoned(self._database, self._clock, table_id)
            if unsettled:
                self._changes.wait(_FIRST_WAIT_S * waits)
        raise CommitOwnerBusy(
            f"commits of before {at_ms(timestamp_ms).isoformat()} are being staged all the time: ask again in a moment"
        )

    def _of_past(self, connection: Connection, timestamp_ms: int) -> Cut:
        older = {row.table_id: row.version for row in connection.execute(_UP_TO, {"at_ms": timestamp_ms})}
        found = []
        for row in connection.execute(_KNOWN):
            if row.ratified_ms <= timestamp_ms:
                found.append(self._version(row, row.ratified_version, row.ratified_ms))
            else:
                found.append(self._version(row, older.get(row.table_id), None))
        return Cut(timestamp_ms, found)

    def _version(self, row: Any, version: int | None, timestamp_ms: int | None) -> TableVersion:
        known_from = int(row.purged_version) + 1
        return TableVersion(row.table_id, row.name, self._places.url(row.location), version, timestamp_ms, known_from)


def _unsettled(connection: Connection, timestamp_ms: int) -> tuple[list[str], list[str]]:
    unsettled = list(connection.execute(_UNSETTLED, {"at_ms": timestamp_ms}).scalars())
    unsettled += [f"of {txn_id}" for txn_id in connection.execute(_VOTED, {"at_ms": timestamp_ms}).scalars()]
    return unsettled, list(connection.execute(_IN_TRANSFER).scalars())
