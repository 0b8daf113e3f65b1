"""Object store in memory, S3 and compatible stores, Google Cloud Storage, Azure and on web servers, by obstore."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

from slackwater.errors import (
    InvalidArgument,
    ObjectExists,
    ObjectNotFound,
    SlackwaterError,
    StorageError,
    StorageRefused,
)
from slackwater.optional_dependencies import missing_sentence
from slackwater.storage.conditional_puts import REMEDY, require_conditional_puts
from slackwater.storage.listing import list_below
from slackwater.storage.location import AZURE_SCHEMES, GCS_SCHEMES, MEMORY, S3_SCHEMES, Location
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
from slackwater.storage.store_errors import answer_of, is_panic

try:
    from obstore import exceptions
except ModuleNotFoundError as error:
    # The import is checked here because executors that receive a pickled store import this module first.
    raise InvalidArgument(missing_sentence("stores", "an object store", ["obstore"])) from error

_READERS = 32
_LIST_CHUNK = 1000
_UNSUPPORTED = (exceptions.NotSupportedError, NotImplementedError)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_AFTER_DIRECTORY = "/\U0010ffff"
_MOST_TRIES = 3
# Error code of S3 for a conditional put during another request for the same name.
_CONFLICT, _MOST_CONFLICTS, _CONFLICT_PAUSE_S = "ConditionalRequestConflict", 6, 0.05
_BROKEN_OFF = "request or response body error"
T = TypeVar("T")


class ObstoreStore:
    """An `ObjectStore` over one obstore backend, rooted at the bucket of `location`.

    `lookalike` is the endpoint of an S3-compatible store not owned by Amazon, '' for all other stores.
    """

    def __init__(
        self,
        backend: Any,
        location: Location,
        open_at: Callable[[str], tuple[ObjectStore, str]],
        lookalike: str = "",
    ) -> None:
        self._backend = backend
        self._location = location
        self._prefix = location.key + "/" if location.key else ""
        self._open_at = open_at
        self._lookalike = lookalike

    def __reduce__(self) -> tuple[Any, ...]:
        """Reopen the location in another process, with the same options, else with the environment of that process.

        Raises StorageRefused for a store in memory.
        """
        if self._location.scheme == MEMORY:
            raise StorageRefused(f"{self.root_url} is in the memory of one process, and other processes cannot read it")
        return _reopened, (self._open_at, self._location)

    @property
    def root_url(self) -> str:
        return self._location.url

    @property
    def local_root(self) -> None:
        return None

    def list_from(self, prefix: str, start_after: str = "", recursive: bool = False) -> list[ObjectMeta]:
        prefix = checked_prefix(prefix)
        directory = self._prefix + prefix + "/" if prefix else self._prefix
        # An absent directory lists as empty, so "not found" means an absent bucket.
        with self._explained("list", prefix, needs="bucket"):
            offset = self._prefix + start_after if start_after else ""
            metas = _unbroken(lambda: self._list(directory, offset, recursive))
        found = [_object_meta(meta, meta["path"][len(self._prefix) :]) for meta in metas]
        # Code points sort like their UTF-8 bytes.
        return sorted((meta for meta in found if meta.path > start_after), key=lambda meta: meta.path)

    def read(self, path: str) -> bytes:
        key = self._key(path)
        with self._explained("read", path):
            return _unbroken(lambda: bytes(self._backend.get(key).bytes()))

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        if self._location.scheme == MEMORY or len(paths) < 2:
            return [self.read(path) for path in paths]
        with ThreadPoolExecutor(min(_READERS, len(paths))) as pool:
            return list(pool.map(self.read, paths))

    def read_range(self, path: str, start: int, length: int) -> bytes:
        key = self._key(path)
        checked_range(start, length)
        with self._explained("read", path):
            try:
                if length:
                    return bytes(self._backend.get_range(key, start=start, length=length))
                self._backend.head(key)
            except exceptions.BaseError:
                # Stores reject a range starting at or after the object's end, each with a different error.
                if start < self._backend.head(key)["size"]:
                    raise
            return b""

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        if len(ranges) > 1 and all(length > 0 for _, length in ranges):
            starts, lengths = zip(*ranges, strict=True)
            # One range outside of the object fails the whole request, so the ranges are then read one by one.
            with self._explained("read", path), contextlib.suppress(exceptions.BaseError):
                return [
                    bytes(part) for part in self._backend.get_ranges(self._key(path), starts=starts, lengths=lengths)
                ]
        return [self.read_range(path, start, length) for start, length in ranges]

    def open_file(self, path: str, size_bytes: int | None = None) -> Any:
        return open_by_ranges(self, path, size_bytes)

    def head(self, path: str) -> ObjectMeta | None:
        key = self._key(path)
        with self._explained("head", path):
            try:
                return _object_meta(self._backend.head(key), path)
            except FileNotFoundError:
                return None

    def put_if_absent(self, path: str, data: bytes | ChunkedBytes, durable: bool = True) -> None:  # noqa: ARG002  (it always is)
        # A multipart upload cannot be conditional.
        self._put("create", path, bytes(data))

    def require_conditional_puts(self, directory: str) -> None:
        if self._lookalike:
            require_conditional_puts(self, directory, f"{self._lookalike}, bucket {self._location.authority}")

    def copy_if_absent(self, src: str, dst: str) -> None:
        # Not every store copies conditionally, but all stores for commits put conditionally.
        self.put_if_absent(dst, self.read(src))

    def put(self, path: str, data: bytes) -> None:
        self._put("overwrite", path, data)

    def put_file(self, path: str, local_file: str | os.PathLike[str]) -> None:
        key = self._key(path)
        with open_local(local_file) as source, self._explained("put", path, needs="bucket"):
            # A large file is uploaded in parts, joined by the store at the end, so a reader never sees half of it.
            self._backend.put(key, source)

    def delete(self, paths: Sequence[str]) -> None:
        keys = [self._key(path) for path in paths]
        if not keys:
            return
        with self._explained("delete", paths[0]):
            try:
                self._backend.delete(keys)
            except FileNotFoundError:
                # Some stores stop at the first missing object of a batch.
                with ThreadPoolExecutor(min(_READERS, len(keys))) as pool:
                    list(pool.map(self._delete_if_there, keys))

    def _delete_if_there(self, key: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._backend.delete(key)

    def move(self, src: str, dst: str) -> None:
        source, target = self._key(src), self._key(dst)
        with self._explained("move", src):
            self._backend.head(source)
        with self._explained("move to", dst):
            try:
                self._backend.rename(source, target, overwrite=False)
            except _UNSUPPORTED:
                if self.head(dst) is not None:
                    raise ObjectExists(f"move to {self._url(dst)}: it exists already") from None
                self._backend.rename(source, target, overwrite=True)

    def at(self, url: str) -> tuple[ObjectStore, str]:
        return self._open_at(url)

    def _key(self, path: str) -> str:
        return self._prefix + checked_path(path)

    def _put(self, mode: str, path: str, data: bytes) -> None:
        key = self._key(path)
        with self._explained(mode, path, needs="bucket"):
            for attempt in range(_MOST_CONFLICTS):
                try:
                    self._backend.put(key, data, mode=mode)
                except exceptions.AlreadyExistsError as error:
                    if answer_of(error).code != _CONFLICT:
                        raise
                    # Another request for this name was in progress and may have failed: S3 requires a retry.
                    time.sleep(_CONFLICT_PAUSE_S * 2**attempt)
                else:
                    return
            raise StorageError(
                f"{mode} {self._url(path)} failed: the store reported {_MOST_CONFLICTS} times that another request for "
                "this name is active. Whether it had an effect is unknown. Retry"
            )

    def _list(self, directory: str, start_after: str, recursive: bool) -> list[Any]:
        prefix = directory.removesuffix("/") or None
        if not recursive and start_after and self._lists_in_order():
            return self._list_level_from(prefix, directory, start_after)
        if recursive:
            if start_after or not self._lists_in_order():
                stream = self._backend.list(prefix, offset=start_after or None, chunk_size=_LIST_CHUNK)
                found = [meta for chunk in stream for meta in chunk]
            else:
                found = list_below(self._backend, prefix)
            return [meta for meta in found if meta["path"].startswith(directory)]
        return list(self._backend.list_with_delimiter(prefix)["objects"])

    def _list_level_from(self, prefix: str | None, directory: str, start_after: str) -> list[Any]:
        """List one level by offset. Each sub-directory of the recursive listing is skipped by a new request."""
        found: list[Any] = []
        offset: str | None = start_after
        while offset:
            behind = offset
            stream, offset = self._backend.list(prefix, offset=behind, chunk_size=_LIST_CHUNK), None
            for meta in (meta for chunk in stream for meta in chunk):
                if meta["path"] <= behind:
                    # Some S3-compatible stores ignore the offset, and without this check the loop would not end.
                    continue
                child, slash, _ = meta["path"][len(directory) :].partition("/")
                if slash:
                    offset = directory + child + _AFTER_DIRECTORY
                    break
                found.append(meta)
        return found

    def _lists_in_order(self) -> bool:
        # S3's directory buckets (`--x-s3`) list without order; Azure and web servers support no offset.
        scheme, bucket = self._location.scheme, self._location.authority
        return scheme in GCS_SCHEMES or scheme == MEMORY or (scheme in S3_SCHEMES and not bucket.endswith("--x-s3"))

    def _url(self, path: str) -> str:
        return f"{self.root_url}/{path}" if path else self.root_url

    def _not_found(self, operation: str, path: str) -> ObjectNotFound:
        return ObjectNotFound(f"{operation} {self._url(path)}: there is no such object (or no such bucket)")

    def _no_bucket(self, operation: str, path: str) -> StorageRefused:
        kind = "container" if self._location.scheme in AZURE_SCHEMES else "bucket"
        return StorageRefused(
            f"{operation} {self._url(path)} failed: the {kind} {self._location.origin} does not exist. Create it, or "
            "check its name"
        )

    @contextlib.contextmanager
    def _explained(self, operation: str, path: str, needs: str = "object") -> Iterator[None]:
        try:
            yield
        except SlackwaterError:
            raise
        except BaseException as error:
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            # Suppress the cause, because its text may contain signed URLs and tokens.
            raise self._told(operation, path, needs, error) from None

    def _told(self, operation: str, path: str, needs: str, error: BaseException) -> StorageError:
        url, answer = self._url(path), answer_of(error)
        if isinstance(error, exceptions.AlreadyExistsError):
            return ObjectExists(f"{operation} {url}: it exists already and was left as it is")
        is_missing = isinstance(error, FileNotFoundError) and answer.remedy is None
        if answer.names_no_bucket or (is_missing and needs == "bucket"):
            return self._no_bucket(operation, path)
        if is_missing:
            return self._not_found(operation, path)
        if isinstance(error, _UNSUPPORTED):
            return _without_condition(
                f"{operation} {url}", f"leave `aws_conditional_put` at `etag`, or {REMEDY}: {answer}"
            )
        if operation == "create" and answer.is_not_implemented:
            # A store that does not implement the request had no effect, also after retries.
            return _without_condition(f"{operation} {url}", f"{REMEDY} ({answer})")
        if answer.remedy is None:
            if answer.was_reached:
                return StorageError(f"{operation} {url} failed: {answer}")
            return StorageError(
                f"{operation} {url} failed, because the store is not reachable ({answer}). Check the endpoint and the "
                "network"
            )
        # An earlier attempt of a finally rejected request may have had an effect, like parts of a batch.
        kind = StorageError if answer.was_retried or operation == "delete" else StorageRefused
        return kind(f"{operation} {url} was denied: {answer.remedy} ({answer})")


def _unbroken(ask: Callable[[], T]) -> T:
    """Call `ask`, retrying if a response broke off. obstore retries by itself for whole objects only."""
    for _ in range(_MOST_TRIES - 1):
        try:
            return ask()
        except Exception as error:
            if _BROKEN_OFF not in str(error):
                raise
    return ask()


def _without_condition(what: str, remedy: str) -> StorageRefused:
    found = StorageRefused(
        f"{what} is not supported by this store, but commits need such a conditional put. Remedy: {remedy}"
    )
    found.knows_no_condition = True
    return found


def _reopened(open_at: Callable[[str], tuple[ObjectStore, str]], location: Location) -> ObstoreStore:
    bucket: Any = open_at(f"{location.url}/_")[0]
    return ObstoreStore(bucket._backend, location, open_at, bucket._lookalike)


def _object_meta(meta: Any, path: str) -> ObjectMeta:
    return ObjectMeta(path, meta["size"], (meta["last_modified"] - _EPOCH) // timedelta(milliseconds=1))
