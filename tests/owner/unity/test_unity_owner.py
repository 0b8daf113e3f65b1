"""A Unity Catalog as commit owner: the contract of a commit to one table, at our server and at an imitation."""

from __future__ import annotations

import pickle
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow as pa
import pytest

import slackwater
from slackwater.errors import (
    CommitOwnerBusy,
    CommitOwnerRequired,
    CommitUnknown,
    InvalidArgument,
    NotAuthorized,
    OperationNotAllowed,
    StorageError,
    TableAlreadyExists,
    TableNotFound,
    UnratifiedCommit,
    UnsupportedFeature,
)
from slackwater.lake.lake import LogLake
from slackwater.owner.api.catalog import Catalog
from slackwater.owner.api.commits import CommitConflict, CommitResponse
from slackwater.owner.api.owner_registry import attach, detach
from slackwater.owner.database.database import Database
from slackwater.owner.served.access.permissions import Scope
from slackwater.owner.served.tokens import Tokens
from slackwater.owner.unity.catalog_client import CatalogClient
from slackwater.owner.unity.unity_owner import UnityCatalogOwner
from slackwater.protocol.actions.file_names import commit_path
from slackwater.protocol.features.managed_commits import CATALOG_MANAGED
from slackwater.protocol.schema.schema import LONG, STRING, ArrayType, StructField, StructType, schema_to_json
from slackwater.storage.open import open_store
from tests.contract.owners import Table, added, landed, new_lake
from tests.owner.served.serving import served
from tests.owner.unity.imitation import API, Entry, Imitation

SCHEMA = StructType((StructField("id", LONG), StructField("name", STRING)))
PATH = "/api/2.1/unity-catalog"


def new_table(owner: UnityCatalogOwner, name: str = "sales.orders") -> Table:
    """A new table of the catalog, and requests for it."""
    lake = LogLake(owner, None)
    try:
        lake._create_log(name, SCHEMA)
    finally:
        detach(owner)
    known = owner.table(name)
    return Table(owner, known.table_id, name, open_store(known.location), CATALOG_MANAGED)


@contextmanager
def our_server(root: Path) -> Iterator[UnityCatalogOwner]:
    with served(new_lake(root, "sqlite-embedded-catalogManaged").embedded()) as url:
        owner = UnityCatalogOwner(CatalogClient(url + PATH, "main", None, 20.0))
        yield owner
        owner.close()


@contextmanager
def an_imitation(root: Path) -> Iterator[UnityCatalogOwner]:
    yield imitated(Imitation(root))


def imitated(catalog: Imitation, timeout_s: float = 20.0) -> UnityCatalogOwner:
    return UnityCatalogOwner(CatalogClient(API, "main", "token", timeout_s, client=catalog.client()))


@pytest.fixture(params=[our_server, an_imitation])
def owner(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[UnityCatalogOwner]:
    with request.param(tmp_path) as found:
        yield found


@pytest.fixture
def table(owner: UnityCatalogOwner) -> Table:
    return new_table(owner)


def test_commit_gets_the_next_version_and_is_published(table: Table) -> None:
    done = [table.commit(version, added()) for version in (1, 2, 3)]
    assert [response.commit.version for response in done] == [1, 2, 3]
    stamps = [response.commit.timestamp_ms for response in done]
    assert stamps == sorted(set(stamps))
    assert all(table.backfilled(r.commit.version) == r.commit.data == table.content(r) for r in done)
    assert (table.owner.table("sales.orders").ratified_version, table.latest) == (3, 3)
    # A commit tells the catalog what was published before, and the owner tells the rest when it closes.
    assert [commit.version for commit in table.owner.get_commits(table.table_id, 0).commits] == [3]
    assert table.owner.backfill_to_version(table.table_id) == 3
    assert table.owner.get_commits(table.table_id, 0).commits == []


def test_timestamp_is_after_the_previous_one_although_the_clock_is_behind(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = table.commit(1).commit.timestamp_ms
    monkeypatch.setattr("slackwater.owner.unity.unity_owner._now_ms", lambda: first - 5_000)
    assert table.commit(2).commit.timestamp_ms == first + 1
    # Also if this process does not know the timestamp yet.
    table.owner._known.forget(table.table_id)  # type: ignore[attr-defined]
    assert table.commit(3).commit.timestamp_ms == first + 2


def test_taken_version_is_a_conflict_without_staged_files(table: Table) -> None:
    table.commits(2)
    before = table.staged()
    outcome = table.owner.commit(table.request(2, added()))
    assert outcome == CommitConflict(2)
    assert table.staged() == before


def test_version_without_predecessor_is_refused(table: Table) -> None:
    with pytest.raises(InvalidArgument, match="version 4 does not exist"):
        table.owner.commit(table.request(5))
    assert table.latest == 0


def test_one_of_many_concurrent_commits_gets_the_version(table: Table) -> None:
    before = len(table.staged())
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda _: table.owner.commit(table.request(1, added())), range(8)))
    assert sum(isinstance(outcome, CommitResponse) for outcome in outcomes) == 1
    assert len(table.staged()) == before + 1
    assert table.latest == 1


