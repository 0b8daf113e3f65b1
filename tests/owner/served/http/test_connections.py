"""Connections that ask nothing, in whatever number, stop no server and fill no log."""

from __future__ import annotations

import errno
import io
import logging
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from slackwater.owner.served.http.access_log import JsonLines, RepeatLimiter
from slackwater.owner.served.http.connections import Accepted, AdmittingListener, Connections
from tests.owner.served.crowding import Crowded, crowded
from tests.owner.served.memory_owner import MemoryOwner
from tests.owner.served.serving import address_of, served

LONG_S = 3600.0
"""No time-out of a test's server ends before the test."""
PATIENT: dict[str, Any] = {"head_timeout_s": LONG_S, "send_timeout_s": LONG_S, "body_timeout_s": LONG_S}


def _connect(url: str) -> socket.socket:
    return socket.create_connection(address_of(url), timeout=60)


def _is_ended(connection: socket.socket) -> bool:
    """Whether the server has ended `connection`, which is waited for."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


@contextmanager
def _idlers(url: str, number: int, sent: bytes = b"") -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        made = []
        for _ in range(number):
            made.append(stack.enter_context(_connect(url)))
            if sent:
                with ExitStack() as refused:
                    refused.callback(made[-1].sendall, sent)
        yield made


def _is_served(server: Crowded) -> bool:
    return httpx.get(f"{server.url}/v1/tables", timeout=60).status_code == 200


@pytest.mark.parametrize(
    ("number", "most_log_bytes"), [(150, 100_000), pytest.param(10_000, 1_000_000, marks=pytest.mark.long)]
)
@pytest.mark.parametrize("sent", [b"", b"GET /v1/tables HTTP/1.1\r\nHost: 127"])
def test_idle_connections_stop_no_server_that_has_few_descriptors(
    tmp_path: Path, number: int, most_log_bytes: int, sent: bytes
) -> None:
    held = min(number, 150)
    with crowded(tmp_path / "log", descriptors=64, **PATIENT) as server:
        for start in range(0, number, held):
            with _idlers(server.url, held, sent if start == 0 else b""):
                assert _is_served(server)
                assert server.process.num_fds() < 64
        assert _is_served(server)
        lines = server.lines()
    assert server.log.stat().st_size < most_log_bytes
    events = {line["event"] for line in lines}
    assert "an idle connection was closed to free its place for a new one" in events


def test_a_server_whose_descriptors_are_used_up_by_other_things_is_not_stopped_by_idle_connections(
    tmp_path: Path,
) -> None:
    with crowded(tmp_path / "log", descriptors=64, used_up=40, **PATIENT) as server, _idlers(server.url, 100):
        # Whoever is refused has made room for one that comes later.
        assert any(_is_perhaps_served(server) for _ in range(100))
        assert len(server.lines()) < 500
    events = {line["event"] for line in server.lines()}
    assert "a connection was refused: no file descriptors are left (Too many open files)" in events


def _is_perhaps_served(server: Crowded) -> bool:
    try:
        return _is_served(server)
    except httpx.TransportError:
        return False


def test_the_longest_idle_connection_of_an_address_makes_room_for_its_next() -> None:
    connections = Connections(most=10, most_of_address=2)
    with ExitStack() as stack:
        first, second, third, other = (_accepted(stack, connections, name) for name in ("a", "a", "a", "b"))
        assert connections.admit(other[0])
        assert connections.admit(first[0])
        assert connections.admit(second[0])
        connections.set_busy(first[0].fileno())
        assert connections.admit(third[0])
        assert second[1].recv(1) == b""
        connections.set_busy(third[0].fileno())
        late = _accepted(stack, connections, "a")
        assert not connections.admit(late[0])
        connections.set_idle(first[0].fileno())
        assert connections.admit(late[0])
        assert first[1].recv(1) == b""


def test_where_all_are_busy_the_next_is_refused_until_one_is_closed() -> None:
    connections = Connections(most=1, most_of_address=5)
    with ExitStack() as stack:
        first, second = (_accepted(stack, connections, name) for name in "ab")
        assert connections.admit(first[0])
        connections.set_busy(first[0].fileno())
        assert not connections.admit(second[0])
        first[0].close()
        first[0].close()
        assert connections.admit(second[0])


def _accepted(stack: ExitStack, connections: Connections, address: str) -> tuple[Accepted, socket.socket]:
    ours, theirs = socket.socketpair()
    stack.enter_context(theirs)
    theirs.settimeout(60)
    return stack.enter_context(Accepted(ours, address, connections)), theirs


def test_a_request_that_does_not_come_ends_its_connection(tmp_path: Path) -> None:
    with crowded(tmp_path / "log", head_timeout_s=0.2) as server:
        for sent in (
            b"",
            b"GET /healthz HTTP/1.1\r\nHost: 1",
            b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /h",
        ):
            with _connect(server.url) as connection:
                connection.sendall(sent)
                if sent.endswith(b"GET /h"):
                    assert connection.recv(20).startswith(b"HTTP/1.1 200")
                while connection.recv(4096):
                    pass


def test_a_body_that_nobody_reads_any_more_ends_its_connection(tmp_path: Path) -> None:
    with crowded(tmp_path / "log", body_timeout_s=0.2, head_timeout_s=LONG_S) as server, _connect(server.url) as slow:
        slow.sendall(b"POST /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{")
        assert slow.recv(12) == b"HTTP/1.1 404"
        while slow.recv(4096):
            pass


def test_a_client_that_takes_nothing_of_an_answer_ends_its_connection(tmp_path: Path) -> None:
    with (
        crowded(tmp_path / "log", send_timeout_s=0.2, head_timeout_s=LONG_S) as server,
        _connect(server.url) as deaf,
        pytest.raises(ConnectionError),
    ):
        _ask_and_never_read(deaf)


def _ask_and_never_read(connection: socket.socket) -> None:
    """Ask for more answers than the kernel keeps for anybody."""
    request = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    for _ in range(100_000):
        connection.sendall(request * 10)


def test_where_descriptors_are_exhausted_whoever_waits_is_closed_and_the_next_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures = [OSError(errno.EMFILE, "Too many open files")]
    accept = socket.socket.accept

    def failing(self: socket.socket) -> object:
        if failures:
            raise failures.pop()
        return accept(self)

    with served(MemoryOwner()) as url:
        monkeypatch.setattr(socket.socket, "accept", failing)
        with _connect(url) as refused:
            assert _is_ended(refused)
        assert httpx.get(f"{url}/v1/tables", timeout=60).status_code == 200


def test_where_no_descriptor_can_be_set_aside_the_loop_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: socket.socket) -> object:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket.socket, "accept", failing)
    with AdmittingListener(socket.AF_INET, socket.SOCK_STREAM) as listening:
        raised = []
        for _ in range(4):
            with pytest.raises(OSError) as found:  # noqa: PT011 - it is one of two kinds
                listening.accept()
            raised.append(type(found.value) is OSError)
    assert raised == [True, False, True, False]


def test_faults_that_repeat_are_counted_and_not_logged() -> None:
    now = 0.0
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    handler.addFilter(RepeatLimiter(lambda: now))
    for number in range(5000):
        text = f"socket.accept() out of system resource\nsocket: <fd={number}>"
        handler.handle(logging.LogRecord("asyncio", logging.ERROR, "", 0, text, (), None))
    handler.handle(logging.LogRecord("slackwater", logging.ERROR, "", 0, "another", (), None))
    assert len(stream.getvalue().splitlines()) == 101
    now = 61.0
    handler.handle(logging.LogRecord("asyncio", logging.ERROR, "", 0, text, (), None))
    assert orjson.loads(stream.getvalue().splitlines()[-1])["leftOut"] == 4900


def test_requests_of_nobody_in_particular_do_not_fill_the_log(tmp_path: Path) -> None:
    with crowded(tmp_path / "log") as server, httpx.Client(base_url=server.url) as client:
        for _ in range(300):
            assert client.get("/nothing" + "/x" * 2000).status_code == 404
        for _ in range(2):
            assert client.get("/v1/tables").status_code == 200
        # The line of the one before the last is written.
        assert server.log.stat().st_size < 200_000
        statuses = [line["status"] for line in server.lines() if line["event"] == "request"]
    assert statuses.count(404) == 100
    assert 200 in statuses
