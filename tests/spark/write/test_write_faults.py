"""Writes that race others, and writes whose disk or store fails: what lands, what is left, what is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from slackwater import Snapshot, errors
from slackwater.spark.write.files import data_files as writer_module
from slackwater.spark.write.table_writer import TableWriter
from slackwater.storage.local_store import LocalObjectStore
from slackwater.storage.store import ChunkedBytes
from slackwater.transaction.commit import factory
from slackwater.transaction.committers.factory import committer_for
from slackwater.transaction.committers.filesystem import FilesystemCommitter
from tests.spark.written import Interloper, actions, data_files, listing, read, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]


@pytest.fixture
def first(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Lets something happen when the next write is about to commit."""

    def arrange(step: Callable[[], object]) -> None:
        def committer(table: Any, configuration: Any) -> Any:
            monkeypatch.setattr(factory, "committer_for", committer_for)
            return Interloper(table.store, step)

        monkeypatch.setattr(factory, "committer_for", committer)

    return arrange


class Faulty:
    """A store whose puts of commits fail: before they do anything, or after they landed; `blind` hides them after."""

    def __init__(self, store: Any, error: type[Exception], lands: bool, blind: bool) -> None:
        self._store, self._error, self._lands, self._blind = store, error, lands, blind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put_if_absent(self, path: str, data: bytes | ChunkedBytes, durable: bool = True) -> None:
        if self._lands and self._store.head(path) is None:
            self._store.put_if_absent(path, data)
        raise self._error("the store is not well")

    def read(self, path: str) -> bytes:
        if self._blind:
            raise errors.StorageError("nor does it read")
        return self._store.read(path)  # type: ignore[no-any-return]


def _fail(monkeypatch: pytest.MonkeyPatch, error: type[Exception], lands: bool = False, blind: bool = False) -> None:
    def committer(table: Any, configuration: Any) -> FilesystemCommitter:
        return FilesystemCommitter(Faulty(table.store, error, lands, blind), sleep=lambda seconds: None)

    monkeypatch.setattr(factory, "committer_for", committer)


def _named_by_log(path: Path) -> set[str]:
    versions = range(Snapshot.load(str(path)).version + 1)
    return {add["path"] for version in versions for add in actions(path, version, "add")}


def test_an_append_that_races_another_lands_behind_it(spark: SparkSession, tmp_path: Path, first: Any) -> None:
    path = tmp_path / "t"
    save(spark.range(1), path)
    first(lambda: save(spark.range(1, 2), path))
    save(spark.range(2, 3), path)
    assert rows(read(spark, path)) == [(0,), (1,), (2,)]
    assert actions(path, 2, "commitInfo")[0]["readVersion"] == 0


@pytest.mark.parametrize(
    ("meanwhile", "error"),
    [
        ({"mode": "append", "mergeSchema": "true"}, errors.MetadataChangedException),
        ({"mode": "overwrite"}, errors.DeltaConcurrentModificationException),
    ],
)
def test_an_overwrite_does_not_follow_what_changed_under_it(
    spark: SparkSession, tmp_path: Path, first: Any, meanwhile: dict[str, str], error: type[Exception]
) -> None:
    path = tmp_path / "t"
    save(spark.range(1), path)
    select = ("id", "1 as more") if "mergeSchema" in meanwhile else ("id",)
    first(lambda: save(spark.range(1, 2).selectExpr(*select), path, **meanwhile))
    with pytest.raises(error):
        save(spark.range(5), path, "overwrite")
    assert Snapshot.load(str(path)).version == 1
    assert {file.name for file in data_files(path)} == _named_by_log(path)


def test_overwrites_of_different_partitions_both_land(spark: SparkSession, tmp_path: Path, first: Any) -> None:
    path = tmp_path / "t"
    frame = spark.sql("select 1L id, 'a' p union all select 2L, 'b'")
    frame.write.format("delta").partitionBy("p").save(str(path))
    first(lambda: save(spark.sql("select 10L id, 'a' p"), path, "overwrite", replaceWhere="p = 'a'"))
    save(spark.sql("select 20L id, 'b' p"), path, "overwrite", partitionOverwriteMode="dynamic")
    assert rows(read(spark, path)) == [(10, "a"), (20, "b")]


