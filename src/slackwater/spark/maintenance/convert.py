"""CONVERT TO DELTA for a session: names, settings, and footers read by executors if there are many.

Source: delta-spark's CONVERT TO DELTA.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from slackwater.errors import InvalidArgument, UnsupportedFeature
from slackwater.log.table import Table
from slackwater.maintenance.convert import ConvertRequest, convert
from slackwater.maintenance.footer_scan import FooterSummary, describe_files, described
from slackwater.protocol.schema.schema import StructType
from slackwater.spark.catalog.resolve import path_in_text
from slackwater.spark.progress.progress import Progress
from slackwater.spark.session.argument_checks import parsed_type, text_argument
from slackwater.spark.session.classic_connect import default_parallelism, is_one_process
from slackwater.spark.session.settings import SessionSettings, session_zone
from slackwater.spark.session.types import from_spark_schema
from slackwater.spark.storage.row_transport import has_python_workers
from slackwater.spark.storage.stores import table_at
from slackwater.spark.write.files.arrow_files import raised_in_a_task
from slackwater.stats.stats_columns import StatsLeaves
from slackwater.storage.store import ObjectStore

_PARQUET = re.compile(r"(?is)parquet\.`(.+)`\Z")
_FILES = "number long, path string, size_bytes long, schema string, stats string, is_shredded boolean"
_MANY = 2_000


def convert_to_table(
    spark: SparkSession,
    identifier: str,
    partition_schema: str | spark_types.StructType | None,
    collect_stats: bool,
) -> Table:
    """Convert the directory in ``parquet.`path` `` to a table, with the session's settings.

    See `slackwater.maintenance.convert.convert`. ``delta.`path` `` names a table already converted. Raises
    InvalidArgument for another identifier or an invalid schema, UnsupportedFeature for names in a catalog and for other
    formats.
    """
    table = table_at(spark, _path(text_argument("identifier", identifier)))
    settings = SessionSettings.of(spark)
    request = ConvertRequest(
        _partitions(partition_schema),
        collect_stats,
        settings.table_properties,
        session_zone(spark),
        settings.user_metadata,
        _described_by(spark),
        settings.user_name,
    )
    with Progress.of(spark, "CONVERT") as progress:
        with progress.stage("reading footers"):
            result = convert(table, request)
        progress.done(files=0 if result is None else result.num_files)
    return table


def _path(identifier: str) -> str:
    match = _PARQUET.match(identifier.strip())
    if match is not None:
        return match[1].replace("``", "`")
    found = path_in_text(identifier)
    if found is None:
        raise UnsupportedFeature(
            f"{identifier}: only a directory of Parquet files can be converted, by its path. Use parquet.`/path`",
            error_class="DELTA_CONVERT_NON_PARQUET_TABLE",
        )
    return found


def _partitions(given: str | spark_types.StructType | None) -> StructType:
    if given is None:
        return StructType()
    found = parsed_type(f"struct<{given}>") if isinstance(given, str) else given
    if not isinstance(found, spark_types.StructType):
        raise InvalidArgument(f"partitionSchema must be a StructType or its DDL text, found {given!r}")
    return from_spark_schema(found)


def _described_by(
    spark: SparkSession,
) -> Callable[[ObjectStore, Sequence[str], StatsLeaves | None], Iterable[FooterSummary]]:
    def describe(store: ObjectStore, paths: Sequence[str], leaves: StatsLeaves | None) -> Iterable[FooterSummary]:
        is_shared = store.local_root is None or is_one_process(spark)
        if len(paths) < _MANY or not is_shared or not has_python_workers(spark, store):
            return describe_files(store, paths, leaves)
        return _by_tasks(spark, store, paths, leaves)

    return describe


def _by_tasks(
    spark: SparkSession, store: ObjectStore, paths: Sequence[str], leaves: StatsLeaves | None
) -> list[FooterSummary]:
    """Return the footer summaries of the files from tasks of Spark, in the order of `paths`."""
    sent = pa.table({"number": pa.array(range(len(paths)), pa.int64()), "path": pa.array(paths, pa.string())})
    frame = spark.createDataFrame(sent).repartition(4 * default_parallelism(spark))
    try:
        found = frame.mapInArrow(_describer(store, leaves), _FILES).toArrow()
    except Exception as error:
        raised = raised_in_a_task(error)
        if raised is None:
            raise
        raise raised from error
    columns = [found[name].to_pylist() for name in ("path", "size_bytes", "schema", "stats", "is_shredded")]
    told = dict(zip(found["number"].to_pylist(), map(FooterSummary, *columns), strict=True))
    return [told[number] for number in range(len(paths))]


def _describer(
    store: ObjectStore, leaves: StatsLeaves | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def describe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            files = [described(store, path, leaves) for path in batch.column("path").to_pylist()]
            yield pa.RecordBatch.from_pydict(
                {
                    "number": batch.column("number"),
                    "path": pa.array([file.path for file in files], pa.string()),
                    "size_bytes": pa.array([file.size_bytes for file in files], pa.int64()),
                    "schema": pa.array([file.schema for file in files], pa.string()),
                    "stats": pa.array([file.stats for file in files], pa.string()),
                    "is_shredded": pa.array([file.is_shredded for file in files], pa.bool_()),
                }
            )

    return describe
