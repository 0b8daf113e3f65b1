"""An identity provider for tests: keys, their JWKS, tokens signed by them, and a process that serves the JWKS."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms

from tests.ports import free_port

ISSUER, AUDIENCE = "https://login.example.com/", "slackwater"


@cache
def key(algorithm: str, number: int = 0) -> Any:
    """A private key for the algorithm, always the same for a number."""
    del number
    if algorithm.startswith(("RS", "PS")):
        return rsa.generate_private_key(65537, 2048)
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    curves: dict[str, ec.EllipticCurve] = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
    return ec.generate_private_key(curves[algorithm])


def public(private: Any, algorithm: str, **more: Any) -> dict[str, Any]:
    """The JWK of a private key's public part."""
    node: dict[str, Any] = get_default_algorithms()[algorithm].to_jwk(private.public_key(), as_dict=True)
    node.pop("key_ops", None)
    return {**node, **more}


@dataclass
class Provider:
    """A provider with its JWKS in a file."""

    path: Path
    keys: dict[str, tuple[Any, str]] = field(default_factory=dict)

    def publish(self, *nodes: dict[str, Any], **algorithms: str) -> None:
        """Write the JWKS: one key for each id and algorithm, and other `nodes`."""
        self.keys = {key_id: (key(name, sum(key_id.encode())), name) for key_id, name in algorithms.items()}
        listed = [public(private, name, kid=key_id) for key_id, (private, name) in self.keys.items()]
        self.path.write_text(json.dumps({"keys": [*listed, *nodes]}))

    def token(self, key_id: str = "first", headers: dict[str, Any] | None = None, **changed: Any) -> str:
        """A token signed by the key; a claim that is None is left out."""
        private, name = self.keys[key_id]
        return jwt.encode(claims(**changed), private, name, headers={"kid": key_id, **(headers or {})})


def claims(**changed: Any) -> dict[str, Any]:
    now = int(time.time())
    found = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": now + 600, "iat": now, "scope": "slackwater:commit"}
    return {name: value for name, value in {**found, **changed}.items() if value is not None}


@contextmanager
def published(path: Path, port: int | None = None) -> Iterator[str]:
    """The URL of the file, served by another process of this machine."""
    port = free_port() if port is None else port
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(path.parent)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            yield f"http://127.0.0.1:{port}/{path.name}"
        finally:
            process.kill()
