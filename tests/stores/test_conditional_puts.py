"""Look-alikes of S3 that do not know the condition of a put: no commit is lost, and a lake does without it."""

from __future__ import annotations

import itertools
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slackwater import AddFile, Snapshot, Transaction
from slackwater.errors import CommitFailed, StorageRefused
from slackwater.lake.lake import LogLake
from slackwater.protocol.schema.schema import LONG, StructField, StructType
from slackwater.storage.open import open_store
from slackwater.streams.schema_log import SchemaLog
from tests.contract.s3_server import BUCKET, s3_server
from tests.stores.proxy import Fault, FaultProxy, Request, fault_proxy

SCHEMA = StructType((StructField("id", LONG),))
_NOT_IMPLEMENTED = b"<Error><Code>NotImplemented</Code><Message>A header is not implemented</Message></Error>"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, str]]:
    with s3_server() as found:
        yield found


@pytest.fixture
def proxy(options: dict[str, str]) -> Iterator[FaultProxy]:
    """A store that nobody in this process has asked yet: a bucket of its own at an endpoint of its own."""
    with fault_proxy(options) as found:
        yield found


@pytest.fixture
def bucket(options: dict[str, str]) -> str:
    name = f"bucket{next(_numbers)}"
    request = urllib.request.Request(f"{options['AWS_ENDPOINT_URL']}/{name}", method="PUT")  # noqa: S310  (our own)
    urllib.request.urlopen(request).close()  # noqa: S310
    return f"s3://{name}"


def ignores(request: Request) -> Fault | None:
    return Fault(unconditional=True) if request.is_conditional else None


def refuses(request: Request) -> Fault | None:
    return Fault(status=501, body=_NOT_IMPLEMENTED) if request.is_conditional else None


def create(path: str, options: dict[str, str]) -> None:
    Transaction.create(path, SCHEMA, storage_options=options).commit("CREATE TABLE")


def adding(path: str, options: dict[str, str], name: str) -> Transaction:
    transaction = Transaction(path, storage_options=options)
    transaction.add(AddFile(name, {}, 10, 0, stats='{"numRecords":1}'))
    return transaction


def files(path: str, options: dict[str, str]) -> list[str]:
    return sorted(Snapshot.load(path, storage_options=options).files()["path"].to_pylist())


def test_a_store_that_ignores_the_condition_gets_no_commit(
    options: dict[str, str], proxy: FaultProxy, bucket: str
) -> None:
    path = f"{bucket}/t"
    create(path, options)
    before = open_store(path, options).list_from("", recursive=True)
    refusal = rf"the table is unchanged: the store at {proxy.options['AWS_ENDPOINT_URL']}, bucket .* ignores .*a lake"
    with proxy.faults(ignores):
        writers = [adding(path, proxy.options, name) for name in ("one", "two")]
        for writer in writers:
            with pytest.raises(CommitFailed, match=refusal):
                writer.commit("WRITE")
        with pytest.raises(CommitFailed, match=refusal):
            create(f"{bucket}/new", proxy.options)
    assert open_store(path, options).list_from("", recursive=True) == before
    assert open_store(f"{bucket}/new", options).list_from("", recursive=True) == []


def test_a_store_that_ignores_the_condition_tracks_no_schemas_of_streams(
    options: dict[str, str], proxy: FaultProxy, bucket: str
) -> None:
    configuration = Snapshot.load(_created(f"{bucket}/t", options), storage_options=options).configuration
    place = open_store(f"{bucket}/checkpoint", proxy.options)
    refusal = r"s3a://mine: schemas of a stream cannot be tracked there\. Choose .* in another store: .* ignores"
    with proxy.faults(ignores), pytest.raises(StorageRefused, match=refusal):
        SchemaLog.of(place, "id", location="s3a://mine").append(0, configuration)
    assert place.list_from("", recursive=True) == []
    assert SchemaLog.of(place, "id", location="s3a://mine").append(0, configuration).number == 0


def _created(path: str, options: dict[str, str]) -> str:
    create(path, options)
    return path


