"""How Spark names a table's files: the paths it is given, and the URLs that `_metadata.file_path` answers."""

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

# RFC 2396 as java.net.URI applies it to a path: the characters that stay unchanged.
_URI_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/-_.!~*'():@&=+$,;")
_VERIFIED = "_slackwater_urls_verified"
_ESCAPED_GLOB = str.maketrans({c: f"\\{c}" for c in "{}[]*?\\"})
_HADOOP_SCHEMES = {"s3": "s3a", "s3n": "s3a", "abfs": "abfss"}

# Of ranges that Parquet asks for by their places Hadoop's client for WebHDFS asks anew with each piece that it gets.
_SERVED = {"parquet.hadoop.vectored.io.enabled": "false"}


class DataLocations:
    """The data files of one table: from paths in the log to paths for Spark, by `served` where it serves the store."""

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
        """Whether Spark reads the files from this machine's disk."""
        return self.store.local_root is not None

    @property
    def reading(self) -> dict[str, str]:
        """Options of Spark's reader for such files."""
        return _SERVED if self._served is not None else {}

    def know(self, meta: ObjectMeta) -> None:
        """Tell who serves the files what the store says of one of them."""
        if self._served is not None:
            self._served.pin_status(self.root, meta)

    def relative(self, path: str) -> str:
        """The decoded path of a file action, relative to the root, or absolute outside it. Raises PathNotAllowed."""
        return resolve_file(self.store, path, self._allow_outside_root)

    def relatives(self, paths: Sequence[str]) -> list[str]:
        """`relative` of each of `paths`."""
        return resolve_files(self.store, paths, self._allow_outside_root)

    def spark_paths(self, relatives: Sequence[str]) -> list[str]:
        """`spark_path` of each of `relatives`."""
        if not are_plain(relatives):
            return [self.spark_path(relative) for relative in relatives]
        root = self.root.translate(_ESCAPED_GLOB)
        return [f"{root}/{relative}" for relative in relatives]

    def unreadable(self, relatives: Sequence[str]) -> str | None:
        """One of the files that Hadoop cannot open; None where it can: it stumbles over a colon in what it escapes."""
        if are_plain(relatives) and _can_be_opened(self.root):
            return None
        return next((place for place in map(self.place, relatives) if not _can_be_opened(place)), None)

    def metadata_urls(self, relatives: Sequence[str]) -> list[str]:
        """`metadata_url` of each of `relatives`."""
        if not are_plain(relatives):
            return [self.metadata_url(relative) for relative in relatives]
        root = self._url(self.root)
        return [f"{root}/{relative}" for relative in relatives]

    def spark_path(self, relative: str) -> str:
        """The path to give to Spark, glob characters escaped."""
        return escaped_path(self.place(relative))

    def metadata_url(self, relative: str) -> str:
        """What `_metadata.file_path` is for rows of the file: percent-encoded, `file:/…` on a local disk."""
        return self._url(self.place(relative))

    def place(self, relative: str) -> str:
        """The path of a file, literal."""
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
    """`place`, a URL with the scheme that Hadoop's connector has of those of one store: of S3 it knows `s3a` alone."""
    scheme, separator, rest = place.partition("://")
    return f"{_HADOOP_SCHEMES.get(scheme.lower(), scheme)}{separator}{rest}"


def verify_urls(spark: SparkSession, frame: DataFrame, urls: Sequence[str]) -> None:
    """Make sure, once per session, that `_metadata.file_path` spells the URLs of `frame`'s files as `urls` does.

    Rows are joined to the log by them. Raises StorageError where they differ, for then rows would be lost, or deleted
    ones come back.
    """
    if getattr(spark, _VERIFIED, False):
        return
    row = frame.select(frame.metadataColumn("_metadata").getField("file_path")).head()
    if row is None:
        return
    if row[0] not in urls:
        raise StorageError(f"Spark spells a data file's URL in an unexpected way: {row[0]}")
    setattr(spark, _VERIFIED, True)


def encode_uri_path(path: str) -> str:
    """`path` as java.net.URI writes it: other ASCII, control and space characters percent-encoded as UTF-8."""
    if _URI_SAFE.issuperset(path):
        return path
    return "".join(c if _stays(c) else "".join(f"%{b:02X}" for b in c.encode()) for c in path)


def _stays(character: str) -> bool:
    if character in _URI_SAFE:
        return True
    return not character.isascii() and unicodedata.category(character) not in ("Cc", "Zs", "Zl", "Zp")


def escaped_path(path: str) -> str:
    """A literal path for Spark's readers, which take glob characters in it for patterns."""
    return path.translate(_ESCAPED_GLOB)