def test_commits_of_many_threads_are_all_there_once(table: Table) -> None:
    def commit(_: int) -> str:
        request = table.request(table.latest + 1, added())
        while isinstance(table.owner.commit(request), CommitConflict):
            request = table.request(table.latest + 1, added())
        return request.commit_id

    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(commit, range(12)))
    assert sorted(table.ids()[1:]) == sorted(ids)


def test_repeated_request_gets_the_first_result(table: Table) -> None:
    request = table.request(1, added())
    first = landed(table.owner.commit(request))
    table.commit(2)
    again = landed(table.owner.commit(request))
    assert (again.commit.version, again.commit.timestamp_ms) == (1, first.commit.timestamp_ms)
    assert table.latest == 2


def test_unknown_table_and_missing_name_are_not_found(owner: UnityCatalogOwner, table: Table) -> None:
    with pytest.raises(TableNotFound):
        owner.get_commits("00000000-0000-4000-8000-000000000000", 0)
    with pytest.raises(TableNotFound):
        owner.table("sales.missing")
    with pytest.raises(TableAlreadyExists):
        new_table(owner)


def test_calls_over_several_tables_are_refused_by_name(owner: UnityCatalogOwner) -> None:
    lake = LogLake(owner, None)
    try:
        with pytest.raises(OperationNotAllowed, match="no transactions over several tables"):
            lake.transaction().__enter__()
        with pytest.raises(OperationNotAllowed, match="time slices"):
            lake.as_of("2026-01-01")
        with pytest.raises(OperationNotAllowed, match="no transactions"):
            lake.history()
        with pytest.raises(InvalidArgument, match="chooses the location"):
            lake._create_log("sales.here", SCHEMA, location="here")
    finally:
        detach(owner)


def test_another_process_knows_the_tables_by_their_ids(tmp_path: Path) -> None:
    with our_server(tmp_path) as owner:
        table = new_table(owner)
        table.commit(1)
        attach(owner)
        again = pickle.loads(pickle.dumps(owner))  # noqa: S301
        assert again is owner
        detach(owner)
        other = pickle.loads(pickle.dumps(owner))  # noqa: S301
        try:
            assert other is not owner
            assert other.get_commits(table.table_id, 0).latest_version == 1
        finally:
            detach(other)
            other.close()


def test_commits_are_after_every_time_slice_of_our_server(tmp_path: Path) -> None:
    """The catalog refuses a timestamp at or before a slice that it has served; the client takes a later one."""
    embedded = new_lake(tmp_path, "sqlite-embedded-catalogManaged").embedded()
    with served(embedded) as url:
        owner = UnityCatalogOwner(CatalogClient(url + PATH, "main", None, 20.0))
        table = new_table(owner)
        now = embedded.cut().timestamp_ms
        embedded.cut(now)
        late = time.time_ns() // 1_000_000
        done = table.commit(1, added())
        assert done.commit.timestamp_ms > now
        assert done.commit.timestamp_ms >= late
        owner.close()


