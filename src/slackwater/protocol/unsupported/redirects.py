"""Redirected tables: the log names another table to read or write instead. Such a table is refused, with the target.

Source: delta-spark's `TableRedirect`. No document describes the two features.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from slackwater.errors import UnsupportedFeature
from slackwater.html.redaction import without_secrets
from slackwater.protocol.actions.actions import Protocol
from slackwater.protocol.properties.registry import REDIRECT_READER_WRITER, REDIRECT_WRITER_ONLY

_PROPERTIES = {
    "redirectReaderWriter-preview": REDIRECT_READER_WRITER,
    "redirectWriterOnly-preview": REDIRECT_WRITER_ONLY,
}
_READY = "REDIRECT-READY"
_TARGETS = ("destPath", "redirectDest", "tablePath")
_LONGEST = 200


def refuse_redirect_of_readers(protocol: Protocol, configuration: Mapping[str, str], where: str) -> None:
    """Raise UnsupportedFeature if readers of the table are redirected. `where` is the table, for the message.

    `configuration` has the known properties of the table, without the redirection if they are not read yet.
    """
    _refuse(protocol.reader_features or (), configuration, where, "read", "DELTA_UNSUPPORTED_FEATURES_FOR_READ")


def refuse_redirect_of_writers(protocol: Protocol, configuration: Mapping[str, str], where: str) -> None:
    """Raise UnsupportedFeature if writers of the table are redirected. See `refuse_redirect_of_readers`."""
    _refuse(protocol.writer_features or (), configuration, where, "write", "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE")


def _refuse(names: tuple[str, ...], configuration: Mapping[str, str], where: str, does: str, error_class: str) -> None:
    redirect = next((name for name in names if name in _PROPERTIES), None)
    if redirect is None:
        return
    key = _PROPERTIES[redirect]
    folded = {name.lower(): value for name, value in configuration.items()}
    target, state = _parsed(folded.get(key.lower()))
    if target is None:
        raise UnsupportedFeature(
            f"{where}: the table is redirected ({redirect}), and this version of Slackwater does not follow redirects. "
            f"{does.capitalize()} the table named by its property {key}, or drop the feature with the engine that "
            "added it",
            error_class=error_class,
        )
    what = f"the redirection of the table to {target} is not complete" if state != _READY else f"moved to {target}"
    remedy = f"Retry later, or {does} that table" if state != _READY else f"{does.capitalize()} that table instead"
    raise UnsupportedFeature(f"{where}: {what} ({key}, state {state}). {remedy}", error_class=error_class)


def _parsed(text: str | None) -> tuple[str | None, str]:
    """Return the target and the state of a redirection. The target is None if the property does not name it."""
    node = _object(text)
    spec = _object(node.get("spec"))
    target = next((spec[key] for key in _TARGETS if isinstance(spec.get(key), str)), None)
    return None if target is None else without_secrets(target)[:_LONGEST], str(node.get("state"))[:_LONGEST]


def _object(value: Any) -> Mapping[str, Any]:
    """Return a JSON object, given as an object or as its text. Empty for any other value."""
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            return {}
    return value if isinstance(value, Mapping) else {}
