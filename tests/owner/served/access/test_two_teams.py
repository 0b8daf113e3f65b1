"""Two teams with tables on one server: neither sees the other's tables, and an operator sees all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from slackwater.errors import CommitUnknown, InvalidArgument, NotAuthorized, TableNotFound
from slackwater.lake.lake import LogLake
from slackwater.owner.api.commits import CommitResponse
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import Item, LockRequest, TimeRequest, TransactionResponse
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.served.access.permissions import Scope
from slackwater.owner.served.tokens import Tokens
from slackwater.protocol.features.managed_commits import CATALOG_MANAGED
from slackwater.protocol.schema.schema import LONG, StructField, StructType
from slackwater.storage.open import open_store
from tests.contract.owners import Table
from tests.contract.transactions import Txn
from tests.owner.served.serving import new_id, served

ROWS = pa.table({"id": [1, 2]})
SCHEMA = StructType((StructField("id", LONG),))
UNITY = "/api/2.1/unity-catalog"


@dataclass
class Server:
    url: str
    tokens: Tokens

    def lake(self, name: str, scope: Scope, *grants: str) -> LogLake:
        return LogLake.connect(self.url, self.tokens.create(name, [scope], grants=grants or None))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    owner = EmbeddedOwner.open(tmp_path / "lake")
    tokens = Tokens(owner.database)
    with served(owner, tokens) as url:
        found = Server(url, tokens)
        with found.lake("operator", Scope.ADMIN) as operator:
            for name in ("sales.orders", "sales.stock", "hr.people", "hr.pay", "plain"):
                operator._create_log(name, SCHEMA, location=tmp_path / "lake" / name, managed="catalogManaged")
        yield found


@pytest.fixture
def sales(server: Server) -> Iterator[LogLake]:
    with server.lake("sales", Scope.ADMIN, "sales.*:admin") as lake:
        yield lake


@pytest.fixture
def hr(server: Server) -> Iterator[LogLake]:
    with server.lake("hr", Scope.ADMIN, "hr.*:admin", "plain:read") as lake:
        yield lake


def _names(lake: LogLake) -> list[str]:
    return [table.name for table in lake.tables()]


def test_each_team_has_a_transaction_over_its_two_tables_and_sees_no_others(sales: LogLake, hr: LogLake) -> None:
    for lake, first, second in ((sales, "sales.orders", "sales.stock"), (hr, "hr.people", "hr.pay")):
        with lake.transaction() as tx:
            tx.table(first).append(ROWS)
            tx.table(second).append(ROWS)
        assert [lake.snapshot(name).to_arrow().num_rows for name in (first, second)] == [2, 2]
        assert {(commit.table, commit.version) for commit in lake.owner.recent_commits()} >= {(first, 1), (second, 1)}
    assert _names(sales) == ["sales.orders", "sales.stock"]
    assert _names(hr) == ["hr.pay", "hr.people", "plain"]
    assert {commit.table for commit in sales.owner.recent_commits()} == {"sales.orders", "sales.stock"}
    assert "hr" not in str(sales.history())


def _in_transaction(lake: LogLake, name: str, **options: Any) -> None:
    with lake.transaction(**options) as tx:
        tx.table(name).append(ROWS)


@pytest.mark.parametrize(
    "use",
    [
        lambda lake, name: lake.snapshot(name),
        _in_transaction,
        lambda lake, name: _in_transaction(lake, name, writes=[name]),
        lambda lake, name: lake.owner.table(name),
        lambda lake, name: lake.backfill(name),
        lambda lake, name: lake.repair(name),
        lambda lake, name: lake.drop_table(name),
        lambda lake, name: lake.as_of(lake.owner.cut().timestamp_ms).version(name),
    ],
)
def test_a_table_of_another_team_is_one_that_does_not_exist(
    sales: LogLake, hr: LogLake, use: Callable[[LogLake, str], object]
) -> None:
    del hr
    messages = []
    for name in ("hr.people", "hr.nobody", "sales.nothing"):
        with pytest.raises(TableNotFound) as caught:
            use(sales, name)
        messages.append(str(caught.value).replace(name, "NAME"))
    assert len(set(messages)) == 1
    assert "hr." not in messages[0]
    assert "plain" not in messages[0]


def test_a_readable_table_is_read_at_each_time_and_not_written(server: Server, hr: LogLake) -> None:
    with server.lake("loader", Scope.COMMIT) as loader:
        _in_transaction(loader, "plain")
        now = loader.run(lambda tx: tx.current_timestamp())
    assert hr.snapshot("plain").to_arrow().num_rows == 2
    past = hr.as_of(now)
    assert past.tables() == ["hr.pay", "hr.people", "plain"]
    assert past.snapshot("plain").to_arrow().num_rows == 2
    with pytest.raises(NotAuthorized, match="table 'plain': the token 'hr' has no grant with 'commit' for it"):
        _in_transaction(hr, "plain")
    with pytest.raises(NotAuthorized, match="Request the grant 'plain:commit'"):
        hr.drop_table("plain")
    assert hr.snapshot("plain").version == 1


def test_a_team_creates_adopts_and_drops_tables_in_its_namespace_only(
    server: Server, sales: LogLake, tmp_path: Path
) -> None:
    sales._create_log("sales.new", SCHEMA, location=tmp_path / "lake" / "new")
    assert "sales.new" in _names(sales)
    sales.drop_table("sales.new")
    for name in ("hr.new", "hr.people", "new"):
        with pytest.raises(NotAuthorized, match=f"Request the grant '{name}:admin'"):
            sales._create_log(name, SCHEMA, location=tmp_path / "lake" / "other")
    with server.lake("operator2", Scope.ADMIN) as operator:
        assert _names(operator) == ["hr.pay", "hr.people", "plain", "sales.orders", "sales.stock"]


def test_locks_and_transactions_of_another_team_are_not_shown(server: Server, sales: LogLake, hr: LogLake) -> None:
    with server.lake("operator2", Scope.ADMIN) as operator:
        ids = {table.name: table.table_id for table in operator.tables()}
        items = [Item(ids["sales.orders"]), Item(ids["plain"])]
        hr.owner.lock(LockRequest(new_id(), 1, [Item(ids["hr.people"])], True, 0))
        assert sales.activity().transactions == []
        operator.owner.lock(LockRequest(new_id(), 2, items, False, 0))
        assert [lock.table for lock in sales.activity().locks] == ["sales.orders"]
        assert [each.tables for each in sales.activity().transactions] == [["sales.orders"]]
        assert {lock.table for lock in hr.activity().locks} == {"hr.people", "plain"}
        assert {each.opened_by for each in hr.activity().transactions} == {"hr", "operator2"}
        hr.owner.narrow(TimeRequest(new_id(), TimestampRange(0), holds=[ids["hr.pay"]]))
        assert [each.table for each in hr.activity().promises] == ["hr.pay"]
        assert sales.activity().promises == []


def test_clients_of_unity_catalog_see_the_tables_of_their_team(server: Server) -> None:
    secret = server.tokens.create("duckdb", [Scope.COMMIT], grants=["sales.orders:commit", "sales.stock:read"])
    with httpx.Client(base_url=f"{server.url}{UNITY}", headers={"Authorization": f"Bearer {secret}"}) as client:
        schemas = client.get("/schemas", params={"catalog_name": "c"}).json()["schemas"]
        assert [schema["name"] for schema in schemas] == ["default", "sales"]
        listed = {
            schema: [
                table["name"]
                for table in client.get("/tables", params={"catalog_name": "c", "schema_name": schema}).json()["tables"]
            ]
            for schema in ("sales", "hr", "default")
        }
        assert listed == {"sales": ["orders", "stock"], "hr": [], "default": []}
        path = "/delta/v1/catalogs/c/schemas/{}/tables/{}"
        assert client.get(path.format("sales", "orders")).status_code == 200
        body = {"requirements": [], "updates": [{"action": "add-commit", "commit": {
            "version": 1, "timestamp": 1, "file-name": "x", "file-size": 1}}]}  # fmt: skip
        refused = client.post(path.format("sales", "stock"), json=body)
        assert (refused.status_code, "'sales.stock:commit'" in refused.text) == (403, True)
        hidden, unknown = (client.get(path.format("hr", name)) for name in ("people", "nobody"))
        assert (hidden.status_code, hidden.text) == (404, unknown.text.replace("nobody", "people"))


def test_grants_that_change_apply_to_running_servers_within_seconds(server: Server, hr: LogLake) -> None:
    assert _names(hr) == ["hr.pay", "hr.people", "plain"]
    server.tokens.grant("hr", ["hr.pay:read"])
    assert _names(hr) == ["hr.pay"]
    with pytest.raises(InvalidArgument, match="none was found"):
        server.tokens.grant("hr", [])


def test_a_replay_after_a_lost_grant_is_unknown_because_the_first_attempt_may_be_committed(
    server: Server, sales: LogLake
) -> None:
    request = Txn(sales.owner).write(_table(sales, "sales.orders")).request()
    assert isinstance(sales.owner.commit_transaction(request), TransactionResponse)
    single = _table(sales, "sales.stock").request(1)
    assert isinstance(sales.owner.commit(single), CommitResponse)
    server.tokens.grant("sales", ["hr.*:admin"])
    messages = []
    for replay in (
        lambda: sales.owner.commit_transaction(replace(request, is_replay=True)),
        lambda: sales.owner.commit(replace(single, is_replay=True)),
        lambda: sales.owner.commit(replace(single, is_replay=True, table_id=new_id())),
        lambda: sales.owner.release(replace(single, is_replay=True)),
    ):
        with pytest.raises(CommitUnknown, match="an earlier attempt may be committed") as caught:
            replay()
        messages.append(re.sub(r"[0-9a-f-]{36}", "ID", str(caught.value)))
    assert len(set(messages)) == 1
    server.tokens.grant("sales", ["sales.*:read"])
    with pytest.raises(CommitUnknown):
        sales.owner.commit(replace(single, is_replay=True))
    with pytest.raises(NotAuthorized):
        sales.owner.commit(single)


def _table(lake: LogLake, name: str) -> Table:
    found = lake.owner.table(name)
    return Table(lake.owner, found.table_id, name, open_store(found.location), CATALOG_MANAGED)
