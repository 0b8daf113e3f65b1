"""Cards of lakes, transactions and time slices: what they tell, that they never fail a cell, and hold no secret."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater import AddFile
from slackwater.errors import CommitUnknown, TransactionEnded
from slackwater.lake import html_repr
from slackwater.lake.lake import LogLake
from slackwater.lake.transaction import LogTransaction
from slackwater.owner.api.owner_registry import attach, detach
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.served.client.http_owner import HttpOwner
from tests.contract.owners import FakeClock
from tests.html.well_formed import parsed, words

SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
DAYS = SCHEMA.replace("]", ',{"name":"day","type":"string","nullable":true,"metadata":{}}]')


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[LogLake]:
    owner = EmbeddedOwner.open(tmp_path, clock=FakeClock().owner_clock(), backfill_delay_s=None)
    lake = LogLake(owner, owner.root_url)
    lake._create_log("orders", SCHEMA)
    lake._create_log("stock", SCHEMA)
    lake._create_log("days", DAYS, ["day"])
    yield lake
    lake.close()


def _html(shown: Any) -> str:
    made: str = shown._repr_html_()
    return made


def _rows(shown: Any) -> list[list[str]]:
    return [[words(cell) for cell in row.iter("td")] for row in parsed(_html(shown)).iter("tr")][1:]


def _add(tx: LogTransaction, name: str) -> None:
    log = tx.log(name)
    log.add(AddFile(f"{name}.parquet", {}, 1, 1), fresh=True)
    log.commit("WRITE")


def test_the_card_of_a_lake_has_its_tables_and_what_waits_for_its_backfill(lake: LogLake, tmp_path: Path) -> None:
    with lake.transaction() as tx:
        _add(tx, "stock")
    lake.backfill("orders")
    shown = words(_html(lake))
    assert "embedded owner" in shown
    assert "tables 3" in shown
    rows = {row[0]: row for row in _rows(lake)}
    assert (rows["stock"][1], rows["stock"][3]) == ("1", "1")
    assert (rows["orders"][1], rows["orders"][3]) == ("0", "")
    assert repr(lake) == f"<Lake {tmp_path}: 3 tables>"


def test_a_lake_that_is_closed_or_gone_has_a_card_all_the_same(lake: LogLake, monkeypatch: pytest.MonkeyPatch) -> None:
    detach(lake.owner)
    assert "closed" in words(_html(lake))
    assert repr(lake).endswith("(closed)>")
    attach(lake.owner)

    def unavailable() -> None:
        raise CommitUnknown("no answer of postgresql://me:hunter2@db/lake <at all>")

    monkeypatch.setattr(lake.owner, "tables", unavailable)
    assert words(_html(lake)).endswith("CommitUnknown no answer of postgresql://db/lake <at all>")


@pytest.mark.filterwarnings("ignore:Query string argument")
def test_no_card_and_no_repr_tells_a_password_or_a_token(tmp_path: Path) -> None:
    # The query of the URL is no database's business, and a driver might take a password there.
    owner = EmbeddedOwner.open(tmp_path, f"sqlite:///{tmp_path}/o.db?password=hunter2&timeout=5")
    with LogLake(owner, "s3://me:hunter2@bucket/lake", {"aws_secret_access_key": "hunter2"}) as lake:
        for told in (_html(lake), repr(lake), repr(owner)):
            assert "hunter2" not in told
    served = HttpOwner("https://localhost:1", "hunter2hunter2", timeout_s=0.01)
    # It is not there to be asked.
    served._owner_id = "of-nobody"
    with LogLake(served, None, {"token": "hunter2"}) as lake:
        assert "CommitOwnerUnavailable" in _html(lake)
        for told in (_html(lake), repr(lake), repr(served)):
            assert "hunter2" not in told
            assert "https://localhost:1" in told


def test_an_open_transaction_tells_what_it_read_wrote_and_locked(lake: LogLake) -> None:
    with lake.transaction(writes=["days"]) as tx:
        assert "no tables read or written" in words(_html(tx))
        tx.snapshot("orders")
        _add(tx, "stock")
        shown = words(_html(tx))
        assert "open serializable optimistic" in shown
        assert "timestamp after" in shown
        assert "up to" not in shown
        assert "will write: days" in shown
        assert _rows(tx) == [["orders", "0", "all rows", ""], ["stock", "0", "", "written"]]
        tx.current_date()
        assert "up to" in words(_html(tx))
        assert repr(tx) == f"<LogTransaction {tx.id}: open; wrote stock, read orders>"


def test_a_transaction_that_committed_tells_its_versions_and_its_time(lake: LogLake) -> None:
    with lake.transaction() as tx:
        _add(tx, "stock")
    shown = words(_html(tx))
    assert "committed serializable" in shown
    assert tx.commit_timestamp.replace(tzinfo=None).isoformat(" ", "milliseconds") in shown
    assert _rows(tx) == [["stock", "0", "written", "1"]]
    at = tx.commit_timestamp.isoformat(timespec="milliseconds")
    assert repr(tx) == f"<LogTransaction {tx.id}: committed at {at}; wrote stock>"


def test_locks_are_told_also_of_tables_that_were_not_touched_yet(lake: LogLake) -> None:
    with lake.transaction(control="locking") as tx:
        tx.snapshot("orders")
        tx.lock("stock", exclusive=True)
        tx.lock("days", where="day = 'a'")
        assert _rows(tx) == [["orders", "0", "all rows", "shared lock"]]
        assert "locked: stock, days" in words(_html(tx))
        tx.snapshot("days")
        assert _rows(tx)[1] == ["days", "0", "all rows", "lock on partitions"]


def test_a_transaction_that_ended_otherwise_says_how(lake: LogLake, monkeypatch: pytest.MonkeyPatch) -> None:
    tx = lake.transaction()
    tx.rollback()
    assert "rolled back" in words(_html(tx))

    def lost(request: object) -> None:
        raise CommitUnknown("lost")

    in_doubt = lake.transaction()
    _add(in_doubt, "stock")
    monkeypatch.setattr(lake.owner, "commit_transaction", lost)
    with pytest.raises(CommitUnknown):
        in_doubt.commit()
    assert "The outcome is unknown" in words(_html(in_doubt))
    assert ": unknown" in repr(in_doubt)
    with pytest.raises(TransactionEnded):
        in_doubt.commit()


def test_a_time_slice_tells_the_versions_of_then_and_reads_no_log(
    lake: LogLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lake.transaction() as tx:
        _add(tx, "stock")
    then = tx.commit_timestamp
    past = lake.as_of(then)
    monkeypatch.setattr("slackwater.log.table.list_log", None)
    rows = {row[0]: row for row in _rows(past)}
    assert {name: row[1] for name, row in rows.items()} == {"days": "0", "orders": "0", "stock": "1"}
    assert rows["stock"][2] == then.replace(tzinfo=None).isoformat(" ", "milliseconds")


def test_names_that_are_markup_are_words(lake: LogLake) -> None:
    with lake.transaction() as tx:
        seen = tx._seen()
    evil = html_repr.TransactionState(
        "Log", "<b>&\"'", "open", "<i>", "x", 1, seen.range, None, (), ("<u>",), ("<script>",)
    )
    made = str(html_repr.transaction_card(evil))
    assert "<b>&\"' " in words(made)
    assert "<u>" in words(made)
    assert "<script>" in words(made)
