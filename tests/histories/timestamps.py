"""Commit timestamps are the serialization order, follow real time, and are what rows, logs and callers were told."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from tests.histories.dependencies import Edge, topological_order
from tests.histories.history import Outcome
from tests.histories.recorded import RecordedHistory
from tests.histories.violations import Kind, Violation

_BACKWARD = {
    "ww": Kind.WRITE_BEFORE_WRITE,
    "wr": Kind.READ_OF_LATER_WRITE,
    "rw": Kind.WRITE_UNDER_READ_STAMP,
}


class _Bound(NamedTuple):
    """A timestamp that a transaction is not below, and whose it is."""

    timestamp_ms: int
    of: int
    is_real_time: bool


def order_violations(recorded: RecordedHistory, edges: Sequence[Edge]) -> Iterator[Violation]:
    """Every edge goes strictly forward in commit timestamp, and real time never backward.

    A transaction without a timestamp hands on what came before it, by edges and in real time.
    """
    stamps = recorded.timestamps_ms
    known: set[tuple[int, int, str]] = set()
    for edge in edges:
        before, after = stamps[edge.source], stamps[edge.target]
        if before is None or after is None or before < after or edge[:3] in known:
            continue
        known.add(edge[:3])
        yield Violation(_BACKWARD[edge.kind], recorded.ids(edge[:2]), f"{edge.said(recorded)}.")
    acknowledged = _acknowledged_before(recorded)
    for number, bound in acknowledged.items():
        stamp = stamps[number]
        if stamp is None:
            # Also who does not commit begins when it is later.
            stamp = recorded.transactions[number].owner_time_ms
        if stamp is not None and stamp < bound.timestamp_ms:
            message = f"{recorded.name(number)} began after {recorded.name(bound.of)} was acknowledged."
            yield Violation(Kind.REAL_TIME_INVERSION, recorded.ids((bound.of, number)), message)
    if None in stamps:
        yield from _order_through_unstamped(recorded, edges, acknowledged)


def stamp_violations(recorded: RecordedHistory) -> Iterator[Violation]:
    """Rows carry the commit timestamp; it lies in every range that was asked for, and not before the begin."""
    for number, transaction in enumerate(recorded.transactions):
        stamp = recorded.timestamps_ms[number]
        if not recorded.counts[number]:
            continue
        name, ids = recorded.name(number), (transaction.id,)
        rows = sorted(set(transaction.row_timestamps_ms) - {stamp})
        if rows and (stamp is not None or len(rows) > 1):
            yield Violation(Kind.ROW_STAMP, ids, f"The rows of {name} carry {', '.join(map(str, rows))}.")
        if stamp is None:
            continue
        for first, end in transaction.asked:
            if not first <= stamp < end:
                message = f"{name} was told a time between {first} and {end - 1}."
                yield Violation(Kind.OUTSIDE_ASKED_RANGE, ids, message)
        if transaction.owner_time_ms is not None and stamp < transaction.owner_time_ms:
            message = f"{name} began when the owner's time was {transaction.owner_time_ms}."
            yield Violation(Kind.BEFORE_ITS_BEGIN, ids, message)


def version_violations(recorded: RecordedHistory) -> Iterator[Violation]:
    """Timestamps rise strictly with the versions of each table, and all tables of a transaction carry its own."""
    logs = recorded.history.logs
    written: dict[str, dict[int, int]] = defaultdict(dict)
    for number, transaction in enumerate(recorded.transactions):
        if not recorded.counts[number]:
            continue
        logged: dict[str, int] = {}
        for table, version in transaction.versions.items():
            other = written[table].setdefault(version, number)
            if other != number:
                message = f"{recorded.name(other)} and {recorded.name(number)} both hold version {version} of {table}."
                yield Violation(Kind.VERSION_TAKEN_TWICE, recorded.ids((other, number)), message)
            if version in logs.get(table, {}):
                logged[table] = logs[table][version]
            elif table in logs:
                message = f"{recorded.name(number)} holds version {version} of {table}, which its log lacks."
                yield Violation(Kind.VERSION_LOST, (transaction.id,), message)
        stamp = transaction.commit_timestamp_ms
        if logged and set(logged.values()) != {stamp if stamp is not None else next(iter(logged.values()))}:
            carried = ", ".join(f"{table} {timestamp}" for table, timestamp in logged.items())
            message = f"The commits of {recorded.name(number)} carry {carried}."
            yield Violation(Kind.TABLES_DISAGREE, (transaction.id,), message)
    for table in sorted({*logs, *written}):
        yield from _rising(recorded, table, written[table])


def _rising(recorded: RecordedHistory, table: str, written: dict[int, int]) -> Iterator[Violation]:
    told = {version: recorded.timestamps_ms[number] for version, number in written.items()}
    stamps = {**told, **recorded.history.logs.get(table, {})}
    rising = sorted((version, stamp) for version, stamp in stamps.items() if stamp is not None)
    for (before, earlier), (after, later) in itertools.pairwise(rising):
        if later <= earlier:
            ids = recorded.ids(written[version] for version in (before, after) if version in written)
            message = f"Version {before} of {table} has the timestamp {earlier}, and version {after} has {later}."
            yield Violation(Kind.VERSIONS_NOT_RISING, ids, message)


def _acknowledged_before(recorded: RecordedHistory) -> dict[int, _Bound]:
    """Of each transaction, the greatest timestamp acknowledged before it began, in real time or to its client."""
    bounds: dict[int, _Bound] = {}
    stamps, transactions = recorded.timestamps_ms, recorded.transactions
    acknowledged = [
        number
        for number, transaction in enumerate(transactions)
        if transaction.outcome is Outcome.COMMITTED and stamps[number] is not None
    ]
    acknowledged.sort(key=lambda number: transactions[number].end)
    greatest: _Bound | None = None
    at = 0
    for number in sorted(range(len(transactions)), key=lambda number: transactions[number].begin):
        while at < len(acknowledged) and transactions[acknowledged[at]].end < transactions[number].begin:
            greatest = _greater(greatest, _Bound(cast("int", stamps[acknowledged[at]]), acknowledged[at], True))
            at += 1
        if greatest is not None:
            bounds[number] = greatest
    of_client: dict[str, _Bound] = {}
    for number in sorted(range(len(transactions)), key=lambda number: transactions[number].order):
        client, stamp = transactions[number].client, stamps[number]
        if client in of_client:
            bounds[number] = _greater(bounds.get(number), of_client[client])
        if stamp is not None and transactions[number].outcome is Outcome.COMMITTED:
            of_client[client] = _greater(of_client.get(client), _Bound(stamp, number, True))
    return bounds


def _greater(one: _Bound | None, other: _Bound) -> _Bound:
    return other if one is None or other.timestamp_ms > one.timestamp_ms else one


def _order_through_unstamped(
    recorded: RecordedHistory, edges: Sequence[Edge], acknowledged: dict[int, _Bound]
) -> Iterator[Violation]:
    """What comes after a transaction without a timestamp is after all that came before that."""
    stamps = recorded.timestamps_ms
    outgoing: list[list[Edge]] = [[] for _ in stamps]
    for edge in edges:
        outgoing[edge.source].append(edge)
    bounds = {number: bound for number, bound in acknowledged.items() if stamps[number] is None}
    known: set[tuple[int, int, int]] = set()
    for number in topological_order(len(stamps), edges):
        own = stamps[number]
        bound = bounds.get(number) if own is None else _Bound(own, number, False)
        if bound is None:
            continue
        for edge in outgoing[number]:
            after = stamps[edge.target]
            if after is None:
                bounds[edge.target] = _greater(bounds.get(edge.target), bound)
            elif own is None and after <= bound.timestamp_ms and (number, edge.target, bound.of) not in known:
                known.add((number, edge.target, bound.of))
                ids = recorded.ids((bound.of, number, edge.target))
                if bound.is_real_time:
                    message = f"{edge.said(recorded)}, and {recorded.name(bound.of)} was acknowledged before."
                    yield Violation(Kind.STALE_READ, ids, message)
                else:
                    message = f"{edge.said(recorded)}, and {recorded.name(bound.of)} is before both."
                    yield Violation(_BACKWARD[edge.kind], ids, message)
