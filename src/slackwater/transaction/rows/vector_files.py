"""Deletion vector files of a transaction. One file contains several vectors, and each vector is read once.

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
    """Stored vectors: `descriptors` in input order, and `paths` of their files in the store."""

    descriptors: list[DeletionVectorDescriptor]
    paths: list[str]


def write_deletion_vectors(
    store: ObjectStore, bitmaps: Sequence[BitMap64], new_id: Callable[[], uuid.UUID]
) -> WrittenVectors:
    """Store `bitmaps` durably in `deletion_vector_<uuid>.bin` files in the table's root, about 2 MiB each.

    A vector is never split, so a large vector makes a large file. Raises StorageError, and InvalidArgument for a row
    index of more than 63 bits. Files written before the error are deleted.
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
    """Delete files not referenced by any commit.

    Return an error message instead of raising, because files only waste space.
    """
    if not paths:
        return None
    try:
        store.delete(paths)
    except Exception as error:  # noqa: BLE001  (must hide neither a valid commit nor the original error)
        _log.warning("%s: unused deletion vector files stay: %s", store.root_url, error)
        return f"deleting unused deletion vector files failed: {error}"
    return None


class LoadedVectors:
    """Cache of a table's deletion vectors by unique id. Each vector is read on first use."""

    def __init__(self, store: ObjectStore, follows_outside: bool = False) -> None:
        self._store = store
        self._follows_outside = follows_outside
        self._known: dict[str, BitMap64] = {}

    def remember(self, vector: DeletionVectorDescriptor, deleted: BitMap64) -> None:
        """Add a vector already known to the caller."""
        self._known.setdefault(vector.unique_id, deleted)

    def load(self, vectors: Iterable[Mapping[str, Any] | None]) -> None:
        """Read the unknown vectors of `vectors` (descriptors as in the log) together.

        Raises the errors of `load_deletion_vectors`.
        """
        wanted = {_id(node): node for node in vectors if node is not None}
        missing = {key: node for key, node in wanted.items() if key not in self._known}
        if missing:
            loaded = load_deletion_vectors(self._store, list(missing.values()), self._follows_outside)
            self._known.update(zip(missing, loaded, strict=True))

    def __getitem__(self, vector: Mapping[str, Any] | None) -> BitMap64:
        """Return the deleted rows of a file with this descriptor, empty for None.

        Callers must not modify the result.
        """
        if vector is None:
            return BitMap64()
        self.load([vector])
        return self._known[_id(vector)]


def _batches(bitmaps: Sequence[BitMap64]) -> Iterator[tuple[list[bytes], list[int]]]:
    """Yield serialized vectors and their cardinalities, one batch per file."""
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
    """Create a file with `content` and return its id. Each candidate name is added to `paths` before the write."""
    for attempt in range(1, _MOST_NAMES + 1):
        file_id = new_id()
        path = f"deletion_vector_{file_id}.bin"
        paths.append(path)
        try:
            put_assuming_single_writer(store, path, content)
        except ObjectExists:
            # The store may have retried our request after a lost response.
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
