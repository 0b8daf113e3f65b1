"""Relations over pre-listed files, in a classic session: Spark does not query the store for sizes and times.

For each path, Spark otherwise sends three requests to the store: existence, children and size. Source: Spark's
`InMemoryFileIndex` and `FileStatusCache`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from slackwater.spark.session.jvm_objects import java_class, scala_seq

_SOURCES = "org.apache.spark.sql.execution.datasources"
# A cache for these files only. Spark queries the store for an evicted entry.
_CACHE_BYTES, _CACHE_TTL_S = 1 << 30, -1
_BLOCK_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file at `place`, a literal Hadoop path, with its size in bytes and modification time in ms since the epoch."""

    place: str
    size_bytes: int
    modified_ms: int


def relation_over(spark: SparkSession, relation: Any, files: Sequence[KnownFile]) -> Any:
    """Return the file `relation` of a classic session with `files` as its only files."""
    class_of = java_class(spark, f"{_SOURCES}.SharedInMemoryCache")
    cache = class_of(_CACHE_BYTES, _CACHE_TTL_S).createForNewClient()
    path_class, status_class = (java_class(spark, f"org.apache.hadoop.fs.{name}") for name in ("Path", "FileStatus"))
    paths = []
    for file in files:
        path = path_class(file.place)
        found = spark.sparkContext._gateway.new_array(status_class, 1)  # type: ignore[union-attr]
        found[0] = status_class(file.size_bytes, False, 1, _BLOCK_BYTES, file.modified_ms, path)
        cache.putLeafFiles(path, found)
        paths.append(path)
    option = java_class(spark, "scala.Option")
    index = java_class(spark, f"{_SOURCES}.InMemoryFileIndex")(
        spark._jsparkSession,
        scala_seq(spark, paths),
        relation.options(),
        option.apply(relation.schema()),
        cache,
        option.empty(),
        option.empty(),
    )
    return relation.copy(
        index,
        relation.partitionSchema(),
        relation.dataSchema(),
        relation.bucketSpec(),
        relation.fileFormat(),
        relation.options(),
        relation.sparkSession(),
    )
