"""Choice of the row transport, cached per session and URL scheme.

Source: Hadoop's FileSystem (`fs.<scheme>.impl`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from importlib import import_module

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from slackwater.errors import InvalidArgument, UnsupportedFeature
from slackwater.spark.hadoop.store import HadoopStore
from slackwater.spark.hadoop.web_hdfs import served_stores
from slackwater.spark.session.classic_connect import (
    default_parallelism,
    is_one_process,
    knows_scheme,
    workers_have_this_python,
)
from slackwater.spark.session.enabled_sessions import cached_in_statement
from slackwater.spark.session.spark_errors import python_worker_error
from slackwater.spark.storage.locations import DataLocations
from slackwater.storage.location import GCS_SCHEMES, S3_SCHEMES
from slackwater.storage.store import ObjectStore
from slackwater.storage.webhdfs_server import WebHdfs

_KNOWN, _WORKERS = "_slackwater_known_schemes", "_slackwater_workers"
ROWS = "spark.slackwater.rows"
"""The setting for the row transport. An option takes precedence."""
_CONNECTORS = {
    **dict.fromkeys(S3_SCHEMES, "org.apache.hadoop:hadoop-aws, in Spark's version of Hadoop"),
    **dict.fromkeys(GCS_SCHEMES, "com.google.cloud.bigdataoss:gcs-connector"),
}
_AZURE_CONNECTOR = "org.apache.hadoop:hadoop-azure, in Spark's version of Hadoop"


class RowTransport(str, Enum):
    """The row transport between Spark and a table's store: Spark's own Parquet reader and writer, or PyArrow.

    Spark uses its connector. If Spark has no connector and is one process of this machine, this process serves the
    store's files to Spark. It then also uploads files that Spark wrote to the disk.
    """

    SPARK = "spark"
    ARROW = "arrow"


def choose_transport(spark: SparkSession, store: ObjectStore, option: str | None = None) -> RowTransport:
    """Return the row transport for a table in `store`.

    The choice is that of `option`, or else of the setting `spark.slackwater.rows`. By default, Spark transports the
    rows if Spark itself can read and write in the store. This is checked once per session and scheme. Else Arrow:
    executors read and write Parquet in Python. Raises InvalidArgument for an unknown value, UnsupportedFeature if the
    transport is not available.
    """
    choice = _choice(spark, option)
    if choice == RowTransport.SPARK:
        require_connector(spark, store)
    if choice == RowTransport.SPARK or (choice == "auto" and _reaches(spark, store)):
        return RowTransport.SPARK
    if isinstance(store, HadoopStore):
        raise UnsupportedFeature(
            f"{store.root_url}: only Spark itself reaches Hadoop file systems from executors, so Arrow cannot "
            f"transport rows there. Leave the option rows, or the setting {ROWS}, at auto"
        )
    if lacking := _lacking(spark):
        raise UnsupportedFeature(
            f"{store.root_url}: Spark has no connector for the store, so its executors read and write rows in Python. "
            f"Their Python must have slackwater (pip install slackwater=={_version()}): {lacking}"
        )
    return RowTransport.ARROW


def uses_arrow(spark: SparkSession, store: ObjectStore, option: str | None = None) -> bool:
    """Return whether `choose_transport` is Arrow. Raises as `choose_transport`."""
    return choose_transport(spark, store, option) == RowTransport.ARROW


def uses_spark(spark: SparkSession, store: ObjectStore, option: str | None = None) -> bool:
    """Return whether Spark itself reads rows of `store`, unless the session or `option` chooses Arrow.

    Raises InvalidArgument as `choose_transport`.
    """
    return _choice(spark, option) != RowTransport.ARROW and _reaches(spark, store)


def _choice(spark: SparkSession, option: str | None) -> str:
    return parse_transport(option or cached_in_statement(spark, ROWS, lambda: spark.conf.get(ROWS, None)))


def parse_transport(told: str | None) -> str:
    """Return the transport in an option or a setting, `auto` for None. Raises InvalidArgument for an unknown value."""
    choice = (told or "auto").strip().lower()
    if choice not in ("auto", *RowTransport):
        raise InvalidArgument(f"the option rows, or the setting {ROWS}, must be spark, arrow or auto, found {told!r}")
    return choice


def has_python_workers(spark: SparkSession, store: ObjectStore) -> bool:
    """Return whether executors can read and write files of `store` in Python, even if Spark transports the rows.

    Always False if the session sets Spark for the row transport.
    """
    told = spark.conf.get(ROWS, None) or "auto"
    if told.strip().lower() == RowTransport.SPARK or isinstance(store, HadoopStore):
        return False
    return _lacking(spark) is None


def require_python_workers(spark: SparkSession, store: ObjectStore, what_runs_there: str) -> None:
    """Check that the executors of a session can run this package in Python.

    `what_runs_there` is the subject of the message, before "must have". Raises UnsupportedFeature.
    """
    if lacking := _lacking(spark):
        raise UnsupportedFeature(
            f"{store.root_url}: {what_runs_there} must have slackwater (pip install slackwater=={_version()}): "
            f"{lacking}"
        )


def require_connector(spark: SparkSession, store: ObjectStore) -> None:
    """Check, once per session and scheme, that Spark itself can read and write rows of `store`.

    Raises UnsupportedFeature if Spark has no file system for the scheme.
    """
    if not _reaches(spark, store):
        scheme = DataLocations(store).root.partition("://")[0]
        raise UnsupportedFeature(
            f"{store.root_url}: Spark of this session has no file system for {scheme}:// and cannot read or write "
            f"rows there. Leave the setting {ROWS} at auto, or add the connector to Spark's class path, for example "
            f"with spark.jars.packages: {_CONNECTORS.get(scheme, _AZURE_CONNECTOR)}"
        )


def served_to_spark(spark: SparkSession, store: ObjectStore) -> WebHdfs | None:
    """Return the server of `store` for Spark's own reader, None if Spark has a connector.

    None also if Spark is not one process of this machine.
    """
    return None if _has_connector(spark, store) else served_stores(spark, store)


def _reaches(spark: SparkSession, store: ObjectStore) -> bool:
    """Return whether Spark itself reads rows in `store`."""
    return _has_connector(spark, store) or served_stores(spark, store) is not None


def _has_connector(spark: SparkSession, store: ObjectStore) -> bool:
    """Return whether Spark itself reads and writes in `store`."""
    return store.local_root is not None or _knows(spark, DataLocations(store).root)


def require_known(spark: SparkSession, root_url: str, places: Iterable[str]) -> None:
    """Raise UnsupportedFeature for a file of the table at `root_url` in a store without a file system in Spark."""
    for place in places:
        if "://" in place and not _knows(spark, place):
            scheme = place.partition("://")[0]
            raise UnsupportedFeature(
                f"{root_url}: the log names {place}, but Spark of this session has no file system for {scheme}://. "
                "Read the table with the option rows = arrow, or add a connector to Spark's class path: "
                f"{_CONNECTORS.get(scheme, _AZURE_CONNECTOR)}"
            )


def _knows(spark: SparkSession, place: str) -> bool:
    """Return whether Spark has a file system for a URL. Checked once per session and scheme."""
    scheme = place.partition("://")[0]
    known: dict[str, bool] = spark.__dict__.setdefault(_KNOWN, {})
    if scheme not in known:
        known[scheme] = knows_scheme(spark, scheme, place)
    return known[scheme]


def _lacking(spark: SparkSession) -> str | None:
    """Return the reason that executors cannot read and write rows in Python, None if they can.

    Success is cached per session.
    """
    if _WORKERS in spark.__dict__ or (is_one_process(spark) and workers_have_this_python(spark)):
        return None
    tasks = default_parallelism(spark)
    try:
        # One task per core, so that Spark distributes the tasks over all executors with free cores.
        looked = spark.range(0, tasks, 1, tasks).mapInArrow(_told_version, "version string")
        found = {row[0] for row in looked.collect()}
    except PySparkException as error:
        return python_worker_error(error)
    if found != {_version()}:
        return f"they have version {', '.join(sorted(found))}, this process has {_version()}"
    spark.__dict__[_WORKERS] = True
    return None


def _version() -> str:
    return str(import_module("slackwater").__version__)


def _told_version(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from slackwater.data_files import reader  # noqa: F401  (imports all dependencies)

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"version": [_version()]})
