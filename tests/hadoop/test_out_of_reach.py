"""Tables on Hadoop's file systems, where this process has no JVM that reaches them."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater.errors import InvalidArgument, UnsupportedFeature
from slackwater.spark.session.classic_connect import is_connect

pytestmark = [pytest.mark.spark, pytest.mark.modes]


def test_a_file_system_that_the_session_does_not_have_is_named(spark: SparkSession) -> None:
    slackwater.enable(spark)
    expected = "through Spark Connect" if is_connect(spark) else "no file system for ofs://"
    with pytest.raises(UnsupportedFeature, match=expected):
        spark.range(1).write.format("delta").save("ofs://service/volume/t")
    with pytest.raises(UnsupportedFeature, match=expected):
        spark.read.format("delta").load("ofs://service/volume/t")


def test_a_scheme_that_nobody_knows_is_answered_with_the_known_ones(spark: SparkSession) -> None:
    slackwater.enable(spark)
    with pytest.raises(InvalidArgument, match="unknown scheme 'nowhere'"):
        spark.read.format("delta").load("nowhere://x/t")
