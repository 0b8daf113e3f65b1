"""The picture of the README: a day of a small shop, as `slackwater timeline` draws it.

`python tools/picture.py` writes docs/images/timeline.svg anew; it needs what `make demo` needs.
"""

from __future__ import annotations

import random
import subprocess
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

import slackwater

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "timeline.svg"
ITEMS = 40


def main() -> None:
    """Orders that take from the stock, some of which are paid, all in transactions; then the picture."""
    chance = random.Random(7)  # noqa: S311 - which item is ordered
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = slackwater.enable(builder.config("spark.sql.shuffle.partitions", "1")).getOrCreate()
    with tempfile.TemporaryDirectory() as scratch, slackwater.Lake.open(f"{scratch}/shop", spark=spark) as lake:
        vectors = {"delta.enableDeletionVectors": "true"}
        lake.create_table("orders", "id INT, sku STRING, n INT")
        lake.create_table("payments", "id INT, amount INT")
        lake.create_table("stock", "sku STRING, qty INT", properties=vectors)
        lake.run(
            lambda tx: tx.table("stock").append(spark.range(ITEMS).selectExpr("concat('A', id) AS sku", "9 AS qty"))
        )
        for number in range(14):
            sku, count = f"A{chance.randrange(ITEMS)}", chance.randint(1, 30)
            with lake.transaction(spark) as tx:
                tx.table("orders").append(spark.range(count).selectExpr(f"{number} AS id", f"'{sku}' AS sku", "1 AS n"))
                tx.table("stock").update(f"sku = '{sku}'", {"qty": "qty - 1"})
                if number % 3 == 2:
                    tx.table("payments").append(spark.sql(f"SELECT {number} AS id, 10 AS amount"))
            if number == 8:
                lake.table("orders").optimize().executeCompaction()
            time.sleep(chance.random() * 0.6)
        subprocess.run(["slackwater", "timeline", f"{scratch}/shop", "--out", str(PICTURE)], check=True)
        drawn = PICTURE.read_text(encoding="utf-8")
        PICTURE.write_text(drawn.replace(scratch, "/data"), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
