"""The routes of Unity Catalog that find, load and update tables by name, as DuckDB asks them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from slackwater.lake.lake import LogLake
from slackwater.owner.database.database import Database
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.served.access.permissions import Scope
from slackwater.owner.served.tokens import Tokens
from slackwater.owner.served.unity.tables import type_text
from slackwater.owner.state.clock import OwnerClock
from slackwater.protocol.schema.schema import (
    LONG,
    STRING,
    ArrayType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)
from tests.contract.owners import OwnedLake, Table, added, created, new_id, new_lake
from tests.contract.test_staged_by_client import staged
from tests.owner.served.serving import served

API = "/api/2.1/unity-catalog"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[OwnedLake]:
    found = new_lake(tmp_path, "sqlite-embedded-catalogManaged")
    yield found
    found.close()


@pytest.fixture
def table(lake: OwnedLake) -> Table:
    return created(lake, lake.embedded(), "sales.orders")


@pytest.fixture
def url(lake: OwnedLake, table: Table) -> Iterator[str]:
    with served(lake.embedded()) as found:
        yield found + API


def update(table: Table, etag: str | None, *updates: Any, uuid: str | None = None) -> dict[str, Any]:
    requirements = [{"type": "assert-table-uuid", "uuid": uuid or table.table_id}]
    if etag is not None:
        requirements.append({"type": "assert-etag", "etag": etag})
    return {"requirements": requirements, "updates": list(updates)}


def add_commit(table: Table, version: int) -> dict[str, Any]:
    commit = staged(table, version, OwnerClock().now_ms(), added())
    told = {"version": version, "timestamp": commit.timestamp_ms, "file-name": commit.file_name}
    sizes = {"file-size": commit.size_bytes, "file-modification-timestamp": 1}
    return {"action": "add-commit", "commit": told | sizes}


def test_schemas_and_tables_are_those_of_the_lake(lake: OwnedLake, table: Table, url: str) -> None:
    created(lake, table.owner, "plain")
    assert httpx.get(f"{url}/schemas", params={"catalog_name": "main"}).json() == {
        "schemas": [
            {"name": name, "catalog_name": "main", "full_name": f"main.{name}"} for name in ("default", "sales")
        ]
    }
    names = {"catalog_name": "main", "schema_name": "sales"}
    (found,) = httpx.get(f"{url}/tables", params=names).json()["tables"]
    assert (found["full_name"], found["storage_location"]) == ("main.sales.orders", table.store.root_url)
    assert found["table_id"] == found["properties"]["io.unitycatalog.tableId"] == table.table_id
    assert [(c["name"], c["type_text"], c["type_name"], c["position"]) for c in found["columns"]] == [
        ("id", "bigint", "LONG", 0)
    ]
    plain = httpx.get(f"{url}/tables", params=names | {"schema_name": "default"}).json()["tables"]
    assert [each["name"] for each in plain] == ["plain"]
    assert httpx.get(f"{url}/tables", params=names | {"schema_name": "none"}).json() == {"tables": []}
    assert httpx.get(f"{url}/tables", params={"catalog_name": "main"}).status_code == 422


def test_a_table_is_loaded_with_its_unpublished_commits_newest_first(table: Table, url: str) -> None:
    table.commits(3)
    table.owner.backfill_to_version(table.table_id, 1)
    found = httpx.get(f"{url}/delta/v1/catalogs/any/schemas/sales/tables/orders").json()
    assert [commit["version"] for commit in found["commits"]] == [3, 2]
    assert all(len(commit["file-name"]) == 62 for commit in found["commits"])
    assert found["latest-table-version"] == 3
    metadata = found["metadata"]
    assert (metadata["table-uuid"], metadata["location"]) == (table.table_id, table.store.root_url)
    assert [field["name"] for field in metadata["columns"]["fields"]] == ["id"]
    assert metadata["properties"]["delta.feature.catalogManaged"] == "supported"
    for path in ("default/tables/orders", "sales/tables/none"):
        assert httpx.get(f"{url}/delta/v1/catalogs/any/schemas/{path}").status_code == 404


def test_a_commit_of_a_client_is_ratified_if_what_it_requires_holds(table: Table, url: str) -> None:
    place = f"{url}/delta/v1/catalogs/any/schemas/sales/tables/orders"

    def etag() -> str:
        return str(httpx.get(place).json()["metadata"]["etag"])

    before = etag()
    answer = httpx.post(place, json=update(table, before, add_commit(table, 1)))
    assert (answer.status_code, answer.json()["latest-table-version"], table.latest) == (200, 1, 1)
    assert answer.json()["metadata"]["etag"] == etag() != before
    for body, status in (
        (update(table, before, add_commit(table, 2)), 409),
        (update(table, None, add_commit(table, 1)), 409),
        (update(table, None, add_commit(table, 2), uuid=new_id()), 409),
        (update(table, None, {"action": "set-properties", "updates": {}}), 400),
        (update(table, None, {"action": "add-commit"}), 400),
        (update(table, None, add_commit(table, 2), add_commit(table, 2)), 400),
        ({"requirements": [{"type": "assert-moon"}], "updates": [add_commit(table, 2)]}, 400),
        ({"updates": []}, 422),
    ):
        answer = httpx.post(place, json=body)
        assert (answer.status_code, table.latest) == (status, 1), answer.text
    both = update(table, etag(), add_commit(table, 2), {"action": "set-properties", "updates": {}})
    assert httpx.post(place, json=both).status_code == 200
    told = {"action": "set-latest-backfilled-version", "latest-published-version": 2}
    assert httpx.post(place, json=update(table, None, told)).json()["commits"] == []
    assert table.backfilled(2)


def test_the_scopes_of_tokens_hold(lake: OwnedLake, table: Table, tmp_path: Path) -> None:
    tokens = Tokens(Database(f"sqlite:///{tmp_path}/tokens.db"))
    secrets = {scope: tokens.create(scope.value, [scope]) for scope in (Scope.READ, Scope.COMMIT)}
    with served(lake.embedded(), tokens) as url:
        place = f"{url}{API}/delta/v1/catalogs/any/schemas/sales/tables/orders"
        assert httpx.get(place).status_code == httpx.post(place, json={}).status_code == 401
        reader, writer = ({"Authorization": f"Bearer {secrets[scope]}"} for scope in secrets)
        assert httpx.get(place, headers=reader).status_code == 200
        body = update(table, None, add_commit(table, 1))
        assert httpx.post(place, json=body, headers=reader).status_code == 403
        assert httpx.post(place, json=body, headers=writer).status_code == 200


def test_a_table_of_the_older_form_is_not_shown(tmp_path: Path) -> None:
    lake = new_lake(tmp_path, "sqlite-embedded-managedCommit")
    owner = lake.embedded()
    created(lake, owner, "old")
    with served(owner) as url:
        names = {"catalog_name": "main", "schema_name": "default"}
        assert httpx.get(f"{url}{API}/tables", params=names).json() == {"tables": []}
        answer = httpx.get(f"{url}{API}/delta/v1/catalogs/c/schemas/default/tables/old")
    assert (answer.status_code, "slackwater lake migrate" in answer.text) == (404, True)
    lake.close()


def test_types_are_named_as_in_spark() -> None:
    nested = StructType(
        (StructField("a", ArrayType(LONG, True)), StructField("m", MapType(STRING, DecimalType(9, 2), True)))
    )
    assert type_text(nested) == "struct<a:array<bigint>,m:map<string,decimal(9,2)>>"


def test_tables_have_their_comments_and_owners(tmp_path: Path) -> None:
    columns = (StructField("id", LONG, True, {"comment": "number of the order"}), StructField("day", STRING))
    owner = EmbeddedOwner.open(tmp_path / "lake")
    with served(owner) as url, LogLake.connect(url) as lake:
        for name, more in (("sales.orders", {"description": "all orders"}), ("sales.plain", {})):
            properties = {"slackwater.owner": "team-sales"} if more else {}
            lake._create_log(
                name, StructType(columns), location=tmp_path / "lake" / name, managed="catalogManaged",
                properties=properties, **more,
            )  # fmt: skip
        asked = {"catalog_name": "main", "schema_name": "sales"}
        orders, plain = httpx.get(f"{url}{API}/tables", params=asked).json()["tables"]
    assert (orders["comment"], orders["owner"]) == ("all orders", "team-sales")
    assert [column.get("comment") for column in orders["columns"]] == ["number of the order", None]
    assert {"comment", "owner"} & plain.keys() == set()
