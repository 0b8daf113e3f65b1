"""Deletion vector loader: reads the deleted row indexes for descriptors from the log.

Source: delta-protocol.md "Deletion Vectors", "Reader Requirements for Deletion Vectors".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyroaring import BitMap64

from slackwater.errors import CorruptDeletionVector, DataFileNotFound, ObjectNotFound
from slackwater.protocol.actions.deletion_vectors import (
    INLINE,
    DeletionVectorDescriptor,
    parse_file_slice,
    parse_inline,
)
from slackwater.protocol.actions.paths import is_absolute
from slackwater.storage.path_guard import open_resolved, resolve_deletion_vector
from slackwater.storage.store import ObjectStore

# Vectors closer together than this in one file are read in one request.
_MAX_GAP_BYTES = 64 * 1024
_REQUESTS_AT_ONCE = 16


def load_deletion_vectors(
    store: ObjectStore, vectors: Sequence[Mapping[str, Any]], allow_outside_root: bool = False
) -> list[BitMap64]:
    """Return the deleted row indexes of each of `vectors` (descriptors from the log), in their order.

    Vectors in the same file are read together.

    Raises:
        CorruptDeletionVector: If magic number, size, checksum or cardinality is wrong.
        DataFileNotFound: If the file is missing.
        PathNotAllowed: If the file is outside the root and `allow_outside_root` is False.
    """
    descriptors = [DeletionVectorDescriptor.from_json(vector) for vector in vectors]
    bitmaps: list[BitMap64 | None] = [None] * len(descriptors)
    by_file: dict[str, list[int]] = defaultdict(list)
    # Many vectors are in one file.
    resolved: dict[tuple[str, str], str] = {}
    for number, descriptor in enumerate(descriptors):
        if descriptor.storage_type == INLINE:
            bitmaps[number] = parse_inline(descriptor)
            continue
        named = descriptor.storage_type, descriptor.path_or_inline_dv
        if named not in resolved:
            resolved[named] = resolve_deletion_vector(store, descriptor, allow_outside_root)
        by_file[resolved[named]].append(number)
    files = {path: {number: descriptors[number] for number in numbers} for path, numbers in by_file.items()}
    for number, bitmap in _read_files(store, files):
        bitmaps[number] = bitmap
    return [bitmap for bitmap in bitmaps if bitmap is not None]


def _read_files(
    store: ObjectStore, files: Mapping[str, Mapping[int, DeletionVectorDescriptor]]
) -> Iterator[tuple[int, BitMap64]]:
    if len(files) < 2 or store.local_root is not None:
        for path, descriptors in files.items():
            yield from _read_file(store, path, descriptors)
        return
    # Concurrent, because each file costs a request to a remote store.
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
        for found in pool.map(lambda file: _read_file(store, *file), files.items()):
            yield from found


def _read_file(
    store: ObjectStore, path: str, descriptors: Mapping[int, DeletionVectorDescriptor]
) -> list[tuple[int, BitMap64]]:
    where = path if is_absolute(path) else f"{store.root_url}/{path}"
    holder, name = open_resolved(store, path)
    ordered = sorted(descriptors.items(), key=lambda item: _offset(item[1], where))
    found = []
    for run in _runs(ordered, where):
        start = _offset(run[0][1], where)
        end = max(_end(descriptor, where) for _, descriptor in run)
        try:
            data = holder.read_range(name, start, end - start)
        except ObjectNotFound as error:
            raise DataFileNotFound(
                f"{where}: the log names this deletion vector file, but the file does not exist"
            ) from error
        for number, descriptor in run:
            offset = _offset(descriptor, where)
            part = data[offset - start : _end(descriptor, where) - start]
            found.append((number, parse_file_slice(descriptor, part, f"{where}, offset {offset}")))
    return found


def _runs(
    ordered: Sequence[tuple[int, DeletionVectorDescriptor]], where: str
) -> list[list[tuple[int, DeletionVectorDescriptor]]]:
    runs: list[list[tuple[int, DeletionVectorDescriptor]]] = []
    end = 0
    for item in ordered:
        if runs and _offset(item[1], where) - end <= _MAX_GAP_BYTES:
            runs[-1].append(item)
        else:
            runs.append([item])
        end = max(end, _end(item[1], where))
    return runs


def _offset(descriptor: DeletionVectorDescriptor, where: str) -> int:
    if descriptor.offset is None:
        raise CorruptDeletionVector(f"{where}: a deletion vector in a file must have an offset, found none")
    return descriptor.offset


def _end(descriptor: DeletionVectorDescriptor, where: str) -> int:
    return _offset(descriptor, where) + descriptor.size_in_bytes + 8
