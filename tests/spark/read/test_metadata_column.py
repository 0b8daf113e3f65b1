"""`_metadata` of tables in frames and in SQL: fields of files, row ids and row commit versions.

Source: delta-protocol.md "Row Tracking"; the names are those of delta-spark.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from slackwater.errors import InvalidArgument
from slackwater.spark.read.metadata_column import revealed
from slackwater.spark.read.table_scan import TableScan
from slackwater.spark.session.classic_connect import is_connect
from tests.spark.changed import VECTORS

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

ROW_TRACKING = "delta.enableRowTracking"


@pytest.fixture(params=["spark", "arrow"])
def transport(request: pytest.FixtureRequest) -> str:
    """The reader of the rows: Spark's own, or PyArrow in the executors."""
    value: str = request.param
    return value


def made(spark: SparkSession, path: str, vectors: str, **properties: str) -> str:
    """A table of two files whose row 3 was deleted and whose row 4 was updated in version 2."""
    frame = spark.range(0, 10, 1, 2).selectExpr("id", "id % 3 AS k")
    frame.write.format("delta").options(**{VECTORS: vectors, **properties}).save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 3")
    spark.sql(f"UPDATE delta.`{path}` SET k = 100 WHERE id = 4")
    return f"delta.`{path}`"


def loaded(spark: SparkSession, path: str, rows: str) -> DataFrame:
    return spark.read.format("delta").option("rows", rows).load(path)


def test_frames_find_row_ids_and_hide_them(spark: SparkSession, path: str, vectors: str, transport: str) -> None:
    made(spark, path, vectors, **{ROW_TRACKING: "true"})
    frame = loaded(spark, path, transport)
    ids = {row.id: row.row_id for row in frame.select("*", "_metadata.row_id").collect()}
    tracked = spark.read.format("delta").option("rowTracking", "true").load(path)
    assert ids == {row.id: row._row_id for row in tracked.collect()}
    assert len(set(ids.values())) == 9
    changed = frame.where(f"_metadata.row_id = {ids[4]}")
    assert (changed.columns, changed.count()) == (["id", "k"], 1)
    assert changed.select(frame.id, changed.k, "_metadata.row_commit_version").collect() == [(4, 100, 2)]
    assert changed.select(F.col("*"), "_metadata.row_id").collect() == [(4, 100, ids[4])]
    assert frame.where("id > 2").where(F.col("_metadata.row_commit_version") > 0).collect() == [(4, 100)]
    assert frame.selectExpr("*", "_metadata.row_commit_version AS v").where("v = 2").collect() == [(4, 100, 2)]
    assert frame.withColumn("r", F.col("_metadata.row_id")).where("id = 5").collect() == [(5, 2, ids[5])]
    assert frame.withColumns({"r": F.col("_metadata.row_id")}).columns == ["id", "k", "r"]
    last = frame.orderBy(F.desc("_metadata.row_commit_version")).limit(1)
    assert last.select("id", "_metadata.row_commit_version").collect() == [(4, 2)]
    assert len({row.row_id for row in frame.limit(3).select("_metadata.row_id").collect()}) == 3
    fields = frame.select("_metadata.*").columns
    assert fields[-2:] == ["row_id", "row_commit_version"]
    assert ("file_path" in fields) == (transport == "spark")


def test_files_of_rows_with_and_without_vectors_are_named(spark: SparkSession, path: str) -> None:
    table = made(spark, path, "true")
    frame = spark.read.format("delta").load(path)
    names = {row.file_name for row in frame.select("_metadata.file_name").collect()}
    assert len(names) == 3
    assert {name for name in names if (Path(path) / name).is_file()} == names
    assert spark.sql(f"SELECT DISTINCT _metadata.file_name FROM {table}").count() == 3
    with pytest.raises(AnalysisException, match="row_id"):
        frame.select("_metadata.row_id").collect()


def test_files_of_a_plain_table_are_named_in_sql(spark: SparkSession, path: str) -> None:
    table = made(spark, path, "false")
    found = spark.sql(f"SELECT *, _metadata.file_size FROM {table} WHERE id = 4")
    assert found.columns == ["id", "k", "file_size"]
    (row,) = found.collect()
    assert row.file_size > 100


