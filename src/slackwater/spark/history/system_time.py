"""Transaction-time relation of a table: every version of its rows, with its period.

Supports `FOR SYSTEM_TIME AS OF`, `FROM … TO`, `BETWEEN … AND` and ALL of SQL:2011, over the data files of all versions.
Source: paper §1 (transaction-time relations); SQL:2011 Part 2, 7.6 <table reference>; docs/time-travel.md.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from slackwater.errors import DataFileNotFound, InvalidArgument, OperationNotAllowed, TimestampOutOfRange
from slackwater.html.components import badge, card, card_or_reason, code, facts, table
from slackwater.html.element import Markup, element
from slackwater.html.redaction import without_secrets
from slackwater.lake.time_slice import Instant
from slackwater.log.history import format_ms
from slackwater.owner.api.timestamp_range import at_ms
from slackwater.scan.file_lifetimes import FOREVER_MS, FileLifetime, file_lifetimes
from slackwater.scan.history_coverage import HistoryCoverage, not_covered, require_enabled
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.history.row_lifetimes import END, START, row_lifetimes
from slackwater.spark.read.metadata_column import ROW_COMMIT_VERSION, ROW_ID
from slackwater.spark.read.table_scan import ScanOptions, TableScan
from slackwater.spark.session.settings import session_instant_ms
from slackwater.sql.lexer import quoted
from slackwater.visualization.row_history import MOST_KEYS, MOST_VERSIONS, RowHistory, RowVersion

SYSTEM_START, SYSTEM_END = "system_start", "system_end"
STARTED_BY, ENDED_BY = "started_by", "ended_by"
_START_MS, _END_MS = "__slackwater_start_ms", "__slackwater_end_ms"

_NEVER_MS, _FIRST_MS, _LAST_MS = -1, 0, FOREVER_MS - 1


class SystemTimeRelation:
    """The versions of a table's rows, returned by `DeltaTable.system_time`.

    DataFrames have the table's columns, with current names and types, plus `system_start` and `system_end`: the row was
    current in `[system_start, system_end)`. Both are commit times; `system_end` is NULL for current rows. A row version
    lasts from an insert or update to the next update or delete. Rearranged files do not end a version. Versions older
    than the coverage (`since`) start at its begin. Each call reads the table again.

    >>> lake.table("stock").update("sku = 'A1'", {"qty": "7"})
    >>> versions = lake.table("stock").system_time().changes({"sku": "A1"})
    >>> [(row.qty, row.system_end is None) for row in versions.collect()]
    [(10, False), (7, True)]
    """

    def __init__(
        self,
        spark: SparkSession,
        latest: Callable[[], Snapshot],
        since: Instant | None = None,
        row_tracking: bool = False,
        allow_outside_root: bool = False,
        place: str = "a table",
    ) -> None:
        """`latest` returns the newest version. `row_tracking` adds `_row_id` and `_row_commit_version`.

        `place` is the display name of the table.
        """
        self._spark = spark
        self._latest = latest
        self._row_tracking = row_tracking
        self._allow_outside_root = allow_outside_root
        self._place = place
        self._since_ms = None if since is None else self._instant(since)

    def __repr__(self) -> str:
        since = "" if self._since_ms is None else f", since {format_ms(self._since_ms)}"
        return f"<SystemTime of {self._place}{since}>"

    def _repr_html_(self) -> str:
        return card_or_reason("SystemTime", self._place, self._card)

    def _card(self) -> Markup:
        """Return an overview of the methods. Reads the log once."""
        snapshot = self._latest()
        since = "as far back as rows can be followed" if self._since_ms is None else format_ms(self._since_ms)
        problem = _problem(snapshot)
        ways = {
            "all()": "every version of every row",
            "as_of(t)": "the rows that were current at an instant",
            "from_to(a, b), between(a, b)": "the versions that were current in a period",
            "changes(key)": "the versions of the rows with a key, in order of time",
            "draw(key)": "the same as bars on an axis of time",
        }
        return card(
            "SystemTime",
            self._place,
            facts({"newest version": snapshot.version, "since": since}),
            None if problem is None else element("p", badge("not yet", "bad"), f" {problem}"),
            table(["ask", "what it gives"], [(code(name), told) for name, told in ways.items()]),
            note=f"Frames have the table's columns, {SYSTEM_START} and {SYSTEM_END}.",
        )

    @property
    def since(self) -> dt.datetime:
        """Begin of the coverage in UTC: from then on, every change is known.

        The begin is the latest of: the first version; the activation of row tracking and in-commit timestamps; the last
        incompatible schema change; the end of log cleanup; the requested start.
        """
        return at_ms(self._covered(self._newest())[0].timestamp_ms)

    def toDF(self) -> DataFrame:  # noqa: N802  (as DeltaTable's)
        """Return the versions of all rows. Raises as `all`.

        >>> lake.table("stock").system_time().toDF().columns
        ['sku', 'qty', 'system_start', 'system_end']
        """
        return self.all()

    def all(self) -> DataFrame:
        """Return the versions of all rows.

        Raises:
            OperationNotAllowed: If the table lacks row tracking or in-commit timestamps. The message names the
                property.
            DataFileNotFound: If files of former versions were vacuumed.
            CorruptTable: If the log is invalid.

        >>> lake.table("stock").update("sku = 'A1'", {"qty": "7"})
        >>> sorted((row.qty, row.system_end is None) for row in lake.table("stock").system_time().all().collect())
        [(7, True), (10, False)]
        """
        return self._selected(self._newest(), _FIRST_MS, _LAST_MS)

    def as_of(self, timestamp: Instant) -> DataFrame:
        """Return the rows current at `timestamp`, with their periods.

        Instants have the types of `Lake.as_of`. Raises TimestampOutOfRange if `timestamp` is in the future or before
        the coverage, and as `all`.

        >>> now = lake.run(lambda tx: tx.current_timestamp())
        >>> [row.qty for row in lake.table("stock").system_time().as_of(now).collect()]
        [10]
        """
        at = self._instant(timestamp)
        return self._selected(self._settled(at), at, at, is_instant=True)

    def from_to(self, start: Instant, end: Instant) -> DataFrame:
        """Return the versions current at any time in `[start, end)`. An empty period has no versions.

        A future `end` means now. Raises InvalidArgument if `end` is before `start`, and as `as_of` for `start`.

        >>> now = lake.run(lambda tx: tx.current_timestamp())
        >>> [row.qty for row in lake.table("stock").system_time(since=now).from_to(now, now).collect()]  # of no time
        []
        """
        first, last = self._period(start, end)
        if first == last:
            return self._selected(self._settled(first), first, first).limit(0)
        return self._selected(self._settled(first, last - 1), first, last - 1)

    def between(self, start: Instant, end: Instant) -> DataFrame:
        """Return the versions current at any time from `start` to `end`, both inclusive. Raises as `from_to`.

        >>> now = lake.run(lambda tx: tx.current_timestamp())
        >>> [row.qty for row in lake.table("stock").system_time().between(now, now).collect()]
        [10]
        """
        first, last = self._period(start, end)
        return self._selected(self._settled(first, last), first, last)

    def changes(self, key: str | Sequence[str] | Mapping[str, Any]) -> DataFrame:
        """Return the versions of the rows with a key, ordered by the key, then by time.

        `key`: values by names, such as `{"sku": "A1"}`; a name or a list of names selects all keys. The key columns
        identify a row, independent of its row id. If one version begins when another ends, the row was updated, also by
        an overwrite. `started_by` is `insert` or `update` (NULL before the coverage). `ended_by` is `update` or
        `delete` (NULL for current rows). Raises InvalidArgument if a name is not a column, and as `all`.

        >>> versions = lake.table("stock").system_time().changes({"sku": "A1"})
        >>> [(row.qty, row.started_by, row.ended_by) for row in versions.collect()]
        [(10, 'insert', None)]
        """
        snapshot = self._newest()
        names = [_column_named(name, snapshot) for name in _names_of(key)]
        _require_free(snapshot, STARTED_BY, ENDED_BY)
        wanted = None
        if isinstance(key, Mapping):
            equal = [F.col(quoted(n)).eqNullSafe(_literal(v)) for n, v in zip(names, key.values(), strict=True)]
            wanted = reduce(lambda one, other: one & other, equal)
        coverage, lifetimes = self._covered(snapshot)
        versions = self._versions(snapshot, lifetimes, _FIRST_MS, _LAST_MS, wanted)
        columns = [F.col(quoted(name)) for name in names]
        of_key = Window.partitionBy(*columns)
        began_before = _NEVER_MS if coverage.version == 0 else coverage.timestamp_ms
        began = F.when(F.array_contains(F.collect_set(END).over(of_key), F.col(START)), "update").otherwise("insert")
        went = F.when(F.array_contains(F.collect_set(START).over(of_key), F.col(END)), "update").otherwise("delete")
        told = versions.select(
            "*",
            F.when(F.col(START) != began_before, began).alias(STARTED_BY),
            F.when(F.col(END) != FOREVER_MS, went).alias(ENDED_BY),
        )
        return self._shown(snapshot, told, STARTED_BY, ENDED_BY).orderBy(*columns, SYSTEM_START)

    def draw(self, key: str | Sequence[str] | Mapping[str, Any]) -> RowHistory:
        """Return the versions of `changes(key)` as bars on a time axis, for notebooks and `save("x.html")`.

        `key` as in `changes`. Each key is a lane; the picture contains at most the first 40 keys and 2000 versions.
        Raises as `changes`.

        >>> lake.table("stock").update("sku = 'A1'", {"qty": "7"})
        >>> drawn = lake.table("stock").system_time().draw({"sku": "A1"})
        >>> [version.values for version in drawn.versions]
        [{'qty': 10}, {'qty': 7}]
        """
        names = _names_of(key)
        frame = self.changes(key)
        columns = [_column_named(name, self._latest()) for name in names]
        millis = [F.unix_millis(SYSTEM_START).alias(_START_MS), F.unix_millis(SYSTEM_END).alias(_END_MS)]
        found = [row.asDict() for row in frame.select("*", *millis).limit(MOST_VERSIONS + 1).collect()]
        told = {SYSTEM_START, SYSTEM_END, STARTED_BY, ENDED_BY, _START_MS, _END_MS, *columns}
        keys = list(dict.fromkeys(tuple(str(row[name]) for name in columns) for row in found))
        versions = [
            RowVersion(
                tuple(str(row[name]) for name in columns),
                row[_START_MS],
                row[_END_MS],
                {name: value for name, value in row.items() if name not in told},
                row[ENDED_BY],
            )
            for row in found[:MOST_VERSIONS]
        ]
        shown = frozenset(keys[:MOST_KEYS])
        return RowHistory(
            self._place,
            [version for version in versions if version.key in shown],
            len(found) > MOST_VERSIONS or len(keys) > MOST_KEYS,
        )

    def _instant(self, timestamp: Instant) -> int:
        return session_instant_ms(self._spark, timestamp)

    def _period(self, start: Instant, end: Instant) -> tuple[int, int]:
        first, last = self._instant(start), self._instant(end)
        if first > last:
            raise InvalidArgument(f"the period ends before it starts: {format_ms(first)} to {format_ms(last)}")
        return first, last

    def _newest(self) -> Snapshot:
        snapshot = self._latest()
        if snapshot.table.branch is not None:
            raise InvalidArgument(
                f"{snapshot.store.root_url}: changes of a transaction have no system time before its commit. Read the "
                "table outside of the transaction"
            )
        _require_free(snapshot, SYSTEM_START, SYSTEM_END)
        return snapshot

    def _settled(self, first_ms: int, last_ms: int | None = None) -> Snapshot:
        """Return a version with final history at `first_ms`, and at `last_ms` if the instant has passed.

        In a table with a commit owner, no later commit gets a timestamp up to these instants.
        """
        snapshot = self._newest()
        for at, may_be_later in ((first_ms, False), (last_ms, True)):
            # The timestamps of a table only rise, so an older instant is final.
            if at is None or at < snapshot.timestamp_ms:
                continue
            owned = snapshot.table.owned
            try:
                if owned is not None:
                    owned.owner.cut(at)
                elif at > time.time_ns() // 1_000_000:
                    raise TimestampOutOfRange(f"{format_ms(at)} is in the future. Use a time up to now")
            except TimestampOutOfRange:
                if not may_be_later or at == first_ms:
                    raise
            snapshot = snapshot.update()
        return snapshot

    def _covered(self, snapshot: Snapshot) -> tuple[HistoryCoverage, list[FileLifetime]]:
        return file_lifetimes(snapshot, self._since_ms, self._allow_outside_root)

    def _selected(self, snapshot: Snapshot, first_ms: int, last_ms: int, is_instant: bool = False) -> DataFrame:
        coverage, lifetimes = self._covered(snapshot)
        # Before the first version a table has no rows, so this period is covered.
        is_known = coverage.version == 0 and not is_instant
        if first_ms < coverage.timestamp_ms and first_ms > _FIRST_MS and not is_known:
            raise TimestampOutOfRange(not_covered(snapshot.store.root_url, first_ms, coverage))
        return self._shown(snapshot, self._versions(snapshot, lifetimes, first_ms, last_ms))

    def _versions(
        self,
        snapshot: Snapshot,
        lifetimes: Sequence[FileLifetime],
        first_ms: int,
        last_ms: int,
        wanted: Column | None = None,
    ) -> DataFrame:
        """Return the versions matching `wanted` and current in `[first_ms, last_ms]`, with START and END."""
        options = ScanOptions(row_tracking=True, allow_paths_outside_root=self._allow_outside_root)
        scan = TableScan(self._spark, snapshot, options)
        try:
            found = row_lifetimes(scan, lifetimes, first_ms, last_ms, wanted)
        except DataFileNotFound as error:
            raise DataFileNotFound(
                f"{snapshot.store.root_url}: data files with versions of rows do not exist: {error}. VACUUM may have "
                "deleted them. Use a later start: system_time(since=…)"
            ) from error
        return found.where((F.col(START) <= last_ms) & (F.col(END) > first_ms))

    def _shown(self, snapshot: Snapshot, versions: DataFrame, *more: str) -> DataFrame:
        columns = [quoted(column.name) for column in snapshot.schema]
        tracking = [ROW_ID, ROW_COMMIT_VERSION] if self._row_tracking else []
        start = F.timestamp_millis(F.col(START)).alias(SYSTEM_START)
        end = F.timestamp_millis(F.nullif(F.col(END), F.lit(FOREVER_MS))).alias(SYSTEM_END)
        return versions.select(*columns, *tracking, start, end, *more)


def _literal(value: Any) -> Any:
    """Return `value` for a comparison. A datetime without a zone becomes TIMESTAMP_NTZ.

    Spark compares TIMESTAMP_NTZ with timestamps in the session's zone.
    """
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return F.lit(value.isoformat(" ")).cast("timestamp_ntz")
    return value


def _names_of(key: str | Sequence[str] | Mapping[str, Any]) -> list[str]:
    names = [key] if isinstance(key, str) else list(key) if isinstance(key, (Mapping, Sequence)) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise InvalidArgument(f"a key is a column's name, a list of names, or a dict from name to value, found {key!r}")
    return names


def _column_named(name: str, snapshot: Snapshot) -> str:
    found = [column for column in snapshot.schema.names if column == name]
    found = found or [column for column in snapshot.schema.names if column.lower() == name.lower()]
    if len(found) != 1:
        known = ", ".join(snapshot.schema.names)
        raise InvalidArgument(f"{snapshot.store.root_url} has no column {name!r} for a key. Its columns are {known}")
    return found[0]


def _require_free(snapshot: Snapshot, *names: str) -> None:
    taken = [column for column in snapshot.schema.names if column.lower() in names]
    if taken:
        raise InvalidArgument(
            f"{snapshot.store.root_url} has a column {taken[0]}, a name that system time uses for the time of its "
            "rows. Rename the column"
        )


def _problem(snapshot: Snapshot) -> str | None:
    """Return the reason for missing row versions of the table, or None."""
    try:
        require_enabled(snapshot)
    except OperationNotAllowed as error:
        return without_secrets(str(error))
    return None
