"""The examples in the docstrings of the public names, as somebody pastes them; each public name has one."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

import slackwater
from slackwater.spark.history.system_time import SystemTime
from slackwater.spark.lake.time_slice import TimeSlice
from slackwater.spark.lake.transaction import LakeTransaction

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled"), pytest.mark.modes]

NAMED = [getattr(slackwater, name) for name in slackwater.__all__]
EXPLAINED = [*(found for found in NAMED if inspect.isclass(found) or inspect.isfunction(found))]
EXPLAINED += [LakeTransaction, SystemTime, TimeSlice]
OF_A_LAKE = (LakeTransaction, SystemTime, TimeSlice)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[slackwater.Lake]:
    """Orders, of which there are none, and what is in stock; row versions can be followed."""
    followed = {"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"}
    with slackwater.Lake.open(tmp_path / "lake", spark=spark) as found:
        found.create_table("orders", "sku STRING, at TIMESTAMP")
        found.create_table("stock", "sku STRING, qty INT", properties=followed)
        stock = spark.createDataFrame([("A1", 10)], "sku STRING, qty INT")
        stock.write.format("delta").mode("append").save(found.location("stock"))
        yield found


@pytest.fixture
def flights(tmp_path: Path) -> str:
    """A table with two files of a row each."""
    path = str(tmp_path / "flights")
    kind = slackwater.protocol.schema.schema
    columns = (kind.StructField("month", kind.INTEGER), kind.StructField("carrier", kind.STRING))
    slackwater.Transaction.create(path, kind.StructType(columns), ["month"]).commit("CREATE TABLE")
    tx = slackwater.Transaction(path)
    for month in ("3", "4"):
        file = tmp_path / "flights" / f"month={month}" / "part-1.parquet"
        file.parent.mkdir()
        pq.write_table(pa.table({"carrier": ["AA"]}), file)
        size = file.stat().st_size
        tx.add(slackwater.AddFile(f"month={month}/part-1.parquet", {"month": month}, size, 0, stats='{"numRecords":1}'))
    tx.commit("WRITE")
    return path


@pytest.mark.parametrize("explained", EXPLAINED, ids=lambda found: found.__name__)
def test_the_example_says_what_happens(
    explained: Any, spark: SparkSession, path: str, flights: str, request: pytest.FixtureRequest
) -> None:
    names: dict[str, Any] = {"slackwater": slackwater, "spark": spark, "F": F, "path": path, "flights": flights}
    if explained in OF_A_LAKE:
        names["lake"] = request.getfixturevalue("lake")
    example = doctest.DocTestParser().get_doctest(explained.__doc__ or "", names, explained.__name__, None, 0)
    assert example.examples, "no example"
    said: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=doctest.FAIL_FAST).run(example, out=said.append)
    assert not failed, "".join(said)
