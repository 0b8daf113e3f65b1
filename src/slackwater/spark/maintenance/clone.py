"""CLONE for a session: the target's location, the settings of commits, the arguments in delta-spark's form.

Source: delta-spark's CLONE.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from slackwater.errors import UnsupportedFeature
from slackwater.log.table import Table
from slackwater.maintenance.clone import CloneResult, shallow_clone
from slackwater.protocol.actions.paths import is_absolute
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.catalog.resolve import path_in_text
from slackwater.spark.progress.progress import Progress
from slackwater.spark.session.argument_checks import require_type
from slackwater.spark.session.reader_options import Options
from slackwater.spark.session.settings import SessionSettings
from slackwater.spark.storage.stores import table_at

CLONE_RESULT = spark_types.StructType(
    [
        spark_types.StructField(name, spark_types.LongType())
        for name in (
            "source_table_size",
            "source_num_of_files",
            "num_removed_files",
            "num_copied_files",
            "removed_files_size",
            "copied_files_size",
        )
    ]
)
"""The result of SHALLOW CLONE: numbers of files and their bytes, for the source, removed files and copied files."""


def clone_table(
    spark: SparkSession,
    source: Snapshot,
    target: str,
    is_shallow: bool,
    is_replaced: bool,
    properties: Mapping[str, str] | None,
) -> tuple[Table, CloneResult]:
    """Run `slackwater.maintenance.clone.shallow_clone` with the session's settings. Return also the Table of the clone.

    Raises UnsupportedFeature for a deep clone and for names in a catalog, ValueError for arguments of another type.
    """
    path = _path_of(target, is_shallow, is_replaced, properties)
    settings = SessionSettings.of(spark)
    # The clone refers to files in the source's folder, outside its own root.
    clone = table_at(spark, path, Options({"allowPathsOutsideRoot": "true"}))
    with Progress.of(spark, "CLONE") as progress, progress.stage("listing files"):
        result = shallow_clone(
            source, clone, is_replaced, properties, settings.user_metadata, user_name=settings.user_name
        )
        progress.done(files=result.source_num_of_files)
    return clone, result


def _path_of(target: Any, is_shallow: Any, is_replaced: Any, properties: Any) -> str:
    require_type("target", target, str)
    require_type("isShallow", is_shallow, bool)
    require_type("replace", is_replaced, bool)
    if properties is not None:
        require_type("properties", properties, dict)
    if not is_shallow:
        raise UnsupportedFeature(
            "only shallow clones are supported (DELTA_UNSUPPORTED_DEEP_CLONE). Set isShallow=True, or write "
            "table.toDF() to the target for a copy of the rows",
            error_class="DELTA_UNSUPPORTED_DEEP_CLONE",
        )
    path = path_in_text(target) or target
    if not is_absolute(path):
        raise UnsupportedFeature(
            f"{target}: the target of a clone must be a path. Use an absolute path or a URL, or delta.`/path`",
            error_class="DELTA_INVALID_CLONE_PATH",
        )
    return path
