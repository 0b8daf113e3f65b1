"""Parsing of local paths and URLs into locations, without I/O."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

from slackwater.errors import InvalidArgument

LOCAL = "file"
MEMORY = "memory"
S3_SCHEMES = frozenset({"s3", "s3a", "s3n"})
GCS_SCHEMES = frozenset({"gs"})
AZURE_SCHEMES = frozenset({"abfs", "abfss", "az", "adl"})
BUCKET_SCHEMES = S3_SCHEMES | GCS_SCHEMES | AZURE_SCHEMES
KNOWN_SCHEMES = (LOCAL, MEMORY, "s3", "s3a", "s3n", "gs", "abfs", "abfss", "az", "adl", "http", "https")
HDFS = "hdfs"
HADOOP_SCHEMES = frozenset({HDFS, "webhdfs", "swebhdfs", "viewfs", "ofs", "o3fs", "maprfs"})
"""Schemes of Hadoop file systems with fixed names; the Hadoop configuration of a Spark session may add more."""

_HDFS_PORT = ":8020"
# Schemes of the Spark session's Hadoop configuration, with the default authority of each ('' if there is none).
_learned: dict[str, str] = {}

# A scheme has at least two characters, so that a Windows drive or a directory named `a:` stays a path.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):(/.*)\Z", re.DOTALL)
_UNRESERVED = "/=:+,@!$&'()*;~"


@dataclass(frozen=True, slots=True)
class Location:
    """A directory or object.

    `scheme` is in lower case. `authority` is the bucket, container@account or host, '' for local paths. `key` is
    percent-decoded, without a slash at either end.
    """

    scheme: str
    authority: str
    key: str

    @property
    def origin(self) -> str:
        """URL of the bucket, container, host or file system: `s3://b`, `file://`."""
        return f"{self.scheme}://{self.authority}"

    @property
    def url(self) -> str:
        """Percent-encoded URL without a trailing slash; `parse_location` converts it back to this location."""
        key = quote(self.key.encode("utf-8", "surrogateescape"), safe=_UNRESERVED)
        return f"{self.origin}/{key}" if key else self.origin


def learn_scheme(scheme: str, default_authority: str) -> None:
    """Register `scheme` for a Hadoop file system. URLs `scheme:///x` use `default_authority`, unless ''."""
    _learned[scheme] = default_authority


def is_on_hadoop(scheme: str) -> bool:
    """Return whether the scheme belongs to a Hadoop file system, which only Spark's JVM reaches."""
    return scheme in HADOOP_SCHEMES or scheme in _learned


def scheme_of(table: str | os.PathLike[str]) -> str | None:
    """Return the scheme of a URL in lower case, None for a path."""
    match = _URL.match(os.fspath(table))
    return None if match is None else match[1].lower()


def parse_location(table: str | os.PathLike[str]) -> Location:
    """Return the location of a local path or a URL.

    A URL is percent-decoded, and '?' and '#' are ordinary characters. A local path is literal: relative paths start at
    the working directory, and '~' is not expanded.

    Raises:
        InvalidArgument: If the path is empty or contains a NUL, if the scheme is unknown, if a URL has no bucket or a
            '..'
            segment, or if a `file:` URL is relative or names another host.
    """
    text = os.fspath(table)
    if not text or "\0" in text:
        raise InvalidArgument(f"expected a path or a URL, found {text!r}")
    match = _URL.match(text)
    if match is None:
        if text.lower().startswith("file:"):
            raise InvalidArgument(f"expected an absolute file URL such as file:///data/t, found {text!r}")
        absolute = os.path.normpath(Path(text).absolute())
        return Location(LOCAL, "", absolute.strip("/"))
    scheme, rest = match[1].lower(), match[2]
    if scheme not in KNOWN_SCHEMES and not is_on_hadoop(scheme):
        raise InvalidArgument(
            f"unknown scheme {scheme!r} in {text!r}. Known schemes are {', '.join(KNOWN_SCHEMES)}, and through a "
            "classic Spark session hdfs and the other file systems of its Hadoop"
        )
    authority, key = _split_authority(rest)
    if scheme == LOCAL:
        if authority.lower() not in ("", "localhost"):
            raise InvalidArgument(f"{text!r} names the host {authority!r}. A file URL can only name this machine")
        authority = ""
    elif is_on_hadoop(scheme):
        authority = _hadoop_authority(scheme, authority)
    elif scheme != MEMORY and not authority:
        raise InvalidArgument(f"{text!r} names no bucket, container or host. Use {scheme}://<name>/<path>")
    return Location(scheme, authority, _decoded_key(key, text))


def _hadoop_authority(scheme: str, authority: str) -> str:
    """Normalize the authority: add the default of the scheme if empty, and remove the default port of HDFS."""
    found = authority or _learned.get(scheme, "")
    return found.removesuffix(_HDFS_PORT) if scheme == HDFS else found


def _split_authority(rest: str) -> tuple[str, str]:
    if not rest.startswith("//"):
        return "", rest
    authority, _, key = rest[2:].partition("/")
    return authority, key


def _decoded_key(key: str, url: str) -> str:
    # Drop empty segments because Hadoop collapses repeated slashes: Spark writes `s3a://b/x//t` to `x/t`.
    decoded = unquote_to_bytes(key).decode("utf-8", "surrogateescape")
    segments = [segment for segment in decoded.split("/") if segment not in ("", ".")]
    if ".." in segments or "\0" in decoded:
        raise InvalidArgument(f"the URL {url!r} has a '..' segment or a NUL. Use the resolved path")
    return "/".join(segments)
