"""Rows that executors read and write in Python, as where Spark has no connector for the store."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import slackwater
from slackwater import DeltaTable, errors
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.storage import row_transport as way_module
from slackwater.spark.storage.row_transport import ROWS, RowTransport, choose_transport
from slackwater.spark.write.files import arrow_files, data_files
from slackwater.spark.write.files.arrow_files import write_arrow_files
from slackwater.storage import open_store
from tests.contract.owners import eventually
from tests.spark.tables import write_table

pytestmark = pytest.mark.spark


@pytest.fixture
def by_arrow(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose rows go by Arrow, on a local disk too."""
    slackwater.enable(spark)
    spark.conf.set(ROWS, "arrow")
    yield spark
    spark.conf.unset(ROWS)


def load(spark: SparkSession, path: str, **options: str) -> DataFrame:
    return spark.read.format("delta").options(**options).load(path)


def plan(frame: DataFrame) -> str:
    if is_connect(frame.sparkSession):
        client: Any = frame.sparkSession.client
        return str(client.explain_string(frame._plan.to_proto(client), explain_mode="simple"))  # type: ignore[operator]
    return str(frame._jdf.queryExecution().toString())


def columns_read(frame: DataFrame) -> list[set[str]]:
    """The columns that each task of the frame gives, by the plan that is carried out."""
    found = re.findall(r"MapInArrow read_files\([^)]*\)#\d+, \[([^\]]*)\]", plan(frame).rpartition("Physical Plan")[2])
    return [{re.sub(r"#\d+L?", "", name) for name in each.split(", ") if name} for each in found]


@pytest.fixture
def table(by_arrow: SparkSession, tmp_path: Path) -> str:
    """Ten rows in three partitions: id, p, Big, s."""
    path = str(tmp_path / "t")
    rows = by_arrow.range(10).withColumn("p", F.col("id") % 3).withColumn("Big", F.lit("x"))
    rows.withColumn("s", F.struct("id", "p")).write.format("delta").partitionBy("p").save(path)
    return path