def test_tokens_and_their_scopes_are_checked(tmp_path: Path) -> None:
    lake = new_lake(tmp_path, "sqlite-embedded-catalogManaged")
    tokens = Tokens(Database(lake.database))
    with served(lake.embedded(), tokens) as url, ExitStack() as stack:

        def connect(token: str | None) -> UnityCatalogOwner:
            client = CatalogClient(url + PATH, "main", token, 5.0)
            stack.callback(client.close)
            return UnityCatalogOwner(client)

        with pytest.raises(NotAuthorized, match="unknown, revoked or expired"):
            connect("slw_wrong")
        table = new_table(connect(tokens.create("admin", [Scope.ADMIN])))
        reader = connect(tokens.create("reader", [Scope.READ]))
        assert reader.table("sales.orders").ratified_version == 0
        known, before = Table(reader, table.table_id, table.name, table.store, CATALOG_MANAGED), table.staged()
        with pytest.raises(NotAuthorized, match="commit"):
            known.commit(1)
        # Its file stays until a repair, because an earlier try may still arrive.
        assert len(known.staged()) == len(before) + 1
        with pytest.raises(NotAuthorized, match="admin"):
            new_table(connect(tokens.create("writer", [Scope.COMMIT])), "sales.more")
    tokens.database.close()


# What follows is about catalogs other than our server, so it runs at the imitation only.


@pytest.fixture
def catalog(tmp_path: Path) -> Imitation:
    return Imitation(tmp_path)


def commits_of(catalog: Imitation) -> list[Any]:
    """The bodies of the requests that add a commit."""
    return [
        body
        for method, _, body in catalog.requests
        if method == "POST" and any(update.get("action") == "add-commit" for update in (body or {}).get("updates", ()))
    ]


def lost_responses(
    number: int, arrives: bool
) -> Callable[[httpx.Request, Callable[[], httpx.Response]], httpx.Response]:
    """A fault: the responses to the first `number` commits are lost, after the request arrived or before."""
    left = [number]

    def handle(request: httpx.Request, answer: Callable[[], httpx.Response]) -> httpx.Response:
        if b"add-commit" in request.content and left[0] > 0:
            left[0] -= 1
            if arrives:
                answer()
            raise httpx.ReadError("the connection broke")
        return answer()

    return handle


@pytest.mark.parametrize("arrives", [True, False])
def test_commit_with_lost_responses_is_committed_once(catalog: Imitation, arrives: bool) -> None:
    owner = imitated(catalog)
    table = new_table(owner)
    catalog.fault = lost_responses(2, arrives)
    done = table.commit(1, added())
    assert (done.commit.version, table.latest, len(table.staged())) == (1, 1, 1)


@pytest.mark.parametrize("arrives", [True, False])
def test_commit_without_any_response_is_unknown_and_keeps_its_file(catalog: Imitation, arrives: bool) -> None:
    owner = imitated(catalog, timeout_s=0.5)
    table = new_table(owner)
    request = table.request(1, added())
    catalog.fault = lost_responses(1_000, arrives)
    with pytest.raises(CommitUnknown):
        owner.commit(request)
    assert len(table.staged()) == 1
    catalog.fault = None
    assert landed(owner.commit(request)).commit.version == 1
    assert table.latest == 1


