"""Columns of type CHAR(n) and VARCHAR(n): texts that are too long do not get in, whoever made the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import slackwater
from slackwater.errors import InvalidArgument, InvariantViolationException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

_COLUMNS = (
    "id INT, v VARCHAR(3), c CHAR(3), l ARRAY<VARCHAR(3)>, s STRUCT<x: INT, y: STRUCT<z: VARCHAR(3)>>, "
    "m MAP<VARCHAR(3), CHAR(3)>"
)
_ROW = "0 AS id, 'ééé' AS v, 'abc' AS c, array('abc', NULL) AS l, NULL AS s, map('abc', 'ab') AS m"


@pytest.fixture
def table(spark: SparkSession, path: str) -> str:
    spark.sql(f"CREATE TABLE delta.`{path}` ({_COLUMNS}) USING delta")
    spark.sql(f"INSERT INTO delta.`{path}` SELECT {_ROW}")
    return f"delta.`{path}`"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("v", "'long'"),
        ("v", "'abc '"),
        ("c", "'long'"),
        ("l", "array('abc', 'long')"),
        ("s", "named_struct('x', 1, 'y', named_struct('z', 'long'))"),
        ("m", "map('long', 'abc')"),
        ("m", "map('abc', 'long')"),
    ],
)
def test_a_text_that_is_too_long_is_not_written(spark: SparkSession, table: str, column: str, value: str) -> None:
    before = spark.table(table).collect()
    says = rf"the length of column {column}, .* is broken by a row .* Nothing was written"
    for text in (
        f"INSERT INTO {table} (id, {column}) VALUES (1, {value})",
        f"UPDATE {table} SET {column} = {value}",
        f"MERGE INTO {table} t USING (SELECT 1 AS id) s ON t.id = s.id "
        f"WHEN NOT MATCHED THEN INSERT (id, {column}) VALUES (s.id, {value})",
    ):
        with pytest.raises(InvariantViolationException, match=says) as caught:
            spark.sql(text)
        assert caught.value.error_class == "DELTA_EXCEED_CHAR_VARCHAR_LIMIT"
    assert spark.table(table).collect() == before


def test_a_frame_is_held_to_it_and_a_char_counts_with_its_spaces(spark: SparkSession, path: str, table: str) -> None:
    rows = spark.sql("SELECT 1 AS id, 'long' AS v")
    with pytest.raises(InvariantViolationException, match=r"column v, varchar\(3\)"):
        rows.write.format("delta").mode("append").save(path)
    spark.sql(f"INSERT INTO {table} (id, c) VALUES (1, 'a'), (2, 'b')")
    assert [row.id for row in spark.sql(f"SELECT id FROM {table} WHERE c = 'a'").collect()] == [1]


def test_a_column_of_texts_may_become_longer_and_not_shorter(spark: SparkSession, path: str, table: str) -> None:
    spark.sql(f"ALTER TABLE {table} ADD COLUMN w VARCHAR(2)")
    for shorter in ("VARCHAR(1)", "CHAR(2)"):
        with pytest.raises(InvalidArgument, match="can only become longer"):
            spark.sql(f"ALTER TABLE {table} ALTER COLUMN w TYPE {shorter}")
    with pytest.raises(InvariantViolationException, match=r"column w, varchar\(2\)"):
        spark.sql(f"INSERT INTO {table} (id, w) VALUES (1, 'abc')")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN w TYPE VARCHAR(3)")
    spark.sql(f"INSERT INTO {table} (id, w) VALUES (1, 'abc')")
    slackwater.DeltaTable.forPath(spark, path).changeColumnType("w", "STRING")
    spark.sql(f"INSERT INTO {table} (id, w) VALUES (1, 'any length')")