def test_a_store_that_refuses_the_condition_gets_no_commit_and_nobody_is_in_doubt(
    options: dict[str, str], proxy: FaultProxy, bucket: str
) -> None:
    path = f"{bucket}/t"
    create(path, options)
    before = open_store(path, options).list_from("", recursive=True)
    refusal = r"the table is unchanged: create .* is not supported by this store.*. Remedy: put the table into a lake"
    with proxy.faults(refuses):
        with pytest.raises(CommitFailed, match=refusal):
            adding(path, proxy.options, "one").commit("WRITE")
        with pytest.raises(CommitFailed, match=refusal):
            create(f"{bucket}/new", proxy.options)
    assert open_store(path, options).list_from("", recursive=True) == before
    assert open_store(f"{bucket}/new", options).list_from("", recursive=True) == []


def test_a_store_that_keeps_the_condition_is_asked_once(proxy: FaultProxy, bucket: str) -> None:
    create(f"{bucket}/first", proxy.options)
    asked = [request for request in proxy.seen if request.key.endswith(".probe")]
    assert [request.kind for request in asked[:2]] == ["put", "put"]
    assert all(request.is_conditional for request in asked[:2])
    create(f"{bucket}/second", proxy.options)
    adding(f"{bucket}/first".replace("s3:", "s3a:"), proxy.options, "one").commit("WRITE")
    assert len({request.key for request in proxy.seen if request.key.endswith(".probe")}) == 1
    left = open_store(bucket, proxy.options).list_from("", recursive=True)
    assert [meta.path for meta in left if meta.path.endswith(".probe")] == []


def test_an_answer_that_is_lost_is_no_reason_to_refuse(proxy: FaultProxy, bucket: str) -> None:
    with proxy.times("put", Fault(loses_answer=True)):
        create(f"{bucket}/t", proxy.options)
    assert files(f"{bucket}/t", proxy.options) == []


def test_where_the_store_does_not_tell_the_commit_has_certainly_not_landed(proxy: FaultProxy, bucket: str) -> None:
    def fails(request: Request) -> Fault | None:
        return Fault(status=400) if request.kind == "put" and request.key.endswith(".probe") else None

    with proxy.faults(fails), pytest.raises(CommitFailed, match="the table is unchanged"):
        create(f"{bucket}/t", proxy.options)
    assert not [request for request in proxy.seen if request.key.endswith(".json") and request.kind == "put"]
    create(f"{bucket}/t", proxy.options)


@pytest.mark.parametrize(
    ("fault", "more"),
    [
        (ignores, {}),
        # Each put is repeated ten times.
        pytest.param(refuses, {}, marks=pytest.mark.long),
        (refuses, {"aws_conditional_put": "disabled"}),
    ],
    ids=["ignores", "refuses", "is known to refuse"],
)
def test_a_lake_commits_to_a_store_that_does_not_know_the_condition(
    options: dict[str, str],
    proxy: FaultProxy,
    bucket: str,
    tmp_path: Path,
    fault: Callable[[Request], Fault | None],
    more: dict[str, str],
) -> None:
    given = {**proxy.options, **more}
    root, database = f"{bucket}/lake", f"sqlite:///{tmp_path}/owner.db"
    create(f"{root}/old", options)
    with proxy.faults(fault), LogLake.open(root, database=database, storage_options=given) as lake:
        lake._create_log("t", SCHEMA)
        writers = [Transaction(lake.snapshot("t")) for _ in range(2)]
        for number, writer in enumerate(writers):
            writer.add(AddFile(str(number), {}, 10, 0, stats='{"numRecords":1}'))
        assert [writer.commit("WRITE").version for writer in writers] == [1, 2]
        assert lake.backfill("t") == 2
        lake.adopt("old", f"{root}/old")
        assert adding(f"{root}/old", given, "one").commit("WRITE").version == 2
        assert lake.backfill("old") == 2
        lake.release("old")
        assert not [request for request in proxy.seen if request.key.endswith(".probe")]
        with pytest.raises(CommitFailed, match="a lake"):
            adding(f"{root}/old", given, "two").commit("WRITE")
    assert files(f"{root}/t", options) == ["0", "1"]
    assert files(f"{root}/old", options) == ["one"]


def test_the_bucket_of_the_suite_is_one_that_keeps_the_condition(options: dict[str, str]) -> None:
    store = open_store(f"s3://{BUCKET}/t", options)
    store.require_conditional_puts("_delta_log")
    assert store.list_from("", recursive=True) == []
