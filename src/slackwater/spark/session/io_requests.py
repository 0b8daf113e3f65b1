"""Requests of PySpark's readers and writers before execution: format, options, schema.

PySpark's methods are wrapped. Their arguments are stored on the reader or writer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from slackwater.errors import InvalidArgument
from slackwater.spark.session.enabled_sessions import is_delta_by_default, is_enabled_for

_REQUEST = "_slackwater_request"
_EXTENDED = "_slackwater_extended"


class Request:
    """The arguments collected so far for one reader or writer."""

    def __init__(self) -> None:
        self.is_delta: bool | None = None
        self.options: dict[str, Any] = {}
        self.schema: Any = None
        self.source_name: str | None = None
        self.mode = "error"
        self.partition_by: list[str] = []
        self.cluster_by: list[str] = []
        self.buckets: str | None = None


def request_of(reader: Any) -> Request:
    """Return the request of a reader or writer, empty for a new one."""
    found = reader.__dict__.get(_REQUEST)
    if found is None:
        found = reader.__dict__[_REQUEST] = Request()
    return found  # type: ignore[no-any-return]


def session_of(reader: Any) -> Any:
    """Return the session of a reader or writer."""
    # A Connect reader stores its session as the client.
    return reader.__dict__.get("_spark") or reader.__dict__.get("_client")


def is_extended(kind: type) -> bool:
    """Return whether a PySpark class is already extended, and mark the class as extended."""
    before = _EXTENDED in kind.__dict__
    setattr(kind, _EXTENDED, True)
    return before


def remember_requests(kind: type) -> None:
    """Wrap the methods of this reader or writer class, so that each instance collects its request."""
    handlers: dict[str, Callable[..., Any]] = {
        "format": _format,
        "option": _option,
        "options": _options,
        "schema": _schema,
        "name": _name,
    }
    wrap_each(kind, handlers)


def wrap_each(kind: type, handlers: Mapping[str, Callable[..., Any]]) -> None:
    """Call `wrap` for each existing method, because PySpark releases differ in their methods."""
    for name, handler in handlers.items():
        if hasattr(kind, name):
            wrap(kind, name, handler)


def wrap(kind: type, name: str, handler: Callable[..., Any]) -> None:
    """Replace the method `name` by `handler`. The first argument of `handler` is the bound original."""
    original = getattr(kind, name)

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return handler(functools.partial(original, self), self, *args, **kwargs)

    setattr(kind, name, method)


def _is_delta(self: Any, source: Any) -> bool:
    """Return whether `source`, or the session's default, is Delta and handled by Slackwater."""
    session = session_of(self)
    is_delta = is_delta_by_default(session) if source is None else isinstance(source, str) and source.lower() == "delta"
    return is_delta and is_enabled_for(session)


def wants_delta(self: Any, named: Any) -> bool:
    """Return whether Slackwater handles the request's format: `named`, else the earlier format, else the default."""
    known = request_of(self).is_delta
    return _is_delta(self, named) if named is not None or known is None else known


def _format(original: Callable[..., Any], self: Any, source: str) -> Any:
    request_of(self).is_delta = is_delta = _is_delta(self, source)
    return self if is_delta else original(source)


def _option(original: Callable[..., Any], self: Any, key: str, value: Any) -> Any:
    request_of(self).options[key] = value
    return original(key, value)


def _options(original: Callable[..., Any], self: Any, **options: Any) -> Any:
    request_of(self).options.update(options)
    return original(**options)


def _schema(original: Callable[..., Any], self: Any, schema: Any) -> Any:
    request_of(self).schema = schema
    return original(schema)


def _name(original: Callable[..., Any], self: Any, source_name: str) -> Any:
    request_of(self).source_name = source_name
    return original(source_name)


def table_to_load(
    self: Any, path: Any, named: Any, schema: Any, options: dict[str, Any]
) -> tuple[str, dict[str, Any]] | None:
    """Return the path and options of the table for `load`, or None if Slackwater does not handle the request.

    Raises InvalidArgument for a schema, and without a path.
    """
    if not wants_delta(self, named):
        return None
    request = request_of(self)
    if schema is not None or request.schema is not None:
        raise InvalidArgument(
            "a Delta table has its own schema. Leave out the reader's schema",
            error_class="DELTA_UNSUPPORTED_SCHEMA_DURING_READ",
        )
    given = {**request.options, **options}
    return given_path(path, given), given


def given_path(path: Any, options: dict[str, Any]) -> str:
    """Return the single path passed as an argument or an option. Raises InvalidArgument."""
    found = path if path is not None else next((v for k, v in options.items() if k.lower() == "path"), None)
    if isinstance(found, (list, tuple)) and len(found) == 1:
        found = found[0]
    if not isinstance(found, str) or not found:
        raise InvalidArgument(f"the path of one Delta table is required, found {found!r}")
    return found
