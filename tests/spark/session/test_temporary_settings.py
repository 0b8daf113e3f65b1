"""Settings that hold while a block runs: the user's values come back, whichever threads share the session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slackwater import DeltaTable
from slackwater.log.table import Table
from slackwater.spark.dml.dml_command import DmlCommand
from slackwater.spark.session.temporary_settings import listing_on_driver, with_settings
from tests.spark.written import rows

pytestmark = [pytest.mark.spark, pytest.mark.modes, pytest.mark.usefixtures("enabled")]
KEY, THRESHOLD = "spark.sql.constraintPropagation.enabled", "spark.sql.sources.parallelPartitionDiscovery.threshold"
Setting = Callable[[str, str], None]


def test_the_last_of_several_blocks_brings_the_users_value_back(spark: SparkSession, conf: Setting) -> None:
    conf(KEY, "true")
    first, second = with_settings(spark, {KEY: "false"}), with_settings(spark, {KEY: "false"})
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert spark.conf.get(KEY) == "false", "the second block still needs it"
    second.__exit__(None, None, None)
    assert spark.conf.get(KEY) == "true"


def test_blocks_of_different_values_bring_the_users_value_back(spark: SparkSession) -> None:
    before = spark.conf.get(THRESHOLD)
    first, second = listing_on_driver(spark, 1000), listing_on_driver(spark, 2000)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert spark.conf.get(THRESHOLD) == "2001"
    second.__exit__(None, None, None)
    assert spark.conf.get(THRESHOLD) == before


def test_a_value_that_the_user_sets_during_a_block_stays(spark: SparkSession, conf: Setting) -> None:
    conf(THRESHOLD, "32")
    with with_settings(spark, {THRESHOLD: "50"}):
        spark.conf.set(THRESHOLD, "77")
    assert spark.conf.get(THRESHOLD) == "77"


def test_a_setting_that_cannot_be_set_leaves_the_others_as_they_were(spark: SparkSession, conf: Setting) -> None:
    conf(KEY, "true")
    with (
        pytest.raises(Exception, match="spark.sql.warehouse.dir|modify"),  # noqa: RUF043
        with_settings(spark, {KEY: "false", "spark.sql.warehouse.dir": "/x"}),
    ):
        raise AssertionError("a static setting was set")
    assert spark.conf.get(KEY) == "true"


def test_many_columns_are_written_without_constraints_of_all_pairs(
    spark: SparkSession, path: str, conf: Setting
) -> None:
    conf(KEY, "true")
    wide = [(F.col("id") + at).alias(f"c{at}") for at in range(100)]
    spark.range(0, 4, 1, 1).select("id", *wide).write.format("delta").save(path)
    change = DmlCommand(spark, Table.at(path), "MERGE")
    with change._planned():
        assert spark.conf.get(KEY) == "false"
    change.infers_conditions = True
    with change._planned():
        assert spark.conf.get(KEY) == "true", "a query of the user is planned with all that Spark knows"
    table, source = DeltaTable.forPath(spark, path), spark.range(2, 6, 1, 1).select("id", *wide)
    changed = {f"c{at}": f"t.c{at} + s.c{at}" for at in range(100)}
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdate(set=changed)
    merge.whenNotMatchedInsertAll().execute()
    assert rows(table.toDF().select("id", "c0", "c99")) == [
        *((0, 0, 99), (1, 1, 100), (2, 4, 202), (3, 6, 204), (4, 4, 103), (5, 5, 104)),
    ]
    assert spark.conf.get(KEY) == "true"


def test_changes_in_many_threads_leave_the_users_settings(spark: SparkSession, tmp_path: Path, conf: Setting) -> None:
    keys = {"spark.sql.parquet.outputTimestampType": "INT96", KEY: "true"}
    for key, value in keys.items():
        conf(key, value)
    together = Barrier(4)

    def write(number: int) -> None:
        together.wait()
        spark.range(0, 3, 1, 1).write.format("delta").save(str(tmp_path / str(number)))

    threads = [Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {key: spark.conf.get(key) for key in keys} == keys
