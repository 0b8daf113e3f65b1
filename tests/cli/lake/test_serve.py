"""`slackwater serve` and `slackwater token`, the served owner a real process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from slackwater.errors import NotAuthorized, PathNotAllowed
from slackwater.owner.api.commits import OwnershipProposal
from slackwater.owner.embedded import DATABASE_FILE
from slackwater.owner.served.client.http_owner import HttpOwner
from slackwater.protocol.features.managed_commits import OWNER_NAME
from slackwater.protocol.properties.properties import MANAGED_COMMIT_OWNER
from tests.cli.commands import document, error, lines, run, usage_error
from tests.owner.served.access.provider import AUDIENCE, ISSUER, Provider, published
from tests.owner.served.certificates import self_signed
from tests.owner.served.serving import eventually_ready

PROGRAM = [sys.executable, "-c", "from slackwater.cli.main import app; app(prog_name='slackwater')"]


@pytest.fixture
def root(tmp_path: Path) -> str:
    """The place of a new lake."""
    assert run("lake", "create", str(tmp_path / "lake")).exit_code == 0
    return str(tmp_path / "lake")


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """The URL of `slackwater serve` with `arguments`, which ends well at the end."""
    with server_process(*arguments) as (process, url):
        yield url
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        log = process.stderr.read()
        assert process.wait() == 0, log


@contextmanager
def server_process(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`slackwater serve` with `arguments`, and its URL; it does not outlive the context."""
    program = [*PROGRAM, "serve", "--port", "0", "--public-url", "http://lake.example", *arguments]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            first = process.stdout.readline()
            if not first:
                pytest.fail(process.stderr.read())
            yield process, first.split()[-1]
        finally:
            process.kill()


def _proposal(location: str) -> OwnershipProposal:
    table_id, commit_id = str(uuid.uuid4()), str(uuid.uuid4())
    named = {MANAGED_COMMIT_OWNER: OWNER_NAME}
    actions: list[dict[str, Any]] = [
        {"commitInfo": {"txnId": commit_id}},
        {"metaData": {"id": table_id, "configuration": named}},
    ]
    return OwnershipProposal(table_id, "flights", location, commit_id, 0, actions)


def _created(*arguments: str) -> str:
    result = run("token", "create", *arguments)
    assert result.exit_code == 0, result.output
    (token,) = result.stdout.splitlines()
    return token


def test_a_lake_is_served_to_those_who_have_a_token(root: str, tmp_path: Path) -> None:
    reader = _created("reader", "--scope", "read", "--root", root)
    admin = _created("admin", "--scope", "read", "--scope", "admin", "--expires-days", "1", "--root", root)
    with serving("--root", root) as url:
        for token in (None, "slw_" + "A" * 43):
            stranger = HttpOwner(url, token)
            with pytest.raises(NotAuthorized):
                stranger.tables()
            stranger.close()
        owner = HttpOwner(url, reader)
        assert owner.tables() == []
        with pytest.raises(NotAuthorized, match="'reader' lacks the scope 'admin'"):
            owner.repair()
        owner.close()
        owner = HttpOwner(url, admin)
        assert owner.repair() == []
        with pytest.raises(PathNotAllowed):
            owner.take(_proposal(f"{tmp_path.as_uri()}/elsewhere"))
        owner.close()


def test_without_tokens_it_is_served_to_this_machine(root: str) -> None:
    with serving("--root", root, "--no-auth") as url:
        owner = HttpOwner(url)
        assert owner.tables() == []
        assert str(uuid.UUID(owner.owner_id)) == owner.owner_id
        owner.close()


