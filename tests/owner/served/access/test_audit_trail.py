"""The audit trail between the requests and the writer of its records."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from slackwater.owner.database.database import Database
from slackwater.owner.served.access.audit_trail import AuditLimits, AuditRecord, AuditTrail
from slackwater.owner.served.access.permissions import Scope
from slackwater.owner.served.app import create_app
from slackwater.owner.served.request_observer import Observation
from slackwater.owner.served.tokens import Tokens
from tests.contract.owners import eventually
from tests.owner.served.memory_owner import MemoryOwner
from tests.owner.served.serving import AppClient, new_id, taken

SOON = AuditLimits(batch_s=0.01)
NEVER = AuditLimits(batch_s=3600.0)


class Written:
    """A writer that keeps the batches, and fails as often as it is to."""

    def __init__(self, failures: int = 0) -> None:
        self.batches: list[list[AuditRecord]] = []
        self.failures = failures
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def __call__(self, records: Sequence[AuditRecord]) -> None:
        self.may_go_on.wait(30)
        if self.failures > 0:
            self.failures -= 1
            raise OSError("the disk is full")
        self.batches.append(list(records))

    @property
    def records(self) -> list[AuditRecord]:
        return [record for batch in self.batches for record in batch]


Begin = Callable[..., AuditTrail]


@pytest.fixture
def begin() -> Iterator[Begin]:
    begun: list[AuditTrail] = []

    def trail(write: Written, limits: AuditLimits = NEVER, **more: Any) -> AuditTrail:
        begun.append(AuditTrail(write, limits, **more))
        return begun[-1]

    yield trail
    for each in begun:
        each.close()
        assert not each._thread.is_alive()


def seen(number: int = 0, **more: Any) -> Observation:
    told = {"method": "POST", "path": f"/{number}", "client": "10.0.0.1", "route": "/r", "caller": "etl"}
    return Observation(**{**told, "status": 200, **more})


def metrics(trail: AuditTrail) -> dict[str, float]:
    return {each.name.removeprefix("slackwater_audit_"): each.samples[0].value for each in trail.collect()}


def test_a_batch_is_written_when_it_is_complete_or_some_seconds_old(begin: Begin) -> None:
    written = Written()
    trail = begin(written, AuditLimits(batch_records=3, batch_s=3600.0))
    for number in range(7):
        trail.observe(seen(number))
    eventually(lambda: len(written.records) == 6)
    assert {len(batch) for batch in written.batches} == {3}
    trail.close()
    assert [record.path for record in written.records] == [f"/{number}" for number in range(7)]
    late = Written()
    begin(late, SOON).observe(seen())
    eventually(lambda: len(late.records) == 1)


def test_the_rest_is_written_at_the_end_in_batches(begin: Begin) -> None:
    written = Written()
    trail = begin(written, AuditLimits(batch_records=4, batch_s=3600.0))
    written.may_go_on.clear()
    for number in range(10):
        trail.observe(seen(number))
    written.may_go_on.set()
    trail.close()
    assert [len(batch) for batch in written.batches] == [4, 4, 2]
    assert metrics(trail) == {"records": 10.0, "left_out": 0.0, "failures": 0.0}


def test_a_failing_writer_is_reported_and_called_again_with_the_same_records(
    begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    written = Written(failures=3)
    trail = begin(written, SOON)
    with caplog.at_level(logging.ERROR):
        trail.observe(seen())
        eventually(lambda: len(written.records) == 1)
    assert "the audit log cannot be written" in caplog.text
    assert "the disk is full" in caplog.text
    assert metrics(trail) == {"records": 1.0, "left_out": 0.0, "failures": 3.0}


def test_a_writer_that_hangs_or_fails_takes_bounded_memory_and_delays_no_request(
    begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    written = Written()
    written.may_go_on.clear()
    trail = begin(written, AuditLimits(batch_s=0.0, kept_entries=10))
    with caplog.at_level(logging.ERROR):
        for number in range(20):
            # A record of one table counts as two entries.
            trail.observe(seen(number, versions={new_id(): 1}))
    assert metrics(trail)["left_out"] == 15.0
    assert "a record was left out" in caplog.text
    written.may_go_on.set()
    trail.close()
    assert [record.path for record in written.records] == [f"/{number}" for number in range(5)]
    trail = begin(Written(failures=9), NEVER)
    trail.observe(seen())
    with caplog.at_level(logging.ERROR):
        trail.close()
    assert "1 records of the audit log were not written" in caplog.text


def test_requests_without_a_token_are_limited_and_recorded_only_if_refused(begin: Begin) -> None:
    now_s, written = [100.0], Written()
    trail = begin(written, AuditLimits(batch_s=3600.0, anonymous_per_minute=2), monotonic=lambda: now_s[0])
    for number in range(5):
        trail.observe(seen(number, caller=None, status=401))
    trail.observe(seen(5, caller=None, status=200))
    trail.observe(seen(6))
    now_s[0] += 60
    trail.observe(seen(7, caller=None, status=401))
    trail.close()
    assert [record.path for record in written.records] == ["/0", "/1", "/6", "/7"]
    assert metrics(trail)["left_out"] == 3.0


def test_texts_are_short_and_utf8(begin: Begin) -> None:
    written = Written()
    trail = begin(written)
    trail.observe(seen(method="M" * 5000, status=405))
    trail.observe(Observation("GET", "/\udcff", "", caller="etl"))
    trail.close()
    assert [len(record.method) for record in written.records] == [1024, 3]
    assert written.records[1].path == "/?"


def test_each_request_has_its_caller_tables_versions_and_outcome(begin: Begin, tmp_path: Path) -> None:
    database, owner, written = Database(f"sqlite:///{tmp_path}/owner.db"), MemoryOwner(), Written()
    tokens, trail = Tokens(database), begin(written)
    ids = {name: taken(owner, name) for name in ("sales.orders", "sales.stock", "hr.people")}
    orders, stock, people = ids.values()
    secret = tokens.create("etl", [Scope.ADMIN], grants=["sales.*:admin", "hr.*:read"])
    client = AppClient(create_app(owner, tokens, audit=trail), {"Authorization": f"Bearer {secret}"})
    info: list[Any] = [{"commitInfo": {}}]
    zone = {"lowMs": 5, "highMs": None}
    commit, txn, unity = {"commitId": new_id(), "version": 1, "actions": info}, new_id(), "/api/2.1/unity-catalog"
    items = [{"tableId": orders}, {"tableId": stock}]
    both = [{"tableId": each, "version": 2 if each == orders else 1, "actions": info} for each in (orders, stock)]
    work = {"txnId": txn, "range": zone, "reads": [{"tableId": people, "version": 0}], "writes": both}
    lock = {"startedMs": 1, "items": items, "isExclusive": True, "timeoutS": 0}
    adoption = {**commit, "version": 0, "tableId": new_id(), "name": "hr.new", "location": "file:///lake/x"}
    at = {"table_id": orders, "table_uri": "file:///lake/sales.orders", "start_version": 900}
    asked: list[tuple[str, str, Any, int, list[Any]]] = [
        ("POST", f"/v1/tables/{orders}/commits", commit, 200, [(orders, None, 1)]),
        ("POST", f"/v1/tables/{orders}/commits", {**commit, "commitId": new_id()}, 409, [(orders, None, None)]),
        ("POST", f"/v1/tables/{people}/commits", commit, 403, [(people, None, None)]),
        ("GET", "/v1/tables/sales.stock", None, 200, [(None, "sales.stock", None)]),
        ("GET", f"{unity}/delta/v1/catalogs/c/schemas/default/tables/no", None, 404, [(None, "no", None)]),
        ("GET", f"{unity}/delta/preview/commits", at, 200, [(orders, None, None)]),
        ("POST", f"/v1/transactions/{txn}/locks", lock, 200, [(orders, None, None), (stock, None, None)]),
        ("POST", f"/v1/transactions/{txn}/time", {"range": zone, "holds": [stock]}, 200, [(stock, None, None)]),
        ("POST", "/v1/transactions", work, 200, [(orders, None, 2), (stock, None, 1), (people, None, None)]),
        ("POST", "/v1/tables", adoption, 403, [(adoption["tableId"], None, None), (None, "hr.new", None)]),
        ("POST", "/v1/repair", {"tableId": orders}, 200, [(orders, None, None)]),
        ("GET", "/nothing", None, 404, []),
    ]  # fmt: skip
    for method, path, body, status, _ in asked:
        answer = client.request(method, path, json=body)
        assert answer.status_code == status, answer.text
    assert AppClient(create_app(owner, tokens, audit=trail)).get("/v1/tables?secret=hunter2").status_code == 401
    trail.close()
    found = written.records
    tables = [[(t.table_id, t.name, t.version) for t in record.tables] for record in found]
    assert tables == [*(each for *_, each in asked), []]
    told = [(record.method, record.path, record.status) for record in found[:-1]]
    assert told == [(method, path, status) for method, path, _, status, _ in asked]
    assert {record.caller for record in found[:-2]} == {"etl"}
    assert (found[-1].caller, found[-1].error, found[-1].path) == (None, "NotAuthorized", "/v1/tables")
    assert found[0].route == "/v1/tables/{table_id}/commits"
    assert {record.transaction for record in found if txn in record.path} == {txn}
    assert len({record.record_id for record in found}) == len(found)
    assert secret not in str(found)
    assert "hunter2" not in str(found)
    database.close()


def test_metrics_of_the_trail_are_exposed(begin: Begin) -> None:
    trail = begin(Written())
    client = AppClient(create_app(MemoryOwner(), None, audit=trail))
    text = client.get("/metrics").text
    assert all(f"slackwater_audit_{name}_total" in text for name in ("records", "left_out", "failures"))
