"""Statements on Delta tables whose text or names are not spelled out, and what Spark is not to truncate by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable
from slackwater.errors import UnsupportedFeature
from tests.spark.written import first_row

pytestmark = [pytest.mark.spark, pytest.mark.modes]

Rows = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def people(spark: SparkSession, db: str) -> str:
    """A managed table of two rows."""
    spark.sql("CREATE TABLE people (id INT, name STRING) USING delta")
    spark.sql("INSERT INTO people VALUES (1, 'a'), (2, 'b')")
    return f"{db}.people"


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM IDENTIFIER('people') WHERE id = 1",
        "UPDATE IDENTIFIER('peo' || 'ple') SET name = 'x'",
        "MERGE INTO IDENTIFIER('people') t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "INSERT INTO IDENTIFIER('people') VALUES (3, 'c')",
        "ALTER TABLE IDENTIFIER('people') SET TBLPROPERTIES ('a' = 'b')",
        "OPTIMIZE IDENTIFIER('people')",
        "TRUNCATE TABLE IDENTIFIER('people')",
        "TRUNCATE TABLE ${slackwater.test.name}",
        "DELETE FROM ${slackwater.test.name}",
        "EXECUTE IMMEDIATE 'TRUNCATE TABLE people'",
        "EXECUTE IMMEDIATE 'DELETE FROM ' || 'people WHERE id = ?' USING 1",
        "EXECUTE IMMEDIATE 'DELETE FROM people WHERE id = :i' USING (2 AS i)",
    ],
)
def test_what_names_the_table_indirectly_changes_it(
    spark: SparkSession, people: str, conf: Any, statement: str
) -> None:
    conf("slackwater.test.name", people)
    # Two files, for OPTIMIZE to make one of.
    spark.sql("INSERT INTO people VALUES (1, 'a')")
    before = first_row(DeltaTable.forName(spark, people).history(1))["version"]
    spark.sql(statement)
    assert first_row(DeltaTable.forName(spark, people).history(1))["version"] == before + 1


def test_parameters_may_be_names(spark: SparkSession, rows: Rows, people: str) -> None:
    spark.sql("DELETE FROM IDENTIFIER(:t) WHERE id = :i", args={"t": people, "i": 1})
    assert rows("SELECT * FROM IDENTIFIER(:t)", {"t": people}) == [(2, "b")]
    assert rows("SELECT name FROM IDENTIFIER(?) WHERE id = ?", [people, 2]) == [("b",)]
    assert rows("EXECUTE IMMEDIATE 'SELECT name FROM people WHERE id = ?' USING 2") == [("b",)]
    assert rows("EXECUTE IMMEDIATE 'SELECT 1 + ?' USING 2") == [(3,)]


@pytest.mark.parametrize(
    "statement",
    [
        "BEGIN TRUNCATE TABLE people; END",
        "BEGIN DECLARE t STRING DEFAULT 'people'; TRUNCATE TABLE IDENTIFIER(t); END",
        "BEGIN IF 1 = 1 THEN TRUNCATE TABLE spark_catalog.${slackwater.test.name}; END IF; END",
    ],
)
def test_spark_does_not_truncate_a_delta_table_by_itself(
    spark: SparkSession, rows: Rows, people: str, conf: Any, statement: str
) -> None:
    conf("slackwater.test.name", people)
    with pytest.raises(UnsupportedFeature, match="TRUNCATE TABLE"):
        spark.sql(statement).collect()
    assert rows("SELECT id FROM people") == [(1,), (2,)]
    assert DeltaTable.forName(spark, people).history().count() == 2


def test_tables_of_others_are_truncated_as_before(spark: SparkSession, rows: Rows, db: str) -> None:
    spark.sql("CREATE TABLE plain (id INT) USING parquet")
    for statement in ("TRUNCATE TABLE plain", "TRUNCATE TABLE IDENTIFIER('plain')", "BEGIN TRUNCATE TABLE plain; END"):
        spark.sql("INSERT INTO plain VALUES (1)")
        spark.sql(statement)
        assert rows("SELECT * FROM plain") == [], statement


def test_a_query_into_variables_is_refused_by_name(spark: SparkSession, people: str) -> None:
    spark.sql("DECLARE OR REPLACE VARIABLE found INT")
    with pytest.raises(UnsupportedFeature, match="INTO"):
        spark.sql("EXECUTE IMMEDIATE 'SELECT max(id) FROM people' INTO found")


def test_variables_stay_texts_where_the_session_says_so(spark: SparkSession, people: str, conf: Any) -> None:
    conf("slackwater.test.name", people)
    conf("spark.sql.variable.substitute", "false")
    with pytest.raises(Exception, match=r"\$|PARSE_SYNTAX_ERROR"):
        spark.sql("SELECT * FROM ${slackwater.test.name}").collect()


def test_an_alias_that_is_called_truncate_is_no_statement(rows: Rows, people: str) -> None:
    assert rows("SELECT truncate.id FROM people AS truncate WHERE truncate.id = 1") == [(1,)]


def test_a_directory_is_still_there_when_a_table_was_truncated(spark: SparkSession, people: str) -> None:
    spark.catalog.truncateTable(people)
    where = Path(
        "/" + first_row(DeltaTable.forName(spark, people).detail())["location"].removeprefix("file:").lstrip("/")
    )
    assert (where / "_delta_log" / f"{2:020d}.json").exists()
    assert spark.table(people).count() == 0
