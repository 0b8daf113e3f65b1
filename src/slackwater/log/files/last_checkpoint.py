"""The file `_last_checkpoint`: a hint for the start of a log listing, possibly stale or wrong.

Source: delta-protocol.md "Last Checkpoint File", "Last Checkpoint File Schema", "JSON checksum".
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import orjson

from slackwater.errors import InvalidArgument, ObjectNotFound
from slackwater.protocol.actions.file_names import version_prefix
from slackwater.protocol.actions.json_checksum import checksum
from slackwater.storage.store import ObjectStore

LAST_CHECKPOINT = "_delta_log/_last_checkpoint"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LastCheckpoint:
    """The version of the last checkpoint when the hint was written; `parts` for a multi-part checkpoint."""

    version: int
    parts: int | None = None


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """A checkpoint written and verified.

    `path`: its file in `_delta_log`. `sidecars`: the referenced sidecars; `reused_sidecars`: the subset from an older
    checkpoint. All paths are paths in the store. `num_actions`, `size_bytes` and `num_add_files` include the sidecars.
    """

    version: int
    path: str
    num_actions: int
    size_bytes: int
    num_add_files: int
    sidecars: tuple[str, ...] = ()
    reused_sidecars: tuple[str, ...] = ()


def read_last_checkpoint(store: ObjectStore) -> LastCheckpoint | None:
    """Return the hint. None if absent, not JSON, without a version, or with a wrong checksum."""
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
            raise InvalidArgument(f"it does not match its checksum {expected}")
    except (ValueError, KeyError, TypeError, AttributeError, InvalidArgument) as error:
        _log.warning("%s/%s is not used: %s", store.root_url, LAST_CHECKPOINT, error)
        return None
    return LastCheckpoint(version, parts if isinstance(parts, int) else None)
