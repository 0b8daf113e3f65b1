"""A program that works through a Connect server whose Python lacks Slackwater, and says on stdout what came of it.

`python bare_client.py ADDRESS DIRECTORY`
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import slackwater


def main(address: str, directory: str) -> None:
    spark = slackwater.enable(SparkSession.builder.remote(address).getOrCreate())
    table, source = f"{directory}/t", f"{directory}/source"
    spark.range(3).write.parquet(source)
    spark.range(3).write.format("delta").save(table)

    def files() -> Any:
        return spark.readStream.schema("id BIGINT").parquet(source)

    def writer(name: str) -> Any:
        writing = files().writeStream.format("delta").trigger(availableNow=True)
        return writing.option("checkpointLocation", f"{directory}/check-{name}")

    def several() -> None:
        with slackwater.Lake.open(f"{directory}/lake", spark=spark) as lake:
            lake.create_table("rows", "id BIGINT")
            landing = slackwater.stream(files()).to(lake, {"rows": lambda batch: batch})
            landing.option("checkpointLocation", f"{directory}/check-several").start()

    def own_function() -> int:
        def write(batch: Any, number: int) -> None:
            batch.write.mode("append").parquet(f"{directory}/copied")

        writing = files().writeStream.trigger(availableNow=True).foreachBatch(write)
        writing.option("checkpointLocation", f"{directory}/check-own").start().awaitTermination()
        return spark.read.parquet(f"{directory}/copied").count()

    steps: dict[str, Callable[[], Any]] = {
        "read": lambda: spark.read.format("delta").load(table).count(),
        "start": lambda: writer("start").start(f"{directory}/copy"),
        "toTable": lambda: writer("toTable").toTable("copied"),
        "several tables": several,
        "source": lambda: spark.readStream.format("delta").load(table),
        "own function": own_function,
    }
    found = {name: _outcome(step) for name, step in steps.items()}
    found["tables"] = [each.name for each in spark.catalog.listTables()]
    found["left"] = sorted(each.name for each in Path(directory).iterdir())
    sys.stdout.write(json.dumps(found))


def _outcome(step: Callable[[], Any]) -> Any:
    try:
        found = step()
        return found if isinstance(found, int) else repr(found)
    except Exception as error:  # noqa: BLE001  (it is what is looked at)
        return [type(error).__name__, str(error)]


if __name__ == "__main__":
    main(*sys.argv[1:])
