"""The server's log: one JSON object a line, for requests and for everything else."""

from __future__ import annotations

import datetime as dt
import logging
import sys
from typing import Any, TextIO

import orjson

from slackwater.owner.served.observation import Observation

REQUESTS = logging.getLogger("slackwater.owner.served.requests")

_FIELDS = "fields"
_LOGGERS = ("slackwater", "uvicorn")


def log_request(seen: Observation) -> None:
    """One line for `seen`: without its token, its query and its content."""
    if not REQUESTS.isEnabledFor(logging.INFO):
        return
    fields = {
        "method": seen.method,
        "route": seen.route,
        "path": seen.path,
        "status": seen.status,
        "durationMs": round(seen.seconds * 1000, 3),
        "receivedBytes": seen.received_bytes,
        "sentBytes": seen.sent_bytes,
        "client": seen.client,
        "caller": seen.caller,
        "error": seen.error,
    }
    REQUESTS.info("request", extra={_FIELDS: fields})


class JsonLines(logging.Formatter):
    """Records as JSON: `time` (ISO 8601, UTC), `level`, `logger`, `event`, and what the record has besides."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, however many the message has."""
        line: dict[str, Any] = {
            "time": dt.datetime.fromtimestamp(record.created, dt.timezone.utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, _FIELDS, {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        try:
            return orjson.dumps(line).decode()
        except TypeError:
            # A lone surrogate, of a path that is not UTF-8.
            return orjson.dumps({key: ascii(value) for key, value in line.items()}).decode()


def log_to(stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Write what the server says to `stream`, stderr where none is given, instead of where it went before."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonLines())
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(level)
        logger.propagate = False
