"""Whose certificates a client of a served owner trusts: those it is given, of a file or of the environment."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from slackwater.errors import CommitOwnerUnavailable, InvalidArgument
from slackwater.lake.lake import LogLake
from slackwater.owner.served.client.http_owner import HttpOwner
from slackwater.owner.served.server import Binding
from tests.owner.served.memory_owner import OWNER_ID, MemoryOwner
from tests.owner.served.serving import served


def _write_certificates(where: Path, name: str) -> Path:
    """A certificate authority of its own in `ca.pem`, and of it a certificate for this machine in `owner.pem`."""
    where.mkdir()
    now = dt.datetime.now(dt.timezone.utc)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in (f"CA of {name}", "localhost")]
    for key, subject, file in zip(keys, names, ("ca", "owner"), strict=True):
        is_ca = file == "ca"
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(names[0])
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(keys[0].public_key()), critical=False)
        )
        if is_ca:
            uses = dict.fromkeys(
                "digital_signature content_commitment key_encipherment data_encipherment key_agreement crl_sign "
                "encipher_only decipher_only".split(),
                False,
            )
            builder = builder.add_extension(x509.KeyUsage(key_cert_sign=True, **uses), critical=True)
        else:
            hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        certificate = builder.sign(keys[0], hashes.SHA256())
        (where / f"{file}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (where / f"{file}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
    return where


def _owner_of(url: str, trusting: Path | None = None) -> str:
    """Who answers a client that trusts the authority in that directory, or by itself."""
    owner = HttpOwner(url, ca_file=None if trusting is None else str(trusting / "ca.pem"))
    try:
        return owner.owner_id
    finally:
        owner.close()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Certificates of an authority that nobody knows."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    return _write_certificates(tmp_path / "here", "us")


@pytest.fixture
def url(here: Path) -> Iterator[str]:
    binding = Binding(port=0, certfile=str(here / "owner.pem"), keyfile=str(here / "owner.key"))
    with served(MemoryOwner(), binding=binding) as found:
        yield found


def test_a_certificate_of_nobody_that_is_known_is_refused_at_once_and_the_message_says_what_helps(url: str) -> None:
    with pytest.raises(CommitOwnerUnavailable, match=r"--ca-file.*SSL_CERT_FILE"):
        _owner_of(url)


def test_the_authority_that_is_given_is_trusted_and_no_other(url: str, here: Path, tmp_path: Path) -> None:
    assert _owner_of(url, here) == OWNER_ID
    with LogLake.connect(url, ca_file=str(here / "ca.pem")) as lake:
        assert lake.tables() == []
    other = _write_certificates(tmp_path / "other", "others")
    with pytest.raises(CommitOwnerUnavailable, match="certificate"):
        _owner_of(url, other)


def test_the_environments_authority_is_trusted_on_this_machine_too_and_a_given_one_goes_before(
    url: str, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(here / "ca.pem"))
    assert _owner_of(url) == OWNER_ID
    other = _write_certificates(tmp_path / "other", "others")
    with pytest.raises(CommitOwnerUnavailable):
        _owner_of(url, other)
    monkeypatch.setenv("SSL_CERT_FILE", str(other / "ca.pem"))
    with pytest.raises(CommitOwnerUnavailable):
        _owner_of(url)
    assert _owner_of(url, here) == OWNER_ID


def test_a_file_of_certificates_that_is_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    with pytest.raises(InvalidArgument, match=r"missing\.pem"):
        HttpOwner("https://localhost:1")
