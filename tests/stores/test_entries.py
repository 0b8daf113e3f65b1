"""Storage options on every way in, one place under its several names, and secrets that stay where they are."""

from __future__ import annotations

import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import slackwater
from slackwater import AddFile, DeltaTable, Lake, Transaction
from slackwater.cli.main import app
from slackwater.errors import SlackwaterError
from slackwater.scan.snapshot import Snapshot
from slackwater.storage import open_store
from tests.contract.s3_server import BUCKET
from tests.stores.conftest import as_hadoop_says
from tests.stores.servers import Place
from tests.stores.users import Users, checked_s3
from tests.transaction.tables import ID, schema

pytestmark = pytest.mark.spark

_numbers = count()


@pytest.fixture(scope="module")
def users() -> Iterator[Users]:
    with checked_s3() as found:
        yield found


@pytest.fixture
def options(users: Users, place: Place, by_arrow: None) -> dict[str, str]:
    """Of a server that the session knows nothing of: it has been told of another one."""
    del place, by_arrow
    return dict(users.owner)


@pytest.fixture
def path(spark: SparkSession, options: dict[str, str]) -> str:
    root = f"s3a://{BUCKET}/entries/{next(_numbers)}"
    spark.range(3).coalesce(1).write.format("delta").options(**options).save(root)
    return root


def ids(frame: object) -> list[int]:
    return sorted(row.id for row in frame.collect())  # type: ignore[attr-defined]


def test_storage_options_reach_the_store_by_every_way_in(
    spark: SparkSession, options: dict[str, str], path: str, tmp_path: Path
) -> None:
    hadoop = as_hadoop_says(Place(path, options))
    reader = spark.read.format("delta")
    frame = reader.options(**options).load(path)
    assert ids(frame) == ids(spark.read.format("delta").options(**hadoop).load(path)) == [0, 1, 2]
    table = DeltaTable.forPath(spark, path, hadoop)
    table.delete("id = 0")
    assert ids(table.toDF()) == ids(slackwater.refresh(frame)) == [1, 2]
    spark.range(5, 6).write.format("delta").mode("append").options(**hadoop).save(path)
    assert table.history().count() == 3

    snapshot = Snapshot.load(path, storage_options=options)
    assert (snapshot.version, snapshot.update().version) == (2, 2)
    transaction = Transaction(path, storage_options=options)
    transaction.set_transaction("loader", 1)
    assert transaction.commit().version == 3
    made = f"{path}-made"
    assert Transaction.create(made, schema(ID), storage_options=options).commit("CREATE TABLE").version == 0

    database = f"sqlite:///{tmp_path}/owner.db"
    with Lake.open(f"{path}-lake", database, options, spark=spark) as lake:
        lake.create_table("t", "id BIGINT")
        lake.adopt("other", path)
        with lake.transaction(spark) as tx:
            tx.table("t").append(spark.range(2))
            tx.table("other").delete("id = 1")
        assert ids(lake.table("t").toDF()) == [0, 1]
        assert ids(lake.as_of(tx.commit_timestamp).table("other").toDF()) == [2, 5]
        lake.release("other")
    pairs = [word for key, value in options.items() for word in ("--storage-option", f"{key}={value}")]
    answer = CliRunner().invoke(app, ["history", path, *pairs])
    assert (answer.exit_code, "DELETE" in answer.output) == (0, True)


def test_s3_and_s3a_are_one_place(spark: SparkSession, options: dict[str, str], path: str, tmp_path: Path) -> None:
    other = path.replace("s3a://", "s3://")
    named = Snapshot.load(path, storage_options=options).files().to_pylist()[0]
    absolute = f"{other}/{named['path']}"
    clone = Transaction.create(
        f"{path}-clone", Snapshot.load(path, storage_options=options).metadata.schema_string, storage_options=options
    )
    clone.add(AddFile(absolute, {}, named["size"], named["modificationTime"], stats=named["stats"]))
    clone.commit("WRITE")
    reader = spark.read.format("delta").options(**options).option("allowPathsOutsideRoot", "true")
    assert ids(reader.load(f"{path}-clone")) == ids(reader.load(other)) == [0, 1, 2]

    # A file below the root is one of the table by each of these schemes.
    moved = Transaction(path, storage_options=options)
    moved.remove(named["path"])
    moved.add(AddFile(absolute, {}, named["size"], named["modificationTime"], stats=named["stats"]))
    moved.commit("WRITE")
    assert ids(spark.read.format("delta").options(**options).load(path)) == [0, 1, 2]

    with Lake.open(f"{path}-lake", f"sqlite:///{tmp_path}/owner.db", options, spark=spark) as lake:
        lake.adopt("t", path)
        with pytest.raises(SlackwaterError):
            lake.adopt("again", other)
        spark.range(7, 8).write.format("delta").mode("append").options(**options).save(other)
        assert ids(lake.table("t").toDF()) == [0, 1, 2, 7]


