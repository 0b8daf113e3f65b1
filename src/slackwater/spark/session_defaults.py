"""Table properties that a session gives to every table it creates.

Source: delta-spark's `spark.databricks.delta.properties.defaults.<key without delta.>`.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import SparkSession

_PREFIX = "spark.databricks.delta.properties.defaults."


def default_properties(spark: SparkSession, given: Collection[str] = ()) -> dict[str, str]:
    """The properties, by their full keys, without those that the user gives for one table: `given`, in any case."""
    settings = spark.conf.getAll
    found = {f"delta.{key.removeprefix(_PREFIX)}": value for key, value in settings.items() if key.startswith(_PREFIX)}
    folded = {key.lower() for key in given}
    return {key: value for key, value in found.items() if key.lower() not in folded}
