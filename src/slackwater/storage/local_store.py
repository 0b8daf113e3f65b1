"""Object store on a local disk, by system calls.

obstore's local store is not used for several reasons. It rejects names with control characters or with '#' and digits
at the end, and omits the latter from listings. It does not sync to disk, and reads small files slower than `open`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import uuid
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import pyarrow as pa

from slackwater.errors import ObjectExists, ObjectNotFound, StorageError, StorageRefused
from slackwater.storage.location import Location
from slackwater.storage.store import (
    HIDDEN,
    ChunkedBytes,
    ObjectMeta,
    ObjectStore,
    checked_path,
    checked_prefix,
    checked_range,
    open_local,
)

_STAGED_SUFFIX = ".tmp"
_COPY_BYTES = 1 << 20
_READ_ONLY = os.O_RDONLY | getattr(os, "O_BINARY", 0)
_MOST_DIRECTORIES = 20
T = TypeVar("T")

# Errors of the system before any effect, and the remedy for each.
_REMEDIES = {
    errno.EACCES: "check the permissions of the file and of its directories",
    errno.EPERM: "check that the file system allows it (creating an object needs hard links)",
    errno.EOPNOTSUPP: "creating an object needs a file system with hard links",
    errno.EROFS: "the file system is mounted read-only",
    errno.ENOSPC: "free space on the disk",
    errno.EDQUOT: "raise the disk quota",
}


class LocalObjectStore:
    """An `ObjectStore` on a local disk. Names are literal, and data is synced before it becomes visible.

    Recursive listings do not follow symbolic links to directories.
    """

    def __init__(self, location: Location, open_at: Callable[[str], tuple[ObjectStore, str]]) -> None:
        self._root = Path("/" + location.key)
        self._root_url = location.url
        self._open_at = open_at

    @property
    def root_url(self) -> str:
        return self._root_url

    @property
    def local_root(self) -> str:
        return str(self._root)

    def list_from(self, prefix: str, start_after: str = "", recursive: bool = False) -> list[ObjectMeta]:
        prefix = checked_prefix(prefix)
        with self._explained("list", prefix):
            metas = [
                ObjectMeta(path, found.st_size, found.st_mtime_ns // 1_000_000)
                for path, found in _walk(self._root / prefix, prefix + "/" if prefix else "", start_after, recursive)
            ]
        # Code points sort like their UTF-8 bytes.
        return sorted(metas, key=lambda meta: meta.path)

    def read(self, path: str) -> bytes:
        # Paths are strings and errors are translated late, because for many small files both cost more than the read.
        try:
            return _content(f"{self._root}/{checked_path(path)}")
        except OSError as error:
            with self._explained("read", path):
                raise error from None

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        return [self.read(path) for path in paths]

    def read_range(self, path: str, start: int, length: int) -> bytes:
        checked_range(start, length)
        with self._explained("read", path), _opened(self._os_path(path)) as file:
            file.seek(start)
            # read() allocates the requested length, and a corrupt log can request any length.
            return file.read(min(length, max(0, os.fstat(file.fileno()).st_size - start)))

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self.read_range(path, start, length) for start, length in ranges]

    def open_file(self, path: str, size_bytes: int | None = None) -> Any:  # noqa: ARG002  (the disk knows it)
        with self._explained("open", path):
            target = self._os_path(path)
            _require_regular(target.stat())
            # No memory map, because mapped pages of a large checkpoint would count as memory of this process.
            return pa.OSFile(str(target))

    def head(self, path: str) -> ObjectMeta | None:
        target = self._os_path(path)
        with self._explained("head", path):
            try:
                found = target.stat()
            except (FileNotFoundError, NotADirectoryError):
                return None
            if not stat.S_ISREG(found.st_mode):
                return None
        return ObjectMeta(path, found.st_size, found.st_mtime_ns // 1_000_000)

    def put_if_absent(self, path: str, data: bytes | ChunkedBytes, durable: bool = True) -> None:
        target = self._os_path(path)
        with self._explained("create", path):
            if os.path.lexists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        staged = self._staged("create", path, data, durable)
        with self._explained("create", path):
            try:
                _link(staged, target)
            finally:
                _discard(staged)
        if durable:
            _sync_directory(target.parent)

    def require_conditional_puts(self, directory: str) -> None:
        """Do nothing, because a hard link never replaces a file."""

    def copy_if_absent(self, src: str, dst: str) -> None:
        source, target = self._os_path(src), self._os_path(dst)
        with self._explained("copy", src):
            source.stat()
        with self._explained("create", dst):
            _make_directory(target.parent)
            # `src` was synced by its put.
            os.link(source, target)
        _sync_directory(target.parent)

    def put(self, path: str, data: bytes) -> None:
        self._replace(path, self._staged("put", path, data))

    def put_file(self, path: str, local_file: str | os.PathLike[str]) -> None:
        """See `ObjectStore.put_file`. A file with a staged name in the store is moved instead of copied."""
        file = Path(local_file)
        if is_staged(file.name) and self._root in file.parents and self._is_moved(file, path):
            return
        with open_local(file) as source:
            staged = self._staged("put", path, source)
        self._replace(path, staged)

    def _is_moved(self, file: Path, path: str) -> bool:
        """Sync the file and move it. Return False if the directory of the object is on another file system."""
        target = self._os_path(path)
        with self._explained("put", path):
            # Some network file systems sync only what may be written.
            _sync(file, os.O_RDWR)
            try:
                _in_its_directory(target, lambda: file.replace(target))
            except OSError as error:
                if error.errno == errno.EXDEV:
                    return False
                raise
        _sync_directory(target.parent)
        return True

    def delete(self, paths: Sequence[str]) -> None:
        # Paths are strings, because pathlib objects for many files cost as much as the deletes.
        for path in paths:
            target = f"{self._root}/{checked_path(path)}"
            try:
                os.unlink(target)  # noqa: PTH108
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                with self._explained("delete", path):
                    raise error from None

    def move(self, src: str, dst: str) -> None:
        source, target = self._os_path(src), self._os_path(dst)
        with self._explained("move", src):
            source.stat()
        with self._explained("move to", dst):
            _in_its_directory(target, lambda: _link(source, target))
            source.unlink()

    def at(self, url: str) -> tuple[ObjectStore, str]:
        return self._open_at(url)

    def _os_path(self, path: str) -> Path:
        return self._root / checked_path(path)

    def _staged(self, operation: str, path: str, data: bytes | ChunkedBytes | BinaryIO, durable: bool = True) -> Path:
        """Write the bytes to an unlisted temporary file next to the target. Raises StorageRefused."""
        try:
            return _stage(self._os_path(path), data, durable)
        except OSError as error:
            raise _refused(f"{operation} {self._root_url}/{path}", error) from error

    def _replace(self, path: str, staged: Path) -> None:
        target = self._os_path(path)
        with self._explained("put", path):
            try:
                staged.replace(target)
            except OSError:
                _discard(staged)
                raise
        _sync_directory(target.parent)

    @contextlib.contextmanager
    def _explained(self, operation: str, path: str) -> Iterator[None]:
        url = f"{self._root_url}/{path}" if path else self._root_url
        try:
            yield
        except FileExistsError as error:
            raise ObjectExists(f"{operation} {url}: it exists already and was left as it is") from error
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            raise ObjectNotFound(f"{operation} {url}: there is no such object") from error
        except OSError as error:
            if error.errno in _REMEDIES:
                raise _refused(f"{operation} {url}", error) from error
            raise StorageError(f"{operation} {url} failed: {error}") from error


def _walk(directory: Path, prefix: str, start_after: str, recursive: bool) -> Iterator[tuple[str, os.stat_result]]:
    try:
        entries = os.scandir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return
    with entries:
        for entry in entries:
            path = prefix + entry.name
            if entry.is_dir():
                if recursive and not entry.is_symlink():
                    yield from _walk(directory / entry.name, path + "/", start_after, recursive)
            elif path > start_after and not is_staged(entry.name):
                # A file deleted since its directory entry was read is not listed.
                with contextlib.suppress(FileNotFoundError):
                    yield path, entry.stat()


def _content(target: str) -> bytes:
    """Return the bytes of the regular file at `target`. Raises OSError, also for a pipe.

    Uses system calls, because for a small file a Python file object doubles the time.
    """
    descriptor = _open_without_waiting(target, _READ_ONLY)
    try:
        found = os.fstat(descriptor)
        _require_regular(found)
        # One more byte than expected: fewer bytes than requested mean the end of the file.
        data = os.read(descriptor, found.st_size + 1)
        if len(data) == found.st_size:
            return data
        chunks = [data]
        while data:
            data = os.read(descriptor, _COPY_BYTES)
            chunks.append(data)
        return b"".join(chunks)
    finally:
        os.close(descriptor)


def _opened(target: str | Path) -> BinaryIO:
    """Open the regular file at `target`. Raises OSError, also for a pipe, because an open of a pipe may block."""
    # The caller closes the file.
    file: BinaryIO = open(target, "rb", opener=_open_without_waiting)  # noqa: SIM115
    try:
        _require_regular(os.fstat(file.fileno()))
    except BaseException:
        file.close()
        raise
    return file


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _require_regular(found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file but a pipe, a socket or a device, and is not read")


def staged_name() -> str:
    """Return a unique name for bytes not yet visible as an object. No listing contains the name."""
    return f"{HIDDEN}{uuid.uuid4().hex}{_STAGED_SUFFIX}"


def is_staged(name: str) -> bool:
    """Return whether a file name has the form of `staged_name`."""
    return name.startswith(HIDDEN) and name.endswith(_STAGED_SUFFIX)


def _refused(what: str, error: OSError) -> StorageRefused:
    """Return the error with the system's message only, because `error` itself may name temporary files."""
    remedy = _REMEDIES.get(error.errno or 0)
    if remedy is None or error.errno is None:
        return StorageRefused(f"{what} failed: {error}")
    return StorageRefused(f"{what} failed: {os.strerror(error.errno)}; {remedy}")


