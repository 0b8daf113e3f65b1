"""The flights in a lake: from its adoption on, a commit owner ratifies every commit to the table."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

import slackwater
from demo.terminal import console, yes


def adopt(spark: SparkSession, root: Path, name: str, path: Path) -> slackwater.Lake:
    """An embedded owner takes the table over; the code that writes to it stays as it is."""
    console.print("\n[bold]2. Bring the table into a lake, whose commit owner ratifies every commit from now on")
    lake = slackwater.Lake.open(root, spark=spark)
    lake.adopt(name, path, managed="catalogManaged")
    features = lake.snapshot(name).protocol.writer_features or ()
    console.print(
        f"   lake = slackwater.Lake.open({root.name!r}); lake.adopt({name!r}, path, managed='catalogManaged')"
    )
    console.print(f"   the table lists the features {', '.join(f for f in features if 'ommit' in f or 'atalog' in f)}")
    return lake


def leave(spark: SparkSession, lake: slackwater.Lake, name: str) -> None:
    """What the owner knows; and what happens to those who do not ask it."""
    console.print("\n[bold]10. The commit owner, and those who do not ask it")
    (found,) = lake.tables()
    stamps = [row.timestamp for row in lake.table(name).history().orderBy("version").collect()]
    console.print(f"   version {found.ratified_version} is ratified, {found.backfilled_version} is in _delta_log")
    console.print(f"   every commit has a later timestamp than the one before: {yes(stamps == sorted(set(stamps)))}")
    path, rows = lake.location(name), lake.table(name).toDF().count()
    lake.close()
    try:
        slackwater.DeltaTable.forPath(spark, path).delete("month = 2")
    except slackwater.errors.CommitOwnerRequired as error:
        console.print(
            f"   without the lake: {type(error).__name__}: … {str(error).rpartition(': ')[2]}", highlight=False
        )
    published = slackwater.Snapshot.load(path, published_only=True).to_arrow(["month"]).num_rows
    console.print(f"   what is published in the log: {published:,} rows, all of them: {yes(published == rows)}")
