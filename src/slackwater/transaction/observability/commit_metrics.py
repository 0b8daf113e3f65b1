"""Counters of the commits of this process, also as counters of OpenTelemetry.

Source: docs/guides/observe.md.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from slackwater.errors import CommitError, CommitUnknown, SlackwaterError
from slackwater.version import __version__


@dataclass(frozen=True, slots=True)
class CommitMetrics:
    """Counters of the commits of this process since its start. The difference of two values describes a job.

    `commits`: versions of tables. `transactions`: transactions over tables of a lake that wrote something. `retries`:
    attempts that lost to another writer and were repeated. `conflicts`: commits and transactions that failed because of
    a concurrent commit. `unknown_outcomes`: commits that raised CommitUnknown. Rows, files and bytes are sums over the
    commits; unknown numbers of rows count as zero. Sizes are in bytes.

    >>> before = slackwater.commit_metrics()
    >>> spark.range(3).write.format("delta").save(path)
    >>> job = slackwater.commit_metrics() - before
    >>> job.commits, job.rows_added, job.conflicts
    (1, 3, 0)
    """

    commits: int = 0
    transactions: int = 0
    retries: int = 0
    conflicts: int = 0
    unknown_outcomes: int = 0
    rows_added: int = 0
    rows_updated: int = 0
    rows_removed: int = 0
    files_added: int = 0
    files_removed: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0

    def __sub__(self, earlier: CommitMetrics) -> CommitMetrics:
        before = asdict(earlier)
        return CommitMetrics(**{name: value - before[name] for name, value in asdict(self).items()})


_lock = threading.Lock()
_total = asdict(CommitMetrics())


def commit_metrics() -> CommitMetrics:
    """Return the counters of the commits of this process. Raises nothing.

    >>> slackwater.commit_metrics().unknown_outcomes
    0
    """
    with _lock:
        return CommitMetrics(**_total)


def count(**amounts: int) -> None:
    """Add `amounts` to the counters of CommitMetrics, by name."""
    with _lock:
        for name, amount in amounts.items():
            _total[name] += amount
    instruments = _instruments()
    for name, amount in amounts.items():
        if instruments is not None and amount:
            instruments[name].add(amount)


def count_commit(milliseconds: int, amounts: Mapping[str, int | None]) -> None:
    """Count a commit with its duration, and `amounts` of rows, files and bytes. None counts as zero."""
    count(commits=1, **{name: amount or 0 for name, amount in amounts.items()})
    instruments = _instruments()
    if instruments is not None:
        instruments["commit.duration"].record(milliseconds)


def count_failure(error: BaseException | None) -> None:
    """Count a conflict or an unknown outcome, once for each error."""
    if not isinstance(error, SlackwaterError) or getattr(error, "is_counted", False):
        return
    error.is_counted = True  # type: ignore[attr-defined]  # only read above
    if isinstance(error, CommitUnknown):
        count(unknown_outcomes=1)
    elif isinstance(error, CommitError) and error.conflict:
        count(conflicts=1)


def _instruments() -> Mapping[str, Any] | None:
    """Return the instruments of OpenTelemetry by name. None if the program did not import OpenTelemetry."""
    # Without an import by the program there is no provider, so an import here would only cost time.
    api = sys.modules.get("opentelemetry.metrics")
    return None if api is None else _created(api)


@cache
def _created(api: Any) -> Mapping[str, Any]:
    meter = api.get_meter("slackwater", __version__)
    found = {name: meter.create_counter(f"slackwater.{name}", _unit(name)) for name in asdict(CommitMetrics())}
    return {**found, "commit.duration": meter.create_histogram("slackwater.commit.duration", "ms")}


def _unit(name: str) -> str:
    what = name.partition("_")[0]
    return "By" if what == "bytes" else f"{{{what.removesuffix('s')}}}"
