"""Log of the server: one JSON object per line, for requests and all other events."""

from __future__ import annotations

import datetime as dt
import logging
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

import orjson

from slackwater.html.redaction import without_secrets
from slackwater.owner.served.request_observer import Observation

REQUESTS = logging.getLogger("slackwater.owner.served.requests")

_FIELDS = "fields"
_LOGGERS = ("slackwater", "uvicorn", "asyncio")
_LONGEST_PATH = 1024
_MOST_REPEATED = 100
_MOST_KINDS = 1000
_WINDOW_S = 60.0


def log_request(seen: Observation) -> None:
    """Log one line for `seen`, without token, query and content.

    `table` (an id) and `version` describe a request for one table. A request for several tables has `versions` by
    table.
    """
    if not REQUESTS.isEnabledFor(logging.INFO):
        return
    fields = {
        "method": seen.method,
        "route": seen.route,
        "path": seen.path[:_LONGEST_PATH],
        "status": seen.status,
        "durationMs": round(seen.seconds * 1000, 3),
        "receivedBytes": seen.received_bytes,
        "sentBytes": seen.sent_bytes,
        "client": seen.client,
        "caller": seen.caller,
        "error": seen.error,
        "transaction": seen.transaction,
        **_tables(seen.versions),
    }
    REQUESTS.info("request", extra={_FIELDS: fields})


def _tables(versions: Mapping[str, int | None]) -> dict[str, object]:
    if len(versions) > 1:
        return {"table": None, "version": None, "versions": dict(versions)}
    table, version = next(iter(versions.items()), (None, None))
    return {"table": table, "version": version}


class JsonLines(logging.Formatter):
    """Formatter for JSON records: `time` (ISO 8601, UTC), `level`, `logger`, `event`, and extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record on one line, even for a message with several lines."""
        line: dict[str, Any] = {
            "time": dt.datetime.fromtimestamp(record.created, dt.timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": without_secrets(record.getMessage()),
            **getattr(record, _FIELDS, {}),
        }
        if record.exc_info:
            line["exception"] = without_secrets(self.formatException(record.exc_info))
        try:
            return orjson.dumps(line).decode()
        except TypeError:
            # The path has a lone surrogate, because it is not UTF-8.
            return orjson.dumps({key: ascii(value) for key, value in line.items()}).decode()


class RepeatLimiter(logging.Filter):
    """Limits records per kind and minute. The first record of a later minute has the number omitted in `leftOut`.

    Warnings and errors of one kind have the same logger and message. Requests of unknown callers of one kind have the
    same route and status. Unauthenticated callers therefore cannot fill the log. Requests with a valid token are never
    omitted.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._seen: dict[tuple[object, ...], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write `record`."""
        kind = _kind(record)
        if kind is None:
            return True
        now = self._monotonic()
        if kind not in self._seen and len(self._seen) >= _MOST_KINDS:
            self._seen.clear()
        since, seen = self._seen.get(kind, (now, 0))
        if now - since >= _WINDOW_S:
            left_out = max(0, seen - _MOST_REPEATED)
            if left_out:
                setattr(record, _FIELDS, {**getattr(record, _FIELDS, {}), "leftOut": left_out})
            since, seen = now, 0
        self._seen[kind] = (since, seen + 1)
        return seen < _MOST_REPEATED


def _kind(record: logging.LogRecord) -> tuple[object, ...] | None:
    fields = getattr(record, _FIELDS, {})
    if record.name == REQUESTS.name:
        return (record.name, fields["route"], fields["status"]) if fields["caller"] is None else None
    if record.levelno < logging.WARNING:
        return None
    # Compare the first line only, because asyncio puts the differences into later lines.
    return (record.name, record.levelno, str(record.msg).partition("\n")[0])


def log_to(stream: TextIO | None = None) -> None:
    """Write the server's log to `stream` (default stderr), replacing earlier handlers."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonLines())
    handler.addFilter(RepeatLimiter())
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(logging.INFO)
        logger.propagate = False
