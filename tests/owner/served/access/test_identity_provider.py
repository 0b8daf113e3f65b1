"""Tokens of an identity provider, good and hostile ones."""

from __future__ import annotations

import base64
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from slackwater.errors import InvalidArgument, NotAuthorized
from slackwater.owner.database.database import Database
from slackwater.owner.served.access.identity_provider import (
    CACHED_S,
    LEEWAY_S,
    IdentityProvider,
    ProviderSettings,
)
from slackwater.owner.served.access.permissions import Grant, Scope
from slackwater.owner.served.access.signing_keys import REFRESH_S, REREAD_S
from slackwater.owner.served.app import create_app
from slackwater.owner.served.tokens import Tokens
from tests.owner.served.access.provider import AUDIENCE, ISSUER, Provider, claims, key, public, published
from tests.owner.served.memory_owner import MemoryOwner
from tests.owner.served.serving import AppClient, eventually_ready, new_id, taken
from tests.ports import free_port

NOW = int(time.time())


class Times:
    def __init__(self) -> None:
        self.seconds = 1000.0


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def provider(tmp_path: Path) -> Provider:
    found = Provider(tmp_path / "jwks.json")
    found.publish(first="RS256", second="ES256")
    return found


def opened(provider: Provider, times: Times, keys: str | None = None) -> IdentityProvider:
    settings = ProviderSettings(ISSUER, AUDIENCE, keys or str(provider.path))
    return IdentityProvider(settings, monotonic=lambda: times.seconds)


@pytest.mark.parametrize(
    "algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
)
def test_a_token_is_accepted_with_each_asymmetric_algorithm(provider: Provider, times: Times, algorithm: str) -> None:
    provider.publish(first=algorithm, second="RS256")
    granted = opened(provider, times).authorize(provider.token())
    assert (granted.name, granted.scopes, granted.grants) == ("jwt:alice", frozenset({Scope.COMMIT}), None)
    assert granted.expires_ms is not None
    now_ms = int(time.time() * 1000)
    assert 500_000 <= granted.expires_ms - now_ms <= (700 + LEEWAY_S) * 1000


@pytest.mark.parametrize(
    ("changed", "scopes"),
    [
        ({"scope": "openid slackwater:read slackwater:admin"}, {Scope.READ, Scope.ADMIN}),
        ({"scope": None, "scp": ["slackwater:commit", "x"]}, {Scope.COMMIT}),
        ({"scope": None, "scp": "slackwater:read"}, {Scope.READ}),
        ({"scope": "commit slackwater:Commit slackwater:fly"}, set()),
        ({"scope": 7, "scp": {"slackwater:admin": 1}}, set()),
        ({"scope": None}, set()),
    ],
)
def test_scopes_come_from_the_claims(provider: Provider, times: Times, changed: Any, scopes: set[Scope]) -> None:
    assert opened(provider, times).authorize(provider.token(**changed)).scopes == scopes


@pytest.mark.parametrize(
    ("claim", "grants"),
    [
        (["sales.*:commit", "stock:read"], (Grant("sales.*", Scope.COMMIT), Grant("stock", Scope.READ))),
        ("sales.*:commit", (Grant("sales.*", Scope.COMMIT),)),
        ([], ()),
        ("", ()),
    ],
)
def test_grants_come_from_a_claim_and_an_empty_claim_permits_nothing(
    provider: Provider, times: Times, claim: Any, grants: Any
) -> None:
    assert opened(provider, times).authorize(provider.token(slackwater_grants=claim)).grants == grants


@pytest.mark.parametrize("claim", [7, {"a": "read"}, ["stock"], ["stock:fly"], [1], False])
def test_a_malformed_claim_of_grants_is_no_access_to_all_tables(provider: Provider, times: Times, claim: Any) -> None:
    with pytest.raises(NotAuthorized, match="slackwater_grants"):
        opened(provider, times).authorize(provider.token(slackwater_grants=claim))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"iss": "https://evil.example.com/"}, "of another issuer"),
        ({"iss": ISSUER.rstrip("/")}, "of another issuer"),
        ({"iss": None}, "lacks one of the claims"),
        ({"aud": "other"}, "for another audience"),
        ({"aud": ["other", "slackwater2"]}, "for another audience"),
        ({"aud": None}, "lacks one of the claims"),
        ({"exp": NOW - LEEWAY_S - 5}, "has expired"),
        ({"exp": None}, "lacks one of the claims"),
        ({"exp": "never"}, "malformed"),
        ({"nbf": NOW + 86_400}, "not valid yet"),
        ({"sub": None}, "lacks one of the claims"),
        ({"sub": ""}, "its subject"),
        ({"sub": "a\nb"}, "its subject"),
        ({"sub": "x" * 201}, "its subject"),
    ],
)
def test_a_token_with_wrong_claims_is_rejected_with_the_reason(
    provider: Provider, times: Times, changed: Any, message: str
) -> None:
    with pytest.raises(NotAuthorized, match=message):
        opened(provider, times).authorize(provider.token(**changed))


