"""Spans of OpenTelemetry for commits and transactions. Without the package in the program, they do nothing.

Source: docs/guides/observe.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any

from slackwater.transaction.observability.commit_metrics import count_failure
from slackwater.transaction.observability.commit_report import CommitReport
from slackwater.version import __version__

COMMIT, TRANSACTION = "slackwater.commit", "slackwater.transaction"


class Span:
    """A span under way, or nothing if `recording` is None."""

    def __init__(self, recording: Any = None) -> None:
        self._recording = recording

    def set(self, attributes: Mapping[str, object]) -> None:
        """Set `attributes`, with the prefix `slackwater.`. None is left out."""
        if self._recording is not None:
            for key, value in attributes.items():
                if value is not None:
                    self._recording.set_attribute(f"slackwater.{key}", value)

    def describe(self, report: CommitReport | None) -> None:
        """Set the attributes of a commit."""
        self.set({} if report is None else asdict(report))


@contextmanager
def observed(name: str, attributes: Mapping[str, object], begun_ms: int | None = None) -> Iterator[Span]:
    """Run the block in a span, with the current span as its parent. Count an error of the block.

    `begun_ms` is the begin of the work in milliseconds since the epoch, None for now.
    """
    with ExitStack() as stack:
        recording, tracer = None, _tracer()
        if tracer is not None:
            started = tracer.start_as_current_span(name, start_time=_start_ns(begun_ms))
            recording = stack.enter_context(started)
        span = Span(recording)
        span.set(attributes)
        try:
            yield span
        except BaseException as error:
            count_failure(error)
            raise


def record_span(name: str, attributes: Mapping[str, object], begun_ms: int) -> None:
    """Record a span of finished work, from `begun_ms` until now. Its parent is the current span."""
    tracer = _tracer()
    if tracer is not None:
        recording = tracer.start_span(name, start_time=_start_ns(begun_ms))
        Span(recording).set(attributes)
        recording.end()


def report_rollback(transaction: str, begun_ms: int, cause: BaseException | None) -> None:
    """Count the conflict that caused the rollback of `transaction`, and record its span."""
    count_failure(cause)
    record_span(TRANSACTION, {"transaction": transaction, "outcome": "rolled back"}, begun_ms)


def _start_ns(begun_ms: int | None) -> int:
    # The clock of another machine may be ahead, and a span must not end before its start.
    now_ns = time.time_ns()
    return now_ns if begun_ms is None else min(begun_ms * 1_000_000, now_ns)


def _tracer() -> Any:
    # Without an import by the program there is no provider, so an import here would only cost time.
    api = sys.modules.get("opentelemetry.trace")
    return None if api is None else api.get_tracer("slackwater", __version__)