def _stage(target: Path, data: bytes | ChunkedBytes | BinaryIO, durable: bool) -> Path:
    staged = target.with_name(staged_name())
    pieces = iter(data) if isinstance(data, ChunkedBytes) else iter(())
    # Compute the first chunk before the directory is created: if this fails, no directory is left.
    first = next(pieces, b"")
    try:
        with _in_its_directory(staged, lambda: staged.open("xb")) as file:
            if isinstance(data, bytes):
                file.write(data)
            elif isinstance(data, ChunkedBytes):
                file.writelines(chain([first], pieces))
            else:
                shutil.copyfileobj(data, file, _COPY_BYTES)
            if durable:
                file.flush()
                # A link is not ordered after its data: without a sync, a power failure can leave an empty commit.
                os.fsync(file.fileno())
    except BaseException:
        _discard(staged)
        raise
    return staged


def _in_its_directory(target: Path, create: Callable[[], T]) -> T:
    """Call `create` in the directory of `target`, created if missing. Retry after a concurrent VACUUM deletes it."""
    for _ in range(_MOST_DIRECTORIES):
        _make_directory(target.parent)
        with contextlib.suppress(FileNotFoundError):
            return create()
    _make_directory(target.parent)
    return create()


def _make_directory(directory: Path) -> None:
    """Create the directory and its parents. Sync each into its parent, so that its files survive a power failure."""
    if directory.is_dir():
        return
    if directory.parent != directory:
        _make_directory(directory.parent)
    with contextlib.suppress(FileNotFoundError):
        # The parent may be deleted again by a concurrent VACUUM. Callers retry if they need the directory.
        directory.mkdir(exist_ok=True)
    _sync_directory(directory.parent)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileExistsError:
        # NFS reports this error for the repeat of a successful request: then both names are one file.
        if source == target or not os.path.samestat(source.lstat(), target.lstat()):
            raise


def _discard(staged: Path) -> None:
    with contextlib.suppress(OSError):
        staged.unlink()


def _sync_directory(directory: Path) -> None:
    # The object is visible now, so an error here must not make the call look failed.
    with contextlib.suppress(OSError):
        _sync(directory, os.O_RDONLY)


def _sync(place: Path, flags: int) -> None:
    descriptor = os.open(place, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
