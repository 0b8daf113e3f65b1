from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from slackwater.errors import CommitOwnerBusy, InvalidArgument, StorageError, UnratifiedCommit
from slackwater.owner.api.commits import CommitConflict, CommitRequest, CommitResponse
from slackwater.owner.served.app import create_app
from slackwater.owner.served.http.limits import RateLimits
from slackwater.owner.served.responses import RequestRejected
from slackwater.owner.served.settings import ServedSettings
from slackwater.owner.served.worker_pools import WorkerPools
from tests.owner.served.memory_owner import MemoryOwner
from tests.owner.served.serving import AppClient, new_id, taken

JSON = {"Content-Type": "application/json"}


def _posted(settings: ServedSettings, content: Any, headers: dict[str, str] | None = None) -> tuple[int, str]:
    client = AppClient(create_app(MemoryOwner(), None, settings))
    answer = client.post("/v1/repair", content=content, headers={**JSON, **(headers or {})})
    return answer.status_code, answer.json().get("error", "")


def _chunks(*chunks: bytes) -> AsyncIterator[bytes]:
    async def each() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    return each()


def test_a_body_of_just_the_allowed_size_passes() -> None:
    content = b"{" + b" " * 98 + b"}"
    assert _posted(ServedSettings(max_body_bytes=100), content) == (200, "")
    assert _posted(ServedSettings(max_body_bytes=99), content) == (413, "InvalidArgument")


def test_a_body_that_does_not_say_its_size_is_counted() -> None:
    settings = ServedSettings(max_body_bytes=100)
    assert _posted(settings, _chunks(b"{", b" " * 98, b"}")) == (200, "")
    assert _posted(settings, _chunks(*[b" " * 60] * 2)) == (413, "InvalidArgument")


def test_bodies_together_take_no_more_memory_than_is_set_aside() -> None:
    settings = ServedSettings(max_body_bytes=1000, max_bytes_in_flight=100)
    assert _posted(settings, _chunks(b" " * 101)) == (429, "CommitOwnerBusy")


def test_a_body_that_was_refused_leaves_room_for_others() -> None:
    client = AppClient(create_app(MemoryOwner(), None, ServedSettings(max_body_bytes=100, max_bytes_in_flight=1000)))
    for _ in range(5):
        assert client.post("/v1/repair", content=_chunks(b" " * 90, b" " * 20), headers=JSON).status_code == 413
    assert client.post("/v1/repair", content=b"{}", headers=JSON).status_code == 200


def test_a_body_that_is_compressed_is_refused() -> None:
    assert _posted(ServedSettings(), b"{}", {"Content-Encoding": "gzip"}) == (415, "InvalidArgument")


def test_a_body_that_does_not_come_is_not_waited_for_long() -> None:
    async def never() -> AsyncIterator[bytes]:
        yield b"{"
        await anyio.sleep_forever()

    assert _posted(ServedSettings(body_timeout_s=0.01), never()) == (408, "CommitOwnerUnavailable")


def test_a_burst_is_taken_and_then_so_many_a_second() -> None:
    now = 100.0
    limits = RateLimits(2.0, monotonic=lambda: now)
    limits.take("a")
    limits.take("a")
    with pytest.raises(RequestRejected, match="more than 2 requests a second") as refused:
        limits.take("a")
    assert (refused.value.status, refused.value.headers) == (429, {"Retry-After": "1"})
    limits.take("b")
    now += 0.5
    limits.take("a")
    with pytest.raises(RequestRejected):
        limits.take("a")


def test_a_slow_rate_says_how_long_to_wait() -> None:
    limits = RateLimits(0.1, monotonic=lambda: 0.0)
    limits.take("a")
    with pytest.raises(RequestRejected) as refused:
        limits.take("a")
    assert refused.value.headers == {"Retry-After": "10"}


def test_a_caller_that_is_too_fast_is_told_when_to_come_back() -> None:
    client = AppClient(create_app(MemoryOwner(), None, ServedSettings(rate_per_s=0.5)))
    assert client.get("/v1/tables").status_code == 200
    answer = client.get("/v1/tables")
    assert (answer.status_code, answer.json()["error"], answer.headers["Retry-After"]) == (429, "CommitOwnerBusy", "2")
    assert client.get("/healthz").status_code == 200