def then_refused(status: int, kind: str) -> Callable[[httpx.Request, Callable[[], httpx.Response]], httpx.Response]:
    """A fault: the first commit is carried out and its response lost; each repeat is refused."""
    is_first = [True]

    def handle(request: httpx.Request, answer: Callable[[], httpx.Response]) -> httpx.Response:
        if b"add-commit" not in request.content:
            return answer()
        if is_first[0]:
            is_first[0] = False
            answer()
            raise httpx.ReadError("the connection broke")
        return httpx.Response(status, json={"error": {"message": "no", "type": kind, "code": status}})

    return handle


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (404, "NoSuchTableException"),
        (400, "InvalidParameterValueException"),
        (501, "NotImplementedException"),
        (429, "ResourceExhaustedException"),
        (503, "ServiceUnavailableException"),
        (403, "PermissionDeniedException"),
    ],
)
def test_refused_repeat_of_a_lost_commit_is_unknown(catalog: Imitation, status: int, kind: str) -> None:
    owner = imitated(catalog, timeout_s=0.5)
    table = new_table(owner)
    catalog.fault = then_refused(status, kind)
    with pytest.raises(CommitUnknown):
        table.commit(1, added())
    catalog.fault = None
    assert table.latest == 1


def test_refused_commit_has_no_effect(catalog: Imitation) -> None:
    owner = imitated(catalog, timeout_s=0.5)
    table = new_table(owner)
    answer = {"error": {"message": "no", "type": "InvalidParameterValueException", "code": 400}}
    catalog.fault = lambda request, go_on: (
        httpx.Response(400, json=answer) if b"add-commit" in request.content else go_on()
    )
    with pytest.raises(InvalidArgument):
        table.commit(1, added())


@pytest.mark.parametrize("missing", ["latest-table-version", "metadata", "commits.file-size"])
def test_malformed_response_to_a_commit_is_unknown(catalog: Imitation, missing: str) -> None:
    owner = imitated(catalog)
    table = new_table(owner)

    def handle(request: httpx.Request, answer: Callable[[], httpx.Response]) -> httpx.Response:
        found = answer()
        if b"add-commit" not in request.content:
            return found
        node = found.json()
        outer, _, inner = missing.partition(".")
        del (node[outer][0] if inner else node)[inner or outer]
        return httpx.Response(200, json=node)

    catalog.fault = handle
    with pytest.raises(CommitUnknown, match="malformed"):
        table.commit(1)


def test_creation_that_cannot_be_looked_up_is_unknown(catalog: Imitation) -> None:
    owner = imitated(catalog, timeout_s=0.5)

    def handle(request: httpx.Request, answer: Callable[[], httpx.Response]) -> httpx.Response:
        if b"last-commit-timestamp-ms" in request.content:
            answer()
            catalog.fault = down
            raise httpx.ReadError("the connection broke")
        return answer()

    def down(request: httpx.Request, answer: Callable[[], httpx.Response]) -> httpx.Response:
        raise httpx.ConnectTimeout("nobody answers")

    catalog.fault = handle
    with pytest.raises(CommitUnknown):
        new_table(owner)
    assert ("sales", "orders") in catalog.tables


def test_copy_in_an_object_store_is_not_the_catalogs(catalog: Imitation) -> None:
    owner = imitated(catalog)
    table = new_table(owner)
    entry, name = catalog.tables["sales", "orders"], uuid.uuid4().hex
    for path in (commit_path(0),):
        for place in ("original", "copy"):
            open_store(f"memory://{name}/{place}").put_if_absent(path, table.store.read(path))
    entry.location = f"memory://{name}/original"
    owner._known.forget(table.table_id)
    lake = LogLake(owner, None)
    owner.table("sales.orders")
    rows = pa.table({"id": [1], "name": ["a"]})
    with pytest.raises(CommitOwnerRequired):
        slackwater.write(f"memory://{name}/copy", rows, mode="append")
    slackwater.write(f"memory://{name}/original", rows, mode="append")
    assert slackwater.Snapshot.load(f"memory://{name}/original").to_arrow().num_rows == 1
    lake.close()


def test_table_that_cannot_be_loaded_is_left_out_of_the_list(catalog: Imitation) -> None:
    owner = imitated(catalog)
    new_table(owner)
    new_table(owner, "sales.stock")

    def handle(request: httpx.Request, answer: Callable[[], httpx.Response]) -> httpx.Response:
        if request.url.path.endswith("/tables/stock"):
            return httpx.Response(
                403, json={"error": {"message": "no", "type": "PermissionDeniedException", "code": 403}}
            )
        return answer()

    catalog.fault = handle
    assert [table.name for table in owner.tables()] == ["sales.orders"]
    assert owner.table_names() == ["sales.orders", "sales.stock"]


