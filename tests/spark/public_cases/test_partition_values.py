"""Partition values and partition columns, as other engines lost or doubled their rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as PeerTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slackwater import DeltaTable
from slackwater.errors import InvariantViolationException, UnsupportedFeature
from tests.spark.written import actions, column, first_row, read, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.shared, pytest.mark.usefixtures("enabled")]

TEXTS = (
    "%20", "%25", "a%2Fb", "100%", "@X@", "a+b", "x/y", "product 1 (beta)", "{a}[b]", "\u00e9", "e\u0301", "n\nl",
)  # fmt: skip


def table_by_hand(
    root: Path, files: Sequence[tuple[str, str, str | None]], nullable: bool, vectors: bool = False
) -> str:
    """A table partitioned by the text `p`, with five rows in each file: its path in the log, on disk, its value."""
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features} if vectors else None
    metadata = {
        "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(
            {"type": "struct", "fields": [column("id", "integer"), column("p", "string", nullable)]}
        ),
        "partitionColumns": ["p"],
        "configuration": {"delta.enableDeletionVectors": "true"} if vectors else {},
        "createdTime": 1_700_000_000_000,
    }
    lines: list[dict[str, Any]] = [
        {"protocol": protocol or {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": metadata},
    ]
    for number, (path, place, value) in enumerate(files):
        ids = pa.array([number * 10 + i for i in range(5)], pa.int32())
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": ids}), root / place)
        size = (root / place).stat().st_size
        add = {"path": path, "partitionValues": {"p": value}, "size": size, "modificationTime": 1, "dataChange": True}
        lines.append({"add": {**add, "stats": json.dumps({"numRecords": 5})}})
    (root / "_delta_log").mkdir(parents=True)
    (root / "_delta_log" / f"{0:020d}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(root)


DAYS = ("2020-06-14", "2020-06-15", "2020-06-16", "2020-6-13")


@pytest.mark.parametrize(
    "condition",
    [
        "c2 < TIMESTAMP'2020-06-15 00:00:00'",
        "c2 = DATE'2020-06-15' - INTERVAL 1 DAY",
        "c2 = TIMESTAMP'2020-06-14 00:00:00'",
        "c2 >= DATE'2020-06-14'",
        "c2 IN (DATE'2020-06-13')",
        "NOT (c2 = DATE'2020-06-14')",
    ],
)
def test_a_text_partition_beside_a_time_is_cast_as_spark_casts_it(
    spark: SparkSession, path: str, condition: str
) -> None:
    plain = spark.createDataFrame(list(enumerate(DAYS)), "c1 INT, c2 STRING")
    expected = rows(plain.where(condition))
    left = rows(plain.where(f"NOT ({condition})"))
    plain.write.format("delta").partitionBy("c2").save(path)
    assert rows(read(spark, path).where(condition)) == expected
    DeltaTable.forPath(spark, path).delete(condition)
    assert rows(read(spark, path)) == left
    save(plain.where(condition), path, "overwrite", replaceWhere=condition)
    assert rows(read(spark, path)) == rows(plain)
    target = DeltaTable.forPath(spark, path).alias("t")
    one = spark.range(1).alias("s")
    target.merge(one, F.expr(condition)).whenMatchedDelete().execute()
    assert rows(read(spark, path)) == left


def test_a_text_partition_that_is_no_date_is_an_error_and_nothing_changes(spark: SparkSession, path: str) -> None:
    plain = spark.createDataFrame(list(enumerate([*DAYS, "no date"])), "c1 INT, c2 STRING")
    plain.write.format("delta").partitionBy("c2").save(path)
    with pytest.raises(Exception, match="no date"):
        DeltaTable.forPath(spark, path).delete("c2 = DATE'2020-06-14'")
    assert rows(read(spark, path)) == rows(plain)


@pytest.mark.parametrize("mode", ["none", "name"])
def test_an_overwrite_may_change_the_partition_columns(spark: SparkSession, path: str, mode: str) -> None:
    before, after = [("a", 1), ("b", 2)], [("c", 3), ("d", 4)]
    builder = (
        DeltaTable.create(spark).location(path).addColumn("name", "STRING").addColumn("id", "INT").partitionedBy("name")
    )
    builder.property("delta.columnMapping.mode", mode).execute()
    save(spark.createDataFrame(before, "name STRING, id INT"), path)
    frame = spark.createDataFrame(after, "name STRING, id INT")
    frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true").partitionBy("id").save(path)

    def names(version: int, kind: str) -> set[str]:
        (metadata,) = actions(path, 0 if kind == "remove" else 2, "metaData")
        fields = json.loads(metadata["schemaString"])["fields"]
        physical = {f["metadata"].get("delta.columnMapping.physicalName", f["name"]): f["name"] for f in fields}
        return {physical[key] for action in actions(path, version, kind) for key in action["partitionValues"]}

    assert (names(2, "add"), names(2, "remove")) == ({"id"}, {"name"})
    assert rows(read(spark, path)) == after
    assert rows(read(spark, path, versionAsOf=1).where("name = 'b'")) == [("b", 2)]
    DeltaTable.forPath(spark, path).restoreToVersion(1)
    save(spark.createDataFrame([("e", 5)], "name STRING, id INT"), path)
    assert rows(read(spark, path)) == [*before, ("e", 5)]
    if mode == "none":
        assert sorted(PeerTable(path).to_pyarrow_table().column("id").to_pylist()) == [1, 2, 5]


def test_a_replaced_partition_keeps_the_partitioning_that_is_not_restated(spark: SparkSession, path: str) -> None:
    regions = "element_at(array('NA', 'EU', 'AP', 'SA'), CAST(id % 4 + 1 AS INT)) AS region"
    spark.range(1000).selectExpr("id", regions).write.format("delta").partitionBy("region").save(path)
    save(spark.range(50).selectExpr("id", "'NA' AS region"), path, "overwrite", replaceWhere="region = 'NA'")
    found = read(spark, path)
    assert (found.count(), found.where("region IS NULL").count()) == (800, 0)
    assert first_row(DeltaTable.forPath(spark, path).detail()).partitionColumns == ["region"]


@pytest.mark.parametrize("checkpointed", [False, True])
def test_an_empty_partition_text_counts_once(spark: SparkSession, tmp_path: Path, checkpointed: bool) -> None:
    files = [("p=E/a.parquet", "p=E/a.parquet", ""), ("p=N/b.parquet", "p=N/b.parquet", None)]
    path = table_by_hand(tmp_path / "t", [*files, ("p=x/c.parquet", "p=x/c.parquet", "x")], nullable=True)
    if checkpointed:
        properties = {"delta.checkpointInterval": "1", "delta.checkpoint.writeStatsAsStruct": "true"}
        DeltaTable.forPath(spark, path).setProperties(properties)
        assert list(Path(path, "_delta_log").glob("*.checkpoint*.parquet"))
    frame = read(spark, path)
    counts = [frame.where(test).count() for test in ("p IS NULL", "p IS NOT NULL", "p = ''", "p = 'x'")]
    assert counts == [10, 5, 0, 5]


def test_an_empty_text_is_null_to_the_rules_of_a_partition_column(spark: SparkSession, path: str) -> None:
    builder = DeltaTable.create(spark).location(path).addColumn("v", "STRING").addColumn("p", "STRING", nullable=False)
    builder.partitionedBy("p").execute()
    table = DeltaTable.forPath(spark, path)
    empty = spark.createDataFrame([("a", "")], "v STRING, p STRING")
    with pytest.raises(InvariantViolationException, match="column p"):
        save(empty, path)
    with pytest.raises(InvariantViolationException, match="column p"):
        table.alias("t").merge(empty.alias("s"), "false").whenNotMatchedInsertAll().execute()
    save(spark.createDataFrame([("a", "q")], "v STRING, p STRING"), path)
    with pytest.raises(InvariantViolationException, match="column p"):
        table.update(set={"p": "''"})
    assert rows(read(spark, path)) == [("a", "q")]


def test_rules_of_nullable_partition_columns_see_an_empty_text_as_null(spark: SparkSession, path: str) -> None:
    builder = DeltaTable.create(spark).location(path).addColumn("s", "STRING").addColumn("v", "INT")
    builder.addColumn("p", "STRING", generatedAlwaysAs="SUBSTRING(s, 1, 2)").partitionedBy("p").execute()
    table = DeltaTable.forPath(spark, path)
    table.addConstraint("positive", "v > 0")
    save(spark.createDataFrame([("", 1), ("abc", 2)], "s STRING, v INT"), path)
    save(spark.createDataFrame([("", 3, "")], "s STRING, v INT, p STRING"), path)
    table.update(set={"v": "v + 10"})
    assert rows(read(spark, path)) == [("", 11, None), ("", 13, None), ("abc", 12, "ab")]
    table.addConstraint("set", "v < 100 OR p IS NOT NULL")
    with pytest.raises(InvariantViolationException, match="set"):
        save(spark.createDataFrame([("", 100, "")], "s STRING, v INT, p STRING"), path)


def test_an_empty_text_in_a_not_null_partition_column_is_not_folded_away(spark: SparkSession, tmp_path: Path) -> None:
    files = [("p=E/a.parquet", "p=E/a.parquet", ""), ("p=x/c.parquet", "p=x/c.parquet", "x")]
    frame = read(spark, table_by_hand(tmp_path / "t", files, nullable=False))
    counts = [frame.where(test).count() for test in ("p IS NULL", "p IS NOT NULL", "p = ''", "p = 'x'")]
    assert counts == [5, 5, 0, 5]


@pytest.mark.parametrize("name", ["p", "x%20x", "a.b"])
@pytest.mark.long
def test_partition_texts_of_any_kind_come_back(spark: SparkSession, path: str, name: str) -> None:
    content = sorted(enumerate(TEXTS), key=repr)
    frame = spark.createDataFrame(content, f"id INT, `{name}` STRING")
    frame.write.format("delta").partitionBy(name).option("delta.enableChangeDataFeed", "true").save(path)
    assert rows(read(spark, path)) == content
    for number, text in content:
        assert rows(read(spark, path).where(F.col(f"`{name}`") == text)) == [(number, text)]
    stream = spark.readStream.format("delta").load(path).writeStream.format("delta").partitionBy(name)
    stream = stream.option("checkpointLocation", f"{path}_c").trigger(availableNow=True)
    stream.start(f"{path}_s").awaitTermination()
    assert rows(read(spark, f"{path}_s")) == content
    feed = read(spark, path, readChangeFeed="true", startingVersion="0").select("id", f"`{name}`")
    assert rows(feed) == content
    table = DeltaTable.forPath(spark, path)
    table.delete("id IN (7, 11)")
    table.generate("symlink_format_manifest")
    assert len(list(Path(path, "_symlink_format_manifest").rglob("manifest"))) == len(TEXTS) - 2
    table.restoreToVersion(0)
    assert rows(read(spark, path)) == content
    frame.write.partitionBy(name).parquet(f"{path}_p")
    DeltaTable.convertToDelta(spark, f"parquet.`{path}_p`", f"`{name}` STRING")
    assert rows(read(spark, f"{path}_p")) == content


@pytest.mark.parametrize("directory", ["my %20 table#1/ü?x=1", "..%2F/t"])
def test_a_table_may_be_anywhere(spark: SparkSession, tmp_path: Path, directory: str) -> None:
    path = str(tmp_path / directory)
    spark.range(5).selectExpr("id", "CAST(id % 2 AS STRING) AS p").write.format("delta").partitionBy("p").save(path)
    table = DeltaTable.forPath(spark, path)
    table.delete("id = 1")
    table.optimize().executeCompaction()
    assert read(spark, path).count() == 4
    assert Path(path, "_delta_log").is_dir()


def test_paths_of_other_writers_name_each_file_once(
    spark: SparkSession, tmp_path: Path, vectors: str, conf: Callable[[str, str], None]
) -> None:
    files = [
        ("p=a b/part-0.parquet", "p=a b/part-0.parquet", "a b"),
        ("p=c%20d/part-1.parquet", "p=c d/part-1.parquet", "c d"),
        ("p=%2540X%2540/part-2.parquet", "p=%40X%40/part-2.parquet", "@X@"),
    ]
    path = table_by_hand(tmp_path / "t", files, nullable=True, vectors=vectors == "true")
    table = DeltaTable.forPath(spark, path)
    expected = {number * 10 + i for number in range(3) for i in range(5)}

    def require_rows() -> None:
        assert [row.id for row in read(spark, path).orderBy("id").select("id").collect()] == sorted(expected)
        if vectors == "false":
            assert sorted(PeerTable(path).to_pyarrow_table().column("id").to_pylist()) == sorted(expected)

    require_rows()
    for digit in (1, 2):
        table.delete(f"id % 10 = {digit}")
        expected -= {number * 10 + digit for number in range(3)}
        require_rows()
    table.update("id % 10 = 3", {"id": "id + 100"})
    expected = {i + 100 if i % 10 == 3 else i for i in expected}
    require_rows()
    table.optimize().executeCompaction()
    conf("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    table.vacuum(0)
    require_rows()


FAR = {
    "DATE'+10000-12-31'": None,
    "DATE'-0044-03-15'": None,
    "CAST(timestamp_micros(9223372036854775807) AS DATE)": "year of at most 5 digits",
    "TIMESTAMP'9999-12-31 23:59:59.999999'": None,
    "TIMESTAMP'0001-01-01 00:00:00'": None,
    "TIMESTAMP'+10000-12-31 23:59:59.999999'": "years 1 to 9999",
    "timestamp_micros(-9223372036854775807)": "years 1 to 9999",
}


@pytest.mark.parametrize("value", FAR)
def test_a_partition_of_a_far_time_is_read_back_or_refused(spark: SparkSession, path: str, value: str) -> None:
    frame = spark.range(1).selectExpr("id", f"{value} AS p")
    refusal = FAR[value]
    if refusal is not None:
        with pytest.raises(UnsupportedFeature, match=refusal):
            frame.write.format("delta").partitionBy("p").save(path)
        assert not DeltaTable.isDeltaTable(spark, path)
        return
    frame.write.format("delta").partitionBy("p").save(path)
    shown = "CAST(p AS STRING)"
    assert rows(read(spark, path).where(f"p = {value}").selectExpr(shown)) == rows(frame.selectExpr(shown))
