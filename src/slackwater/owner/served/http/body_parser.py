"""Bodies of requests: their JSON values are counted as they come, and they are parsed in threads of their own.

What JSON takes in memory depends more on how many values it has than on its size, so both are known before it is
parsed, and neither the parser nor the checks of what it found keep other requests waiting.
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
    """Counts the values of a JSON document that comes in pieces: at least as many as a parser would make."""

    __slots__ = ("_in_string", "_is_escaped", "values")

    def __init__(self) -> None:
        self.values = 1
        self._in_string = False
        self._is_escaped = False

    def add(self, chunk: bytes) -> None:
        """Count on. Time O(chunk), a few passes of the interpreter's own."""
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
    """Turns bodies into what a route is told, in threads."""

    def __init__(self) -> None:
        self._limiter = CapacityLimiter(_AT_ONCE)

    async def parsed(self, body: bytearray, kind: type[RequestModel], path: Mapping[str, Any]) -> RequestModel | None:
        """The value that `body` is, with what stands in the `path` of its request; None for an empty one.

        Raises Refusal (422) for what is no JSON, RequestValidationError for what is no such value.
        """
        if not body:
            return None
        return await to_thread.run_sync(_parsed, body, kind, path, limiter=self._limiter)


def _parsed(body: bytearray, kind: type[RequestModel], path: Mapping[str, Any]) -> RequestModel:
    try:
        # Numbers that JSON cannot carry exactly are no JSON.
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestRejected(422, InvalidArgument(f"the request's body is no JSON: {error}")) from error
    _check_fields(found)
    try:
        value: RequestModel = adapter(kind).validate_python(_with_path(found, kind, path))
    except ValidationError as error:
        raise RequestValidationError([_fault(fault, kind) for fault in error.errors(include_url=False)]) from error
    return value


def _with_path(found: Any, kind: type[RequestModel], path: Mapping[str, Any]) -> Any:
    """`found`, which holds nothing of the path, with the field that stands there."""
    if not kind.in_path or not isinstance(found, dict):
        return found
    key = camel(kind.in_path)
    if key in found:
        raise ValidationError.from_exception_data(
            kind.__name__, [InitErrorDetails(type=_EXTRA, loc=(key,), input=None)]
        )
    return {**found, key: path[kind.in_path]}


def _fault(fault: ErrorDetails, kind: type[RequestModel]) -> dict[str, Any]:
    """`fault` as the client is told: of the body, or of the path where what is wrong stands there."""
    if fault["type"] == _EXTRA:
        return {**fault, "loc": ("body", *fault["loc"]), "msg": "Extra inputs are not permitted"}
    is_in_path = kind.in_path != "" and fault["loc"] == (camel(kind.in_path),)
    return {**fault, "loc": ("path", kind.in_path) if is_in_path else ("body", *fault["loc"])}


def _check_fields(found: Any) -> None:
    """Each field that is too many is an error of its own, which takes more memory than the field."""
    left = [found]
    while left:
        holder = left.pop()
        if isinstance(holder, dict) and len(holder) > _MOST_FIELDS:
            raise RequestRejected(
                422, InvalidArgument(f"the request cannot be understood: an object has more than {_MOST_FIELDS} fields")
            )
        left.extend(_held(holder))


def _held(holder: Any) -> Iterator[Any]:
    """The arrays and objects in `holder` but actions, which hold what the log holds."""
    if isinstance(holder, dict):
        yield from (item for key, item in holder.items() if key != _ACTIONS and isinstance(item, (dict, list)))
    elif isinstance(holder, list):
        yield from (item for item in holder if isinstance(item, (dict, list)))
