"""Granules: partitions of a table, used for locks and read timestamps.

A granule is one value of one partition column. Equivalent texts of a value have the same granule, so a reader and a
writer of one partition always conflict. Source: paper §4.1 ("d's mapped to an identifier for the set").
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from slackwater.owner.api.actions import Action
from slackwater.owner.api.transactions import WHOLE, Item

ANY = "*"
"""Granule stamped by every granule read, for writers without specified granules."""
MOST_GRANULES = 64
"""Maximum of granules per read or write. More granules become the whole table."""

_LONGEST = 400
_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,18}")
_DATE = re.compile(r"(\d{1,6})-(\d{1,2})-(\d{1,2})")


def granule(column: str, value: str | None) -> str:
    """Return the granule of a partition column, called by its physical name, and a value of `partitionValues`."""
    text = orjson.dumps([column, _canonical(value)]).decode()
    return text if len(text) <= _LONGEST else hashlib.sha256(text.encode()).hexdigest()


def written_granules(actions: Iterable[Action]) -> Sequence[str] | None:
    """Return the granules of the rows changed by `actions`, empty without row changes.

    None for the whole table: if `actions` change metadata or protocol, lack partition values, or have over
    MOST_GRANULES granules.
    """
    found: set[str] = set()
    for action in actions:
        if "metaData" in action or "protocol" in action:
            return None
        node: Mapping[str, Any] | None = action.get("add") or action.get("remove")
        if node is None or node.get("dataChange") is False:
            continue
        values = node.get("partitionValues")
        if values is None:
            return None
        found.update(granule(column, value) for column, value in values.items())
        if len(found) > MOST_GRANULES:
            return None
    return sorted(found)


def stamped(table_id: str, granules: Sequence[str]) -> list[Item]:
    """Return the items with a new read timestamp after a read of `granules`."""
    if WHOLE in granules or len(granules) > MOST_GRANULES:
        return [Item(table_id)]
    return [*(Item(table_id, g) for g in granules), Item(table_id, ANY)]


def checked(table_id: str, granules: Sequence[str] | None) -> list[Item]:
    """Return the items for the lower bound of a write: its timestamp must exceed their read timestamps.

    `granules` is None for the whole table.
    """
    if granules is None or WHOLE in granules or len(granules) > MOST_GRANULES:
        return [Item(table_id), Item(table_id, ANY)]
    return [Item(table_id), *(Item(table_id, g) for g in granules)]


def locked(table_id: str, granules: Sequence[str] | None) -> list[Item]:
    """Return the items to lock for a read or write of `granules`."""
    if granules is None or not granules or WHOLE in granules or len(granules) > MOST_GRANULES:
        return [Item(table_id)]
    return [Item(table_id, g) for g in granules]


def _canonical(value: str | None) -> str | None:
    if not value:
        # The protocol reads the empty text as null.
        return None
    if _WHOLE_NUMBER.fullmatch(value):
        return str(int(value))
    date = _DATE.fullmatch(value)
    if date is not None:
        return "-".join(str(int(part)) for part in date.groups())
    return value.lower() if value.lower() in ("true", "false") else value
