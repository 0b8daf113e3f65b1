"""HTML representations of lakes, transactions and time slices for notebooks.

A lake costs one owner request for its tables. Transactions and time slices use only known state.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from slackwater.html.components import badge, card, code, disclosure, facts, moment, muted, pairs, table
from slackwater.html.element import Child, Markup, element, fragment
from slackwater.html.number_format import ago, counted, number
from slackwater.html.redaction import without_secrets
from slackwater.log.table_detail import to_moment
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.commits import ManagedTable, TableState
from slackwater.owner.api.timestamp_range import UNBOUNDED, TimestampRange
from slackwater.owner.api.transactions import TableVersion
from slackwater.storage.location import LOCAL, parse_location
from slackwater.transaction.staged import ReadSet

_MOST_TABLES = 50

State = Literal["open", "committed", "rolled back", "unknown"]


def lake_card(kind: str, root: str | None, owner: CommitOwner, is_open: bool) -> Markup:
    """Return the HTML of the lake at `root`, with the tables reported by `owner`. Raises as `CommitOwner.tables`."""
    tables = owner.tables()
    newest = max((each.timestamp_ms for each in tables if each.ratified_version >= 0), default=None)
    behind = sum(_behind(each) for each in tables)
    troubled = [each for each in tables if each.problem]
    marks = [badge("embedded owner" if owner.endpoint is None else "served owner", "accent")]
    marks += [] if is_open else [badge("closed", "warn")]
    return card(
        kind,
        place_of(root, owner),
        facts(
            {
                "tables": number(len(tables)),
                "last commit": _when(newest),
                "not backfilled yet": counted(behind, "commit") if tables else None,
            }
        ),
        element("p", badge("problem", "bad"), f" {counted(len(troubled), 'table')} cannot accept commits")
        if troubled
        else None,
        _tables(tables),
        disclosure(
            "owner",
            pairs({"owner": without_secrets(repr(owner)), "id": code(owner.owner_id)}),
        ),
        badges=marks,
    )


def place_of(root: str | None, owner: CommitOwner) -> str:
    """Return the display name of a lake: its root, or the URL of its served owner."""
    if root is not None and (location := parse_location(root)).scheme == LOCAL:
        return f"/{location.key}"
    return without_secrets(root or owner.endpoint or "a lake")


@dataclass(frozen=True)
class TableUse:
    """The use of one table by a transaction. `base_version` is the version in its read view."""

    name: str
    base_version: int
    reads: ReadSet
    is_written: bool
    lock: str | None
    new_version: int | None


@dataclass(frozen=True)
class TransactionState:
    """The state of a transaction. `range` limits its timestamp until `commit_timestamp_ms` is set."""

    kind: str
    txn_id: str
    state: State
    isolation: str
    control: str
    begun_ms: int
    range: TimestampRange
    commit_timestamp_ms: int | None
    tables: Sequence[TableUse]
    locked: Sequence[str] = ()
    """Tables locked but not yet read or written."""
    declared: Sequence[str] = ()
    """Tables declared for writing."""

    def __repr__(self) -> str:
        written = [each.name for each in self.tables if each.is_written or each.new_version is not None]
        read = [each.name for each in self.tables if each.name not in written]
        parts = [f"wrote {', '.join(written)}"] if written else []
        parts += [f"read {', '.join(read)}"] if read else []
        at = to_moment(self.commit_timestamp_ms)
        when = "" if at is None else f" at {at.isoformat(timespec='milliseconds')}"
        return f"<{self.kind} {self.txn_id}: {self.state}{when}{'; ' if parts else ''}{', '.join(parts)}>"


def transaction_card(seen: TransactionState) -> Markup:
    """Return the HTML of a transaction, without a request to an owner."""
    marks = [badge(seen.state, _STATES[seen.state]), badge(seen.isolation), badge(seen.control)]
    begun = to_moment(seen.begun_ms)
    rows = [
        (
            code(each.name),
            each.base_version,
            _reads(each.reads),
            badge("written", "accent") if each.is_written or each.new_version is not None else None,
            each.lock and badge(_LOCKS.get(each.lock, each.lock), "warn"),
            each.new_version,
        )
        for each in seen.tables
    ]
    headers = ["table", "read version", "reads", "writes", "locks", "new version"]
    declared = [name for name in seen.declared if name not in {each.name for each in seen.tables}]
    return card(
        seen.kind,
        code(seen.txn_id),
        facts(
            {
                "started": None if begun is None else fragment(moment(begun), muted(" UTC")),
                "timestamp": _timestamp(seen),
                "tables": number(len(seen.tables)),
            }
        ),
        table(headers, rows, right=["read version", "new version"], leaves_out_empty=True)
        if rows
        else element("p", muted("no tables read or written")),
        element("p", muted("locked: "), ", ".join(seen.locked)) if seen.locked else None,
        element("p", muted("will write: "), ", ".join(declared)) if declared else None,
        element("p", "The outcome is unknown. Its files are kept. Ask the owner by the transaction id.")
        if seen.state == "unknown"
        else None,
        badges=marks,
    )


def slice_card(kind: str, timestamp_ms: int, tables: Mapping[str, TableVersion]) -> Markup:
    """Return the HTML of a time slice from the owner's reported versions, without reading a log."""
    at = to_moment(timestamp_ms)
    there = [each for _, each in sorted(tables.items()) if each.version is not None or each.known_from > 0]
    later = len(tables) - len(there)
    rows = [
        (
            code(each.name),
            muted("from its log") if each.version is None else each.version,
            None if (committed := to_moment(each.timestamp_ms)) is None else moment(committed),
            badge("released later") if each.is_released else None,
        )
        for each in there[:_MOST_TABLES]
    ]
    more = [f"{counted(len(there) - len(rows), 'table')} more"] if len(there) > len(rows) else []
    more += [f"{counted(later, 'table')} of the lake created later"] if later else []
    return card(
        kind,
        "" if at is None else fragment(moment(at), " UTC"),
        table(["table", "version", "committed (UTC)", ""], rows, right=["version"], leaves_out_empty=True)
        if rows
        else element("p", muted("no tables at this time")),
        note="; ".join(more) or None,
    )


