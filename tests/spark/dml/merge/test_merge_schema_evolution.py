"""`withSchemaEvolution`: columns that only the source has become columns of the target, where a clause writes them."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slackwater import DeltaTable, Snapshot, errors
from slackwater.spark.dml.merge.builder import DeltaMergeBuilder
from tests.spark.changed import FEED, MAPPING, VECTORS, WRITTEN_ALIKE, counts, make
from tests.spark.committed import column_metadata
from tests.spark.written import actions, changes, listing, read, rows

pytestmark = [pytest.mark.spark, pytest.mark.shared, pytest.mark.usefixtures("enabled")]


def merging(spark: SparkSession, table: DeltaTable, source: str) -> DeltaMergeBuilder:
    """A MERGE by id, with schema evolution, of what the SQL text `source` gives."""
    return table.alias("t").merge(spark.sql(source).alias("s"), "t.id = s.id").withSchemaEvolution()


def ddl(path: str) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in Snapshot.load(path).schema)


@pytest.mark.parametrize(("mapping", "vectors"), [("none", "false"), ("name", "true")])
def test_stars_add_the_columns_of_the_source(spark: SparkSession, path: str, vectors: str, mapping: str) -> None:
    properties = {VECTORS: vectors, FEED: "true", MAPPING: mapping}
    table = make(spark, path, "select id, 'old' v, 1 kept from range(4)", **properties)
    merge = merging(spark, table, "select 'n' v, id + 0.5D added, id, array(id) l from range(3, 5)")
    merge = merge.whenMatchedUpdateAll().whenNotMatchedInsertAll()
    assert counts(merge.whenNotMatchedBySourceUpdate("t.id = 1", {"v": "'lonely'"})) == (3, 2, 0, 1)
    assert ddl(path) == "id long, v string, kept integer, added double, l array<long>"
    assert len(actions(path, 1, "metaData")) == 1
    assert rows(read(spark, path)) == [
        (0, "old", 1, None, None),
        (1, "lonely", 1, None, None),
        (2, "old", 1, None, None),
        (3, "n", 1, 3.5, [3]),
        (4, "n", None, 4.5, [4]),
    ]
    assert changes(spark, path, 1, "id", "added", "l") == [
        ("insert", 4, 4.5, [4]),
        ("update_postimage", 1, None, None),
        ("update_postimage", 3, 3.5, [3]),
        ("update_preimage", 1, None, None),
        ("update_preimage", 3, None, None),
    ]
    if mapping == "name":
        metadata = column_metadata(path, "added")
        assert metadata["delta.columnMapping.id"] == 4
        assert metadata["delta.columnMapping.physicalName"] != "added"
    assert counts(merge) == (2, 2, 0, 0)
    assert actions(path, 2, "metaData") == [], "a schema that has everything stays"


@WRITTEN_ALIKE
def test_named_columns_are_added_and_others_are_not(spark: SparkSession, path: str, vectors: str) -> None:
    table = make(spark, path, "select id, 'old' v from range(3)", **{VECTORS: vectors})
    merge = merging(spark, table, "select id, 7 More, 8 other, 'x' again from range(2, 4)")
    merge = merge.whenMatchedUpdate(set={"v": "s.again", "t.more": "s.More + 1"})
    assert counts(merge.whenNotMatchedInsert(values={"id": "s.id", "other": "other"})) == (2, 1, 0, 1)
    assert ddl(path) == "id long, v string, More integer, other integer"
    assert rows(read(spark, path)) == [
        (0, "old", None, None),
        (1, "old", None, None),
        (2, "x", 8, None),
        (3, None, None, 8),
    ]


@WRITTEN_ALIKE
def test_fields_of_structs_are_added_at_every_depth(spark: SparkSession, path: str, vectors: str) -> None:
    sql = """
        select id, struct(id as a, struct('x' as c) as b) st, array(struct(1 as x)) l, map('k', struct(1 as y)) m
        from range(3)
    """
    table = make(spark, path, sql, **{VECTORS: vectors, FEED: "true", MAPPING: "name"})
    source = """
        select id, struct(struct(true as new, 'n' as c) as b, 9L as more) st, array(struct(3 as z, 2 as x)) l,
               map('k', struct(5 as w)) m
        from range(2, 4)
    """
    merge = merging(spark, table, source).whenMatchedUpdateAll().whenNotMatchedInsertAll()
    assert counts(merge) == (2, 1, 0, 1)
    old = read(spark, path).where("id < 2").select("id", "st.a", "st.b.c", "st.b.new", "st.more", "l", "m")
    assert [(*row[:5], row[5][0][0], row[6]["k"][0]) for row in rows(old)] == [
        (0, 0, "x", None, None, 1, 1),
        (1, 1, "x", None, None, 1, 1),
    ]
    fields = ("id", "st.a", "st.b.c", "st.b.new", "st.more", "l[0].x", "l[0].z", "m['k'].y", "m['k'].w")
    assert rows(read(spark, path).where("id > 1").selectExpr(*fields)) == [
        (2, 2, "n", True, 9, 2, 3, None, 5),
        (3, None, "n", True, 9, 2, 3, None, 5),
    ]


@WRITTEN_ALIKE
def test_what_the_source_lacks_stays_in_updates_and_is_null_in_inserts(
    spark: SparkSession, path: str, vectors: str
) -> None:
    sql = "select id, 'old' v, struct(1 as a, 2 as b) st from range(3)"
    supported = {"delta.feature.allowColumnDefaults": "supported"}
    table = make(spark, path, sql, **{VECTORS: vectors}, **supported)
    table.setColumnDefault("v", "'default'")
    merge = merging(spark, table, "select id, struct(5 as b) st from range(2, 4)")
    assert counts(merge.whenMatchedUpdateAll().whenNotMatchedInsertAll()) == (2, 1, 0, 1)
    assert rows(read(spark, path)) == [
        (0, "old", (1, 2)),
        (1, "old", (1, 2)),
        (2, "old", (1, 5)),
        (3, "default", (None, 5)),
    ]
    assert [kind for kind in actions(path, Snapshot.load(path).version) if "metaData" in kind] == []


def test_without_evolution_the_schema_stays(spark: SparkSession, path: str) -> None:
    table = make(spark, path, "select id, struct(1 as a) st from range(3)")
    source = spark.sql("select id, struct(1 as a, 2 as b) st, 'more' v from range(2, 4)").alias("s")
    merge = table.alias("t").merge(source, "t.id = s.id")
    before = listing(path)
    with pytest.raises(errors.InvalidArgument, match="v"):
        merge.whenMatchedUpdate(set={"v": "s.v"}).execute()
    with pytest.raises(errors.InvalidArgument, match="st"):
        merge.whenMatchedUpdateAll().execute()
    assert listing(path) == before
    assert counts(merge.whenMatchedUpdate(set={"st.a": "s.st.b"})) == (1, 1, 0, 0)
    assert ddl(path) == "id long, st struct<a:integer>"


@WRITTEN_ALIKE
def test_deletes_alone_add_nothing(spark: SparkSession, path: str, vectors: str) -> None:
    table = make(spark, path, "select id from range(3)", **{VECTORS: vectors})
    merge = merging(spark, table, "select id, 'more' v from range(1, 2)").whenMatchedDelete("s.v = 'more'")
    assert counts(merge) == (1, 0, 1, 0)
    assert ddl(path) == "id long"


def test_columns_are_added_even_where_no_row_changes(spark: SparkSession, path: str) -> None:
    table = make(spark, path, "select id from range(3)")
    merge = merging(spark, table, "select id, 'more' v from range(0)").whenMatchedUpdateAll()
    assert counts(merge.whenNotMatchedInsertAll()) == (0, 0, 0, 0)
    assert ddl(path) == "id long, v string"
    assert rows(read(spark, path)) == [(0, None), (1, None), (2, None)]


def test_a_column_that_cannot_be_added_changes_nothing(spark: SparkSession, path: str) -> None:
    table = make(spark, path, "select id, struct(1 as a) st, 'x' v from range(3)")
    before = listing(path)
    for source in (
        "select id, 1 `a b` from range(1, 3)",
        "select id, 'text' st from range(1, 3)",
        "select id, 1 twice, 2 TWICE from range(1, 3)",
        "select id, struct(1 as a, interval '1' day as b) st from range(1, 3)",
    ):
        with pytest.raises((errors.InvalidArgument, errors.UnsupportedFeature)):
            merging(spark, table, source).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert listing(path) == before


@WRITTEN_ALIKE
def test_generated_columns_and_checks_hold_with_columns_that_are_new(
    spark: SparkSession, path: str, vectors: str
) -> None:
    builder = DeltaTable.create(spark).location(path).addColumn("id", "LONG").addColumn("n", "LONG")
    builder.addColumn("twice", "LONG", generatedAlwaysAs="n * 2").property(VECTORS, vectors)
    table = builder.property("delta.constraints.small", "n < 10").execute()
    spark.range(3).select("id", F.col("id").alias("n")).coalesce(1).write.format("delta").mode("append").save(path)
    merge = merging(spark, table, "select id, id + 3 n, 'new' v from range(2, 4)")
    assert counts(merge.whenMatchedUpdateAll().whenNotMatchedInsertAll()) == (2, 1, 0, 1)
    assert rows(read(spark, path)) == [(0, 0, 0, None), (1, 1, 2, None), (2, 5, 10, "new"), (3, 6, 12, "new")]
    before = listing(path)
    broken = merging(spark, table, "select id, 10L n, 'new' other from range(2, 4)").whenMatchedUpdateAll()
    with pytest.raises(errors.InvariantViolationException, match="small"):
        broken.execute()
    assert listing(path) == before
    assert "other" not in ddl(path)
