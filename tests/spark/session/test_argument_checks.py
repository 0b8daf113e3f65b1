"""Arguments of a wrong type, and texts that are no types: what is raised, and where in a text the mistake is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

import slackwater
from slackwater import DeltaTable, errors

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

WRONG: dict[str, Callable[[Any], Any]] = {
    "tableName": lambda b: b.tableName(1),
    "location": lambda b: b.location(1),
    "comment": lambda b: b.comment(1),
    "colName": lambda b: b.addColumn(1, "int"),
    "dataType": lambda b: b.addColumn("a", 1),
    "nullable": lambda b: b.addColumn("a", "int", nullable=1),
    "generatedAlwaysAs": lambda b: b.addColumn("a", "bigint", generatedAlwaysAs=1),
    "cols": lambda b: b.addColumns(1),
    "partitionedBy": lambda b: b.partitionedBy([1]),
    "clusterBy": lambda b: b.clusterBy(1, "1"),
    "property": lambda b: b.property("1", 1),
}


@pytest.mark.classic
@pytest.mark.parametrize("call", WRONG.values(), ids=WRONG)
def test_an_argument_of_a_wrong_type_is_a_type_error_as_in_delta_spark(
    spark: SparkSession, path: str, call: Callable[[Any], Any]
) -> None:
    with pytest.raises(TypeError) as caught:
        call(DeltaTable.create(spark).location(path))
    assert isinstance(caught.value, (errors.WrongArgumentType, errors.InvalidArgument))


@pytest.mark.classic
def test_enable_none_is_a_type_error_that_says_what_to_call() -> None:
    with pytest.raises(TypeError, match=r"found None\. Call enable\(\) for the active session"):
        slackwater.enable(None)  # type: ignore[call-overload]


@pytest.mark.modes
def test_a_mistyped_type_is_told_with_its_place(spark: SparkSession, tmp_path: Path, path: str) -> None:
    with pytest.raises(ParseException, match=r"'INTT' is not a data type: .*INTT.*\(line 1, position 1\)") as of_type:
        DeltaTable.create(spark).location(path).addColumn("id", "INTT")
    assert of_type.value.getQueryContext()[0].fragment() == "INTT"
    with slackwater.Lake.open(str(tmp_path / "lake"), spark=spark) as lake:
        with pytest.raises(errors.SqlSyntaxError, match=r"BIGINTT.*\(line 2, position 4\)") as of_columns:
            lake.create_table("t", "v INT,\nid BIGINTT")
        assert of_columns.value.place is not None
        assert of_columns.value.place.fragment() == "BIGINTT"
        assert lake.tables() == []


@pytest.mark.classic
def test_protocol_versions_and_features_that_are_none_are_told_by_their_argument(
    spark: SparkSession, path: str
) -> None:
    table: Any = DeltaTable.create(spark).location(path).addColumn("id", "INT").execute()
    for reader, writer, name in (("abc", 3, "readerVersion"), (1, [3], "writerVersion"), (True, 3, "readerVersion")):
        with pytest.raises(ValueError, match=f"{name} must be a whole number"):
            table.upgradeTableProtocol(reader, writer)
    with pytest.raises(errors.InvalidArgument, match="DELTA_UNSUPPORTED_FEATURES_IN_CONFIG"):
        table.addFeatureSupport("abc")


@pytest.mark.classic
def test_a_type_that_is_not_supported_yet_says_what_to_do(spark: SparkSession, path: str) -> None:
    with pytest.raises(errors.UnsupportedFeature, match=r"column i: .* is not in the Delta protocol yet\. Cast "):
        spark.sql("SELECT INTERVAL '1' DAY AS i").write.format("delta").save(path)


@pytest.mark.classic
def test_a_table_that_exists_and_one_that_is_missing_are_told_by_name(spark: SparkSession, path: str) -> None:
    spark.sql(f"CREATE TABLE told_by_name (id INT) USING delta LOCATION '{path}'")
    try:
        with pytest.raises(errors.TableAlreadyExists, match="told_by_name already exists"):
            DeltaTable.create(spark).tableName("told_by_name").addColumn("id", "INT").execute()
    finally:
        spark.sql("DROP TABLE told_by_name")
    with pytest.raises(errors.TableNotFound, match="told_by_name cannot be found"):
        DeltaTable.replace(spark).tableName("told_by_name").addColumn("id", "INT").execute()


@pytest.mark.classic
def test_what_is_no_table_is_told_as_what_it_is_by_all_who_read_it(spark: SparkSession, tmp_path: Path) -> None:
    empty, plain, lake = (str(tmp_path / name) for name in ("empty", "plain", "lake"))
    spark.range(2).write.parquet(plain)
    with slackwater.Lake.open(lake, spark=spark) as opened:
        opened.create_table("orders", "id INT")
    told = {
        empty: "its _delta_log directory is missing or holds no commit",
        plain: "it holds plain Parquet files",
        lake: "it is a lake with the tables orders. Open it with Lake.open",
    }
    readers: list[Callable[[str], Any]] = [
        lambda place: DeltaTable.forPath(spark, place),
        lambda place: spark.read.format("delta").load(place),
        lambda place: spark.sql(f"DESCRIBE HISTORY delta.`{place}`"),
        slackwater.Snapshot.load,
    ]
    for place, what in told.items():
        for read in readers:
            with pytest.raises(errors.TableNotFound) as caught:
                read(place)
            assert str(caught.value).startswith(f"file://{place} is not a Delta table: {what}")


@pytest.mark.classic
def test_a_lake_is_not_opened_at_a_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(errors.InvalidArgument, match="is a file, but a lake is a directory"):
        slackwater.Lake.open(str(file))