def test_table_stays_open_by_path_while_one_client_of_the_catalog_is(catalog: Imitation) -> None:
    first, second = LogLake(imitated(catalog), None), LogLake(imitated(catalog), None)
    second._create_log("sales.orders", SCHEMA)
    location = second.owner.table("sales.orders").location
    second.close()
    assert slackwater.Snapshot.load(location).version == 0
    first.close()
    with pytest.raises(CommitOwnerRequired):
        slackwater.Snapshot.load(location)


def test_table_of_another_form_is_not_created(catalog: Imitation) -> None:
    lake = LogLake(imitated(catalog), None)
    try:
        for more in (
            {"managed": "managedCommit"},
            {"properties": {"delta.feature.multiTableTransaction-dev": "supported"}},
        ):
            with pytest.raises(UnsupportedFeature, match="catalogManaged only"):
                lake._create_log("sales.orders", SCHEMA, **more)
        assert catalog.staged == {}
    finally:
        lake.close()


def test_unpublished_commits_are_read_and_published_by_another_client(catalog: Imitation) -> None:
    writer, reader = imitated(catalog), imitated(catalog)
    table = new_table(writer)
    writer._publish = lambda *args, **kwargs: 0  # type: ignore[method-assign]
    table.commits(2)
    assert table.backfilled(1) is None
    assert [commit.version for commit in reader.get_commits(table.table_id, 0).commits] == [1, 2]
    assert [commit.version for commit in reader.get_commits(table.table_id, 2).commits] == [2]
    assert [commit.version for commit in reader.get_commits(table.table_id, 0, 1).commits] == [1]
    # The next writer publishes what was not, in order.
    known = Table(reader, table.table_id, table.name, table.store, CATALOG_MANAGED)
    known.commit(3)
    assert [known.backfilled(version) is not None for version in range(4)] == [True] * 4
    writer.commit(table.request(4))
    assert reader.repair() == ["sales.orders: versions 1 to 4 were published"]
    assert reader.repair() == []
    assert reader.get_commits(table.table_id, 0).commits == []


def test_close_reports_what_was_published(catalog: Imitation) -> None:
    owner = imitated(catalog)
    table = new_table(owner)
    table.commits(2)
    assert [commit["version"] for commit in catalog.tables["sales", "orders"].commits] == [2]
    owner.close()
    assert catalog.tables["sales", "orders"].commits == []


def test_limit_of_unpublished_commits_is_met_by_publishing(catalog: Imitation) -> None:
    owner = imitated(catalog)
    table = new_table(owner)
    entry = catalog.tables["sales", "orders"]
    catalog.most_unpublished = 1
    silent = owner._publish
    owner._publish = lambda *args, **kwargs: 0  # type: ignore[method-assign]
    table.commit(1)
    assert len(entry.commits) == 1
    with pytest.raises(CommitOwnerBusy, match="not published"):
        table.commit(2)
    owner._publish = silent  # type: ignore[method-assign]
    assert table.commit(2).commit.version == 2


def test_log_with_another_commit_is_reported(catalog: Imitation) -> None:
    owner = imitated(catalog)
    table = new_table(owner)
    table.store.put_if_absent(commit_path(1), b'{"commitInfo":{"txnId":"foreign"}}\n')
    # The catalog ratified the commit, so it is committed. Publishing it fails until somebody looks at the log.
    assert table.commit(1).commit.version == 1
    with pytest.raises(UnratifiedCommit, match="bypassed the catalog"):
        owner.backfill_to_version(table.table_id)