def test_queries_find_row_ids_and_no_star_shows_them(
    spark: SparkSession, path: str, vectors: str, transport: str, conf: Callable[[str, str], None]
) -> None:
    t = made(spark, path, vectors, **{ROW_TRACKING: "true"})
    conf("spark.slackwater.rows", transport)
    ids = {row.id: row.r for row in spark.sql(f"SELECT id, _metadata.row_id AS r FROM {t}").collect()}
    four = ids[4]
    for query, expected in (
        (f"SELECT *, _metadata.row_id FROM {t} WHERE id > 7 ORDER BY id", [(8, 2, ids[8]), (9, 0, ids[9])]),
        (
            f"SELECT x.*, x._metadata.row_commit_version AS v FROM {t} x WHERE x._metadata.row_id = {four}",
            [(4, 100, 2)],
        ),
        (f"SELECT * EXCEPT (k), _metadata.row_id FROM {t} WHERE id = 4", [(4, four)]),
        (f"SELECT * FROM (SELECT id, _metadata.row_id AS r FROM {t}) WHERE r = {four}", [(4, four)]),
        (f"SELECT * FROM {t} a JOIN {t} b ON a._metadata.row_id = b._metadata.row_id AND a.id = 4", [(4, 100, 4, 100)]),
        (f"SELECT * FROM {t} a JOIN {t} b USING (id) WHERE a._metadata.row_id = {four}", [(4, 100, 100)]),
        (f"SELECT * FROM {t} a LEFT SEMI JOIN {t} b ON a._metadata.row_id = {four} AND b.id = 0", [(4, 100)]),
        (f"WITH c AS (SELECT *, _metadata.row_id AS r FROM {t}) SELECT * FROM c WHERE r = {four}", [(4, 100, four)]),
        (
            f"SELECT * FROM {t} WHERE _metadata.row_id = {four} UNION ALL SELECT * FROM {t} WHERE id = 0",
            [(4, 100), (0, 0)],
        ),
        (f"SELECT count(*), _metadata.row_commit_version AS v FROM {t} GROUP BY v ORDER BY v", [(8, 0), (1, 2)]),
        (f"SELECT * FROM {t} a SEMI JOIN {t} b ON a._metadata.row_id = b._metadata.row_id AND b.id = 4", [(4, 100)]),
        (
            f"SELECT * FROM ({t} a) JOIN ({t} b JOIN {t} c USING (id)) USING (id) WHERE a._metadata.row_id = {four}",
            [(4, 100, 100, 100)],
        ),
        (f"SELECT * FROM {t} VERSION AS OF 0 WHERE _metadata.row_id = {four}", [(4, 1)]),
    ):
        assert [tuple(row) for row in spark.sql(query).collect()] == expected, query


def test_rows_with_their_ids_are_inserted_by_a_query(spark: SparkSession, path: str, tmp_path: Path) -> None:
    t = made(spark, path, "true", **{ROW_TRACKING: "true"})
    copy = f"delta.`{tmp_path / 'copy'}`"
    spark.sql(f"CREATE TABLE {copy} USING delta AS SELECT *, _metadata.row_commit_version AS v FROM {t}")
    spark.sql(f"INSERT INTO {copy} SELECT *, 7L FROM {t} WHERE _metadata.row_commit_version = 2")
    assert sorted(map(tuple, spark.sql(f"SELECT * FROM {copy} WHERE k = 100").collect())) == [(4, 100, 2), (4, 100, 7)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT to_json(struct(*)), _metadata.row_id FROM {t}",
        "FROM {t} SELECT *, _metadata.row_id",
        "SELECT a.id FROM {t} a NATURAL JOIN {t} b WHERE a._metadata.row_id = 1",
    ],
)
def test_statements_that_would_use_the_hidden_column_are_refused(spark: SparkSession, path: str, query: str) -> None:
    t = made(spark, path, "false", **{ROW_TRACKING: "true"})
    with pytest.raises(InvalidArgument, match="_metadata is named in a statement with"):
        spark.sql(query.format(t=t))


def test_a_column_of_the_table_called_metadata_is_the_one_that_is_found(spark: SparkSession, path: str) -> None:
    frame = spark.range(2).selectExpr("id", "named_struct('row_id', id * 10) AS _metadata")
    frame.write.format("delta").option(ROW_TRACKING, "true").save(path)
    found = spark.sql(f"SELECT *, _metadata.row_id FROM delta.`{path}` WHERE id = 1").collect()
    assert [tuple(row) for row in found] == [(1, (10,), 10)]
    assert spark.read.format("delta").load(path).where("id = 1").select("_metadata.row_id").collect() == [(10,)]


def test_files_that_cannot_match_are_not_read(spark: SparkSession, path: str) -> None:
    made(spark, path, "false", **{ROW_TRACKING: "true"})
    frame = spark.read.format("delta").load(path).where("id >= 8").select("id", "_metadata.row_id")
    assert sorted(row.id for row in frame.collect()) == [8, 9]
    assert len(frame.inputFiles()) == 1