def test_a_condition_whose_rows_another_wrote_is_a_conflict(spark: SparkSession, tmp_path: Path, first: Any) -> None:
    path = tmp_path / "t"
    save(spark.range(10), path)
    first(lambda: save(spark.range(7, 8), path, "overwrite", replaceWhere="id = 7"))
    with pytest.raises(errors.DeltaConcurrentModificationException):
        save(spark.range(5, 6), path, "overwrite", replaceWhere="id = 5")
    assert [r[0] for r in rows(read(spark, path))] == list(range(10))
    assert {file.name for file in data_files(path)} == _named_by_log(path)


def test_the_same_application_version_lands_once(spark: SparkSession, tmp_path: Path, first: Any) -> None:
    path = tmp_path / "t"
    save(spark.range(1), path)
    first(lambda: save(spark.range(1, 2), path, txnAppId="job", txnVersion=1))
    save(spark.range(1, 2), path, txnAppId="job", txnVersion=1)
    assert rows(read(spark, path)) == [(0,), (1,)]
    assert (len(data_files(path)), Snapshot.load(path).version) == (Snapshot.load(path).files().num_rows, 1)


def test_an_application_that_moved_on_meanwhile_elsewhere_is_in_conflict(
    spark: SparkSession, tmp_path: Path, first: Any
) -> None:
    path = tmp_path / "t"
    save(spark.range(1), path)
    first(lambda: save(spark.range(1, 2), path, txnAppId="job", txnVersion=1))
    with pytest.raises(errors.ConcurrentTransactionException):
        save(spark.range(2, 3), path, txnAppId="job", txnVersion=2)
    assert rows(read(spark, path)) == [(0,), (1,)]


def test_of_two_that_create_a_table_one_wins(spark: SparkSession, tmp_path: Path, first: Any) -> None:
    path = tmp_path / "t"
    first(lambda: save(spark.range(1), path))
    with pytest.raises(errors.ProtocolChangedException, match="created"):
        save(spark.range(1, 2), path)
    assert rows(read(spark, path)) == [(0,)]
    assert {file.name for file in data_files(path)} == _named_by_log(path)


def test_files_stay_where_nobody_knows_whether_the_commit_landed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    save(spark.range(1), path)
    with monkeypatch.context() as patch:
        _fail(patch, errors.StorageError, lands=True, blind=True)
        with pytest.raises(errors.CommitUnknown):
            save(spark.range(1, 2), path)
    assert rows(read(spark, path)) == [(0,), (1,)]
    with monkeypatch.context() as patch:
        _fail(patch, errors.StorageError)
        with pytest.raises(errors.CommitUnknown, match="data files stay"):
            save(spark.range(2, 3), path, "overwrite")
    assert len(data_files(path)) == 3
    assert rows(read(spark, path)) == [(0,), (1,)]


