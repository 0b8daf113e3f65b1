"""A real server on a real port, and real clients of it."""

from __future__ import annotations

import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import orjson
import pytest

from slackwater.errors import (
    CommitOwnerUnavailable,
    InvalidArgument,
    NotAuthorized,
    TableAlreadyExists,
    TableNotFound,
)
from slackwater.owner.api.commits import CommitConflict, CommitResponse, TableState
from slackwater.owner.database.database import Database
from slackwater.owner.served.access.permissions import Scope
from slackwater.owner.served.client.http_owner import HttpOwner
from slackwater.owner.served.server import Binding, OwnerServer
from slackwater.owner.served.settings import ServedSettings
from slackwater.owner.served.tokens import Tokens
from tests.owner.served.certificates import self_signed
from tests.owner.served.memory_owner import OWNER_ID, MemoryOwner
from tests.owner.served.serving import address_of, commit_request, new_id, proposal, served, taken

ROOT = Path(__file__).parents[3]


@pytest.fixture
def memory() -> MemoryOwner:
    return MemoryOwner()


@pytest.fixture
def owner(memory: MemoryOwner) -> Iterator[HttpOwner]:
    with served(memory) as url:
        client = HttpOwner(url)
        yield client
        client.close()


def test_every_call_answers_as_the_owner_itself_does(owner: HttpOwner, memory: MemoryOwner) -> None:
    table_id = taken(owner)
    request = commit_request(table_id, 1)
    first = owner.commit(request)
    assert isinstance(first, CommitResponse)
    assert owner.commit(request).commit == first.commit  # type: ignore[union-attr]
    assert owner.commit(commit_request(table_id, 1)) == CommitConflict(1)
    owner.commit(commit_request(table_id, 2))
    assert owner.get_commits(table_id, 1, 1, with_data=True) == memory.get_commits(table_id, 1, 1, with_data=True)
    assert owner.get_commits(table_id, 0) == memory.get_commits(table_id, 0)
    assert owner.get_commits(table_id, 0).commits[0].data is None
    assert owner.backfill_to_version(table_id, 1) == 1
    assert [commit.version for commit in owner.get_commits(table_id, 0).commits] == [2]
    assert owner.backfill_to_version(table_id) == 2
    assert owner.tables() == memory.tables()
    assert owner.table("flights") == memory.table("flights")
    assert owner.repair() == owner.repair(table_id) == []
    assert isinstance(owner.release(commit_request(table_id, 3)), CommitResponse)
    assert owner.table("flights").state is TableState.RELEASED
    assert owner.owner_id == OWNER_ID


def test_what_was_sent_is_what_the_owner_gets(owner: HttpOwner, memory: MemoryOwner) -> None:
    table_id = taken(owner)
    requests = [
        commit_request(table_id, 1, may_move=may_move, is_replay=is_replay)
        for may_move in (False, True)
        for is_replay in (False, True)
    ]
    for request in requests:
        owner.commit(request)
    assert memory.requests == requests


def test_errors_arrive_as_the_owner_raised_them(owner: HttpOwner) -> None:
    with pytest.raises(TableNotFound, match="knows no table named 'nope'"):
        owner.table("nope")
    with pytest.raises(TableNotFound):
        owner.commit(commit_request(new_id(), 1))
    with pytest.raises(InvalidArgument, match="version 8 does not exist"):
        owner.commit(commit_request(taken(owner), 9))
    with pytest.raises(TableAlreadyExists):
        owner.take(proposal("flights"))


def test_many_threads_of_one_client_commit_to_one_table_and_nothing_is_lost_or_doubled(
    owner: HttpOwner, memory: MemoryOwner
) -> None:
    table_id = taken(owner)

    def work(writer: int) -> list[int]:
        landed: list[int] = []
        version = 1
        while len(landed) < 10:
            answer = owner.commit(commit_request(table_id, version))
            if isinstance(answer, CommitResponse):
                landed.append(answer.commit.version)
            version = answer.latest_version + 1
        return landed

    with ThreadPoolExecutor(16) as pool:
        landed = [version for found in pool.map(work, range(16)) for version in found]
    assert sorted(landed) == list(range(1, 161))
    assert memory.table("flights").ratified_version == 160


def test_as_many_commits_as_there_are_threads_are_with_the_owner_at_once() -> None:
    all_there = threading.Barrier(48)
    memory = MemoryOwner(all_there.wait)
    with served(memory) as url:
        owner = HttpOwner(url)
        table_id = taken(owner)
        with ThreadPoolExecutor(48) as pool:
            answers = list(pool.map(lambda _: owner.commit(commit_request(table_id, 1)), range(48)))
        owner.close()
    assert sum(isinstance(answer, CommitResponse) for answer in answers) == 1


def test_a_commit_of_ten_thousand_files_passes_and_one_beyond_the_limit_is_refused(memory: MemoryOwner) -> None:
    actions = [{"commitInfo": {}}, *({"add": {"path": f"f{number}", "stats": "x" * 900}} for number in range(10_000))]
    with served(memory) as url:
        owner = HttpOwner(url)
        assert isinstance(owner.commit(commit_request(taken(owner), 1, actions=actions)), CommitResponse)
        owner.close()
    with served(MemoryOwner(), settings=ServedSettings(max_body_bytes=1024 * 1024)) as url:
        owner = HttpOwner(url)
        with pytest.raises(InvalidArgument, match="at most 1048576 bytes"):
            owner.commit(commit_request(taken(owner), 1, actions=actions))
        owner.close()


