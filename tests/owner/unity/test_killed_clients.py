"""Clients of a Unity Catalog, killed at each step of a commit: answered commits are there once, and others go on."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.owner.unity.catalog_client import CatalogClient
from slackwater.owner.unity.unity_owner import UnityCatalogOwner
from slackwater.protocol.features.managed_commits import CATALOG_MANAGED
from slackwater.storage.open import open_store
from tests.contract.owners import Table, added, new_lake
from tests.owner.served.serving import served
from tests.owner.unity.test_unity_owner import PATH, new_table

_CLIENT = """
import os, signal, sys
from slackwater.owner.unity import unity_owner
from slackwater.owner.unity.catalog_client import CatalogClient
from slackwater.protocol.features.managed_commits import CATALOG_MANAGED
from slackwater.storage.open import open_store
from tests.contract.owners import Table, added

url, point, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
count = 0

def killing(call):
    def run(*args, **kwargs):
        global count
        found = call(*args, **kwargs)
        count += 1
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return found
    return run

if point == "staged":
    unity_owner.stage = killing(unity_owner.stage)
elif point == "ratified":
    CatalogClient.add_commit = killing(CatalogClient.add_commit)
else:
    unity_owner._publish_commit = killing(unity_owner._publish_commit)
owner = unity_owner.UnityCatalogOwner(CatalogClient(url, "main", None, 20.0))
known = owner.table("sales.orders")
table = Table(owner, known.table_id, known.name, open_store(known.location), CATALOG_MANAGED)
while True:
    request = table.request(table.latest + 1, added())
    print("tries", request.commit_id, flush=True)
    if hasattr(owner.commit(request), "commit"):
        print("landed", request.commit_id, flush=True)
"""


@pytest.mark.parametrize(
    "point",
    [pytest.param("staged", marks=pytest.mark.long), "ratified", pytest.param("published", marks=pytest.mark.long)],
)
def test_commits_of_killed_clients_are_there_once_if_they_were_answered(tmp_path: Path, point: str) -> None:
    lake = new_lake(tmp_path, "sqlite-embedded-catalogManaged")
    with served(lake.embedded()) as url:
        owner = UnityCatalogOwner(CatalogClient(url + PATH, "main", None, 20.0))
        table = new_table(owner)
        clients = [
            subprocess.Popen(
                [sys.executable, "-c", _CLIENT, url + PATH, point, str(number)], stdout=subprocess.PIPE, text=True
            )
            for number in (2, 4)
        ]
        said = [client.communicate(timeout=120)[0] for client in clients]
        assert [client.returncode for client in clients] == [-signal.SIGKILL] * 2
        lines = [line.split() for text in said for line in text.splitlines()]
        tried = {identity for what, identity in lines if what == "tries"}
        landed = {identity for what, identity in lines if what == "landed"}
        known = owner.table("sales.orders")
        after = Table(owner, known.table_id, known.name, open_store(known.location), CATALOG_MANAGED)
        last = after.commit(after.latest + 1, added())
        ids = after.ids()[1:]
        assert len(set(ids)) == len(ids) == last.commit.version
        assert landed <= set(ids) <= tried | {ids[-1]}
        # Those that were killed after the ratification did land, although nobody told them.
        in_doubt = set(ids) - landed - {ids[-1]}
        assert len(in_doubt) == (0 if point == "staged" else 2)
        assert table.owner.repair() == []
        assert not [each.problem for each in owner.tables() if each.problem]
        owner.close()
    lake.close()
