"""Processes that are stopped in the middle of a transaction of the owner's database, and those that wait for them."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from slackwater.errors import CommitFailed, CommitOwnerUnavailable
from slackwater.owner.database import database as owner_database
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import owner
from tests.contract.owners import DATABASES, created, eventually, landed, new_lake
from tests.contract.postgres import shared_server

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="processes are stopped by signals")

_WRITER = """
import sys
import sqlalchemy as sa
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import owner, tables
def work(connection):
    connection.execute(sa.select(owner.c.owner_id).with_for_update()).all()
    connection.execute(sa.select(tables.c.table_id).with_for_update()).all()
    connection.execute(sa.update(owner).values(last_ms=owner.c.last_ms + 1))
    print("inside", flush=True)
    sys.stdin.readline()
Database(sys.argv[1]).write(work)
print("done", flush=True)
"""


@contextmanager
def stopped_inside(url: str) -> Iterator[subprocess.Popen[str]]:
    """A process that was stopped in the middle of a transaction that writes."""
    with subprocess.Popen(
        [sys.executable, "-c", _WRITER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "inside\n"
            process.send_signal(signal.SIGSTOP)
            yield process
        finally:
            process.kill()


def last_ms(database: Database) -> int:
    return int(database.read(lambda c: c.execute(sa.select(owner.c.last_ms)).scalar_one()))


def add_one(connection: sa.Connection) -> None:
    connection.execute(sa.select(owner.c.owner_id).with_for_update()).all()
    connection.execute(sa.update(owner).values(last_ms=owner.c.last_ms + 1))


def insert(connection: sa.Connection) -> None:
    connection.execute(sa.insert(owner).values(owner_id="x", created_ms=1, last_ms=0))


def test_a_write_waits_for_a_stopped_process_only_for_a_while_and_names_it(tmp_path: Path) -> None:
    url = f"sqlite:////{tmp_path}/owner.db"
    database = Database(url, turn_s=0.3)
    database.write(insert)
    with stopped_inside(url) as process:
        for _ in range(2):
            with pytest.raises(
                CommitOwnerUnavailable, match=r"timed out after 0\.3 s waiting for the lock .*owner\.db\.lock, held by"
            ) as caught:
                database.write(add_one)
            assert f"process {process.pid}, which is stopped" in str(caught.value)
            assert caught.value.changed_nothing
        # Readers do not wait.
        assert last_ms(database) == 0
        process.send_signal(signal.SIGCONT)
        print(file=process.stdin, flush=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
    database.write(add_one)
    assert last_ms(database) == 2
    # What had given up waiting has let go of its turn as well.
    Database(url, turn_s=5.0).write(add_one)
    assert last_ms(database) == 3
    database.close()


def test_a_process_that_is_killed_while_it_is_stopped_keeps_nobody(tmp_path: Path) -> None:
    url = f"sqlite:////{tmp_path}/owner.db"
    database = Database(url, turn_s=30.0)
    database.write(insert)
    with stopped_inside(url) as process:
        written = threading.Thread(target=lambda: database.write(add_one))
        written.start()
        process.kill()
        written.join()
    assert last_ms(database) == 1
    database.close()


def test_a_stranger_that_holds_the_database_is_waited_for_only_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_database, "_BUSY_MS", 50)
    url = f"sqlite:////{tmp_path}/owner.db"
    database = Database(url, patience_s=0.3)
    database.write(insert)
    stranger = sqlite3.connect(tmp_path / "owner.db", isolation_level=None)
    stranger.execute("BEGIN IMMEDIATE")
    with pytest.raises(CommitOwnerUnavailable, match=r"other processes locked .*database is locked") as caught:
        database.write(add_one)
    assert caught.value.changed_nothing
    stranger.close()
    database.write(add_one)
    database.close()


def test_postgres_ends_the_transaction_of_a_stopped_process() -> None:
    url = shared_server().new_database()
    database = Database(url)
    database.write(insert)
    with stopped_inside(url):
        # Its session ends after five seconds in which nothing comes: less than others wait.
        database.write(add_one)
    assert last_ms(database) == 1
    database.close()


def test_who_waits_for_a_lock_of_postgres_is_told_who_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(owner_database._SERVER_LIMITS, "lock_timeout", 200)
    url = shared_server().new_database()
    database = Database(url, patience_s=1.5)
    database.write(insert)
    with stopped_inside(url) as process:
        with pytest.raises(
            CommitOwnerUnavailable, match=r"other processes locked .*is in a transaction since"
        ) as caught:
            database.write(add_one)
        assert f":{process.pid}, server process" in str(caught.value)
        assert caught.value.changed_nothing
    database.close()


@pytest.mark.parametrize("kind", DATABASES)
def test_a_commit_that_could_not_be_ratified_in_time_did_certainly_not_land(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setitem(owner_database._SERVER_LIMITS, "lock_timeout", 200)
    lake = new_lake(tmp_path, kind)
    stopped: list[object] = []

    def stop(when: str, operation: str, path: str) -> None:
        if (when, operation) == ("after", "put") and "00001." in path and not stopped:
            process = stopped_inside(lake.database)
            stopped.append(process)
            process.__enter__()

    owner_ = lake.embedded(step=stop, lease_ms=500)
    table = created(lake, owner_)
    owner_.database._patience_s = 1.0
    if owner_.database._turns is not None:
        owner_.database._turns._patience_s = 0.3
    request = table.request(1)
    with pytest.raises(CommitFailed, match="was staged, but not committed"):
        owner_.commit(request)
    assert not [name for name in table.staged() if "00001." in name]
    stopped[0].__exit__(None, None, None)  # type: ignore[attr-defined]
    owner_.database._patience_s = 20.0
    if owner_.database._turns is not None:
        owner_.database._turns._patience_s = 20.0
    eventually(lambda: table.latest == 0)
    assert landed(owner_.commit(table.request(1))).commit.version == 1
    lake.close()


def test_processes_are_named_by_their_numbers() -> None:
    from slackwater.owner.database.writer_queue import _holders

    assert "another process" in _holders(Path(f"/nowhere/{os.getpid()}"))
