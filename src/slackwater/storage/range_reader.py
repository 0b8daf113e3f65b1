"""An object as a seekable file. Only the ranges read are fetched."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa

from slackwater.errors import ObjectNotFound
from slackwater.storage.store import ObjectStore

_READ_AHEAD_BYTES = 1 << 20


def open_by_ranges(store: ObjectStore, path: str, size_bytes: int | None = None) -> Any:
    """Open the object as a pyarrow file, like `ObjectStore.open_file`. Raises ObjectNotFound."""
    if size_bytes is None:
        meta = store.head(path)
        if meta is None:
            raise ObjectNotFound(f"open {store.root_url}/{path}: there is no such object")
        size_bytes = meta.size_bytes
    return pa.PythonFile(io.BufferedReader(RangeReader(store, path, size_bytes), _READ_AHEAD_BYTES), mode="r")


class RangeReader(io.RawIOBase):
    """Raw file over the object at `path` with `size_bytes`: seekable, one request per read."""

    def __init__(self, store: ObjectStore, path: str, size_bytes: int) -> None:
        self._store = store
        self._path = path
        self._size = size_bytes
        self._position = 0

    def size(self) -> int:
        """Return the object's size in bytes."""
        return self._size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def read(self, size: int | None = -1) -> Any:
        left = max(0, self._size - self._position)
        length = left if size is None or size < 0 else min(size, left)
        data = self._bytes(self._position, length) if length else b""
        self._position += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _bytes(self, start: int, length: int) -> Any:
        """Return at least one byte of the object."""
        return self._store.read_range(self._path, start, length)