def test_a_table_that_is_moved_into_a_bucket_is_read_there(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    local, moved = tmp_path / "t", f"{place.url}/moved {next(_numbers)}"
    rows = [(1, "a b"), (2, "50%"), (3, "x#y"), (4, "q?"), (5, "ü/日本")]
    frame = spark.createDataFrame(rows, "id BIGINT, p STRING")
    frame.write.format("delta").partitionBy("p").option("delta.enableDeletionVectors", "true").save(str(local))
    DeltaTable.forPath(spark, str(local)).update("id = 1", {"id": "id + 10"})
    store = open_store(moved, place.options)
    for file in (found for found in local.rglob("*") if found.is_file()):
        store.put(file.relative_to(local).as_posix(), file.read_bytes())
    reader = spark.read.format("delta")
    assert ids(reader.load(moved)) == [2, 3, 4, 5, 11]
    for number, name in rows[1:]:
        assert ids(reader.load(moved).where(f"p = '{name}'")) == [number]


@pytest.mark.parametrize("name", ["a b%20#q?ü", "50%+[z]~日本"])
def test_a_place_may_have_any_name(spark: SparkSession, place: Place, name: str) -> None:
    """Signs that end a path in a URL are written encoded, as in any URL; others may be written either way."""
    written = name.replace("%", "%25").replace("#", "%23").replace("?", "%3F")
    path = f"{place.url}/names/{written}"
    spark.range(2).coalesce(1).write.format("delta").mode("overwrite").save(path)
    DeltaTable.forPath(spark, path).update("id = 0", {"id": "id + 5"})
    assert ids(spark.read.format("delta").load(path)) == [1, 5]
    found = open_store(f"{place.url}/names", place.options).list_from("", recursive=True)
    assert name in {meta.path.split("/")[0] for meta in found}


def test_no_secret_is_shown_or_kept(
    spark: SparkSession,
    options: dict[str, str],
    path: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    secret = options["aws_secret_access_key"]
    said: list[str] = []
    with caplog.at_level(logging.DEBUG):
        frame = spark.read.format("delta").options(**options).load(path)
        frame.where("id > 0").explain(True)
        table = DeltaTable.forPath(spark, path, as_hadoop_says(Place(path, options)))
        table.update("id = 1", {"id": "id + 1"})
        said += [str(row) for rows in (table.history(), table.detail()) for row in rows.collect()]
        snapshot = Snapshot.load(path, storage_options=options)
        transaction = Transaction(path, storage_options=options)
        lake = Lake.open(f"{path}-lake", f"sqlite:///{tmp_path}/owner.db", options, spark=spark)
        shown = (frame, frame.schema, table, snapshot, snapshot.store, snapshot.table, transaction, lake)
        said += [f"{value!r} {value}" for value in shown]
        # A file that the log names is gone: the job fails in an executor.
        live = snapshot.files().to_pylist()[0]["path"]
        open_store(path, options).delete([live])
        broken: list[Callable[[], object]] = [
            lambda: spark.read.format("delta").options(**options).load(path).collect(),
            lambda: Snapshot.load(f"{path}-none", storage_options=options),
            lambda: spark.read.format("delta").options(**options).load("s3a://nobucket/t").collect(),
        ]
        for call in broken:
            with pytest.raises(Exception) as caught:  # noqa: PT011 - of the package, or of the job
                call()
            said += traceback.format_exception(caught.value)
        lake.close()
    # Py4J writes down, at this level, every word that goes to the JVM.
    said += [record.getMessage() for record in caplog.records if not record.name.startswith("py4j")]
    said += capfd.readouterr()
    assert [text for text in said if secret in text] == []
    kept = open_store(path, options)
    assert [meta.path for meta in kept.list_from("", recursive=True) if secret.encode() in kept.read(meta.path)] == []
    # Executors get what they need to read.
    assert secret.encode() in pickle.dumps(snapshot.store)
