"""Public keys of an identity provider: a JWKS from a file or a URL, cached and read again after a key rotation.

Source: RFC 7517; RFC 8725 "JSON Web Token Best Current Practices" 3.1, 3.2.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import jwt
import orjson

from slackwater.errors import InvalidArgument
from slackwater.owner.served.client.addresses import is_loopback

REFRESH_S = 300.0
"""Age in seconds after which the keys are read again, so that removed keys become invalid."""
REREAD_S = 10.0
"""Minimum time in seconds between two reads for unknown keys."""

_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_ALGORITHMS = {
    ("RSA", None): _RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
    ("OKP", "Ed448"): ("EdDSA",),
}
_LEAST_RSA_BITS = 2048
_MOST_BYTES = 1024 * 1024
_TIMEOUT_S = 5.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A public key, and the algorithms of signatures that it may verify."""

    key: Any
    algorithms: tuple[str, ...]


class SigningKeys:
    """Keys of the JWKS at `source`, by their ids. Thread-safe."""

    def __init__(self, source: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Read the keys of `source`: a file, or a URL with https, or with http on this machine.

        An unreachable URL is not an error, because the provider may start later.

        Raises:
            InvalidArgument: If the file is not a readable JWKS, or if the URL has another form.
        """
        self._source = source
        self._monotonic = monotonic
        self._reading = threading.Lock()
        self._keys: Mapping[str | None, SigningKey] = {}
        self._read_s = monotonic()
        is_url = "://" in source
        if is_url:
            _require_trusted(source)
        self._load: Callable[[], bytes] = partial(_fetched, source) if is_url else Path(source).read_bytes
        try:
            self._keys = _parsed(self._load())
        except (OSError, ValueError, httpx.HTTPError) as error:
            if not is_url:
                raise InvalidArgument(f"keys {source!r}: not a readable JWKS: {error}. Check the file") from error
            _log.warning("the keys of the identity provider cannot be read: %s", error)

    def key(self, key_id: str | None) -> SigningKey | None:
        """Return the key with this id, None if unknown. None as an id means the only key of the JWKS.

        Reads the keys again if they are older than REFRESH_S, or if the id is unknown, at most each REREAD_S. If the
        read fails, the earlier keys stay valid.
        """
        if key_id in self._keys:
            if self._monotonic() - self._read_s >= REFRESH_S and self._reading.acquire(blocking=False):
                try:
                    self._read()
                finally:
                    self._reading.release()
            return self._keys.get(key_id)
        with self._reading:
            # Another thread may have read the keys during the wait.
            if key_id not in self._keys and self._monotonic() - self._read_s >= REREAD_S:
                self._read()
            return self._keys.get(key_id)

    def _read(self) -> None:
        self._read_s = self._monotonic()
        try:
            self._keys = _parsed(self._load())
        except (OSError, ValueError, httpx.HTTPError) as error:
            _log.warning("the keys of the identity provider cannot be read again, earlier keys stay valid: %s", error)


def _require_trusted(url: str) -> None:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise InvalidArgument("keys: the URL is not valid. Use https://…, or a file") from error
    if parsed.userinfo:
        raise InvalidArgument("keys: the URL contains a user. Use a URL without secrets")
    if parsed.scheme != "https" and not (parsed.scheme == "http" and is_loopback(parsed.host)):
        raise InvalidArgument(
            f"keys {url!r}: whoever is on the way could replace the keys. Use https, http on this machine, or a file"
        )


def _fetched(url: str) -> bytes:
    data = bytearray()
    # A redirect could lead to an untrusted address.
    with httpx.stream("GET", url, follow_redirects=False, timeout=_TIMEOUT_S) as response:
        response.raise_for_status()
        for chunk in response.iter_bytes():
            data += chunk
            if len(data) > _MOST_BYTES:
                raise ValueError(f"the JWKS has more than {_MOST_BYTES} bytes")
    return bytes(data)


def _parsed(data: bytes) -> Mapping[str | None, SigningKey]:
    """Return the usable keys by id. A key of another kind or use is ignored. Raises ValueError."""
    document = orjson.loads(data)
    listed = document.get("keys") if isinstance(document, dict) else None
    found: dict[str | None, SigningKey] = {}
    for node in listed if isinstance(listed, list) else ():
        key = _signing_key(node) if isinstance(node, dict) else None
        if key is not None:
            found.setdefault(node.get("kid"), key)
    if not found:
        raise ValueError("it has no list 'keys' with a public key for signatures")
    if len(found) == 1:
        found[None] = next(iter(found.values()))
    else:
        found.pop(None, None)
    return found


def _signing_key(node: Mapping[str, Any]) -> SigningKey | None:
    kind, use, named = node.get("kty"), node.get("use", "sig"), node.get("alg")
    known = _ALGORITHMS.get((str(kind), None if kind == "RSA" else node.get("crv")), ())
    algorithms = tuple(name for name in known if named in (None, name))
    if use != "sig" or not algorithms or not isinstance(node.get("kid"), str | None):
        return None
    try:
        key = jwt.PyJWK(dict(node), algorithms[0]).key
    except jwt.PyJWTError as error:
        _log.warning("a key of the identity provider is ignored: %s", error)
        return None
    if kind == "RSA" and key.key_size < _LEAST_RSA_BITS:
        _log.warning("a key of the identity provider is ignored: it has less than %d bits", _LEAST_RSA_BITS)
        return None
    return SigningKey(key, algorithms)
