from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from slackwater.errors import InvalidArgument
from slackwater.owner.database.database import Database
from slackwater.owner.served.access.permissions import Grant, Principal, Scope
from slackwater.owner.served.tokens import CACHED_S, Tokens
from slackwater.owner.state.clock import OwnerClock


class Times:
    def __init__(self) -> None:
        self.ms = 1_700_000_000_000
        self.seconds = 5.0


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = Database(f"sqlite:///{tmp_path}/owner.db")
    yield found
    found.close()


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def tokens(database: Database, times: Times) -> Tokens:
    return _tokens(database, times)


def _tokens(database: Database, times: Times) -> Tokens:
    return Tokens(database, OwnerClock(now_ms=lambda: times.ms), monotonic=lambda: times.seconds)


def test_a_token_grants_the_scopes_it_was_made_with(tokens: Tokens) -> None:
    token = tokens.create("writer", ["read", Scope.COMMIT])
    assert tokens.authorize(token) == Principal("writer", frozenset({Scope.READ, Scope.COMMIT}))


def test_tokens_are_long_random_and_known_by_their_prefix(tokens: Tokens) -> None:
    made = {tokens.create(f"t{number}", ["read"]) for number in range(20)}
    assert len(made) == 20
    assert all(token.startswith("slw_") and len(token) == 47 for token in made)


@pytest.mark.parametrize(
    ("scope", "allowed"),
    [
        ("read", {Scope.READ}),
        ("commit", {Scope.READ, Scope.COMMIT}),
        ("admin", {Scope.READ, Scope.COMMIT, Scope.ADMIN}),
    ],
)
def test_a_scope_includes_those_before_it(tokens: Tokens, scope: str, allowed: set[Scope]) -> None:
    granted = tokens.authorize(tokens.create("t", [scope]))
    assert granted is not None
    assert {asked for asked in Scope if granted.allows(asked)} == allowed


def test_the_token_itself_is_not_in_the_database(tokens: Tokens, database: Database, tmp_path: Path) -> None:
    token = tokens.create("writer", ["commit"])
    database.close()
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"writer" in kept
    assert token.encode() not in kept
    assert token.removeprefix("slw_").encode() not in kept


@pytest.mark.parametrize("token", ["", "x", "slw_", "slw_" + "a" * 43, "slw_" + "a" * 42 + "\n", "\ud800", "ü"])
def test_a_token_that_nobody_made_grants_nothing(tokens: Tokens, token: str) -> None:
    tokens.create("writer", ["commit"])
    assert tokens.authorize(token) is None
    assert tokens.recent(token) is None


def test_a_revoked_token_grants_nothing_at_once_here(tokens: Tokens) -> None:
    token = tokens.create("writer", ["commit"])
    assert tokens.authorize(token) is not None
    tokens.revoke("writer")
    assert tokens.authorize(token) is None


def test_a_token_revoked_by_another_process_grants_nothing_within_seconds(
    tokens: Tokens, database: Database, times: Times
) -> None:
    token = tokens.create("writer", ["commit"])
    assert tokens.authorize(token) is not None
    _tokens(database, times).revoke("writer")
    assert tokens.authorize(token) is not None
    times.seconds += CACHED_S
    assert CACHED_S <= 5
    assert tokens.recent(token) is None
    assert tokens.authorize(token) is None


def test_a_token_is_asked_for_once_and_then_remembered_for_a_while(tokens: Tokens, times: Times) -> None:
    token = tokens.create("writer", ["commit"])
    assert tokens.recent(token) is None
    granted = tokens.authorize(token)
    assert tokens.recent(token) == granted
    times.seconds += CACHED_S
    assert tokens.recent(token) is None


def test_a_token_ends_when_it_was_to_end_also_while_it_is_remembered(tokens: Tokens, times: Times) -> None:
    token = tokens.create("writer", ["commit"], expires_ms=times.ms + 1000)
    times.ms += 999
    assert tokens.authorize(token) is not None
    times.ms += 1
    assert tokens.recent(token) is None
    assert tokens.authorize(token) is None


