"""Look-alikes of S3 that do not know the condition of a put, on which commits rest.

Some refuse such a put: then writers that somebody else serializes can do without. Some take `If-None-Match: *`, say
nothing, and replace what is there: of two commits of one version both are then told that they landed, and one is lost.
Only a try tells. Amazon's own endpoints are known to keep the condition, and are not asked. Source: S3 "Conditional
writes".
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit, urlunsplit

from slackwater.errors import ObjectExists, StorageError, StorageRefused
from slackwater.storage.store import HIDDEN, ObjectStore

REMEDY = (
    "make the table one of a lake (slackwater.Lake.open), whose owner serializes commits, or use a store that knows "
    "conditional puts"
)
"""What to do where a store does not keep the condition of a put."""

_ENDPOINTS = ("aws_endpoint", "aws_endpoint_url", "aws_endpoint_url_s3", "endpoint", "endpoint_url", "endpoint_url_s3")
_AMAZON = (".amazonaws.com", ".amazonaws.com.cn", ".amazonaws.eu")
_MOST_PUTS = 4
# Of this process: the look-alikes' buckets that were tried and kept it.
_proven: set[str] = set()


def custom_endpoint(options: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """The endpoint of S3 that `options`, in lower case, or else the `environment` names; '' where it is Amazon's."""
    # Which of several counts is obstore's to know: one that is not Amazon's is enough to ask.
    parts = map(_parts, _endpoints(options, environment))
    return " ".join(_named(each) for each in parts if not is_amazons(each.hostname or ""))


def names_plain_http(options: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """Return whether the endpoint is an `http:` URL. Arguments as of `custom_endpoint`."""
    return any(endpoint.lower().startswith("http://") for endpoint in _endpoints(options, environment))


def _endpoints(options: Mapping[str, str], environment: Mapping[str, str]) -> list[str]:
    given = [options[name] for name in _ENDPOINTS if name in options]
    return given or [environment[name.upper()] for name in _ENDPOINTS if environment.get(name.upper())]


def require_conditional_puts(store: ObjectStore, directory: str, bucket: str) -> None:
    """Let pass a store that keeps the condition of a put; it is tried once per process and `bucket`.

    Two puts of one name in `directory`, which no reader of a log looks at; the object is deleted again. Raises
    StorageRefused where the condition is ignored, StorageError where the store does not tell.
    """
    if bucket in _proven:
        return
    path = f"{directory}/{HIDDEN}{uuid.uuid4().hex}.probe"
    try:
        is_kept = _keeps(store, path)
    finally:
        with contextlib.suppress(StorageError):
            store.delete([path])
    if not is_kept:
        raise StorageRefused(
            f"the store at {bucket} ignores the condition of a put (If-None-Match: *) and replaces what is there, so "
            f"that writers beside each other would lose commits: {REMEDY}"
        )
    _proven.add(bucket)


def put_assuming_single_writer(store: ObjectStore, path: str, data: bytes, durable: bool = True) -> None:
    """As `ObjectStore.put_if_absent`, also in a store that knows no condition: there it looks before it puts.

    For callers that something else keeps apart: no other writer uses the name, every writer puts the same bytes, or an
    owner says whose turn it is. So whatever the look did not see is no loss.
    """
    try:
        store.put_if_absent(path, data, durable)
    except StorageRefused as error:
        if not error.knows_no_condition:
            raise
        if store.head(path) is not None:
            raise ObjectExists(f"create {store.root_url}/{path}: it exists already and was left as it is") from None
        store.put(path, data)


def copy_assuming_single_writer(store: ObjectStore, src: str, dst: str) -> None:
    """As `ObjectStore.copy_if_absent`, where `put_assuming_single_writer` may put."""
    try:
        store.copy_if_absent(src, dst)
    except StorageRefused as error:
        if not error.knows_no_condition:
            raise
        put_assuming_single_writer(store, dst, store.read(src))


def _keeps(store: ObjectStore, path: str) -> bool:
    landed = 0
    for attempt in range(1, _MOST_PUTS + 1):
        try:
            store.put_if_absent(path, b"")
        except ObjectExists:
            # Of our own, whichever of the requests it was: no other writer uses this name.
            return True
        except StorageRefused:
            raise
        except StorageError:
            # It may have landed or not, which tells nothing of the next one.
            if attempt == _MOST_PUTS:
                raise
        else:
            landed += 1
            if landed > 1:
                return False
    raise StorageError(f"{store.root_url}/{path}: whether the store keeps the condition of a put could not be seen")


def _parts(url: str) -> SplitResult:
    return urlsplit(url if "//" in url else f"//{url}")


def _named(parts: SplitResult) -> str:
    """The URL for messages, without the name and the password of a user."""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))


def is_amazons(host: str) -> bool:
    """Return whether a host name is one of Amazon's endpoints."""
    return f".{host}".endswith(_AMAZON)
