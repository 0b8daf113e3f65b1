"""Tables for Iceberg's writers, icebergWriterCompatV1 and V3: every statement keeps their rules."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from slackwater import errors
from slackwater.protocol.schema.schema import walk_fields
from slackwater.scan.snapshot import Snapshot
from tests.spark.written import data_files, read, rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]


@pytest.mark.parametrize("version", [1, 3])
def test_a_table_for_the_writers_of_iceberg(spark: SparkSession, path: str, version: int) -> None:
    here = f"delta.`{path}`"
    spark.sql(
        f"CREATE TABLE {here} (id INT, s STRUCT<x: INT>, l ARRAY<INT>, part INT) USING delta PARTITIONED BY (part) "
        f"TBLPROPERTIES ('delta.enableIcebergWriterCompatV{version}' = 'true')"
    )
    spark.sql(f"INSERT INTO {here} VALUES (1, named_struct('x', 2), array(3), 4), (5, NULL, NULL, NULL)")
    spark.sql(f"ALTER TABLE {here} ADD COLUMNS (s.y INT, z STRING)")
    spark.sql(f"ALTER TABLE {here} RENAME COLUMN id TO key")
    spark.sql(f"UPDATE {here} SET z = 'new' WHERE key = 1")
    spark.sql(f"DELETE FROM {here} WHERE key = 5")
    spark.sql(f"INSERT INTO {here} (key, part) VALUES (6, NULL)")
    assert rows(read(spark, path).select("key", "s.x", "s.y", "z", "part")) == [
        (1, 2, None, "new", 4),
        (6, None, None, None, None),
    ]
    columns = [column for _, column in walk_fields(Snapshot.load(path).schema)]
    names = {name for file in data_files(path) for name in pq.read_schema(file).names if not name.startswith("_row-")}
    assert names == {c.metadata["delta.columnMapping.physicalName"] for c in Snapshot.load(path).schema}
    assert all(
        c.metadata["delta.columnMapping.physicalName"] == f"col-{c.metadata['delta.columnMapping.id']}" for c in columns
    )
    for statement, message in (
        (f"ALTER TABLE {here} ADD COLUMNS (b TINYINT)", "does not allow the type byte"),
        (f"ALTER TABLE {here} ADD CONSTRAINT c CHECK (key > 0)", "does not allow the CHECK constraint c"),
        (f"ALTER TABLE {here} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')", "the change data feed"),
        (f"ALTER TABLE {here} SET TBLPROPERTIES ('delta.feature.collations' = 'supported')", "features collations"),
    ):
        with pytest.raises(errors.InvalidArgument, match=message):
            spark.sql(statement)
    with pytest.raises(errors.InvalidArgument, match="does not allow the type short"):
        spark.sql("SELECT 7 AS key, 1 AS part, CAST(1 AS SMALLINT) AS small").write.format("delta").mode(
            "append"
        ).option("mergeSchema", "true").save(path)
