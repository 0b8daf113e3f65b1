"""How many requests an object store gets for a table's log: never more than deltalake makes for the same."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

import slackwater
from slackwater import AddFile, Transaction
from slackwater.scan.snapshot import Snapshot
from tests.contract.s3_server import BUCKET, s3_server
from tests.stores.connector import bucket_of_connector, needs_connector, served
from tests.stores.proxy import FaultProxy, fault_proxy

ROWS = pa.table({"id": pa.array(range(10), pa.int64())})


@pytest.fixture(scope="module")
def proxy() -> Iterator[FaultProxy]:
    with s3_server() as options, fault_proxy(options) as found:
        yield found


@pytest.fixture
def path(proxy: FaultProxy, request: pytest.FixtureRequest) -> str:
    """A table of two versions, written by deltalake."""
    place = f"s3://{BUCKET}/{request.node.name}"
    for _ in range(2):
        write_deltalake(place, ROWS, mode="append", storage_options=proxy.options)
    return place


def asked(proxy: FaultProxy, work: Callable[[], Any]) -> Counter[str]:
    """The requests of `work` for anything of the log."""
    proxy.seen.clear()
    work()
    return Counter(request.kind for request in proxy.seen if "_delta_log" in request.key)


def asked_for_rows(proxy: FaultProxy, work: Callable[[], Any]) -> Counter[str]:
    """The requests of `work` for data files."""
    proxy.seen.clear()
    work()
    return Counter(request.kind for request in proxy.seen if "_delta_log" not in request.key)


def append(proxy: FaultProxy, path: str, name: str) -> None:
    transaction = Transaction(path, storage_options=proxy.options)
    transaction.add(AddFile(name, {}, 10, 0, stats='{"numRecords":10}'))
    transaction.commit("WRITE")


def test_a_table_is_opened_by_the_hint_one_list_and_its_commits(proxy: FaultProxy, path: str) -> None:
    ours = asked(proxy, lambda: Snapshot.load(path, storage_options=proxy.options))
    assert ours == {"get": 3, "list": 1}
    assert ours.total() <= asked(proxy, lambda: DeltaTable(path, storage_options=proxy.options)).total()


def test_a_checkpoint_is_read_by_ranges(proxy: FaultProxy, path: str) -> None:
    DeltaTable(path, storage_options=proxy.options).create_checkpoint()
    ours = asked(proxy, lambda: Snapshot.load(path, storage_options=proxy.options).files())
    theirs = asked(proxy, lambda: DeltaTable(path, storage_options=proxy.options).file_uris())
    assert ours == {"get": 6, "list": 1}
    assert ours.total() <= theirs.total()


def test_a_checkpoint_that_was_written_anew_since_it_was_listed_is_asked_for_its_size(
    proxy: FaultProxy, path: str
) -> None:
    DeltaTable(path, storage_options=proxy.options).create_checkpoint()
    snapshot = Snapshot.load(path, storage_options=proxy.options)
    (checkpoint,) = snapshot.segment.checkpoint.paths  # type: ignore[union-attr]
    anew = io.BytesIO()
    pq.write_table(pq.read_table(io.BytesIO(snapshot.store.read(checkpoint))), anew, compression="none")
    snapshot.store.put(checkpoint, anew.getvalue())
    assert asked(proxy, lambda: snapshot.files(columns=["path", "stats"]))["head"] == 1
    assert snapshot.files(columns=["path"]).num_rows == 2


def test_an_append_asks_for_little_more_than_its_commit(proxy: FaultProxy, path: str) -> None:
    append(proxy, path, "first")
    ours = asked(proxy, lambda: append(proxy, path, "second"))
    theirs = asked(proxy, lambda: write_deltalake(path, ROWS, mode="append", storage_options=proxy.options))
    assert ours == {"get": 5, "head": 1, "list": 2, "put": 2}
    assert ours.total() <= theirs.total()


def test_a_snapshot_is_brought_up_to_date_by_one_list(proxy: FaultProxy, path: str) -> None:
    snapshot = Snapshot.load(path, storage_options=proxy.options)
    assert asked(proxy, snapshot.update) == {"list": 1}
    append(proxy, path, "more")
    assert asked(proxy, snapshot.update) == {"list": 1, "get": 1}


@pytest.mark.spark
def test_one_partition_is_read_by_one_request_for_each_of_its_files(spark: SparkSession, proxy: FaultProxy) -> None:
    slackwater.enable(spark)
    path = f"s3://{BUCKET}/partitioned"
    rows = ROWS.append_column("p", pa.array([number % 5 for number in range(10)], pa.int64()))
    write_deltalake(path, rows, partition_by=["p"], storage_options=proxy.options)
    options = {key.lower(): value for key, value in proxy.options.items()} | {"rows": "arrow"}
    frame = spark.read.format("delta").options(**options)

    def read() -> None:
        assert sorted(row.id for row in frame.load(path).where("p = 3").collect()) == [3, 8]

    def read_by_deltalake() -> None:
        table = DeltaTable(path, storage_options=proxy.options)
        found = table.to_pyarrow_table(filters=[("p", "=", 3)], columns=["id"])
        assert sorted(found["id"].to_pylist()) == [3, 8]

    assert asked(proxy, read) == {"get": 2, "list": 1}
    assert asked(proxy, read).total() <= asked(proxy, read_by_deltalake).total()
    assert asked_for_rows(proxy, read) == {"get": 1}
    assert asked_for_rows(proxy, read).total() <= asked_for_rows(proxy, read_by_deltalake).total()


@pytest.mark.spark
def test_ten_rows_are_appended_by_one_file_and_one_commit(spark: SparkSession, proxy: FaultProxy, path: str) -> None:
    slackwater.enable(spark)
    options = {key.lower(): value for key, value in proxy.options.items()} | {"rows": "arrow"}
    writer = spark.range(0, 10, 1, 1).write.format("delta").mode("append").options(**options)
    # The first to an endpoint looks whether puts are conditional there, and leaves a checksum.
    writer.save(path)
    ours = asked(proxy, lambda: writer.save(path))
    rows = asked_for_rows(proxy, lambda: writer.save(path))
    theirs = asked(proxy, lambda: write_deltalake(path, ROWS, mode="append", storage_options=proxy.options))
    assert ours == {"get": 5, "head": 1, "list": 2, "put": 2}
    # The list finds what tasks that failed have left.
    assert rows == {"put": 1, "list": 1}
    assert ours.total() + rows.total() <= theirs.total()


@pytest.mark.spark
@pytest.mark.classic
@served
def test_spark_that_is_served_reads_a_file_by_its_size_and_one_range(spark: SparkSession, proxy: FaultProxy) -> None:
    slackwater.enable(spark)
    path = f"s3://{BUCKET}/served"
    for _ in range(3):
        write_deltalake(path, ROWS, mode="append", storage_options=proxy.options)
    options = {key.lower(): value for key, value in proxy.options.items()}
    frame = spark.read.format("delta").options(**options)
    assert asked_for_rows(proxy, lambda: frame.load(path).agg({"id": "sum"}).collect()) == {"head": 3, "get": 3}


@pytest.mark.spark
@pytest.mark.classic
@served
def test_files_that_spark_wrote_on_this_machine_are_put_and_not_asked_for_again(
    spark: SparkSession, proxy: FaultProxy
) -> None:
    slackwater.enable(spark)
    path = f"s3://{BUCKET}/put"
    options = {key.lower(): value for key, value in proxy.options.items()}
    frame = spark.range(0, 10, 1, 1).selectExpr("id", "id % 4 AS k")
    writer = frame.write.format("delta").mode("append").partitionBy("k").options(**options)
    writer.save(path)
    # The list finds what tasks that failed have left.
    assert asked_for_rows(proxy, lambda: writer.save(path)) == {"put": 4, "list": 1}
    newest = Snapshot.load(path, storage_options=proxy.options)
    files = newest.files()
    there = {meta.path: meta.size_bytes for meta in newest.store.list_from("", recursive=True)}
    assert [there[path] for path in files["path"].to_pylist()] == files["size"].to_pylist()
    assert newest.to_arrow().num_rows == 20


@pytest.mark.spark
@pytest.mark.classic
@needs_connector
def test_sparks_connector_is_told_of_files_that_are_asked_for_once(spark: SparkSession, proxy: FaultProxy) -> None:
    slackwater.enable(spark)
    path = f"s3a://{bucket_of_connector(spark, proxy, 'counted')}/t"
    for _ in range(5):
        write_deltalake(path, ROWS, mode="append", storage_options=proxy.options)
    frames = []
    opened = asked_for_rows(proxy, lambda: frames.append(spark.read.format("delta").load(path)))
    # One for each of five files, and what Spark asks of the first; it would ask as much of each.
    assert opened["head"] <= 5 + 3
    assert opened.total() <= 5 + 4
    assert frames[0].count() == 50
    (file,) = Snapshot.load(path, storage_options=proxy.options).files("id >= 0")["path"].to_pylist()[-1:]
    Snapshot.load(path, storage_options=proxy.options).store.delete([file])
    with pytest.raises(slackwater.errors.DataFileNotFound, match=file):
        spark.read.format("delta").load(path)


FILES = 300
"""More than the number up to which a frame lists its files when it is made."""


@pytest.fixture
def many_files(proxy: FaultProxy) -> Callable[[str], None]:
    """Makes a table of FILES files of ten rows each at a path: file n has the ids from 10 n on."""

    def make(path: str) -> None:
        write_deltalake(path, ROWS, storage_options=proxy.options)
        transaction = Transaction(path, storage_options=proxy.options)
        store = Snapshot.load(path, storage_options=proxy.options).store
        for number in range(1, FILES):
            sink = io.BytesIO()
            pq.write_table(pa.table({"id": pa.array(range(10 * number, 10 * number + 10), pa.int64())}), sink)
            store.put(f"{number}.parquet", sink.getvalue())
            bounds = f'"minValues":{{"id":{10 * number}}},"maxValues":{{"id":{10 * number + 9}}},"nullCount":{{"id":0}}'
            transaction.add(
                AddFile(f"{number}.parquet", {}, len(sink.getvalue()), 0, stats=f'{{"numRecords":10,{bounds}}}')
            )
        transaction.commit("WRITE")

    return make


@pytest.mark.spark
@pytest.mark.parametrize("statement", ["where", pytest.param("SQL", marks=pytest.mark.classic)])
def test_a_selective_query_of_many_files_asks_for_its_file_only(
    spark: SparkSession, proxy: FaultProxy, many_files: Callable[[str], None], statement: str
) -> None:
    slackwater.enable(spark)
    if needs_connector.args[0]:
        path = f"s3://{BUCKET}/many-{statement}"
    else:
        path = f"s3a://{bucket_of_connector(spark, proxy, f'many-{statement.lower()}')}/t"
    many_files(path)
    reader = spark.read.format("delta").options(**{key.lower(): value for key, value in proxy.options.items()})
    reader.load(path).createOrReplaceTempView("many_files")

    def read() -> None:
        by_sql = statement == "SQL"
        frame = (
            spark.sql("SELECT * FROM many_files WHERE id = 2505") if by_sql else reader.load(path).where("id = 2505")
        )
        assert [row.id for row in frame.collect()] == [2505]

    found = asked_for_rows(proxy, read)
    assert {request.key.rpartition("/")[2] for request in proxy.seen if "_delta_log" not in request.key} == {
        "250.parquet"
    }
    assert found.total() <= 6
