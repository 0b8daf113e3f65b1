"""Tables for Iceberg's writers: other engines read them. delta-spark 4.4 does not know the features."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .delta_spark import DeltaSpark, DeltaSparkError
from .peers import PEERS, require_same_rows, why_absent
from .rows import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.parametrize("version", [1, 3])]

_UNREADABLE = {
    "deltalake-pyarrow": "columns are looked up by display name",
    "polars": "it does not know column mapping",
}


def _table(ours: SparkSession, path: str, version: int) -> str:
    here = f"delta.`{path}`"
    ours.sql(
        f"CREATE TABLE {here} (id INT, s STRING) USING delta "
        f"TBLPROPERTIES ('delta.enableIcebergWriterCompatV{version}' = 'true')"
    )
    ours.sql(f"INSERT INTO {here} VALUES (1, 'a'), (2, 'b')")
    ours.sql(f"DELETE FROM {here} WHERE id = 1")
    return here


def test_delta_spark_reads_the_table_and_does_not_write_it(
    version: int, ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    here = _table(ours, str(tmp_path / "t"), version)
    mine = ours.read.format("delta").load(str(tmp_path / "t")).toArrow()
    assert rows_of(delta_spark.sql(f"SELECT * FROM {here}").rows) == rows_of(mine)
    with pytest.raises(DeltaSparkError) as written:
        delta_spark.run(f"INSERT INTO {here} VALUES (3, 'c')")
    assert written.value.condition == "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"
    with pytest.raises(DeltaSparkError) as created:
        delta_spark.run(
            f"CREATE TABLE delta.`{tmp_path / 'u'}` (id INT) USING delta "
            f"TBLPROPERTIES ('delta.enableIcebergWriterCompatV{version}' = 'true')"
        )
    assert created.value.condition == "DELTA_UNKNOWN_CONFIGURATION"


@pytest.mark.parametrize("peer", PEERS)
def test_another_engine_reads_the_table(version: int, peer: str, ours: SparkSession, tmp_path: Path) -> None:
    if reason := why_absent(peer):
        pytest.skip(reason)
    _table(ours, str(tmp_path / "t"), version)
    mine = ours.read.format("delta").load(str(tmp_path / "t")).toArrow()
    require_same_rows(lambda: PEERS[peer](str(tmp_path / "t")), mine, _UNREADABLE.get(peer))
