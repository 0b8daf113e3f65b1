"""Access tokens of an identity provider (OIDC): signed JWTs, verified by the public keys of the provider.

The claims `scope` and `scp` have the scopes, the claim `slackwater_grants` the grants. Source: RFC 7519; RFC 8725;
docs/security.md "Tokens of an identity provider".
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jwt

from slackwater.errors import InvalidArgument, NotAuthorized
from slackwater.owner.served.access.permissions import Grant, Grants, Principal, Scope
from slackwater.owner.served.access.signing_keys import SigningKeys

LEEWAY_S = 60
"""Tolerance in seconds for differences between the clocks of the provider and of this machine."""
CACHED_S = 3.0
"""Maximum time in seconds for which a token is accepted without another verification."""
SUBJECT_PREFIX = "jwt:"
"""Prefix of callers' names. The names of own tokens have no colon."""

_GRANTS = "slackwater_grants"
_SCOPES = {f"slackwater:{scope.value}": scope for scope in Scope}
_REQUIRED = ["exp", "iss", "aud", "sub"]
_SUBJECT = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
_LONGEST = 16_384
_MOST_CACHED = 4096
_REASONS: dict[type[jwt.PyJWTError], str] = {
    jwt.ExpiredSignatureError: "it has expired",
    jwt.ImmatureSignatureError: "it is not valid yet",
    jwt.InvalidIssuerError: "it is of another issuer",
    jwt.InvalidAudienceError: "it is for another audience",
    jwt.MissingRequiredClaimError: f"it lacks one of the claims {', '.join(_REQUIRED)}",
}


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """Settings of an identity provider: `issuer` and `audience` of its tokens, and its keys (a file or a URL)."""

    issuer: str
    audience: str
    keys: str


class IdentityProvider:
    """Verifies the tokens of one provider. Thread-safe."""

    def __init__(self, settings: ProviderSettings, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Read the keys of the provider. Raises the errors of `SigningKeys`."""
        self._settings = settings
        self._keys = SigningKeys(settings.keys, monotonic)
        self._monotonic = monotonic
        self._cache: dict[bytes, tuple[Principal, float]] = {}

    @staticmethod
    def is_jwt(token: str) -> bool:
        """Return whether `token` has the form of a signed JWT."""
        return token.startswith("eyJ") and token.count(".") == 2

    def recent(self, token: str) -> Principal | None:
        """Return the principal of a recently verified token, None if a verification is necessary."""
        found, verified_s = self._cache.get(_digest(token), (None, 0.0))
        is_recent = self._monotonic() - verified_s < CACHED_S
        return found if found is not None and is_recent and not _is_expired(found) else None

    def authorize(self, token: str) -> Principal:
        """Return the principal of `token`. May query the provider.

        Raises:
            NotAuthorized: If the token is malformed, forged, expired, of another issuer or for another audience.
        """
        started_s = self._monotonic()
        claims = self._verified(token)
        principal = Principal(
            SUBJECT_PREFIX + _subject(claims), _scopes(claims), (int(claims["exp"]) + LEEWAY_S) * 1000, _grants(claims)
        )
        if len(self._cache) >= _MOST_CACHED:
            self._cache.clear()
        self._cache[_digest(token)] = (principal, started_s)
        return principal

    def _verified(self, token: str) -> Mapping[str, Any]:
        if len(token) > _LONGEST:
            raise _rejected("it is too long")
        try:
            header = jwt.get_unverified_header(token)
            if "crit" in header:
                raise _rejected("it needs an unknown extension")
            key_id = header.get("kid")
            key = self._keys.key(key_id) if isinstance(key_id, str | None) else None
            # The key decides about the algorithm, because an attacker chooses the header.
            if key is None or header.get("alg") not in key.algorithms:
                raise _rejected("the identity provider has no such key")
            return jwt.decode(
                token,
                key.key,
                algorithms=list(key.algorithms),
                issuer=self._settings.issuer,
                audience=self._settings.audience,
                leeway=LEEWAY_S,
                options={"require": _REQUIRED},
            )
        except jwt.PyJWTError as error:
            raise _rejected(_REASONS.get(type(error), "it is malformed, or its signature is wrong")) from error


def _rejected(why: str) -> NotAuthorized:
    return NotAuthorized(f"the token of the identity provider was rejected: {why}. Request a new one")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()


def _is_expired(principal: Principal) -> bool:
    return principal.expires_ms is not None and time.time() * 1000 >= principal.expires_ms


def _subject(claims: Mapping[str, Any]) -> str:
    subject = claims["sub"]
    if not isinstance(subject, str) or not _SUBJECT.fullmatch(subject):
        raise _rejected("its subject is not a name of 1 to 200 characters")
    return subject


def _words(claim: object) -> list[str] | None:
    """Return the words of a claim: a text with spaces, or a list of texts. None for another value."""
    if isinstance(claim, str):
        return claim.split()
    return claim if isinstance(claim, list) and all(isinstance(word, str) for word in claim) else None


def _scopes(claims: Mapping[str, Any]) -> frozenset[Scope]:
    words = [word for name in ("scope", "scp") for word in _words(claims.get(name)) or ()]
    return frozenset(_SCOPES[word] for word in words if word in _SCOPES)


def _grants(claims: Mapping[str, Any]) -> Grants | None:
    if _GRANTS not in claims:
        return None
    words = _words(claims[_GRANTS])
    try:
        if words is None:
            raise _rejected(f"its claim {_GRANTS} is not a list of grants")
        return tuple(Grant.parse(word) for word in words)
    except InvalidArgument as error:
        raise _rejected(f"its claim {_GRANTS} has no valid {error}") from error