def test_who_trusts_the_certificate_looks_at_a_lake_by_https(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    certificate, key = self_signed(tmp_path)
    tls = ("--host", "localhost", "--certfile", certificate, "--keyfile", key)
    with serving("--root", root, "--no-auth", *tls) as url:
        assert url.startswith("https://localhost:")
        for command in (("tables",), ("history",), ("as-of", "2026-11-21"), ("repair",), ("locks",)):
            name, *more = command
            assert "CERTIFICATE_VERIFY_FAILED" in error("lake", name, url, *more)
            assert run("lake", name, url, *more, "--ca-file", certificate).exit_code == 0
        monkeypatch.setenv("SSL_CERT_FILE", certificate)
        assert document("lake", "tables", url) == []
        assert "cannot be read" in error("lake", "tables", url, "--ca-file", key)


def test_without_tokens_no_other_machine_is_let_in(root: str) -> None:
    message = error("serve", "--root", root, "--no-auth", "--host", "192.0.2.1")
    assert message.startswith("error: without tokens, every client that reaches 192.0.2.1")


def test_tokens_are_listed_and_revoked(tmp_path: Path) -> None:
    where = ("--database", f"sqlite:///{tmp_path}/owner.db")
    token = _created("writer", "--scope", "commit", "--scope", "read", *where)
    _created("boss", "--scope", "admin", "--expires-days", "3", *where)
    shown = document("token", "list", *where)
    assert [(row["name"], row["scopes"]) for row in shown] == [("boss", ["admin"]), ("writer", ["commit", "read"])]
    assert shown[0]["expires"] is not None
    assert shown[1]["expires"] is None
    text = "\n".join(lines("token", "list", *where))
    assert "writer" in text
    assert token not in text + str(shown)
    assert lines("token", "revoke", "writer", *where) == []
    assert [row["name"] for row in document("token", "list", *where)] == ["boss"]
    assert error("token", "revoke", "writer", *where) == "error: no token named 'writer' exists"


def test_grants_are_shown_and_replaced(tmp_path: Path) -> None:
    where = ("--database", f"sqlite:///{tmp_path}/owner.db")
    _created("etl", "--scope", "commit", "--grant", "sales.*:commit", "--grant", "stock:read", *where)
    _created("loader", "--scope", "commit", *where)
    found = {row["name"]: row["grants"] for row in document("token", "list", *where)}
    assert found == {"etl": ["sales.*:commit", "stock:read"], "loader": None}
    text = "\n".join(lines("token", "list", *where))
    assert all(shown in text for shown in ("sales.*:commit", "stock:read", "all tables"))
    assert lines("token", "grant", "loader", "--grant", "stock:commit", *where) == []
    assert lines("token", "grant", "etl", "--all-tables", *where) == []
    found = {row["name"]: row["grants"] for row in document("token", "list", *where)}
    assert found == {"etl": None, "loader": ["stock:commit"]}
    assert error("token", "grant", "nobody", "--all-tables", *where) == "error: no token named 'nobody' exists"
    assert "do not include 'admin'" in error("token", "grant", "etl", "--grant", "*:admin", *where)
    assert "Write it like 'sales.*:commit'" in error("token", "create", "b", "--scope", "read", "--grant", "x", *where)
    for wrong in ((), ("--all-tables", "--grant", "stock:read")):
        assert "Use either --grant or --all-tables" in usage_error("token", "grant", "etl", *wrong, *where)


def test_the_database_may_be_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACKWATER_DATABASE", f"sqlite:///{tmp_path}/owner.db")
    _created("writer", "--scope", "commit")
    assert [row["name"] for row in document("token", "list")] == ["writer"]


def test_a_token_is_made_in_the_database_of_the_lake(root: str) -> None:
    _created("writer", "--scope", "commit", "--root", root)
    database = f"sqlite:///{root}/{DATABASE_FILE}"
    assert [row["name"] for row in document("token", "list", "--database", database)] == ["writer"]


def test_a_name_that_is_taken_is_one_plain_line(root: str) -> None:
    _created("writer", "--scope", "commit", "--root", root)
    message = error("token", "create", "writer", "--scope", "read", "--root", root)
    assert message == "error: a token named 'writer' already exists. Revoke it first, or choose another name"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("serve",), "Missing option '--root'"),
        (("serve", "--root", "/x", "--port", "65536"), "--port"),
        (("serve", "--root", "/x", "--port", "0"), "no client can connect to http://127.0.0.1:0"),
        (("serve", "--root", "/x", "--host", "0.0.0.0"), "no client can connect to http://0.0.0.0:8080"),  # noqa: S104
        (("serve", "--root", "/x", "--storage-option", "=hunter2"), "expected KEY=VALUE"),
        (("serve", "--root", "/x", "--give-credentials"), "it needs keys to give"),
        (("token", "create", "a"), "Missing option '--scope'"),
        (("token", "create", "a", "--scope", "read"), "Use --root or --database"),
        (("token", "list"), "Use --root or --database"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLACKWATER_DATABASE", raising=False)
    said = usage_error(*arguments)
    assert message in said
    assert "hunter2" not in said


def test_a_public_url_with_a_secret_in_it_is_refused_and_not_repeated(root: str) -> None:
    message = error("serve", "--root", root, "--public-url", "https://user:hunter2@lake.example")
    assert message.startswith("error: the commit owner's URL contains a user")
    assert "hunter2" not in message


@pytest.mark.parametrize(
    "command", [("serve", "--no-auth"), ("token", "list"), ("token", "create", "a", "--scope", "read")]
)
def test_a_root_without_a_lake_is_one_plain_line_and_stays_so(command: tuple[str, ...], tmp_path: Path) -> None:
    for place in (tmp_path / "mistyped", tmp_path):
        message = error(*command, "--root", str(place))
        assert message.startswith(
            f"error: {place} is not a lake: it has no {DATABASE_FILE}. Create one with `slackwater lake create`"
        )
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_knows_of_no_lake_is_not_served(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/owner.db"
    _created("writer", "--scope", "commit", "--database", database)
    message = error("serve", "--root", str(tmp_path / "lake"), "--database", database)
    assert "is not a lake: its database records no lake. Create one with `slackwater lake create`" in message
    assert run("lake", "create", str(tmp_path / "lake"), "--database", database).exit_code == 0
    with serving("--root", str(tmp_path / "lake"), "--database", database, "--no-auth") as url:
        assert document("lake", "tables", url) == []


def test_tokens_of_an_identity_provider_are_accepted_beside_own_tokens(root: str, tmp_path: Path) -> None:
    provider = Provider(tmp_path / "jwks.json")
    provider.publish(first="ES256")
    own = _created("reader", "--scope", "read", "--root", root)
    with published(provider.path) as keys:
        eventually_ready(keys)
        jwt = ("--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE, "--jwt-keys", keys)
        with serving("--root", root, *jwt) as url:
            for token in (own, provider.token()):
                owner = HttpOwner(url, token)
                assert owner.tables() == []
                owner.close()
            owner = HttpOwner(url, provider.token(aud="other"))
            with pytest.raises(NotAuthorized, match="for another audience"):
                owner.tables()
            owner.close()
            assert document("lake", "tables", url, "--token", provider.token(scope="slackwater:read")) == []


def test_the_settings_of_an_identity_provider_belong_together(root: str, tmp_path: Path) -> None:
    for options in (("--jwt-issuer", ISSUER), ("--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE)):
        assert "an identity provider needs" in usage_error("serve", "--root", root, *options)
    jwt = ("--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE, "--jwt-keys", str(tmp_path / "none"))
    assert "without --no-auth" in usage_error("serve", "--root", root, "--no-auth", *jwt)
    assert "not a readable JWKS" in error("serve", "--root", root, *jwt)


def test_the_log_is_json_on_stderr(root: str) -> None:
    with server_process("--root", root, "--no-auth") as (process, url):
        assert process.stderr is not None
        owner = HttpOwner(url)
        owner.tables()
        owner.close()
        process.send_signal(signal.SIGINT)
        log = [orjson.loads(line) for line in process.stderr]
        assert process.wait() == 0
    assert [line["route"] for line in log if line["event"] == "request"] == ["/v1/tables"]


def test_a_server_that_is_not_installed_is_one_plain_line(tmp_path: Path) -> None:
    code = (
        "import importlib.util as util; found = util.find_spec; "
        "util.find_spec = lambda name, *more: None if name == 'uvicorn' else found(name, *more); "
        "from slackwater.cli.main import app; app(prog_name='slackwater')"
    )
    program = subprocess.run(
        [sys.executable, "-c", code, "serve", "--root", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert program.returncode == 1
    assert "pip install 'slackwater[server]'" in program.stderr


def test_the_command_line_loads_no_server_until_it_serves() -> None:
    code = "import slackwater.cli.main, sys; print([m for m in ('fastapi', 'uvicorn', 'pydantic') if m in sys.modules])"
    program = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert program.stdout == "[]\n"


def test_a_client_needs_no_server_installed() -> None:
    code = (
        "import slackwater.owner.served.client.http_owner, sys; "
        "print([m for m in ('fastapi', 'uvicorn', 'pydantic', 'starlette', 'prometheus_client') if m in sys.modules])"
    )
    program = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert program.stdout == "[]\n"
