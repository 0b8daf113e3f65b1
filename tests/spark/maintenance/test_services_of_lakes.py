"""Services on the tables of a lake: in transactions, over all tables, by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater
from slackwater.errors import OperationNotAllowed

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
Setting = Callable[[str, str], None]


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[slackwater.Lake]:
    """Tables `a` and `b` with the rows 1 and 2 in each, of one transaction."""
    with slackwater.Lake.open(tmp_path / "lake", spark=spark) as opened:
        for name in ("a", "b"):
            opened.create_table(name, "id BIGINT")
        with opened.transaction(spark) as tx:
            for name in ("a", "b"):
                tx.table(name).append(spark.range(1, 3).coalesce(1))
        yield opened


def _ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.collect())


@pytest.mark.modes
def test_a_lake_becomes_again_what_it_was(spark: SparkSession, lake: slackwater.Lake) -> None:
    (then,) = lake.history(1).selectExpr("unix_millis(timestamp) AS ms").collect()
    lake.table("a").delete("id = 1")
    lake.table("b").delete()
    answer = lake.restore(then.ms)
    assert [(row.table, row.version, row.num_restored_files) for row in answer.collect()] == [("a", 1, 1), ("b", 1, 1)]
    assert (_ids(lake.table("a").toDF()), _ids(lake.table("b").toDF())) == ([1, 2], [1, 2])
    newest = lake.history(1).collect()[0]
    assert (newest.tables, set(newest.operations.values())) == ({"a": 3, "b": 3}, {"RESTORE"})


def test_a_table_is_restored_in_a_transaction(spark: SparkSession, lake: slackwater.Lake) -> None:
    lake.table("a").delete()
    with lake.transaction(spark) as tx:
        table = tx.table("a")
        table.restoreToVersion(1)
        assert _ids(table.toDF()) == [1, 2]
        tx.table("b").append(spark.range(9, 10))
    assert (_ids(lake.table("a").toDF()), _ids(lake.table("b").toDF())) == ([1, 2], [1, 2, 9])
    assert lake.history(1).collect()[0].tables == {"a": 3, "b": 2}


def test_vacuum_of_a_table_with_an_owner_goes_by_what_was_ratified(
    spark: SparkSession, tmp_path: Path, conf: Setting
) -> None:
    """No commit is in the log yet: a table that only the file system was asked about would seem to have no files."""
    from slackwater.owner.embedded import EmbeddedOwner

    conf(CHECK, "false")
    owner = EmbeddedOwner.open(tmp_path / "lake", backfill_delay_s=None)
    with slackwater.Lake(owner, owner.root_url, spark=spark) as lake:
        table = lake.create_table("t", "id BIGINT")
        spark.range(4).coalesce(1).write.format("delta").mode("append").save(lake.location("t"))
        table.delete("id = 0")
        table.vacuum(0, untracked_hours=0)
        assert _ids(table.toDF()) == [1, 2, 3]
        assert len(list(Path(lake.location("t")).glob("*.parquet"))) == 1
        assert [row.operation for row in table.history(2).collect()] == ["VACUUM END", "VACUUM START"]


def test_vacuum_is_no_part_of_a_transaction(spark: SparkSession, lake: slackwater.Lake) -> None:
    with (
        lake.transaction(spark) as tx,
        pytest.raises(OperationNotAllowed, match="VACUUM cannot be part of a transaction"),
    ):
        tx.table("a").vacuum()


def test_a_table_of_the_past_is_not_changed(lake: slackwater.Lake) -> None:
    past = lake.as_of(lake.history(1).collect()[0].timestamp.astimezone()).table("a")
    changes: list[Callable[[], object]] = [past.vacuum, lambda: past.restoreToVersion(0)]
    for change in changes:
        with pytest.raises(OperationNotAllowed, match="not possible in a time slice"):
            change()
