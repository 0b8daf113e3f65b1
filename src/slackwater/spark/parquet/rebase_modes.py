"""Calendars of old dates: the session's rebase modes for reads, and footer keys about the writer of a file.

Spark applies a rebase mode only to files without a Spark version in the footer. Source: Spark's
`ParquetWriteSupport.init`, "spark.sql.parquet.datetimeRebaseModeInRead".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from slackwater.data_files.datetime_rebase import are_written_by_pyarrow
from slackwater.data_files.footer_schema import SPARK_SCHEMA_KEY
from slackwater.protocol.features import iceberg_compat
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.spark.session.enabled_sessions import cached_in_statement
from slackwater.stats.footer_bounds import SPARK_VERSION_KEY

_MODES = ("spark.sql.parquet.datetimeRebaseModeInRead", "spark.sql.parquet.int96RebaseModeInRead")
_GREGORIAN = "CORRECTED"
READ_AS_WRITTEN = {"datetimeRebaseMode": _GREGORIAN, "int96RebaseMode": _GREGORIAN}
_T = TypeVar("_T")


def spark_footer(spark: SparkSession, schema: StructType) -> dict[str, str]:
    """Return the footer keys of Spark's own writer for a file with the columns `schema`."""
    return {SPARK_VERSION_KEY.decode(): spark.version, SPARK_SCHEMA_KEY.decode(): schema.json()}


def rebases_unmarked_files(spark: SparkSession) -> bool:
    """Return whether the session rebases or rejects old dates in files without a version."""
    return cached_in_statement(spark, "rebase modes", lambda: any(_mode(spark, name) != _GREGORIAN for name in _MODES))


def _mode(spark: SparkSession, name: str) -> str:
    return (spark.conf.get(name, None) or _GREGORIAN).upper()


def calendar_options(paths: Sequence[str], table: TableConfiguration) -> Mapping[str, str]:
    """Return options of Spark's reader for files of `table`, one part of the result of `by_calendar`."""
    # Early releases rewrote files of Spark to add field ids, and omitted the version.
    has_nested_ids = iceberg_compat.needs_nested_ids(table)
    return READ_AS_WRITTEN if has_nested_ids or pc.all(are_written_by_pyarrow(paths)).as_py() else {}


def by_calendar(spark: SparkSession, files: pa.Table) -> list[pa.Table]:
    """Split `files` by writer, derived from the column `path`, if the session reads files of pyarrow differently."""
    written = are_written_by_pyarrow(files["path"])
    if not pc.any(written).as_py() or pc.all(written).as_py() or not rebases_unmarked_files(spark):
        return [files]
    return [files.filter(written), files.filter(pc.invert(written))]


def items_by_calendar(spark: SparkSession, items: Sequence[_T], path: Callable[[_T], str]) -> list[list[_T]]:
    """Split `items` by their `path`, like `by_calendar`."""
    files = pa.table({"path": pa.array(map(path, items), pa.string()), "at": pa.array(range(len(items)), pa.int64())})
    return [[items[at] for at in part["at"].to_pylist()] for part in by_calendar(spark, files)]
