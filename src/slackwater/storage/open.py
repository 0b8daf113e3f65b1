"""Opens the store of a table's path or URL."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from slackwater.errors import InvalidArgument, StorageError, UnsupportedFeature
from slackwater.storage.conditional_puts import custom_endpoint, names_plain_http
from slackwater.storage.local_store import LocalObjectStore
from slackwater.storage.location import (
    AZURE_SCHEMES,
    GCS_SCHEMES,
    LOCAL,
    MEMORY,
    S3_SCHEMES,
    Location,
    is_on_hadoop,
    parse_location,
)
from slackwater.storage.store import ObjectStore

_S3_PREFIX = "aws_"
_PROVIDER_PREFIXES = (_S3_PREFIX, "google_", "azure_")
_CLIENT_FLAGS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "http1_only",
        "http2_only",
        "http2_keep_alive_while_idle",
        "randomize_addresses",
    }
)
_CLIENT_KEYS = _CLIENT_FLAGS | {
    "connect_timeout",
    "default_content_type",
    "http2_keep_alive_interval",
    "http2_keep_alive_timeout",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_url",
    "proxy_ca_certificate",
    "proxy_excludes",
    "read_timeout",
    "root_certificate",
    "timeout",
    "user_agent",
}
# deltalake's permission to commit without a conditional put has no effect, because commits here are always conditional.
_WITHOUT_EFFECT = frozenset({"aws_s3_allow_unsafe_rename", "allow_unsafe_rename", "mount_allow_unsafe_rename"})
_CLOUD_HOSTS = {
    ".amazonaws.com": "s3://<bucket>/<path>",
    ".r2.cloudflarestorage.com": "s3://<bucket>/<path> with AWS_ENDPOINT_URL",
    ".core.windows.net": "abfss://<container>@<account>.dfs.core.windows.net/<path>",
    ".fabric.microsoft.com": "abfss://<workspace>@onelake.dfs.fabric.microsoft.com/<path>",
}

HadoopOpener: TypeAlias = Callable[[Location, Callable[[str], tuple[ObjectStore, str]]], ObjectStore]
"""Opens the store of a location on a Hadoop file system. The second argument opens any other URL."""

_hadoop: HadoopOpener | None = None
_memory_stores: dict[str, Any] = {}
_memory_lock = threading.Lock()


def open_hadoop_with(opener: HadoopOpener) -> None:
    """Use `opener` for stores on Hadoop file systems in this process from now on."""
    global _hadoop  # noqa: PLW0603  (as the one JVM of the process)
    _hadoop = opener


def open_store(table: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> ObjectStore:
    """Open the store rooted at `table`: a local path, or a `file:`, `memory:`, S3, GCS, Azure or HTTP(S) URL.

    Also opens URLs of `hdfs:` and other Hadoop file systems, after a classic Spark session of this process has used the
    scheme.

    `storage_options` are object_store's keys (`AWS_ENDPOINT_URL`, `aws_region`, `timeout` …) in any case. Keys of
    another provider are ignored, and missing keys come from the environment. `memory://name` is one store per process.
    No request is sent yet.

    Raises:
        InvalidArgument: If the scheme or an option is unknown, or if obstore is not installed for a location other than
            a
            local one.
        UnsupportedFeature: If this process does not reach the Hadoop file system.
        StorageError: If obstore cannot be configured.
    """
    return _Opener(storage_options or {}).open(parse_location(table))


@functools.cache
def _opener(options: tuple[tuple[str, str], ...]) -> _Opener:
    """Return the process-wide opener of these options, so that later tasks reuse its connections."""
    return _Opener(dict(options))


def _on_hadoop(location: Location, open_at: Callable[[str], tuple[ObjectStore, str]]) -> ObjectStore:
    if _hadoop is None:
        raise UnsupportedFeature(
            f"{location.url}: files on {location.scheme}:// and other Hadoop file systems need the JVM of a classic "
            "Spark session. Open the table in such a session, as by spark.read.format('delta').load(...)"
        )
    return _hadoop(location, open_at)


class _Opener:
    """Opens stores with one set of credentials. Stores of one bucket share a connection pool."""

    def __init__(self, storage_options: Mapping[str, str]) -> None:
        if not isinstance(storage_options, Mapping):
            raise InvalidArgument(
                f"storage_options must be a dict from names to strings, found {type(storage_options).__name__}"
            )
        self._options = {key.lower(): str(value) for key, value in storage_options.items()}
        self._backends: dict[str, Any] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return _opener, (tuple(sorted(self._options.items())),)

    def open(self, location: Location) -> ObjectStore:
        if location.scheme == LOCAL:
            return LocalObjectStore(location, self.at)
        if is_on_hadoop(location.scheme):
            return _on_hadoop(location, self.at)
        # Load obstore here because local and Hadoop stores do not need it.
        from slackwater.storage.obstore_store import ObstoreStore

        with self._lock:
            if location.origin not in self._backends:
                self._backends[location.origin] = self._backend(location)
            foreign = custom_endpoint(self._options, os.environ) if location.scheme in S3_SCHEMES else ""
            return ObstoreStore(self._backends[location.origin], location, self.at, foreign)

    def at(self, url: str) -> tuple[ObjectStore, str]:
        if not url.startswith("/") and ":/" not in url:
            raise InvalidArgument(f"expected an absolute path or a URL, found {url!r}")
        location = parse_location(url)
        if not location.key:
            raise InvalidArgument(f"expected the URL of an object, found {url!r}, which names a whole store")
        return self.open(Location(location.scheme, location.authority, "")), location.key

    def _backend(self, location: Location) -> Any:
        from obstore import exceptions
        from obstore import store as backends

        if location.scheme == MEMORY:
            with _memory_lock:
                return _memory_stores.setdefault(location.authority, backends.MemoryStore())
        try:
            return self._remote_backend(location)
        except InvalidArgument:
            raise
        except exceptions.UnknownConfigurationKeyError as error:
            raise InvalidArgument(f"{location.origin} does not know a storage option: {error}") from error
        except (exceptions.BaseError, OSError, ValueError) as error:
            raise StorageError(f"open {location.url} failed ({error}). Check the storage options") from error

    def _remote_backend(self, location: Location) -> Any:
        from obstore import store as backends

        if location.scheme in S3_SCHEMES:
            config, client = self._split(_S3_PREFIX)
            return backends.S3Store(location.authority, config=config, client_options=client)
        if location.scheme in GCS_SCHEMES:
            config, client = self._split("google_")
            return backends.GCSStore(location.authority, config=config, client_options=client)
        if location.scheme in AZURE_SCHEMES:
            config, client = self._split("azure_")
            return backends.AzureStore.from_url(location.origin, config=config, client_options=client)
        host = location.authority.partition(":")[0].lower()
        for suffix, form in _CLOUD_HOSTS.items():
            if host.endswith(suffix):
                raise InvalidArgument(f"{location.origin} is a cloud store. Name the table as {form}")
        return backends.HTTPStore.from_url(location.origin, client_options=self._split("")[1])

    def _split(self, own: str) -> tuple[Any, Any]:
        """Split the options into those of the provider and those of the HTTP client, for separate obstore arguments."""
        config: dict[str, str] = {}
        client: dict[str, Any] = {}
        # Client options passed as an argument replace all those that obstore takes from the environment.
        environment = {
            key.lower(): value
            for key, value in os.environ.items()
            if own and key.lower().startswith(own) and key.lower().removeprefix(own) in _CLIENT_KEYS
        }
        for key, value in {**environment, **self._options}.items():
            provider = next((prefix for prefix in _PROVIDER_PREFIXES if key.startswith(prefix)), own)
            bare = key.removeprefix(provider)
            if provider != own or key in _WITHOUT_EFFECT:
                continue
            if bare in _CLIENT_KEYS:
                client[bare] = value.lower() in ("true", "1", "yes", "on") if bare in _CLIENT_FLAGS else value
            else:
                config[key] = value
        if own == _S3_PREFIX and names_plain_http(self._options, os.environ):
            client.setdefault("allow_http", True)
        return config, client
