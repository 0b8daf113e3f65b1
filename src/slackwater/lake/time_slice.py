"""Every table of a lake as of one instant: the same answer for ever.

Source: paper §1 (timeslice); docs/time-travel.md.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace

from slackwater.errors import InvalidArgument, SlackwaterError, TableNotFound, TimestampOutOfRange, VersionNotFound
from slackwater.html.components import card_or_reason
from slackwater.lake.html_repr import slice_card
from slackwater.lake.tables import LakeTables
from slackwater.log.history import CommitHistory, format_ms, to_ms
from slackwater.log.table import Table
from slackwater.owner.api.timestamp_range import at_ms
from slackwater.owner.api.transactions import TableVersion
from slackwater.scan.snapshot import Snapshot

Instant = dt.datetime | dt.date | str | int
"""A moment as people give it: a date is its first instant, text is ISO 8601, a number is ms since the epoch."""

_GREATEST_MS = 253_402_300_799_999
_NAMED = 10


class LogTimeSlice:
    """The tables of a lake as they were at one instant; `LogLake.as_of` gives it.

    The owner was asked once, for all of them: no commit can get a timestamp up to that instant any more. The log of a
    table is read when the table is asked for. A table that was adopted counts from when it began, by its own log, and
    one that was handed back until then: it keeps its name in all slices of before, and is read where it was. Other
    tables have the names that they have now.
    """

    def __init__(self, lake: LakeTables, timestamp_ms: int) -> None:
        """Ask the owner of `lake` for the state at `timestamp_ms`. Raises TimestampOutOfRange for the future."""
        self._lake = lake
        self._timestamp_ms = timestamp_ms
        self._tables = {table.name: table for table in lake.owner.cut(timestamp_ms).tables}
        self._versions: dict[str, int] = {}
        self._snapshots: dict[str, Snapshot] = {}

    @property
    def timestamp(self) -> dt.datetime:
        """The instant: UTC, whole milliseconds."""
        return at_ms(self._timestamp_ms)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.timestamp.isoformat(timespec='milliseconds')}>"

    def _repr_html_(self) -> str:
        kind = type(self).__name__
        return card_or_reason(kind, repr(self), lambda: slice_card(kind, self._timestamp_ms, self._tables))

    def tables(self) -> list[str]:
        """The names of the tables that there were, sorted.

        Names alone: what else a lake's `tables` tells of each is of now. The log is read of tables that the owner's
        database does not tell that of: of then it holds no commit. Raises StorageError, and what reading a log raises.

        >>> now = lake.run(lambda tx: tx.current_timestamp())
        >>> lake.as_of(now).tables()
        ['orders', 'stock']
        """
        return sorted(name for name in self._tables if self._existed(name))

    def version(self, name: str) -> int:
        """The version of the table `name` that was the newest then.

        Raises TableNotFound for a table that there is not, or was not yet, TimestampOutOfRange where the table's log
        was cleaned up and does not reach back so far, VersionNotFound where it was handed back and its log is gone.

        >>> now = lake.run(lambda tx: tx.current_timestamp())
        >>> lake.as_of(now).version("stock")
        1
        """
        at = self._table(name)
        if name not in self._versions:
            self._versions[name] = self._told_by_log(at) if at.version is None else at.version
        return self._versions[name]

    def snapshot(self, name: str) -> Snapshot:
        """The table `name` as it was.

        Raises as `version` does, VersionNotFound where its log was cleaned up, CorruptTable.

        >>> now = lake.run(lambda tx: tx.current_timestamp())
        >>> lake.as_of(now).snapshot("stock").to_arrow().to_pylist()
        [{'sku': 'A1', 'qty': 10}]
        """
        version = self.version(name)
        if name not in self._snapshots:
            table = self._reached(self._table(name))
            try:
                self._snapshots[name] = Snapshot.open(table, version)
            except VersionNotFound as error:
                raise VersionNotFound(
                    f"the table {name!r} had version {version} at {format_ms(self._timestamp_ms)}, which its log does "
                    f"not hold any more: {error}"
                ) from error
        return self._snapshots[name]

    def _table(self, name: str) -> TableVersion:
        if not isinstance(name, str):
            raise InvalidArgument(f"a table of the lake is named by a text, found {type(name).__name__}")
        if name not in self._tables:
            known = ", ".join(list(self._tables)[:_NAMED]) or "none"
            raise TableNotFound(f"there is no table named {name!r} in this lake: there are {known}")
        return self._tables[name]

    def _reached(self, at: TableVersion) -> Table:
        return self._lake.table_at(at.location) if at.is_released else self._lake.table_of(at)

    def _existed(self, name: str) -> bool:
        at = self._table(name)
        if at.version is not None:
            return True
        if at.known_from == 0:
            return False
        try:
            self.version(name)
        except VersionNotFound:
            # It was handed back, and its log is gone: a caller that asks for it is told so.
            return True
        except TableNotFound:
            return False
        except TimestampOutOfRange:
            # The log does not reach back; the table may say when it was made.
            created_ms = Snapshot.open(self._reached(at)).metadata.created_time
            return created_ms is None or created_ms <= self._timestamp_ms
        return True

    def _told_by_log(self, at: TableVersion) -> int:
        """The version by the log, up to where the owner's database begins."""
        table = self._reached(at)
        try:
            newest = Snapshot.open(table)
            listing = table.list_log()
        except SlackwaterError as error:
            if not at.is_released:
                raise
            raise VersionNotFound(
                f"the table {at.name!r} was the lake's at {format_ms(self._timestamp_ms)}, and was handed back "
                f"later as version {at.known_from - 1}; its log cannot be read any more: {error}"
            ) from error
        commits = {version: file for version, file in listing.commits.items() if version < at.known_from}
        checkpoints = tuple(c for c in listing.checkpoints if c.version < at.known_from)
        earlier = CommitHistory(
            table.store, replace(listing, commits=commits, checkpoints=checkpoints), newest.configuration
        )
        try:
            if commits:
                return earlier.version_at(self._timestamp_ms, allow_after_last_commit=True)
        except TimestampOutOfRange:
            pass
        whole = CommitHistory(table.store, listing, newest.configuration)
        then = format_ms(self._timestamp_ms)
        if whole.versions and whole.versions[0] == 0 and whole.timestamp_ms(0) > self._timestamp_ms:
            since = format_ms(whole.timestamp_ms(0))
            raise TableNotFound(f"there was no table named {at.name!r} at {then}: it exists since {since}")
        if at.known_from == 0:
            raise TableNotFound(f"there was no table named {at.name!r} at {then}: it was created later")
        raise TimestampOutOfRange(
            f"which version the table {at.name!r} had at {then} cannot be told: its log was cleaned up, and its oldest "
            f"commit is {_oldest(whole)}"
        )


