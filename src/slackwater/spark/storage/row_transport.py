"""How rows travel between Spark and a table's store, which is found out once per session and scheme.

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
    python_worker_error,
    workers_have_this_python,
)
from slackwater.spark.session.enabled_sessions import cached_in_statement
from slackwater.spark.storage.locations import DataLocations
from slackwater.storage.location import GCS_SCHEMES, S3_SCHEMES
from slackwater.storage.store import ObjectStore
from slackwater.storage.webhdfs_server import WebHdfs

_KNOWN, _WORKERS = "_slackwater_known_schemes", "_slackwater_workers"
ROWS = "spark.slackwater.rows"
"""The setting that says how rows travel, where no option does."""
_CONNECTORS = {
    **dict.fromkeys(S3_SCHEMES, "org.apache.hadoop:hadoop-aws, of the version of Hadoop that Spark has"),
    **dict.fromkeys(GCS_SCHEMES, "com.google.cloud.bigdataoss:gcs-connector"),
}
_AZURE_CONNECTOR = "org.apache.hadoop:hadoop-azure, of the version of Hadoop that Spark has"


class RowTransport(str, Enum):
    """How rows travel between Spark and a table's store: by Spark's own Parquet reader and writer, or by pyarrow.

    Spark reads and writes by its connector; where it has none and is one process of this machine, this one serves it
    the store's files, and puts there what it wrote on the disk.
    """

    SPARK = "spark"
    ARROW = "arrow"


def choose_transport(spark: SparkSession, store: ObjectStore, option: str | None = None) -> RowTransport:
    """The way that rows of a table in `store` go: what `option`, or the setting `spark.slackwater.rows`, asks for.

    Else by Spark where it can read and write there itself, which is looked up once per session and scheme, and by
    Arrow where it cannot: then executors read and write Parquet in Python. Raises InvalidArgument for another word,
    UnsupportedFeature where that way is not open.
    """
    choice = _choice(spark, option)
    if choice == RowTransport.SPARK:
        require_connector(spark, store)
    if choice == RowTransport.SPARK or (choice == "auto" and _reaches(spark, store)):
        return RowTransport.SPARK
    if isinstance(store, HadoopStore):
        raise UnsupportedFeature(
            f"{store.root_url}: of executors only Spark itself reaches Hadoop file systems, so rows cannot go by Arrow "
            f"there: leave the option rows, or the setting {ROWS}, at auto"
        )
    if lacking := _lacking(spark):
        raise UnsupportedFeature(
            f"{store.root_url}: Spark has no connector for the store, so its executors read and write rows in Python, "
            f"and theirs must have slackwater (pip install slackwater=={_version()}): {lacking}"
        )
    return RowTransport.ARROW


def uses_arrow(spark: SparkSession, store: ObjectStore, option: str | None = None) -> bool:
    """Whether `choose_transport` is Arrow. Raises as it does."""
    return choose_transport(spark, store, option) == RowTransport.ARROW


def uses_spark(spark: SparkSession, store: ObjectStore, option: str | None = None) -> bool:
    """Whether Spark reads rows of `store` itself, and is not asked to leave it to executors in Python.

    Raises InvalidArgument as `choose_transport` does.
    """
    return _choice(spark, option) != RowTransport.ARROW and _reaches(spark, store)


def _choice(spark: SparkSession, option: str | None) -> str:
    return parse_transport(option or cached_in_statement(spark, ROWS, lambda: spark.conf.get(ROWS, None)))


def parse_transport(told: str | None) -> str:
    """The way that an option or a setting asks for, None being `auto`. Raises InvalidArgument for another word."""
    choice = (told or "auto").strip().lower()
    if choice not in ("auto", *RowTransport):
        raise InvalidArgument(f"the option rows, or the setting {ROWS}, must be spark, arrow or auto, found {told!r}")
    return choice


def has_python_workers(spark: SparkSession, store: ObjectStore) -> bool:
    """Whether executors can read and write files of `store` in Python, also where Spark moves rows by itself.

    Where the session says that Spark shall move them, they do not.
    """
    told = spark.conf.get(ROWS, None) or "auto"
    if told.strip().lower() == RowTransport.SPARK or isinstance(store, HadoopStore):
        return False
    return _lacking(spark) is None


def require_python_workers(spark: SparkSession, store: ObjectStore, what_runs_there: str) -> None:
    """Let pass a session whose executors can compute in Python with this package; for what, goes before "must have".

    Raises UnsupportedFeature.
    """
    if lacking := _lacking(spark):
        raise UnsupportedFeature(
            f"{store.root_url}: {what_runs_there} must have slackwater (pip install slackwater=={_version()}): "
            f"{lacking}"
        )


def require_connector(spark: SparkSession, store: ObjectStore) -> None:
    """Let pass a place that Spark can read and write by itself; looked up once per session and scheme.

    Raises UnsupportedFeature where it has no file system for the scheme.
    """
    if not _reaches(spark, store):
        scheme = DataLocations(store).root.partition("://")[0]
        raise UnsupportedFeature(
            f"{store.root_url}: Spark of this session has no file system for {scheme}:// and can neither read nor "
            f"write rows there: leave the setting {ROWS} at auto, or add the connector to its class path, as by "
            f"spark.jars.packages: {_CONNECTORS.get(scheme, _AZURE_CONNECTOR)}"
        )


def served_to_spark(spark: SparkSession, store: ObjectStore) -> WebHdfs | None:
    """What serves `store` to Spark's own reader, where Spark has no connector and is one process of this machine."""
    return None if _has_connector(spark, store) else served_stores(spark, store)