def test_clocks_may_differ_by_a_minute_at_most(provider: Provider, times: Times) -> None:
    late = provider.token(exp=int(time.time()) - LEEWAY_S + 30, nbf=int(time.time()) + LEEWAY_S - 30)
    assert opened(provider, times).authorize(late).name == "jwt:alice"
    assert LEEWAY_S <= 60


def _part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def _pem(private: Any) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return bytes(private.public_key().public_bytes(serialization.Encoding.PEM, form))


def _signed_by_secret(secret: bytes, key_id: str = "first") -> str:
    import hashlib
    import hmac

    text = f"{_part({'alg': 'HS256', 'kid': key_id, 'typ': 'JWT'})}.{_part(claims())}"
    digest = hmac.new(secret, text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


SHORT = rsa.generate_private_key(65537, 1024)  # noqa: S505 - it must be rejected
HOSTILE: dict[str, Callable[[Provider], str]] = {
    "algorithm none": lambda p: f"{_part({'alg': 'none', 'kid': 'first'})}.{_part(claims())}.",
    "algorithm None": lambda p: f"{_part({'alg': 'None', 'kid': 'first'})}.{_part(claims())}.",
    "the public key as a secret": lambda p: _signed_by_secret(_pem(p.keys["first"][0])),
    "the JWKS as a secret": lambda p: _signed_by_secret(p.path.read_bytes()),
    "a symmetric key of the JWKS": lambda p: _signed_by_secret(b"k" * 32, "symmetric"),
    "a key for encryption": lambda p: jwt.encode(claims(), key("RS256", 99), "RS256", headers={"kid": "encryption"}),
    "a short key": lambda p: jwt.encode(claims(), SHORT, "RS256", headers={"kid": "short"}),
    "another key": lambda p: jwt.encode(claims(), key("RS256", 77), "RS256", headers={"kid": "first"}),
    "the key of another id": lambda p: p.token("first", {"kid": "second"}),
    "an unknown id": lambda p: p.token("first", {"kid": "third"}),
    "an id of another type": lambda p: f"{_part({'alg': 'RS256', 'kid': ['first']})}.{_part(claims())}.AAAA",
    "no id with several keys": lambda p: jwt.encode(claims(), p.keys["first"][0], "RS256"),
    "an embedded key": lambda p: jwt.encode(
        claims(), key("RS256", 77), "RS256", headers={"kid": "x", "jwk": public(key("RS256", 77), "RS256")}
    ),
    "a critical extension": lambda p: p.token("first", {"crit": ["exp"]}),
    "changed claims": lambda p: ".".join(
        (p.token().split(".")[0], _part(claims(scope="slackwater:admin")), p.token().split(".")[2])
    ),
    "no signature": lambda p: p.token().rpartition(".")[0] + ".",
    "no JSON": lambda p: "eyJ.eyJ.AAAA",
    "a list of claims": lambda p: jwt.api_jws.encode(b"[]", p.keys["first"][0], "RS256", headers={"kid": "first"}),
    "a deep header": lambda p: base64.urlsafe_b64encode(b'{"a":' + b"[" * 11_000).rstrip(b"=").decode() + ".e30.AAAA",
    "an infinite expiry": lambda p: p.token(exp=float("inf")),
    "a long token": lambda p: p.token(more="x" * 20_000),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_token_is_rejected(provider: Provider, times: Times, kind: str) -> None:
    symmetric = {"kty": "oct", "kid": "symmetric", "k": base64.urlsafe_b64encode(b"k" * 32).decode()}
    encryption = public(key("RS256", 99), "RS256", kid="encryption", use="enc")
    provider.publish(symmetric, encryption, public(SHORT, "RS256", kid="short"), first="RS256", second="RS256")
    found = opened(provider, times)
    assert found.authorize(provider.token()).name == "jwt:alice"
    with pytest.raises(NotAuthorized, match="was rejected"):
        found.authorize(HOSTILE[kind](provider))


def test_a_key_for_one_algorithm_verifies_no_other(provider: Provider, times: Times) -> None:
    private = key("RS256", 5)
    provider.publish(public(private, "RS256", kid="strict", alg="RS512"), first="RS256")
    found = opened(provider, times)
    assert found.authorize(jwt.encode(claims(), private, "RS512", headers={"kid": "strict"})).name == "jwt:alice"
    with pytest.raises(NotAuthorized, match="no such key"):
        found.authorize(jwt.encode(claims(), private, "RS256", headers={"kid": "strict"}))


def test_a_token_without_key_id_is_verified_by_the_only_key(provider: Provider, times: Times) -> None:
    provider.publish(first="ES256")
    token = jwt.encode(claims(), provider.keys["first"][0], "ES256")
    assert opened(provider, times).authorize(token).name == "jwt:alice"


def test_a_verified_token_is_remembered_for_seconds_and_until_it_expires(provider: Provider, times: Times) -> None:
    found = opened(provider, times)
    token, old = provider.token(), provider.token(exp=int(time.time()) - LEEWAY_S + 2)
    assert found.recent(token) is None
    granted = found.authorize(token)
    assert found.recent(token) == granted
    times.seconds += CACHED_S
    assert found.recent(token) is None
    assert CACHED_S <= 5
    found.authorize(old)
    assert found.recent(old) is not None
    while time.time() < jwt.decode(old, options={"verify_signature": False})["exp"] + LEEWAY_S:
        time.sleep(0.05)
    assert found.recent(old) is None


def test_rotated_keys_are_read_again_for_an_unknown_id_and_not_too_often(provider: Provider, times: Times) -> None:
    with published(provider.path) as url:
        eventually_ready(url)
        found = opened(provider, times, url)
        before = provider.token()
        assert found.authorize(before).name == "jwt:alice"
        provider.publish(third="ES256", fourth="RS256")
        after = provider.token("third")
        with pytest.raises(NotAuthorized, match="no such key"):
            found.authorize(after)
        times.seconds += REREAD_S
        assert found.authorize(after).name == "jwt:alice"
        with pytest.raises(NotAuthorized, match="no such key"):
            found.authorize(before)


def test_a_removed_key_is_invalid_after_a_while(provider: Provider, times: Times) -> None:
    found = opened(provider, times)
    first = provider.token()
    provider.publish(second="ES256")
    assert found.authorize(first).name == "jwt:alice"
    times.seconds += REFRESH_S
    with pytest.raises(NotAuthorized, match="no such key"):
        found.authorize(first)
    assert REFRESH_S <= 300


def test_known_keys_stay_valid_while_the_provider_is_away(
    provider: Provider, times: Times, caplog: pytest.LogCaptureFixture
) -> None:
    with published(provider.path) as url:
        eventually_ready(url)
        found = opened(provider, times, url)
    times.seconds += REFRESH_S
    with caplog.at_level(logging.WARNING):
        assert found.authorize(provider.token()).name == "jwt:alice"
    assert "earlier keys stay valid" in caplog.text


def test_a_provider_may_start_later(provider: Provider, times: Times) -> None:
    port = free_port()
    found = opened(provider, times, f"http://127.0.0.1:{port}/jwks.json")
    with pytest.raises(NotAuthorized, match="no such key"):
        found.authorize(provider.token())
    times.seconds += REREAD_S
    with published(provider.path, port) as url:
        eventually_ready(url)
        assert found.authorize(provider.token()).name == "jwt:alice"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("http://login.example.com/keys", "could replace the keys"),
        ("ftp://127.0.0.1/keys", "could replace the keys"),
        ("https://user:hunter2@login.example.com/keys", "contains a user"),
        ("{path}/none", "not a readable JWKS"),
        ("{path}/empty.json", "has no list 'keys'"),
        ("{path}/text.json", "not a readable JWKS"),
        ("{path}/private.json", "has no list 'keys'"),
    ],
)
def test_keys_of_no_known_place_or_form_are_refused(tmp_path: Path, keys: str, message: str) -> None:
    (tmp_path / "empty.json").write_text("{}")
    (tmp_path / "text.json").write_text("-----BEGIN PUBLIC KEY-----")
    (tmp_path / "private.json").write_text('{"keys": [{"kty": "oct", "k": "AAAA"}]}')
    with pytest.raises(InvalidArgument, match=message) as caught:
        IdentityProvider(ProviderSettings(ISSUER, AUDIENCE, keys.format(path=tmp_path)))
    assert "hunter2" not in str(caught.value)


