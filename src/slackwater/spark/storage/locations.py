"""Spark's names of a table's files: the paths for readers, and the URLs in `_metadata.file_path`."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from slackwater.errors import StorageError
from slackwater.protocol.actions.paths import are_plain, is_absolute
from slackwater.storage.location import BUCKET_SCHEMES, scheme_of
from slackwater.storage.path_guard import resolve_file, resolve_files
from slackwater.storage.store import ObjectMeta, ObjectStore
from slackwater.storage.webhdfs_server import WebHdfs

# Characters left unchanged by java.net.URI in a path, after RFC 2396.
_URI_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/-_.!~*'():@&=+$,;")
_VERIFIED = "_slackwater_urls_verified"
_ESCAPED_GLOB = str.maketrans({c: f"\\{c}" for c in "{}[]*?\\"})
_HADOOP_SCHEMES = {"s3": "s3a", "s3n": "s3a", "abfs": "abfss"}

# For vectored reads, Hadoop's WebHDFS client sends a new request after each chunk of a range.
_SERVED = {"parquet.hadoop.vectored.io.enabled": "false"}


class DataLocations:
    """The data files of one table: converts paths in the log to paths for Spark.

    The paths go through `served` if `served` serves the store.
    """

    def __init__(self, store: ObjectStore, allow_outside_root: bool = False, served: WebHdfs | None = None) -> None:
        self.store = store
        self._allow_outside_root = allow_outside_root
        self._served = served
        if store.local_root is not None:
            self.root = store.local_root
        elif served is not None:
            self.root = served.root(store)
        else:
            self.root = as_hadoop_names(unquote(store.root_url))

    @property
    def is_local(self) -> bool:
        """True if Spark reads the files from this machine's disk."""
        return self.store.local_root is not None

    @property
    def reading(self) -> dict[str, str]:
        """Options of Spark's reader for the files."""
        return _SERVED if self._served is not None else {}

    def know(self, meta: ObjectMeta) -> None:
        """Pass the store's metadata of a file to the server of the files, if there is one."""
        if self._served is not None:
            self._served.pin_status(self.root, meta)

    def relative(self, path: str) -> str:
        """Return the decoded path of a file action, relative to the root, or absolute outside it.

        Raises PathNotAllowed.
        """
        return resolve_file(self.store, path, self._allow_outside_root)

    def relatives(self, paths: Sequence[str]) -> list[str]:
        """Return `relative` of each of `paths`."""
        return resolve_files(self.store, paths, self._allow_outside_root)

    def spark_paths(self, relatives: Sequence[str]) -> list[str]:
        """Return `spark_path` of each of `relatives`."""
        if not are_plain(relatives):
            return [self.spark_path(relative) for relative in relatives]
        root = self.root.translate(_ESCAPED_GLOB)
        return [f"{root}/{relative}" for relative in relatives]

    def unreadable(self, relatives: Sequence[str]) -> str | None:
        """Return a file that Hadoop cannot open because of a colon in an escaped path, None if there is none."""
        if are_plain(relatives) and _can_be_opened(self.root):
            return None
        return next((place for place in map(self.place, relatives) if not _can_be_opened(place)), None)

    def metadata_urls(self, relatives: Sequence[str]) -> list[str]:
        """Return `metadata_url` of each of `relatives`."""
        if not are_plain(relatives):
            return [self.metadata_url(relative) for relative in relatives]
        root = self._url(self.root)
        return [f"{root}/{relative}" for relative in relatives]

    def spark_path(self, relative: str) -> str:
        """Return the path for Spark's readers, with glob characters escaped."""
        return escaped_path(self.place(relative))

    def metadata_url(self, relative: str) -> str:
        """Return `_metadata.file_path` of the file's rows: percent-encoded, `file:/…` on a local disk."""
        return self._url(self.place(relative))

    def place(self, relative: str) -> str:
        """Return the literal path of a file."""
        if not is_absolute(relative):
            return f"{self.root}/{relative}"
        if self._served is not None and scheme_of(relative) in BUCKET_SCHEMES:
            return self._served.outside(self.root, relative)
        return as_hadoop_names(relative)

    @staticmethod
    def _url(place: str) -> str:
        if "://" in place:
            scheme, _, rest = place.partition("://")
            return f"{scheme}://{encode_uri_path(rest)}"
        return f"file:{encode_uri_path(place)}"


def _can_be_opened(place: str) -> bool:
    _, has_scheme, rest = place.rpartition("://")
    path = rest.partition("/")[2] if has_scheme else rest
    return ":" not in path or escaped_path(path) == path


def as_hadoop_names(place: str) -> str:
    """Return the URL `place` with the scheme of Hadoop's connector. For S3, Hadoop has only `s3a`."""
    scheme, separator, rest = place.partition("://")
    return f"{_HADOOP_SCHEMES.get(scheme.lower(), scheme)}{separator}{rest}"


def verify_urls(spark: SparkSession, frame: DataFrame, urls: Sequence[str]) -> None:
    """Check, once per session, that `_metadata.file_path` has the spelling of `urls` for the files of `frame`.

    Rows are joined to the log by these URLs. Raises StorageError if the spelling differs, because otherwise rows would
    be lost, or deleted rows would reappear.
    """
    if getattr(spark, _VERIFIED, False):
        return
    row = frame.select(frame.metadataColumn("_metadata").getField("file_path")).head()
    if row is None:
        return
    if row[0] not in urls:
        raise StorageError(f"Spark returned a data file's URL in an unexpected form: {row[0]}")
    setattr(spark, _VERIFIED, True)


def encode_uri_path(path: str) -> str:
    """Return `path` encoded like java.net.URI: other ASCII, control and space characters percent-encoded in UTF-8."""
    if _URI_SAFE.issuperset(path):
        return path
    return "".join(c if _stays(c) else "".join(f"%{b:02X}" for b in c.encode()) for c in path)


def _stays(character: str) -> bool:
    if character in _URI_SAFE:
        return True
    return not character.isascii() and unicodedata.category(character) not in ("Cc", "Zs", "Zl", "Zp")


def escaped_path(path: str) -> str:
    """Return a literal path for Spark's readers, with glob characters escaped."""
    return path.translate(_ESCAPED_GLOB)
