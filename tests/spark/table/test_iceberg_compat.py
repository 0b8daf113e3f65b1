"""Iceberg compatibility, versions 1 and 2: what files and tables must look like while it is on."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable, errors
from slackwater.protocol.schema.schema import StructField, parse_schema, walk_fields
from slackwater.scan.snapshot import Snapshot
from tests.spark.committed import actions, append, column_metadata, live_paths, read, rows
from tests.spark.written import struct_of

pytestmark = [pytest.mark.spark, pytest.mark.classic, pytest.mark.usefixtures("enabled")]

V1, V2, V3 = (f"delta.enableIcebergCompatV{version}" for version in (1, 2, 3))
MODE = "delta.columnMapping.mode"
NESTED = "parquet.field.nested.ids"
DDL = (
    "id INT, at TIMESTAMP, price DECIMAL(9,2), large DECIMAL(30,3), l array<int>, deep array<array<struct<x: int>>>, "
    "m map<string, struct<y: array<date>>>, s struct<inner: map<int, binary>>"
)
ROW = (
    1,
    dt.datetime(2024, 5, 6, 7, 8, 9, 123456),
    Decimal("12.34"),
    Decimal("-5.678"),
    [1, None, 3],
    [[(7,), None], None, []],
    {"k": ([dt.date(2020, 1, 2)],), "n": None},
    ({5: bytearray(b"b")},),
)


def create(spark: SparkSession, path: str, ddl: str, *partition_by: str, **properties: str) -> DeltaTable:
    builder = DeltaTable.create(spark).location(path).addColumns(struct_of(ddl))
    for key, value in properties.items():
        builder.property(key, value)
    return builder.partitionedBy(*partition_by).execute()


def expected_ids(path: str) -> dict[str, int]:
    """The id of every column and nested part in the schema, by its path in files."""
    found: dict[str, int] = {}

    def note(fields: tuple[StructField, ...], parent: str) -> None:
        for column in fields:
            here = f"{parent}{column.metadata['delta.columnMapping.physicalName']}"
            found[here] = column.metadata["delta.columnMapping.id"]
            for part, number in column.metadata.get(NESTED, {}).items():
                found[parent + part] = number
            inside(column.type, here)

    def inside(kind: Any, here: str) -> None:
        for step, name in (("element_type", "element"), ("key_type", "key"), ("value_type", "value")):
            if hasattr(kind, step):
                inside(getattr(kind, step), f"{here}.{name}")
        if hasattr(kind, "fields"):
            note(kind.fields, f"{here}.")

    note(parse_schema(Snapshot.load(path).metadata.schema_string).fields, "")
    return found


def ids_in(schema: pa.Schema) -> dict[str, int]:
    """The ids in a Parquet file, by path; -1 where there is none."""
    found: dict[str, int] = {}

    def note(field: pa.Field, here: str) -> None:
        found[here] = int((field.metadata or {}).get(b"PARQUET:field_id", -1))
        kind = field.type
        if pa.types.is_struct(kind):
            for inner in (kind.field(i) for i in range(kind.num_fields)):
                note(inner, f"{here}.{inner.name}")
        elif pa.types.is_list(kind):
            note(kind.value_field, f"{here}.element")
        elif pa.types.is_map(kind):
            note(kind.key_field, f"{here}.key")
            note(kind.item_field, f"{here}.value")

    for column in schema:
        note(column, column.name)
    return found


@pytest.mark.parametrize("mode", ["name", "id"])
def test_version_2_gives_ids_to_what_arrays_and_maps_hold(spark: SparkSession, path: str, mode: str) -> None:
    create(spark, path, DDL, **{V2: "true", MODE: mode})
    append(spark, path, [ROW], DDL)
    (file,) = live_paths(path)
    found, wanted = ids_in(pq.read_schema(file)), expected_ids(path)
    assert found == wanted
    assert len(set(wanted.values())) == len(wanted)
    assert Snapshot.load(path).metadata.configuration["delta.columnMapping.maxColumnId"] == str(max(wanted.values()))
    assert rows(spark, path) == [ROW]
    stats = json.loads(actions(path, 1, "add")[0]["stats"])
    assert stats["numRecords"] == 1
    assert stats["maxValues"][column_metadata(path, "price")["delta.columnMapping.physicalName"]] == 12.34


def test_timestamps_and_small_decimals_are_integers_in_the_files(spark: SparkSession, path: str) -> None:
    create(spark, path, DDL, **{V2: "true"})
    append(spark, path, [ROW], DDL)
    (file,) = live_paths(path)
    columns = pq.ParquetFile(file).schema
    physical = {columns.column(i).path: columns.column(i).physical_type for i in range(len(columns))}
    name = {c: column_metadata(path, c)["delta.columnMapping.physicalName"] for c in ("at", "price", "large")}
    assert physical[name["at"]] == "INT64"
    assert physical[name["price"]] == "INT32"
    assert physical[name["large"]] == "FIXED_LEN_BYTE_ARRAY"


@pytest.mark.parametrize("version", [V1, V2, V3])
def test_partition_values_are_in_the_files_behind_the_other_columns(
    spark: SparkSession, path: str, version: str
) -> None:
    create(spark, path, "p DATE, id INT, q TIMESTAMP, r STRING", "q", "p", "r", **{version: "true"})
    values = [
        (dt.date(2024, 1, 2), 1, dt.datetime(2024, 1, 2, 3, 4, 5, 678), "a/b"),
        (None, 2, dt.datetime(1969, 1, 1), ""),
    ]
    append(spark, path, values, "p DATE, id INT, q TIMESTAMP, r STRING")
    physical = {c: column_metadata(path, c)["delta.columnMapping.physicalName"] for c in ("p", "id", "q", "r")}
    for file in live_paths(path):
        with pq.ParquetFile(file) as opened:
            assert opened.schema_arrow.names == [physical[c] for c in ("id", "q", "p", "r")]
            held = opened.read().to_pylist()[0]
        shown = values[held[physical["id"]] - 1]
        # A datetime without a zone is of this machine's, to PySpark as to Python.
        assert (held[physical["p"]], held[physical["q"]]) == (shown[0], shown[2].astimezone(dt.timezone.utc))
    # Text that is empty is null as a partition value.
    assert {row[1:] for row in rows(spark, path)} == {values[0][1:], (2, values[1][2], None)}
    assert read(spark, path).where("p = '2024-01-02'").count() == 1
    assert {a["stats"] is not None for a in actions(path, 1, "add")} == {True}


@pytest.mark.parametrize("keys", [{}, {"delta.writePartitionColumnsToParquet": "false"}], ids=["alone", "against"])
def test_a_feature_alone_puts_partition_columns_into_the_files(
    spark: SparkSession, path: str, keys: dict[str, str]
) -> None:
    feature = {"delta.enableMaterializePartitionColumnsFeature": "true"}
    table = create(spark, path, "p INT, id INT", "p", **feature, **keys)
    append(spark, path, [(1, 1), (1, 2), (2, 3)], "p INT, id INT")
    table.update("id = 1", {"id": "10"})
    table.optimize().executeCompaction()
    for file in live_paths(path):
        with pq.ParquetFile(file) as opened:
            assert opened.schema_arrow.names == ["id", "p"]
    for version in (1, 2):
        for add in actions(path, version, "add"):
            assert set(json.loads(add["stats"])["minValues"]) == {"id"}
    assert rows(spark, path) == [(1, 10), (1, 2), (2, 3)]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_version_3_gives_field_ids_to_the_hidden_columns_of_row_tracking(
    spark: SparkSession, path: str, mode: str
) -> None:
    table = create(spark, path, "id INT, l array<int>", **{V3: "true", MODE: mode})
    for number in (1, 2, 3):
        append(spark, path, [(number, [number]), (number + 10, None)], "id INT, l array<int>")
    names = Snapshot.load(path).metadata.configuration
    hidden = {
        names["delta.rowTracking.materializedRowIdColumnName"]: 2147483540,
        names["delta.rowTracking.materializedRowCommitVersionColumnName"]: 2147483539,
    }

    def ids() -> dict[int, int]:
        found = read(spark, path, rowTracking="true").select("id", "_row_id").collect()
        return {row[0]: row[1] for row in found}

    before = ids()
    table.update("id = 1", {"l": "array(5)"})
    (updated,) = [f for f in live_paths(path) if hidden.keys() <= set(pq.read_schema(f).names)]
    assert {name: ids_in(pq.read_schema(updated))[name] for name in hidden} == hidden
    table.optimize().executeCompaction()
    (file,) = live_paths(path)
    assert ids_in(pq.read_schema(file)) == {**expected_ids(path), **hidden}
    assert ids() == before


def test_version_3_goes_with_deletion_vectors(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "id INT", **{V3: "true", "delta.enableDeletionVectors": "true"})
    append(spark, path, [(1,), (2,)], "id INT")
    table.delete("id = 1")
    assert actions(path, 2, "add")[0]["deletionVector"]["cardinality"] == 1
    assert rows(spark, path) == [(2,)]


def test_compatibility_brings_column_mapping_along(spark: SparkSession, path: str) -> None:
    create(spark, path, "id INT", **{V2: "true"})
    assert Snapshot.load(path).column_mapping_mode == "name"
    assert {"icebergCompatV2", "columnMapping"} <= set(Snapshot.load(path).protocol.writer_features or ())


VECTORS = {"delta.enableDeletionVectors": "true"}
IMPOSSIBLE = {
    "both versions": ("id INT", {V1: "true", V2: "true"}, "only one of"),
    "no mapping": ("id INT", {V2: "true", MODE: "none"}, "columnMapping"),
    "version 1 with an array": ("id INT, l array<int>", {V1: "true"}, "array"),
    "version 1 with a map inside": ("s struct<m: map<int, int>>", {V1: "true"}, "map"),
    "version 1 with deletion vectors": ("id INT", {V1: "true", **VECTORS}, "vectors"),
    "version 1 with support for them": (
        "id INT",
        {V1: "true", "delta.feature.deletionVectors": "supported"},
        "vectors",
    ),
    "version 2 with deletion vectors": ("id INT", {V2: "true", **VECTORS}, "Vectors"),
    "void": ("id INT, nothing VOID", {V2: "true"}, "void"),
}


@pytest.mark.parametrize(("ddl", "properties", "message"), IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_tables_that_break_a_rule_are_not_created(
    spark: SparkSession, path: str, ddl: str, properties: dict[str, str], message: str
) -> None:
    with pytest.raises(errors.InvalidArgument, match=message):
        create(spark, path, ddl, **properties)
    assert not Path(path).exists()


def test_rules_hold_for_changes_too(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "id INT, p INT", "p", **{V1: "true"})
    append(spark, path, [(1, 2)], "id INT, p INT")
    version = Snapshot.load(path).version
    with pytest.raises(errors.InvalidArgument, match="array"):
        table.addColumns(struct_of("l array<int>"))
    with pytest.raises(errors.InvalidArgument, match="array"):
        append(spark, path, [(1, 2, [3])], "id INT, p INT, l array<int>", mergeSchema="true")
    with pytest.raises(errors.InvalidArgument, match="only one of"):
        table.setProperties({V2: "true"})
    with pytest.raises(errors.InvalidArgument, match="vectors"):
        table.setProperties({"delta.enableDeletionVectors": "true"})
    with pytest.raises(errors.InvalidArgument, match="vectors"):
        table.addFeatureSupport("deletionVectors")
    frame = spark.createDataFrame([(1, 2)], "id INT, p INT")
    for partition_by in (["id"], []):
        with pytest.raises(errors.InvalidArgument, match="partition columns"):
            frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true").partitionBy(
                *partition_by
            ).save(path)
    assert Snapshot.load(path).version == version
    assert len(live_paths(path)) == 1
    table.setProperties({V1: "false", V2: "true"})
    table.addFeatureSupport("deletionVectors")
    append(spark, path, [(3, 4)], "id INT, p INT")
    assert rows(spark, path) == [(1, 2), (3, 4)]


def test_version_1_does_not_come_to_a_table_whose_files_lack_partition_values(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "id INT, p INT", "p", **{MODE: "name"})
    append(spark, path, [(1, 2)], "id INT, p INT")
    with pytest.raises(errors.InvalidArgument, match="partition values"):
        table.setProperties({V1: "true"})
    assert Snapshot.load(path).version == 1
    frame = spark.createDataFrame([(5, 6)], "id INT, p INT")
    frame.write.format("delta").mode("overwrite").save(path)
    with pytest.raises(errors.InvalidArgument, match="partition values"):
        table.setProperties({V1: "true"})


def test_columns_that_come_later_get_ids_for_their_parts(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "id INT, l array<int>", **{V2: "true"})
    append(spark, path, [(1, [1])], "id INT, l array<int>")
    old = column_metadata(path, "l")[NESTED]
    append(spark, path, [(2, [2], [[3]])], "id INT, l array<int>, more array<array<int>>", mergeSchema="true")
    assert column_metadata(path, "l")[NESTED] == old
    assert len(column_metadata(path, "more")[NESTED]) == 2
    table.addColumns(struct_of("m map<string, int>"))
    table.renameColumn("more", "renamed")
    ddl = "id INT, l array<int>, renamed array<array<int>>, m map<string, int>"
    append(spark, path, [(3, [3], [[4]], {"k": 5})], ddl)
    wanted = expected_ids(path)
    assert len(set(wanted.values())) == len(wanted)
    assert Snapshot.load(path).metadata.configuration["delta.columnMapping.maxColumnId"] == str(max(wanted.values()))
    newest = next(p for p in live_paths(path) if p.name == actions(path, 5, "add")[0]["path"])
    assert ids_in(pq.read_schema(newest)) == wanted
    assert rows(spark, path) == [(1, [1], None, None), (2, [2], [[3]], None), (3, [3], [[4]], {"k": 5})]


def test_turning_it_on_later_gives_ids_from_then_on(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "id INT, l array<int>", **{MODE: "name"})
    append(spark, path, [(1, [1])], "id INT, l array<int>")
    table.setProperties({V2: "true"})
    append(spark, path, [(2, [2])], "id INT, l array<int>")
    newest = next(p for p in live_paths(path) if p.name == actions(path, 3, "add")[0]["path"])
    assert ids_in(pq.read_schema(newest)) == expected_ids(path)
    assert rows(spark, path) == [(1, [1]), (2, [2])]


def test_every_column_of_the_schema_has_its_own_ids(spark: SparkSession, path: str) -> None:
    create(spark, path, DDL, **{V2: "true"})
    schema = parse_schema(Snapshot.load(path).metadata.schema_string)
    numbers = [c.metadata["delta.columnMapping.id"] for _, c in walk_fields(schema)]
    numbers += [number for _, c in walk_fields(schema) for number in c.metadata.get(NESTED, {}).values()]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
