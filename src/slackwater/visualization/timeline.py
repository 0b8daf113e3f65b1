"""Timeline of a table or of a lake's tables, in the order of serialization time.

Source: docs/time-travel.md "What was done"; paper §1 (timestamp order is serialization order).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from sys import intern
from typing import Any

from slackwater.errors import InvalidArgument
from slackwater.html.redaction import without_secrets
from slackwater.lake.history import LakeCommit, lake_transactions, table_transactions
from slackwater.lake.lake import LogLake
from slackwater.log.files.commit_changes import CommitChanges
from slackwater.owner.api.timestamp_range import at_ms
from slackwater.scan.snapshot import Snapshot

_MS = 1000


@dataclass(frozen=True, slots=True)
class CommitMark:
    """A commit to the table of lane `lane`. `at_ms` is its timestamp, `note` its user metadata."""

    lane: int
    version: int
    at_ms: int
    operation: str | None
    user: str | None
    note: str | None
    changes: CommitChanges


@dataclass(frozen=True, slots=True)
class CommitGroup:
    """A transaction: one mark per table, in the order of lanes, all with the same timestamp."""

    at_ms: int
    transaction_id: str | None
    marks: tuple[CommitMark, ...]


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Selection of transactions: the newest `limit` from `since_ms` to `until_ms`, both inclusive."""

    since_ms: int | None = None
    until_ms: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Timeline:
    """The transactions, oldest first. `lanes` are table names; `place` is the location of the table or lake.

    `has_more`: older or newer transactions are omitted.
    """

    title: str
    place: str
    is_lake: bool
    lanes: Sequence[str]
    deeds: Sequence[CommitGroup]
    has_more: bool = False

    @property
    def marks(self) -> Iterator[CommitMark]:
        """The commits, oldest first."""
        return chain.from_iterable(deed.marks for deed in self.deeds)

    def record(self) -> dict[str, Any]:
        """Return the timeline as JSON, newest first. Times are datetimes in UTC; unreported values are None."""
        return {
            "title": self.title,
            "location": self.place,
            "tables": list(self.lanes),
            "hasMore": self.has_more,
            "transactions": [
                {
                    "timestamp": at_ms(deed.at_ms),
                    "transactionId": deed.transaction_id,
                    "commits": [self._record(mark) for mark in deed.marks],
                }
                for deed in reversed(self.deeds)
            ],
        }

    def _record(self, mark: CommitMark) -> dict[str, Any]:
        done = mark.changes
        return {
            "table": self.lanes[mark.lane],
            "version": mark.version,
            "operation": mark.operation,
            "userName": mark.user,
            "userMetadata": mark.note,
            "rowsAdded": done.rows_added,
            "rowsUpdated": done.rows_updated,
            "rowsRemoved": done.rows_removed,
            "bytesAdded": done.bytes_added,
            "bytesRemoved": done.bytes_removed,
            "filesAdded": done.files_added,
            "filesRemoved": done.files_removed,
            "vectorsChanged": done.vectors,
            "vectorRows": done.vector_rows,
        }


def timeline_of_table(snapshot: Snapshot, window: TimeWindow = TimeWindow()) -> Timeline:
    """Return the commits up to `snapshot` still in the log. Raises InvalidArgument, CorruptLog, StorageError."""
    place = without_secrets(snapshot.store.root_url)
    name = snapshot.metadata.name or place.rstrip("/").rsplit("/", 1)[-1]
    deeds, has_more = _within(table_transactions(snapshot, name), window, [name])
    return Timeline(name, place, False, [name], deeds, has_more)


def timeline_of_lake(lake: LogLake, place: str, window: TimeWindow = TimeWindow()) -> Timeline:
    """Return the transactions of all tables of `lake` at `place` up to now. Raises as `timeline_of_table`."""
    tables = lake.owner.cut().tables
    lanes = sorted(table.name for table in tables)
    place = without_secrets(place)
    deeds, has_more = _within(lake_transactions(tables, lake._table_of), window, lanes)
    return Timeline(place.rstrip("/").rsplit("/", 1)[-1] or place, place, True, lanes, deeds, has_more)


def _within(found: Iterator[LakeCommit], window: TimeWindow, lanes: Sequence[str]) -> tuple[list[CommitGroup], bool]:
    """Return the transactions in the window, oldest first, and whether more exist. Older commits are not read."""
    if window.limit is not None and window.limit < 1:
        raise InvalidArgument(f"limit must be a whole number from 1, found {window.limit}")
    numbers = {name: number for number, name in enumerate(lanes)}
    deeds: list[CommitGroup] = []
    has_more = False
    for commit in found:
        deed = _deed(commit, numbers)
        if window.until_ms is not None and deed.at_ms > window.until_ms:
            has_more = True
        elif (window.since_ms is not None and deed.at_ms < window.since_ms) or len(deeds) == window.limit:
            return deeds[::-1], True
        else:
            deeds.append(deed)
    return deeds[::-1], has_more


def _deed(commit: LakeCommit, numbers: dict[str, int]) -> CommitGroup:
    # The timestamp has whole milliseconds.
    ms = round(commit.timestamp.timestamp() * _MS)
    marks = [
        CommitMark(
            numbers[name], of.version, ms, _known(of.operation), _known(of.user_name), of.user_metadata, of.changes
        )
        for name, of in commit.commits.items()
    ]
    return CommitGroup(ms, commit.transaction_id, tuple(sorted(marks, key=lambda mark: mark.lane)))


def _known(text: str | None) -> str | None:
    """Return the interned text, so that equal texts of many commits share memory."""
    return None if text is None else intern(text)


def newest(marks: Iterable[CommitMark], most: int) -> list[CommitMark]:
    """Return the last `most` of `marks`, newest first. `marks` are oldest first."""
    return list(islice(reversed(list(marks)), most))
