"""Tokens of a served commit owner, with scopes and grants. Only their hashes are stored.

Source: docs/security.md.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from slackwater.errors import InvalidArgument
from slackwater.owner.api.field_types import Name
from slackwater.owner.api.wire_model import checked
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import tokens as tokens_table
from slackwater.owner.served.access.permissions import Grant, Grants, Principal, Scope, parse_grants
from slackwater.owner.state.clock import OwnerClock

CACHED_S = 3.0
"""Maximum time in seconds for which a revoked token is still accepted."""

_PREFIX = "slw_"
_BYTES = 32
_FORM = re.compile(_PREFIX + r"[A-Za-z0-9_-]{43}")
_MOST_CACHED = 4096


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token in the list of tokens, without its secret. Times in ms since the epoch."""

    name: str
    scopes: frozenset[Scope]
    created_ms: int
    expires_ms: int | None
    grants: Grants | None = None


class Tokens:
    """Tokens in the owner's database. Thread-safe."""

    def __init__(
        self, database: Database, clock: OwnerClock | None = None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._now_ms = (clock or OwnerClock()).now_ms
        self._monotonic = monotonic
        self._cache: dict[str, tuple[Principal, float]] = {}

    @property
    def database(self) -> Database:
        """The owner's database with the tokens."""
        return self._database

    def create(
        self,
        name: str,
        scopes: Collection[Scope | str],
        expires_ms: int | None = None,
        grants: Collection[str] | None = None,
    ) -> str:
        """Create a token and return its secret. The secret is not stored.

        With `grants`, such as `["sales.*:commit", "stock:read"]`, the token is limited to these tables.

        Raises:
            InvalidArgument: If the name is used or malformed, if scopes are missing or unknown, if the expiry is in the
                past, or if a grant is malformed or exceeds the scopes.
        """
        checked(Name, "token's name", name)
        granted = _parsed(scopes)
        now_ms = self._now_ms()
        if expires_ms is not None and expires_ms <= now_ms:
            raise InvalidArgument(f"the token {name!r} would expire at {expires_ms} ms, which has passed ({now_ms} ms)")
        token = _PREFIX + secrets.token_urlsafe(_BYTES)
        row = {
            "token_hash": _hash(token),
            "name": name,
            "scopes": _joined(granted),
            "created_ms": now_ms,
            "expires_ms": expires_ms,
            "grants": None if grants is None else _grants_text(parse_grants(grants, granted)),
        }

        def insert(connection: Connection) -> None:
            taken = connection.execute(
                sa.select(tokens_table.c.token_hash).where(tokens_table.c.name == name)
            ).scalar_one_or_none()
            if taken is None:
                connection.execute(sa.insert(tokens_table).values(row))
            elif taken != row["token_hash"]:
                raise InvalidArgument(f"a token named {name!r} already exists. Revoke it first, or choose another name")

        self._database.write(insert)
        return token

    def revoke(self, name: str) -> None:
        """Revoke the token. Other processes reject the token within `CACHED_S`. Raises InvalidArgument if unknown."""
        named = tokens_table.c.name == name
        known = self._database.read(
            lambda connection: connection.execute(sa.select(tokens_table.c.name).where(named)).all()
        )
        if not known:
            raise _unknown(name)
        self._database.write(lambda connection: connection.execute(sa.delete(tokens_table).where(named)) and None)
        self._cache.clear()

    def grant(self, name: str, grants: Collection[str] | None) -> None:
        """Replace the grants of a token. None gives access to all tables. Other processes notice within `CACHED_S`.

        Raises:
            InvalidArgument: If no such token exists, or if a grant is malformed or exceeds the scopes of the token.
        """
        named = tokens_table.c.name == name

        def replace(connection: Connection) -> None:
            scopes = connection.execute(sa.select(tokens_table.c.scopes).where(named)).scalar_one_or_none()
            if scopes is None:
                raise _unknown(name)
            text = None if grants is None else _grants_text(parse_grants(grants, _split(scopes)))
            connection.execute(sa.update(tokens_table).where(named).values(grants=text))

        self._database.write(replace)
        self._cache.clear()

    def records(self) -> list[TokenRecord]:
        """Return all tokens by name, including expired tokens."""
        statement = sa.select(tokens_table).order_by(tokens_table.c.name)
        rows = self._database.read(lambda connection: connection.execute(statement).all())
        return [
            TokenRecord(row.name, _split(row.scopes), row.created_ms, row.expires_ms, _grants(row.grants))
            for row in rows
        ]

    def authorize(self, token: str) -> Principal | None:
        """Return the principal of `token`, None if unknown, revoked or expired. May query the database.

        Raises CommitOwnerUnavailable.
        """
        recent = self.recent(token)
        if recent is not None:
            return recent
        if not _FORM.fullmatch(token):
            return None
        hashed = _hash(token)
        asked = self._monotonic()
        statement = sa.select(tokens_table).where(tokens_table.c.token_hash == hashed)
        row = self._database.read(lambda connection: connection.execute(statement).one_or_none())
        if row is None or not hmac.compare_digest(row.token_hash, hashed):
            return None
        granted = Principal(row.name, _split(row.scopes), row.expires_ms, _grants(row.grants))
        if len(self._cache) >= _MOST_CACHED:
            self._cache.clear()
        self._cache[hashed] = (granted, asked)
        return self._unexpired(granted)

    def recent(self, token: str) -> Principal | None:
        """Return the cached principal of `token`. None if expired, or if a database query is necessary."""
        granted, asked = self._cache.get(_hash(token), (None, 0.0))
        if granted is None or self._monotonic() - asked >= CACHED_S:
            return None
        return self._unexpired(granted)

    def _unexpired(self, granted: Principal) -> Principal | None:
        return granted if granted.expires_ms is None or self._now_ms() < granted.expires_ms else None


def _hash(token: str) -> str:
    # SHA-256 is sufficient, because a token has 256 random bits.
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def _parsed(scopes: Collection[Scope | str]) -> frozenset[Scope]:
    known = ", ".join(scope.value for scope in Scope)
    try:
        granted = frozenset(Scope(scope) for scope in scopes)
    except ValueError as error:
        raise InvalidArgument(f"the scopes of a token are {known}: {error}") from error
    if not granted:
        raise InvalidArgument(f"a token has at least one scope of {known}")
    return granted


def _joined(scopes: Collection[Scope]) -> str:
    return ",".join(scope.value for scope in Scope if scope in scopes)


def _split(text: str) -> frozenset[Scope]:
    # Scopes of newer versions are ignored.
    known = {scope.value for scope in Scope}
    return frozenset(Scope(part) for part in text.split(",") if part in known)


def _grants_text(grants: Grants) -> str:
    return " ".join(str(grant) for grant in grants)


def _grants(text: str | None) -> Grants | None:
    if text is None:
        return None
    found = []
    for part in text.split():
        # Grants of newer versions are ignored. This never adds a permission.
        with suppress(InvalidArgument):
            found.append(Grant.parse(part))
    return tuple(found)


def _unknown(name: str) -> InvalidArgument:
    return InvalidArgument(f"no token named {name!r} exists")
