"""What Prometheus can ask a served owner for; each application counts for itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from slackwater.errors import SlackwaterError
from slackwater.owner.api.commits import ManagedTable
from slackwater.owner.served.observation import Observation

CONTENT_TYPE = CONTENT_TYPE_LATEST

_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_log = logging.getLogger(__name__)


class Metrics:
    """Requests by route, method and status, their time, commits, conflicts, and commits to be backfilled by table."""

    def __init__(self, tables: Callable[[], Sequence[ManagedTable]]) -> None:
        """`tables` is asked at each scrape."""
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
        self._registry.register(_Backlog(tables))

    def observe(self, seen: Observation) -> None:
        """Count a request."""
        method = seen.method if seen.method in _METHODS else "other"
        self._requests.labels(seen.route, method, str(seen.status)).inc()
        self._seconds.labels(seen.route, method).observe(seen.seconds)

    def count_commit(self, counts: bool) -> None:
        """Count a commit: one that counts, or one that met a conflict."""
        (self._commits if counts else self._conflicts).inc()

    def exposition(self) -> bytes:
        """Everything, in the text format of `CONTENT_TYPE`; asks the owner, and says where it does not answer."""
        return generate_latest(self._registry)


class _Backlog(Collector):
    """What the owner says at the moment of a scrape."""

    def __init__(self, tables: Callable[[], Sequence[ManagedTable]]) -> None:
        self._tables = tables

    def collect(self) -> Iterator[GaugeMetricFamily]:
        up = GaugeMetricFamily("slackwater_owner_up", "Whether the owner and its database answer.")
        backlog = GaugeMetricFamily(
            "slackwater_unbackfilled_commits", "Ratified commits that are not in _delta_log yet.", labels=("table",)
        )
        try:
            found = self._tables()
        except SlackwaterError:
            _log.exception("the owner does not say its tables")
            found = None
        up.add_metric((), 0.0 if found is None else 1.0)
        for table in found or ():
            backlog.add_metric((table.name,), float(max(0, table.ratified_version - table.backfilled_version)))
        yield up
        yield backlog

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Nothing, so that registering does not ask the owner."""
        return iter(())
