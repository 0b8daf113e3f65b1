"""What OPTIMIZE leaves behind is read by others as we read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater import DeltaTable

deltalake = pytest.importorskip("deltalake")

pytestmark = [pytest.mark.spark, pytest.mark.classic]
_ROWS = "select id, nullif(id % 3, 2) p, concat('t', id) t, date'2026-01-01' + int(id) d from range(0, 60, 1, 3)"


def _by_deltalake(path: str) -> list[tuple[Any, ...]]:
    return _sorted(deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path)).execute("select id, p, t from t"))


def _sorted(found: Any) -> list[tuple[Any, ...]]:
    import pyarrow as pa

    table = pa.table(found.read_all()) if hasattr(found, "read_all") else pa.table(found)
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


@pytest.mark.parametrize("how", ["compacted", "z-ordered", "clustered"])
def test_deltalake_reads_the_same_rows_after(spark: SparkSession, tmp_path: Path, how: str) -> None:
    slackwater.enable(spark)
    path = str(tmp_path / "t")
    writer = spark.sql(_ROWS).write.format("delta")
    (writer if how == "clustered" else writer.partitionBy("p")).save(path)
    table = DeltaTable.forPath(spark, path)
    if how == "clustered":
        table.clusterBy("p", "t")
    optimize = table.optimize()
    (optimize.executeZOrderBy("t", "d") if how == "z-ordered" else optimize.executeCompaction()).collect()
    expected = sorted(((n, None if n % 3 == 2 else n % 3, f"t{n}") for n in range(60)), key=repr)
    assert _by_deltalake(path) == expected
    assert len(slackwater.Snapshot.load(path).files().to_pylist()) == (1 if how == "clustered" else 3)
