"""A program of its own that works with the JVM of a session that runs: what is killed then is the driver's Python.

A JVM of its own would take longer to begin than all that a test does with it.
"""

from __future__ import annotations

import os
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

PORT, SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"


def gateway_of(spark: SparkSession) -> dict[str, str]:
    """What is to be in the environment of a program that asks for `attached_session`."""
    told: Any = spark.sparkContext._gateway.gateway_parameters  # type: ignore[union-attr]
    return {PORT: str(told.port), SECRET: told.auth_token}


def attached_session() -> SparkSession:
    """A new session of the Spark whose gateway the environment tells."""
    assert PORT in os.environ
    gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]  # of PySpark
    jvm = gateway.jvm
    java = jvm.JavaSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate())
    context = SparkContext(gateway=gateway, jsc=java, conf=SparkConf(_jconf=java.getConf()))
    return SparkSession(context).newSession()