def test_a_token_is_asked_for_over_the_wire_too(memory: MemoryOwner, tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/owner.db")
    tokens = Tokens(database)
    reader = tokens.create("reader", [Scope.READ])
    with served(memory, tokens) as url:
        for token in (None, "slw_" + "A" * 43):
            stranger = HttpOwner(url, token)
            with pytest.raises(NotAuthorized, match="token"):
                stranger.tables()
            stranger.close()
        owner = HttpOwner(url, reader)
        assert owner.tables() == []
        with pytest.raises(NotAuthorized, match="lacks the scope 'admin'"):
            owner.take(proposal("flights"))
        owner.close()
    database.close()


def test_the_owner_is_closed_when_the_server_has_ended(memory: MemoryOwner) -> None:
    with served(memory) as url:
        owner = HttpOwner(url)
        table_id = taken(owner)
        owner.commit(commit_request(table_id, 1))
        owner.close()
        was_closed = memory.is_closed
    assert (was_closed, memory.is_closed) == (False, True)
    assert memory.table("flights").backfilled_version == 1


def test_a_server_that_is_gone_is_unavailable() -> None:
    with served(MemoryOwner()) as url:
        pass
    owner = HttpOwner(url, timeout_s=0.2)
    with pytest.raises(CommitOwnerUnavailable, match="cannot be reached"):
        owner.tables()
    owner.close()


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    """`slow_server`, which does not outlive the test."""
    program = [sys.executable, "-m", "tests.owner.served.slow_server"]
    pipe = subprocess.PIPE
    with subprocess.Popen(program, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_told_to_stop_finishes_the_commit_in_flight_and_backfills(
    process: subprocess.Popen[str], number: signal.Signals
) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    url = process.stdout.readline().strip()
    owner = HttpOwner(url)
    table_id = taken(owner)
    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(owner.commit, commit_request(table_id, 1))
        assert process.stdout.readline() == "committing\n"
        process.send_signal(number)
        while "Waiting for connections to close" not in process.stderr.readline():
            assert process.poll() is None
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address_of(url)).close()
        assert not pending.done()
        process.stdin.write("go on\n")
        process.stdin.flush()
        answer = pending.result()
    owner.close()
    assert isinstance(answer, CommitResponse)
    assert process.stdout.readline() == "closed with [2] to backfill\n"
    assert process.stdout.readline() == "ended\n"
    for line in process.stderr:
        orjson.loads(line)
    assert process.wait() == 0


def test_a_client_that_breaks_off_in_the_middle_of_its_request_does_no_harm(memory: MemoryOwner) -> None:
    with served(memory) as url:
        owner = HttpOwner(url)
        table_id = taken(owner)
        with socket.create_connection(address_of(url)) as raw:
            head = f"POST /v1/tables/{table_id}/commits HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\n"
            raw.sendall(f'{head}Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{{"commitId"'.encode())
        assert owner.tables() == memory.tables()
        owner.close()
    assert memory.requests == []


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    return self_signed(tmp_path_factory.mktemp("tls"))


def test_tls_is_spoken_to_those_who_trust_the_certificate(memory: MemoryOwner, certificate: tuple[str, str]) -> None:
    binding = Binding("localhost", 0, *certificate)
    with served(memory, binding=binding) as url:
        assert url.startswith("https://localhost:")
        owner = HttpOwner(url, ca_file=certificate[0])
        assert owner.tables() == []
        owner.close()
        stranger = HttpOwner(url)
        with pytest.raises(CommitOwnerUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            stranger.tables()
        stranger.close()


def test_certificates_that_cannot_be_read_are_said(memory: MemoryOwner, certificate: tuple[str, str]) -> None:
    with pytest.raises(InvalidArgument, match="needs both"):
        OwnerServer(memory, None, Binding(port=0, certfile=certificate[0]))
    with pytest.raises(InvalidArgument, match="cannot be used"):
        OwnerServer(memory, None, Binding(port=0, certfile=certificate[1], keyfile=certificate[0]))
    with pytest.raises(InvalidArgument, match="cannot be read"):
        HttpOwner("https://localhost", ca_file=f"{certificate[0]}.not-there")
    with pytest.raises(InvalidArgument, match="cannot be read"):
        HttpOwner("https://localhost", ca_file=__file__)
    assert issubclass(ssl.SSLError, OSError)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "owner.example"])  # noqa: S104
def test_without_tokens_no_other_machine_is_let_in(memory: MemoryOwner, host: str) -> None:
    with pytest.raises(InvalidArgument, match="every client that reaches"):
        OwnerServer(memory, None, Binding(host, 0))


def test_a_port_that_is_taken_is_said(memory: MemoryOwner) -> None:
    with served(memory) as url:
        port = urlsplit(url).port
        assert port
        with pytest.raises(InvalidArgument, match=f"cannot listen on 127.0.0.1 port {port}"):
            OwnerServer(memory, None, Binding(port=port))


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_that_is_none_is_said(memory: MemoryOwner, port: int) -> None:
    with pytest.raises(InvalidArgument, match="a port is a number from 0 to 65535"):
        OwnerServer(memory, None, Binding(port=port))


def test_no_header_says_what_the_server_is_made_of(memory: MemoryOwner) -> None:
    with served(memory) as url:
        answer = httpx.get(f"{url}/v1/tables")
    assert "server" not in answer.headers
    assert answer.headers["Cache-Control"] == "no-store"
