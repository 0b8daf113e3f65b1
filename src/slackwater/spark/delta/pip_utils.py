"""`delta.pip_utils`: a session builder with Delta support."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from slackwater.spark.enable import enable

__all__ = ["configure_spark_with_delta_pip"]


def configure_spark_with_delta_pip(
    spark_session_builder: SparkSession.Builder, extra_packages: Sequence[str] | None = None
) -> SparkSession.Builder:
    """Return the builder, enabled for `format("delta")`. No Delta JAR is fetched.

    `extra_packages` are Maven coordinates of other packages for Spark to fetch. Raises TypeError if
    `spark_session_builder` is not a builder.
    """
    if not isinstance(spark_session_builder, SparkSession.Builder):
        raise TypeError(
            "This function must be called with a SparkSession builder as the argument. The argument found is of type "
            f"{type(spark_session_builder)}."
        )
    if extra_packages:
        spark_session_builder.config("spark.jars.packages", ",".join(extra_packages))
    return enable(spark_session_builder)
