"""Object stores that a session reaches, and those that its Spark cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable
from slackwater.errors import UnsupportedFeature
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.session.reader_options import Options
from slackwater.spark.storage import row_transport
from slackwater.spark.storage.row_transport import ROWS
from slackwater.spark.storage.stores import storage_options
from slackwater.transaction.table.public_transaction import Transaction
from tests.contract.s3_server import BUCKET, s3_server
from tests.transaction.tables import ID, add, schema

pytestmark = [pytest.mark.spark, pytest.mark.modes, pytest.mark.usefixtures("enabled")]


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, str]]:
    with s3_server() as found:
        yield found


@pytest.fixture
def setting(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    keys: list[str] = []

    def set_one(key: str, value: str) -> None:
        keys.append(key)
        spark.conf.set(key, value)

    yield set_one
    for key in keys:
        spark.conf.unset(key)


def as_hadoop_says(options: dict[str, str]) -> dict[str, str]:
    options = {key.lower(): value for key, value in options.items()}
    return {
        "fs.s3a.endpoint": options["aws_endpoint_url"],
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": options["aws_access_key_id"],
        "fs.s3a.secret.key": options["aws_secret_access_key"],
        "fs.s3a.endpoint.region": options["aws_region"],
    }


@pytest.mark.classic
def test_what_the_session_knows_of_a_store_is_used_for_the_log(
    spark: SparkSession, options: dict[str, str], setting: Callable[[str, str], None]
) -> None:
    path = f"s3a://{BUCKET}/known"
    Transaction.create(path, schema(ID), storage_options=options).commit("CREATE TABLE")
    for key, value in as_hadoop_says(options).items():
        setting(key, value)
    assert [row.version for row in DeltaTable.forPath(spark, path).history().collect()] == [0]
    # What is asked of one table goes before.
    given = Options({"fs.s3a.access.key": "of the table", "aws_region": "elsewhere"})
    found = storage_options(spark, path, given)
    assert (found["aws_access_key_id"], found["aws_region"]) == ("of the table", "elsewhere")
    assert found["aws_secret_access_key"] == options["aws_secret_access_key"]
    assert storage_options(spark, "/a/local/path") == {}


def test_what_the_session_does_not_tell_comes_from_the_environment(
    spark: SparkSession, options: dict[str, str], setting: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"s3a://{BUCKET}/told"
    Transaction.create(path, schema(ID), storage_options=options).commit("CREATE TABLE")
    for key, value in as_hadoop_says(options).items():
        if not key.endswith(".key"):
            setting(key, value)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    assert DeltaTable.forPath(spark, path).detail().count() == 1


def test_a_scheme_that_spark_has_no_file_system_for_is_told_where_rows_must_go_by_spark(
    spark: SparkSession, options: dict[str, str], setting: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    setting(ROWS, "spark")
    # As where Spark is on other machines: on this one it is served what it has no connector for.
    monkeypatch.setattr(row_transport, "served_stores", lambda *_: None)
    path = f"s3a://{BUCKET}/unknown"
    created = Transaction.create(path, schema(ID), storage_options=options)
    created.add(add("a.parquet"))
    created.commit("WRITE")
    told = r"Spark of this session has no file system for s3a:// .*hadoop-aws"
    with pytest.raises(UnsupportedFeature, match=told):
        spark.range(3).write.format("delta").mode("append").options(**options).save(path)
    with pytest.raises(UnsupportedFeature, match=told):
        spark.read.format("delta").options(**options).load(path)
    assert Snapshot.load(path, storage_options=options).version == 0


@pytest.mark.long
def test_a_clone_on_a_disk_of_a_table_that_spark_does_not_reach_is_read_by_arrow(
    spark: SparkSession, options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in options.items():
        monkeypatch.setenv(key.upper(), value)
    source, clone = f"s3://{BUCKET}/cloned", str(tmp_path / "clone")
    vectors = {"delta.enableDeletionVectors": "true"}
    spark.range(5).write.format("delta").options(**options, **vectors).save(source)
    table = DeltaTable.forPath(spark, source, as_hadoop_says(options))
    table.delete("id = 3")
    table.clone(clone, isShallow=True)
    assert sorted(Snapshot.load(clone).to_arrow()["id"].to_pylist()) == [0, 1, 2, 4]
    reader = spark.read.format("delta").options(**options)
    with pytest.raises(UnsupportedFeature, match=r"has no file system for s3a://. Read the table with the option rows"):
        reader.load(clone).collect()
    rows = reader.option("rows", "arrow").load(clone).collect()
    assert sorted(row.id for row in rows) == [0, 1, 2, 4]
