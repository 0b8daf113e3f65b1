"""Processes that share one owner's database, and lose nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slackwater.log.snapshot import LogSnapshot
from tests.contract.owners import DATABASES, Table, actions_in, created, new_lake

_WRITER = """
import sys
from slackwater.owner.database.database import Database
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.state.table_stores import TableStores
from tests.contract.owners import Table, landed
root, database, table_id, count = sys.argv[1:]
owner = EmbeddedOwner(Database(database), TableStores(root))
table = Table(owner, table_id, "", None)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(count)):
    request = table.append(1)
    print(landed(owner.commit(request)).commit.version, request.commit_id, flush=True)
owner.close()
"""


@pytest.mark.parametrize("kind", DATABASES)
def test_processes_that_share_an_owner_commit_to_one_table_and_lose_nothing(kind: str, tmp_path: Path) -> None:
    lake = new_lake(tmp_path, kind)
    table = created(lake, lake.embedded())
    told = _run(lake.root, lake.database, table, processes=2, commits=50)
    assert sorted(told) == list(range(1, 101))
    assert table.ids()[1:] == [told[version] for version in range(1, 101)]
    stamps = [actions[0]["commitInfo"]["inCommitTimestamp"] for actions in table.everything().values()]
    assert stamps == sorted(set(stamps))
    # Everybody else reads them too: whoever ends backfills.
    assert LogSnapshot.open(table.store).version == 100
    lake.close()


def _run(root: Path, database: str, table: Table, processes: int, commits: int) -> dict[int, str]:
    """Which commit each version is, as the processes were told."""
    command = [sys.executable, "-c", _WRITER, str(root), database, table.table_id, str(commits)]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(processes)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    told: dict[int, str] = {}
    for process in started:
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        for line in output.splitlines():
            version, commit_id = line.split()
            assert int(version) not in told
            told[int(version)] = commit_id
    return told


def test_a_process_that_ends_without_closing_its_owner_leaves_a_table_that_everybody_reads(tmp_path: Path) -> None:
    lake = new_lake(tmp_path, "sqlite")
    table = created(lake, lake.embedded())
    script = _WRITER.replace("owner.close()\n", "")
    command = [sys.executable, "-c", script, str(lake.root), lake.database, table.table_id, "3"]
    done = subprocess.run(command, input="go\n", capture_output=True, text=True, check=True, timeout=120)
    assert len(done.stdout.splitlines()) == 4
    data = table.backfilled(3)
    assert data is not None
    assert actions_in(data)[0]["commitInfo"]["txnId"] == done.stdout.split()[-1]
    lake.close()
