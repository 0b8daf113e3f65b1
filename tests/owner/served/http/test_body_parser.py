"""Bodies that are large, or take much memory, keep nobody else waiting and take no more of it than is set aside."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.owner.api import actions
from slackwater.owner.served.app import create_app
from slackwater.owner.served.http.body_parser import ValueCount
from slackwater.owner.served.settings import MIB, ServedSettings
from tests.owner.served.crowding import crowded
from tests.owner.served.memory_owner import MemoryOwner
from tests.owner.served.serving import AppClient, new_id, served, taken

JSON = {"Content-Type": "application/json"}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text('a"\\,[{é\n'),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('k"\\{,', max_size=3), inner, max_size=4),
    max_leaves=20,
)


def _number_of_values(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_number_of_values, value.values()))
    return 1 + sum(map(_number_of_values, value)) if isinstance(value, list) else 1


@given(VALUES, st.integers(1, 7))
def test_values_are_counted_whatever_strings_hold_and_wherever_pieces_end(value: Any, size: int) -> None:
    content = orjson.dumps(value)
    counted = ValueCount()
    for start in range(0, len(content), size):
        counted.add(content[start : start + size])
        counted.add(b"")
    holders = sum(content.count(empty) for empty in (b"[]", b"{}"))
    assert _number_of_values(value) <= counted.values <= 2 * _number_of_values(value) + holders
    text = ValueCount()
    text.add(orjson.dumps(content.decode()))
    assert text.values == 1


def test_a_request_is_answered_while_the_values_of_another_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looking, answered = threading.Event(), threading.Event()
    in_order: list[bool] = []
    check = actions._check_values

    def held(value: dict[str, Any], index: int) -> None:
        looking.set()
        in_order.append(answered.wait(30))
        check(value, index)

    memory = MemoryOwner()
    table_id = taken(memory)
    monkeypatch.setattr(actions, "_check_values", held)
    body = {"commitId": new_id(), "version": 1, "actions": [{"commitInfo": {}}]}
    with served(memory) as url, ThreadPoolExecutor(1) as pool:
        pending = pool.submit(httpx.post, f"{url}/v1/tables/{table_id}/commits", json=body, timeout=60)
        assert looking.wait(30)
        assert httpx.get(f"{url}/v1/tables", timeout=60).status_code == 200
        answered.set()
        assert pending.result().status_code == 200
    assert in_order == [True]


def test_a_body_of_too_many_values_is_refused_before_it_is_parsed() -> None:
    client = AppClient(create_app(MemoryOwner(), None, ServedSettings(max_body_bytes=100_000)))
    answer = client.post("/v1/repair", content=b"[" + b"0," * 4000 + b"0]", headers=JSON)
    assert (answer.status_code, answer.json()["error"]) == (413, "InvalidArgument")
    assert "at most 3125 JSON values" in answer.json()["message"]


@pytest.mark.parametrize(
    "change",
    [
        {f"x{number}": 0 for number in range(65)},
        {"range": {f"x{number}": 0 for number in range(65)}},
        {"reads": [{f"x{number}": 0 for number in range(65)}]},
    ],
)
def test_fields_that_nobody_knows_are_not_listed_one_by_one(change: dict[str, Any]) -> None:
    body = {"txnId": new_id(), "range": {"lowMs": 0, "highMs": None}, **change}
    answer = AppClient(create_app(MemoryOwner(), None)).post("/v1/transactions", json=body)
    assert answer.status_code == 422
    assert "an object has more than 64 fields" in answer.json()["message"]


def _worst(kind: str, size_bytes: int) -> bytes:
    """About `size_bytes` that take as much memory as they can: `kind` says how."""
    ids = b'{"commitId":"%b","version":1,"actions":[' % new_id().encode()
    wanted = {
        "values": b'{"a":{}},',
        "strings": b'{"a":{"b":"' + b"x" * 900 + '\U0001f600"}},'.encode(),
        "faults": b'{"reads":[' + b'{"x":0},',
        "fields": b'"xxxxxx%07d":0,',
    }[kind]
    if kind == "fields":
        return b"{" + b"".join(wanted % number for number in range(size_bytes // 20))[:-1] + b"}"
    if kind == "faults":
        return b'{"txnId":"x","range":{},"reads":[' + (b"0," * (size_bytes // 2))[:-1] + b"]}"
    return ids + (wanted * (size_bytes // len(wanted)))[:-1] + b"]}"


@pytest.mark.parametrize(
    "kind",
    [
        "values",
        "faults",
        pytest.param("strings", marks=pytest.mark.long),
        pytest.param("fields", marks=pytest.mark.long),
    ],
)
def test_many_large_bodies_take_no_more_memory_than_is_set_aside(tmp_path: Path, kind: str) -> None:
    most = 128 * MIB
    with crowded(tmp_path / "log", max_body_bytes=8 * MIB, max_bytes_in_flight=most) as server:
        path = "/v1/transactions" if kind == "faults" else f"/v1/tables/{new_id()}/commits"
        # What fits the limits, and what does not.
        contents = [_worst(kind, size) for size in (2 * MIB if kind != "strings" else 7 * MIB, 8 * MIB - 2000)]
        # What is loaded at the first request is not of the bodies.
        httpx.post(f"{server.url}{path}", content=b"{}", headers=JSON)
        before = server.process.memory_info().rss
        with ThreadPoolExecutor(8) as pool:
            asked = [
                pool.submit(httpx.post, f"{server.url}{path}", content=content, headers=JSON, timeout=120)
                for content in contents * 4
            ]
            highest = 0
            while wait(asked, timeout=0.01).not_done:
                highest = max(highest, server.process.memory_info().rss)
        assert {request.result().status_code for request in asked} <= {404, 413, 422, 429}
        assert highest - before < 1.5 * most
