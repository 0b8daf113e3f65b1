"""Object store on a Hadoop file system.

A commit must appear completely or not at all, and one of several writers must win. HDFS guarantees both by a rename
without replacement: bytes are written and synced under a hidden name, then renamed. Other file systems check the target
name before the rename. Between the two steps a concurrent commit could be lost, so this store creates nothing there.
Source: Hadoop's FileSystem specification, "rename"; delta-protocol.md "Delta Log Entries".
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError

from slackwater.errors import ObjectExists, ObjectNotFound, StorageError, StorageRefused
from slackwater.spark.hadoop.file_system import FAILURES, HadoopFileSystem
from slackwater.storage.local_store import LocalObjectStore, is_staged, staged_name
from slackwater.storage.location import HDFS, LOCAL, Location
from slackwater.storage.range_reader import open_by_ranges
from slackwater.storage.store import (
    ChunkedBytes,
    ObjectMeta,
    ObjectStore,
    checked_path,
    checked_prefix,
    checked_range,
    open_local,
)

_AT_ONCE = 8
_MISSING = ("java.io.FileNotFoundException", "org.apache.hadoop.fs.ParentNotDirectoryException")
_MOUNTS = "viewfs"
_EXISTS = "org.apache.hadoop.fs.FileAlreadyExistsException"
_BEHIND_THE_END = "java.io.EOFException"
# Errors raised by HDFS before any effect.
_WITHOUT_EFFECT = frozenset(
    {
        "org.apache.hadoop.fs.ParentNotDirectoryException",
        "org.apache.hadoop.hdfs.protocol.DSQuotaExceededException",
        "org.apache.hadoop.hdfs.protocol.NSQuotaExceededException",
        "org.apache.hadoop.hdfs.server.namenode.SafeModeException",
        "org.apache.hadoop.security.AccessControlException",
    }
)

FileSystems = Callable[[Location], HadoopFileSystem]
"""Returns the file system of a location."""


class HadoopStore:
    """An `ObjectStore` on a Hadoop file system, rooted at `location`."""

    def __init__(
        self, file_systems: FileSystems, location: Location, open_at: Callable[[str], tuple[ObjectStore, str]]
    ) -> None:
        self._file_systems = file_systems
        self._location = location
        self._files = file_systems(location)
        self._open_at = open_at
        self._directories: dict[str, Location] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        raise StorageRefused(
            f"{self.root_url} is reachable only through the JVM of Spark's driver, not from another process"
        )

    @property
    def root_url(self) -> str:
        return self._location.url

    @property
    def local_root(self) -> None:
        return None

    def list_from(self, prefix: str, start_after: str = "", recursive: bool = False) -> list[ObjectMeta]:
        prefix = checked_prefix(prefix)
        with self._explained("list", prefix):
            metas = [meta for meta in self._walk(prefix, recursive) if meta.path > start_after]
        # The order of code points equals the order of UTF-8 bytes.
        return sorted(metas, key=lambda meta: meta.path)

    def read(self, path: str) -> bytes:
        key = self._key(path)
        with self._explained("read", path):
            return self._files.read(key, 0, None)

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        if len(paths) < 2:
            return [self.read(path) for path in paths]
        with ThreadPoolExecutor(min(_AT_ONCE, len(paths))) as pool:
            return list(pool.map(self.read, paths))

    def read_range(self, path: str, start: int, length: int) -> bytes:
        key = self._key(path)
        checked_range(start, length)
        with self._explained("read", path):
            try:
                return self._files.read(key, start, length)
            except FAILURES as error:
                if _kind(error) != _BEHIND_THE_END:
                    raise
            return b""

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self.read_range(path, start, length) for start, length in ranges]

    def open_file(self, path: str, size_bytes: int | None = None) -> Any:
        return open_by_ranges(self, path, size_bytes)

    def head(self, path: str) -> ObjectMeta | None:
        key = self._key(path)
        with self._explained("head", path):
            try:
                found = self._files.status(key)
            except FAILURES as error:
                if _kind(error) in _MISSING:
                    return None
                raise
        return None if found.is_directory else ObjectMeta(path, found.size_bytes, found.modified_ms)

    def put_if_absent(self, path: str, data: bytes | ChunkedBytes, durable: bool = True) -> None:
        place, key = self._place("create", path)
        if isinstance(place, LocalObjectStore):
            with self._local("create", path):
                place.put_if_absent(key, data, durable)
            return
        if self.head(path) is not None:
            raise self._exists("create", path)
        with self._staged("create", path, place, key, lambda staged: place.create(staged, data, durable)) as staged:
            self._publish("create", path, lambda: place.rename(staged, key, replace=False))

    def require_conditional_puts(self, directory: str) -> None:
        """See `ObjectStore.require_conditional_puts`. Always passes, because supported renames never replace a file."""

    def copy_if_absent(self, src: str, dst: str) -> None:
        if self.head(src) is None:
            raise self._not_found("copy", src)
        (place, key), source = self._place("create", dst), self._place("copy", src)[1]
        if isinstance(place, LocalObjectStore):
            with self._local("create", dst):
                place.copy_if_absent(source, key)
            return
        with self._staged("create", dst, place, key, lambda staged: place.create_copy(staged, source)) as staged:
            self._publish("create", dst, lambda: place.rename(staged, key, replace=False))

    def put(self, path: str, data: bytes) -> None:
        self._replace(path, lambda place, key: place.put(key, data), data)

    def put_file(self, path: str, local_file: str | os.PathLike[str]) -> None:
        open_local(local_file).close()
        self._replace(path, lambda place, key: place.put_file(key, local_file), Path(local_file))

    def delete(self, paths: Sequence[str]) -> None:
        keys = [self._key(path) for path in paths]
        if not keys:
            return
        with self._explained("delete", paths[0]):
            if len(keys) == 1:
                self._delete(keys[0])
                return
            with ThreadPoolExecutor(min(_AT_ONCE, len(keys))) as pool:
                list(pool.map(self._delete, keys))

    def move(self, src: str, dst: str) -> None:
        (place, key), source = self._place("move to", dst), self._place("move", src)[1]
        if isinstance(place, LocalObjectStore):
            if self.head(src) is None:
                raise self._not_found("move", src)
            with self._local("move to", dst):
                place.move(source, key)
            return
        self._publish("move to", dst, lambda: self._rename(place, src, source, key))

    def at(self, url: str) -> tuple[ObjectStore, str]:
        return self._open_at(url)

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents. Raises StorageRefused."""
        key = self._key(path)
        with self._refusing("make the directory", path):
            self._files.make_directory(key)

    def remove_directory(self, path: str, recursive: bool = True) -> None:
        """Delete a directory, with its contents if `recursive`, otherwise only if empty.

        '' is the root. Raises StorageError.
        """
        prefix = checked_prefix(path)
        key = self._key(prefix) if prefix else self._location.key
        with self._explained("delete", prefix):
            self._files.delete(key, recursive)

    def is_directory(self, path: str) -> bool:
        """Return whether the directory exists. '' is the root."""
        prefix = checked_prefix(path)
        with self._explained("head", prefix):
            try:
                return self._files.status(self._key(prefix) if prefix else self._location.key).is_directory
            except FAILURES as error:
                if _kind(error) in _MISSING:
                    return False
                raise

    def _key(self, path: str) -> str:
        return _joined(self._location.key, checked_path(path))

    def _walk(self, prefix: str, recursive: bool) -> Iterator[ObjectMeta]:
        key = self._key(prefix) if prefix else self._location.key
        try:
            found = self._files.statuses(key)
        except FAILURES as error:
            if _kind(error) in _MISSING:
                return
            raise
        # A file lists itself as its only entry.
        if len(found) == 1 and prefix.rpartition("/")[2] == found[0].name and not self.is_directory(prefix):
            return
        for status in found:
            path = f"{prefix}/{status.name}" if prefix else status.name
            if not status.is_directory and not is_staged(status.name):
                yield ObjectMeta(path, status.size_bytes, status.modified_ms)
            elif status.is_directory and recursive:
                yield from self._walk(path, recursive)

    def _delete(self, key: str) -> None:
        try:
            self._files.delete(key)
        except FAILURES as error:
            if _kind(error) not in _MISSING:
                raise

    def _rename(self, place: HadoopFileSystem, src: str, source: str, key: str) -> None:
        """Rename first, and create the parent directory only after a failure, because the directory usually exists."""
        try:
            place.rename(source, key, replace=False)
        except FAILURES as error:
            if _kind(error) not in _MISSING:
                raise
            if self.head(src) is None:
                raise self._not_found("move", src) from error
            place.make_directory(key.rpartition("/")[0])
            place.rename(source, key, replace=False)

    def _place(self, operation: str, path: str) -> tuple[HadoopFileSystem | LocalObjectStore, str]:
        """Return the store for an atomic creation of `path`, and the path there. Raises StorageRefused without one."""
        directory, _, name = self._key(path).rpartition("/")
        found = self._behind_mounts(operation, path, directory)
        key = _joined(found.key, name)
        if found.scheme == LOCAL:
            return LocalObjectStore(Location(LOCAL, "", ""), self._open_at), key
        if found.scheme == HDFS:
            return self._file_systems(found), key
        raise StorageRefused(
            f"{operation} {self._url(path)} is not supported, nothing was changed: {found.scheme}:// has no known "
            "atomic rename that never replaces a file. Tables there can be read. Write tables on HDFS or in an object "
            "store"
        )

    def _behind_mounts(self, operation: str, path: str, directory: str) -> Location:
        """Return the location of a directory, resolved if this file system is a view of mounts."""
        if self._location.scheme != _MOUNTS:
            return Location(self._location.scheme, self._location.authority, directory)
        if directory not in self._directories:
            with self._refusing(operation, path):
                self._directories[directory] = self._resolved(directory)
        return self._directories[directory]

    def _resolved(self, directory: str) -> Location:
        """Resolve `directory` through its nearest existing ancestor."""
        below = ""
        while True:
            try:
                found = self._files.resolved(directory)
            except FAILURES as error:
                if _kind(error) not in _MISSING or not directory:
                    raise
                directory, _, name = directory.rpartition("/")
                below = _joined(name, below)
            else:
                return Location(found.scheme, found.authority, _joined(found.key, below))

    @contextlib.contextmanager
    def _staged(
        self, operation: str, path: str, place: HadoopFileSystem, key: str, create: Callable[[str], None]
    ) -> Iterator[str]:
        """Write the bytes to a hidden file beside the target. A failure changes nothing visible."""
        staged = _joined(key.rpartition("/")[0], staged_name())
        try:
            with self._refusing(operation, path):
                create(staged)
            yield staged
        except BaseException:
            with contextlib.suppress(*FAILURES):
                place.delete(staged)
            raise

    def _publish(self, operation: str, path: str, rename: Callable[[], None]) -> None:
        try:
            rename()
        except StorageError:
            raise
        except FAILURES as error:
            if _kind(error) == _EXISTS:
                raise self._exists(operation, path) from error
            if _kind(error) in _WITHOUT_EFFECT:
                raise self._refused(operation, path, error) from error
            # Unknown outcome, even if the staged file is missing: HDFS reports this for a repeated, successful rename.
            raise StorageError(f"{operation} {self._url(path)} failed: {_message(error)}") from error

    def _replace(self, path: str, locally: Callable[[LocalObjectStore, str], None], data: bytes | Path) -> None:
        place, key = self._place("put", path)
        if isinstance(place, LocalObjectStore):
            with self._local("put", path):
                locally(place, key)
            return
        with self._staged("put", path, place, key, lambda staged: place.create(staged, data, durable=True)) as staged:
            self._publish("put", path, lambda: place.rename(staged, key, replace=True))

    @contextlib.contextmanager
    def _local(self, operation: str, path: str) -> Iterator[None]:
        """Add the requested path to errors of a local disk below a mount point."""
        try:
            yield
        except StorageError as error:
            raise type(error)(f"{operation} {self._url(path)}: {error}") from error

    @contextlib.contextmanager
    def _explained(self, operation: str, path: str) -> Iterator[None]:
        try:
            yield
        except StorageError:
            raise
        except FAILURES as error:
            if _kind(error) in _MISSING:
                raise self._not_found(operation, path) from error
            if _kind(error) in _WITHOUT_EFFECT:
                raise self._refused(operation, path, error) from error
            raise StorageError(f"{operation} {self._url(path)} failed: {_message(error)}") from error

    @contextlib.contextmanager
    def _refusing(self, operation: str, path: str) -> Iterator[None]:
        """Convert failures to StorageRefused, because the block has no visible effect."""
        try:
            yield
        except StorageError:
            raise
        except FAILURES as error:
            raise self._refused(operation, path, error) from error

    def _refused(self, operation: str, path: str, error: Exception) -> StorageRefused:
        return StorageRefused(
            f"{operation} {self._url(path)} failed, nothing was changed: {_message(error)}. Check the file system, "
            "its quotas and your permissions there"
        )

    def _exists(self, operation: str, path: str) -> ObjectExists:
        return ObjectExists(f"{operation} {self._url(path)}: it exists already and was left as it is")

    def _not_found(self, operation: str, path: str) -> ObjectNotFound:
        return ObjectNotFound(f"{operation} {self._url(path)}: there is no such object")

    def _url(self, path: str) -> str:
        return f"{self.root_url}/{path}" if path else self.root_url


def _joined(directory: str, path: str) -> str:
    return "/".join(part for part in (directory, path) if part)


def _kind(error: Exception) -> str:
    """Return the class name of the Java exception, '' if unknown."""
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.getClass().getName())
    return ""


def _message(error: Exception) -> str:
    """Return the first line of the error, without the stack trace."""
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.toString()).partition("\n")[0]
    return str(error).partition("\n")[0]
