"""Files that a log names are read, all of them, or are refused by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slackwater import DeltaTable, errors
from slackwater.spark.hadoop.prelisted_relation import KnownFile, relation_over
from slackwater.spark.read.file_relations import is_hidden
from slackwater.spark.read.load import load
from slackwater.spark.session.frames import frame_of_relation, listed_urls, relation_of
from slackwater.spark.writer.save import save
from tests.spark.tables import write_table

pytestmark = [pytest.mark.spark, pytest.mark.modes]
HIDDEN = ["_x.parquet", ".x.parquet", "x.parquet._COPYING_", "sub/_y.parquet", "sub/.y=1.parquet"]


@pytest.mark.parametrize("name", HIDDEN)
def test_names_that_hadoop_hides_are_known(name: str) -> None:
    assert is_hidden(name)


@pytest.mark.parametrize("name", ["x.parquet", "_sub/x.parquet", ".sub/x.parquet", "_p=1.parquet", "x_.parquet"])
def test_names_that_hadoop_shows_are_known(name: str) -> None:
    assert not is_hidden(name)


@pytest.mark.parametrize("name", ["_sub/x.parquet", ".sub/x.parquet", "_p=1.parquet", "a  b,%c#.parquet"])
def test_names_that_only_look_hidden_are_read(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = write_table(tmp_path / "t", [{"id": [1, 2]}, {"id": [3]}], names=[name, "y.parquet"])
    assert sorted(row[0] for row in load(spark, path).collect()) == [1, 2, 3]


@pytest.mark.parametrize("name", HIDDEN)
def test_a_file_that_hadoop_hides_is_refused_by_its_name(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = write_table(tmp_path / "t", [{"id": [1, 2]}, {"id": [3]}], names=[name, "y.parquet"])
    with pytest.raises(errors.UnsupportedFeature, match=name.replace(".", r"\.")):
        load(spark, path).collect()


@pytest.mark.classic
@pytest.mark.parametrize("name", HIDDEN)
def test_a_hidden_file_of_a_table_of_many_files_is_read(
    spark: SparkSession, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slackwater.spark.read.table_scan.FEW_FILES", 0)
    path = write_table(tmp_path / "t", [{"id": [1, 2]}, {"id": [3]}], names=[name, "y.parquet"])
    assert sorted(row[0] for row in load(spark, path).collect()) == [1, 2, 3]


@pytest.mark.parametrize("listed", ["csv", ""])
def test_files_are_read_by_one_reader_whichever_the_session_prefers(
    spark: SparkSession, tmp_path: Path, conf: Callable[[str, str], None], listed: str
) -> None:
    path = write_table(tmp_path / "t", [{"id": [1, 2]}, {"id": [3]}])
    conf("spark.sql.sources.useV1SourceList", listed)
    DeltaTable.forPath(spark, path).delete("id = 2")
    assert sorted(row[0] for row in load(spark, path).collect()) == [1, 3]
    assert len(load(spark, path).where("id = 3").inputFiles()) == 1


def test_no_change_is_made_where_a_file_is_hidden(spark: SparkSession, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t", [{"id": [1, 2]}, {"id": [3]}], names=["_x.parquet", "y.parquet"])
    table, source = DeltaTable.forPath(spark, path), spark.range(1, 3)
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id").whenNotMatchedInsert(values={"id": "s.id"})
    changes: list[Callable[[], object]] = [
        lambda: table.delete("id = 1"),
        lambda: table.update("id = 1", {"id": "9"}),
        merge.execute,
        lambda: save(source, path, "overwrite", [], {"replaceWhere": "id = 1 or id = 2"}),
    ]
    for change in changes:
        with pytest.raises(errors.UnsupportedFeature, match=r"_x\.parquet"):
            change()
    assert len(list((Path(path) / "_delta_log").iterdir())) == 1


def test_a_hidden_change_file_is_refused_by_its_name(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    save(spark.range(3), path, "error", [], {"delta.enableChangeDataFeed": "true"})
    DeltaTable.forPath(spark, path).update("id = 1", {"id": "9"})
    commit = Path(path) / "_delta_log" / f"{1:020d}.json"
    (change,) = (Path(path) / "_change_data").glob("*.parquet")
    change.rename(change.with_name(f"_{change.name}"))
    commit.write_text(commit.read_text().replace(change.name, f"_{change.name}"))
    with pytest.raises(errors.UnsupportedFeature, match=f"_{change.name}"):
        load(spark, path, {"readChangeFeed": "true", "startingVersion": 1})


def test_a_file_without_bytes_or_that_is_a_directory_is_named(spark: SparkSession, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t", [{"id": [1, 2]}, {"id": [3]}], names=["x.parquet", "y.parquet"])
    file = Path(path) / "x.parquet"
    content = file.read_bytes()
    file.write_bytes(b"")
    with pytest.raises(errors.CorruptTable, match=r"x\.parquet.*is empty"):
        load(spark, path).collect()
    file.unlink()
    file.mkdir()
    (file / "inside.parquet").write_bytes(content)
    with pytest.raises(errors.CorruptTable, match=r"x\.parquet, which is not a file"):
        load(spark, path).collect()


@pytest.mark.parametrize("damage", ["gone", "broken"])
def test_settings_of_the_session_do_not_leave_files_out(
    spark: SparkSession, tmp_path: Path, conf: Callable[[str, str], None], damage: str
) -> None:
    conf("spark.sql.files.ignoreMissingFiles", "true")
    conf("spark.sql.files.ignoreCorruptFiles", "true")
    path = write_table(tmp_path / "t", [{"id": [1, 2]}, {"id": [3]}], names=["x.parquet", "y.parquet"])
    frame, table = load(spark, path), DeltaTable.forPath(spark, path)
    file = Path(path) / "x.parquet"
    if damage == "gone":
        file.unlink()
        with pytest.raises(errors.DataFileNotFound, match=r"x\.parquet"):
            load(spark, path).collect()
    else:
        file.write_bytes(b"no Parquet file, though long enough for one")
    with pytest.raises(Exception, match=r"x\.parquet"):
        frame.collect()
    with pytest.raises(Exception, match=r"x\.parquet"):
        table.delete(F.col("id") % 2 == 1)
    assert len(list((Path(path) / "_delta_log").iterdir())) == 1


@pytest.mark.classic
def test_spark_takes_the_files_of_a_relation_as_they_are_told(spark: SparkSession, tmp_path: Path) -> None:
    names = ["p=1/a  b,%20c#.parquet", "p=2/{x}[ü]*.parquet", "p=1/other.parquet"]
    path = write_table(tmp_path / "t", [{"id": [1, 2]}, {"id": [3]}, {"id": [4]}], names=names)
    places = [f"{path}/{name}" for name in names[:2]]
    files = [KnownFile(place, Path(place).stat().st_size, 86_400_000) for place in places]
    reader = spark.read.schema("id long, p int").option("basePath", path)
    base = relation_of(reader.parquet(f"{path}/{names[2]}"))
    frame = frame_of_relation(spark, relation_over(spark, base, files))
    assert sorted(tuple(row) for row in frame.collect()) == [(1, 1), (2, 1), (3, 2)]
    assert len(listed_urls(frame)) == len(files)
    # So Spark has not asked for the time by itself.
    assert {row[0] for row in frame.select(F.unix_date(F.to_date("_metadata.file_modification_time"))).collect()} == {1}


def test_cached_table_is_loaded_again(spark: SparkSession, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t", [{"id": [1, 2]}, {"id": [3]}])
    cached = load(spark, path).cache()
    try:
        assert cached.count() == 3
        again = load(spark, path)
        assert (again.count(), again.storageLevel.useMemory) == (3, True)
        DeltaTable.forPath(spark, path).delete("id = 3")
        assert (cached.count(), load(spark, path).count()) == (3, 2)
    finally:
        cached.unpersist()


@pytest.mark.classic
def test_a_filter_of_paths_in_the_hadoop_configuration_leaves_no_file_out(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_table(tmp_path / "t", [{"id": [1, 2]}, {"id": [3]}], names=["x.parquet", "y.parquet"])
    with every_file_filtered(spark), pytest.raises(errors.StorageError, match=r"does not list x\.parquet, y\.parquet"):
        load(spark, path)
    monkeypatch.setattr("slackwater.spark.read.table_scan.FEW_FILES", 0)
    with every_file_filtered(spark):
        assert sorted(row[0] for row in load(spark, path).collect()) == [1, 2, 3]
    changed = DeltaTable.forPath(spark, path)
    with every_file_filtered(spark), pytest.raises(errors.StorageError, match=r"does not list x\.parquet"):
        changed.delete("id = 1")


@contextmanager
def every_file_filtered(spark: SparkSession) -> Iterator[None]:
    """Within the block, a filter in the Hadoop configuration hides all files from listings."""
    settings = {"mapreduce.input.pathFilter.class": "org.apache.spark.ml.image.SamplePathFilter", "sampleRatio": "0.0"}
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    for key, value in settings.items():
        hadoop.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            hadoop.unset(key)


def test_a_file_without_field_ids_is_named_where_columns_are_found_by_them(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = DeltaTable.create(spark).location(str(path)).addColumn("id", "INT").addColumn("n", "INT")
    table.property("delta.columnMapping.mode", "id").execute()
    save(spark.sql("SELECT 1 AS id, 2 AS n"), str(path), "append")
    spark.conf.set("spark.sql.parquet.fieldId.read.ignoreMissing", "true")
    try:
        assert [tuple(row) for row in load(spark, str(path)).collect()] == [(1, 2)]
        (file,) = path.glob("*.parquet")
        names = pq.read_schema(file).names
        pq.write_table(pa.table([pa.array([1], pa.int32())] * 2, names=names), file)
        with pytest.raises(errors.CorruptTable, match=f"the file {file.name} has none"):
            load(spark, str(path)).collect()
    finally:
        spark.conf.unset("spark.sql.parquet.fieldId.read.ignoreMissing")