def test_file_that_cannot_be_staged_is_no_commit(catalog: Imitation, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = imitated(catalog)
    table = new_table(owner)

    def stage(*_: object) -> None:
        raise StorageError("the store is full")

    monkeypatch.setattr("slackwater.owner.unity.unity_owner.stage", stage)
    with pytest.raises(StorageError):
        table.commit(1)
    assert commits_of(catalog) == []


def test_new_table_has_what_the_catalog_requires(catalog: Imitation) -> None:
    owner = imitated(catalog)
    table = new_table(owner)
    version_0 = {kind: node for line in table.backfilled(0).splitlines() for kind, node in orjson.loads(line).items()}  # type: ignore[union-attr]
    features = set(version_0["protocol"]["writerFeatures"])
    assert {"catalogManaged", "deletionVectors", "inCommitTimestamp", "v2Checkpoint", "vacuumProtocolCheck"} <= features
    properties = version_0["metaData"]["configuration"]
    assert properties["io.unitycatalog.tableId"] == table.table_id
    assert properties["delta.checkpointPolicy"] == "v2"
    assert not any("slackwater" in key for key in properties)
    told = catalog.tables["sales", "orders"].description
    assert told["last-commit-timestamp-ms"] == version_0["commitInfo"]["inCommitTimestamp"]
    assert told["properties"] == properties
    assert [column["name"] for column in told["columns"]["fields"]] == ["id", "name"]


def test_changes_of_the_table_are_told_with_the_commit(catalog: Imitation) -> None:
    owner = imitated(catalog)
    lake = LogLake(owner, None)
    try:
        lake._create_log("sales.orders", SCHEMA, description="all orders", properties={"a.b": "1", "c.d": "2"})
        assert catalog.tables["sales", "orders"].description["comment"] == "all orders"
        metadata = lake.snapshot("sales.orders").metadata
    finally:
        detach(owner)
    schema = StructType((*SCHEMA, StructField("tags", ArrayType(STRING))))
    properties = {key: value for key, value in metadata.configuration.items() if key != "c.d"} | {"a.b": "3"}
    changed = replace(metadata, schema_string=schema_to_json(schema), configuration=properties)
    known = owner.table("sales.orders")
    table = Table(owner, known.table_id, known.name, open_store(known.location), CATALOG_MANAGED)
    table.commit(1, changed.to_json())
    updates = {update["action"]: update for update in commits_of(catalog)[-1]["updates"]}
    assert updates["set-properties"]["updates"] == {"a.b": "3"}
    assert updates["remove-properties"]["removals"] == ["c.d"]
    tags = updates["set-columns"]["columns"]["fields"][-1]
    assert tags["type"] == {"type": "array", "element-type": "string", "contains-null": True}


def test_table_is_read_and_written_by_path_once_it_was_looked_up(catalog: Imitation) -> None:
    owner = imitated(catalog)
    table = new_table(owner)
    location = owner.table("sales.orders").location
    with pytest.raises(CommitOwnerRequired, match="Connect to its catalog first"):
        slackwater.Snapshot.load(location)
    lake = LogLake(owner, None)
    slackwater.write(location, pa.table({"id": [1], "name": ["a"]}), mode="append")
    assert lake.snapshot("sales.orders").to_arrow().to_pylist() == [{"id": 1, "name": "a"}]
    assert slackwater.Snapshot.load(location).version == 1
    assert catalog.tables["sales", "orders"].latest == 1
    lake.close()
    with pytest.raises(CommitOwnerRequired):
        slackwater.Snapshot.load(location)
    assert slackwater.Snapshot.load(location, published_only=True).version == 1
    assert table.table_id


def test_copy_of_a_table_is_not_the_catalogs(catalog: Imitation, tmp_path: Path) -> None:
    owner = imitated(catalog)
    new_table(owner)
    lake = LogLake(owner, None)
    location = owner.table("sales.orders").location.removeprefix("file://")
    shutil.copytree(location, tmp_path / "copy")
    with pytest.raises(CommitOwnerRequired):
        slackwater.Snapshot.load(tmp_path / "copy")
    lake.close()


def test_drop_and_rename_are_the_catalogs(catalog: Imitation) -> None:
    owner = imitated(catalog)
    table = new_table(owner)
    lake = LogLake(owner, None)
    try:
        lake.rename_table("sales.orders", "sales.older")
        assert [each.name for each in lake.tables()] == ["sales.older"]
        assert owner.get_commits(table.table_id, 0).latest_version == 0
        # Another client renames it again: the id still finds it.
        imitated(catalog).rename("sales.older", "sales.oldest")
        assert table.commit(1).commit.version == 1
        imitated(catalog).rename("sales.oldest", "sales.older")
        assert table.commit(2).commit.version == 2
        with pytest.raises(InvalidArgument, match="within a schema"):
            lake.rename_table("sales.older", "other.older")
        with pytest.raises(OperationNotAllowed, match="release"):
            lake.release("sales.older")
        assert not lake.drop_table("sales.older")
        assert lake.tables() == []
        with pytest.raises(TableNotFound):
            owner.get_commits(table.table_id, 0)
    finally:
        lake.close()


def test_credentials_of_the_catalog_are_renewed_before_they_expire(catalog: Imitation) -> None:
    catalog.config = {"s3.access-key-id": "AK", "s3.secret-access-key": "SK", "s3.session-token": "ST"}
    entry = Entry(
        str(uuid.uuid4()), "s3://bucket/orders", {"columns": {}, "properties": {}, "last-commit-timestamp-ms": 1}
    )
    catalog.tables["sales", "orders"] = entry
    owner = UnityCatalogOwner(CatalogClient(API, "main", None, 5.0, client=catalog.client()), {"aws_region": "r"})
    assert isinstance(owner, Catalog)
    location = owner.table("sales.orders").location

    def asked() -> int:
        return sum(path.endswith("/credentials") for _, path, _ in catalog.requests)

    options = {"aws_access_key_id": "AK", "aws_secret_access_key": "SK", "aws_session_token": "ST", "aws_region": "r"}
    assert [owner.storage_options(location) for _ in range(3)] == [options] * 3
    assert asked() == 1
    catalog.expires_ms = time.time_ns() // 1_000_000 + 60_000
    owner._known.forget(entry.table_id)
    owner.table("sales.orders")
    assert [owner.storage_options(location) for _ in range(3)] == [options] * 3
    assert asked() == 4
    catalog.config = {"gcs.oauth-token": "x"}
    with pytest.raises(UnsupportedFeature, match=r"gcs\.oauth-token"):
        owner.storage_options(location)
    own = {"AWS_ACCESS_KEY_ID": "mine"}
    keyed = UnityCatalogOwner(CatalogClient(API, "main", None, 5.0, client=catalog.client()), own)
    assert keyed.storage_options(keyed.table("sales.orders").location) == own


def test_unknown_catalog_and_old_servers_are_named(catalog: Imitation) -> None:
    with pytest.raises(TableNotFound, match="no catalog named 'other'"):
        UnityCatalogOwner(CatalogClient(API, "other", None, 5.0, client=catalog.client()))
    with pytest.raises(InvalidArgument, match="catalog='main'"):
        LogLake.connect("uc:https://host/api/2.1/unity-catalog")
    with pytest.raises(InvalidArgument, match="catalog='main'"):
        LogLake.connect("https://host", catalog="main")
    catalog.fault = lambda request, answer: httpx.Response(404, text="nothing here")
    with pytest.raises(TableNotFound, match="no Delta API"):
        imitated(catalog)


def test_readers_wait_for_no_writer(catalog: Imitation) -> None:
    """A commit that hangs at the catalog blocks neither readers nor writers of other tables."""
    owner = imitated(catalog)
    table, other = new_table(owner), new_table(owner, "sales.stock")
    goes_on = threading.Event()

    def handle(request: httpx.Request, answer: Callable[[], httpx.Response]) -> httpx.Response:
        if b"add-commit" in request.content and "/orders" in request.url.path:
            assert goes_on.wait(20)
        return answer()

    catalog.fault = handle
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(table.commit, 1)
        assert table.latest == 0
        assert other.commit(1).commit.version == 1
        goes_on.set()
        assert running.result(20).commit.version == 1
