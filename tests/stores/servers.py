"""Servers of object stores as processes of a run, each with one bucket: those that `install_servers` has built."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

from tests.contract.s3_server import BUCKET, s3_server
from tests.ports import free_port
from tests.stores.gcs_front import xml_front
from tests.stores.install_servers import AZURE, GCS, S3, program

_STARTS_WITHIN_S = 60.0
_ACCOUNT = "devstoreaccount1"
# The key of every emulator of Azure's, which its documentation prints.
_ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
ACCESS_KEY, SECRET_KEY = "test", "test"


@dataclass(frozen=True, slots=True)
class Place:
    """A bucket: its URL, and the storage options that reach it."""

    url: str
    options: Mapping[str, str]


@contextlib.contextmanager
def lenient_s3() -> Iterator[Place]:
    """The server that is always there: it looks at no signature."""
    with s3_server() as options:
        yield Place(f"s3a://{BUCKET}", options)


@contextlib.contextmanager
def strict_s3() -> Iterator[Place]:
    """versitygw: objects are files, and every request must be signed for its region with the right key."""
    environment = {"ROOT_ACCESS_KEY_ID": ACCESS_KEY, "ROOT_SECRET_ACCESS_KEY": SECRET_KEY}
    with tempfile.TemporaryDirectory() as root:
        Path(root, BUCKET).mkdir()
        with _running(S3, ["--quiet", "--port", "127.0.0.1:{port}", "posix", root], environment) as endpoint:
            yield Place(
                f"s3a://{BUCKET}",
                {
                    "aws_endpoint_url": endpoint,
                    "aws_region": "us-east-1",
                    "aws_access_key_id": ACCESS_KEY,
                    "aws_secret_access_key": SECRET_KEY,
                    "aws_allow_http": "true",
                },
            )


@contextlib.contextmanager
def azure() -> Iterator[Place]:
    """Azurite: the container that an abfss URL names before its account."""
    with tempfile.TemporaryDirectory() as root:
        where = ["--blobHost", "127.0.0.1", "--blobPort", "{port}", "--location", root]
        quiet = ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
        with _running(AZURE, [*where, *quiet], {}) as endpoint:
            _create_container(f"{endpoint}/{_ACCOUNT}/{BUCKET}")
            yield Place(
                f"abfss://{BUCKET}@{_ACCOUNT}.dfs.core.windows.net",
                {
                    "azure_storage_account_key": _ACCOUNT_KEY,
                    "azure_endpoint": f"{endpoint}/{_ACCOUNT}",
                    "azure_allow_http": "true",
                },
            )


@contextlib.contextmanager
def gcs() -> Iterator[Place]:
    """fake-gcs-server, which asks for no credentials; before it, what it lacks of Google's XML API."""
    with tempfile.TemporaryDirectory() as root, contextlib.ExitStack() as running:
        where = ["-scheme", "http", "-host", "127.0.0.1", "-port", "{port}", "-public-host", "127.0.0.1:{port}"]
        backend = running.enter_context(
            _running(GCS, [*where, "-backend", "filesystem", "-filesystem-root", root], {"TZ": "UTC"})
        )
        _send("POST", f"{backend}/storage/v1/b?project=tests", {}, json.dumps({"name": BUCKET}).encode())
        endpoint = running.enter_context(xml_front(backend))
        # Who is anonymous may not put: this is an account that needs no token.
        account = {"gcs_base_url": endpoint, "disable_oauth": True, "client_email": ""}
        key = json.dumps({**account, "private_key": "", "private_key_id": ""})
        settings = {"google_service_account_key": key, "google_allow_http": "true"}
        yield Place(f"gs://{BUCKET}", settings)


PLACES: Mapping[str, Callable[[], contextlib.AbstractContextManager[Place]]] = {
    **({"strict-s3": strict_s3} if program(S3) else {"s3": lenient_s3}),
    **({"azure": azure} if program(AZURE) else {}),
    **({"gcs": gcs} if program(GCS) else {}),
}
"""The stores that this run has: the strict servers only where they were built, and the run was told of them."""


@contextlib.contextmanager
def _running(server: str, arguments: list[str], environment: Mapping[str, str]) -> Iterator[str]:
    """A server on a port of its own, which answers; it ends with the block."""
    port = free_port()
    command = [str(program(server)), *(argument.format(port=port) for argument in arguments)]
    with subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            _wait_until_it_answers(process, port)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + _STARTS_WITHIN_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            return


def _create_container(url: str) -> None:
    """Azure's "Create Container", signed by the account's shared key."""
    named = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    path = url.partition("://")[2].partition("/")[2]
    resource = f"/{_ACCOUNT}/{path}\nrestype:container"
    text = "\n".join(["PUT", *[""] * 11, *(f"{key}:{value}" for key, value in named.items()), resource])
    digest = hmac.new(base64.b64decode(_ACCOUNT_KEY), text.encode(), hashlib.sha256).digest()
    signature = f"SharedKey {_ACCOUNT}:{base64.b64encode(digest).decode()}"
    _send("PUT", f"{url}?restype=container", {**named, "Authorization": signature})


def _send(method: str, url: str, headers: Mapping[str, str], data: bytes | None = None) -> None:
    request = urllib.request.Request(url, data=data, method=method, headers=dict(headers))  # noqa: S310 - our own server
    try:
        with urllib.request.urlopen(request):  # noqa: S310
            pass
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{method} {url}: {error.code} {error.read()!r}") from error
