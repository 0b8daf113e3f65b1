"""`_last_checkpoint`: a hint to where the listing of the log may begin, never a fact.

Source: delta-protocol.md "Last Checkpoint File", "Last Checkpoint File Schema", "JSON checksum".
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import orjson

from slackwater.errors import InvalidArgument, ObjectNotFound
from slackwater.protocol.actions.file_names import LOG, LogFileKind, parse_log_file, version_prefix
from slackwater.protocol.actions.json_checksum import checksum
from slackwater.storage.store import ObjectStore

LAST_CHECKPOINT = "_delta_log/_last_checkpoint"
# What Hadoop's local file system leaves beside a file, and compares with it at every read.
_HADOOP_CHECKSUM = "_delta_log/._last_checkpoint.crc"
_CHECKPOINT_KINDS = (
    LogFileKind.CHECKPOINT_CLASSIC,
    LogFileKind.CHECKPOINT_MULTIPART,
    LogFileKind.CHECKPOINT_UUID,
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LastCheckpoint:
    """Where the last checkpoint was when its writer said so; `parts` for a multi-part one."""

    version: int
    parts: int | None = None


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """A checkpoint that was written and found whole.

    `path`: its file, in `_delta_log`; `sidecars`: those it refers to, of which `reused_sidecars` were there before, all
    as paths in the store. `num_actions`, `size_bytes` and `num_add_files` count what is in the sidecars too.
    """

    version: int
    path: str
    num_actions: int
    size_bytes: int
    num_add_files: int
    sidecars: tuple[str, ...] = ()
    reused_sidecars: tuple[str, ...] = ()


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


def write_last_checkpoint(store: ObjectStore, info: CheckpointInfo) -> bool:
    """Point `_last_checkpoint` at the checkpoint `info`; False where it names a newer one, and stays unchanged.

    A hint at a newer version that has no checkpoint is wrong and is replaced. Raises StorageError.
    Source: delta-protocol.md "Last Checkpoint File Schema".
    """
    hint = read_last_checkpoint(store)
    if hint is not None and hint.version > info.version and _has_checkpoint(store, hint.version):
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


def _has_checkpoint(store: ObjectStore, version: int) -> bool:
    prefix = version_prefix(version)
    for meta in store.list_from(LOG, f"{LOG}/{prefix}"):
        file = parse_log_file(meta.path.removeprefix(f"{LOG}/"))
        if file is not None and file.version > version:
            return False
        if file is not None and file.version == version and file.kind in _CHECKPOINT_KINDS:
            return True
    return False