def instant_ms(timestamp: Instant, zone: dt.tzinfo = dt.timezone.utc, zone_name: str = "UTC") -> int:
    """A moment in ms since the epoch; what names no zone is taken in `zone`, a part of a millisecond is cut.

    Raises InvalidArgument for what is no moment, TimestampOutOfRange before 1970 and after the year 9999.
    """
    try:
        found = to_ms(timestamp, zone)
    except (InvalidArgument, OverflowError, ValueError, TypeError) as error:
        raise InvalidArgument(
            f"expected an instant: a datetime, a date, ISO 8601 text such as 2026-11-21T10:00:00Z (without a zone it "
            f"is in {zone_name}), or a whole number of ms since the epoch; found {timestamp!r}"
        ) from error
    if not isinstance(found, int):
        # What pandas calls "not a time" passes for a datetime.
        raise InvalidArgument(f"expected an instant, found {timestamp!r}")
    if not 0 <= found <= _GREATEST_MS:
        raise TimestampOutOfRange(f"an instant is from 1970 to 9999, found {timestamp!r}: {format_ms(found)}")
    return found


def _oldest(history: CommitHistory) -> str:
    versions: Sequence[int] = history.versions
    return f"version {versions[0]} of {format_ms(history.timestamp_ms(versions[0]))}" if versions else "gone"
