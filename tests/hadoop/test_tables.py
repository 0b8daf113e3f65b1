"""Tables on Hadoop's file systems, whose log is read and written through the session's JVM."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import slackwater
from slackwater import DeltaTable, Lake
from slackwater.errors import StorageError, StorageRefused, UnsupportedFeature
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.hadoop.file_system import HadoopFileSystem
from slackwater.spark.hadoop.store import HadoopStore
from slackwater.spark.storage.stores import table_at
from slackwater.storage import location as locations
from slackwater.storage.location import Location
from tests.hadoop.places import KINDS, mounted, root_of

pytestmark = [pytest.mark.spark, pytest.mark.classic]


@pytest.fixture(scope="session", params=KINDS)
def root(spark: SparkSession, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A place on one of Hadoop's file systems that the session reaches."""
    slackwater.enable(spark)
    return root_of(
        request.param, spark, tmp_path_factory.mktemp("mounted"), lambda: str(request.getfixturevalue("hdfs_root"))
    )


@pytest.fixture
def path(root: str, request: pytest.FixtureRequest) -> str:
    """A place of one test, which has signs that URLs write otherwise."""
    return f"{root}/a b%20ü/{request.node.name}"


def numbers(spark: SparkSession, first: int, end: int) -> DataFrame:
    return spark.range(first, end, numPartitions=1).withColumn("p", F.col("id") % 2)


def save(frame: DataFrame, path: str, mode: str = "append", **options: str) -> None:
    frame.write.format("delta").mode(mode).options(**options).partitionBy("p").save(path)


def ids(spark: SparkSession, path: str, **options: str) -> list[int]:
    return sorted(row.id for row in spark.read.format("delta").options(**options).load(path).collect())


def files(spark: SparkSession, path: str) -> set[str]:
    """All but the log, and Hadoop's checksums on local disks."""
    found = table_at(spark, path).store.list_from("", recursive=True)
    return {meta.path for meta in found if not meta.path.startswith("_delta_log/") and not meta.path.endswith(".crc")}


@pytest.mark.parametrize("vectors", [pytest.param("false", marks=pytest.mark.long), "true"])
def test_what_people_do_with_a_table(spark: SparkSession, path: str, vectors: str) -> None:
    save(numbers(spark, 0, 6), path, **{"delta.enableDeletionVectors": vectors})
    table = DeltaTable.forPath(spark, path)
    table.delete("id = 0")
    table.update("id = 1", {"id": "id + 100"})
    merge = table.alias("t").merge(numbers(spark, 4, 8).alias("s"), "t.id = s.id")
    merge.whenMatchedUpdate(set={"id": "s.id + 1000"}).whenNotMatchedInsertAll().execute()
    assert ids(spark, path) == [2, 3, 6, 7, 101, 1004, 1005]
    assert ids(spark, path, versionAsOf="0") == list(range(6))
    save(numbers(spark, 51, 52), path, "overwrite", replaceWhere="p = 1")
    table.checkpoint()
    assert ids(spark, path) == [2, 6, 51, 1004]
    assert spark.read.format("delta").load(path).where("p = 1").count() == 1
    assert [row.operation for row in table.history().collect()] == ["WRITE", "MERGE", "UPDATE", "DELETE", "WRITE"]


def test_only_files_that_the_log_names_are_left_under_the_names_that_they_have_on_a_disk(
    spark: SparkSession, path: str
) -> None:
    save(numbers(spark, 0, 9), path)
    # The session is of this process: what it reaches can be opened without it.
    named = set(Snapshot.load(path).live_files(["path"])["path"].to_pylist())
    assert files(spark, path) == named
    assert {path.rpartition("/")[0] for path in named} == {"p=0", "p=1"}


@pytest.mark.parametrize("is_new", [True, False])
def test_a_write_that_fails_leaves_nothing(spark: SparkSession, path: str, is_new: bool) -> None:
    if not is_new:
        save(numbers(spark, 0, 2), path)
    before = files(spark, path)
    broken = numbers(spark, 0, 4).withColumn("id", F.expr("IF(id = 3, raise_error('broken'), id)"))
    with pytest.raises((PySparkException, StorageError)):
        save(broken, path)
    assert files(spark, path) == before
    store = table_at(spark, path).store
    assert isinstance(store, HadoopStore)
    assert store.is_directory("") is not is_new
    if not is_new:
        names = {status.name for status in store._files.statuses(store._location.key)}
        assert names == {"_delta_log", "p=0", "p=1"}


