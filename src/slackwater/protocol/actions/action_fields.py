"""Typed access to the fields of an action's JSON object.

All functions raise CorruptLog, with `where`, the action and the field, if a value is malformed. Source:
delta-protocol.md "Actions".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slackwater.errors import CorruptLog

_LONG = 2**63


def required(node: Mapping[str, Any], key: str, kind: type, where: str, action: str) -> Any:
    """Return the value of `key`, an instance of `kind`. Integers must fit into 64 bits."""
    value = node.get(key) if isinstance(node, Mapping) else None
    if (
        not isinstance(value, kind)
        or (isinstance(value, bool) and kind is not bool)
        or (isinstance(value, int) and not -_LONG <= value < _LONG)
    ):
        raise CorruptLog(f"{where}: {action} must have {key} of type {kind.__name__}, found {value!r}")
    return value


def optional(node: Mapping[str, Any], key: str, kind: type, where: str, action: str) -> Any:
    """Return the value of `key` like `required`, or None if there is no value."""
    return None if node.get(key) is None else required(node, key, kind, where, action)


def names(node: Mapping[str, Any], key: str, where: str, action: str) -> tuple[str, ...] | None:
    """Return a list of strings, or None if there is no value."""
    found = optional(node, key, list, where, action)
    if found is None:
        return None
    if not all(isinstance(name, str) for name in found):
        raise CorruptLog(f"{where}: {action} must have {key} that is a list of names, found {found!r}")
    return tuple(found)


def string_map(node: Mapping[str, Any], key: str, where: str, action: str) -> dict[str, str]:
    """Return a map without its null values. The input is a JSON object or Arrow's list of pairs."""
    found = nullable_map(node, key, where, action)
    return {name: text for name, text in found.items() if text is not None}


def nullable_map(node: Mapping[str, Any], key: str, where: str, action: str) -> dict[str, str | None]:
    """Return a map with its null values, or an empty map if there is no value. Input like `string_map`."""
    value = {} if node.get(key) is None else node[key]
    entries = list(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(entries, list) or not all(
        isinstance(entry, tuple) and isinstance(entry[0], str) and isinstance(entry[1], str | None) for entry in entries
    ):
        raise CorruptLog(f"{where}: {action} must have {key} that maps text to text, found {value!r}")
    return dict(entries)
