"""Tables with collated strings: every statement compares by the collation of the column, by both row transports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

import slackwater
from slackwater import DeltaTable, Snapshot, errors
from slackwater.protocol.schema.schema import PrimitiveType, StructField, StructType
from slackwater.spark.session.types import to_spark_schema
from tests.spark.written import actions, read, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

_COLUMNS = (
    "id INT, s STRING COLLATE UTF8_LCASE, a ARRAY<STRING COLLATE UNICODE_CI>, m MAP<STRING, STRING COLLATE UNICODE>, "
    "st STRUCT<x: STRING COLLATE UTF8_LCASE>"
)

_TWO = "id INT, s STRING COLLATE UTF8_LCASE"


def _table(path: Path) -> str:
    return f"delta.`{path}`"


def _create(spark: SparkSession, path: Path, columns: str = _TWO, more: str = "") -> str:
    spark.sql(f"CREATE TABLE {_table(path)} ({columns}) USING delta {more}")
    return _table(path)


def _ids(spark: SparkSession, path: Path, condition: str) -> list[Any]:
    return sorted(row[0] for row in read(spark, path).where(condition).select("id").collect())


def _features(path: Path) -> set[str]:
    return set(Snapshot.load(str(path)).protocol.writer_features or ())


def _stats(path: Path) -> list[dict[str, Any]]:
    versions = range(Snapshot.load(str(path)).version + 1)
    return [json.loads(add["stats"]) for version in versions for add in actions(path, version, "add")]


def test_collations_are_stored_in_the_metadata_of_the_nearest_field(spark: SparkSession, tmp_path: Path) -> None:
    _create(spark, tmp_path / "t", _COLUMNS)
    snapshot = Snapshot.load(str(tmp_path / "t"))
    assert '"name":"s","type":"string","nullable":true,"metadata":{"__COLLATIONS":{"s":"spark.UTF8_LCASE"}}' in (
        snapshot.metadata.schema_string
    )
    assert '"metadata":{"__COLLATIONS":{"a.element":"icu.UNICODE_CI"}}' in snapshot.metadata.schema_string
    assert '"metadata":{"__COLLATIONS":{"m.value":"icu.UNICODE"}}' in snapshot.metadata.schema_string
    assert '"name":"x","type":"string","nullable":true,"metadata":{"__COLLATIONS":{"x":"spark.UTF8_LCASE"}}' in (
        snapshot.metadata.schema_string
    )
    assert {"collations", "domainMetadata"} <= _features(tmp_path / "t")
    assert snapshot.protocol.min_reader_version == 1
    assert read(spark, tmp_path / "t").schema["s"].dataType == T.StringType("UTF8_LCASE")
    assert read(spark, tmp_path / "t").schema["a"].dataType == T.ArrayType(T.StringType("UNICODE_CI"))


@pytest.mark.parametrize("way", ["spark", "arrow"])
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_statements_compare_by_the_collation(spark: SparkSession, tmp_path: Path, way: str, vectors: str) -> None:
    path = tmp_path / "t"
    spark.conf.set("spark.slackwater.rows", way)
    try:
        here = _create(
            spark,
            path,
            _COLUMNS,
            f"TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}', 'delta.enableChangeDataFeed' = 'true', "
            "'delta.columnMapping.mode' = 'name')",
        )
        spark.sql(f"ALTER TABLE {here} ADD CONSTRAINT c CHECK (s IS NULL OR s <> 'no')")
        nested = "array('Q'), map('k', 'v'), named_struct('x', 'Y')"
        spark.sql(f"INSERT INTO {here} VALUES (1, 'a', {nested}), (2, 'B', {nested})")
        spark.sql(f"INSERT INTO {here} VALUES (3, 'c', {nested}), (4, 'D', {nested}), (5, NULL, NULL, NULL, NULL)")
        with pytest.raises(errors.InvariantViolationException, match="CHECK constraint c"):
            spark.sql(f"INSERT INTO {here} VALUES (9, 'NO', {nested})")
        assert _ids(spark, path, "s = 'A'") == [1]
        assert _ids(spark, path, "s >= 'C'") == [3, 4]
        assert _ids(spark, path, "s LIKE 'd%'") == [4]
        assert _ids(spark, path, "st.x = 'y' AND array_contains(a, 'q')") == [1, 2, 3, 4]
        assert _ids(spark, path, "s IN ('b', 'C')") == [2, 3]
        spark.sql(f"DELETE FROM {here} WHERE s = 'A'")
        spark.sql(f"UPDATE {here} SET s = 'Bb' WHERE s = 'b'")
        spark.sql(
            f"MERGE INTO {here} t USING (SELECT k COLLATE UTF8_LCASE k, n FROM VALUES ('BB', 20), ('x', 21) v(k, n)) s "
            "ON t.s = s.k WHEN MATCHED THEN UPDATE SET id = n WHEN NOT MATCHED THEN INSERT (id, s) VALUES (n, k)"
        )
        assert _ids(spark, path, "true") == [3, 4, 5, 20, 21]
        DeltaTable.forPath(spark, str(path)).optimize().executeCompaction()
        assert rows(read(spark, path).select("s", "id")) == [("Bb", 20), ("D", 4), ("c", 3), ("x", 21), (None, 5)]
        feed = read(spark, path, readChangeFeed="true", startingVersion="0")
        assert feed.schema["s"].dataType == T.StringType("UTF8_LCASE")
        deleted = feed.where("_change_type = 'delete' AND s = 'A'")
        assert [row[0] for row in rows(deleted.select("id"))] == [1]
        spark.sql(f"INSERT OVERWRITE {here} VALUES (7, 'z', {nested})")
        spark.sql(f"ALTER TABLE {here} RENAME COLUMN a TO b")
        assert read(spark, path).schema["b"].dataType == T.ArrayType(T.StringType("UNICODE_CI"))
        assert _ids(spark, path, "array_contains(b, 'q') AND s = 'Z'") == [7]
    finally:
        spark.conf.unset("spark.slackwater.rows")
    assert all("s" not in stats.get("minValues", {}) for stats in _stats(path))


def test_collated_columns_have_null_counts_and_no_bounds(spark: SparkSession, tmp_path: Path) -> None:
    here = _create(spark, tmp_path / "t", "id INT, s STRING COLLATE UTF8_LCASE, st STRUCT<x: STRING COLLATE UNICODE>")
    spark.sql(f"INSERT INTO {here} VALUES (1, 'a', named_struct('x', 'y'))")
    (stats,) = _stats(tmp_path / "t")
    assert stats["minValues"] == {"id": 1}
    assert stats["nullCount"] == {"id": 0, "s": 0, "st": {"x": 0}}


def test_bounds_of_another_writer_do_not_prune(spark: SparkSession, tmp_path: Path) -> None:
    here = _create(spark, tmp_path / "t", "id INT, s STRING")
    spark.sql(f"INSERT INTO {here} VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"INSERT INTO {here} VALUES (3, 'C')")
    spark.sql(f"ALTER TABLE {here} ALTER COLUMN s TYPE STRING COLLATE UTF8_LCASE")
    assert {"collations", "domainMetadata"} <= _features(tmp_path / "t")
    assert _ids(spark, tmp_path / "t", "s = 'A'") == [1]
    assert _ids(spark, tmp_path / "t", "s > 'B'") == [3]
    spark.sql(f"DELETE FROM {here} WHERE s = 'A'")
    spark.sql(
        f"MERGE INTO {here} t USING (SELECT 'c' COLLATE UTF8_LCASE AS k) s ON t.s = s.k "
        "WHEN MATCHED THEN UPDATE SET id = 30"
    )
    assert _ids(spark, tmp_path / "t", "true") == [2, 30]
    spark.sql(f"ALTER TABLE {here} ALTER COLUMN s TYPE STRING")
    assert _ids(spark, tmp_path / "t", "s = 'B'") == []
    assert _ids(spark, tmp_path / "t", "s = 'b'") == [2]


def test_a_collation_in_the_condition_does_not_prune(spark: SparkSession, tmp_path: Path) -> None:
    here = _create(spark, tmp_path / "t", "id INT, s STRING")
    spark.sql(f"INSERT INTO {here} VALUES (1, 'a')")
    assert _ids(spark, tmp_path / "t", "s = 'A' COLLATE UTF8_LCASE") == [1]
    assert _ids(spark, tmp_path / "t", "s COLLATE UTF8_LCASE IN ('A', 'B')") == [1]
    assert _ids(spark, tmp_path / "t", "startswith(s, 'A' COLLATE UTF8_LCASE)") == [1]
    spark.sql(f"DELETE FROM {here} WHERE s = 'A' COLLATE UTF8_LCASE")
    assert _ids(spark, tmp_path / "t", "true") == []


def test_writes_of_frames(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.sql("SELECT 1 AS id, 'a' COLLATE UNICODE_CI AS s"), path)
    assert read(spark, path).schema["s"].dataType == T.StringType("UNICODE_CI")
    save(spark.sql("SELECT 2 AS id, 'B' AS s"), path)
    save(spark.sql("SELECT 3 AS id, 'c' COLLATE UTF8_LCASE AS s, 'n' COLLATE UNICODE AS t"), path, mergeSchema="true")
    assert read(spark, path).schema["s"].dataType == T.StringType("UNICODE_CI")
    assert read(spark, path).schema["t"].dataType == T.StringType("UNICODE")
    assert _ids(spark, path, "s IN ('A', 'b', 'C')") == [1, 2, 3]
    replaced = spark.sql("SELECT 4 AS id, 'A' AS s, NULL AS t").write.format("delta").mode("overwrite")
    replaced.option("replaceWhere", "s = 'a'").save(str(path))
    assert _ids(spark, path, "true") == [2, 3, 4]
    other = spark.sql("SELECT 5 AS id, 'x' AS s, NULL AS t").write.format("delta").mode("overwrite")
    with pytest.raises(errors.SlackwaterError, match="replaceWhere"):
        other.option("replaceWhere", "s = 'a'").save(str(path))


def test_a_table_of_the_builder_and_added_columns(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    builder = DeltaTable.create(spark).location(str(path)).addColumn("id", "INT")
    table = builder.addColumn("s", T.StringType("UNICODE_CI")).addColumn("t", "STRING COLLATE UTF8_LCASE").execute()
    here = _table(path)
    spark.sql(f"ALTER TABLE {here} ADD COLUMNS (u STRING COLLATE UNICODE, st STRUCT<v: STRING>)")
    spark.sql(f"ALTER TABLE {here} ADD COLUMNS (st.w STRING COLLATE UTF8_LCASE)")
    assert table.toDF().schema.simpleString() == (
        "struct<id:int,s:string collate UNICODE_CI,t:string collate UTF8_LCASE,u:string collate UNICODE,"
        "st:struct<v:string,w:string collate UTF8_LCASE>>"
    )
    assert "`s` STRING COLLATE UNICODE_CI" in spark.sql(f"SHOW CREATE TABLE {here}").collect()[0][0]
    assert ("s", "string collate UNICODE_CI") in [tuple(row)[:2] for row in spark.sql(f"DESCRIBE {here}").collect()]


def test_a_clone_and_a_stream_keep_the_collation(spark: SparkSession, tmp_path: Path) -> None:
    here = _create(spark, tmp_path / "t")
    spark.sql(f"INSERT INTO {here} VALUES (1, 'a')")
    spark.sql(f"CREATE TABLE {_table(tmp_path / 'c')} SHALLOW CLONE {here}")
    assert _ids(spark, tmp_path / "c", "s = 'A'") == [1]
    _create(spark, tmp_path / "u")
    stream = spark.readStream.format("delta").load(str(tmp_path / "t")).where("s = 'A'")
    query = stream.writeStream.format("delta").option("checkpointLocation", str(tmp_path / "cp"))
    query.trigger(availableNow=True).start(str(tmp_path / "u")).awaitTermination()
    assert _ids(spark, tmp_path / "u", "s = 'A'") == [1]


def test_uses_that_depend_on_equal_bytes_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    for number, more in enumerate(("PARTITIONED BY (s)", "CLUSTER BY (s)")):
        with pytest.raises(errors.InvalidArgument, match=r"collation spark\.UTF8_LCASE"):
            _create(spark, tmp_path / str(number), more=more)
    generated = "s STRING COLLATE UTF8_LCASE, g STRING GENERATED ALWAYS AS (upper(s))"
    with pytest.raises(errors.InvalidArgument, match="s has a collation"):
        _create(spark, tmp_path / "g", generated)
    here = _create(spark, tmp_path / "t")
    spark.sql(f"INSERT INTO {here} VALUES (1, 'a')")
    with pytest.raises(errors.InvalidArgument, match=r"`s` has the collation spark\.UTF8_LCASE"):
        spark.sql(f"OPTIMIZE {here} ZORDER BY (s)")
    spark.sql(f"ALTER TABLE {here} ADD CONSTRAINT c CHECK (s IS NULL OR s <> 'no')")
    with pytest.raises(errors.InvalidArgument, match="column s must stay string"):
        spark.sql(f"ALTER TABLE {here} ALTER COLUMN s TYPE STRING")


def test_the_feature_can_be_dropped_without_collated_columns(spark: SparkSession, tmp_path: Path) -> None:
    here = _create(spark, tmp_path / "t")
    with pytest.raises(errors.OperationNotAllowed, match="still use collations"):
        DeltaTable.forPath(spark, str(tmp_path / "t")).dropFeatureSupport("collations")
    spark.sql(f"ALTER TABLE {here} ALTER COLUMN s TYPE STRING")
    DeltaTable.forPath(spark, str(tmp_path / "t")).dropFeatureSupport("collations")
    assert "collations" not in _features(tmp_path / "t")


@pytest.mark.parametrize("name", ["de_DE", "nothing"])
def test_a_collation_unknown_to_spark_is_refused(spark: SparkSession, tmp_path: Path, name: str) -> None:
    builder = DeltaTable.create(spark).location(str(tmp_path / "t"))
    with pytest.raises(errors.InvalidArgument, match=f"column s: Spark does not know a collation of .*{name}"):
        builder.addColumn("s", T.StringType(name))
    assert not (tmp_path / "t").exists()


def test_rows_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    here = _create(spark, path)
    slackwater.write(str(path), pa.table({"id": pa.array([1, 2], pa.int32()), "s": ["a", "B"]}), mode="append")
    assert _ids(spark, path, "s = 'A'") == [1]
    with pytest.raises(errors.SlackwaterError, match="s = 'A'"):
        slackwater.delete(str(path), "s = 'A'")
    slackwater.delete(str(path), "id = 2")
    assert _ids(spark, path, "true") == [1]
    spark.sql(f"ALTER TABLE {here} ADD CONSTRAINT c CHECK (s IS NULL OR s <> 'no')")
    with pytest.raises(errors.UnsupportedFeature, match="CHECK constraint c"):
        slackwater.write(str(path), pa.table({"id": pa.array([3], pa.int32()), "s": ["NO"]}), mode="append")


def test_types_of_python_get_the_spelling_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    table = DeltaTable.create(spark).location(str(tmp_path / "t")).addColumn("s", T.StringType("utf8_lcase")).execute()
    table.addColumns(T.StructType([T.StructField("a", T.ArrayType(T.StringType("DE_ci")))]))
    assert "spark.UTF8_LCASE" in Snapshot.load(str(tmp_path / "t")).metadata.schema_string
    assert "icu.de_CI" in Snapshot.load(str(tmp_path / "t")).metadata.schema_string


def test_a_directory_of_parquet_files_keeps_its_collations(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("SELECT 1 AS id, 'a' COLLATE UTF8_LCASE AS s").write.parquet(str(tmp_path / "t"))
    DeltaTable.convertToDelta(spark, f"parquet.`{tmp_path / 't'}`")
    assert "collations" in _features(tmp_path / "t")
    assert _ids(spark, tmp_path / "t", "s = 'A'") == [1]
    assert all("s" not in stats["minValues"] for stats in _stats(tmp_path / "t"))


def test_a_default_value_gets_the_collation(spark: SparkSession, tmp_path: Path) -> None:
    columns = "id INT, s STRING COLLATE UTF8_LCASE DEFAULT 'None'"
    here = _create(spark, tmp_path / "t", columns, "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')")
    spark.sql(f"INSERT INTO {here} (id) VALUES (1)")
    assert _ids(spark, tmp_path / "t", "s = 'none'") == [1]


def test_texts_of_a_limited_length_have_no_collation(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(errors.UnsupportedFeature, match=r"found VARCHAR\(3\) COLLATE UTF8_LCASE"):
        _create(spark, tmp_path / "t", "s VARCHAR(3) COLLATE UTF8_LCASE")
    assert not (tmp_path / "t").exists()


@pytest.mark.long
def test_a_collation_in_the_condition_does_not_prune_partitions(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    here = _create(spark, path, "id INT, s STRING, p STRING", "PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO {here} VALUES (1, 'a', 'x'), (2, 'b', 'Y')")
    assert _ids(spark, path, "p = 'X' COLLATE UTF8_LCASE") == [1]
    spark.sql(f"UPDATE {here} SET id = 20 WHERE p = 'y' COLLATE UTF8_LCASE")
    for condition, source in (
        ("t.s = s.k COLLATE UTF8_LCASE", "'A'"),
        ("t.p COLLATE UTF8_LCASE = s.k", "'X'"),
        ("t.p = 'X' COLLATE UTF8_LCASE", "1"),
    ):
        spark.sql(
            f"MERGE INTO {here} t USING (SELECT {source} AS k) s ON {condition} "
            "WHEN MATCHED THEN UPDATE SET id = t.id + 10"
        )
    assert _ids(spark, path, "true") == [20, 31]
    replaced = spark.sql("SELECT 4 AS id, 'c' AS s, 'X' AS p").write.format("delta").mode("overwrite")
    replaced.option("replaceWhere", "p = 'x' COLLATE UTF8_LCASE").save(str(path))
    assert _ids(spark, path, "true") == [4, 20]


def test_collations_of_nested_types_and_new_columns_change(spark: SparkSession, tmp_path: Path) -> None:
    here = _create(spark, tmp_path / "t", "a ARRAY<STRING>, st STRUCT<x: STRING>, m MAP<STRING, STRING>, s STRING")
    for column in ("a.element", "st.x", "m.value"):
        spark.sql(f"ALTER TABLE {here} ALTER COLUMN {column} TYPE STRING COLLATE UTF8_LCASE")
    DeltaTable.forPath(spark, str(tmp_path / "t")).changeColumnType("s", "STRING COLLATE UNICODE")
    expected = (
        "struct<a:array<string collate UTF8_LCASE>,st:struct<x:string collate UTF8_LCASE>,"
        "m:map<string,string collate UTF8_LCASE>,s:string collate UNICODE>"
    )
    assert read(spark, tmp_path / "t").schema.simpleString() == expected
    spark.sql(
        f"ALTER TABLE {here} REPLACE COLUMNS (s STRING COLLATE UNICODE_CI, a ARRAY<STRING COLLATE UTF8_LCASE>, "
        "st STRUCT<x: STRING COLLATE UTF8_LCASE>, m MAP<STRING, STRING COLLATE UTF8_LCASE>)"
    )
    assert read(spark, tmp_path / "t").schema["s"].dataType == T.StringType("UNICODE_CI")
    assert read(spark, tmp_path / "t").schema["a"].dataType == T.ArrayType(T.StringType("UTF8_LCASE"))


def test_checkpoints_with_typed_statistics_do_not_prune(spark: SparkSession, tmp_path: Path) -> None:
    properties = "'delta.checkpointInterval' = '1', 'delta.checkpoint.writeStatsAsStruct' = 'true'"
    here = _create(spark, tmp_path / "t", "id INT, s STRING", f"TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO {here} VALUES (1, 'a')")
    spark.sql(f"ALTER TABLE {here} ALTER COLUMN s TYPE STRING COLLATE UTF8_LCASE")
    spark.sql(f"INSERT INTO {here} VALUES (2, 'B')")
    assert _ids(spark, tmp_path / "t", "s = 'A'") == [1]
    assert _ids(spark, tmp_path / "t", "s = 'b' AND id > 1") == [2]


def test_tables_of_a_lake(spark: SparkSession, tmp_path: Path) -> None:
    with slackwater.Lake.open(str(tmp_path), spark=spark) as lake:
        table = lake.create_table("a", "id INT, s STRING COLLATE UTF8_LCASE")
        with lake.transaction(spark) as tx:
            tx.table("a").append(spark.sql("SELECT 1 AS id, 'a' AS s UNION ALL SELECT 2, 'B'"))
            tx.table("a").delete("s = 'b'")
        assert [row.id for row in table.toDF().where("s = 'A'").collect()] == [1]
        assert table.toDF().count() == 1
        with pytest.raises(errors.InvalidArgument, match="Spark does not know a collation"):
            lake.create_table("b", T.StructType([T.StructField("s", T.StringType("nothing"))]))


@pytest.mark.classic
def test_a_collation_of_another_provider_is_named() -> None:
    schema = StructType((StructField("s", PrimitiveType("string", "fabric.X")),))
    with pytest.raises(errors.UnsupportedFeature, match=r"Spark does not know the collation fabric\.X"):
        to_spark_schema(schema)
