"""The table feature `multiTableTransaction` in SQL: created, added, dropped, and groups of SQL transactions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

import slackwater
from slackwater.errors import OperationNotAllowed
from slackwater.log.files.commits import commits_after
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.protocol.actions.transaction_groups import TransactionGroup
from slackwater.protocol.features.table_features import MULTI_TABLE

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]
PROPERTIES = "TBLPROPERTIES ('delta.feature.multiTableTransaction-dev' = 'supported')"


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[slackwater.Lake]:
    owner = EmbeddedOwner.open(tmp_path / "lake", backfill_delay_s=None)
    with slackwater.Lake(owner, owner.root_url, spark=spark) as opened:
        opened.create_table("stock", "sku STRING", managed="catalogManaged")
        opened.attach(spark)
        yield opened


def groups(lake: slackwater.Lake, name: str) -> dict[int, TransactionGroup]:
    lake.backfill(name)
    commits = commits_after(lake.snapshot(name).store, -1)
    found = {commit.version: TransactionGroup.among(commit.actions, name) for commit in commits}
    return {version: group for version, group in found.items() if group is not None}


def test_sql_gives_tables_the_feature_and_its_transactions_are_groups(
    spark: SparkSession, lake: slackwater.Lake
) -> None:
    spark.sql("USE lake")
    spark.sql(f"CREATE TABLE orders (sku STRING) USING delta {PROPERTIES}")

    def both() -> None:
        spark.sql("BEGIN TRANSACTION")
        spark.sql("INSERT INTO orders VALUES ('A1')")
        spark.sql("INSERT INTO stock VALUES ('A1')")
        spark.sql("COMMIT")

    with pytest.raises(OperationNotAllowed, match="stock does not"):
        both()
    spark.sql(f"ALTER TABLE stock SET {PROPERTIES}")
    assert lake.snapshot("stock").configuration.supports(MULTI_TABLE)
    both()
    (one,), (other,) = groups(lake, "orders").values(), groups(lake, "stock").values()
    assert one == other
    assert sorted(one.versions.values()) == [1, 2]
    assert spark.table("orders").count() == spark.table("stock").count() == 1
    spark.sql("ALTER TABLE stock DROP FEATURE `multiTableTransaction-dev`")
    assert not lake.snapshot("stock").configuration.supports(MULTI_TABLE)
