"""Settings of the session that change what SQL means: a Delta table gives what a Parquet table gives in that session.

Where Parquet tables know no such statement, the rows that a query of the Parquet table gives are what is wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import slackwater
from slackwater.errors import InvalidArgument, SlackwaterError
from slackwater.spark.read import table_scan

pytestmark = [pytest.mark.spark, pytest.mark.modes]

Rows = Callable[..., list[tuple[Any, ...]]]
Conf = Callable[[str, str], None]

ANSI = "spark.sql.ansi.enabled"
QUOTED_NAMES = "spark.sql.ansi.doubleQuotedIdentifiers"
ESCAPED = "spark.sql.parser.escapedStringLiterals"
CASE = "spark.sql.caseSensitive"
MAPPED = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
FAILED = "failed"


def _twins(spark: SparkSession, columns: str, *files: str) -> None:
    """`t` of Delta and `p` of Parquet, of the same rows in as many files."""
    for name, more in (("t", f"delta {MAPPED}"), ("p", "parquet")):
        spark.sql(f"CREATE TABLE {name} ({columns}) USING {more}")
        for rows in files:
            spark.sql(f"INSERT INTO {name} VALUES {rows}")


def _outcome(rows: Rows, statement: str, *args: Any) -> object:
    """The rows, or that it failed."""
    try:
        return rows(statement, *args)
    except (PySparkException, SlackwaterError):
        return FAILED


# What a condition compares that is not of one type; what fails in one of the settings and not in the other.
CONDITIONS = (
    "i = '2'", "s = 2", "s > 1", "s IN (1, 2)", "i = 'x'", "d = '2026-01-02'", "d > 'x'", "b = 'true'", "n > '1'",
    "i + 2147483646 > 0", "i / 0 > 1", "CAST(s AS INT) = 1", "NOT (s = 1)", "i = 3000000000",
)  # fmt: skip


@pytest.mark.parametrize("ansi", ["true", pytest.param("false", marks=pytest.mark.long)])
def test_conditions_mean_what_they_mean_over_parquet(
    spark: SparkSession, rows: Rows, db: str, conf: Conf, ansi: str
) -> None:
    conf(ANSI, ansi)
    first = "(1, '1', DATE'2026-01-01', true, 1.5), (NULL, '', NULL, NULL, NULL)"
    _twins(spark, "i INT, s STRING, d DATE, b BOOLEAN, n DECIMAL(4, 1)", first, "(2, 'x', DATE'2026-01-02', false, 9)")
    wanted = {each: _outcome(rows, f"SELECT i, s FROM p WHERE {each}") for each in CONDITIONS}
    assert {each: _outcome(rows, f"SELECT i, s FROM t WHERE {each}") for each in CONDITIONS} == wanted
    assert (FAILED in wanted.values()) == (ansi == "true")
    for each in [each for each in CONDITIONS if wanted[each] not in (FAILED, [])][:3]:
        before = slackwater.DeltaTable.forName(spark, "t").history(1).collect()[0].version
        wanted_left = rows(f"SELECT i, s FROM p WHERE NOT coalesce({each}, false)")
        assert rows(f"DELETE FROM t WHERE {each}") == [(len(rows("TABLE p")) - len(wanted_left),)], each
        assert rows("SELECT i, s FROM t") == wanted_left, each
        spark.sql(f"RESTORE TABLE t TO VERSION AS OF {before}")


VALUES = ("1.7", "3000000000", "CAST('x' AS INT)", "2147483647 + 1", "DATE'2026-01-01'")


BY_SOURCE = "WHEN NOT MATCHED BY SOURCE THEN UPDATE"


@pytest.mark.parametrize("ansi", ["true", pytest.param("false", marks=pytest.mark.long)])
@pytest.mark.long
def test_values_are_stored_as_in_parquet(spark: SparkSession, rows: Rows, db: str, conf: Conf, ansi: str) -> None:
    """Source: Spark's store assignment, which is of its own setting, over casts in expressions, which are of ANSI.

    Texts and truth values are numbers too where delta-spark takes them for that, which tests/spark/write have.
    """
    conf(ANSI, ansi)
    _twins(spark, "i INT", "(1)")
    for value in VALUES:
        spark.sql("TRUNCATE TABLE p")
        wanted = FAILED if _outcome(rows, f"INSERT INTO p SELECT {value}") == FAILED else rows("TABLE p")
        changes = (f"UPDATE t SET i = {value}", f"MERGE INTO t USING p ON false {BY_SOURCE} SET i = {value}")
        inserts = (f"INSERT OVERWRITE t SELECT {value}", f"INSERT INTO t REPLACE WHERE i = 1 SELECT {value}")
        for statement in (*inserts[: 1 + (value == "1.7")], *changes):
            spark.sql("INSERT OVERWRITE t VALUES (1)")
            found = FAILED if _outcome(rows, statement) == FAILED else rows("TABLE t")
            assert found == wanted, statement


@pytest.mark.parametrize("is_on", [True, False])
def test_double_quotes_are_names_or_texts(spark: SparkSession, rows: Rows, db: str, conf: Conf, is_on: bool) -> None:
    conf(QUOTED_NAMES, str(is_on).lower())
    _twins(spark, "id INT, `a b` STRING, x STRING", "(1, 'x', 'p'), (2, 'y', 'x')")
    wanted = rows('SELECT id FROM p WHERE "x" = `a b` ORDER BY "id"')
    assert rows('SELECT id FROM t WHERE "x" = `a b` ORDER BY "id"') == wanted
    assert wanted == ([] if is_on else [(1,)])
    assert rows('UPDATE t SET `a b` = "x" WHERE id = 1') == [(1,)]
    assert rows("SELECT `a b` FROM t WHERE id = 1") == [("p",) if is_on else ("x",)]
    assert rows("DELETE FROM t WHERE \"x\" = 'x'") == [(1,) if is_on else (2,)]


MADE = {
    "where": lambda spark, name, condition: spark.table(name).where(condition).select("id"),
    "column": lambda spark, name, condition: spark.table(name).where("id > 0").where(F.expr(condition)).select("id"),
    "query": lambda spark, name, condition: spark.sql(f"SELECT id FROM {name} WHERE {condition}"),
}


@pytest.mark.filterwarnings("ignore:The SQL config .*escapedStringLiterals")
@pytest.mark.parametrize("made", ["where", pytest.param("column", marks=pytest.mark.long), "query"])
@pytest.mark.parametrize("files", ["few files", "many files"])
def test_settings_change_between_a_condition_and_the_query(
    spark: SparkSession, db: str, conf: Conf, monkeypatch: pytest.MonkeyPatch, files: str, made: str
) -> None:
    """In classic mode Spark reads the text at once, through Connect with the query.

    Names in double quotes are read with the statement in both modes.
    """
    if files == "many files":
        monkeypatch.setattr(table_scan, "FEW_FILES", 0)
    _twins(spark, "id INT, s STRING", "(1, 'a\\tb')", "(2, r'a\\tb')", "(3, 's')", "(4, 'x')")
    conditions = {ESCAPED: r"s = 'a\tb'", QUOTED_NAMES: "\"s\" = 's'"}
    found: dict[str, list[object]] = {}
    for name in ("t", "p"):
        for key, condition in conditions.items():
            for first, then in (("false", "true"), ("true", "false")):
                if (made, key, first) == ("query", QUOTED_NAMES, "true"):
                    continue
                conf(key, first)
                frame = MADE[made](spark, name, condition)
                conf(key, then)
                found.setdefault(name, []).append(sorted(row["id"] for row in frame.collect()))
            conf(key, "false")
    assert found["t"] == found["p"]
    assert [1] in found["p"]
    assert [2] in found["p"]


def test_double_quoted_names_stand_in_every_statement(spark: SparkSession, rows: Rows, db: str, conf: Conf) -> None:
    conf(QUOTED_NAMES, "true")
    spark.sql(f'CREATE TABLE "t" ("id" INT, "a ""b" STRING) USING delta {MAPPED}')
    spark.sql('INSERT INTO "t" ("a ""b", "id") VALUES (\'"x"\', 1)')
    spark.sql(
        'MERGE INTO "t" AS "g" USING (SELECT 1 AS "k e") "s" ON "g"."id" = "s"."k e" '
        'WHEN MATCHED THEN UPDATE SET "a ""b" = "g"."a ""b" || \'!\''
    )
    spark.sql('ALTER TABLE "t" ADD COLUMN ("n m" INT)')
    assert rows(f'SELECT "t"."a ""b", "n m" FROM {db}."t" WHERE "t"."id" = 1') == [('"x"!', None)]
    assert [row[0] for row in rows('DESCRIBE "t"')] == ['a "b', "id", "n m"]
    assert rows('SHOW COLUMNS IN "t"') == [('a "b',), ("id",), ("n m",)]
    with pytest.raises(PySparkException):
        rows('SELECT "y" FROM t')


def test_variables_are_substituted_where_spark_does_it(spark: SparkSession, rows: Rows, db: str, conf: Conf) -> None:
    conf("slackwater.test.column", "`a b`")
    conf("slackwater.test.value", "it")
    _twins(spark, "id INT, `a b` STRING", "(1, 'it')", "(2, '${slackwater.test.value}')")
    for name in ("t", "p"):
        assert rows(f"SELECT id FROM {name} WHERE ${{slackwater.test.column}} = '${{slackwater.test.value}}'") == [
            (1,), (2,)
        ]  # fmt: skip
        # Spark gives no text at all for what is not set.
        assert rows(f"SELECT '${{slackwater.test.none}}x' FROM {name} WHERE id = 1") == [("x",)]
    assert rows("UPDATE t SET `a b` = '<${slackwater.test.value}>' WHERE id = 1") == [(1,)]
    assert rows("DELETE FROM t WHERE ${slackwater.test.column} = '<${slackwater.test.value}>'") == [(1,)]
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('mine' = '${slackwater.test.value}${slackwater.test.none}')")
    assert ("mine", "it") in rows("SHOW TBLPROPERTIES t")
    conf("spark.sql.variable.substitute", "false")
    for name in ("t", "p"):
        spark.sql(f"INSERT INTO {name} VALUES (3, '${{slackwater.test.value}}')")
        assert rows(f"SELECT id FROM {name} WHERE `a b` = '${{slackwater.test.value}}'") == [(3,)]
    assert rows("DELETE FROM t WHERE `a b` = '${slackwater.test.value}'") == [(1,)]


def test_a_value_that_looks_like_a_variable_is_a_value(spark: SparkSession, rows: Rows, db: str, conf: Conf) -> None:
    conf("slackwater.test.value", "it")
    given = {"v": "${slackwater.test.value}", "w": "\\${a}'"}
    spark.sql("CREATE TABLE t (v STRING, w STRING) USING delta")
    spark.sql("INSERT INTO t VALUES (:v, :w), ('it', '')", given)
    spark.sql("UPDATE t SET w = :v WHERE v = 'it'", given)
    assert rows("SELECT * FROM t") == [("${slackwater.test.value}", "\\${a}'"), ("it", "${slackwater.test.value}")]
    assert rows("SELECT :v FROM t VERSION AS OF :n", {**given, "n": 0}) == []
    spark.sql("MERGE INTO t USING (SELECT :v AS v) s ON t.v = s.v WHEN MATCHED THEN UPDATE SET w = :w || s.v", given)
    assert rows("DELETE FROM t WHERE v = :v AND w = :both", {**given, "both": given["w"] + given["v"]}) == [(1,)]


def test_names_count_by_their_case_where_the_session_says_so(
    spark: SparkSession, rows: Rows, db: str, conf: Conf
) -> None:
    conf(CASE, "true")
    spark.sql("CREATE TABLE lower (id INT, v STRING) USING delta")
    spark.sql("CREATE TABLE upper (ID INT) USING delta")
    spark.sql("INSERT INTO lower VALUES (1, 'a'), (2, 'b')")
    spark.sql("INSERT INTO upper VALUES (1), (7)")
    # `ID` is of the outer table, so it chooses no files of the inner one.
    assert rows("SELECT * FROM upper WHERE EXISTS (SELECT 1 FROM lower WHERE ID = 7)") == [(7,)]
    assert rows("SELECT * FROM lower, upper WHERE id = 2 AND ID = 7") == [(2, "b", 7)]
    assert rows("DELETE FROM upper WHERE EXISTS (SELECT 1 FROM lower WHERE id = 2 AND ID = 1)") == [(1,)]
    for statement in (
        "SELECT ID FROM lower",
        "SELECT LOWER.id FROM lower",
        "UPDATE lower SET v = 'x' WHERE ID = 1",
        "DELETE FROM lower WHERE ID = 1",
        "MERGE INTO lower USING upper ON lower.ID = upper.ID WHEN MATCHED THEN DELETE",
    ):
        assert _outcome(rows, statement) == FAILED, statement
    assert rows("SELECT id FROM lower") == [(1,), (2,)]
    with pytest.raises(InvalidArgument, match="a column 'id' already exists"):
        spark.sql("ALTER TABLE lower ADD COLUMN ID INT")
    # Where one column can be meant, INSERT, SET and ALTER take it in any case.
    spark.sql("INSERT INTO lower (ID, V) VALUES (3, 'c')")
    spark.sql("UPDATE lower SET V = 'new' WHERE id = 3")
    spark.sql("ALTER TABLE lower ALTER COLUMN ID COMMENT 'key'")
    assert rows("DESCRIBE lower ID")[0] == ("col_name", "id")
    assert rows("SELECT v FROM lower WHERE id = 3") == [("new",)]


def test_tables_and_views_are_of_their_case(spark: SparkSession, rows: Rows, db: str, conf: Conf) -> None:
    conf(CASE, "true")
    for name in ("t", "T"):
        spark.sql(f"CREATE TABLE {name} (id STRING) USING delta")
        spark.sql(f"INSERT INTO {name} VALUES ('{name}')")
        spark.sql(f"CREATE TEMP VIEW view_{name} AS SELECT id FROM {name}")
    assert (rows("TABLE t"), rows("TABLE T")) == ([("t",)], [("T",)])
    assert rows("WITH T AS (SELECT 'common' AS id) SELECT * FROM t") == [("t",)]
    assert rows("WITH T AS (SELECT 'common' AS id) SELECT * FROM T") == [("common",)]
    spark.sql("UPDATE t SET id = 'new'")
    spark.sql("DELETE FROM T")
    # Both views see what is there now.
    assert (rows("TABLE view_t"), rows("TABLE view_T")) == ([("new",)], [])
    for name in ("t", "T"):
        spark.sql(f"DROP VIEW view_{name}")
