"""Deletion vector files of a transaction: written several vectors to a file, read back once each.

Source: delta-protocol.md "Deletion Vectors", "Deletion Vector File Storage Format".
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyroaring import BitMap64

from slackwater.errors import ObjectExists
from slackwater.protocol.actions import z85
from slackwater.protocol.actions.deletion_vectors import (
    ON_DISK_RELATIVE,
    DeletionVectorDescriptor,
    serialize_bitmap,
    unique_id_of,
    write_file,
)
from slackwater.scan.deletion_vectors import load_deletion_vectors
from slackwater.storage.conditional_puts import put_assuming_single_writer
from slackwater.storage.store import ObjectStore

_FILE_BYTES = 2 * 1024 * 1024
_MOST_NAMES = 4
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WrittenVectors:
    """Vectors that are in place: `descriptors` in the order they were given, `paths` of their files in the store."""

    descriptors: list[DeletionVectorDescriptor]
    paths: list[str]


def write_deletion_vectors(
    store: ObjectStore, bitmaps: Sequence[BitMap64], new_id: Callable[[], uuid.UUID]
) -> WrittenVectors:
    """Store `bitmaps` in `deletion_vector_<uuid>.bin` files in the table's root, durably; each file about 2 MiB.

    A vector is never split, so a large one makes a large file. Raises StorageError, and InvalidArgument for a row
    index of more than 63 bits; whatever was written by then is deleted again.
    """
    descriptors: list[DeletionVectorDescriptor] = []
    paths: list[str] = []
    try:
        for batch, cardinalities in _batches(bitmaps):
            content, places = write_file(batch)
            encoded = z85.encode_uuid(_create(store, content, new_id, paths))
            descriptors += [
                DeletionVectorDescriptor(ON_DISK_RELATIVE, encoded, offset, size, cardinality)
                for (offset, size), cardinality in zip(places, cardinalities, strict=True)
            ]
    except BaseException:
        delete_vector_files(store, paths)
        raise
    return WrittenVectors(descriptors, paths)


def delete_vector_files(store: ObjectStore, paths: Sequence[str]) -> str | None:
    """Delete files that no commit refers to; one that stays is only waste: what went wrong is answered, not raised."""
    if not paths:
        return None
    try:
        store.delete(paths)
    except Exception as error:  # noqa: BLE001  (neither a commit that stands nor the error that led here is hidden)
        _log.warning("%s: unused deletion vector files stay: %s", store.root_url, error)
        return f"deleting unused deletion vector files failed: {error}"
    return None


class LoadedVectors:
    """The vectors of a table's files by their unique ids, each read when it is first asked for."""

    def __init__(self, store: ObjectStore, follows_outside: bool = False) -> None:
        self._store = store
        self._follows_outside = follows_outside
        self._known: dict[str, BitMap64] = {}

    def remember(self, vector: DeletionVectorDescriptor, deleted: BitMap64) -> None:
        """What the caller knows of a vector already."""
        self._known.setdefault(vector.unique_id, deleted)

    def load(self, vectors: Iterable[Mapping[str, Any] | None]) -> None:
        """Read those of `vectors` (descriptors as in the log) that are not known yet, together.

        Raises as `load_deletion_vectors`.
        """
        wanted = {_id(node): node for node in vectors if node is not None}
        missing = {key: node for key, node in wanted.items() if key not in self._known}
        if missing:
            loaded = load_deletion_vectors(self._store, list(missing.values()), self._follows_outside)
            self._known.update(zip(missing, loaded, strict=True))

    def __getitem__(self, vector: Mapping[str, Any] | None) -> BitMap64:
        """The deleted rows of a file with this descriptor; empty for None. Not to be changed."""
        if vector is None:
            return BitMap64()
        self.load([vector])
        return self._known[_id(vector)]


def _batches(bitmaps: Sequence[BitMap64]) -> Iterator[tuple[list[bytes], list[int]]]:
    """Serialized vectors and their cardinalities, file by file."""
    batch: list[bytes] = []
    cardinalities: list[int] = []
    size = 0
    for bitmap in bitmaps:
        batch.append(serialize_bitmap(bitmap))
        cardinalities.append(len(bitmap))
        size += len(batch[-1])
        if size >= _FILE_BYTES:
            yield batch, cardinalities
            batch, cardinalities, size = [], [], 0
    if batch:
        yield batch, cardinalities


def _create(store: ObjectStore, content: bytes, new_id: Callable[[], uuid.UUID], paths: list[str]) -> uuid.UUID:
    """The id of a new file with `content`; every name that may be ours joins `paths` before it is written."""
    for attempt in range(1, _MOST_NAMES + 1):
        file_id = new_id()
        path = f"deletion_vector_{file_id}.bin"
        paths.append(path)
        try:
            put_assuming_single_writer(store, path, content)
        except ObjectExists:
            # The store may have repeated a request of ours whose answer was lost.
            if store.read(path) == content:
                return file_id
            paths.remove(path)
            if attempt == _MOST_NAMES:
                raise
        else:
            return file_id
    raise AssertionError("unreachable")


def _id(vector: Mapping[str, Any]) -> str:
    return unique_id_of(vector["storageType"], vector["pathOrInlineDv"], vector.get("offset"))
