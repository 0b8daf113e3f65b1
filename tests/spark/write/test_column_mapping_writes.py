"""Tables with column mapping: files go by physical names and ids, whatever the columns are called now."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable, Snapshot, errors
from tests.spark.committed import actions, append, column_metadata, live_paths, parquet_schema, read, rows
from tests.spark.written import struct_of

pytestmark = [pytest.mark.spark, pytest.mark.classic, pytest.mark.usefixtures("enabled")]

ID, PHYSICAL, MAX_ID = (f"delta.columnMapping.{name}" for name in ("id", "physicalName", "maxColumnId"))
DDL = "id INT, s struct<a: int, l: array<struct<x: string>>>, m map<string, struct<y: int>>, part STRING"
ROW = (1, (2, [("x",)]), {"k": (3,)}, "p")


def create(spark: SparkSession, path: str, ddl: str, mode: str, *partition_by: str, **properties: str) -> DeltaTable:
    builder = DeltaTable.create(spark).location(path).addColumns(struct_of(ddl))
    for key, value in {"delta.columnMapping.mode": mode, **properties}.items():
        builder.property(key, value)
    return builder.partitionedBy(*partition_by).execute()


def max_column_id(path: str) -> int:
    return int(Snapshot.load(path).metadata.configuration[MAX_ID])


def by_name(schema: pa.Schema | pa.StructType) -> dict[str, tuple[int | None, Any]]:
    """The names of Parquet fields, with their id and what is inside of them."""
    fields = [schema.field(i) for i in range(len(schema) if isinstance(schema, pa.Schema) else schema.num_fields)]
    return {f.name: (_id(f), _inside(f.type)) for f in fields}


def _id(field: pa.Field) -> int | None:
    found = (field.metadata or {}).get(b"PARQUET:field_id")
    return None if found is None else int(found)


def _inside(kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        return by_name(kind)
    if pa.types.is_list(kind):
        return _inside(kind.value_type)
    return _inside(kind.item_type) if pa.types.is_map(kind) else None


@pytest.mark.parametrize("mode", ["name", "id"])
def test_files_have_the_physical_names_and_ids_of_the_schema(spark: SparkSession, path: str, mode: str) -> None:
    create(spark, path, DDL, mode, "part")
    append(spark, path, [ROW], DDL)
    assert rows(spark, path) == [ROW]
    physical: dict[str, Any] = {}

    def note(schema: Any, into: dict[str, Any]) -> None:
        for node in schema["fields"]:
            inside: dict[str, Any] | None = None
            kind = node["type"]
            while isinstance(kind, dict):
                if kind["type"] == "struct":
                    inside = {}
                    note(kind, inside)
                    break
                kind = kind.get("elementType", kind.get("valueType"))
            into[node["metadata"][PHYSICAL]] = (node["metadata"][ID], inside)

    note(json.loads(Snapshot.load(path).metadata.schema_string), physical)
    partition = column_metadata(path, "part")[PHYSICAL]
    (file,) = live_paths(path)
    assert by_name(parquet_schema(file)) == {name: found for name, found in physical.items() if name != partition}
    assert all(name.startswith("col-") for name in physical)
    assert max_column_id(path) == 8
    (add,) = actions(path, 1, "add")
    assert add["partitionValues"] == {partition: "p"}
    stats = json.loads(add["stats"])
    assert stats["minValues"][column_metadata(path, "id")[PHYSICAL]] == 1
    assert stats["numRecords"] == 1
    assert not set(stats["minValues"]) & {"id", "s", "part"}
    assert Snapshot.load(path).report("id = 7").kept_files == 0
    assert Snapshot.load(path).report("part = 'q'").kept_files == 0


@pytest.mark.parametrize("partitioned", [False, True])
def test_mapping_comes_to_a_table_with_data(spark: SparkSession, path: str, partitioned: bool) -> None:
    create(spark, path, DDL, "none", *(["part"] if partitioned else []))
    table = DeltaTable.forPath(spark, path)
    append(spark, path, [ROW], DDL)
    table.setProperties({"delta.columnMapping.mode": "name"})
    protocol = Snapshot.load(path).protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (3, 7)
    assert column_metadata(path, "id")[PHYSICAL] == "id"
    assert max_column_id(path) == 8
    second = (4, (5, [("z",)]), {"k": (6,)}, "q")
    append(spark, path, [second], DDL)
    assert rows(spark, path) == [ROW, second]
    table.renameColumn("s.l.element.x", "renamed")
    table.renameColumn("m.value.y", "why")
    table.renameColumn("id", "key")
    table.renameColumn("part", "place")
    third = (7, (8, [("w",)]), {"k": (9,)}, "r")
    renamed = "key INT, s struct<a: int, l: array<struct<renamed: string>>>, m map<string, struct<why: int>>"
    append(spark, path, [third], f"{renamed}, place STRING")
    assert rows(spark, path) == [ROW, second, third]
    assert table.toDF().columns == ["key", "s", "m", "place"]
    assert read(spark, path).where("place = 'q'").count() == 1
    assert read(spark, path).where("key = 7 AND s.l[0].renamed = 'w'").count() == 1
    # The versions before have their own names.
    assert read(spark, path, versionAsOf=1).columns == ["id", "s", "m", "part"]
    assert rows(spark, path, versionAsOf=1) == [ROW]
    assert rows(spark, path, versionAsOf=3) == [ROW, second]


def test_a_column_that_is_added_again_has_nothing_of_the_one_before(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "a INT, b INT, s struct<x: int, y: int>", "none")
    append(spark, path, [(1, 2, (3, 4))], "a INT, b INT, s struct<x: int, y: int>")
    table.setProperties({"delta.columnMapping.mode": "name"})
    assert max_column_id(path) == 5
    table.dropColumns("b", "s.y")
    table.addColumns(struct_of("b INT"))
    table.addColumns(struct_of("y INT"), parent="s")
    # New ids, new physical names, and the highest id only rises.
    assert (column_metadata(path, "b")[ID], max_column_id(path)) == (6, 7)
    assert column_metadata(path, "b")[PHYSICAL].startswith("col-")
    assert rows(spark, path) == [(1, (3, None), None)]
    append(spark, path, [(5, (6, 7), 8)], "a INT, s struct<x: int, y: int>, b INT")
    assert rows(spark, path) == [(1, (3, None), None), (5, (6, 7), 8)]
    assert rows(spark, path, versionAsOf=2) == [(1, 2, (3, 4))]
    table.dropColumns("b")
    assert max_column_id(path) == 7
    table.addColumns(struct_of("b STRING"))
    assert (column_metadata(path, "b")[ID], max_column_id(path)) == (8, 8)
    assert rows(spark, path) == [(1, (3, None), None), (5, (6, 7), None)]


def test_names_may_hold_any_character_and_swap(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "`a b` INT, `c;d,{}()=` STRING, `x.y` INT, `ti``ck` INT", "name", "c;d,{}()=")
    ddl = "`a b` INT, `c;d,{}()=` STRING, `x.y` INT, `ti``ck` INT"
    append(spark, path, [(1, "p q", 2, 3)], ddl)
    assert rows(spark, path) == [(1, "p q", 2, 3)]
    assert read(spark, path).where("`x.y` = 2 AND `c;d,{}()=` = 'p q'").count() == 1
    table.renameColumn("`x.y`", "t")
    table.renameColumn("`a b`", "x.y")
    table.renameColumn("t", "a b")
    assert read(spark, path).select("`x.y`", "`a b`", "`ti``ck`").collect()[0][:] == (1, 2, 3)
    table.dropColumns("`x.y`")
    append(spark, path, [("r", 5, 6)], "`c;d,{}()=` STRING, `a b` INT, `ti``ck` INT")
    assert rows(spark, path) == [("p q", 2, 3), ("r", 5, 6)]


def test_columns_of_a_write_with_merge_schema_get_ids(spark: SparkSession, path: str) -> None:
    create(spark, path, "id INT, s struct<a: int>", "name")
    append(spark, path, [(1, (2, 3), 4)], "id INT, s struct<a: int, b: int>, new INT", mergeSchema="true")
    assert max_column_id(path) == 5
    assert column_metadata(path, "new")[ID] in (4, 5)
    (file,) = live_paths(path)
    assert set(by_name(parquet_schema(file))) == {column_metadata(path, c)[PHYSICAL] for c in ("id", "s", "new")}
    assert rows(spark, path) == [(1, (2, 3), 4)]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_overwriting_the_schema_leaves_nothing_of_the_old_columns(spark: SparkSession, path: str, mode: str) -> None:
    create(spark, path, "id INT, old INT", mode)
    append(spark, path, [(1, 2)], "id INT, old INT")
    before = column_metadata(path, "id")
    frame = spark.createDataFrame([("x", 3)], "id STRING, new INT")
    frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
    assert column_metadata(path, "id")[PHYSICAL] != before[PHYSICAL]
    assert (column_metadata(path, "id")[ID], max_column_id(path)) == (3, 4)
    assert rows(spark, path) == [("x", 3)]
    assert rows(spark, path, versionAsOf=1) == [(1, 2)]


def test_partitions_are_replaced_by_their_values(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "id INT, part STRING", "name", "part")
    append(spark, path, [(1, "p"), (2, "q"), (3, None)], "id INT, part STRING")
    table.renameColumn("part", "place")
    new = spark.createDataFrame([(4, "p")], "id INT, place STRING")
    new.write.format("delta").mode("overwrite").option("replaceWhere", "place = 'p'").save(path)
    assert rows(spark, path) == [(2, "q"), (3, None), (4, "p")]
    none = spark.createDataFrame([(5, None)], "id INT, place STRING")
    none.write.format("delta").mode("overwrite").option("partitionOverwriteMode", "dynamic").save(path)
    assert rows(spark, path) == [(2, "q"), (4, "p"), (5, None)]


def test_rules_go_by_the_names_that_users_know(spark: SparkSession, path: str) -> None:
    builder = DeltaTable.create(spark).location(path).addColumn("a", "INT", nullable=False)
    builder.addColumn("twice", "INT", generatedAlwaysAs="a * 2").property("delta.columnMapping.mode", "name")
    table = builder.property("delta.constraints.positive", "a > 0").execute()
    append(spark, path, [(1,)], "a INT")
    assert rows(spark, path) == [(1, 2)]
    for row, message in (((0,), "a > 0"), ((None,), "NOT NULL constraint of column a")):
        with pytest.raises(errors.InvariantViolationException, match=message):
            append(spark, path, [row], "a INT")
    with pytest.raises(errors.InvalidArgument, match=r"CHECK constraint positive|generated column twice"):
        table.renameColumn("a", "b")


def test_the_change_feed_reads_mapped_files(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "id INT, v INT", "name", **{"delta.enableChangeDataFeed": "true"})
    append(spark, path, [(1, 10), (2, 20)], "id INT, v INT")
    new = spark.createDataFrame([(2, 21)], "id INT, v INT")
    new.write.format("delta").mode("overwrite").option("replaceWhere", "id = 2").save(path)
    feed = read(spark, path, readChangeFeed="true", startingVersion=1)
    changes = feed.select("id", "v", "_change_type", "_commit_version").collect()
    assert sorted(tuple(c) for c in changes) == [
        (1, 10, "insert", 1),
        (2, 20, "delete", 2),
        (2, 20, "insert", 1),
        (2, 21, "insert", 2),
    ]
    table.addColumns(struct_of("more INT"))
    append(spark, path, [(3, 30, 5)], "id INT, v INT, more INT")
    feed = read(spark, path, readChangeFeed="true", startingVersion=2)
    assert sorted((c["id"], c["more"]) for c in feed.collect()) == [(2, None), (2, None), (3, 5)]


def test_an_id_table_reads_by_ids_alone(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "id INT, s struct<a: int, b: int>", "id")
    append(spark, path, [(1, (2, 3))], "id INT, s struct<a: int, b: int>")
    table.renameColumn("s.a", "c")
    table.dropColumns("s.b")
    table.addColumns(struct_of("b INT"), parent="s")
    append(spark, path, [(4, (5, 6))], "id INT, s struct<c: int, b: int>")
    assert rows(spark, path) == [(1, (2, None)), (4, (5, 6))]
    assert rows(spark, path, versionAsOf=1) == [(1, (2, 3))]
