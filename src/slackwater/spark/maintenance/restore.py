"""RESTORE for a session: its settings and its time zone, the result in a DataFrame.

Source: delta-spark's RESTORE.
"""

from __future__ import annotations

import datetime as dt

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from slackwater.log.history import to_ms
from slackwater.log.table import Table
from slackwater.maintenance.restore import RestoreResult, restore
from slackwater.protocol.actions.time_zones import time_zone
from slackwater.spark.progress.progress import Progress
from slackwater.spark.session.local_frame import result_frame
from slackwater.spark.session.settings import SessionSettings, session_zone, with_machine_zone

RESTORE_RESULT = spark_types.StructType(
    [spark_types.StructField(name, spark_types.LongType()) for name in RestoreResult.__dataclass_fields__]
)
"""The result columns of `DeltaTable.restoreToVersion` and `restoreToTimestamp`, with sizes in bytes."""


def restore_table(
    spark: SparkSession, table: Table, version: int | None = None, timestamp: str | dt.datetime | None = None
) -> DataFrame:
    """Run `slackwater.maintenance.restore.restore` with the session's settings. Return a frame with RESTORE_RESULT."""
    settings = SessionSettings.of(spark)
    moment = None if timestamp is None else to_ms(with_machine_zone(timestamp), time_zone(session_zone(spark)))
    with Progress.of(spark, "RESTORE") as progress, progress.stage("comparing versions"):
        result = restore(
            table,
            version,
            moment,
            ignore_missing_files=ignores_missing_files(spark),
            user_metadata=settings.user_metadata,
            user_name=settings.user_name,
            said=None if timestamp is None else str(timestamp),
        )
    return result_frame(spark, [tuple(result.to_dict().values())], RESTORE_RESULT, "RESTORE")


def ignores_missing_files(spark: SparkSession) -> bool:
    """Return whether the session's settings ignore missing files."""
    return (spark.conf.get("spark.sql.files.ignoreMissingFiles", None) or "false").lower() == "true"