def test_callers_of_both_kinds_use_one_server(provider: Provider, times: Times, tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/owner.db")
    tokens, owner = Tokens(database), MemoryOwner()
    taken(owner, "sales.orders")
    taken(owner, "hr.people")
    client = AppClient(create_app(owner, tokens, None, opened(provider, times)))

    def ask(token: str, method: str = "GET", path: str = "/v1/tables", body: Any = None) -> httpx.Response:
        return client.request(method, path, json=body, headers={"Authorization": f"Bearer {token}"})

    own = tokens.create("alice", ["commit"])
    team = provider.token(slackwater_grants=["sales.*:commit"])
    assert len(ask(own).json()["tables"]) == 2
    assert [table["name"] for table in ask(team).json()["tables"]] == ["sales.orders"]
    assert ask(provider.token(scope="openid")).status_code == 403
    assert ask(team, "POST", "/v1/repair", {}).status_code == 403
    refused = ask(provider.token(aud="other"))
    assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, 'Bearer error="invalid_token"')
    assert "for another audience" in refused.text
    assert ask("eyJ.a").status_code == 401
    # The subject alice and the token alice are different callers.
    txn, narrow = new_id(), {"range": {"lowMs": 5, "highMs": None}}
    assert ask(team, "POST", f"/v1/transactions/{txn}/time", narrow).status_code == 200
    assert ask(own, "POST", f"/v1/transactions/{txn}/time", narrow).status_code == 403
    database.close()
