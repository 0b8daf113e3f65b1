"""Object stores as the session has them: its credentials, and whether Spark itself can read and write there.

Source: Hadoop's FileSystem (`fs.<scheme>.impl`); Spark's `spark.hadoop.…` settings.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from slackwater.errors import UnsupportedFeature
from slackwater.log.table import Table
from slackwater.spark.session.locations import DataLocations
from slackwater.spark.session.modes import all_settings, hadoop_setting, knows_scheme
from slackwater.spark.session.options import Options
from slackwater.storage.hadoop_settings import merged_options, storage_options_of
from slackwater.storage.location import GCS_SCHEMES, LOCAL, MEMORY, S3_SCHEMES, parse_location
from slackwater.storage.store import ObjectStore

_HADOOP, _STORES = "spark.hadoop.", "fs."
_KNOWN = "_slackwater_known_schemes"
_CONNECTORS = {
    **dict.fromkeys(S3_SCHEMES, "org.apache.hadoop:hadoop-aws, of the version of Hadoop that Spark has"),
    **dict.fromkeys(GCS_SCHEMES, "com.google.cloud.bigdataoss:gcs-connector"),
}
_AZURE_CONNECTOR = "org.apache.hadoop:hadoop-azure, of the version of Hadoop that Spark has"


def table_at(spark: SparkSession, path: str, options: Options | None = None) -> Table:
    """The table at a path or URL, whose store is reached as the session reaches it.

    What `options` say of a store goes before what the session's Hadoop settings say, that before the environment.
    Raises as `open_store`.
    """
    return Table.at(path, storage_options(spark, path, options))


def storage_options(spark: SparkSession, path: str, options: Options | None = None) -> dict[str, str]:
    """The credentials and settings of the store that `path` is in, as `open_store` takes them. Raises as that."""
    given = {} if options is None else options.storage_options()
    location = parse_location(path)
    if location.scheme in (LOCAL, MEMORY):
        return given
    # Set while the session runs, Hadoop's settings go by their own names.
    told = {k.removeprefix(_HADOOP): v for k, v in all_settings(spark).items() if k.startswith((_HADOOP, _STORES))}
    told |= {} if options is None else options.hadoop_settings()
    found = storage_options_of(lambda key: told.get(key) or hadoop_setting(spark, key), location)
    return merged_options(found, given)


def require_connector(spark: SparkSession, store: ObjectStore) -> None:
    """Let pass a place that Spark can read and write by itself; looked up once per session and scheme.

    Raises UnsupportedFeature where it has no file system for the scheme.
    """
    if store.local_root is not None:
        return
    root = DataLocations(store).root
    scheme = root.partition("://")[0]
    known: dict[str, bool] = spark.__dict__.setdefault(_KNOWN, {})
    if scheme not in known:
        known[scheme] = knows_scheme(spark, scheme, root)
    if not known[scheme]:
        raise UnsupportedFeature(
            f"{store.root_url}: Spark of this session has no file system for {scheme}:// and can neither read nor "
            "write rows there: add the connector to its class path, as by spark.jars.packages: "
            f"{_CONNECTORS.get(scheme, _AZURE_CONNECTOR)}"
        )
