"""Detection of S3-compatible stores without conditional puts, which commits require.

Some stores reject a conditional put. Writers serialized in another way can then put unconditionally. Other stores
accept `If-None-Match: *` but replace the object. Two commits of one version would then both succeed, and one of them
would be lost. Only a probe reveals such a store. Amazon's own endpoints honor the condition, and are not probed.
Source: S3 "Conditional writes".
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit, urlunsplit

from slackwater.errors import ObjectExists, StorageError, StorageRefused
from slackwater.storage.store import HIDDEN, ObjectStore

REMEDY = (
    "put the table into a lake (slackwater.Lake.open), whose owner serializes commits, or use a store with conditional "
    "puts"
)
"""Remedy for a store without conditional puts."""

_ENDPOINTS = ("aws_endpoint", "aws_endpoint_url", "aws_endpoint_url_s3", "endpoint", "endpoint_url", "endpoint_url_s3")
_AMAZON = (".amazonaws.com", ".amazonaws.com.cn", ".amazonaws.eu")
_MOST_PUTS = 4
# Buckets of S3-compatible stores whose probe succeeded in this process.
_proven: set[str] = set()


def custom_endpoint(options: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Return the non-Amazon S3 endpoints of `options` (keys in lower case), else of `environment`; '' if none."""
    # obstore decides which of several endpoints it uses, so one foreign endpoint is enough for a probe.
    parts = map(_parts, _endpoints(options, environment))
    return " ".join(_named(each) for each in parts if not is_amazons(each.hostname or ""))


def names_plain_http(options: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """Return whether an endpoint is an `http:` URL. Takes the arguments of `custom_endpoint`."""
    return any(endpoint.lower().startswith("http://") for endpoint in _endpoints(options, environment))


def _endpoints(options: Mapping[str, str], environment: Mapping[str, str]) -> list[str]:
    given = [options[name] for name in _ENDPOINTS if name in options]
    return given or [environment[name.upper()] for name in _ENDPOINTS if environment.get(name.upper())]


def require_conditional_puts(store: ObjectStore, directory: str, bucket: str) -> None:
    """Verify that the store honors the condition of a put. Probes once per process and `bucket`.

    The probe puts one name in `directory`, unread by readers of the log, repeatedly, then deletes the object. Raises
    StorageRefused if the store ignores the condition, StorageError if the probe has no result.
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
            f"the store at {bucket} ignores the condition of a put (If-None-Match: *) and replaces existing objects, "
            f"so concurrent writers would lose commits. Remedy: {REMEDY}"
        )
    _proven.add(bucket)


def put_assuming_single_writer(store: ObjectStore, path: str, data: bytes, durable: bool = True) -> None:
    """Create the object like `ObjectStore.put_if_absent`. Without conditional puts, check for the object, then put.

    For callers with other protection against concurrent writers: a unique name, equal bytes of every writer, or an
    owner that serializes writers. A writer missed by the check then loses nothing.
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
    """Copy like `ObjectStore.copy_if_absent`, for callers allowed to use `put_assuming_single_writer`."""
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
            # An earlier put of this loop created the object, because no other writer uses this name.
            return True
        except StorageRefused:
            raise
        except StorageError:
            # The put may or may not have had an effect, so the next attempt proves nothing by itself.
            if attempt == _MOST_PUTS:
                raise
        else:
            landed += 1
            if landed > 1:
                return False
    raise StorageError(
        f"{store.root_url}/{path}: the test whether the store obeys the condition of a put had no result. Retry"
    )


def _parts(url: str) -> SplitResult:
    return urlsplit(url if "//" in url else f"//{url}")


def _named(parts: SplitResult) -> str:
    """Return the URL for messages, without user name and password."""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))


def is_amazons(host: str) -> bool:
    """Return whether a host name is one of Amazon's endpoints."""
    return f".{host}".endswith(_AMAZON)
