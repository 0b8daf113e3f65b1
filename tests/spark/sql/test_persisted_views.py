"""Views of the catalog over Delta tables: the text of the user is stored, and statements that name one expand it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater.errors import InvalidArgument, UnsupportedFeature
from slackwater.spark.session.classic_connect import is_connect

pytestmark = [pytest.mark.spark, pytest.mark.modes]

Rows = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def table(spark: SparkSession, db: str) -> str:
    spark.sql("CREATE TABLE t (id INT, v STRING) USING delta")
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    return f"{db}.t"


def test_a_view_sees_the_newest_version_wherever_it_is_named(
    spark: SparkSession, rows: Rows, table: str, db: str
) -> None:
    spark.sql("CREATE VIEW late AS SELECT * FROM t WHERE id > 1")
    spark.sql("INSERT INTO t VALUES (9, 'x')")
    expected = [(2, "b"), (9, "x")]
    assert rows("SELECT * FROM late") == expected
    assert rows(f"TABLE {db}.late") == rows(f"SELECT late.* FROM spark_catalog.{db}.late") == expected
    assert sorted(map(tuple, spark.table("late").collect())) == expected
    assert sorted(map(tuple, spark.read.table(f"{db}.LATE").collect())) == expected
    assert rows("SELECT l.id FROM late l JOIN t USING (id) WHERE l.v = 'x'") == [(9,)]
    assert rows("WITH w AS (SELECT count(*) n FROM late) SELECT n FROM w") == [(2,)]
    assert rows("SELECT id FROM t WHERE id NOT IN (SELECT id FROM late)") == [(1,)]
    spark.sql("DELETE FROM t WHERE id IN (SELECT id FROM late WHERE v = 'x')")
    assert rows("SELECT count(*) FROM late") == [(1,)]
    spark.sql("CREATE TABLE copied USING delta AS SELECT * FROM late")
    assert rows("SELECT * FROM copied") == [(2, "b")]


def test_clauses_of_a_view_are_kept(spark: SparkSession, rows: Rows, table: str, db: str) -> None:
    spark.sql(
        "CREATE OR REPLACE VIEW v (number COMMENT 'the id', text) COMMENT 'both' TBLPROPERTIES ('k' = 'w') "
        "AS SELECT id, v FROM t"
    )
    assert spark.table("v").columns == ["number", "text"]
    assert rows("SELECT number FROM v WHERE text = 'b'") == [(2,)]
    described = {row.col_name: row for row in spark.sql("DESCRIBE TABLE EXTENDED v").collect()}
    assert described["number"].comment == "the id"
    assert described["Comment"].data_type == "both"
    assert described["View Text"].data_type == "SELECT id, v FROM t"
    assert rows("SHOW TBLPROPERTIES v ('k')") == [("k", "w")]
    assert ("v", False) in [(row.viewName, row.isTemporary) for row in spark.sql("SHOW VIEWS").collect()]
    assert "SELECT id, v FROM t" in rows("SHOW CREATE TABLE v")[0][0]
    assert spark.catalog.tableExists("v")
    spark.sql("CREATE VIEW IF NOT EXISTS v AS SELECT 1 AS one FROM t")
    assert spark.table("v").columns == ["number", "text"]
    with pytest.raises(Exception, match="already exists"):
        spark.sql("CREATE VIEW v AS SELECT id FROM t")
    spark.sql("ALTER VIEW v AS SELECT id * 10 AS ten FROM t")
    assert rows("SELECT * FROM v") == [(10,), (20,)]
    spark.sql("ALTER VIEW v RENAME TO w")
    assert rows("SELECT * FROM w") == [(10,), (20,)]
    spark.sql("DROP VIEW w")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("SELECT * FROM w")


def test_names_in_a_view_mean_what_they_meant_at_its_creation(
    spark: SparkSession, rows: Rows, table: str, db: str
) -> None:
    spark.sql("CREATE TABLE plain USING parquet AS SELECT 2 AS id")
    spark.sql("CREATE VIEW v AS SELECT t.id, t.v, plain.id AS other FROM t LEFT JOIN plain ON t.id = plain.id")
    spark.sql(f"CREATE VIEW outside AS SELECT {db}.t.id FROM {db}.t")
    spark.sql("USE default")
    try:
        assert rows(f"SELECT * FROM {db}.v") == [(1, "a", None), (2, "b", 2)]
        assert rows(f"SELECT * FROM {db}.outside") == [(1,), (2,)]
    finally:
        spark.sql(f"USE {db}")
    spark.sql("CREATE TEMP VIEW t AS SELECT 7 AS id, 'temporary' AS v")
    try:
        assert rows("SELECT id FROM v") == [(1,), (2,)]
    finally:
        spark.catalog.dropTempView("t")


def test_views_over_views(spark: SparkSession, rows: Rows, table: str) -> None:
    spark.sql("CREATE VIEW a AS SELECT id AS x FROM t")
    spark.sql("CREATE VIEW b (y) AS SELECT x + 1 AS z FROM a")
    spark.sql("CREATE TEMP VIEW c AS SELECT y * 2 AS z FROM b")
    try:
        spark.sql("INSERT INTO t VALUES (10, 'x')")
        assert rows("SELECT y FROM b") == [(11,), (2,), (3,)]
        assert rows("SELECT z FROM c") == [(22,), (4,), (6,)]
        spark.sql("ALTER VIEW a AS SELECT id * 100 AS x FROM t WHERE id = 1")
        assert rows("SELECT y FROM b") == [(101,)]
    finally:
        spark.catalog.dropTempView("c")
    for text in ("ALTER VIEW a AS SELECT y AS x FROM b", "CREATE OR REPLACE VIEW a AS SELECT x FROM a JOIN t"):
        with pytest.raises(InvalidArgument, match="reads itself"):
            spark.sql(text)
    assert rows("SELECT y FROM b") == [(101,)]


def test_columns_of_a_view_stay_when_its_table_evolves(spark: SparkSession, rows: Rows, table: str) -> None:
    spark.sql("CREATE VIEW star AS SELECT * FROM t")
    spark.sql("ALTER TABLE t ADD COLUMNS (w INT)")
    spark.sql("INSERT INTO t VALUES (3, 'c', 4)")
    assert rows("SELECT * FROM star") == [(1, "a"), (2, "b"), (3, "c")]


# Views over a table of a file for each day, and the number of files for their rows of one day.
VIEWS = {
    "v AS SELECT * FROM {t}": 1,
    "v (id, day) AS SELECT number, {t}.day FROM {t}": 1,
    "v (number, day) AS SELECT number, d FROM (SELECT *, day AS d FROM {t})": 1,
    "v AS SELECT number + 1 AS id, CAST(day AS DATE) AS day FROM {t} WHERE number > 0": 1,
    "v AS SELECT number AS id, date_add(day, 1) AS day FROM {t}": 6,
    "v AS SELECT first_value(number) OVER (ORDER BY number) AS id, day FROM {t}": 6,
    "v AS SELECT number AS id, day FROM {t} UNION ALL SELECT 7, DATE '2026-01-03'": 6,
}


def test_a_query_of_a_view_reads_only_the_files_of_its_conditions(spark: SparkSession, rows: Rows, db: str) -> None:
    days = "SELECT id AS number, date_add(DATE '2026-01-01', CAST(id % 6 AS INT)) AS day FROM range(0, 12, 1, 1)"
    spark.sql(f"CREATE TABLE t USING delta PARTITIONED BY (day) AS {days}")
    spark.sql("CREATE TABLE p USING parquet AS SELECT * FROM t")
    for text, wanted in VIEWS.items():
        spark.sql(f"CREATE OR REPLACE VIEW {text.format(t='t')}")
        spark.sql(f"CREATE OR REPLACE VIEW w{text.format(t='p')[1:]}")
        frame = spark.sql("SELECT * FROM v x WHERE x.day = '2026-01-03'")
        assert len(frame.inputFiles()) == wanted, text
        assert sorted(map(tuple, frame.collect())) == sorted(rows("SELECT * FROM w x WHERE x.day = '2026-01-03'")), text


# Queries of a table of a file for each row, as views, and conditions on the views. Spark's answer is that for Parquet.
ODD = {
    "(x, y) AS SELECT a, b + 1 AS a FROM {t}": "y = 11",
    "(x, y) AS SELECT a, -a AS A FROM {t}": "y = 3 OR x = 1",
    "AS SELECT d AS date, a FROM {t}": "date = DATE'2020-01-01' OR a = 2",
    "AS SELECT a AS `1x`, `1x` AS a FROM {t}": "1x = 1 OR a = 9",
    "DEFAULT COLLATION UTF8_LCASE AS SELECT a FROM {t} WHERE CAST(n AS STRING) = 'x'": "true",
    "DEFAULT COLLATION UTF8_LCASE AS SELECT a, CAST(n AS STRING) AS k FROM {t}": "k = 'x'",
    "AS SELECT a, n COLLATE UTF8_LCASE AS k FROM {t}": "k = 'x'",
    "AS SELECT a, CAST(n AS STRING) AS k FROM {t}": "k = 'x'",
    "AS SELECT a, make_interval(a) AS i, INTERVAL '1' DAY AS j, INTERVAL '1-2' YEAR TO MONTH AS k FROM {t}": "a = 1",
    "WITH SCHEMA EVOLUTION AS SELECT a, make_interval(1, 2) AS i FROM {t}": "a = 1 AND i IS NOT NULL",
    "WITH SCHEMA TYPE EVOLUTION AS SELECT a AS k, a + 1 AS a FROM {t}": "k = 1 OR a = 3",
}


@pytest.mark.parametrize("query", ODD)
def test_views_have_the_rows_that_spark_gives_them(spark: SparkSession, rows: Rows, db: str, query: str) -> None:
    odd = "SELECT id AS a, 10 * id AS b, make_date(2020, 1, id) AS d, date'2021-01-01' AS date, 10 - id AS `1x`, "
    odd += "CASE id WHEN 2 THEN 'X' ELSE 'x' END AS n FROM VALUES (1), (2), (3) v (id)"
    spark.sql(f"CREATE TABLE t USING delta PARTITIONED BY (p) AS SELECT *, a AS p FROM ({odd})")
    spark.sql("CREATE TABLE p USING parquet AS SELECT * FROM t")
    spark.sql(f"CREATE VIEW v {query.format(t='t')}")
    spark.sql(f"CREATE VIEW w {query.format(t='p')}")
    if "DEFAULT COLLATION" in query and is_connect(spark):
        with pytest.raises(UnsupportedFeature, match=r"the default collation UTF8_LCASE\. Name the"):
            rows("SELECT * FROM v")
        return
    assert rows(f"SELECT CAST(struct(*) AS STRING) FROM v WHERE {ODD[query]}") == rows(
        f"SELECT CAST(struct(*) AS STRING) FROM w WHERE {ODD[query]}"
    )


@pytest.mark.parametrize(
    "condition", ["c = 'ab'", "c IN ('ab', 'x')", "v = 'ab'", "c = 'ab   '", "concat(c, '|') = 'ab   |'"]
)
def test_char_columns_of_a_view_are_padded(spark: SparkSession, rows: Rows, db: str, condition: str) -> None:
    for name, provider in (("t", "delta"), ("p", "parquet")):
        spark.sql(f"CREATE TABLE {name} (id INT, c CHAR(5), v VARCHAR(5)) USING {provider}")
        spark.sql(f"INSERT INTO {name} VALUES (1, 'ab', 'ab'), (2, 'x', 'y'), (3, NULL, 'z')")
    spark.sql("CREATE VIEW a AS SELECT * FROM t")
    spark.sql("CREATE VIEW b AS SELECT * FROM p")
    assert rows(f"SELECT id FROM a WHERE {condition}") == rows(f"SELECT id FROM b WHERE {condition}")


@pytest.mark.parametrize("change", ["s STRING", "s INT"])
def test_conditions_on_a_view_are_those_of_its_types(spark: SparkSession, rows: Rows, db: str, change: str) -> None:
    """A table was replaced by one with another type; the view casts to the type of its creation."""
    spark.sql("CREATE TABLE t (id INT, s STRING) USING delta")
    spark.sql("CREATE VIEW v AS SELECT * FROM t")
    spark.sql("CREATE VIEW w (k, name) AS SELECT id, s FROM v")
    spark.sql(f"CREATE OR REPLACE TABLE t (id INT, {change}) USING delta")
    for each in (1, 10, 2):
        spark.sql(f"INSERT INTO t VALUES ({each}, {each})")
    found = spark.sql("SELECT k FROM w WHERE name < '2'")
    assert sorted(map(tuple, found.collect())) == [(1,), (10,)]
    assert len(found.inputFiles()) == (2 if change == "s STRING" else 3)
    assert rows("SELECT k FROM w WHERE name = '01'") == []


def test_a_view_names_tables_by_path_version_and_new_columns(
    spark: SparkSession, rows: Rows, table: str, tmp_path: Path
) -> None:
    spark.sql("INSERT INTO t VALUES (3, 'c')")
    path = str(tmp_path / "by path")
    mapped = "USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    spark.sql(f"CREATE TABLE delta.`{path}` {mapped} AS SELECT named_struct('a', 1, 'b c', id) AS s FROM t")
    queries = {
        f"SELECT s.`b c` AS id, s FROM delta.`{path}`": [(1, (1, 1)), (2, (1, 2)), (3, (1, 3))],
        "SELECT id FROM t VERSION AS OF 1": [(1,), (2,)],
        "SELECT id FROM t@v1": [(1,), (2,)],
    }
    for query, expected in queries.items():
        if is_connect(spark):
            with pytest.raises(UnsupportedFeature, match="through Spark Connect, a view can use only tables"):
                spark.sql(f"CREATE OR REPLACE VIEW v AS {query}")
            assert not spark.catalog.tableExists("v")
            continue
        spark.sql(f"CREATE OR REPLACE VIEW v AS {query}")
        assert rows("SELECT * FROM v") == expected
        text = {row.col_name: row.data_type for row in spark.sql("DESCRIBE TABLE EXTENDED v").collect()}
        assert text["View Text"] == text["View Original Text"] == query
        spark.sql(f"ALTER VIEW v AS SELECT count(*) AS n FROM ({query})")
        assert rows("SELECT * FROM v") == [(len(expected),)]
        other = spark.newSession()
        assert other.sql(f"SELECT n FROM {table.partition('.')[0]}.v").collect() == [(len(expected),)]
        spark.sql("CREATE VIEW IF NOT EXISTS v AS SELECT id FROM t@v1")
        assert rows("SELECT * FROM v") == [(len(expected),)]


@pytest.mark.parametrize("kind", ["VIEW", "TEMP VIEW", "GLOBAL TEMP VIEW"])
def test_settings_are_those_of_the_creation(
    spark: SparkSession, rows: Rows, table: str, conf: Callable[[str, str], None], kind: str
) -> None:
    """As Spark reads a view of the same query over Parquet."""
    spark.sql("CREATE TABLE p USING parquet AS SELECT * FROM t")
    query = "SELECT CAST(v AS INT) AS n, CAST(TIMESTAMP'1970-01-01 00:00:00Z' AS STRING) AS s, ID AS i FROM"
    conf("spark.sql.ansi.enabled", "false")
    conf("spark.sql.session.timeZone", "Asia/Kolkata")
    spark.sql(f"CREATE OR REPLACE {kind} v AS {query} t")
    spark.sql(f"CREATE OR REPLACE {kind} w AS {query} p")
    v, w = (f"{'global_temp.' if kind.startswith('GLOBAL') else ''}{name}" for name in "vw")
    assert rows(f"SELECT * FROM {v}") == rows(f"SELECT * FROM {w}")
    for key, value in (("session.timeZone", "America/St_Johns"), ("ansi.enabled", "true"), ("caseSensitive", "true")):
        conf(f"spark.sql.{key}", value)
    if is_connect(spark):
        with pytest.raises(UnsupportedFeature, match=r"was created with spark\.sql"):
            rows(f"SELECT * FROM {v}")
    else:
        assert rows(f"SELECT * FROM {v}") == rows(f"SELECT * FROM {w}")
    for name in (v, w):
        spark.sql(f"DROP VIEW {name}")


@pytest.mark.parametrize("kind", ["VIEW", "TEMP VIEW", "GLOBAL TEMP VIEW"])
@pytest.mark.parametrize(
    ("key", "value", "query"),
    [
        (
            "legacy.setopsPrecedence.enabled",
            "true",
            "SELECT id FROM {0} UNION ALL SELECT id FROM {0} INTERSECT SELECT 7",
        ),
        (
            "decimalOperations.allowPrecisionLoss",
            "false",
            "SELECT 1.0BD / id AS d, id * 1.000000000000000000BD AS e FROM {0}",
        ),
        pytest.param(
            "groupByOrdinal",
            "false",
            "SELECT id + 0 AS i, count(*) AS n FROM {0} GROUP BY 1, id",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "legacy.exponentLiteralAsDecimal.enabled",
            "true",
            "SELECT typeof(id * 1E3) AS k FROM {0}",
            marks=pytest.mark.long,
        ),
        ("timestampType", "TIMESTAMP_NTZ", "SELECT typeof(TIMESTAMP'2024-01-01 00:00:00') AS k, id FROM {0}"),
    ],
)
def test_every_setting_of_a_query_is_that_of_the_creation(
    spark: SparkSession, rows: Rows, table: str, kind: str, key: str, value: str, query: str
) -> None:
    """As Spark reads a view of the same query over Parquet. Settings without a meaning for queries may change."""
    spark.sql("CREATE TABLE p USING parquet AS SELECT * FROM t")
    key, prefix = f"spark.sql.{key}", "global_temp." if kind.startswith("GLOBAL") else ""
    others = {"spark.sql.shuffle.partitions": "3", "spark.sql.legacy.createHiveTableByDefault": "false"}
    others |= {"spark.slackwater.x": "1", "spark.sql.session.localRelationCacheThreshold": "100"}
    had = {each: spark.conf.get(each, None) for each in others}
    default = spark.conf.get(key)
    for created, read in ((None, value), (value, None), (value, default)):

        def use(setting: str | None) -> None:
            spark.conf.unset(key) if setting is None else spark.conf.set(key, setting)

        try:
            use(created)
            for name, source in (("v", "t"), ("w", "p")):
                spark.sql(f"CREATE OR REPLACE {kind} {name} AS {query.format(source)}")
            for each, setting in others.items():
                spark.conf.set(each, setting)
            expected = rows(f"SELECT * FROM {prefix}w")
            assert rows(f"SELECT * FROM {prefix}v") == expected
            frame = spark.table(f"{prefix}v")
            use(read)
            if is_connect(spark):
                for late in (frame.collect, lambda: rows(f"SELECT * FROM {prefix}v")):
                    with pytest.raises(UnsupportedFeature, match=f"v`?: the view was created with {key}"):
                        late()
            else:
                assert rows(f"SELECT * FROM {prefix}v") == rows(f"SELECT * FROM {prefix}w") == expected
            use(default if created is None else created)
            assert rows(f"SELECT * FROM {prefix}v") == expected
        finally:
            for each in (key, *others):
                before = had.get(each)
                spark.conf.unset(each) if before is None else spark.conf.set(each, before)
    for name in "vw":
        spark.sql(f"DROP VIEW {prefix}{name}")


def test_a_setting_that_was_not_set_at_the_creation_is_named(
    spark: SparkSession, rows: Rows, table: str, conf: Callable[[str, str], None]
) -> None:
    spark.sql("CREATE VIEW v AS SELECT id, array_insert(array(7, 8), -1, 9) AS a FROM t")
    conf("spark.sql.legacy.negativeIndexInArrayInsert", "true")
    if is_connect(spark):
        with pytest.raises(UnsupportedFeature, match=r"negativeIndexInArrayInsert unset, .* has true\. Unset spark"):
            rows("SELECT * FROM v")
    else:
        assert rows("SELECT * FROM v") == [(1, [7, 8, 9]), (2, [7, 8, 9])]


def test_names_of_a_view_have_the_case_of_its_creation(
    spark: SparkSession, rows: Rows, table: str, conf: Callable[[str, str], None]
) -> None:
    spark.sql("CREATE VIEW v AS SELECT ID, V FROM T")
    conf("spark.sql.caseSensitive", "true")
    if is_connect(spark):
        with pytest.raises(UnsupportedFeature, match=r"created with spark\.sql\.caseSensitive=false"):
            rows("SELECT * FROM v")
    else:
        assert rows("SELECT * FROM v") == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("kind", ["VIEW", "TEMP VIEW", "GLOBAL TEMP VIEW"])
def test_common_tables_of_a_view_have_the_case_of_its_creation(
    spark: SparkSession, rows: Rows, table: str, db: str, conf: Callable[[str, str], None], kind: str
) -> None:
    """As Spark reads a view of the same query over Parquet."""
    spark.sql("CREATE TABLE p USING parquet AS SELECT * FROM t")
    conf("spark.sql.caseSensitive", "true")
    query = "WITH {1} AS (SELECT id FROM {0} WHERE id = 1) SELECT id FROM {1} UNION ALL SELECT id FROM {0}"
    for name, source in (("v", "t"), ("w", "p")):
        spark.sql(f"CREATE OR REPLACE {kind} {name} AS {query.format(source, source.upper())}")
    v, w = (f"{'global_temp.' if kind.startswith('GLOBAL') else ''}{name}" for name in "vw")
    try:
        assert rows(f"SELECT * FROM {v}") == rows(f"SELECT * FROM {w}") == [(1,), (1,), (2,)]
        spark.sql("USE default")
        if kind == "VIEW":
            v, w = f"{db}.{v}", f"{db}.{w}"
        assert rows(f"SELECT * FROM {v}") == rows(f"SELECT * FROM {w}") == [(1,), (1,), (2,)]
        conf("spark.sql.caseSensitive", "false")
        if is_connect(spark):
            with pytest.raises(UnsupportedFeature, match=r"created with spark\.sql\.caseSensitive=true"):
                rows(f"SELECT * FROM {v}")
        else:
            assert rows(f"SELECT * FROM {v}") == rows(f"SELECT * FROM {w}") == [(1,), (1,), (2,)]
    finally:
        spark.sql(f"USE {db}")
        for name in (v, w):
            spark.sql(f"DROP VIEW {name}")


def test_a_view_of_the_catalog_has_the_name_of_a_temporary_view(
    spark: SparkSession, rows: Rows, table: str, db: str
) -> None:
    spark.range(5, 6).createOrReplaceTempView("v")
    versions = [""] if is_connect(spark) else ["", " VERSION AS OF 1"]
    for version in versions:
        spark.sql(f"CREATE OR REPLACE VIEW v AS SELECT id AS n FROM t{version}")
        assert rows(f"SELECT n FROM {db}.v") == rows(f"SELECT id FROM t{version}")
        assert rows("SELECT * FROM v") == [(5,)]
    spark.sql("DROP VIEW v")


def test_a_view_is_not_cached(spark: SparkSession, table: str) -> None:
    spark.sql("CREATE VIEW v AS SELECT * FROM t")
    with pytest.raises(UnsupportedFeature, match="CACHE TABLE `v`: Delta tables can get newer versions"):
        spark.sql("CACHE TABLE v")


def test_what_other_sessions_do_not_have_is_refused(spark: SparkSession, table: str, lake: slackwater.Lake) -> None:
    spark.sql("CREATE TEMP VIEW passing AS SELECT * FROM t")
    frame = spark.table("t")
    refused: dict[str, tuple[type[Exception], str, dict[str, Any]]] = {
        "CREATE VIEW v AS SELECT * FROM passing": (
            InvalidArgument,
            "temporary view passing ends",
            {},
        ),
        "CREATE VIEW v AS SELECT sku FROM lake.stock": (UnsupportedFeature, "other sessions do not have the lake", {}),
        "CREATE VIEW lake.v AS SELECT * FROM t": (UnsupportedFeature, "a lake has no views", {}),
        "CREATE VIEW v AS SELECT f.id FROM {f} f JOIN t": (InvalidArgument, "temporary view", {"f": frame}),
        "CREATE VIEW v AS SELECT nope FROM t": (Exception, "UNRESOLVED_COLUMN", {}),
    }
    try:
        for text, (error, says, frames) in refused.items():
            with pytest.raises(error, match=says):
                spark.sql(text, **frames)
            assert not spark.catalog.tableExists("v")
    finally:
        spark.catalog.dropTempView("passing")


@pytest.mark.classic
def test_a_view_that_was_not_completed_says_so(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends between the two steps that a table by its path needs."""
    from slackwater.spark.catalog import persisted_views

    def ends(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(persisted_views, "copied", ends)
        with pytest.raises(KeyboardInterrupt):
            spark.sql("CREATE VIEW v AS SELECT id FROM t@v1")
    with pytest.raises(Exception, match="the view was not created completely"):
        spark.sql("SELECT * FROM v").collect()
    spark.sql("CREATE OR REPLACE VIEW v AS SELECT id FROM t@v1")
    assert spark.sql("SELECT * FROM v").count() == 2