@pytest.mark.modes
def test_what_is_written_in_python_is_read_by_spark_and_the_other_way_round(
    by_arrow: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    first = by_arrow.range(6).select("id", F.expr("IF(id % 3 = 0, NULL, concat('ä/ ', id % 3))").alias("p"))
    first.write.format("delta").partitionBy("p").option("delta.enableDeletionVectors", "true").save(path)
    ways = []
    for way in ("spark", "arrow"):
        by_arrow.conf.set(ROWS, way)
        ways.append(sorted(map(tuple, load(by_arrow, path).collect()), key=str))
        DeltaTable.forPath(by_arrow, path).delete(f"id = {len(ways)}")
        ways.append(sorted(map(tuple, load(by_arrow, path).collect()), key=str))
    whole = [(0, None), (1, "ä/ 1"), (2, "ä/ 2"), (3, None), (4, "ä/ 1"), (5, "ä/ 2")]
    assert ways == [whole, whole[:1] + whole[2:], whole[:1] + whole[2:], whole[:1] + whole[2:3] + whole[4:]]
    assert load(by_arrow, path).where("p is null").count() == 1


@pytest.mark.modes
def test_selections_read_what_they_name(by_arrow: SparkSession, table: str) -> None:
    frame = load(by_arrow, table)
    selections = {
        "id": (frame.select("id"), {"id"}),
        "in another case": (frame.select(F.col("bIG")), {"Big"}),
        "of a struct": (frame.select(frame.s.id), {"s"}),
        "conditions": (frame.where(frame["id"] > 3).where("big = 'x'").selectExpr("id + 1 AS n"), {"id", "Big"}),
        "made of rows": (frame.select(F.explode(F.array("id"))), {"id"}),
        "windows": (frame.select(F.row_number().over(Window.partitionBy("id").orderBy("id"))), {"id"}),
    }
    for name, (found, wanted) in selections.items():
        assert columns_read(found) == [wanted], name
        expected = 6 if name == "conditions" else 10
        assert len(found.collect()) == expected, name
    assert {row[0] for row in selections["in another case"][0].collect()} == {"x"}
    assert len(columns_read(frame.select("*"))[0]) == 4


@pytest.mark.modes
def test_columns_that_were_not_selected_are_found_where_spark_finds_them(by_arrow: SparkSession, table: str) -> None:
    frame = load(by_arrow, table)
    chosen = frame.select((frame.id + 1).alias("n"), "id")
    assert [row.id for row in frame.select("id").orderBy(F.desc("p"), "id").head(2)] == [2, 5]
    assert [row.n for row in chosen.sort("p", F.col("n").desc()).head(2)] == [10, 7]
    assert sorted(row.n for row in chosen.where("p = 1").collect()) == [2, 5, 8]
    assert [row.n for row in chosen.where(chosen.n > 9).collect()] == [10]
    assert [row.n for row in chosen.orderBy(frame.p.desc(), chosen.n).head(2)] == [3, 6]
    assert [row.n for row in chosen.where((frame.p == 1) & (chosen["n"] > 2) & (frame.id > 4)).collect()] == [8]
    assert sorted(row.id for row in frame.select("id").where(frame["p"] == 2).collect()) == [2, 5, 8]
    assert frame.join(frame.select("id", F.col("Big").alias("b")), "id").count() == 10
    # Where it is not looked for, it fails, and is never null in silence.
    with pytest.raises(PySparkException, match="column p was not read"):
        frame.select("id").limit(3).orderBy("p").collect()


def test_rows_are_counted_without_reading_a_column(by_arrow: SparkSession, table: str) -> None:
    frame = load(by_arrow, table)
    assert (frame.count(), frame.where("p = 2").count(), frame.where(frame.id < 3).count()) == (10, 3, 3)


def damage_first_row_groups(path: str, count: int) -> None:
    """Make row groups of ten rows of the table's one file, and the pages of the first ones such as nobody can read."""
    file = next(Path(path).glob("*.parquet"))
    pq.write_table(pq.read_table(file), file, row_group_size=10, use_dictionary=False, compression="snappy")
    content = bytearray(file.read_bytes())
    metadata = pq.ParquetFile(file).metadata
    end = metadata.row_group(count).column(0).data_page_offset
    content[4:end] = b"\xff" * (end - 4)
    file.write_bytes(content)


@pytest.mark.modes
def test_conditions_leave_out_row_groups_of_files(by_arrow: SparkSession, tmp_path: Path) -> None:
    """Of a file whose first row groups cannot be read, the others can: also what DML looks for, and its row indexes."""
    path = str(tmp_path / "t")
    rows = by_arrow.range(0, 100, 1, 1).withColumn("s", F.struct((F.col("id") % 7).alias("x")))
    rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(path)
    damage_first_row_groups(path, 3)
    frame = load(by_arrow, path)
    with pytest.raises(PySparkException, match="its pages are damaged"):
        frame.where("id >= 29").count()
    assert frame.where("id >= 30").count() == 70
    assert sorted(row.id for row in frame.where("id > 20").where(F.col("ID") >= 95).select("id").collect()) == [
        *range(95, 100)
    ]
    assert frame.select("id").where("id < 30 or id > 3").limit(0).count() == 0
    table = DeltaTable.forPath(by_arrow, path)
    table.delete("id in (42, 77, 99)")
    table.update("id = 50", {"id": F.lit(500)})
    source = by_arrow.createDataFrame([(60,), (61,)], "id long")
    table.alias("t").merge(source.alias("s"), "t.id = s.id AND t.id > 40").whenMatchedDelete().execute()
    kept = load(by_arrow, path).where("id >= 40").collect()
    assert sorted(row.id for row in kept) == [*(n for n in range(40, 99) if n not in (42, 50, 60, 61, 77)), 500]


@pytest.mark.long
def test_feeds_and_row_ids_are_those_that_spark_gives(by_arrow: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    properties = {"delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true"}
    by_arrow.range(8).repartition(2).write.format("delta").options(**properties).save(path)
    made = DeltaTable.forPath(by_arrow, path)
    made.update("id = 3", {"id": F.lit(30)})
    made.alias("t").merge(by_arrow.range(6, 10).alias("s"), "t.id = s.id").whenMatchedDelete().whenNotMatchedInsert(
        values={"id": "s.id"}
    ).execute()
    found = {}
    for way in ("arrow", "spark"):
        by_arrow.conf.set(ROWS, way)
        feed = load(by_arrow, path, readChangeFeed="true", startingVersion="0").drop("_commit_timestamp")
        ids = load(by_arrow, path, rowTracking="true")
        found[way] = [sorted(map(tuple, frame.collect())) for frame in (feed, ids)]
    assert found["arrow"] == found["spark"]
    assert len(found["arrow"][0]) == 14


def test_writers_options_are_followed(by_arrow: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    writer = by_arrow.range(0, 10, 1, 1).write.format("delta").option("maxRecordsPerFile", "4")
    writer.option("compression", "zstd").save(str(path))
    assert len(list(path.glob("*.zstd.parquet"))) == 3
    with pytest.raises(errors.InvalidArgument, match="compression must be"):
        by_arrow.range(3).write.format("delta").mode("append").option("compression", "lzo").save(str(path))
    assert load(by_arrow, str(path)).count() == 10


def test_a_job_that_fails_leaves_nothing_and_says_its_own_error(by_arrow: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    by_arrow.range(2).write.format("delta").save(str(path))
    before = sorted(path.rglob("*"))
    broken = by_arrow.range(4).select(F.expr("IF(id = 3, raise_error('broken'), id)").cast("long").alias("id"))
    with pytest.raises(PySparkException, match="broken"):
        broken.write.format("delta").mode("append").save(str(path))
    # The task that did not fail may go on for a while, and what it leaves then goes too.
    eventually(lambda: sorted(path.rglob("*")) == before)


@pytest.mark.classic
def test_an_error_of_a_task_is_raised_as_itself(
    by_arrow: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    by_arrow.range(2).write.format("delta").save(str(path))
    # A directory that is a file: nobody can write below it, whoever tries.
    monkeypatch.setattr("uuid.uuid4", lambda: "taken")
    (path / ".slackwater-taken").mkdir()
    (path / ".slackwater-taken" / "rows").write_bytes(b"")
    with pytest.raises(errors.StorageError, match=r"\.slackwater-taken"):
        by_arrow.range(2).write.format("delta").mode("append").save(str(path))


def test_a_file_that_is_gone_is_told_before_a_job(by_arrow: SparkSession, table: str) -> None:
    next(Path(table).rglob("*.parquet")).unlink()
    with pytest.raises(errors.DataFileNotFound, match=r"version 0.*gone"):
        load(by_arrow, table)


def test_the_way_is_chosen_by_option_and_setting(spark: SparkSession, tmp_path: Path) -> None:
    store = open_store(tmp_path)
    assert choose_transport(spark, store) == RowTransport.SPARK
    assert choose_transport(spark, store, "Arrow") == RowTransport.ARROW
    with pytest.raises(errors.InvalidArgument, match=r"rows.*spark, arrow or auto, found 'jvm'"):
        choose_transport(spark, store, "jvm")
    path = write_table(tmp_path / "t", [{"id": [1]}])
    assert "MapInArrow" in plan(load(spark, path, rows="arrow"))
    assert "MapInArrow" not in plan(load(spark, path))


def test_files_of_an_attempt_whose_word_never_came_are_nobodys(
    by_arrow: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    plain = arrow_files._writer

    def repeated(*given: Any) -> Any:
        write = plain(*given)

        def writes_twice(batches: Iterator[Any]) -> Iterator[Any]:
            rows = list(batches)
            # All files of the first attempt are in place as it fails.
            assert list(write(iter(rows)))
            yield from write(iter(rows))

        return writes_twice

    monkeypatch.setattr(arrow_files, "_writer", repeated)
    by_arrow.range(0, 10, 1, 2).write.format("delta").option("maxRecordsPerFile", "2").save(str(path))
    assert sorted(row.id for row in load(by_arrow, str(path)).collect()) == list(range(10))
    named = Snapshot.load(path).live_files(["path"])["path"].to_pylist()
    assert sorted(file.relative_to(path).as_posix() for file in path.rglob("*.parquet")) == sorted(named)


def test_executors_that_have_another_disk_are_told(
    by_arrow: SparkSession, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(tmp_path.rglob("*"))
    rows = by_arrow.range(0, 4, 1, 2).withColumn("p", F.lit(0)).withColumn("Big", F.lit("x"))

    def append_losing(count: int) -> None:
        def write_elsewhere(*given: Any) -> list[Any]:
            found = write_arrow_files(*given)
            for file in found[:count]:
                (tmp_path / "t" / file.path).unlink()
            return found

        monkeypatch.setattr(data_files, "write_arrow_files", write_elsewhere)
        rows.write.format("delta").mode("append").save(table)

    with pytest.raises(
        errors.StorageError, match=r"Spark wrote 4 rows, .* finds 2 rows in the files\. Nothing was committed"
    ):
        append_losing(1)
    with pytest.raises(errors.StorageRefused, match="must have the table's storage mounted at the same path"):
        append_losing(2)
    assert sorted(tmp_path.rglob("*")) == before


def test_executors_without_this_version_are_told_once_before_anything_is_done(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_such_module(batches: Iterator[Any]) -> Iterator[Any]:
        # Within the test, since a worker has no module of tests.
        yield from importlib.import_module("no_such_module").of(batches)

    store = open_store(tmp_path)
    monkeypatch.setattr(way_module, "is_one_process", lambda spark: False)
    monkeypatch.delitem(spark.__dict__, "_slackwater_workers", raising=False)
    with monkeypatch.context() as patch:
        patch.setattr(way_module, "_told_version", no_such_module)
        with pytest.raises(errors.UnsupportedFeature, match=r"pip install slackwater==.*: .*no_such_module"):
            choose_transport(spark, store, "arrow")
    with monkeypatch.context() as patch:
        patch.setattr(way_module, "_version", lambda: "9.9")
        with pytest.raises(errors.UnsupportedFeature, match=r"slackwater==9\.9\): they have version 0\.2"):
            choose_transport(spark, store, "arrow")
    assert choose_transport(spark, store, "arrow") == RowTransport.ARROW
    monkeypatch.setattr(way_module, "_told_version", no_such_module)
    assert choose_transport(spark, store, "arrow") == RowTransport.ARROW
