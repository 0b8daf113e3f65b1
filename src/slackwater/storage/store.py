"""The seam to files: what the rest of the package may ask of a place that stores objects.

Source: delta-protocol.md "Delta Log Entries" (a log entry is never overwritten), design §2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from slackwater.errors import InvalidArgument, PathNotAllowed


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """One stored object: `path` relative to its store's root, size in bytes, last change in ms since the epoch."""

    path: str
    size_bytes: int
    modified_ms: int


class ObjectStore(Protocol):
    """Objects under one root, by paths relative to it.

    A path is '/'-separated and literal: percent-decoded by whoever took it from a log, never decoded here. A path with
    an empty or '.' segment or a NUL raises InvalidArgument, one with '..' PathNotAllowed. Every other failure is a
    StorageError: ObjectNotFound, ObjectExists, or the class itself where the store refused or failed.
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

    def open_file(self, path: str) -> Any:
        """A seekable pyarrow file over the object, to be closed by the caller. Raises ObjectNotFound."""
        ...

    def head(self, path: str) -> ObjectMeta | None:
        """The object's size and time, or None where there is no such object."""
        ...

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Create the object whole, or raise ObjectExists and change nothing. Of any number of writers one succeeds.

        ObjectExists may speak of the caller's own object, where a remote store repeated a request whose answer was
        lost. Any other StorageError leaves open whether the object was created. Who must know reads it back.
        """
        ...

    def put(self, path: str, data: bytes) -> None:
        """Create or replace the object; a reader sees the old bytes or the new ones, whole."""
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