def test_a_commit_whose_answer_was_lost_is_a_commit(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    _fail(monkeypatch, errors.StorageError, lands=True)
    save(spark.range(1), path)
    save(spark.range(1, 2), path)
    assert rows(read(spark, path)) == [(0,), (1,)]
    assert Snapshot.load(str(path)).version == 1


def test_files_go_where_the_store_refused_the_commit(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    save(spark.range(1), path, **{"delta.enableChangeDataFeed": "true"})
    before = [p for p in listing(path) if (path / p).is_file()]
    _fail(monkeypatch, errors.StorageRefused)
    for mode, options in (("append", {}), ("overwrite", {}), ("overwrite", {"replaceWhere": "id = 0"})):
        with pytest.raises(errors.CommitFailed, match="not well"):
            save(spark.range(1), path, mode, **options)
    with pytest.raises(errors.CommitFailed):
        save(spark.range(1), tmp_path / "new")
    assert [p for p in listing(path) if (path / p).is_file()] == before
    assert [p for p in listing(tmp_path / "new") if (tmp_path / "new" / p).is_file()] == []


@pytest.mark.parametrize("after", [0, 1])
def test_nothing_is_left_where_the_disk_fails_between_two_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    path = tmp_path / "t"
    save(spark.range(1), path)
    before = listing(path)
    moved: list[str] = []
    plain = LocalObjectStore.move

    def move(self: LocalObjectStore, src: str, dst: str) -> None:
        if len(moved) >= after:
            raise errors.StorageError("no space left")
        moved.append(dst)
        plain(self, src, dst)

    monkeypatch.setattr(LocalObjectStore, "move", move)
    with pytest.raises(errors.StorageError, match="no space"):
        save(spark.range(0, 4, 1, 2), path)
    assert len(moved) == after
    assert listing(path) == before


def test_what_came_first_goes_where_a_later_part_of_the_write_fails(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    save(spark.range(0, 10, 1, 1), path, **{"delta.enableChangeDataFeed": "true"})
    before = listing(path)

    def fails(*args: Any) -> None:
        raise errors.StorageError("no space left")

    for name in ("rewrite", "write_changes"):
        with monkeypatch.context() as patch:
            patch.setattr(TableWriter, name, fails)
            with pytest.raises(errors.StorageError, match="no space"):
                save(spark.range(5, 6), path, "overwrite", replaceWhere="id = 5")
        assert listing(path) == before


def test_a_place_that_cannot_be_written_to_is_named_before_a_job_runs(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for path in (tmp_path / "file", tmp_path / "file" / "t"):
        with pytest.raises(errors.StorageError, match="file"):
            save(spark.range(1), path)
    assert listing(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_directory_that_is_read_only_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    save(spark.range(1), path)
    before = listing(path)
    plain = Path.mkdir

    def mkdir(self: Path, *args: Any, **options: Any) -> None:
        # Permissions do not stop the administrator, as whom the tests may run.
        if path in self.parents:
            raise PermissionError(13, "Permission denied", str(self))
        plain(self, *args, **options)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with pytest.raises(errors.StorageRefused, match="Permission denied"):
        save(spark.range(1), path, "overwrite")
    assert listing(path) == before


def test_a_directory_that_executors_may_not_make_is_an_error_of_the_store() -> None:
    rows = ".slackwater-1/rows"
    told = f"Lost task 0.3 (executor 1): java.io.IOException: Mkdirs failed to create file:/t/{rows}/_temporary/0"
    with (
        pytest.raises(
            errors.StorageError, match=r"written: Mkdirs failed to create file:/t/.*unchanged.*user of the executors"
        ),
        writer_module._failures_named("/t", rows),
    ):
        raise PySparkException(f"Job aborted due to stage failure.\n: org.apache.spark.SparkException: {told}")
    others = [
        PySparkException(f"[TASK_WRITE_FAILED] Task failed while writing rows to /t/{rows}.\nCaused by: a user's own"),
        errors.StorageRefused(f"put /t/{rows}/a.parquet failed: Permission denied"),
        PySparkException("Mkdirs failed to create file:/elsewhere"),
    ]
    for error in others:
        with pytest.raises(type(error)) as raised, writer_module._failures_named("/t", rows):
            raise error
        assert raised.value is error


def test_a_file_that_spark_cannot_write_is_an_error_of_the_store(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    frame = spark.range(3).selectExpr("id", "repeat('x', int(id) * 200) as p")
    with pytest.raises(errors.StorageError, match="could not be written"):
        frame.write.format("delta").partitionBy("p").save(str(path))
    assert listing(tmp_path) == []
    frame.filter("id < 2").write.format("delta").partitionBy("p").save(str(path))
    before = listing(path)
    with pytest.raises(errors.StorageError, match="table is unchanged"):
        save(frame, path)
    assert listing(path) == before


def test_a_file_in_the_place_of_the_log_stops_the_commit(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "_delta_log").write_text("in the way")
    with pytest.raises(errors.CommitFailed, match="_delta_log"):
        save(spark.range(1), tmp_path)
    assert listing(tmp_path) == ["_delta_log"]


def test_a_log_that_cannot_be_read_back_is_no_table_to_write_over(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.range(1), path)
    log = path / "_delta_log" / f"{1:020d}.json"
    log.write_text(json.dumps({"add": {"path": "x"}})[:-3])
    before = listing(path)
    for mode in ("append", "overwrite", "ignore", "error"):
        with pytest.raises(errors.CorruptLog):
            save(spark.range(1), path, mode)
    assert listing(path) == before
