"""Timestamps that are kept free for transactions that cannot commit with one statement."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection

from slackwater.owner.database.database import Database
from slackwater.owner.locks.timestamp_reservations import (
    TimestampReservation,
    active_reservations,
    release,
    renew,
    reserve,
)
from slackwater.owner.state.clock import LEASE_MS

NOW = 1_700_000_000_000


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(f"sqlite:///{tmp_path / 'owner.db'}")
    yield opened
    opened.close()


def _live(database: Database, now_ms: int, *tables: str, dead: str = "nobody") -> list[tuple[str, str]]:
    found = database.write(
        lambda c: active_reservations(c, tables or ("a", "b"), now_ms, lambda holder: holder == dead)
    )
    return sorted((each.txn_id, each.table_id) for each in found)


def _promised(database: Database, txn_id: str, *tables: str, at_ms: int = 7, holder: str = "me") -> None:
    database.write(lambda c: reserve(c, txn_id, tables, at_ms, holder, NOW))


def test_a_promise_counts_in_its_tables_until_its_lease_has_ended(database: Database) -> None:
    _promised(database, "t", "a", "b", "a")
    assert _live(database, NOW + LEASE_MS) == [("t", "a"), ("t", "b")]
    assert _live(database, NOW, "b", "c") == [("t", "b")]
    assert _live(database, NOW + LEASE_MS + 1, "a") == []
    # It is forgotten as a whole, also where nobody looked.
    assert _live(database, NOW, "b") == []


def test_a_promise_of_one_who_is_gone_is_forgotten_and_no_other(database: Database) -> None:
    _promised(database, "t", "a", "b", holder="gone")
    _promised(database, "u", "a")
    assert _live(database, NOW, "a", dead="gone") == [("u", "a")]
    assert _live(database, NOW) == [("u", "a")]


def test_a_promise_that_is_kept_has_its_lease_anew(database: Database) -> None:
    _promised(database, "t", "a")
    _promised(database, "u", "a")
    assert database.write(lambda c: renew(c, "t", NOW + LEASE_MS))
    assert not database.write(lambda c: renew(c, "nobody", NOW))
    assert _live(database, NOW + LEASE_MS + 1) == [("t", "a")]
    assert _live(database, NOW + 2 * LEASE_MS) == [("t", "a")]


def test_a_promise_takes_the_place_of_the_one_before(database: Database) -> None:
    _promised(database, "t", "a")
    _promised(database, "t", "b")
    assert _live(database, NOW) == [("t", "b")]
    _promised(database, "t")
    assert _live(database, NOW) == []


def test_what_is_released_is_free(database: Database) -> None:
    for txn_id in ("t", "u", "v"):
        _promised(database, txn_id, "a")

    def let_go(connection: Connection) -> None:
        release(connection, "t", "v")

    database.write(let_go)
    assert _live(database, NOW) == [("u", "a")]


def test_who_is_in_the_way_is_told_with_its_process_and_time(database: Database) -> None:
    _promised(database, "t", "a", at_ms=NOW)
    (found,) = database.write(lambda c: active_reservations(c, ["a"], NOW, lambda _: False))
    assert found == TimestampReservation("t", "a", NOW, "me")
    assert found.blocker().described("orders") == (
        "transaction t of process me, begun at 2023-11-14T22:13:20.000+00:00, holds X on table orders"
    )


def test_the_earlier_one_comes_first() -> None:
    early, late, other = (
        TimestampReservation("b", "x", 1, "p"),
        TimestampReservation("a", "x", 2, "p"),
        TimestampReservation("c", "x", 1, "p"),
    )
    assert sorted([late, other, early], key=lambda each: each.order) == [early, other, late]