def test_of_two_writers_of_one_version_both_land_once(spark: SparkSession, path: str) -> None:
    save(numbers(spark, 0, 1), path)
    start, failed = threading.Barrier(2), list[BaseException]()

    def write(first: int) -> None:
        try:
            for row in range(first, first + 3):
                start.wait(60)
                save(numbers(spark, row, row + 1), path)
        except BaseException as error:  # noqa: BLE001 - judged by the test's own thread
            failed.append(error)
            start.abort()

    writers = [threading.Thread(target=write, args=(first,)) for first in (10, 20)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert failed == []
    assert ids(spark, path) == [0, 10, 11, 12, 20, 21, 22]
    assert [row.version for row in DeltaTable.forPath(spark, path).history().collect()] == list(range(6, -1, -1))


def test_half_a_commit_of_a_writer_that_is_gone_is_no_commit(spark: SparkSession, path: str) -> None:
    save(numbers(spark, 0, 2), path)
    store = table_at(spark, path).store
    assert isinstance(store, HadoopStore)
    directory = f"{store._location.key}/_delta_log"
    store._files.create(f"{directory}/.slackwater-0123.tmp", b'{"add":', durable=True)
    assert len(store._files.statuses(directory)) == len(store.list_from("_delta_log")) + 1
    save(numbers(spark, 2, 4), path)
    assert ids(spark, path) == [0, 1, 2, 3]


def test_a_transaction_over_two_tables(spark: SparkSession, path: str, tmp_path: Path) -> None:
    with Lake.open(path, database=f"sqlite:///{tmp_path}/owner.db", spark=spark) as lake:
        for name in ("orders", "stock"):
            lake.create_table(name, "id BIGINT")
        with lake.transaction(spark) as tx:
            now = tx.current_timestamp()
            tx.table("orders").append(spark.range(2))
            tx.table("stock").append(spark.range(3))
        assert tx.commit_timestamp == now
        past = lake.as_of(now)
        assert [past.table(name).toDF().count() for name in ("orders", "stock")] == [2, 3]


def test_a_path_without_a_host_or_a_scheme_is_on_the_default_file_system(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(numbers(spark, 0, 3), path)
    scheme, _, rest = path.partition("://")
    authority, _, key = rest.partition("/")
    hadoop: Any = spark._jsc.hadoopConfiguration()
    before = hadoop.get("fs.defaultFS")
    monkeypatch.setitem(spark.__dict__, "_slackwater_hadoop_schemes", set())
    monkeypatch.setattr(locations, "_learned", {})
    hadoop.set("fs.defaultFS", f"{scheme}://{authority}")
    try:
        roots = [table_at(spark, each).root_url for each in (f"{scheme}:///{key}", "/" + key.replace("%20", " "))]
    finally:
        hadoop.set("fs.defaultFS", before)
    assert roots == [table_at(spark, path).root_url] * 2


def test_rows_do_not_go_by_arrow(spark: SparkSession, path: str) -> None:
    save(numbers(spark, 0, 3), path)
    with pytest.raises(UnsupportedFeature, match="Arrow cannot transport rows there"):
        ids(spark, path, rows="arrow")


class _Renaming(HadoopFileSystem):
    """Renames that fail, before or after the work; a local disk's own replace what is there."""

    failure: str = ""

    def rename(self, src: str, dst: str, replace: bool) -> None:
        if self.failure == "after":
            self._files.rename(self._path(src), self._path(dst))
        if self.failure:
            self._files.open(self._path("/lake"))
        assert replace or not self._files.exists(self._path(dst))
        if replace:
            self._files.delete(self._path(dst), False)
        assert self._files.rename(self._path(src), self._path(dst))


def renaming_store(spark: SparkSession, directory: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[HadoopStore, Path]:
    """A store whose objects get their names by renames, though it is behind a mount point on a local disk."""
    url = mounted(spark, directory.as_uri())
    place = Location("viewfs", url.split("/")[2], "lake")
    files = _Renaming(spark, place)
    store = HadoopStore(lambda _: files, place, lambda _: (store, ""))
    monkeypatch.setattr(store, "_behind_mounts", lambda _, __, directory: Location("hdfs", "x", directory))
    return store, directory


def test_an_object_is_there_once_it_has_its_name(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, directory = renaming_store(spark, tmp_path, monkeypatch)
    large = bytes(range(256)) * 1000
    store.put_if_absent("log/0", large)
    store.put("log/hint", b"old")
    store.put("log/hint", b"new")
    store.copy_if_absent("log/0", "log/1")
    store.move("log/hint", "other/hint")
    assert (store.read("log/0"), store.read("log/1"), store.read("other/hint")) == (large, large, b"new")
    assert {meta.path for meta in store.list_from("", recursive=True)} == {"log/0", "log/1", "other/hint"}
    assert not list(directory.rglob(".slackwater-*.tmp"))


@pytest.mark.parametrize("failure", ["before", "after"])
def test_a_rename_that_fails_leaves_open_whether_it_was_done(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    store, directory = renaming_store(spark, tmp_path, monkeypatch)
    monkeypatch.setattr(_Renaming, "failure", failure)
    with pytest.raises(StorageError) as caught:
        store.put_if_absent("log/0", b"commit")
    assert type(caught.value) is StorageError
    assert (store.head("log/0") is not None) is (failure == "after")
    assert not list(directory.rglob(".slackwater-*.tmp"))


def test_bytes_that_cannot_be_written_are_refused_and_leave_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, directory = renaming_store(spark, tmp_path, monkeypatch)
    (directory / "log").write_bytes(b"in the way")
    with pytest.raises(StorageRefused, match="log/0 failed, nothing was changed"):
        store.put_if_absent("log/0", b"commit")
    assert [path.name for path in directory.iterdir()] == ["log"]


def test_nothing_is_created_where_a_rename_may_replace(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = mounted(spark, tmp_path.as_uri())
    store = table_at(spark, url).store
    monkeypatch.setattr(store, "_behind_mounts", lambda _, __, directory: Location("ftp", "x", directory))
    with pytest.raises(StorageRefused, match="ftp:// has no known atomic rename"):
        store.put_if_absent("_delta_log/0", b"commit")
    assert list(tmp_path.iterdir()) == []


def test_a_stream_reads_what_is_appended(spark: SparkSession, path: str, tmp_path: Path) -> None:
    for first in (0, 4):
        save(numbers(spark, first, first + 4), path, **{"delta.enableChangeDataFeed": "true"})
        stream = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(path).where("p = 1")
        copy = stream.writeStream.format("delta").option("checkpointLocation", str(tmp_path / "checkpoint"))
        copy.trigger(availableNow=True).start(str(tmp_path / "copy")).awaitTermination()
    assert ids(spark, str(tmp_path / "copy")) == [1, 3, 5, 7]
    with pytest.raises(UnsupportedFeature, match="Python on the executors reads streams"):
        spark.readStream.format("delta").option("readChangeFeed", "true").load(path)
