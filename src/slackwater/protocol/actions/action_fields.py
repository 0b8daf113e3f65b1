"""The fields of an action's JSON object, each of the type that it has in the log.

All raise CorruptLog, naming `where`, the action and the field. Source: delta-protocol.md "Actions".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slackwater.errors import CorruptLog

_LONG = 2**63


def required(node: Mapping[str, Any], key: str, kind: type, where: str, action: str) -> Any:
    """The value of `key`, a `kind`; whole numbers are those of 64 bits."""
    value = node.get(key) if isinstance(node, Mapping) else None
    if (
        not isinstance(value, kind)
        or (isinstance(value, bool) and kind is not bool)
        or (isinstance(value, int) and not -_LONG <= value < _LONG)
    ):
        raise CorruptLog(f"{where}: {action} must have {key} of type {kind.__name__}, found {value!r}")
    return value


def optional(node: Mapping[str, Any], key: str, kind: type, where: str, action: str) -> Any:
    """As `required`; None where there is no value."""
    return None if node.get(key) is None else required(node, key, kind, where, action)


def names(node: Mapping[str, Any], key: str, where: str, action: str) -> tuple[str, ...] | None:
    """A list of texts; None where there is none."""
    found = optional(node, key, list, where, action)
    if found is None:
        return None
    if not all(isinstance(name, str) for name in found):
        raise CorruptLog(f"{where}: {action} must have {key} that is a list of names, found {found!r}")
    return tuple(found)


def string_map(node: Mapping[str, Any], key: str, where: str, action: str) -> dict[str, str]:
    """A map without its null values, as JSON has it (an object) or as Arrow gives it (a list of pairs)."""
    found = nullable_map(node, key, where, action)
    return {name: text for name, text in found.items() if text is not None}


def nullable_map(node: Mapping[str, Any], key: str, where: str, action: str) -> dict[str, str | None]:
    """A map with its null values, in both forms of `string_map`; empty where there is none."""
    value = {} if node.get(key) is None else node[key]
    entries = list(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(entries, list) or not all(
        isinstance(entry, tuple) and isinstance(entry[0], str) and isinstance(entry[1], str | None) for entry in entries
    ):
        raise CorruptLog(f"{where}: {action} must have {key} that maps text to text, found {value!r}")
    return dict(entries)
