"""Access to Hadoop file systems through the session's own JVM.

Source: Hadoop's `fs.defaultFS`, `fs.<scheme>.impl`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from slackwater.errors import InvalidArgument, UnsupportedFeature
from slackwater.spark.hadoop.file_system import HadoopFileSystem
from slackwater.spark.hadoop.store import HadoopStore
from slackwater.spark.session.classic_connect import hadoop_setting, is_connect, knows_scheme
from slackwater.spark.session.enabled_sessions import cached_in_statement
from slackwater.storage.location import HADOOP_SCHEMES, KNOWN_SCHEMES, LOCAL, Location, learn_scheme, scheme_of
from slackwater.storage.open import open_hadoop_with
from slackwater.storage.store import ObjectStore

_REACHED = "_slackwater_hadoop_schemes"
_DEFAULT = "fs.defaultFS"


def reach_hadoop(spark: SparkSession, path: str) -> None:
    """Register the Hadoop file system of `path` for `open_store`. Other schemes pass unchanged.

    Checked once per session and scheme. Raises UnsupportedFeature if the session lacks the file system or its own JVM.
    """
    scheme = scheme_of(path)
    if scheme is None or scheme in KNOWN_SCHEMES:
        return
    reached: set[str] = spark.__dict__.setdefault(_REACHED, set())
    if scheme in reached:
        return
    if is_connect(spark):
        if scheme in HADOOP_SCHEMES:
            raise UnsupportedFeature(
                f"{path}: through Spark Connect this process does not reach {scheme}://, because only the JVM of a "
                "classic session reads and writes a log there. Open the table in a classic session with access to "
                "the store"
            )
        return
    if knows_scheme(spark, scheme, path):
        default = urlsplit(hadoop_setting(spark, _DEFAULT) or "")
        learn_scheme(scheme, default.netloc if default.scheme == scheme else "")
        open_hadoop_with(_FileSystems(spark).open)
        reached.add(scheme)
    elif scheme in HADOOP_SCHEMES:
        raise UnsupportedFeature(
            f"{path}: Spark of this session has no file system for {scheme}://. Add it to Spark's class path"
        )


def on_default_file_system(spark: SparkSession, path: str) -> str:
    """Return the URL of a path without a scheme, if the session's default file system is not local.

    Other paths, and all paths of a Connect session, are returned unchanged.
    """
    if scheme_of(path) is not None:
        return path
    default = cached_in_statement(spark, _DEFAULT, lambda: hadoop_setting(spark, _DEFAULT)) or ""
    if not default or urlsplit(default).scheme == LOCAL:
        return path
    session: Any = spark
    found = session._jvm.org.apache.hadoop.fs.Path(path)
    return str(found.getFileSystem(session._jsc.hadoopConfiguration()).makeQualified(found).toUri().toString())


class _FileSystems:
    """The file systems of a session, each created once."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._made: dict[str, HadoopFileSystem] = {}
        self._lock = threading.Lock()

    def open(self, location: Location, open_at: Callable[[str], tuple[ObjectStore, str]]) -> HadoopStore:
        """Return the store at a location. Raises InvalidArgument if the host or name service is missing."""
        if not location.authority:
            raise InvalidArgument(
                f"{location.url} has no host or name service, and the session's fs.defaultFS has another scheme than "
                f"{location.scheme}://. Use {location.scheme}://<name>/<path>"
            )
        return HadoopStore(self._at, location, open_at)

    def _at(self, location: Location) -> HadoopFileSystem:
        with self._lock:
            if location.origin not in self._made:
                self._made[location.origin] = HadoopFileSystem(
                    self._spark, Location(location.scheme, location.authority, "")
                )
            return self._made[location.origin]
