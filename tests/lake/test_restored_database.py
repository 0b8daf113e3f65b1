"""Lakes whose owner's database was restored while, or after, they went on: as `docs/recovery.md` says to do it."""

from __future__ import annotations

import re
import shlex
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from slackwater.errors import OperationNotAllowed
from slackwater.lake.lake import LogLake
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import owner
from slackwater.owner.embedded import DATABASE_FILE, EmbeddedOwner
from slackwater.owner.state.commit_files import versions_after
from slackwater.protocol.actions.file_names import commit_path
from slackwater.storage.open import open_store
from tests.cli.commands import lines
from tests.contract.owners import SteppedPlaces, actions_in, landed
from tests.contract.postgres import PostgresServer
from tests.lake.test_recovery import ID, append, append_together, commit_of, contents, files, held, written

DOCUMENT = Path(__file__).parents[2] / "docs" / "recovery.md"


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server that loses nothing when it is killed, but may in a power cut; it does not run."""
    found = PostgresServer()
    found.configure("fsync = off\nshared_buffers = 16MB\nautovacuum = off")
    yield found
    found.remove()


def documented() -> list[str]:
    """The lines to paste for PostgreSQL, block by block."""
    section = DOCUMENT.read_text(encoding="utf-8").partition("\n## PostgreSQL to a point in time\n")[2]
    return re.findall(r"^```(?:sh|ini)\n(.*?)^```$", section.partition("\n## ")[0], re.DOTALL | re.MULTILINE)


# Connections that the killed server broke are let go by the pool without being closed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("target", ["named", pytest.param("end of the archive", marks=pytest.mark.long)])
def test_all_that_was_acknowledged_is_there_after_postgres_came_back_to_a_point_in_time(
    server: PostgresServer, tmp_path: Path, target: str
) -> None:
    blocks = [block.replace("/backup", f"{server.home}/backup") for block in documented()]
    archived, base_backup, named_point, copied_back, restored, recovered = blocks
    make_archive, back_up = base_backup.splitlines()
    server.configure(archived)
    server.shell(make_archive)
    server.start()
    root, url = tmp_path / "lake", server.new_database()
    lake = held(root, url)
    for name in ("a", "b"):
        lake._create_log(name, ID)
    both = [append_together(lake, "a", "b") for _ in range(2)]
    lake.backfill("a")

    backing_up = threading.Thread(target=server.shell, args=[back_up])
    backing_up.start()
    while backing_up.is_alive():
        both.append(append_together(lake, "a", "b"))
    backing_up.join()
    both.append(append_together(lake, "a", "b"))
    server.shell(named_point)
    both.append(append_together(lake, "a", "b"))
    server.archive_all()
    # These the server knew and nobody has told the archive. Of the first the log of one table has its part.
    both.append(append_together(lake, "a", "b"))
    lake.backfill("b")
    both.append(append_together(lake, "a", "b"))
    alone = append(lake, "a")
    last_ms = lake.snapshot("a").timestamp_ms
    server.kill()
    lake.close()

    server.shell(copied_back)
    server.configure(restored if target == "named" else restored.splitlines()[0])
    server.start()
    with pytest.raises(OperationNotAllowed, match=r"is older than the tables: .*slackwater lake recover"):
        LogLake.open(root, url)
    command = recovered.replace("work/lake", str(root)).replace("postgresql://owner@/lake", url)
    assert lines(*shlex.split(command)[1:])[-1].startswith("the lake's commit owner is ")
    with LogLake.open(root, url) as found:
        assert contents(found) == {"a": sorted([*both, alone]), "b": sorted(both)}
        assert added(root / "a") == Counter([*both, alone])
        assert added(root / "b") == Counter(both)
        both.append(append_together(found, "a", "b"))
        for name in ("a", "b"):
            assert both[-1] in files(found, name)
            assert found.snapshot(name).timestamp_ms > last_ms


def added(table: Path) -> Counter[str]:
    """How often the log of a table adds each file."""
    store = open_store(table)
    actions = (a for v in versions_after(store, -1) for a in actions_in(store.read(commit_path(v))))
    return Counter(action["add"]["path"] for action in actions if "add" in action)


def test_a_commit_that_was_under_way_in_the_copy_and_was_acknowledged_since_is_not_lost(tmp_path: Path) -> None:
    root, copy = tmp_path / "lake", tmp_path / "owner.db"
    with held(root) as lake:
        lake._create_log("a", ID)
        path = written(lake, "a")
    database = Database(f"sqlite:////{root}/{DATABASE_FILE}")

    def back_up(when: str, operation: str, path: str) -> None:
        if (when, operation) == ("after", "put") and not copy.exists():
            database.backup(copy)

    writer = EmbeddedOwner(database, SteppedPlaces(back_up, root, None), backfill_delay_s=None)
    landed(writer.commit(commit_of(writer.table("a").table_id, 1, path)))
    writer.close()
    restore(root, copy)
    with pytest.raises(OperationNotAllowed, match=r"may be committed, unless .*slackwater lake recover"):
        LogLake.open(root)
    with LogLake.open(root, recover=True) as found:
        assert contents(found) == {"a": [path]}


def test_what_lands_while_a_restored_database_is_looked_at_is_not_taken_for_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, told = tmp_path / "lake", list[str]()
    with held(root) as going_on:
        going_on._create_log("a", ID)
        # As where a standby took over, and several processes open the lake at once.
        going_on.owner.database.write(  # type: ignore[attr-defined]
            lambda c: c.execute(sa.update(owner).values(database_mark="another"))
        )

        def looked(*arguments: Any) -> list[int]:
            told.append(append(going_on, "a"))
            going_on.backfill("a")
            told.append(append(going_on, "a"))
            return versions_after(*arguments)

        monkeypatch.setattr("slackwater.owner.recovery.lake_identity.versions_after", looked)
        with LogLake.open(root) as found:
            assert files(found, "a") == sorted(told)
        assert len(told) == 2


def restore(root: Path, copy: Path) -> None:
    """Put the copy of a lake's database in its place; the lake is not open."""
    shutil.rmtree(root / "_slackwater")
    (root / "_slackwater").mkdir()
    shutil.copy(copy, root / DATABASE_FILE)
