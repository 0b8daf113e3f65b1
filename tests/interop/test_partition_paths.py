"""Paths of partition directories: delta-spark and we read the same rows of them, and refuse the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slackwater import errors

from .delta_spark import DeltaSpark, DeltaSparkError
from .rows import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

FRAGMENTS = (
    *("p=a", "p=a/", "p=a/k=0", "k=0/p=a", "k=00", "p=007", "p=b c%2F%25", "p=b%20c%2F%25", "p=a@v1", "p=a/k=0@v1"),
    *("p=a/k=1", "p=7", "P=a", "p=zz", "p=a/k=x", "v=x", "p=a/sub", "x=1/y=2", "p=a/p=b", "p=a/k=0/x.parquet"),
)


@pytest.mark.parametrize("options", [{}, {"versionAsOf": "1"}, {"versionAsOf": "0"}], ids=str)
@pytest.mark.long
def test_both_read_and_refuse_the_same_partition_directories(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path, options: dict[str, str]
) -> None:
    path = str(tmp_path / "table")
    delta_spark.run(
        f"CREATE TABLE delta.`{path}` (id BIGINT, p STRING, k INT, v STRING) USING delta PARTITIONED BY (p, k)"
    )
    value = "element_at(array('a', 'b c/%', CAST(NULL AS STRING), '007'), CAST(id % 4 + 1 AS INT))"
    delta_spark.write(f"SELECT id, {value} AS p, CAST(id % 2 AS INT) AS k, 'x' AS v FROM range(8)", path)
    delta_spark.write("SELECT 100L AS id, 'a' AS p, 0 AS k, 'y' AS v", path)
    for fragment in FRAGMENTS:
        try:
            expected = rows_of(delta_spark.read(f"{path}/{fragment}", **options).rows)
        except DeltaSparkError:
            with pytest.raises((errors.InvalidArgument, errors.TableNotFound)):
                ours.read.format("delta").options(**options).load(f"{path}/{fragment}")
        else:
            found = ours.read.format("delta").options(**options).load(f"{path}/{fragment}")
            assert rows_of(found.toArrow()) == expected, fragment
