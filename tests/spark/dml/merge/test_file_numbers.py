"""Files whose names have one checksum: rows are told apart by the files' numbers all the same."""

from __future__ import annotations

import random
import uuid
import zlib
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import slackwater
from slackwater.spark.read.file_columns import FileNumbers, are_by_url
from tests.spark.tables import write_table

pytestmark = pytest.mark.spark


def two_names_alike(root: Path) -> tuple[str, str]:
    """Names of files below `root` that have one checksum as URLs."""
    chance = random.Random(1)  # noqa: S311
    seen: dict[int, str] = {}
    while True:
        name = f"part-{uuid.UUID(int=chance.getrandbits(128))}.parquet"
        number = zlib.crc32(f"file:{root}/{name}".encode())
        if number in seen:
            return seen[number], name
        seen[number] = name


@pytest.mark.parametrize("updated", [2, 4, 6])
def test_a_merge_changes_the_rows_that_match(spark: SparkSession, updated: int, tmp_path: Path) -> None:
    root = tmp_path / "t"
    path = write_table(
        root, [{"id": [1, 2]}, {"id": [3, 4]}, {"id": [5, 6]}], names=["a.parquet", *two_names_alike(root)]
    )
    table = slackwater.DeltaTable.forPath(spark, path)
    source = spark.range(1, 7).alias("s")
    merge = table.alias("t").merge(source, "t.id = s.id")
    merge.whenMatchedUpdate(condition=f"s.id = {updated}", set={"id": F.lit(100)}).execute()
    assert sorted(row.id for row in table.toDF().collect()) == sorted({1, 2, 3, 4, 5, 6, 100} - {updated})


def test_a_file_has_the_same_number_whichever_others_are_asked_for(tmp_path: Path) -> None:
    urls = [f"file:{tmp_path}/{name}" for name in ("c.parquet", *two_names_alike(tmp_path))]
    numbers = FileNumbers()
    found = numbers.of(urls)
    assert len(set(found)) == 3
    assert [numbers.of([url]) for url in reversed(urls)] == [[number] for number in reversed(found)]
    assert [are_by_url([n], [url]) for n, url in zip(found, urls, strict=True)] == [True, True, False]