def test_tokens_are_listed_by_name_without_their_secrets(tokens: Tokens, times: Times) -> None:
    tokens.create("b", ["admin"])
    tokens.create("a", ["read"], expires_ms=times.ms + 5)
    listed = tokens.records()
    assert [(record.name, record.scopes, record.created_ms, record.expires_ms) for record in listed] == [
        ("a", frozenset({Scope.READ}), times.ms, times.ms + 5),
        ("b", frozenset({Scope.ADMIN}), times.ms, None),
    ]


def test_a_name_that_is_taken_is_refused_and_the_token_there_is_kept(tokens: Tokens) -> None:
    token = tokens.create("writer", ["commit"])
    with pytest.raises(InvalidArgument, match="a token named 'writer' already exists"):
        tokens.create("writer", ["admin"])
    assert tokens.authorize(token) is not None
    assert len(tokens.records()) == 1


@pytest.mark.parametrize(
    ("name", "scopes", "expires_ms", "message"),
    [
        ("a/b", ["read"], None, "the token.s name is 1 to 255"),
        ("a", [], None, "at least one scope"),
        ("a", ["write"], None, "'write' is not a valid Scope"),
        ("a", ["read"], 1, "which has passed"),
    ],
)
def test_a_token_that_makes_no_sense_is_not_made(
    tokens: Tokens, name: str, scopes: list[str], expires_ms: int | None, message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        tokens.create(name, scopes, expires_ms)
    assert tokens.records() == []


def test_revoking_a_token_that_is_not_there_is_an_error(tokens: Tokens) -> None:
    with pytest.raises(InvalidArgument, match="no token named 'nobody' exists"):
        tokens.revoke("nobody")


def test_a_scope_of_a_newer_version_grants_nothing_here(tokens: Tokens, database: Database) -> None:
    token = tokens.create("writer", ["read"])
    database.write(lambda connection: connection.execute(sa.text("UPDATE tokens SET scopes = 'fly'")) and None)
    granted = tokens.authorize(token)
    assert granted is not None
    assert not any(granted.allows(scope) for scope in Scope)


def test_a_token_can_be_limited_to_tables_and_the_limit_replaced(tokens: Tokens) -> None:
    token = tokens.create("etl", ["commit"], grants=["sales.*:commit", "stock:read"])
    granted = tokens.authorize(token)
    assert granted is not None
    assert granted.grants == (Grant("sales.*", Scope.COMMIT), Grant("stock", Scope.READ))
    tokens.grant("etl", ["stock:commit"])
    granted = tokens.authorize(token)
    assert granted is not None
    assert (granted.may(Scope.READ, "sales.orders"), granted.may(Scope.COMMIT, "stock")) == (False, True)
    assert [record.grants for record in tokens.records()] == [(Grant("stock", Scope.COMMIT),)]
    tokens.grant("etl", None)
    granted = tokens.authorize(token)
    assert granted is not None
    assert granted.may_everywhere(Scope.COMMIT)


def test_grants_of_another_process_are_noticed_within_seconds(tokens: Tokens, database: Database, times: Times) -> None:
    token = tokens.create("etl", ["commit"])
    tokens.authorize(token)
    _tokens(database, times).grant("etl", ["stock:read"])
    times.seconds += CACHED_S
    granted = tokens.authorize(token)
    assert granted is not None
    assert granted.grants == (Grant("stock", Scope.READ),)


@pytest.mark.parametrize(
    ("grants", "message"),
    [([], "none was found"), (["stock"], "Write it like"), (["stock:admin"], "do not include 'admin'")],
)
def test_wrong_grants_create_no_token_and_change_none(tokens: Tokens, grants: list[str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        tokens.create("new", ["commit"], grants=grants)
    tokens.create("etl", ["commit"], grants=["stock:read"])
    with pytest.raises(InvalidArgument, match=message):
        tokens.grant("etl", grants)
    assert [(record.name, record.grants) for record in tokens.records()] == [("etl", (Grant("stock", Scope.READ),))]
    with pytest.raises(InvalidArgument, match="no token named 'new' exists"):
        tokens.grant("new", ["stock:read"])


def test_grants_of_a_newer_version_permit_nothing_here(tokens: Tokens, database: Database) -> None:
    token = tokens.create("etl", ["commit"], grants=["stock:read"])
    text = {"grants": "sales:fly ***:read"}
    database.write(lambda c: c.execute(sa.text("UPDATE tokens SET grants = :grants"), text) and None)
    granted = tokens.authorize(token)
    assert granted is not None
    assert granted.grants == ()
