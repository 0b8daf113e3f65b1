"""Mistakes with lakes, their transactions and time slices, and with owners that are served: none needs Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slackwater.errors import InvalidArgument, SlackwaterError
from slackwater.lake.lake import LogLake
from slackwater.protocol.schema.schema import LONG, StructField, StructType
from tests.people.mistakes import require_plain

SCHEMA = StructType((StructField("id", LONG),))
_NOBODY = "http://127.0.0.1:1"
Call = Callable[[LogLake, Path], Any]
CONNECTS: list[tuple[str, Call, str]] = [
    ("open of a URL of a server", lambda lake, root: LogLake.open(_NOBODY), "connect"),
    ("open of a file", lambda lake, root: LogLake.open(root / "file"), "file"),
    ("connect of a path", lambda lake, root: LogLake.connect(str(root)), "open"),
    ("connect without a scheme", lambda lake, root: LogLake.connect("lake.example:8080"), "http"),
    ("connect to nobody", lambda lake, root: LogLake.connect(_NOBODY, timeout_s=2).tables(), _NOBODY),
    ("a token in the clear", lambda lake, root: LogLake.connect("http://lake.example", token="x"), "https"),  # noqa: S106
    ("a store without a database", lambda lake, root: LogLake.open("s3://bucket/lake"), "database"),
]
MISTAKES: list[tuple[str, Call, str]] = [
    ("unknown table name", lambda lake, root: lake.snapshot("orderz"), "orderz"),
    ("create twice", lambda lake, root: lake._create_log("orders", SCHEMA), "orders"),
    ("create with a bad name", lambda lake, root: lake._create_log("a/b", SCHEMA), "a/b"),
    ("adopt the same twice", lambda lake, root: lake.adopt("again", root / "lake" / "orders"), "orders"),
    ("adopt what is no table", lambda lake, root: lake.adopt("more", root / "nothing"), "nothing"),
    ("release what is not there", lambda lake, root: lake.release("orderz"), "orderz"),
    ("a table that is not there in a transaction", lambda lake, root: _within(lake, "orderz"), "orderz"),
    ("a transaction after its end", lambda lake, root: _ended(lake), "transaction"),
    ("as of rubbish", lambda lake, root: lake.as_of("soon"), "soon"),
    ("as of the future", lambda lake, root: lake.as_of("2100-01-01T00:00:00Z").snapshot("orders"), "2100-01-01"),
    ("as of before", lambda lake, root: lake.as_of("2001-01-01T00:00:00Z").snapshot("orders"), "2001-01-01"),
    ("a precision that is none", lambda lake, root: _time(lake, 99), "99"),
    ("a control that is none", lambda lake, root: lake.transaction(control="hopeful"), "hopeful"),
    ("an isolation that is none", lambda lake, root: lake.transaction(isolation="chaos"), "chaos"),
    *CONNECTS,
]


def _within(lake: LogLake, name: str) -> None:
    with lake.transaction() as transaction:
        transaction.snapshot(name)


def _ended(lake: LogLake) -> None:
    with lake.transaction() as transaction:
        transaction.snapshot("orders")
    transaction.snapshot("orders")


def _time(lake: LogLake, precision: int) -> None:
    with lake.transaction() as transaction:
        transaction.current_timestamp(precision)


@pytest.mark.parametrize(("call", "says"), [each[1:] for each in MISTAKES], ids=[each[0] for each in MISTAKES])
def test_a_mistake_with_a_lake_is_answered_by_one_sentence(tmp_path: Path, call: Call, says: str) -> None:
    (tmp_path / "file").touch()
    with LogLake.open(tmp_path / "lake") as lake:
        lake._create_log("orders", SCHEMA)
        versions = [lake.snapshot(table.name).version for table in lake.tables()]
        with pytest.raises(SlackwaterError) as caught:
            call(lake, tmp_path)
        require_plain(str(caught.value))
        assert says in str(caught.value)
        assert [lake.snapshot(table.name).version for table in lake.tables()] == versions


AFTER_THE_END: list[tuple[str, Call]] = [
    ("snapshot", lambda lake, root: lake.snapshot("orders")),
    ("tables", lambda lake, root: lake.tables()),
    ("history", lambda lake, root: lake.history()),
    ("as_of", lambda lake, root: lake.as_of("2026-01-01")),
    ("_create_log", lambda lake, root: lake._create_log("more", SCHEMA)),
    ("transaction", lambda lake, root: lake.transaction()),
    ("drop_table", lambda lake, root: lake.drop_table("orders")),
    ("adopt", lambda lake, root: lake.adopt("again", root / "lake" / "orders")),
    ("repair", lambda lake, root: lake.repair()),
]


def test_a_lake_that_was_closed_says_so_and_does_nothing(tmp_path: Path) -> None:
    with LogLake.open(tmp_path / "lake") as lake:
        lake._create_log("orders", SCHEMA)
    for name, call in AFTER_THE_END:
        with pytest.raises(InvalidArgument) as caught:
            call(lake, tmp_path)
        assert str(caught.value) == f"the lake {tmp_path}/lake is closed. Open it again", name
    with LogLake.open(tmp_path / "lake") as lake:
        assert [table.name for table in lake.tables()] == ["orders"]
