"""Places and credentials that are wrong: told in one sentence, with nothing written."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater import DeltaTable, Snapshot, Transaction
from slackwater.errors import CommitFailed, InvalidArgument, SlackwaterError, StorageRefused, TableNotFound
from slackwater.lake.lake import LogLake
from slackwater.storage import open_store
from tests.contract.s3_server import BUCKET
from tests.stores.users import Users, checked_s3
from tests.transaction.tables import ID, add, schema

_ROOT = f"s3a://{BUCKET}/bad"
_numbers = itertools.count()
_WRONG = "wJalrXUtnFEMIWRONGSECRETKEY"


@pytest.fixture(scope="module")
def users() -> Iterator[Users]:
    with checked_s3() as found:
        yield found


@pytest.fixture
def path(users: Users) -> str:
    """A table of one test with one version and one file in its log."""
    root = f"{_ROOT}/{next(_numbers)}"
    created = Transaction.create(root, schema(ID), storage_options=users.owner)
    created.add(add("a.parquet"))
    created.commit("WRITE")
    return root


def objects(users: Users, path: str) -> set[str]:
    return {meta.path for meta in open_store(path, users.owner).list_from("", recursive=True)}


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


_CHANGES: dict[str, tuple[dict[str, str], str]] = {
    "wrong secret": ({"aws_secret_access_key": _WRONG}, "rejects the credentials. Check the key, the secret"),
    "unknown key": ({"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7NOBODY1"}, "rejects the credentials"),
    "foreign token": ({"aws_session_token": _WRONG}, "rejects the credentials"),
}


@pytest.mark.parametrize("change", _CHANGES)
def test_credentials_that_the_store_does_not_know_are_told_before_anything_is_done(
    users: Users, path: str, change: str, tmp_path: Path
) -> None:
    options = {**users.owner, **_CHANGES[change][0]}
    before = objects(users, path)
    calls: list[Callable[[], object]] = [
        lambda: Snapshot.load(path, storage_options=options),
        lambda: Transaction(path, storage_options=options),
        lambda: Transaction.create(path + "2", schema(ID), storage_options=options).commit("CREATE TABLE"),
        lambda: LogLake.open(path, f"sqlite:///{tmp_path}/{change}.db", storage_options=options),
    ]
    for call in calls:
        with pytest.raises(StorageRefused, match=f"s3a://{BUCKET}/bad.* was denied: .*{_CHANGES[change][1]}") as caught:
            call()
        assert _WRONG not in shown(caught.value)
    assert objects(users, path) == before


def test_a_commit_by_one_who_may_only_read_is_refused(users: Users, path: str) -> None:
    before = objects(users, path)
    transaction = Transaction(path, storage_options=users.reader)
    transaction.add(add("b.parquet"))
    with pytest.raises(CommitFailed, match=r"the table is unchanged: .* denied: check the credentials"):
        transaction.commit()
    assert objects(users, path) == before
    assert Snapshot.load(path, storage_options=users.reader).version == 0


def test_a_bucket_that_does_not_exist_is_told_by_each_way_in(users: Users, tmp_path: Path) -> None:
    path = "s3a://nobucket/t"
    calls: list[Callable[[], object]] = [
        lambda: Snapshot.load(path, storage_options=users.owner),
        lambda: Transaction(path, storage_options=users.owner),
        lambda: Transaction.create(path, schema(ID), storage_options=users.owner).commit("CREATE TABLE"),
        lambda: LogLake.open(path, f"sqlite:///{tmp_path}/o.db", storage_options=users.owner),
    ]
    for call in calls:
        with pytest.raises(
            SlackwaterError, match=r"the bucket s3a://nobucket does not exist\. Create it, or check its name"
        ):
            call()


def test_a_scheme_that_nobody_knows_is_told_with_those_that_are_known() -> None:
    for path in ("s4://b/t", "oss://b/t"):
        with pytest.raises(InvalidArgument, match=f"unknown scheme '{path[: path.index(':')]}'.*s3a"):
            Snapshot.load(path)


def test_a_place_without_a_table_is_told_as_such(users: Users) -> None:
    with pytest.raises(TableNotFound, match=f"s3a://{BUCKET}/bad/nothing"):
        Snapshot.load(f"{_ROOT}/nothing", storage_options=users.owner)


@pytest.mark.spark
@pytest.mark.usefixtures("by_arrow")
class TestWithSpark:
    """Rows that were written before the commit was refused, and rows that could not be."""

    def test_rows_that_were_written_are_taken_away_where_the_commit_is_refused(
        self, spark: SparkSession, users: Users, path: str
    ) -> None:
        slackwater.enable(spark)
        before = objects(users, path)
        frame = spark.range(10).selectExpr("CAST(id AS INT) AS id")
        with pytest.raises(CommitFailed, match="was denied: check the credentials and their rights"):
            frame.write.format("delta").mode("append").options(**users.without_log).save(path)
        assert objects(users, path) == before

    def test_rows_that_may_not_be_written_are_told_in_one_sentence(
        self, spark: SparkSession, users: Users, path: str
    ) -> None:
        slackwater.enable(spark)
        before = objects(users, path)
        frame = spark.range(10).selectExpr("CAST(id AS INT) AS id")
        with pytest.raises(SlackwaterError, match="denied: check the credentials and their rights") as caught:
            frame.write.format("delta").mode("append").options(**users.reader).save(path)
        assert objects(users, path) == before
        assert users.reader["aws_secret_access_key"] not in shown(caught.value)

    def test_wrong_credentials_are_told_before_rows_are_written(
        self, spark: SparkSession, users: Users, path: str
    ) -> None:
        slackwater.enable(spark)
        options = {**users.owner, "aws_secret_access_key": _WRONG}
        calls: list[Callable[[], object]] = [
            lambda: spark.read.format("delta").options(**options).load(path),
            lambda: spark.range(1).write.format("delta").mode("append").options(**options).save(path),
            lambda: DeltaTable.forPath(spark, path, {"fs.s3a.access.key": "none", "fs.s3a.secret.key": _WRONG}).toDF(),
        ]
        for call in calls:
            with pytest.raises(SlackwaterError) as caught:
                call()
            assert _WRONG not in shown(caught.value)
