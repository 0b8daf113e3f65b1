"""Rows with times, for tests in different time zones of the session."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

ZONE = "spark.sql.session.timeZone"
ZONES = {"U": "UTC", "K": "Asia/Kolkata", "N": "America/New_York"}
CONDITIONS = [
    "ts = '2024-01-05 05:00:00'",
    "ts >= DATE'2024-01-05' AND ts < '2024-01-05 04:00:00'",
    "CAST(ts AS DATE) = DATE'2024-01-05'",
]
"""Conditions on the rows of `two_days`, true for other rows in each of ZONES."""


def two_days(spark: SparkSession) -> DataFrame:
    """A row each half hour of two days from 2024-01-04 in UTC, in one task. In a session in UTC, `day` is the day."""
    times = F.timestamp_seconds(F.lit(1_704_326_400) + F.col("id") * 1800)
    return spark.range(0, 96, 1, 1).select("id", times.alias("ts"), F.date_trunc("day", times).alias("day"))
