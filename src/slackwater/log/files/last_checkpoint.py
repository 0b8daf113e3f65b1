"""The file `_last_checkpoint`: a hint for the start of a log listing, possibly stale or wrong.

Source: delta-protocol.md "Last Checkpoint File", "Last Checkpoint File Schema", "JSON checksum".
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import dataclass

import orjson

from slackwater.errors import InvalidArgument, ObjectNotFound
from slackwater.protocol.actions.file_names import LOG, LogFileKind, parse_log_file, version_prefix
from slackwater.protocol.actions.json_checksum import checksum
from slackwater.storage.store import ObjectStore

LAST_CHECKPOINT = "_delta_log/_last_checkpoint"
# Checksum file of Hadoop's local file system, compared with the file on every read.
_HADOOP_CHECKSUM = "_delta_log/._last_checkpoint.crc"
_CHECKPOINT_KINDS = (
    LogFileKind.CHECKPOINT_CLASSIC,
    LogFileKind.CHECKPOINT_MULTIPART,
    LogFileKind.CHECKPOINT_UUID,
)
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


def write_last_checkpoint(store: ObjectStore, info: CheckpointInfo) -> bool:
    """Point `_last_checkpoint` at the checkpoint `info`. Return False if it names a newer checkpoint.

    In this case, the hint stays unchanged. A hint at a newer version without a checkpoint is wrong, and is replaced.
    Raises StorageError.
    Source: delta-protocol.md "Last Checkpoint File Schema".
    """
    hint = read_last_checkpoint(store)
    if hint is not None and hint.version > info.version and has_checkpoint(store, hint.version):
        return False
    node = {
        "version": info.version,
        "size": info.num_actions,
        "sizeInBytes": info.size_bytes,
        "numOfAddFiles": info.num_add_files,
    }
    node_with_checksum = {**node, "checksum": checksum(orjson.dumps(node))}
    store.delete([_HADOOP_CHECKSUM])
    store.put(LAST_CHECKPOINT, orjson.dumps(node_with_checksum))
    return True


def has_checkpoint(store: ObjectStore, version: int) -> bool:
    """Return whether the log has a complete checkpoint of `version`: one file, or all parts. Raises StorageError."""
    prefix = version_prefix(version)
    parts: dict[int | None, set[int]] = defaultdict(set)
    for meta in store.list_from(LOG, f"{LOG}/{prefix}"):
        file = parse_log_file(meta.path.removeprefix(f"{LOG}/"))
        if file is not None and file.version > version:
            return False
        if file is None or file.version != version or file.kind not in _CHECKPOINT_KINDS:
            continue
        if file.part is None:
            return True
        parts[file.num_parts].add(file.part)
        if len(parts[file.num_parts]) == file.num_parts:
            return True
    return False