def test_no_more_calls_wait_than_the_settings_say() -> None:
    open_gate, at_work = threading.Event(), threading.Event()

    def slow(number: int) -> int:
        at_work.set()
        open_gate.wait()
        return number

    async def crowd() -> list[int | str]:
        workers = WorkerPools(ServedSettings(concurrent_commits=1, waiting_calls=1))
        results: list[int | str] = []

        async def one(number: int) -> None:
            try:
                results.append(await workers.ratify(slow, number))
            except CommitOwnerBusy:
                results.append("busy")
                open_gate.set()

        async with anyio.create_task_group() as group:
            for number in range(3):
                group.start_soon(one, number)
        return results

    assert anyio.run(crowd) == ["busy", 0, 1]


def test_commits_that_wait_do_not_keep_readers_waiting() -> None:
    open_gate = threading.Event()

    async def both() -> str:
        workers = WorkerPools(ServedSettings(concurrent_commits=1, concurrent_reads=1))
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(workers.settle, open_gate.wait)
            await anyio.wait_all_tasks_blocked()
            found = await workers.look(lambda: "read")
            open_gate.set()
        return found

    assert anyio.run(both) == "read"


def test_an_owner_that_hangs_is_not_well() -> None:
    open_gate = threading.Event()

    async def looked() -> bool:
        workers = WorkerPools(ServedSettings(health_timeout_s=0.01))
        found = [await workers.is_well(open_gate.wait), await workers.is_well(open_gate.wait)]
        open_gate.set()
        return any(found)

    assert anyio.run(looked) is False


@pytest.mark.parametrize("name", ["max_body_bytes", "rate_per_s", "concurrent_commits", "body_timeout_s"])
def test_settings_that_let_nothing_through_are_refused(name: str) -> None:
    nothing: dict[str, Any] = {name: 0}
    with pytest.raises(InvalidArgument, match=f"the setting {name} must be greater than 0, found 0"):
        ServedSettings(**nothing)


class _Failing(MemoryOwner):
    def __init__(self, failure: Exception) -> None:
        super().__init__()
        self._failure = failure

    def commit(self, request: CommitRequest) -> CommitResponse | CommitConflict:
        raise self._failure

    def repair(self, table_id: str | None = None) -> list[str]:
        raise self._failure


def _body(**changes: Any) -> dict[str, Any]:
    return {"commitId": new_id(), "version": 1, "actions": [{"commitInfo": {}}], **changes}


@pytest.mark.parametrize("failure", [RuntimeError("password=hunter2"), KeyError("x"), MemoryError()])
def test_a_failure_while_committing_is_an_unknown_outcome_without_internals(failure: Exception) -> None:
    owner = _Failing(failure)
    answer = AppClient(create_app(owner, None)).post(f"/v1/tables/{taken(owner)}/commits", json=_body())
    assert (answer.status_code, answer.json()["error"]) == (504, "CommitUnknown")
    assert "hunter2" not in answer.text


def test_another_failure_is_an_internal_error_without_internals() -> None:
    answer = AppClient(create_app(_Failing(RuntimeError("password=hunter2")), None)).post("/v1/repair", json={})
    assert (answer.status_code, answer.json()["error"]) == (500, "SlackwaterError")
    assert "hunter2" not in answer.text


