"""Tables and lakes whose files this process may not read or write: one sentence each, and nothing is written."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

# What a lake asks for is looked for in directories that this user may not read, unless it is loaded.
pytest.importorskip("httpx")
pytest.importorskip("pydantic")

from slackwater import Transaction
from slackwater.errors import SlackwaterError
from slackwater.lake.lake import LogLake
from slackwater.log.table import Table
from slackwater.maintenance.convert import ConvertRequest, convert
from slackwater.maintenance.restore import restore
from slackwater.maintenance.vacuum import VacuumRequest, vacuum
from slackwater.protocol.schema.schema import StructType
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.log_maintenance import checkpoint_newest
from tests.people.mistakes import require_plain

TABLE = Path(__file__).parents[1] / "data" / "tables" / "basic-partitioned"
NOBODY = 65534
Call = Callable[[str], Any]
DENIED = "Permission denied; check the permissions"


def _committed(table: str) -> None:
    transaction = Transaction(table)
    transaction.set_transaction("people", 1)
    transaction.commit("NOTHING")


# What is done, which files the user may not read (no name: none), and what is said beside the place.
MISTAKES: list[tuple[str, Call, str, str]] = [
    ("read a log", Snapshot.load, "_delta_log/*.json", "_delta_log/"),
    ("read rows", lambda table: Snapshot.load(table).to_arrow(), "*/*.parquet", ".parquet"),
    ("commit", _committed, "", "the table is unchanged"),
    ("restore", lambda table: restore(Table.at(table), 0), "", "the table is unchanged"),
    ("write a checkpoint", lambda table: checkpoint_newest(Snapshot.load(table), 1), "", "checkpoint"),
    ("vacuum", lambda table: vacuum(Table.at(table), VacuumRequest(0.0, checks_retention=False)), "", "unchanged"),
    ("convert", lambda table: convert(Table.at(f"{table}/letter=a"), ConvertRequest(StructType())), "", "_delta_log"),
    ("make a lake", lambda table: LogLake.open(f"{table}-lake"), "", "Permission denied"),
]


@contextmanager
def as_somebody_else() -> Iterator[None]:
    """Within the block the process is a user without rights, where it may become one."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if was == 0:
            os.seteuid(was)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user reaches: pytest's own are for one."""
    with tempfile.TemporaryDirectory() as found:
        root = Path(found)
        root.chmod(0o755)
        yield root
        for each in root.rglob("*"):
            each.chmod(0o755)


@pytest.mark.parametrize(
    ("call", "unreadable", "says"), [each[1:] for each in MISTAKES], ids=[each[0] for each in MISTAKES]
)
def test_what_a_user_may_not_do_is_one_sentence(place: Path, call: Call, unreadable: str, says: str) -> None:
    table = place / "t"
    shutil.copytree(TABLE, table)
    # What is loaded at its first use comes from files that this user may not read.
    shutil.copytree(TABLE, place / "loaded")
    call(str(place / "loaded"))
    for each in [table, *table.rglob("*")]:
        each.chmod(0o555 if each.is_dir() else 0o444)
    for each in table.glob(unreadable) if unreadable else ():
        each.chmod(0)
    before = {str(each): each.stat().st_mtime_ns for each in table.rglob("*")}
    with as_somebody_else(), pytest.raises(SlackwaterError) as caught:
        call(str(table))
    told = str(caught.value)
    require_plain(told.replace(str(place), ""))
    assert str(table) in told
    assert says in told
    assert DENIED in told or "lake" in told
    assert ".tmp" not in told
    assert {str(each): each.stat().st_mtime_ns for each in table.rglob("*")} == before
    assert stat.S_IMODE(table.stat().st_mode) == 0o555
