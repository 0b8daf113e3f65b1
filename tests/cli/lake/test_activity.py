"""`slackwater lake transactions` and `locks`, of transactions that go on in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.lake.lake import LogLake
from slackwater.lake.transaction import LogTransaction
from tests.cli.commands import document, lines, run
from tests.transaction.tables import schema


@pytest.fixture
def transaction(tmp_path: Path) -> Iterator[LogTransaction]:
    """One that has locked the table `a` of the lake at `tmp_path`, and was told the time."""
    with LogLake.open(tmp_path) as lake:
        for name in ("a", "b"):
            lake._create_log(name, schema({"id": "long"}))
        with lake.transaction(control="locking") as found:
            found.snapshot("a")
            found.current_timestamp()
            yield found


def test_what_has_not_ended_is_shown(transaction: LogTransaction, tmp_path: Path) -> None:
    (told,) = document("lake", "transactions", str(tmp_path))
    assert (told["stage"], told["tables"], told["hasEnded"]) == ("open", ["a"], False)
    assert told["after"] < told["until"]
    header, row = lines("lake", "transactions", str(tmp_path))
    assert header.split()[:3] == ["transaction", "stage", "tables"]
    assert row.split()[:3] == [told["transaction"], "open", "a"]
    assert run("lake", "transactions", str(tmp_path), "--csv").stdout.splitlines()[1].split(",")[:2] == [
        told["transaction"],
        "open",
    ]


def test_who_has_locked_what_is_shown(transaction: LogTransaction, tmp_path: Path) -> None:
    (told,) = document("lake", "locks", str(tmp_path))
    assert (told["table"], told["partition"], told["held"], told["wanted"], told["waitsFor"]) == (
        "a",
        None,
        "S",
        None,
        [],
    )
    assert document("lake", "transactions", str(tmp_path))[0]["transaction"] == told["transaction"]
    (_, row) = lines("lake", "locks", str(tmp_path))
    assert row.split()[:3] == ["a", told["transaction"], "S"]


def test_where_nobody_is_at_work_there_is_a_header_alone(tmp_path: Path) -> None:
    LogLake.open(tmp_path).close()
    for command in ("transactions", "locks"):
        assert document("lake", command, str(tmp_path)) == []
        assert len(lines("lake", command, str(tmp_path))) == 1
