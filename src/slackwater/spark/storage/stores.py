"""Object stores with the credentials of the session.

Source: Hadoop's FileSystem (`fs.<scheme>.impl`); Spark's `spark.hadoop.…` settings.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from slackwater.log.table import Table
from slackwater.owner.api.owner_registry import catalog_options
from slackwater.spark.hadoop.filesystem_access import on_default_file_system, reach_hadoop
from slackwater.spark.session.classic_connect import all_settings, chosen_hadoop_setting
from slackwater.spark.session.enabled_sessions import cached_in_statement, require_running
from slackwater.spark.session.reader_options import Options
from slackwater.storage.hadoop_settings import merged_options, storage_options_of
from slackwater.storage.location import LOCAL, MEMORY, is_on_hadoop, parse_location

_OUTSIDE = "spark.slackwater.allowPathsOutsideRoot"
_HADOOP, _STORES = "spark.hadoop.", "fs."


def table_at(spark: SparkSession, path: str, options: Options | None = None) -> Table:
    """Return the table at a path or URL, with the session's access to the store.

    In classic mode, a path without a scheme is on the file system of `fs.defaultFS`. Store settings in `options` take
    precedence over the session's Hadoop settings, and these over the environment. Raises as `open_store`, and
    InvalidArgument for a stopped session.
    """
    require_running(spark)
    path = on_default_file_system(spark, path)
    choice = None if options is None else options.choice("allowPathsOutsideRoot")
    follows = follows_outside(spark) if choice is None else choice
    return Table.at(path, storage_options(spark, path, options), follows)


def follows_outside(spark: SparkSession) -> bool:
    """Return whether the session follows absolute paths outside the roots of its tables. Raises InvalidArgument."""
    told = cached_in_statement(spark, _OUTSIDE, lambda: spark.conf.get(_OUTSIDE, None))
    return Options({_OUTSIDE: told}).choice(_OUTSIDE) is not False


def storage_options(spark: SparkSession, path: str, options: Options | None = None) -> dict[str, str]:
    """Return the credentials and settings for the store of `path`, in the form for `open_store`.

    For a table of a catalog, such as a Unity Catalog, its credentials precede those of the session. Also registers
    access to `path` if it is on a Hadoop file system. Raises as `open_store`, and the errors of the catalog.
    """
    given = {} if options is None else options.storage_options()
    found = session_options(spark, path, options)
    location = parse_location(path)
    if location.scheme in (LOCAL, MEMORY) or is_on_hadoop(location.scheme):
        return given
    return merged_options(merged_options(found, catalog_options(location.url)), given)


def session_options(spark: SparkSession, path: str, options: Options | None = None) -> dict[str, str]:
    """Return the credentials and settings of the session and its Hadoop `options` for the store of `path`.

    Also registers access to `path` if it is on a Hadoop file system.
    """
    location = parse_location(path)
    if location.scheme not in (LOCAL, MEMORY):
        require_running(spark)
    reach_hadoop(spark, path)
    if location.scheme in (LOCAL, MEMORY) or is_on_hadoop(location.scheme):
        return {}
    # Hadoop settings set at run time have no prefix.
    told = {k.removeprefix(_HADOOP): v for k, v in all_settings(spark).items() if k.startswith((_HADOOP, _STORES))}
    told |= {} if options is None else options.hadoop_settings()
    return storage_options_of(lambda key: told.get(key) or chosen_hadoop_setting(spark, key), location)