def test_columns_called_metadata_are_added_to_frames(spark: SparkSession, path: str, transport: str) -> None:
    made(spark, path, "false", **{ROW_TRACKING: "true"})
    frame = loaded(spark, path, transport).where("id = 4")
    assert frame.withColumn("_metadata", F.lit(1)).collect() == [(4, 100, 1)]
    assert frame.withColumn("_metadata", F.col("_metadata.row_commit_version")).collect() == [(4, 100, 2)]
    found = frame.withColumns({"v": F.col("_metadata.row_commit_version"), "_metadata": F.lit(1), "w": F.lit(3)})
    assert (found.columns, found.collect()) == (["id", "k", "v", "_metadata", "w"], [(4, 100, 2, 1, 3)])


def test_stars_in_expressions_of_frames_leave_the_hidden_column_out(spark: SparkSession, path: str) -> None:
    made(spark, path, "false", **{ROW_TRACKING: "true"})
    frame = spark.read.format("delta").load(path).where("id = 4")
    assert frame.selectExpr("* EXCEPT (k)", "_metadata.row_commit_version").collect() == [(4, 2)]
    product = frame.select(
        F.col("id") * F.lit(2),
        F.expr("k * (2)"),
        "_metadata.row_commit_version",
        F.count("*").over(Window.partitionBy("id")),
    )
    assert product.collect() == [(8, 200, 2, 1)]
    uses: tuple[Callable[[], DataFrame], ...] = (
        lambda: frame.selectExpr("struct(*)", "_metadata.row_id"),
        lambda: frame.select(F.hash("*"), "_metadata.row_id"),
        lambda: frame.withColumn("x", F.expr("struct(*, _metadata.row_id)")),
        lambda: frame.where("hash(*) = _metadata.row_id"),
    )
    for use in uses:
        with pytest.raises(InvalidArgument, match="_metadata is named together with a \\* in an expression"):
            use()


def test_columns_with_names_that_contain_metadata_do_not_read_the_hidden_one(spark: SparkSession, path: str) -> None:
    rows = spark.range(3).selectExpr("id", "id AS order_metadata")
    rows.write.format("delta").option(ROW_TRACKING, "true").save(path)
    frame = spark.read.format("delta").load(path)
    assert revealed(frame.where("order_metadata = 1")) is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TableScan, "with_metadata", lambda _: pytest.fail("the hidden column is read"))
        assert frame.where("order_metadata = 1").select("order_metadata").collect() == [(1,)]


def test_real_columns_called_metadata_are_preferred_to_hidden_ones(
    spark: SparkSession, path: str, tmp_path: Path
) -> None:
    t = made(spark, path, "false", **{ROW_TRACKING: "true"})
    own = f"delta.`{tmp_path / 'own'}`"
    staged = spark.range(4, 6).selectExpr("id", "named_struct('file_name', 'f') AS _metadata")
    staged.write.format("delta").save(str(tmp_path / "own"))
    staged.createOrReplaceTempView("staged_rows")
    for source in (own, "staged_rows"):
        for query, expected in (
            (f"SELECT id, _metadata.file_name FROM {source} JOIN {t} USING (id) WHERE id = 4", [(4, "f")]),
            (
                f"SELECT a.x FROM {t} AS a (x, y) JOIN {source} s ON x = s.id WHERE _metadata.file_name = 'f'",
                [(4,), (5,)],
            ),
            (
                f"WITH c AS (SELECT id, _metadata FROM {source}) SELECT c.id, c._metadata.file_name, "
                f"a._metadata.row_commit_version FROM c JOIN {t} a ON c.id = a.id WHERE c.id = 4",
                [(4, "f", 2)],
            ),
        ):
            assert sorted(map(tuple, spark.sql(query).collect())) == expected, query
    assert spark.sql(f"SELECT struct(*) AS _metadata FROM {t} WHERE id = 4").collect() == [((4, 100),)]


def test_loading_through_connect_reads_no_file_actions_for_metadata(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(spark, path, "true")
    read = []
    found = vars(TableScan)["_has_vectors"].func

    def has_vectors(scan: TableScan) -> object:
        read.append(scan)
        return found(scan)

    monkeypatch.setattr(TableScan, "_has_vectors", property(has_vectors))
    frame = spark.read.format("delta").load(path)
    assert bool(read) is not is_connect(spark)
    assert frame.select("_metadata.file_name").distinct().count() == 3