_LOCKS = {"shared": "shared lock", "exclusive": "exclusive lock", "granules": "lock on partitions"}
_STATES: Mapping[State, Literal["accent", "good", "warn", "bad"]] = {
    "open": "accent",
    "committed": "good",
    "rolled back": "warn",
    "unknown": "bad",
}


def _tables(tables: Sequence[ManagedTable]) -> Child:
    if not tables:
        return element("p", muted("no tables yet: use create_table, or adopt for an existing table"))
    rows = [
        (
            code(each.name),
            None if each.ratified_version < 0 else each.ratified_version,
            None if (at := to_moment(each.timestamp_ms)) is None or each.ratified_version < 0 else moment(at),
            _behind(each) or None,
            _state(each),
        )
        for each in tables[:_MOST_TABLES]
    ]
    left = len(tables) - len(rows)
    shown = table(
        ["table", "version", "committed (UTC)", "not backfilled", ""],
        rows,
        right=["version", "not backfilled"],
        leaves_out_empty=True,
    )
    return fragment(shown, element("p", f"and {counted(left, 'table')} more", class_="sw-note") if left else None)


def _behind(each: ManagedTable) -> int:
    return max(each.ratified_version - each.backfilled_version, 0)


def _state(each: ManagedTable) -> Child:
    told: list[Child] = [] if each.state == TableState.ACTIVE else [badge(each.state.value, "warn")]
    told += [badge("trouble", "bad"), without_secrets(each.problem)] if each.problem else []
    return [part for mark in told for part in (mark, " ")]


def _reads(reads: ReadSet) -> str | None:
    if not reads.readings and not reads.app_ids:
        return None
    if reads.reads_all:
        return "all rows"
    return "by " + counted(len(reads.readings), "condition") if reads.readings else "progress of streams"


def _timestamp(seen: TransactionState) -> Child:
    at = to_moment(seen.commit_timestamp_ms)
    if at is not None:
        return fragment(moment(at), muted(" UTC"))
    if seen.state != "open":
        return None
    low, high = to_moment(max(seen.range.low_ms, 0)), to_moment(seen.range.high_ms)
    if low is None:
        return None
    if high is None or seen.range.high_ms >= UNBOUNDED:
        return fragment(muted("after "), moment(low), muted(" UTC"))
    return fragment(muted("after "), moment(low), muted(" up to "), moment(high), muted(" UTC"))


def _when(timestamp_ms: int | None) -> Child:
    at = to_moment(timestamp_ms)
    if at is None:
        return None
    return fragment(moment(at), " ", muted(f"UTC, {ago(at, dt.datetime.now(dt.timezone.utc))}"))
