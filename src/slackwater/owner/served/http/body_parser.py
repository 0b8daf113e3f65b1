"""Parser of request bodies. JSON values are counted on arrival, and bodies are parsed in separate threads.

The memory for JSON depends on its number of values more than on its size. Both are therefore known before parsing.
Parsing and validation do not block other requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson
from anyio import CapacityLimiter, to_thread
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails

from slackwater.errors import InvalidArgument
from slackwater.owner.api.wire_model import RequestModel, adapter, camel
from slackwater.owner.served.responses import RequestRejected

_AT_ONCE = 2
_MOST_FIELDS = 64
_ACTIONS = "actions"
_EXTRA = "unexpected_keyword_argument"
_OTHERS = bytes(set(range(256)) - set(b",[{"))


class ValueCount:
    """Counts the values of a JSON document that arrives in chunks. The count is an upper bound of parsed values."""

    __slots__ = ("_in_string", "_is_escaped", "values")

    def __init__(self) -> None:
        self.values = 1
        self._in_string = False
        self._is_escaped = False

    def add(self, chunk: bytes) -> None:
        """Count the values of a chunk. Time O(chunk), with a few passes in C."""
        if not chunk:
            return
        if self._is_escaped:
            chunk = chunk[1:]
        self._is_escaped = (len(chunk) - len(chunk.rstrip(b"\\"))) % 2 == 1
        plain = chunk.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in chunk else chunk
        parts = plain.split(b'"')
        for part in parts[1::2] if self._in_string else parts[::2]:
            self.values += len(part.translate(None, _OTHERS))
        self._in_string ^= len(parts) % 2 == 0


class BodyParser:
    """Parses bodies into request values in threads."""

    def __init__(self) -> None:
        self._limiter = CapacityLimiter(_AT_ONCE)

    async def parsed(self, body: bytearray, kind: type[RequestModel], path: Mapping[str, Any]) -> RequestModel | None:
        """Return the value of `body`, including the fields in the `path` of its request. None for an empty body.

        Raises RequestRejected (422) for invalid JSON, RequestValidationError for an invalid value.
        """
        if not body:
            return None
        return await to_thread.run_sync(_parsed, body, kind, path, limiter=self._limiter)


def _parsed(body: bytearray, kind: type[RequestModel], path: Mapping[str, Any]) -> RequestModel:
    try:
        # orjson rejects NaN and numbers beyond the range of a double.
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestRejected(422, InvalidArgument(f"the request's body is not JSON: {error}")) from error
    _check_fields(found)
    try:
        value: RequestModel = adapter(kind).validate_python(_with_path(found, kind, path))
    except ValidationError as error:
        raise RequestValidationError([_fault(fault, kind) for fault in error.errors(include_url=False)]) from error
    return value


def _with_path(found: Any, kind: type[RequestModel], path: Mapping[str, Any]) -> Any:
    """Return `found` with the field from the path. The body must not contain this field."""
    if not kind.in_path or not isinstance(found, dict):
        return found
    key = camel(kind.in_path)
    if key in found:
        raise ValidationError.from_exception_data(
            kind.__name__, [InitErrorDetails(type=_EXTRA, loc=(key,), input=None)]
        )
    return {**found, key: path[kind.in_path]}


def _fault(fault: ErrorDetails, kind: type[RequestModel]) -> dict[str, Any]:
    """Return `fault` for the client, located in the body or in the path."""
    if fault["type"] == _EXTRA:
        return {**fault, "loc": ("body", *fault["loc"]), "msg": "Extra inputs are not permitted"}
    is_in_path = kind.in_path != "" and fault["loc"] == (camel(kind.in_path),)
    return {**fault, "loc": ("path", kind.in_path) if is_in_path else ("body", *fault["loc"])}


def _check_fields(found: Any) -> None:
    """Reject objects with too many fields, because an error per field takes more memory than the field."""
    left = [found]
    while left:
        holder = left.pop()
        if isinstance(holder, dict) and len(holder) > _MOST_FIELDS:
            raise RequestRejected(
                422, InvalidArgument(f"the request cannot be understood: an object has more than {_MOST_FIELDS} fields")
            )
        left.extend(_held(holder))


def _held(holder: Any) -> Iterator[Any]:
    """Return the arrays and objects in `holder`, except actions. Actions have the form of the log."""
    if isinstance(holder, dict):
        yield from (item for key, item in holder.items() if key != _ACTIONS and isinstance(item, (dict, list)))
    elif isinstance(holder, list):
        yield from (item for item in holder if isinstance(item, (dict, list)))
