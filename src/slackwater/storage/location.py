"""Where a table or a file is: local paths and URLs taken apart, without I/O."""

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
"""Hadoop file systems by names that are theirs everywhere; a Spark session may have more."""

_HDFS_PORT = ":8020"
# What a Spark session's Hadoop said: the schemes it has, and the authority of a URL that names none.
_learned: dict[str, str] = {}

# Two letters at least, so that a Windows drive or a directory named `a:` stays a path.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):(/.*)\Z", re.DOTALL)
_UNRESERVED = "/=:+,@!$&'()*;~"


@dataclass(frozen=True, slots=True)
class Location:
    """A directory or object: `scheme` as given, `authority` (bucket, container@account, host; '' for local), `key`.

    `key` is percent-decoded, without a slash at either end.
    """

    scheme: str
    authority: str
    key: str

    @property
    def origin(self) -> str:
        """The URL of the bucket, container, host or file system: `s3://b`, `file://`."""
        return f"{self.scheme}://{self.authority}"

    @property
    def url(self) -> str:
        """The percent-encoded URL, without a trailing slash; `parse_location` takes it back to this location."""
        key = quote(self.key.encode("utf-8", "surrogateescape"), safe=_UNRESERVED)
        return f"{self.origin}/{key}" if key else self.origin


def learn_scheme(scheme: str, default_authority: str) -> None:
    """Let URLs with `scheme` be places on a Hadoop file system; `scheme:///x` is at `default_authority`, unless ''."""
    _learned[scheme] = default_authority


def is_on_hadoop(scheme: str) -> bool:
    """Whether a place with this scheme is on a Hadoop file system, which none but Spark's JVM reaches."""
    return scheme in HADOOP_SCHEMES or scheme in _learned


def scheme_of(table: str | os.PathLike[str]) -> str | None:
    """The scheme of a URL, in lower case; None of a path."""
    match = _URL.match(os.fspath(table))
    return None if match is None else match[1].lower()


def parse_location(table: str | os.PathLike[str]) -> Location:
    """The location that a local path or a URL names.

    A URL is percent-decoded, and '?' and '#' in it are ordinary characters; a local path is literal, relative ones
    start at the working directory, '~' is not expanded. Raises InvalidArgument for an empty path, an unknown scheme, a
    URL without its bucket, a `file:` URL of another host, or a URL with a '..' segment.
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
            f"unknown scheme {scheme!r} in {text!r}: known are {', '.join(KNOWN_SCHEMES)}, and through a classic Spark "
            "session hdfs and the other file systems that its Hadoop has"
        )
    authority, key = _split_authority(rest)
    if scheme == LOCAL:
        if authority.lower() not in ("", "localhost"):
            raise InvalidArgument(f"{text!r} names the host {authority!r}: a file URL reaches this machine only")
        authority = ""
    elif is_on_hadoop(scheme):
        authority = _hadoop_authority(scheme, authority)
    elif scheme != MEMORY and not authority:
        raise InvalidArgument(f"{text!r} names no bucket, container or host: expected {scheme}://<name>/<path>")
    return Location(scheme, authority, _decoded_key(key, text))


def _hadoop_authority(scheme: str, authority: str) -> str:
    """One of several names of a file system: its default, where none is named, and no port that HDFS has by itself."""
    found = authority or _learned.get(scheme, "")
    return found.removesuffix(_HDFS_PORT) if scheme == HDFS else found


def _split_authority(rest: str) -> tuple[str, str]:
    if not rest.startswith("//"):
        return "", rest
    authority, _, key = rest[2:].partition("/")
    return authority, key


def _decoded_key(key: str, url: str) -> str:
    # Hadoop collapses repeated slashes, so a table that Spark wrote to `s3a://b/x//t` is at `x/t`.
    decoded = unquote_to_bytes(key).decode("utf-8", "surrogateescape")
    segments = [segment for segment in decoded.split("/") if segment not in ("", ".")]
    if ".." in segments or "\0" in decoded:
        raise InvalidArgument(f"the URL {url!r} has a '..' segment or a NUL: name the place itself")
    return "/".join(segments)
