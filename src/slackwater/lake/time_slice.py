"""Time slice: all tables of a lake as of one instant. The result never changes.

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
"""An instant. A date is its first instant, text is ISO 8601, a number is ms since the epoch."""

_GREATEST_MS = 253_402_300_799_999
_NAMED = 10


class LogTimeSlice:
    """The tables of a lake as of one instant, returned by `LogLake.as_of`.

    One request to the owner covers all tables. The owner assigns no later commit a timestamp up to that instant. The
    log of a table is read on the first access to the table. An adopted table is part of slices from its own first
    commit on, according to its log. A released table is part of slices before its release, under its name and at its
    old location. Other tables have their current names.
    """

    def __init__(self, lake: LakeTables, timestamp_ms: int) -> None:
        """Request the state at `timestamp_ms` from the owner of `lake`. Raises TimestampOutOfRange for the future."""
        self._lake = lake
        self._timestamp_ms = timestamp_ms
        self._tables = {table.name: table for table in lake.owner.cut(timestamp_ms).tables}
        self._versions: dict[str, int] = {}
        self._snapshots: dict[str, Snapshot] = {}

    @property
    def timestamp(self) -> dt.datetime:
        """The instant in UTC, with whole milliseconds."""
        return at_ms(self._timestamp_ms)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.timestamp.isoformat(timespec='milliseconds')}>"

    def _repr_html_(self) -> str:
        kind = type(self).__name__
        return card_or_reason(kind, repr(self), lambda: slice_card(kind, self._timestamp_ms, self._tables))

    def tables(self) -> list[str]:
        """Return the sorted names of the tables existing at the instant.

        Returns names only, because the other fields of a lake's `tables` are current values. If the owner's database
        has no commit of a table up to the instant, the table's log decides. Raises StorageError, and the errors of
        reading a log.

        >>> now = lake.run(lambda tx: tx.current_timestamp())
        >>> lake.as_of(now).tables()
        ['orders', 'stock']
        """
        return sorted(name for name in self._tables if self._existed(name))

    def version(self, name: str) -> int:
        """Return the newest version of the table `name` at the instant.

        Raises:
            TableNotFound: If the table does not exist, or did not exist yet.
            TimestampOutOfRange: If log cleanup removed the commits of that time.
            VersionNotFound: If the table was released and its log is not readable.

        >>> now = lake.run(lambda tx: tx.current_timestamp())
        >>> lake.as_of(now).version("stock")
        1
        """
        at = self._table(name)
        if name not in self._versions:
            self._versions[name] = self._told_by_log(at) if at.version is None else at.version
        return self._versions[name]

    def snapshot(self, name: str) -> Snapshot:
        """Return the table `name` as of the instant.

        Raises the errors of `version`, VersionNotFound if log cleanup removed the version, CorruptTable.

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
                    f"the table {name!r} had version {version} at {format_ms(self._timestamp_ms)}, but its log no "
                    f"longer contains this version: {error}"
                ) from error
        return self._snapshots[name]

    def _table(self, name: str) -> TableVersion:
        if not isinstance(name, str):
            raise InvalidArgument(f"the name of a table must be a str, found {type(name).__name__}")
        if name not in self._tables:
            known = ", ".join(list(self._tables)[:_NAMED]) or "none"
            raise TableNotFound(f"no table named {name!r} exists in this lake. Existing tables: {known}")
        return self._tables[name]

    def _reached(self, at: TableVersion) -> Table:
        return self._lake._table_at(at.location) if at.is_released else self._lake._table_of(at)

    def _existed(self, name: str) -> bool:
        at = self._table(name)
        if at.version is not None:
            return True
        if at.known_from == 0:
            return False
        try:
            self.version(name)
        except VersionNotFound:
            # List a released table without a log, because `version` raises a clear error for it.
            return True
        except TableNotFound:
            return False
        except TimestampOutOfRange:
            # The log does not reach back, so the creation time of the metadata decides.
            created_ms = Snapshot.open(self._reached(at)).metadata.created_time
            return created_ms is None or created_ms <= self._timestamp_ms
        return True

    def _told_by_log(self, at: TableVersion) -> int:
        """Return the version according to the log, for commits before the owner's records."""
        table = self._reached(at)
        try:
            newest = Snapshot.open(table)
            listing = table.list_log()
        except SlackwaterError as error:
            if not at.is_released:
                raise
            raise VersionNotFound(
                f"the table {at.name!r} belonged to the lake at {format_ms(self._timestamp_ms)} and was released "
                f"later as version {at.known_from - 1}. Its log is no longer readable: {error}"
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
            raise TableNotFound(f"no table named {at.name!r} existed at {then}. It exists since {since}")
        if at.known_from == 0:
            raise TableNotFound(f"no table named {at.name!r} existed at {then}. It was created later")
        raise TimestampOutOfRange(
            f"the version of the table {at.name!r} at {then} is unknown, because its log was cleaned up. Its "
            f"oldest commit is {_oldest(whole)}"
        )


def instant_ms(timestamp: Instant, zone: dt.tzinfo = dt.timezone.utc, zone_name: str = "UTC") -> int:
    """Return an instant in ms since the epoch. `zone` applies to input without a zone; part milliseconds are cut off.

    Raises InvalidArgument if `timestamp` is not an instant, TimestampOutOfRange before 1970 and after the year 9999.
    """
    try:
        found = to_ms(timestamp, zone)
    except (InvalidArgument, OverflowError, ValueError, TypeError) as error:
        raise InvalidArgument(
            f"expected an instant: a datetime, a date, ISO 8601 text such as 2026-11-21T10:00:00Z (without a zone it "
            f"is in {zone_name}), or a whole number of ms since the epoch; found {timestamp!r}"
        ) from error
    if not isinstance(found, int):
        # pandas.NaT is an instance of datetime.
        raise InvalidArgument(f"expected an instant, found {timestamp!r}")
    if not 0 <= found <= _GREATEST_MS:
        raise TimestampOutOfRange(f"an instant is from 1970 to 9999, found {timestamp!r}: {format_ms(found)}")
    return found


def _oldest(history: CommitHistory) -> str:
    versions: Sequence[int] = history.versions
    return f"version {versions[0]} of {format_ms(history.timestamp_ms(versions[0]))}" if versions else "removed"
