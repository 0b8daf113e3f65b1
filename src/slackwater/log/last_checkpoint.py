"""`_last_checkpoint`: a hint to where the listing of the log may begin, never a fact.

Source: delta-protocol.md "Last Checkpoint File", "Last Checkpoint File Schema", "JSON checksum".
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import orjson

from slackwater.errors import InvalidArgument, ObjectNotFound
from slackwater.protocol.file_names import version_prefix
from slackwater.protocol.json_checksum import checksum
from slackwater.storage.store import ObjectStore

LAST_CHECKPOINT = "_delta_log/_last_checkpoint"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LastCheckpoint:
    """Where the last checkpoint was when its writer said so; `parts` for a multi-part one."""

    version: int
    parts: int | None = None


def read_last_checkpoint(store: ObjectStore) -> LastCheckpoint | None:
    """The hint, or None where it is absent, is not JSON, has no version, or does not match its own checksum."""
    try:
        data = store.read(LAST_CHECKPOINT)
    except ObjectNotFound:
        return None
    try:
        node = orjson.loads(data)
        version, parts = node["version"], node.get("parts")
        expected = node.get("checksum")
        if not isinstance(version, int):
            raise TypeError(f"version is {version!r}")
        version_prefix(version)
        if isinstance(expected, str) and checksum(data) != expected:
            raise InvalidArgument(f"its checksum says {expected}")
    except (ValueError, KeyError, TypeError, AttributeError, InvalidArgument) as error:
        _log.warning("%s/%s is not used: %s", store.root_url, LAST_CHECKPOINT, error)
        return None
    return LastCheckpoint(version, parts if isinstance(parts, int) else None)
