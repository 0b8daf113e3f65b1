"""Actions of a commit on the wire: checks and JSON form.

Actions stay dictionaries, because one object per action would cost more time per commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import orjson

from slackwater.errors import InvalidArgument
from slackwater.owner.api.wire_model import WireType

LOG_VALUE = "LogValue"
"""Name of `LOG_VALUE_SCHEMA` in the OpenAPI document. The schema refers to itself by this name."""
_LOG_VALUE_REF = {"$ref": f"#/components/schemas/{LOG_VALUE}"}
LOG_VALUE_SCHEMA = {
    "description": "What an action may hold: numbers fit 64 bits.",
    "anyOf": [
        {"type": ["null", "boolean", "string"]},
        {"type": "number", "minimum": -(2**63), "exclusiveMaximum": 2**63},
        {"type": "array", "items": _LOG_VALUE_REF},
        {"type": "object", "additionalProperties": _LOG_VALUE_REF},
    ],
}

_ACTIONS_SCHEMA = {
    "type": "array",
    "minItems": 1,
    "description": "Actions as in the log, commitInfo first.",
    "items": {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": {"type": "object", "additionalProperties": _LOG_VALUE_REF},
    },
}
_LONG = range(-(2**63), 2**63)
_DEEPEST = 64

Action = Mapping[str, Any]


def checked_actions(actions: Sequence[Any]) -> Sequence[Any]:
    """Return `actions` if each action is an object with one key and an object under the key.

    Numbers must fit 64 bits, because larger numbers cannot be written back unchanged. Values may nest 64 levels deep.
    Time O(all values). Raises InvalidArgument.
    """
    if not actions:
        raise InvalidArgument("a commit has at least one action, commitInfo, found none")
    for index, action in enumerate(actions):
        if not isinstance(action, dict) or len(action) != 1:
            raise InvalidArgument(f"action {index} must be an object with exactly one key, such as add or remove")
        ((kind, value),) = action.items()
        if not isinstance(value, dict):
            raise InvalidArgument(f"action {index} must have an object under {kind!r}, found {type(value).__name__}")
        _check_values(value, index)
    return actions


def commit_content(actions: Sequence[Action]) -> orjson.Fragment:
    """Return the array of `actions` in JSON. Raises InvalidArgument."""
    try:
        return orjson.Fragment(orjson.dumps(list(actions), default=_plain))
    except TypeError as error:
        raise InvalidArgument(f"the actions of a commit cannot be written as JSON: {error}") from error


def _check_values(value: dict[str, Any], index: int) -> None:
    level: list[Any] = [value]
    for _ in range(_DEEPEST):
        below: list[Any] = []
        for holder in level:
            for item in holder.values() if isinstance(holder, dict) else holder:
                if isinstance(item, (dict, list)):
                    below.append(item)
                elif isinstance(item, (int, float)) and not _LONG.start <= item < _LONG.stop:
                    raise InvalidArgument(f"action {index} holds the number {item}, which does not fit 64 bits")
        if not below:
            return
        level = below
    raise InvalidArgument(f"action {index} is nested more than {_DEEPEST} levels deep")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


Actions = Annotated[
    Sequence[Action],
    WireType(list[Any], after=checked_actions, write=commit_content, written=Any, schema=_ACTIONS_SCHEMA),
]
