"""Tables with variants and shapes: every statement of a table, both transports of rows, shredded or not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from slackwater import DeltaTable, Snapshot, errors
from slackwater.protocol.schema.schema import GeospatialType, StructField, StructType
from slackwater.spark.session.types import from_spark_schema, to_spark_schema
from tests.spark.written import actions, column, data_files, listing, read, rows, table_log

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

_EVENT = """parse_json('{"os":"ios","n":' || id || ',"tags":["a",null]}')"""
_POINT = "0101000000000000000000F03F0000000000000040"
_GEOMETRY, _GEOGRAPHY = f"st_geomfromwkb(X'{_POINT}', 4326)", f"st_geogfromwkb(X'{_POINT}')"


def _table(path: Path) -> str:
    return f"delta.`{path}`"


def _numbers(spark: SparkSession, path: Path) -> list[tuple[Any, ...]]:
    return rows(read(spark, path).selectExpr("id", "v:n::int", "s.v:os::string", "size(a)"))


@pytest.mark.parametrize("way", ["spark", "arrow"])
def test_statements_on_a_table_with_variants(spark: SparkSession, tmp_path: Path, way: str) -> None:
    path, here = tmp_path / "t", _table(tmp_path / "t")
    spark.conf.set("spark.slackwater.rows", way)
    try:
        spark.sql(
            f"CREATE TABLE {here} (id BIGINT, v VARIANT, s STRUCT<v: VARIANT>, a ARRAY<VARIANT>) USING delta "
            "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true', "
            "'delta.columnMapping.mode' = 'id')"
        )
        spark.sql(f"ALTER TABLE {here} ADD CONSTRAINT few CHECK (v:n::int < 100)")
        made = f"SELECT id, {_EVENT} v, named_struct('v', {_EVENT}) s, array({_EVENT}, NULL) a FROM range(IDS)"
        spark.sql(f"INSERT INTO {here} {made.replace('IDS', '5')}")
        with pytest.raises(errors.InvariantViolationException, match="few"):
            spark.sql(f"INSERT INTO {here} {made.replace('IDS', '100, 101')}")
        spark.sql(f"DELETE FROM {here} WHERE v:n::int = 1")
        spark.sql(f"UPDATE {here} SET v = parse_json('{{\"n\": 7}}'), s = NULL WHERE v:n::int = 2")
        spark.sql(
            f"MERGE INTO {here} t USING ({made.replace('IDS', '3, 6')}) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET a = NULL WHEN NOT MATCHED THEN INSERT *"
        )
        expected = [(0, 0, "ios", 2), (2, 7, None, 2), (3, 3, "ios", None), (4, 4, "ios", None), (5, 5, "ios", 2)]
        assert _numbers(spark, path) == expected
        DeltaTable.forPath(spark, str(path)).optimize().executeCompaction()
        assert _numbers(spark, path) == expected
        feed = read(spark, path, readChangeFeed="true", startingVersion="3").selectExpr(
            "_change_type", "id", "v:n::int"
        )
        assert ("delete", 1, 1) in rows(feed)
    finally:
        spark.conf.unset("spark.slackwater.rows")
    assert [p["readerFeatures"] for p in actions(path, 0, "protocol")] == [
        ["columnMapping", "deletionVectors", "variantType"]
    ]
    found = Snapshot.load(path).to_arrow(["id", "v"], where="id = 2", variant_format="json").to_pylist()
    assert found == [{"id": 2, "v": '{"n":7}'}]


def test_variants_are_shredded_only_where_the_table_says_so(spark: SparkSession, tmp_path: Path) -> None:
    path, here = tmp_path / "t", _table(tmp_path / "t")
    spark.sql(f"SELECT id, {_EVENT} v FROM range(3)").coalesce(1).write.format("delta").save(str(path))
    (plain,) = data_files(path)
    assert "typed_value" not in str(pq.read_metadata(plain).schema)
    assert json.loads(actions(path, 0, "add")[0]["stats"])["nullCount"] == {"id": 0, "v": 0}
    spark.sql(f"ALTER TABLE {here} SET TBLPROPERTIES ('delta.enableVariantShredding' = 'true')")
    spark.sql(f"SELECT id, IF(id = 4, NULL, {_EVENT}) v FROM range(3, 6)").coalesce(1).write.format("delta").mode(
        "append"
    ).save(str(path))
    (shredded,) = set(data_files(path)) - {plain}
    assert "typed_value" in str(pq.read_metadata(shredded).schema)
    assert json.loads(actions(path, 2, "add")[0]["stats"])["nullCount"] == {"id": 0, "v": 1}
    assert "variantShredding" in Snapshot.load(path).protocol.reader_features  # type: ignore[operator]
    ours = Snapshot.load(path).to_arrow(variant_format="json").to_pylist()
    theirs = [row.asDict() for row in read(spark, path).selectExpr("id", "to_json(v) v").collect()]
    assert sorted(ours, key=lambda row: row["id"]) == sorted(theirs, key=lambda row: row["id"])


@pytest.mark.classic
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE {t} (id INT, v VARIANT) USING delta PARTITIONED BY (v)", "cannot be partitioned by v"),
        ("CREATE TABLE {t} (id INT, v VARIANT) USING delta CLUSTER BY (v)", "cannot be clustered by the type variant"),
        (
            "CREATE TABLE {t} (s STRING, v VARIANT GENERATED ALWAYS AS (parse_json(s))) USING delta",
            "values of type variant are not comparable",
        ),
        ("CREATE TABLE {t} (g GEOMETRY(ANY)) USING delta", "several reference systems"),
        ("CREATE TABLE {t} (t TIME) USING delta", "not in the Delta protocol"),
        ("CREATE TABLE {t} (t INTERVAL DAY TO SECOND) USING delta", "not in the Delta protocol"),
    ],
)
def test_what_the_types_do_not_allow_is_refused(
    spark: SparkSession, tmp_path: Path, statement: str, message: str
) -> None:
    with pytest.raises((errors.InvalidArgument, errors.UnsupportedFeature), match=message):
        spark.sql(statement.replace("{t}", _table(tmp_path / "t")))
    assert listing(tmp_path) == []


def test_a_column_is_generated_from_a_variant(spark: SparkSession, tmp_path: Path) -> None:
    made = DeltaTable.create(spark).location(str(tmp_path / "t")).addColumn("v", "VARIANT")
    made.addColumn("n", "INT", generatedAlwaysAs="v:n::int").execute()
    spark.sql("SELECT parse_json('{\"n\": 3}') v").write.format("delta").mode("append").save(str(tmp_path / "t"))
    assert rows(read(spark, tmp_path / "t").select("n")) == [(3,)]


@pytest.mark.skipif(not hasattr(T, "GeometryType"), reason="this PySpark has no types for shapes")
@pytest.mark.parametrize("way", ["spark", "arrow"])
def test_statements_on_a_table_with_shapes(spark: SparkSession, tmp_path: Path, way: str) -> None:
    path, here = tmp_path / "t", _table(tmp_path / "t")
    spark.conf.set("spark.slackwater.rows", way)
    try:
        spark.sql(f"CREATE TABLE {here} (id INT, g GEOMETRY(4326), h GEOGRAPHY(4326)) USING delta")
        spark.sql(f"INSERT INTO {here} VALUES (1, {_GEOMETRY}, {_GEOGRAPHY}), (2, NULL, NULL)")
        spark.sql(f"UPDATE {here} SET h = NULL WHERE st_srid(g) = 4326")
        spark.sql(
            f"MERGE INTO {here} t USING (SELECT 3 id, {_GEOMETRY} g) s ON t.id = s.id "
            "WHEN NOT MATCHED THEN INSERT (id, g) VALUES (s.id, s.g)"
        )
        DeltaTable.forPath(spark, str(path)).optimize().executeCompaction()
        expected = [(1, _POINT, None), (2, None, None), (3, _POINT, None)]
        assert rows(read(spark, path).selectExpr("id", "hex(st_asbinary(g))", "hex(st_asbinary(h))")) == expected
        with pytest.raises(errors.InvalidArgument, match=r"geometry\(3857\) cannot be stored"):
            spark.sql(f"INSERT INTO {here} VALUES (4, st_geomfromwkb(X'{_POINT}', 3857), NULL)")
    finally:
        spark.conf.unset("spark.slackwater.rows")
    snapshot = Snapshot.load(path)
    assert snapshot.protocol.reader_features == ("geospatial",)
    assert [str(field.type) for field in snapshot.schema] == [
        "integer",
        "geometry(OGC:CRS84)",
        "geography(OGC:CRS84, SPHERICAL)",
    ]
    (shape,) = snapshot.to_arrow(["g"], where="id = 1")["g"].to_pylist()
    assert shape == bytes.fromhex(_POINT)


@pytest.mark.classic
def test_shapes_of_a_system_that_spark_does_not_know_are_binary() -> None:
    schema = StructType((StructField("g", GeospatialType("geometry", "EPSG:999999")),))
    assert to_spark_schema(schema)["g"].dataType == T.BinaryType()


@pytest.mark.classic
def test_types_of_spark_and_of_the_log_convert_both_ways() -> None:
    kinds: list[T.DataType] = [T.VariantType(), T.ArrayType(T.VariantType())]
    if hasattr(T, "GeometryType"):
        kinds += [T.GeometryType(0), T.GeometryType(4326), T.GeographyType(4326)]
    schema = T.StructType([T.StructField(f"c{at}", kind) for at, kind in enumerate(kinds)])
    assert to_spark_schema(from_spark_schema(schema)) == schema


def test_void_inside_other_columns_is_read_and_not_written(spark: SparkSession, tmp_path: Path) -> None:
    nothing = {"type": "struct", "fields": [column("a", "long"), column("none", "void")]}
    columns = [
        column("id", "long"),
        column("s", nothing),
        column("l", {"type": "array", "elementType": "void", "containsNull": True}),
    ]
    path = table_log(tmp_path / "t", columns)
    pq.write_table(pa.table({"id": [1, 2], "s": [{"a": 1}, None]}), path / "f.parquet")
    add = {
        "path": "f.parquet",
        "partitionValues": {},
        "size": (path / "f.parquet").stat().st_size,
        "modificationTime": 0,
    }
    commit = path / "_delta_log" / f"{1:020d}.json"
    commit.write_text(json.dumps({"add": {**add, "dataChange": True}}))
    assert rows(read(spark, path).select("id", "s.a", "s.none", "l")) == [(1, 1, None, None), (2, None, None, None)]
    with pytest.raises(errors.UnsupportedFeature, match=r"s\.none is of type void inside another column"):
        read(spark, path, rows="spark").collect()
    before = listing(path)
    for statement in ("INSERT INTO {t} (id) VALUES (3)", "DELETE FROM {t} WHERE id = 1"):
        with pytest.raises(errors.InvalidArgument, match=r"s\.none is of type void"):
            spark.sql(statement.replace("{t}", _table(path)))
    assert listing(path) == before


def test_integers_that_became_decimals_of_few_digits_are_read(spark: SparkSession, tmp_path: Path) -> None:
    changes = {"delta.typeChanges": [{"fromType": "integer", "toType": "decimal(8,2)"}]}
    path = table_log(tmp_path / "t", [{**column("d", "decimal(8,2)"), "metadata": changes}])
    shutil.rmtree(path / "_delta_log")
    (path / "_delta_log").mkdir()
    schema = {"type": "struct", "fields": [{**column("d", "decimal(8,2)"), "metadata": changes}]}
    pq.write_table(pa.table({"d": pa.array([5, None], pa.int32())}), path / "f.parquet")
    features = {"readerFeatures": ["typeWidening"], "writerFeatures": ["typeWidening"]}
    lines = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {
            "metaData": {
                "id": "t",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(schema),
                "partitionColumns": [],
                "configuration": {},
            }
        },
        {
            "add": {
                "path": "f.parquet",
                "partitionValues": {},
                "size": (path / "f.parquet").stat().st_size,
                "modificationTime": 0,
                "dataChange": True,
            }
        },
    ]
    (path / "_delta_log" / f"{0:020d}.json").write_text("\n".join(map(json.dumps, lines)))
    assert [str(d) for (d,) in rows(read(spark, path))] == ["5.00", "None"]
    spark.sql(f"INSERT INTO {_table(path)} VALUES (7.25BD)")
    assert sorted(str(d) for (d,) in rows(read(spark, path))) == ["5.00", "7.25", "None"]
