"""Spark that does not find a table's files where this process does: told in one sentence, and nothing is changed."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slackwater import DeltaTable, Snapshot, errors
from slackwater.spark.session.classic_connect import is_connect, new_observation, observed
from slackwater.spark.storage import shared_storage
from slackwater.spark.storage.shared_storage import require_shared
from slackwater.spark.write.files import data_files
from slackwater.storage.local_store import LocalObjectStore
from slackwater.storage.open import open_store
from slackwater.storage.store import ObjectMeta, ObjectStore
from tests.cluster.standalone import Place, connect_server
from tests.cluster.unshared import ONE_SENTENCE, WRITES, in_namespace, make_tables, outcomes, require_unchanged
from tests.spark.written import listing, read, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.modes, pytest.mark.usefixtures("enabled")]


# What is told where files are not as they must be, without a second disk.


@pytest.fixture
def lose(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Path], None]], None]:
    """Lets something happen to the first of the files that Spark has written, before they are listed."""

    def arrange(harm: Callable[[Path], None]) -> None:
        plain = LocalObjectStore.list_from

        def list_from(self: LocalObjectStore, prefix: str, *args: Any, **options: Any) -> Any:
            if prefix.startswith(".slackwater-"):
                harm(min(p for p in (Path(self.local_root) / prefix).rglob("*.parquet")))
            return plain(self, prefix, *args, **options)

        monkeypatch.setattr(LocalObjectStore, "list_from", list_from)

    return arrange


def _halve(file: Path) -> None:
    table = pq.read_table(file)
    pq.write_table(table.slice(0, table.num_rows // 2), file)


@pytest.mark.parametrize("harm", [Path.unlink, _halve])
def test_rows_that_spark_wrote_and_nobody_finds_are_told_and_nothing_is_committed(
    spark: SparkSession, tmp_path: Path, lose: Callable[[Callable[[Path], None]], None], harm: Callable[[Path], None]
) -> None:
    path = tmp_path / "t"
    save(spark.range(0, 10, 1, 2), path)
    before = listing(path)
    table = DeltaTable.forPath(spark, str(path))
    merge = table.alias("t").merge(spark.range(20, 22).alias("s"), "t.id = s.id").whenNotMatchedInsertAll()
    lose(harm)
    changes: dict[str, Callable[[], object]] = {
        "append": lambda: save(spark.range(0, 4, 1, 2), path),
        "overwrite": lambda: save(spark.range(0, 4, 1, 2), path, "overwrite"),
        "create": lambda: save(spark.range(0, 4, 1, 2), tmp_path / "new"),
        "delete": lambda: table.delete("id % 5 = 1"),
        "update": lambda: table.update("id = 1", {"id": "100"}),
        "merge": merge.execute,
    }
    for name, change in changes.items():
        with pytest.raises(
            errors.StorageError, match=r"Spark wrote \d+ rows, .* finds \d+ rows in the files\. Nothing was committed"
        ):
            change()
        assert listing(path) == before, name
    assert not (tmp_path / "new").exists()
    assert rows(read(spark, path)) == [(n,) for n in range(10)]


def test_a_place_without_any_trace_of_the_job_is_another_place(
    spark: SparkSession, tmp_path: Path, lose: Callable[[Callable[[Path], None]], None]
) -> None:
    path = tmp_path / "t"
    save(spark.range(3), path)
    before = listing(path)
    lose(lambda file: shutil.rmtree(file.parent))
    with pytest.raises(errors.StorageRefused, match=ONE_SENTENCE):
        save(spark.range(5), path, "overwrite")
    assert listing(path) == before


def test_rows_are_counted_again_where_no_word_of_the_count_comes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lose: Callable[[Callable[[Path], None]], None]
) -> None:
    monkeypatch.setattr(data_files, "observed", lambda observation, name: None)
    path = tmp_path / "t"
    save(spark.range(0, 10, 1, 2), path)
    assert rows(read(spark, path)) == [(n,) for n in range(10)]
    lose(Path.unlink)
    with pytest.raises(errors.StorageError, match="Spark wrote 4 rows"):
        save(spark.range(0, 4, 1, 2), path)
    assert Snapshot.load(path).version == 0


@pytest.mark.classic
def test_word_of_a_count_that_never_comes_is_not_waited_for_without_end(spark: SparkSession) -> None:
    waits: list[float] = []
    observation = new_observation(spark)
    spark.range(3).observe(observation, F.count(F.lit(1)).alias("rows"))
    assert observed(observation, "rows", waits.append) is None
    assert waits


@pytest.mark.long
def test_frames_of_every_shape_are_counted_as_they_are_written(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int | None] = []

    def noted(*given: Any) -> int | None:
        told.append(observed(*given))
        return told[-1]

    monkeypatch.setattr(data_files, "observed", noted)
    ids = spark.range(0, 40, 1, 4).selectExpr("id", "id % 3 as p")
    users = new_observation(spark)
    frames = {
        "empty": (ids.limit(0), 0),
        "no rows left": (ids.where("id < 0"), 0),
        "joined with nothing": (ids.join(ids.where("id < 0").select("id"), "id"), 0),
        "sorted": (ids.orderBy("p", "id"), 40),
        "limited": (ids.limit(7), 7),
        "shuffled": (ids.repartition(5, "id"), 40),
        "rebalanced": (ids.hint("rebalance"), 40),
        "aggregated": (ids.groupBy("p").agg(F.max("id").alias("id")).select("id", "p"), 3),
        "of given rows": (spark.createDataFrame([(1, 1), (2, 1)], "id long, p long"), 2),
        "observed by its user": (ids.observe(users, F.count(F.lit(1)).alias("n")), 40),
    }
    for partition_by in ([], ["p"]):
        for name, (frame, expected) in frames.items():
            path = tmp_path / f"{name} {partition_by}"
            if partition_by and name == "observed by its user":
                continue
            frame.write.format("delta").partitionBy(*partition_by).save(str(path))
            assert read(spark, path).count() == expected, name
    assert users.get == {"n": 40}
    # A Connect server waits 0.1 s for the count, and then answers without it.
    assert is_connect(spark) or None not in told
    assert len(told) == 2 * len(frames) - 1


@pytest.mark.classic
@pytest.mark.parametrize("each_table", [False, True])
def test_a_file_that_spark_finds_otherwise_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, each_table: bool
) -> None:
    monkeypatch.setattr(shared_storage, "is_one_process", lambda spark: False)
    store = open_store(str(tmp_path))
    store.put("a", b"here")
    store.put("empty", b"")
    for proves_nothing in ("empty", "gone", None):
        require_shared(spark, store, itertools.repeat(proves_nothing).__next__, each_table=each_table)
    for size, message in ((16, "another file at a"), (1, "another file at a")):
        monkeypatch.setattr(shared_storage, "_MOST_HASHED_BYTES", size)
        with pytest.raises(errors.StorageRefused, match=message):
            require_shared(spark, _elsewhere(store, b"there, and longer"), lambda: "a", each_table=each_table)
    with pytest.raises(errors.StorageRefused, match=ONE_SENTENCE):
        require_shared(spark, _elsewhere(store, b"x"), lambda: "not there", each_table=each_table)
    require_shared(spark, store, lambda: "a", each_table=each_table)
    require_shared(spark, store, lambda: pytest.fail("looked at twice"), each_table=each_table)


def _elsewhere(store: ObjectStore, data: bytes) -> ObjectStore:
    return cast("ObjectStore", _Elsewhere(store, data))


class _Elsewhere:
    """A store for this process, where each file holds `data`; Spark sees the one below."""

    def __init__(self, store: ObjectStore, data: bytes) -> None:
        self.local_root, self.root_url, self._data = store.local_root, store.root_url, data

    def head(self, path: str) -> ObjectMeta:
        return ObjectMeta(path, len(self._data), 0)

    def read(self, path: str) -> bytes:
        return self._data


# A Spark that sees another disk, with real processes in a mount namespace of their own.


@pytest.fixture
def namespaces() -> None:
    """Skips where this user may not have mounts of its own."""
    tried = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False)
    if tried.returncode:
        pytest.skip(f"no mount namespaces here: {tried.stderr.decode().strip()}")


@pytest.mark.long
@pytest.mark.usefixtures("namespaces")
def test_a_connect_server_with_another_disk_is_refused_and_no_table_changes(
    spark: SparkSession, tmp_path: Path
) -> None:
    hidden, shared, elsewhere = _directories(spark, tmp_path)
    before = listing(hidden)
    # The server has the very directory, under another path; at the client's path it has an empty disk.
    mounts = f"mount --bind {hidden} {elsewhere} && mount -t tmpfs none {hidden}"
    with connect_server(tmp_path / "server", "local[2]", Place(prefix=in_namespace(mounts))) as address:
        found = outcomes(address, hidden, shared, {})
    assert (found["connect"], found["shared"]) == (True, 3)
    for moment in ("at first", "later"):
        for step, (error, message) in found[moment].items():
            assert error == "StorageRefused", (moment, step, message)
            assert ONE_SENTENCE in message, (moment, step)
    assert listing(hidden) == before
    require_unchanged(spark, hidden)


@pytest.mark.long
@pytest.mark.usefixtures("namespaces")
def test_executors_with_another_disk_are_refused_and_no_table_changes(spark: SparkSession, tmp_path: Path) -> None:
    hidden, shared, java_home = _directories(spark, tmp_path)
    before = listing(hidden)
    java = java_home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f'#!/bin/sh\nexec unshare -m sh -c \'mount -t tmpfs none {hidden} && exec java "$@"\' java "$@"\n')
    java.chmod(0o755)
    settings = {"spark.executorEnv.JAVA_HOME": str(java_home), "spark.ui.enabled": "false"}
    found = outcomes("local-cluster[1,2,1024]", hidden, shared, settings)
    assert (found["connect"], found["shared"]) == (False, 3)
    for step, (error, message) in found["at first"].items():
        assert error == "StorageRefused", (step, message)
        assert ONE_SENTENCE in message, step
    for step, (error, message) in found["later"].items():
        if step in WRITES:
            assert (error, "wrote 3 rows" in message, ONE_SENTENCE in message) == ("StorageError", True, True), message
        else:
            # What an executor does not find while a plan runs is Spark's own error.
            assert error != "done", (step, message)
    assert listing(hidden) == before
    require_unchanged(spark, hidden)


def _directories(spark: SparkSession, root: Path) -> list[Path]:
    """One with the tables of `make_tables`, and two that are empty."""
    found = [root / name for name in ("hidden", "shared", "other")]
    for each in found:
        each.mkdir()
    make_tables(spark, found[0])
    return found
