"""Audit trail of a served owner: records of requests, handed to a writer in batches by a thread.

Requests never wait for the writer. If the writer fails, the trail retries and keeps its records up to a limit. Above
the limit it leaves out new records. Source: docs/security.md "Audit log".
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from slackwater.owner.served.request_observer import Observation

_LONGEST_TEXT = 1024
_WINDOW_S = 60.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AuditedTable:
    """A table of a request: its id or its name, and the committed version, None without a commit."""

    table_id: str | None
    name: str | None
    version: int | None


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """Facts of one request. It has no token, no query and no body.

    `record_id` is unique, because a batch may be written twice after a lost response. `caller` is the name of the
    token, or the subject of an identity provider, None for an unauthenticated request. `client` is the address of the
    connection. `route` is a template, `path` the requested path. `error` is an error class.
    """

    record_id: str
    time_ms: int
    caller: str | None
    client: str
    method: str
    route: str
    path: str
    status: int
    error: str | None
    transaction: str | None
    tables: tuple[AuditedTable, ...]
    duration_ms: float


@dataclass(frozen=True, slots=True)
class AuditLimits:
    """Limits of an audit trail.

    A batch is complete with `batch_records` records, or `batch_s` seconds after its first record. The trail keeps at
    most `kept_entries` entries in memory, counting records and tables. It records at most `anonymous_per_minute`
    unauthenticated requests. At shutdown the writer has `closing_s` seconds.
    """

    batch_records: int = 1000
    batch_s: float = 5.0
    kept_entries: int = 50_000
    anonymous_per_minute: int = 600
    closing_s: float = 30.0


class AuditTrail(Collector):
    """Collects records of requests and writes them with `write`. Thread-safe. Call `close` at the end."""

    def __init__(
        self,
        write: Callable[[Sequence[AuditRecord]], None],
        limits: AuditLimits | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the thread. `write` writes one batch durably, or raises any error to be called again with the batch."""
        self._write = write
        self._limits = limits or AuditLimits()
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._waiting: deque[AuditRecord] = deque()
        self._entries = 0
        self._is_closing = False
        self._written = self._left_out = self._failures = 0
        self._window = (0.0, 0)
        self._thread = threading.Thread(target=self._run, name="slackwater-audit", daemon=True)
        self._thread.start()

    def observe(self, seen: Observation) -> None:
        """Record a request, without waiting for the writer. Successful requests without a token are not recorded."""
        if seen.caller is None and (seen.status < 400 or not self._has_anonymous_room()):
            return
        record = _record(seen)
        entries = 1 + len(record.tables)
        with self._changed:
            if self._entries + entries > self._limits.kept_entries:
                self._left_out += 1
                _log.error("the audit log is behind, and a record was left out")
                return
            self._waiting.append(record)
            self._entries += entries
            if len(self._waiting) == 1 or len(self._waiting) >= self._limits.batch_records:
                self._changed.notify()

    def close(self) -> None:
        """Write the remaining records, once. Requests must have ended."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(self._limits.closing_s)
        with self._changed:
            if self._waiting:
                _log.error("%d records of the audit log were not written", len(self._waiting))

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Return the metrics of the trail."""
        with self._changed:
            written, left_out, failures = self._written, self._left_out, self._failures
        for name, what, value in (
            ("slackwater_audit_records", "Records written to the audit log.", written),
            ("slackwater_audit_left_out", "Records left out of the audit log.", left_out),
            ("slackwater_audit_failures", "Failed writes of the audit log.", failures),
        ):
            yield CounterMetricFamily(name, what, value=float(value))

    def _has_anonymous_room(self) -> bool:
        now_s = self._monotonic()
        with self._changed:
            since_s, count = self._window
            if now_s - since_s >= _WINDOW_S:
                since_s, count = now_s, 0
            self._window = (since_s, count + 1)
            has_room = count < self._limits.anonymous_per_minute
            self._left_out += not has_room
            return has_room

    def _run(self) -> None:
        is_closing = is_done = False
        while not (is_closing and is_done):
            batch, is_closing = self._next_batch()
            # The last write is tried once, because the shutdown waits for it.
            is_done = not batch or not self._has_written(batch)

    def _next_batch(self) -> tuple[list[AuditRecord], bool]:
        """Return the next batch, and whether the trail is closing. Waits for a complete batch, unless closing."""
        limits = self._limits
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closing)
            self._changed.wait_for(
                lambda: len(self._waiting) >= limits.batch_records or self._is_closing, timeout=limits.batch_s
            )
            return list(self._waiting)[: limits.batch_records], self._is_closing

    def _has_written(self, batch: Sequence[AuditRecord]) -> bool:
        try:
            self._write(batch)
        except Exception:  # noqa: BLE001 - no error of the writer may stop the thread
            _log.exception("the audit log cannot be written, and its records wait")
            with self._changed:
                self._failures += 1
                # A pause before the next attempt, also for a complete batch.
                self._changed.wait_for(lambda: self._is_closing, timeout=self._limits.batch_s)
            return False
        with self._changed:
            for record in batch:
                self._waiting.popleft()
                self._entries -= 1 + len(record.tables)
            self._written += len(batch)
        return True


def _record(seen: Observation) -> AuditRecord:
    tables = [AuditedTable(table_id, None, version) for table_id, version in seen.versions.items()]
    tables += [
        AuditedTable(table_id, None, None) for table_id in dict.fromkeys(seen.used) if table_id not in seen.versions
    ]
    tables += [AuditedTable(None, name, None) for name in seen.names]
    started_ms = time.time_ns() // 1_000_000 - round(seen.seconds * 1000)
    return AuditRecord(
        uuid.uuid4().hex, started_ms, seen.caller, _text(seen.client), _text(seen.method), _text(seen.route),
        _text(seen.path), seen.status, seen.error, seen.transaction, tuple(tables), round(seen.seconds * 1000, 3),
    )  # fmt: skip


def _text(text: str) -> str:
    # A path outside UTF-8 has lone surrogates, which no table can store.
    return text[:_LONGEST_TEXT].encode(errors="replace").decode()
