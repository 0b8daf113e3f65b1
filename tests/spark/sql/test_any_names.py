"""Names of any characters for tables and columns, through every kind of statement."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import slackwater
from slackwater.errors import SlackwaterError, UnsupportedFeature
from slackwater.sql.lexer import quoted
from tests.examples import examples

pytestmark = [pytest.mark.spark, pytest.mark.modes, pytest.mark.usefixtures("db")]

# What SQL gives a meaning to, what it does not, and words that it knows.
CHARACTERS = "aB1_ .`'\"\\;:,()-?$%#&=*[]|ü日😀"
NAMES = st.one_of(
    st.text(CHARACTERS, min_size=1, max_size=6).filter(lambda name: name.strip() == name),
    st.sampled_from(["select", "t", "delta", "c.d", "--", "/*", "*/", "a`.`b", "`", "''", '"', "1", "1e5", "ON", "s"]),
)
_numbers = itertools.count(1)


def _rows(spark: SparkSession, statement: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in spark.sql(statement).collect()), key=str)


@pytest.mark.shared
@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=NAMES, key=NAMES, value=NAMES, new=NAMES)
@example(path="a'b`c\"d e", key="a.b", value="`", new="-- c")
@pytest.mark.long
def test_a_table_of_any_name_and_columns_of_any_name(
    spark: SparkSession, path: str, key: str, value: str, new: str
) -> None:
    # Hadoop opens none that has both.
    assume(":" not in path or not set(path) & set("{}[]*?\\"))
    # No columns that differ in their case alone; what stands behind an @ is a version, and of the path.
    value, new = f"{value}2", f"{new}3"
    with tempfile.TemporaryDirectory() as root:
        _life(spark, f"delta.{quoted(str(Path(root) / f't{path}'))}", key, value, new)


@pytest.mark.parametrize("name", ["t:*", "a\\:"])
def test_a_path_that_hadoop_cannot_open_is_refused_by_name(spark: SparkSession, tmp_path: Path, name: str) -> None:
    t = f"delta.{quoted(str(tmp_path / name))}"
    spark.sql(f"CREATE TABLE {t} (id INT) USING delta")
    spark.sql(f"INSERT INTO {t} VALUES (1), (2)")
    with pytest.raises(UnsupportedFeature, match="a colon and one of"):
        spark.sql(f"SELECT * FROM {t}").collect()


def _life(spark: SparkSession, t: str, key: str, value: str, new: str) -> None:
    """Everything that is done with a table `t` and its columns, looked at through DataFrames."""
    k, v, n = quoted(key), quoted(value), quoted(new)
    mapped = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    spark.sql(f"CREATE TABLE {t} ({k} INT, {v} STRING) USING delta {mapped}")
    spark.sql(f"INSERT INTO {t} ({v}, {k}) VALUES ('a', 1), ('b', 2)")
    assert _rows(spark, f"SELECT x.{k}, {v} FROM {t} AS x WHERE x.{k} = 2 AND {v} = 'b'") == [(2, "b")]
    assert _rows(spark, f"WITH {k} AS (SELECT {v} AS {n} FROM {t}) SELECT {k}.{n} FROM {k}") == [("a",), ("b",)]
    assert _rows(spark, f"UPDATE {t} SET {v} = {v} || '!' WHERE {k} = 1") == [(1,)]
    spark.sql(
        f"MERGE INTO {t} AS {n} USING (SELECT 2 AS {k}) AS {v} ON {n}.{k} = {v}.{k} "
        f"WHEN MATCHED THEN UPDATE SET {v} = {n}.{v} || {v}.{k}"
    )
    spark.sql(f"ALTER TABLE {t} ADD COLUMN {n} INT COMMENT 'new'")
    table = slackwater.DeltaTable.forPath(spark, t.removeprefix("delta.")[1:-1].replace("``", "`"))
    assert table.toDF().columns == [key, value, new]
    assert sorted(map(tuple, table.toDF().collect())) == [(1, "a!", None), (2, "b2", None)]
    spark.sql(f"ALTER TABLE {t} DROP COLUMN {n}")
    spark.sql(f"ALTER TABLE {t} RENAME COLUMN {v} TO {n}")
    assert [row[0] for row in spark.sql(f"DESCRIBE {t}").collect()] == [key, new]
    assert _rows(spark, f"DELETE FROM {t} WHERE {n} IN (SELECT {n} FROM {t} WHERE {k} = 1)") == [(1,)]
    assert _rows(spark, f"SELECT * FROM {t} VERSION AS OF 1") == [(1, "a"), (2, "b")]
    assert [tuple(row) for row in table.toDF().collect()] == [(2, "b2")]


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=NAMES)
@example(name="Word_1")
def test_a_catalog_takes_the_names_that_it_takes_of_other_formats(spark: SparkSession, name: str) -> None:
    t = quoted(f"{name}{next(_numbers)}")
    before = _rows(spark, "SHOW TABLES")
    try:
        spark.sql(f"CREATE TABLE {t} (id INT) USING parquet")
    except PySparkException:
        with pytest.raises((SlackwaterError, PySparkException)):
            spark.sql(f"CREATE TABLE {t} (id INT) USING delta")
        assert _rows(spark, "SHOW TABLES") == before
        return
    spark.sql(f"DROP TABLE {t}")
    spark.sql(f"CREATE TABLE {t} (id INT) USING delta")
    spark.sql(f"INSERT INTO {t} VALUES (1)")
    assert _rows(spark, f"SELECT {t}.id FROM {t}") == [(1,)]
    assert [tuple(row) for row in slackwater.DeltaTable.forName(spark, t).toDF().collect()] == [(1,)]
    spark.sql(f"DROP TABLE {t}")
    assert not spark.catalog.tableExists(t)
