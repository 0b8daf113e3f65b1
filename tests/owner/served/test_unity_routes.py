"""Unity Catalog's commit API of a served owner, as its clients ask it: GET requests with a body in snake_case."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from slackwater.owner.api.staged_files import staged_files
from slackwater.owner.database.database import Database
from slackwater.owner.served.access.permissions import Scope
from slackwater.owner.served.tokens import Tokens
from slackwater.owner.state.clock import OwnerClock
from slackwater.protocol.actions.transaction_groups import GROUP_TAG, TransactionGroup
from tests.contract.owners import OwnedLake, Table, added, created, new_id, new_lake
from tests.contract.test_staged_by_client import staged
from tests.owner.served.serving import served

COMMITS = "/api/2.1/unity-catalog/delta/preview/commits"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[OwnedLake]:
    found = new_lake(tmp_path, "sqlite-embedded-catalogManaged")
    yield found
    found.close()


def asked(table: Table, **changed: Any) -> dict[str, Any]:
    return {"table_id": table.table_id, "table_uri": table.store.root_url, "start_version": 0, **changed}


def got(url: str, body: Any, **headers: str) -> httpx.Response:
    return httpx.request("GET", f"{url}{COMMITS}", json=body, headers=headers)


def test_the_commits_not_published_yet_are_returned_with_the_latest_version(lake: OwnedLake) -> None:
    owner = lake.embedded()
    table = created(lake, owner)
    responses = table.commits(3)
    owner.backfill_to_version(table.table_id, 1)
    with served(owner) as url:
        found = got(url, asked(table)).json()
        assert found == {
            "commits": [
                {
                    "version": response.commit.version,
                    "timestamp": response.commit.timestamp_ms,
                    "file_name": response.commit.file_name.removeprefix("_staged_commits/"),
                    "file_size": response.commit.size_bytes,
                    "file_modification_timestamp": response.commit.timestamp_ms,
                }
                for response in responses[1:]
            ],
            "latest_table_version": 3,
        }
        names = {staged.meta.path.rpartition("/")[2] for staged in staged_files(table.store)}
        assert {commit["file_name"] for commit in found["commits"]} <= names
        # Clients of other versions send more.
        part = got(url, asked(table, start_version=3, end_version=3, of_the_future=1)).json()
        assert ([commit["version"] for commit in part["commits"]], part["latest_table_version"]) == ([3], 3)
        owner.backfill_to_version(table.table_id)
        assert got(url, asked(table)).json() == {"commits": [], "latest_table_version": 3}


@pytest.mark.parametrize("spelled", ["file:{path}", "file://{path}", "file://{path}/", "{path}"])
def test_the_location_is_taken_in_each_spelling(lake: OwnedLake, spelled: str) -> None:
    owner = lake.embedded()
    table = created(lake, owner)
    uri = spelled.format(path=table.store.local_root)
    with served(owner) as url:
        assert got(url, asked(table, table_uri=uri)).json()["latest_table_version"] == 0


def test_what_makes_no_sense_is_refused_by_a_sentence(lake: OwnedLake, tmp_path: Path) -> None:
    owner = lake.embedded()
    table = created(lake, owner)
    with served(owner) as url:
        for body, status, told in (
            (asked(table, table_id=new_id()), 404, "has no table"),
            (asked(table, table_id="t"), 422, "table_id"),
            (asked(table, table_uri="file:///elsewhere"), 400, "found file:///elsewhere"),
            (asked(table, start_version=-1), 422, "start_version"),
            ({"table_id": table.table_id}, 422, "table_uri"),
            ([], 422, ""),
        ):
            answer = got(url, body)
            assert (answer.status_code, told in answer.text) == (status, True), answer.text


def test_a_commit_staged_by_the_client_is_ratified_once(lake: OwnedLake) -> None:
    owner = lake.embedded()
    table = created(lake, owner)

    def sent(version: int, **changed: Any) -> httpx.Response:
        commit = staged(table, version, OwnerClock().now_ms(), added())
        info = {
            "version": version, "timestamp": commit.timestamp_ms, "file_name": commit.file_name,
            "file_size": commit.size_bytes, "file_modification_timestamp": 1,
        }  # fmt: skip
        body = {"table_id": table.table_id, "table_uri": table.store.root_url, "commit_info": {**info, **changed}}
        answers = [httpx.post(f"{url}{COMMITS}", json=body) for _ in range(2)]
        assert answers[0].status_code == answers[1].status_code
        return answers[0]

    with served(owner) as url:
        assert (sent(1).status_code, table.latest) == (200, 1)
        lost = sent(1)
        assert (lost.status_code, "The latest version is 1" in lost.text) == (409, True)
        assert sent(2, file_size=1).status_code == 400
        assert (sent(2).status_code, table.latest) == (200, 2)
        published = {"table_id": table.table_id, "table_uri": table.store.root_url, "latest_backfilled_version": 2}
        assert httpx.post(f"{url}{COMMITS}", json=published).json() == {}
        assert got(url, asked(table)).json() == {"commits": [], "latest_table_version": 2}
    assert table.backfilled(2)


TRANSACTIONS = "/api/2.1/unity-catalog/delta/preview/transactions"


def test_a_group_staged_by_the_client_is_ratified_in_one_operation(lake: OwnedLake) -> None:
    owner = lake.embedded()
    tables = [created(lake, owner), created(lake, owner)]

    def body(*versions: int, **changed: Any) -> dict[str, Any]:
        txn_id = new_id()
        ids = {table.table_id: version for table, version in zip(tables, versions, strict=True)}
        group = TransactionGroup.of(txn_id, ids, owner.owner_id)
        told, at_ms = {"txnId": txn_id, "tags": {GROUP_TAG: txn_id}}, OwnerClock().now_ms()
        commits = []
        for table in tables:
            one = staged(table, ids[table.table_id], at_ms, group.to_json(), added(), **told)
            info = {
                "version": one.version, "timestamp": at_ms, "file_name": one.file_name, "file_size": one.size_bytes,
            }  # fmt: skip
            place = {"table_id": table.table_id, "table_uri": table.store.root_url}
            commits.append({**place, "commit_info": {**info, **changed}})
        return {"transaction_id": txn_id, "commits": commits}

    with served(owner) as url:

        def sent(asked: dict[str, Any]) -> httpx.Response:
            return httpx.post(f"{url}{TRANSACTIONS}", json=asked)

        first = body(1, 1)
        assert [(sent(first).status_code, sent(first).json()) for _ in range(2)] == [(200, {})] * 2
        assert [table.latest for table in tables] == [1, 1]
        stale = sent(body(2, 1))
        assert (stale.status_code, "stage the transaction again" in stale.text) == (409, True)
        part = body(2, 2)
        part["commits"].pop()
        assert (sent(part).status_code, "in one request" in sent(part).text) == (400, True)
        nameless = body(2, 2)
        nameless["commits"][1].pop("commit_info")
        assert (sent(nameless).status_code, "Name its staged file" in sent(nameless).text) == (400, True)
        elsewhere = body(2, 2)
        elsewhere["commits"][1]["table_uri"] = "file:///elsewhere"
        assert sent(elsewhere).status_code == 400
        assert sent({**body(2, 2), "transaction_id": "x"}).status_code == 422
        assert [table.latest for table in tables] == [1, 1]
        # One commit of a group alone is refused by the route of one commit, too.
        alone = body(2, 2)["commits"][0]
        answer = httpx.post(f"{url}{COMMITS}", json=alone)
        assert (answer.status_code, "transactionGroup" in answer.text) == (400, True)
        assert sent(body(2, 2)).status_code == 200
    assert [table.latest for table in tables] == [2, 2]


def test_a_group_needs_the_scope_to_commit_and_belongs_to_its_token(lake: OwnedLake, tmp_path: Path) -> None:
    owner = lake.embedded()
    table = created(lake, owner)
    tokens = Tokens(Database(f"sqlite:///{tmp_path}/tokens.db"))
    asked = {"transaction_id": new_id(), "commits": [{"table_id": table.table_id, "table_uri": table.store.root_url}]}
    with served(owner, tokens) as url:
        for scopes, status in (([Scope.READ], 403), ([Scope.COMMIT], 400)):
            secret = tokens.create(scopes[0].value, scopes)
            headers = {"Authorization": f"Bearer {secret}"}
            assert httpx.post(f"{url}{TRANSACTIONS}", json=asked, headers=headers).status_code == status
        assert httpx.post(f"{url}{TRANSACTIONS}", json=asked).status_code == 401


def test_a_table_of_the_older_form_is_refused(tmp_path: Path) -> None:
    lake = new_lake(tmp_path, "sqlite-embedded-managedCommit")
    owner = lake.embedded()
    table = created(lake, owner)
    table.commits(1)
    with served(owner) as url:
        answer = got(url, asked(table))
    assert (answer.status_code, "slackwater lake migrate" in answer.text) == (400, True)
    lake.close()


def test_the_catalog_has_the_id_of_the_owner_and_asks_for_a_token(lake: OwnedLake, tmp_path: Path) -> None:
    owner = lake.embedded()
    table = created(lake, owner)
    tokens = Tokens(Database(f"sqlite:///{tmp_path}/tokens.db"))
    secret = tokens.create("reader", [Scope.READ])
    with served(owner, tokens) as url:
        assert got(url, asked(table)).status_code == 401
        headers = {"Authorization": f"Bearer {secret}"}
        assert got(url, asked(table), **headers).status_code == 200
        summary = httpx.get(f"{url}/api/2.1/unity-catalog/metastore_summary", headers=headers).json()
    assert summary == {"metastore_id": owner.owner_id, "name": "slackwater"}
