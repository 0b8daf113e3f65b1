"""The seam to files: what the rest of the package may ask of a place that stores objects.

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
"""How the names begin of files and directories that are not part of a table yet: every engine passes over them."""


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """One stored object: `path` relative to its store's root, size in bytes, last change in ms since the epoch."""

    path: str
    size_bytes: int
    modified_ms: int


class ChunkedBytes:
    """Bytes too many to be held at once: made a piece at a time, and anew whenever they are gone through."""

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
    """Objects under one root, by paths relative to it.

    A path is '/'-separated and literal: percent-decoded by the reader of a log, never decoded here. A path with
    an empty or '.' segment or a NUL raises InvalidArgument, one with '..' PathNotAllowed. Every other failure is a
    StorageError: ObjectNotFound, ObjectExists, StorageRefused where the request certainly had no effect (permissions,
    a full or read-only disk, a request that the store does not know), or the class itself where that is not certain.
    """

    @property
    def root_url(self) -> str:
        """The root for messages and other readers, percent-encoded, no trailing slash: `file:///data/t`, `s3://b/t`."""
        ...

    @property
    def local_root(self) -> str | None:
        """The root's absolute path on this machine, literal; None where the store is not a local disk."""
        ...

    def list_from(self, prefix: str, start_after: str = "", recursive: bool = False) -> list[ObjectMeta]:
        """The objects under directory `prefix` ('' is the root), ascending by the UTF-8 bytes of their paths.

        Only paths greater than `start_after`, which is a full path, where given. Objects in sub-directories are left
        out unless `recursive`. A directory that does not exist is an empty list.
        """
        ...

    def read(self, path: str) -> bytes:
        """The whole object. Raises ObjectNotFound."""
        ...

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        """The whole objects, in the order of `paths`. Raises ObjectNotFound for the first one that is missing."""
        ...

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """`length` bytes from byte `start`; fewer, or none, where the object ends before. Raises ObjectNotFound."""
        ...

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """`read_range` of each (start, length) of `ranges`, together: near ones by one request, others side by side."""
        ...

    def open_file(self, path: str, size_bytes: int | None = None) -> Any:
        """A seekable pyarrow file over the object, to be closed by the caller. Raises ObjectNotFound.

        `size_bytes`, where it is known, spares asking for it: then a missing object may raise at the first read only,
        and of one that has another size the end may be cut off.
        """
        ...

    def head(self, path: str) -> ObjectMeta | None:
        """The object's size and time, or None where there is no such object."""
        ...

    def put_if_absent(self, path: str, data: bytes | ChunkedBytes, durable: bool = True) -> None:
        """Create the object whole, or raise ObjectExists and change nothing. Of any number of writers one succeeds.

        ObjectExists may speak of the caller's own object, where a remote store repeated a request whose answer was
        lost. StorageRefused says that nothing was created; any other StorageError leaves that open, and who must know
        reads the object back. Without `durable` a power cut may leave a torn object, for what can be done without.
        Of `ChunkedBytes` a disk gets one after the other; other stores want them whole.
        """
        ...

    def require_conditional_puts(self, directory: str) -> None:
        """Let pass a store whose `put_if_absent` is known to keep what is there, or is seen to, in `directory`.

        It is for those who have nothing else to keep two writers apart. Raises StorageRefused where it does not, and
        StorageError where that cannot be seen; nothing is left of it.
        """
        ...

    def copy_if_absent(self, src: str, dst: str) -> None:
        """Create `dst` with what `src` holds, as `put_if_absent` does; `src` stays. Raises ObjectNotFound for `src`.

        Both are objects that no writer changes: on a local disk they may be one file with two names.
        """
        ...

    def put(self, path: str, data: bytes) -> None:
        """Create or replace the object; a reader sees the old bytes or the new ones, whole.

        StorageRefused says that the object is as it was.
        """
        ...

    def put_file(self, path: str, local_file: str | os.PathLike[str]) -> None:
        """As `put`, with the bytes of a file on this machine: memory bounded, whatever its size.

        The file stays. Raises StorageError where it cannot be read.
        """
        ...

    def delete(self, paths: Sequence[str]) -> None:
        """Remove the objects; one that is missing is no error."""
        ...

    def move(self, src: str, dst: str) -> None:
        """Give a freshly written object its final name. Raises ObjectNotFound for `src`, ObjectExists for `dst`.

        Remote stores copy and delete; where the store cannot copy conditionally (S3) the check of `dst` and the copy
        are two steps, so `dst` must be a unique name. Not for commits: those are `put_if_absent`.
        """
        ...

    def at(self, url: str) -> tuple[ObjectStore, str]:
        """The store and the path in it of an absolute `url`, inside this root or not, with the same credentials.

        A URL with a scheme (`file:/x`, `s3://b/k`) is percent-decoded; a path that starts with '/' is literal.
        Raises InvalidArgument for anything else.
        """
        ...


def open_local(local_file: str | os.PathLike[str]) -> BinaryIO:
    """The file on this machine, for `put_file` to read; raises StorageError where it cannot be opened."""
    try:
        return Path(local_file).open("rb")
    except OSError as error:
        raise StorageError(f"the local file {os.fspath(local_file)!r} cannot be read: {error}") from error


def checked_range(start: int, length: int) -> None:
    """Raises InvalidArgument for what is no range of bytes."""
    if start < 0 or length < 0:
        raise InvalidArgument(f"expected a range of bytes, found start {start} and length {length}")


def checked_path(path: str) -> str:
    """`path` itself, where it is a relative path of whole segments.

    Raises PathNotAllowed for a '..' segment, InvalidArgument for an empty or '.' segment or a NUL character.
    """
    segments = path.split("/")
    if ".." in segments:
        raise PathNotAllowed(f"the path {path!r} climbs out of its store with '..': name the object itself")
    if "" in segments or "." in segments or "\0" in path:
        raise InvalidArgument(
            f"expected a path relative to the store's root, with no empty or '.' segment and no NUL, found {path!r}"
        )
    return path


def checked_prefix(prefix: str) -> str:
    """`prefix` without its trailing slash, '' for the root; raises as `checked_path` does."""
    prefix = prefix.removesuffix("/")
    return checked_path(prefix) if prefix else ""
