"""A Unity Catalog, `slackwater serve` in a process of its own, as a lake of Spark: the guide, and SQL by name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater.errors import OperationNotAllowed, TableNotFound
from tests.ports import free_port
from tests.spark.written import rows
from tests.stores.documents import blocks

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]
GUIDE = "docs/guides/unity-catalog.md"
PROGRAM = f"{sys.executable} -m slackwater"


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The server that the guide starts, on another port."""
    port = free_port()
    (block,) = blocks(GUIDE, "sh")
    script = block.replace("slackwater ", f"{PROGRAM} ").replace("8080", str(port))
    process = subprocess.Popen(
        ["bash", "-c", f"{script.strip()}\necho; echo $!\nwait"], cwd=tmp_path, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    lines = iter(process.stdout)
    server = next(int(line) for line in lines if line.strip().isdigit())
    yield f"http://localhost:{port}"
    os.kill(server, signal.SIGTERM)
    process.communicate()


def test_the_guide(spark: SparkSession, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"spark": spark}
    try:
        for block in blocks(GUIDE):
            exec(compile(block.replace("http://localhost:8080", url), GUIDE, "exec"), names)  # noqa: S102
        assert "3 ['sales.orders']" in capsys.readouterr().out
        assert rows(spark.table("main.sales.orders")) == [(2, "oil"), (3, "rice")]
    finally:
        with suppress(KeyError):
            names["lake"].close()


def test_statements_name_the_tables_of_the_catalog(spark: SparkSession, url: str) -> None:
    with slackwater.Lake.connect(f"uc:{url}/api/2.1/unity-catalog", catalog="main", spark=spark) as lake:
        lake.attach(spark, "main")
        spark.sql("CREATE TABLE main.sales.orders (id BIGINT, item STRING) USING delta PARTITIONED BY (item)")
        spark.sql("INSERT INTO main.sales.orders VALUES (1, 'tea'), (2, 'salt')")
        merged = "SELECT 2 AS id, 'oil' AS item UNION ALL SELECT 3, 'rice'"
        clauses = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        spark.sql(f"MERGE INTO main.sales.orders t USING ({merged}) s ON t.id = s.id {clauses}")
        spark.sql("DELETE FROM main.sales.orders WHERE id = 1")
        spark.sql("ALTER TABLE main.sales.orders ADD COLUMNS (n INT)")
        spark.sql("CREATE TABLE main.sales.copy USING delta AS SELECT id FROM main.sales.orders")
        spark.range(3, 5).write.format("delta").mode("append").saveAsTable("main.sales.copy")
        assert rows(spark.table("main.sales.orders")) == [(2, "oil", None), (3, "rice", None)]
        assert rows(spark.table("main.sales.copy")) == [(2,), (3,), (3,), (4,)]
        assert rows(spark.sql("SELECT id FROM main.sales.orders VERSION AS OF 1")) == [(1,), (2,)]
        assert [row.tableName for row in spark.sql("SHOW TABLES IN main.sales").collect()] == ["copy", "orders"]
        operations = [row.operation for row in lake.table("sales.orders").history().collect()]
        assert operations == ["ADD COLUMNS", "DELETE", "MERGE", "WRITE", "CREATE TABLE"]
        spark.sql("OPTIMIZE main.sales.orders")
        spark.sql("VACUUM main.sales.orders")
        spark.sql("DROP TABLE main.sales.copy")
        assert lake.table_names() == ["sales.orders"]
        with pytest.raises(OperationNotAllowed, match="no transactions over several tables"):
            spark.sql("BEGIN TRANSACTION ON main")
        with pytest.raises(TableNotFound):
            spark.sql("SELECT * FROM main.sales.missing").collect()


def test_two_catalogs_and_their_own_lake_are_open_at_once(spark: SparkSession, url: str) -> None:
    """Our own client and the open one commit to one table in turn."""
    with (
        slackwater.Lake.connect(f"uc:{url}/api/2.1/unity-catalog", catalog="main", spark=spark) as catalog,
        slackwater.Lake.connect(url, spark=spark) as lake,
    ):
        catalog.create_table("default.stock", "sku STRING, qty INT")
        frame = spark.createDataFrame([("A1", 10)], "sku STRING, qty INT")
        frame.write.format("delta").mode("append").save(catalog.location("default.stock"))
        with lake.transaction() as tx:
            tx.table("stock").update("sku = 'A1'", {"qty": "qty - 1"})
        assert rows(catalog.table("stock").toDF()) == rows(lake.table("stock").toDF()) == [("A1", 9)]
        assert [catalog.snapshot("stock").version, lake.snapshot("stock").version] == [2, 2]
