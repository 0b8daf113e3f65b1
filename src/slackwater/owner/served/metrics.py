"""Prometheus metrics of a served owner, separate for each application."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from slackwater.errors import SlackwaterError
from slackwater.owner.api.commits import ManagedTable
from slackwater.owner.api.monitoring import Activity
from slackwater.owner.served.request_observer import Observation

CONTENT_TYPE = CONTENT_TYPE_LATEST

_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_TABLE = re.compile(rb'\{table="([^"]*)"\}')
_log = logging.getLogger(__name__)


class Metrics:
    """Metrics: requests by route, method and status, durations, commits, conflicts, backfill backlog, activity."""

    def __init__(self, tables: Callable[[], Sequence[ManagedTable]], activity: Callable[[], Activity]) -> None:
        """Create the metrics. Each scrape calls `tables` and `activity`."""
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "slackwater_requests",
            "Requests that were answered.",
            ("route", "method", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "slackwater_request_seconds",
            "Time from a request to its answer.",
            ("route", "method"),
            buckets=_BUCKETS_S,
            registry=self._registry,
        )
        self._commits = Counter("slackwater_commits", "Commits that count.", registry=self._registry)
        self._conflicts = Counter(
            "slackwater_commit_conflicts", "Commits whose version was another's.", registry=self._registry
        )
        self._registry.register(_State(tables, activity))

    def add(self, collector: Collector) -> None:
        """Expose the metrics of `collector` too."""
        self._registry.register(collector)

    def observe(self, seen: Observation) -> None:
        """Count a request."""
        method = seen.method if seen.method in _METHODS else "other"
        self._requests.labels(seen.route, method, str(seen.status)).inc()
        self._seconds.labels(seen.route, method).observe(seen.seconds)

    def count_commit(self, counts: bool) -> None:
        """Count a commit if `counts`, else a conflict."""
        (self._commits if counts else self._conflicts).inc()

    def exposition(self, is_shown: Callable[[str], bool] | None = None) -> bytes:
        """Return all metrics in the text format of `CONTENT_TYPE`, with `is_shown` for these names of tables only.

        Calls the owner. `slackwater_owner_up` is 0 if the owner does not respond.
        """
        text = generate_latest(self._registry)
        if is_shown is None:
            return text
        lines = text.splitlines(keepends=True)
        tables = [_TABLE.search(line) for line in lines]
        return b"".join(
            line for line, table in zip(lines, tables, strict=True) if table is None or is_shown(table[1].decode())
        )


class _State(Collector):
    """Metrics of the owner's state at the time of a scrape."""

    def __init__(self, tables: Callable[[], Sequence[ManagedTable]], activity: Callable[[], Activity]) -> None:
        self._tables = tables
        self._activity = activity

    def collect(self) -> Iterator[GaugeMetricFamily]:
        up = GaugeMetricFamily("slackwater_owner_up", "Whether the owner and its database answer.")
        backlog = GaugeMetricFamily(
            "slackwater_unbackfilled_commits", "Ratified commits that are not in _delta_log yet.", labels=("table",)
        )
        problems = GaugeMetricFamily(
            "slackwater_table_problem",
            "1 where the table takes no commits since something is wrong.",
            labels=("table",),
        )
        found, work = None, None
        try:
            found = self._tables()
            work = self._activity()
        except SlackwaterError:
            _log.exception("the owner does not report its tables or active transactions")
        up.add_metric((), 0.0 if found is None or work is None else 1.0)
        for table in found or ():
            backlog.add_metric((table.name,), float(max(0, table.ratified_version - table.backfilled_version)))
            problems.add_metric((table.name,), 1.0 if table.problem else 0.0)
        yield up
        yield backlog
        yield problems
        if work is not None:
            yield from _of_work(work)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Return nothing, so that registration does not call the owner."""
        return iter(())


def _of_work(work: Activity) -> Iterator[GaugeMetricFamily]:
    since_ms = [each.since_ms for each in work.transactions if each.since_ms is not None]
    oldest_s = max(0, work.now_ms - min(since_ms, default=work.now_ms)) / 1000
    waiting = {lock.transaction for lock in work.locks if lock.wanted}
    load = work.read_timestamps
    for name, what, value in (
        ("slackwater_open_transactions", "Transactions that have not ended.", len(work.transactions)),
        ("slackwater_oldest_transaction_seconds", "For how long the oldest of them is known.", oldest_s),
        ("slackwater_waiting_transactions", "Transactions that wait for locks of others.", len(waiting)),
        ("slackwater_read_timestamp_slots", "Slots of the read timestamp table.", load.slots),
        ("slackwater_read_timestamp_slots_used", "Slots of the read timestamp table that have an entry.", load.used),
    ):
        yield GaugeMetricFamily(name, what, value=float(value))
