"""The checksum of a JSON document, used by `_last_checkpoint`.

Source: delta-protocol.md "JSON checksum".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NoReturn
from urllib.parse import quote

from slackwater.errors import InvalidArgument


class _Number(str):
    """A number in the spelling of the document, because parsing and printing could change its digits."""

    __slots__ = ()


def canonicalize(document: str | bytes) -> str:
    """Return the canonical form: the leaves as `path=value`, ordered by the bytes of the path.

    Skips a top-level `checksum`. Raises InvalidArgument for text that is not JSON, is not UTF-8, or has a duplicate
    key.
    Source: delta-protocol.md "JSON checksum".
    """
    node = _load(document)
    if isinstance(node, dict):
        node.pop("checksum", None)
    try:
        leaves = sorted(_leaves(node, ""))
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"JSON text has a lone surrogate, which UTF-8 cannot encode: {error}") from error
    return ",".join(f"{path}={value}" if path else value for path, value in leaves)


def checksum(document: str | bytes) -> str:
    """Return the MD5 digest of the canonical form of `document`: 32 lower-case hexadecimal digits.

    Raises InvalidArgument if `document` has no canonical form (see `canonicalize`).
    """
    return hashlib.md5(canonicalize(document).encode(), usedforsecurity=False).hexdigest()


def _load(document: str | bytes) -> Any:
    try:
        text = document if isinstance(document, str) else document.decode("utf-8")
        return json.loads(
            text,
            parse_float=_Number,
            parse_int=_Number,
            parse_constant=_refuse_constant,
            object_pairs_hook=_object_without_duplicates,
        )
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise InvalidArgument(f"expected a JSON document, found {document[:80]!r}: {error}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidArgument(f"{name} is not a JSON value")


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    node = dict(pairs)
    if len(node) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InvalidArgument(f"key {twice!r} occurs twice in one JSON object. The protocol forbids duplicate keys")
    return node


def _leaves(node: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        for name, value in node.items():
            yield from _leaves(value, _join(path, _quoted(name)))
    elif isinstance(node, list):
        for position, value in enumerate(node):
            yield from _leaves(value, _join(path, str(position)))
    else:
        yield path, _scalar(node)


def _join(path: str, segment: str) -> str:
    return f"{path}+{segment}" if path else segment


def _scalar(value: Any) -> str:
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    return {None: "null", True: "true", False: "false"}[value]


def _quoted(text: str) -> str:
    return f'"{quote(text, safe="-._~")}"'
