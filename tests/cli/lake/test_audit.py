"""`slackwater serve --audit`: the Delta table with the records of a real server's requests."""

from __future__ import annotations

import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import slackwater
from slackwater.cli.lake.audit_table import AuditTable
from slackwater.errors import CommitOwnerUnavailable, NotAuthorized, TableNotFound
from slackwater.lake.lake import LogLake
from slackwater.owner.served.access.audit_trail import AuditedTable, AuditRecord
from slackwater.owner.served.client.http_owner import HttpOwner
from slackwater.protocol.schema.schema import LONG, StructField, StructType
from slackwater.scan.snapshot import Snapshot
from tests.cli.commands import error, run
from tests.cli.lake.test_serve import _created, server_process, serving
from tests.contract.owners import at_once

SCHEMA = StructType((StructField("id", LONG),))


@pytest.fixture
def root(tmp_path: Path) -> str:
    assert run("lake", "create", str(tmp_path / "lake")).exit_code == 0
    return str(tmp_path / "lake")


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "audit")


def rows(folder: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = Snapshot.load(folder).to_arrow().sort_by("time").to_pylist()
    return found


def test_requests_of_all_callers_are_rows_after_sigterm(root: str, folder: str) -> None:
    loader = _created("loader", "--scope", "admin", "--root", root)
    sales = _created("sales", "--scope", "commit", "--grant", "sales.*:commit", "--root", root)
    with serving("--root", root, "--audit", folder) as url:
        with LogLake.connect(url, loader) as lake:
            for name in ("sales.orders", "hr.people"):
                lake._create_log(name, SCHEMA, location=f"{root}/{name}")
        owner = HttpOwner(url, sales)
        with pytest.raises(TableNotFound):
            owner.table("hr.people")
        with pytest.raises(NotAuthorized):
            owner.repair()
        owner.close()
        assert httpx.get(f"{url}/v1/tables", headers={"Authorization": "Bearer slw_hunter2"}).status_code == 401
    found = rows(folder)
    adopted = [row for row in found if (row["method"], row["route"]) == ("POST", "/v1/tables")]
    assert [(row["caller"], row["status"], row["outcome"], row["error"]) for row in adopted] == [
        ("loader", 200, "ok", None)
    ] * 2
    assert [[(table["name"], table["version"]) for table in row["tables"]] for row in adopted] == [
        [("sales.orders", 0)],
        [("hr.people", 0)],
    ]
    assert all(str(uuid.UUID(row["tables"][0]["id"])) == row["tables"][0]["id"] for row in adopted)
    refused = [
        (row["caller"], row["path"], row["status"], row["error"]) for row in found if row["outcome"] == "refused"
    ]
    assert refused[-3:] == [
        ("sales", "/v1/tables/hr.people", 404, "TableNotFound"),
        ("sales", "/v1/repair", 403, "NotAuthorized"),
        (None, "/v1/tables", 401, "NotAuthorized"),
    ]
    assert {row["client"] for row in found} == {"127.0.0.1"}
    assert all(row["time"].date() == row["day"] for row in found)
    text = b"".join(path.read_bytes() for path in Path(folder).rglob("*") if path.is_file())
    assert not [secret for secret in (loader, sales, "slw_hunter2") if secret.encode() in text or secret in str(found)]


def test_a_killed_server_loses_its_last_batch_at_most_and_the_next_one_goes_on(root: str, folder: str) -> None:
    with server_process("--root", root, "--no-auth", "--audit", folder) as (process, url):
        assert httpx.get(f"{url}/v1/owner").status_code == 200
        process.kill()
        process.wait()
    assert [row["route"] for row in rows(folder)] in ([], ["/v1/owner"])
    with server_process("--root", root, "--no-auth", "--audit", folder) as (process, url):
        assert httpx.get(f"{url}/v1/tables").status_code == 200
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        process.stderr.read()
        assert process.wait() == 0
    assert rows(folder)[-1]["route"] == "/v1/tables"
    slackwater.delete(folder, "day < '2000-01-01'")


def test_a_folder_that_cannot_have_the_table_is_one_plain_line(root: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert error("serve", "--root", root, "--no-auth", "--audit", str(tmp_path / "file")).startswith("error: ")
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    (wrong / "rows.parquet").write_bytes(b"")
    assert "wrong" in error("serve", "--root", root, "--no-auth", "--audit", str(wrong))


def _record(*tables: AuditedTable) -> AuditRecord:
    return AuditRecord("r", 5, "etl", "10.0.0.1", "GET", "/r", "/p", 200, None, None, tables, 1.5)


def test_names_are_those_of_the_ids_if_the_owner_responds(folder: str) -> None:
    names: Iterator[dict[str, str]] = iter([{"a": "sales.orders"}])

    def current() -> dict[str, str]:
        try:
            return next(names)
        except StopIteration:
            raise CommitOwnerUnavailable("the database does not respond") from None

    table = AuditTable(folder, current)
    table.append([_record(AuditedTable("a", None, 3), AuditedTable(None, "sales.orders", None))])
    table.append([_record(AuditedTable("a", None, 4), AuditedTable("b", None, None), AuditedTable(None, "new", None))])
    assert [row["tables"] for row in rows(folder)] == [
        [{"id": "a", "name": "sales.orders", "version": 3}],
        [
            {"id": "a", "name": "sales.orders", "version": 4},
            {"id": "b", "name": None, "version": None},
            {"id": None, "name": "new", "version": None},
        ],
    ]
    assert Snapshot.load(folder).version == 2


def test_several_servers_append_to_one_table(folder: str) -> None:
    tables = at_once(*[lambda: AuditTable(folder, dict)] * 3)
    assert all(isinstance(table, AuditTable) for table in tables), tables
    appended = at_once(*(lambda table=table: [table.append([_record()]) for _ in range(5)] for table in tables))
    assert appended == [[None] * 5] * 3
    assert (len(rows(folder)), Snapshot.load(folder).version) == (15, 15)