@pytest.mark.parametrize(("failure", "status"), [(StorageError("disk"), 500), (UnratifiedCommit("v3"), 409)])
def test_an_error_of_the_owner_arrives_with_its_message(failure: Exception, status: int) -> None:
    owner = _Failing(failure)
    answer = AppClient(create_app(owner, None)).post(f"/v1/tables/{taken(owner)}/commits", json=_body())
    assert answer.status_code == status
    assert (answer.json()["error"], answer.json()["message"]) == (type(failure).__name__, str(failure))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda body: body | {"version": -1},
        lambda body: body | {"version": 2**63},
        lambda body: body | {"version": "1"},
        lambda body: body | {"version": 1.5},
        lambda body: body | {"version": True},
        lambda body: body | {"commitId": body["commitId"].upper() + "0"},
        lambda body: body | {"commitId": "{" + body["commitId"] + "}"},
        lambda body: body | {"isReplay": "true"},
        lambda body: body | {"isreplay": True},
        lambda body: body | {"commit_id": body["commitId"]},
        lambda body: body | {"actions": []},
        lambda body: body | {"actions": {}},
        lambda body: body | {"actions": [{"commitInfo": {}, "add": {}}]},
        lambda body: body | {"actions": [{"commitInfo": {}}, {"add": "x"}]},
        lambda body: {key: value for key, value in body.items() if key != "version"},
        lambda body: [body],
        lambda body: None,
    ],
)
def test_a_commit_that_is_none_never_reaches_the_owner(spoil: Callable[[dict[str, Any]], Any]) -> None:
    owner = MemoryOwner()
    table_id = taken(owner)
    answer = AppClient(create_app(owner, None)).post(f"/v1/tables/{table_id}/commits", json=spoil(_body()))
    assert (answer.status_code, answer.json()["error"]) == (422, "InvalidArgument"), answer.text
    assert owner.requests == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b'{"version": NaN}',
        b'{"version": 1e999}',
        b"[" * 2000,
        b"\xef\xbb\xbf{}",
        b'{"tableId":"\\ud800"}',
    ],
)
def test_what_is_no_json_is_refused(content: bytes) -> None:
    assert _posted(ServedSettings(), content) == (422, "InvalidArgument")


@pytest.mark.parametrize(
    "change",
    [
        {"name": ".hidden"},
        {"name": "a/b"},
        {"name": ""},
        {"name": "x" * 256},
        {"location": ""},
        {"location": "file:///a\x00b"},
        {"previousTimestampMs": -1},
        {"tableId": "x"},
    ],
)
def test_a_proposal_that_is_none_never_reaches_the_owner(change: dict[str, Any]) -> None:
    owner = MemoryOwner()
    proposal = _body(version=0, tableId=new_id(), name="new", location="file:///lake/new") | change
    answer = AppClient(create_app(owner, None)).post("/v1/tables", json=proposal)
    assert (answer.status_code, answer.json()["error"]) == (422, "InvalidArgument"), answer.text
    assert owner.tables() == []


@pytest.mark.parametrize(
    "path",
    [
        "/v1/tables/x/commits?startVersion=0",
        "/v1/tables/{table}/commits",
        "/v1/tables/{table}/commits?startVersion=-1",
        "/v1/tables/{table}/commits?startVersion=x",
        "/v1/tables/{table}/commits?startVersion=0&endVersion=-2",
        "/v1/tables/{table}/commits?startVersion=0&withdata=true",
        "/v1/tables/.hidden",
        "/v1/tables/%00",
        "/v1/tables/flights%0a",
    ],
)
def test_a_question_that_is_none_is_refused(path: str) -> None:
    owner = MemoryOwner()
    answer = AppClient(create_app(owner, None)).get(path.format(table=taken(owner)))
    assert (answer.status_code, answer.json()["error"]) == (422, "InvalidArgument"), answer.text


def test_what_was_sent_is_not_repeated_in_a_refusal() -> None:
    answer = AppClient(create_app(MemoryOwner(), None)).post("/v1/repair", json={"tableId": "slw_secret"})
    assert answer.status_code == 422
    assert "secret" not in answer.text


def test_ten_thousand_added_files_pass() -> None:
    owner = MemoryOwner()
    adds = [{"add": {"path": f"f{number}", "stats": "x" * 900}} for number in range(10_000)]
    body = _body(actions=[{"commitInfo": {}}, *adds])
    answer = AppClient(create_app(owner, None)).post(f"/v1/tables/{taken(owner)}/commits", json=body)
    assert answer.status_code == 200
    assert len(owner.requests[0].actions) == 10_001