def _reaches(spark: SparkSession, store: ObjectStore) -> bool:
    """Whether Spark itself reads rows in `store`."""
    return _has_connector(spark, store) or served_stores(spark, store) is not None


def _has_connector(spark: SparkSession, store: ObjectStore) -> bool:
    """Whether Spark itself reads and writes in `store`."""
    return store.local_root is not None or _knows(spark, DataLocations(store).root)


def require_known(spark: SparkSession, root_url: str, places: Iterable[str]) -> None:
    """Raise UnsupportedFeature for a file of the table at `root_url` in a store that Spark itself does not reach."""
    for place in places:
        if "://" in place and not _knows(spark, place):
            scheme = place.partition("://")[0]
            raise UnsupportedFeature(
                f"{root_url}: the log names {place}, and Spark of this session has no file system for {scheme}://. "
                "Read the table with the option rows = arrow, or add a connector to the class path of Spark: "
                f"{_CONNECTORS.get(scheme, _AZURE_CONNECTOR)}"
            )


def _knows(spark: SparkSession, place: str) -> bool:
    """Return whether Spark has a file system for a URL; asked once per session and scheme."""
    scheme = place.partition("://")[0]
    known: dict[str, bool] = spark.__dict__.setdefault(_KNOWN, {})
    if scheme not in known:
        known[scheme] = knows_scheme(spark, scheme, place)
    return known[scheme]


def _lacking(spark: SparkSession) -> str | None:
    """What executors lack to read and write rows in Python; None where it is all there, found out once per session."""
    if _WORKERS in spark.__dict__ or (is_one_process(spark) and workers_have_this_python(spark)):
        return None
    tasks = default_parallelism(spark)
    try:
        # As many as run at once: Spark deals them to all executors that have room.
        looked = spark.range(0, tasks, 1, tasks).mapInArrow(_told_version, "version string")
        found = {row[0] for row in looked.collect()}
    except PySparkException as error:
        return python_worker_error(error)
    if found != {_version()}:
        return f"found version {', '.join(sorted(found))}, here it is {_version()}"
    spark.__dict__[_WORKERS] = True
    return None


def _version() -> str:
    return str(import_module("slackwater").__version__)


def _told_version(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from slackwater.data_files import reader  # noqa: F401  (with all that it needs)

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"version": [_version()]})
