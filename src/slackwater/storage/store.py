"""Interface between Slackwater and a store of objects: `ObjectStore`, its value types and path checks.

Source: delta-protocol.md "Delta Log Entries" (a log entry is never overwritten).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from slackwater.errors import InvalidArgument, PathNotAllowed, StorageError

HIDDEN = ".slackwater-"
"""Name prefix of files and directories not yet part of a table. Every engine skips these names."""


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """A stored object: `path` relative to the store's root, size in bytes, last change in ms since the epoch."""

    path: str
    size_bytes: int
    modified_ms: int


class ChunkedBytes:
    """Bytes too large to hold in memory at one time. Each iteration calls `make` again and yields chunks."""

    def __init__(self, make: Callable[[], Iterable[bytes | memoryview]]) -> None:
        self._make = make
        self._size: int | None = None

    def __iter__(self) -> Iterator[bytes | memoryview]:
        size = 0
        for piece in self._make():
            size += len(piece)
            yield piece
        self._size = size

    def __len__(self) -> int:
        if self._size is None:
            for _ in self:
                pass
        return self._size or 0

    def __bytes__(self) -> bytes:
        return b"".join(self)


class ObjectStore(Protocol):
    """Objects under one root, addressed by paths relative to the root.

    A path is '/'-separated and literal. The reader of a log percent-decodes paths, and the store never does. A path
    with an empty or '.' segment or a NUL raises InvalidArgument, a path with '..' PathNotAllowed. Every other failure
    is a StorageError:

    - ObjectNotFound: The object does not exist.
    - ObjectExists: The object exists already.
    - StorageRefused: The request certainly had no effect (permissions, a full or read-only disk, an unsupported
      request).
    - StorageError itself: The effect of the request is unknown.
    """

    @property
    def root_url(self) -> str:
        """Root for messages and other readers, percent-encoded, no trailing slash: `file:///data/t`, `s3://b/t`."""
        ...

    @property
    def local_root(self) -> str | None:
        """Absolute, literal path of the root on this machine; None if the store is not a local disk."""
        ...

    def list_from(self, prefix: str, start_after: str = "", recursive: bool = False) -> list[ObjectMeta]:
        """Return the objects under directory `prefix` ('' is the root), ascending by the UTF-8 bytes of their paths.

        If `start_after`, a full path, is not empty, return only greater paths. Skip objects in sub-directories unless
        `recursive`. Return an empty list if the directory does not exist.
        """
        ...

    def read(self, path: str) -> bytes:
        """Return all bytes of the object. Raises ObjectNotFound."""
        ...

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        """Return all bytes of each object, in order of `paths`. Raises ObjectNotFound for the first missing object."""
        ...

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return `length` bytes from byte `start`, fewer or none if the object ends earlier. Raises ObjectNotFound."""
        ...

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return `read_range` of each (start, length) of `ranges`.

        Remote stores read adjacent ranges with one request, and distant ranges in parallel.
        """
        ...

    def open_file(self, path: str, size_bytes: int | None = None) -> Any:
        """Open the object as a seekable pyarrow file. The caller closes the file. Raises ObjectNotFound.

        A known `size_bytes` saves one request for the size. A missing object may then raise only at the first read. If
        the size is wrong, the end of the object may be cut off.
        """
        ...

    def head(self, path: str) -> ObjectMeta | None:
        """Return the object's size and modification time, or None if the object does not exist."""
        ...

    def put_if_absent(self, path: str, data: bytes | ChunkedBytes, durable: bool = True) -> None:
        """Create the whole object, or raise ObjectExists and change nothing. One of any number of writers succeeds.

        ObjectExists may refer to the caller's own object, if a remote store repeated a request after a lost response.
        After StorageRefused nothing was created. After any other StorageError the outcome is unknown: read the object
        back to find out. Without `durable` a power failure may leave a torn object, so use it only for objects the
        table can do without. A disk writes `ChunkedBytes` chunk by chunk; other stores join the chunks first.
        """
        ...

    def require_conditional_puts(self, directory: str) -> None:
        """Verify in `directory` that `put_if_absent` of this store never replaces an object. Pass if this is known.

        For callers with no other protection against concurrent writers. Raises StorageRefused if the store replaces
        objects, StorageError if the check has no result. The check leaves no object.
        """
        ...

    def copy_if_absent(self, src: str, dst: str) -> None:
        """Create `dst` with the bytes of `src`, like `put_if_absent`. `src` remains. Raises ObjectNotFound for `src`.

        No writer may change either object: on a local disk both may be one file with two names.
        """
        ...

    def put(self, path: str, data: bytes) -> None:
        """Create or replace the object. A reader sees either all old bytes or all new bytes.

        After StorageRefused the object is unchanged.
        """
        ...

    def put_file(self, path: str, local_file: str | os.PathLike[str]) -> None:
        """Create or replace the object with the bytes of a file on this machine, like `put`, in bounded memory.

        The file remains. Raises StorageError if the file cannot be read.
        """
        ...

    def delete(self, paths: Sequence[str]) -> None:
        """Delete the objects. A missing object is not an error."""
        ...

    def move(self, src: str, dst: str) -> None:
        """Rename a freshly written object to its final name. Raises ObjectNotFound for `src`, ObjectExists for `dst`.

        Remote stores copy and delete. If a store cannot copy conditionally (S3), the check of `dst` and the copy are
        two steps, so `dst` must be a unique name. Commits use `put_if_absent` instead.
        """
        ...

    def at(self, url: str) -> tuple[ObjectStore, str]:
        """Return the store and path of an absolute `url`, inside this root or not, with the same credentials.

        A URL with a scheme (`file:/x`, `s3://b/k`) is percent-decoded; a path starting with '/' is literal. Raises
        InvalidArgument for any other text.
        """
        ...


def open_local(local_file: str | os.PathLike[str]) -> BinaryIO:
    """Open the file on this machine for `put_file`. Raises StorageError if the file cannot be opened."""
    try:
        return Path(local_file).open("rb")
    except OSError as error:
        raise StorageError(f"the local file {os.fspath(local_file)!r} cannot be read: {error}") from error


def checked_range(start: int, length: int) -> None:
    """Raise InvalidArgument if `start` or `length` is negative."""
    if start < 0 or length < 0:
        raise InvalidArgument(f"expected a range of bytes, found start {start} and length {length}")


def checked_path(path: str) -> str:
    """Return `path` if it is a relative path of whole segments.

    Raises PathNotAllowed for a '..' segment, InvalidArgument for an empty or '.' segment or a NUL character.
    """
    segments = path.split("/")
    if ".." in segments:
        raise PathNotAllowed(f"the path {path!r} climbs out of its store with '..'. Name the object itself")
    if "" in segments or "." in segments or "\0" in path:
        raise InvalidArgument(
            f"expected a path relative to the store's root, with no empty or '.' segment and no NUL, found {path!r}"
        )
    return path


def checked_prefix(prefix: str) -> str:
    """Return `prefix` without its trailing slash, '' for the root. Raises the errors of `checked_path`."""
    prefix = prefix.removesuffix("/")
    return checked_path(prefix) if prefix else ""
