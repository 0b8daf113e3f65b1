"""Tables whose definition a write or a clone changes: delta-spark makes the same of them, and goes on with ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slackwater import Snapshot

from .delta_spark import DeltaSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

WIDER = (
    "MERGE WITH SCHEMA EVOLUTION INTO {t} AS t USING (SELECT CAST(2 AS BIGINT) AS k, CAST(1.5 AS DECIMAL(12,2)) AS d, "
    "2.5D AS f, named_struct('e', array(5000000000), 'm', map(1L, 2.5D)) AS x, "
    "TIMESTAMP_NTZ'2024-01-01 01:00:00' AS p) AS s ON t.k = s.k WHEN MATCHED THEN UPDATE SET *"
)
CREATE = (
    "CREATE TABLE {t} (k INT, d SMALLINT, f FLOAT, x STRUCT<e: ARRAY<INT>, m: MAP<INT, SMALLINT>>, p DATE) USING delta "
    "TBLPROPERTIES ('delta.feature.%s' = 'supported', 'delta.feature.timestampNtz' = 'supported')"
)
STATEMENTS = (
    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
    "INSERT INTO {t} SELECT id, id, id, named_struct('e', array(id), 'm', map(id, id)), DATE'2024-01-01' "
    "FROM range(0, 4, 1, 1)",
    WIDER,
)


@pytest.mark.parametrize("feature", ["typeWidening", "typeWidening-preview"])
def test_a_merge_widens_columns_as_that_of_delta_spark(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path, feature: str
) -> None:
    for who in ("ours", "theirs"):
        # Only delta-spark adds the preview.
        delta_spark.run((CREATE % feature).format(t=f"delta.`{tmp_path}/{who}`"))
    for statement in STATEMENTS:
        ours.sql(statement.format(t=f"delta.`{tmp_path}/ours`"))
        delta_spark.run(statement.format(t=f"delta.`{tmp_path}/theirs`"))
    query = "SELECT k, d, f, to_json(x) AS x, p FROM delta.`{}` ORDER BY k"
    found, expected = (delta_spark.sql(query.format(tmp_path / who)) for who in ("ours", "theirs"))
    assert found.schema == expected.schema
    assert found.rows.equals(expected.rows)
    read = ours.sql(query.format(tmp_path / "ours"))
    plain = [(field["name"], field["type"]) for field in expected.schema["fields"]]
    assert [(field["name"], field["type"]) for field in json.loads(read.schema.json())["fields"]] == plain
    assert [row.x for row in read.collect()] == expected.rows["x"].to_pylist()
    tables = [Snapshot.load(str(tmp_path / who)) for who in ("ours", "theirs")]
    assert [set(table.protocol.writer_features or ()) >= {feature} for table in tables] == [True, True]
    assert tables[0].schema == tables[1].schema


def test_delta_spark_goes_on_with_a_table_that_we_replaced_by_a_clone(
    ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    tracked = "TBLPROPERTIES ('delta.enableRowTracking' = 'true')"
    table, source = f"delta.`{tmp_path}/t`", f"delta.`{tmp_path}/source`"
    for statement in (
        f"CREATE TABLE {table} (a INT) USING delta CLUSTER BY (a) {tracked}",
        f"INSERT INTO {table} SELECT id FROM range(0, 3, 1, 1)",
        f"CREATE TABLE {source} (a INT) USING delta {tracked}",
        f"INSERT INTO {source} SELECT id FROM range(0, 2, 1, 1)",
        f"CREATE OR REPLACE TABLE {table} SHALLOW CLONE {source}",
    ):
        ours.sql(statement)
    delta_spark.run(f"INSERT INTO {table} VALUES (9)")
    rows = delta_spark.sql(f"SELECT a, _metadata.row_id AS id FROM {table} ORDER BY a").rows.to_pylist()
    assert rows == [{"a": 0, "id": 3}, {"a": 1, "id": 4}, {"a": 9, "id": 5}]
    assert delta_spark.detail(f"{tmp_path}/t")["clusteringColumns"] == []
