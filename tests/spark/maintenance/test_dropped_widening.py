"""DROP FEATURE typeWidening: files of earlier types are rewritten, and the rows stay as they are."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable, errors
from slackwater.scan.earlier_types import with_earlier_types
from slackwater.scan.snapshot import Snapshot
from tests.spark.changed import FEED, MAPPING, VECTORS, info
from tests.spark.maintenance.rearranged import TRACKED, live
from tests.spark.written import actions, read, rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

COLUMNS = (
    "id INT, b TINYINT, d DATE, n DECIMAL(4, 1), a ARRAY<INT>, m MAP<STRING, FLOAT>, s STRUCT<x: SMALLINT, t: STRING>, "
    "p INT"
)
WIDER = {
    "b": "SMALLINT", "id": "DECIMAL(12, 2)", "d": "TIMESTAMP_NTZ", "n": "DECIMAL(8, 3)", "a.element": "BIGINT",
    "m.value": "DOUBLE", "s.x": "DOUBLE",
}  # fmt: skip
PROPERTIES: dict[str, dict[str, str]] = {
    "plain": {},
    "name mapping": {MAPPING: "name"},
    "id mapping, row tracking, vectors": {MAPPING: "id", TRACKED: "true", VECTORS: "true"},
    "row tracking, change feed": {TRACKED: "true", FEED: "true"},
}


def _table(spark: SparkSession, path: str, **properties: str) -> DeltaTable:
    """Two files of the first types in each of two partitions, then one of the last types."""
    given = {"delta.enableTypeWidening": "true", "delta.feature.timestampNtz": "supported", **properties}
    text = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    spark.sql(f"CREATE TABLE delta.`{path}` ({COLUMNS}) USING delta PARTITIONED BY (p) TBLPROPERTIES ({text})")
    values = (
        "SELECT {id}, {id}, DATE'2024-01-01', 1.5, array({id}, NULL), map('k', 0.5), "
        "named_struct('x', {id}, 't', 'x'), {p}"
    )
    for number, partition in ((1, 1), (2, 1), (3, 2)):
        spark.sql(f"INSERT INTO delta.`{path}` {values.format(id=number, p=partition)}")
    spark.sql(f"INSERT INTO delta.`{path}` {values.format(id=4, p=2)} UNION ALL {values.format(id=5, p=2)}")
    for column, kind in WIDER.items():
        spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN {column} TYPE {kind}")
    spark.sql(f"INSERT INTO delta.`{path}` {values.format(id=6, p=2)}")
    return DeltaTable.forPath(spark, path)


def _earlier(path: str, version: int | None = None) -> list[str]:
    snapshot = Snapshot.load(path, version=version)
    found: list[str] = with_earlier_types(snapshot.table, snapshot.configuration, snapshot.live_files(["path"]))[
        "path"
    ].to_pylist()
    return found


@pytest.mark.parametrize("case", PROPERTIES)
def test_rows_stay_and_files_have_the_current_types(spark: SparkSession, path: str, way: str, case: str) -> None:
    properties = PROPERTIES[case]
    table = _table(spark, path, **properties)
    table.delete("id = 4")
    read_as = {"rowTracking": "true"} if TRACKED in properties else {}
    before, first = rows(read(spark, path, **read_as)), Snapshot.load(path).version
    current = {f["path"] for f in live(path)} - set(_earlier(path))
    table.dropFeatureSupport("typeWidening")
    assert rows(read(spark, path, **read_as)) == before
    assert current <= {f["path"] for f in live(path)}
    after = Snapshot.load(path)
    assert not {"typeWidening", "typeWidening-preview"} & set(after.protocol.writer_features or ())
    assert "typeChanges" not in after.metadata.schema_string
    assert "delta.enableTypeWidening" not in after.metadata.configuration
    wide = {_types(path, file["path"]) for file in live(path)}
    assert len(wide) == 1
    (rewrite,) = actions(path, first + 1, "commitInfo")
    assert rewrite["operation"] == "REORG"
    kinds = ("add", "remove")
    files = [each for kind in kinds for each in actions(path, first + 1, kind)]
    assert files
    assert all(each["dataChange"] is False for each in files)
    assert not actions(path, first + 1, "cdc")
    partitions = [each["partitionValues"] for each in actions(path, first + 1, "add")]
    assert sorted(value for values in partitions for value in values.values()) == ["1", "2"]


def _types(path: str, name: str) -> str:
    """The Parquet types of the table's columns in a file, hidden columns left out."""
    schema = pq.read_metadata(f"{path}/{name}").schema
    leaves = (schema.column(at) for at in range(len(schema.names)))
    return str([(leaf.physical_type, str(leaf.logical_type)) for leaf in leaves if not leaf.path.startswith("_row-")])


@pytest.mark.long
def test_each_row_keeps_its_id_and_version(spark: SparkSession, path: str, way: str) -> None:
    table = _table(spark, path, **{TRACKED: "true"})
    before = sorted(tuple(row) for row in read(spark, path, rowTracking="true").select("id", *_IDS).collect())
    table.dropFeatureSupport("typeWidening")
    after = sorted(tuple(row) for row in read(spark, path, rowTracking="true").select("id", *_IDS).collect())
    assert after == before
    assert len({row[1] for row in before}) == 6


_IDS = ("_row_id", "_row_commit_version")


def test_sql_drops_the_feature_and_truncates_the_history(spark: SparkSession, path: str) -> None:
    table = _table(spark, path)
    before = rows(table.toDF())
    with pytest.raises(errors.OperationNotAllowed, match="may hold traces of typeWidening"):
        spark.sql(f"ALTER TABLE delta.`{path}` DROP FEATURE typeWidening TRUNCATE HISTORY")
    assert _earlier(path) == []
    assert "typeChanges" not in Snapshot.load(path).metadata.schema_string
    spark.sql(
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.dropFeatureTruncateHistory.retentionDuration' = "
        "'interval 0 hours')"
    )
    spark.sql(f"ALTER TABLE delta.`{path}` DROP FEATURE typeWidening TRUNCATE HISTORY")
    assert rows(table.toDF()) == before
    assert info(path)["operation"] == "DROP FEATURE"


def test_table_of_current_files_is_not_rewritten(spark: SparkSession, path: str) -> None:
    table = _table(spark, path)
    table.toDF().write.format("delta").mode("overwrite").save(path)
    files = {file["path"] for file in live(path)}
    spark.sql(f"ALTER TABLE delta.`{path}` DROP FEATURE typeWidening")
    assert {file["path"] for file in live(path)} == files


def test_feature_that_the_table_lacks_rewrites_nothing(spark: SparkSession, path: str) -> None:
    spark.range(3).write.format("delta").save(path)
    with pytest.raises(errors.InvalidArgument, match="does not support"):
        spark.sql(f"ALTER TABLE delta.`{path}` DROP FEATURE typeWidening")
    assert Snapshot.load(path).version == 0


def test_missing_file_leaves_the_feature(spark: SparkSession, path: str) -> None:
    table = _table(spark, path)
    version = Snapshot.load(path).version
    Path(path, live(path)[0]["path"]).unlink()
    with pytest.raises(errors.SlackwaterError):
        table.dropFeatureSupport("typeWidening")
    assert Snapshot.load(path).version == version
